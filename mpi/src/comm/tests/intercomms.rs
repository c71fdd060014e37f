//! Intercommunicators: how they are made, and what is made of them.

use super::*;
use crate::coll::{Allreduce, Bcast, CallKind};
use crate::op::{Builtin, Op};
use crate::p2p::{SendMode, Typed};
use crate::status::{ANY_SOURCE, ROOT_BESIDE, ROOT_HERE};

/// The intercommunicator of the first `n` processes and the others, led by the last ones.
fn halves(m: &Mpi, n: i32) -> Rc<Communicator> {
    let (me, last) = (m.rank().0 as i32, m.size() as i32 - 1);
    let (low, leader, other) = match me < n {
        true => (0, n - 1, last),
        false => (1, last - n, n - 1),
    };
    let local = m.comm_split(m.world(), low, 0).unwrap().unwrap();
    let peer = Ok((m.world().clone(), other));
    m.intercomm_create(&local, leader, peer, 7).unwrap()
}

/// Messages of all kinds meet their receives.
fn connects(m: &Mpi, inter: &Rc<Communicator>) {
    let datatype = crate::datatype::Datatype::named(crate::datatype::Named::Byte);
    let remote = inter.remote_group().unwrap();
    let me = m.rank().0 as u8;
    let mut out = me;
    let mut requests = Vec::new();
    for to in 0..remote.size() {
        let data = Data::new(&raw mut out, 1, &datatype);
        // SAFETY: `out` lives until the waits.
        let request = unsafe { m.isend(&data, to as i32, 1, inter, SendMode::Standard) };
        requests.push(request.unwrap());
    }
    for _ in 0..remote.size() {
        let status = m.probe(ANY_SOURCE, 1, inter).unwrap();
        let mut cell = 0xFFu8;
        let data = Data::new(&raw mut cell, 1, &datatype);
        // SAFETY: `cell` lives until the call returns.
        unsafe { m.recv(&data, status.source, 1, inter) }.unwrap();
        let from = remote.world_rank(status.source as usize).0;
        assert_eq!(u32::from(cell), from);
    }
    for request in requests {
        m.wait(request).unwrap();
    }
    for to in 0..remote.size() {
        let wire = inter.context_at(to, Traffic::PointToPoint);
        assert!(inter.carries(wire, Some(remote.world_rank(to))));
    }
    works(
        m,
        &Rc::new(Communicator::made(
            lent(inter),
            inter.whole().group().clone(),
        )),
    );
}

/// The contexts of both groups as one.
fn lent(inter: &Communicator) -> Contexts {
    let whole = inter.whole();
    let all =
        (0..whole.size()).map(|rank| context::number(whole.context_at(rank, Traffic::Creation)));
    Contexts {
        own: inter.id.lend(),
        all: all.collect(),
    }
}

#[test]
fn two_groups_meet_by_their_leaders() {
    run_seeds(5, |m| {
        let inter = halves(&m, 2);
        let me = m.rank().0;
        let (local, remote): (&[u32], &[u32]) = match me < 2 {
            true => (&[0, 1], &[2, 3, 4]),
            false => (&[2, 3, 4], &[0, 1]),
        };
        assert!(inter.is_inter());
        assert_eq!(members(&inter), local);
        assert!(
            inter
                .remote_group()
                .unwrap()
                .iter()
                .eq(remote.iter().copied())
        );
        connects(&m, &inter);

        let ids = m.live_communicators();
        let twin = m.comm_dup(&inter).unwrap();
        assert_eq!(m.live_communicators(), ids + 1);
        assert_eq!(twin.compare(&inter), Comparison::Congruent);
        assert_eq!(inter.compare(&inter), Comparison::Ident);
        assert_eq!(inter.compare(m.world()), Comparison::Unequal);
        connects(&m, &twin);
        let late: Rc<OnceCell<Rc<Communicator>>> = Rc::default();
        let into = late.clone();
        let request = idup(&m, &twin, move |c| into.set(c).unwrap());
        connects(&m, &inter);
        m.wait(request).unwrap();
        connects(&m, late.get().unwrap());
        m.comm_free(&twin).unwrap();
        drop((twin, late));
        m.reap();
        assert_eq!(m.live_communicators(), ids);
    });
}

#[test]
fn a_bridge_may_be_an_intercommunicator() {
    run_seeds(5, |m| {
        let inter = halves(&m, 3);
        let local = Rc::new(
            m.world()
                .group()
                .incl([m.rank().0 as i32].into_iter())
                .unwrap(),
        );
        let alone = m.comm_create_from_group(&local, "alone").unwrap().unwrap();
        // The second ones of both groups meet.
        if inter.rank() == 1 {
            let pair = m
                .intercomm_create(&alone, 0, Ok((inter.clone(), 1)), 0)
                .unwrap();
            let other = if m.rank().0 == 1 { 4 } else { 1 };
            assert!(pair.remote_group().unwrap().iter().eq([other]));
            connects(&m, &pair);
        }
        connects(&m, &inter);
    });
}

#[test]
fn merged_groups_have_the_order_that_they_say() {
    run_seeds(5, |m| {
        let inter = halves(&m, 2);
        let low = m.rank().0 < 2;
        let merged = m.intercomm_merge(&inter, !low).unwrap();
        assert_eq!(members(&merged), [0, 1, 2, 3, 4]);
        works(&m, &merged);
        let merged = m.intercomm_merge(&inter, low).unwrap();
        assert_eq!(members(&merged), [2, 3, 4, 0, 1]);
        works(&m, &merged);
        for high in [false, true] {
            let merged = m.intercomm_merge(&inter, high).unwrap();
            assert_eq!(members(&merged), [0, 1, 2, 3, 4]);
            works(&m, &merged);
        }
        let differ = m.intercomm_merge(&inter, m.rank().0 == 2);
        assert_eq!(differ.unwrap_err().class, ErrorClass::Arg);
        let intra = m.intercomm_merge(m.world(), false);
        assert_eq!(intra.unwrap_err().class, ErrorClass::Comm);
    });
}

#[test]
fn parts_of_both_groups() {
    run_seeds(7, |m| {
        let inter = halves(&m, 3);
        let me = m.rank().0;
        // By parity, from the last to the first.
        let color = (me % 2) as i32;
        let part = m.comm_split(&inter, color, -(me as i32)).unwrap().unwrap();
        let expected: [&[u32]; 2] = match (me < 3, color) {
            (true, 0) => [&[2, 0], &[6, 4]],
            (false, 0) => [&[6, 4], &[2, 0]],
            (true, _) => [&[1], &[5, 3]],
            (false, _) => [&[5, 3], &[1]],
        };
        assert_eq!(members(&part), expected[0]);
        let remote = part.remote_group().unwrap();
        assert!(remote.iter().eq(expected[1].iter().copied()));
        connects(&m, &part);
        // A colour of one side only gives nothing.
        let color = if me < 3 { 0 } else { me as i32 % 2 };
        let part = m.comm_split(&inter, color, 0).unwrap();
        assert_eq!(part.is_some(), color == 0);
        part.iter().for_each(|part| connects(&m, part));

        let some = |ranks: &[i32]| Rc::new(inter.group().incl(ranks.iter().copied()).unwrap());
        let mine = if me < 3 { some(&[2, 1]) } else { some(&[0]) };
        let part = m.comm_create(&inter, &mine).unwrap();
        assert_eq!(part.is_some(), [1, 2, 3].contains(&me));
        if let Some(part) = &part {
            let local: &[u32] = if me < 3 { &[2, 1] } else { &[3] };
            assert_eq!(members(part), local);
            connects(&m, part);
        }
        let mine = if me < 3 { some(&[0]) } else { some(&[]) };
        assert!(m.comm_create(&inter, &mine).unwrap().is_none());
    });
}

#[test]
fn processes_of_both_groups_on_a_host() {
    run_seeds(5, |m| {
        let inter = halves(&m, 2);
        let shared = m.comm_split_type(&inter, SplitType::Shared, 0, None);
        let shared = shared.unwrap();
        // The last process is alone on its host.
        assert_eq!(shared.is_some(), m.rank().0 < 4);
        if let Some(shared) = &shared {
            let (local, remote): (&[u32], &[u32]) = match m.rank().0 < 2 {
                true => (&[0, 1], &[2, 3]),
                false => (&[2, 3], &[0, 1]),
            };
            assert_eq!(members(shared), local);
            let others = shared.remote_group().unwrap();
            assert!(others.iter().eq(remote.iter().copied()));
            connects(&m, shared);
        }
    });
}

#[test]
fn groups_that_overlap_meet_with_one_text() {
    for seed in 1..=30 {
        println!("seed {seed}");
        run(6, seed, |m| {
            let mut common = Draw(seed);
            for _ in 0..16 {
                let sides: Vec<usize> = (0..6).map(|_| common.below(3)).collect();
                let leaders = [common.below(6), common.below(6)];
                let group = |side: usize| {
                    let ranks = (0..6).filter(|&rank| sides[rank] == side);
                    let group = m.world().group().incl(ranks.map(|rank| rank as i32));
                    Rc::new(group.unwrap())
                };
                let groups = [group(0), group(1)];
                let mine = sides[m.rank().0 as usize];
                if mine == 2 || groups.iter().any(|group| group.size() == 0) {
                    continue;
                }
                let leader = |side: usize| (leaders[side] % groups[side].size()) as i32;
                let other = (groups[1 - mine].clone(), leader(1 - mine));
                let made =
                    m.intercomm_create_from_groups(&groups[mine], leader(mine), Ok(other), "text");
                let made = made.unwrap().unwrap();
                assert!(
                    made.remote_group()
                        .unwrap()
                        .iter()
                        .eq(groups[1 - mine].iter())
                );
                connects(&m, &made);
            }
        });
    }
}

/// The class of the error of a call.
fn class<T>(made: Result<T>) -> ErrorClass {
    made.map(drop).unwrap_err().class
}

#[test]
fn wrong_arguments_of_one_process_are_errors_at_all() {
    run_seeds(5, |m| {
        let inter = halves(&m, 2);
        let is_wrong = m.rank().0 == 4;
        for comm in [&inter, m.world()] {
            let color = if is_wrong { -7 } else { 0 };
            assert_eq!(class(m.comm_split(comm, color, 0)), ErrorClass::Arg);
            let nobody = Rc::new(comm.group().incl(std::iter::empty()).unwrap());
            let group = match (is_wrong, comm.remote_group()) {
                (false, _) => nobody,
                (true, Ok(remote)) => remote.clone(),
                // There is no such process.
                (true, Err(_)) => Rc::new(Group::new(vec![4, 5], m.rank())),
            };
            assert_eq!(class(m.comm_create(comm, &group)), ErrorClass::Group);
        }
        connects(&m, &inter);
    });
}

#[test]
fn wrong_arguments_are_errors_at_all_members() {
    run_seeds(4, |m| {
        let low = m.rank().0 < 2;
        let local = m.comm_split(m.world(), i32::from(low), 0).unwrap().unwrap();
        let class = |leader, peer, tag| class(m.intercomm_create(&local, leader, peer, tag));
        let at = |rank| Ok((m.world().clone(), rank));
        assert_eq!(class(2, at(0), 0), ErrorClass::Rank);
        assert_eq!(class(0, at(0), -1), ErrorClass::Tag);
        // Only the leader knows the reason.
        let told = |reason| match local.rank() {
            0 => reason,
            _ => ErrorClass::Comm,
        };
        assert_eq!(class(0, at(4), 0), told(ErrorClass::Rank));
        // The leader itself, and another member of its group.
        for other in if low { [0, 1] } else { [2, 3] } {
            assert_eq!(class(0, at(other), 0), told(ErrorClass::Rank));
        }
        let none = Err(Error::new(ErrorClass::Comm, "a test"));
        assert_eq!(class(0, none, 0), ErrorClass::Comm);
        // The other group hears of the wrong tag of one member.
        let is_wrong = m.rank().0 == 1;
        let tag = if is_wrong { -1 } else { 0 };
        let reason = match m.rank().0 {
            0 => ErrorClass::Arg,
            1 => ErrorClass::Tag,
            _ => ErrorClass::Comm,
        };
        assert_eq!(class(0, at(if low { 2 } else { 0 }), tag), reason);
    });
}

#[test]
fn groups_without_parent_that_can_not_meet() {
    run_seeds(4, |m| {
        let me = m.rank().0;
        let group = |ranks: &[i32]| {
            let group = m.world().group().incl(ranks.iter().copied());
            Rc::new(group.unwrap())
        };
        let made = |group: &Rc<Group>, other: Rc<Group>, leader| {
            m.intercomm_create_from_groups(group, 0, Ok((other, leader)), "text")
        };
        let first = |reason| match me {
            0 | 2 => reason,
            _ => ErrorClass::Comm,
        };
        let mine = group(if me < 2 { &[0, 1] } else { &[2, 3] });
        let other = group(if me < 2 { &[2, 3] } else { &[0, 1] });
        // All are in both groups.
        let all = m.world().group().clone();
        let reason = if me == 0 {
            ErrorClass::Group
        } else {
            ErrorClass::Comm
        };
        assert_eq!(class(made(&all, all.clone(), 1)), reason);
        // The first leader names a part of the other group, or another order.
        for named in [&[2][..], &[3, 2]] {
            let leader = named.iter().position(|&rank| rank == 2).unwrap_or_default();
            let (named, leader) = match me {
                0 => (group(named), leader as i32),
                _ => (other.clone(), 0),
            };
            assert_eq!(class(made(&mine, named, leader)), first(ErrorClass::Group));
        }
        // Only the leader's word counts.
        let nobody = group(&[]);
        let named = if me % 2 == 0 { &nobody } else { &other };
        assert!(made(&mine, named.clone(), 0).unwrap().is_none());
        assert!(made(&nobody, other.clone(), 0).unwrap().is_none());
        let named = if me % 2 == 1 { nobody } else { other };
        connects(&m, &made(&mine, named, 0).unwrap().unwrap());
    });
}

#[test]
fn a_call_in_flight_outlives_its_communicator() {
    run_seeds(5, |m| {
        let ids = m.live_communicators();
        let small = crate::datatype::Datatype::named(crate::datatype::Named::Uint8);
        for waits in [false, true] {
            let inter = halves(&m, 2);
            let others = inter.peers().size() as u8;
            let mut cells = [1u8, 0];
            let [mine, sum] = &mut cells;
            // SAFETY: the cells live until the wait.
            let typed = |cell: &mut u8| unsafe { Typed::new(cell, 1, small.clone()) };
            let (send, recv) = (Some(typed(mine)), typed(sum));
            let op = Op::builtin(Builtin::Sum);
            let request = m.start_collective(&inter, Allreduce { op, send, recv });
            match waits {
                false => m.comm_free(&inter).unwrap(),
                true => m.comm_disconnect(&inter).unwrap(),
            }
            drop(inter);
            assert_eq!(m.wait(request.unwrap()).unwrap().error, None);
            assert_eq!(cells[1], others);
        }
        m.reap();
        assert_eq!(m.live_communicators(), ids);
    });
}

/// Others of the peer communicator's messages may have the tag that the leaders meet with.
#[test]
fn leaders_meet_beside_collectives_of_the_peer_communicator() {
    run_seeds(3, |m| {
        let inter = halves(&m, 2);
        let me = m.rank().0;
        let local = m.comm_split(m.world(), i32::from(me < 2), 0);
        let local = local.unwrap().unwrap();
        let mut cell = if me == 1 { 7u8 } else { 0 };
        let byte = crate::datatype::Datatype::named(crate::datatype::Named::Byte);
        // SAFETY: `cell` lives until the wait.
        let data = unsafe { Typed::new(&raw mut cell, 1, byte) };
        let root = [ROOT_BESIDE, ROOT_HERE, 1][me as usize];
        let start = || m.start_collective(&inter, Bcast { data, root }).unwrap();
        let meet = || {
            let (leader, other) = if me < 2 { (1, 0) } else { (0, 1) };
            let tag = CallKind::Nonblocking as i32;
            let peer = Ok((inter.clone(), other));
            m.intercomm_create(&local, leader, peer, tag).unwrap()
        };
        let (made, request) = match me {
            2 => {
                let made = meet();
                (made, start())
            }
            _ => {
                let request = start();
                (meet(), request)
            }
        };
        m.wait(request).unwrap();
        assert_eq!(cell, [0, 7, 7][me as usize]);
        connects(&m, &made);
    });
}
