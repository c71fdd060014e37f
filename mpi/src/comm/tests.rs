use super::*;
use crate::adi::testnet::{run, run_seeds};
use crate::coll::{CallState, Ctx};
use crate::p2p::Data;
use crate::runtime::Mpi;
use crate::status::UNDEFINED;

mod intercomms;

fn members(c: &Communicator) -> Vec<u32> {
    c.group().iter().collect()
}

/// Messages of all members of `c` to all members meet their receives.
fn works(m: &Mpi, c: &Rc<Communicator>) {
    let state = CallState::new(m);
    let ctx = Ctx::of_all(c, 5, &state);
    let all = state.wait(ctx.notify_all(&c.id().to_le_bytes())).unwrap();
    let told = all
        .chunks(4)
        .map(|id| id.iter().rev().fold(0, |n, &b| n << 8 | u32::from(b)));
    let known = (0..c.size()).map(|rank| c.context_at(rank, Traffic::PointToPoint));
    assert!(told.map(|id| Traffic::PointToPoint.wire(id)).eq(known));
    for (rank, world) in c.group().iter().enumerate() {
        let wire = c.context_at(rank, Traffic::Collective);
        assert!(c.carries(wire, Some(rejoin_channel_table::Rank(world))));
    }
    assert!(c.carries(c.context(Traffic::Creation), None));
}

#[test]
fn dup_takes_the_lowest_id_and_gives_it_back() {
    run_seeds(5, |m| {
        let a = m.comm_dup(m.world()).unwrap();
        let b = m.comm_dup(&a).unwrap();
        assert_eq!((a.id(), b.id()), (2, 3));
        assert_eq!(a.compare(m.world()), Comparison::Congruent);
        assert_eq!(a.compare(&a), Comparison::Ident);
        m.comm_free(&a).unwrap();
        drop(a);
        let c = m.comm_dup(&b).unwrap();
        assert_eq!(c.id(), 2);
        works(&m, &c);
        assert_eq!(m.live_communicators(), 4);
    });
}

#[test]
fn a_pending_receive_keeps_the_context() {
    run(2, 3, |m| {
        let a = m.comm_dup(m.world()).unwrap();
        let mut cell = 0u8;
        let datatype = crate::datatype::Datatype::named(crate::datatype::Named::Byte);
        let d = Data::new(&mut cell, 1, &datatype);
        let peer = 1 - m.rank().0 as i32;
        // SAFETY: `cell` lives until the wait.
        let r = unsafe { m.irecv(&d, peer, 0, &a) }.unwrap();
        m.comm_free(&a).unwrap();
        let id = a.id();
        let kept = a.clone();
        drop(a);
        let b = m.comm_dup(m.world()).unwrap();
        assert_ne!(b.id(), id);
        let mut out = 9u8;
        let o = Data::new(&mut out, 1, &datatype);
        // SAFETY: `out` lives until the call returns.
        unsafe { m.send(&o, peer, 0, &kept, crate::p2p::SendMode::Standard) }.unwrap();
        drop(kept);
        m.wait(r).unwrap();
        assert_eq!(cell, 9);
        let c = m.comm_dup(m.world()).unwrap();
        assert_eq!(c.id(), id);
    });
}

#[test]
fn split_orders_by_key_and_then_rank() {
    run_seeds(7, |m| {
        let me = m.rank().0 as i32;
        let key = if me < 3 { 5 } else { -me };
        let c = m.comm_split(m.world(), me % 2, key).unwrap().unwrap();
        let want: &[u32] = if me % 2 == 0 {
            &[6, 4, 0, 2]
        } else {
            &[5, 3, 1]
        };
        assert_eq!(members(&c), want);
        assert_eq!(c.group().world_rank(c.rank()).0, me as u32);
        works(&m, &c);
        let color = if me == 6 { UNDEFINED } else { 0 };
        let d = m.comm_split(m.world(), color, 0).unwrap();
        assert_eq!(d.is_none(), me == 6);
        let e = m.comm_split(m.world(), -1, 0);
        assert_eq!(e.unwrap_err().class, ErrorClass::Arg);
    });
}

#[test]
fn split_type_knows_hosts() {
    run_seeds(6, |m| {
        let me = m.rank().0;
        let c = m
            .comm_split_type(m.world(), SplitType::Shared, 0, None)
            .unwrap()
            .unwrap();
        assert_eq!(
            members(&c),
            if me < 4 { vec![0, 1, 2, 3] } else { vec![4, 5] }
        );
        let h = m
            .comm_split_type(m.world(), SplitType::HwUnguided, 0, None)
            .unwrap()
            .unwrap();
        assert_eq!(members(&h), members(&c));
        assert!(
            m.comm_split_type(&h, SplitType::HwUnguided, 0, None)
                .unwrap()
                .is_none()
        );
        assert!(
            m.comm_split_type(m.world(), SplitType::HwGuided, 0, None)
                .unwrap()
                .is_none()
        );
        let kind = if me == 1 {
            SplitType::Undefined
        } else {
            SplitType::Shared
        };
        assert_eq!(
            m.comm_split_type(m.world(), kind, 0, None)
                .unwrap()
                .is_none(),
            me == 1
        );
    });
}

#[test]
fn create_and_create_group() {
    run_seeds(6, |m| {
        let me = m.rank().0;
        let all = m.world().group();
        let odd = Rc::new(all.range_incl(&[[5, 1, -2]]).unwrap());
        let c = m.comm_create(m.world(), &odd).unwrap();
        assert_eq!(c.is_some(), me % 2 == 1);
        if let Some(c) = &c {
            assert_eq!(members(c), [5, 3, 1]);
            works(&m, c);
        }
        // Only members call; the others are busy elsewhere, or nowhere.
        let some = Rc::new(all.incl([4, 1, 2].into_iter()).unwrap());
        if some.rank().is_some() {
            let g = m.comm_create_group(m.world(), &some, 3).unwrap().unwrap();
            assert_eq!(members(&g), [4, 1, 2]);
            works(&m, &g);
        }
        let alone = Rc::new(Group::new(vec![77], m.rank()));
        let bad = m.comm_create_group(m.world(), &alone, 3);
        assert_eq!(bad.unwrap_err().class, ErrorClass::Group);
    });
}

#[test]
fn nonblocking_dups_end_whatever_their_order() {
    run_seeds(4, |m| {
        let me = m.rank().0 as i32;
        let other = m.comm_dup(m.world()).unwrap();
        let made: Rc<RefCell<Vec<Rc<Communicator>>>> = Rc::default();
        let mut tasks = Vec::new();
        // Two agreements at a time in each process, begun in different orders.
        let order: [&Rc<Communicator>; 2] = if me % 2 == 0 {
            [m.world(), &other]
        } else {
            [&other, m.world()]
        };
        for comm in order {
            let made = made.clone();
            let run = m
                .comm_idup(comm, move |c| made.borrow_mut().push(c))
                .unwrap();
            tasks.push(m.start_task(
                Some(comm),
                Box::pin(async move {
                    run.await.unwrap();
                    crate::Completed::ok(crate::Status::EMPTY)
                }),
            ));
        }
        m.end_all(2, &|i| Some(tasks[i]), Mpi::wait, &mut |_, _| {})
            .unwrap();
        let mut ids: Vec<u32> = made.borrow().iter().map(|c| c.id()).collect();
        ids.sort_unstable();
        assert_eq!(ids, [3, 4]);
    });
}

/// A request that duplicates `comm` into `made`.
fn idup(
    m: &Mpi,
    comm: &Rc<Communicator>,
    made: impl FnOnce(Rc<Communicator>) + 'static,
) -> crate::request::RequestId {
    let run = m.comm_idup(comm, made).unwrap();
    m.start_task(
        Some(comm),
        Box::pin(async move {
            run.await.unwrap();
            crate::Completed::ok(crate::Status::EMPTY)
        }),
    )
}

#[test]
fn a_pending_dup_keeps_nobody_from_making_others() {
    run_seeds(4, |m| {
        let me = m.rank().0;
        let pair = m.comm_split(m.world(), me as i32 / 2, 0).unwrap().unwrap();
        let late: Rc<OnceCell<Rc<Communicator>>> = Rc::default();
        let begin = || {
            let late = late.clone();
            idup(&m, m.world(), move |c| late.set(c).unwrap())
        };
        // Rank 3 begins the duplicate of the world only after all have made the others.
        let early = (me != 3).then(begin);
        let own = m.comm_dup(m.self_comm()).unwrap();
        let other = m.comm_dup(&pair).unwrap();
        let some = Rc::new(m.world().group().incl([2, 0, 3].into_iter()).unwrap());
        let third = m.comm_create_group(m.world(), &some, 3).unwrap();
        m.wait(early.unwrap_or_else(begin)).unwrap();
        let all = [Some(&own), Some(&other), third.as_ref(), late.get()];
        all.into_iter().flatten().for_each(|comm| works(&m, comm));
    });
}

/// Numbers that a seed gives (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

/// Makes and drops communicators of overlapping groups in a sequence that is common to all ranks,
/// so that blocking calls meet. Each rank draws for itself when nonblocking calls end, and which
/// other calls take ids.
fn make_many(m: &Mpi, seed: u64) {
    const STEPS: usize = 16;
    let (me, half) = (m.rank().0 as i32, m.size() as i32 / 2);
    let split = |color| m.comm_split(m.world(), color, 0).unwrap().unwrap();
    let parents = [m.world().clone(), split(me / half), split(me % half)];
    let (mut common, mut own) = (Draw(seed), Draw(seed << 8 | (me as u64 + 1)));
    let made: Rc<RefCell<Vec<Option<Rc<Communicator>>>>> = Rc::default();
    made.borrow_mut().resize(STEPS, None);
    let (mut pending, mut alone) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        let parent = &parents[common.below(parents.len())];
        let new = match common.below(5) {
            0 => Some(m.comm_dup(parent).unwrap()),
            1 => m.comm_split(parent, parent.rank() as i32 % 2, 0).unwrap(),
            2 => {
                let last = parent.size() as i32 - 1;
                let group = parent.group().range_incl(&[[last, 0, -2]]).unwrap();
                m.comm_create(parent, &Rc::new(group)).unwrap()
            }
            _ => {
                let made = made.clone();
                let done = move |c| made.borrow_mut()[step] = Some(c);
                pending.push(idup(m, parent, done));
                None
            }
        };
        if new.is_some() {
            made.borrow_mut()[step] = new;
        }
        match own.below(4) {
            0 | 1 => alone.push(m.comm_dup(m.self_comm()).unwrap()),
            2 => alone.truncate(1),
            _ => {}
        }
        if !pending.is_empty() && own.below(3) == 0 {
            // Others may not have come to it: it is asked, not waited for.
            let at = own.below(pending.len());
            if m.test(pending[at]).unwrap().is_some() {
                pending.swap_remove(at);
            }
        }
    }
    for request in pending {
        m.wait(request).unwrap();
    }
    let made = made.take();
    let made: Vec<_> = made.iter().flatten().collect();
    made.iter().for_each(|comm| works(m, comm));
    let mut ids: Vec<u32> = made.iter().map(|c| c.id()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), made.len(), "two communicators have one id");
}

#[test]
fn communicators_of_overlapping_groups_are_made_in_any_interleaving() {
    for seed in 1..=60 {
        println!("seed {seed}");
        run(6, seed, |m| make_many(&m, seed));
    }
}

/// Communicators of drawn groups, one after the other and all with one tag. Each rank comes to each
/// call at a time of its own, so messages of several calls wait at a member that is late.
fn make_of_drawn_groups(
    m: &Mpi,
    seed: u64,
    mut create: impl FnMut(&Rc<Group>) -> Rc<Communicator>,
) {
    let mut common = Draw(seed);
    for _ in 0..24 {
        let drawn: Vec<u32> = (0..m.size()).filter(|_| common.below(2) == 1).collect();
        let turn = common.below(drawn.len().max(1));
        let ranks = drawn[turn..].iter().chain(&drawn[..turn]).copied();
        let group = Rc::new(m.world().group().incl(ranks.map(|r| r as i32)).unwrap());
        if group.rank().is_some() {
            let comm = create(&group);
            assert_eq!(members(&comm), group.iter().collect::<Vec<_>>());
            works(m, &comm);
        }
    }
}

#[test]
fn groups_that_overlap_make_communicators_with_one_tag() {
    for seed in 1..=40 {
        println!("seed {seed}");
        run(6, seed, |m| {
            let world = m.world().clone();
            make_of_drawn_groups(&m, seed, |group| {
                m.comm_create_group(&world, group, 3).unwrap().unwrap()
            });
            // In a communicator whose ranks are others than in the world.
            let turned = m
                .comm_split(&world, 0, -(world.rank() as i32))
                .unwrap()
                .unwrap();
            make_of_drawn_groups(&m, seed, |group| {
                m.comm_create_group(&turned, group, 3).unwrap().unwrap()
            });
            make_of_drawn_groups(&m, seed, |group| {
                m.comm_create_from_group(group, "one text")
                    .unwrap()
                    .unwrap()
            });
        });
    }
}

struct Count(Rc<RefCell<Vec<(usize, usize)>>>);

impl crate::attr::Callbacks for Count {
    fn copy(&self, _: usize, _: i32, value: usize) -> std::result::Result<Option<usize>, i32> {
        if value == 13 {
            Err(42)
        } else {
            Ok(Some(value + 1))
        }
    }
    fn delete(&self, object: usize, _: i32, value: usize) -> std::result::Result<(), i32> {
        self.0.borrow_mut().push((object, value));
        Ok(())
    }
}

#[test]
fn attributes_follow_their_communicator() {
    run(2, 1, |m| {
        let log: Rc<RefCell<Vec<(usize, usize)>>> = Rc::default();
        let kind = crate::attr::ObjectKind::Comm;
        let new = || {
            let id = m.keyvals().create(kind, Box::new(Count(log.clone())));
            m.keyvals().get(kind, id).unwrap()
        };
        let (a, b) = (new(), new());
        m.self_comm().attributes().set(1, &a, 1).unwrap();
        m.self_comm().attributes().set(1, &b, 2).unwrap();
        m.world().attributes().set(0, &a, 10).unwrap();
        let dup = m.comm_dup(m.world()).unwrap();
        dup.set_handle(7);
        m.world().attributes().set(0, &b, 13).unwrap();
        assert_eq!(m.comm_dup(m.world()).unwrap_err().code, Some(42));
        m.comm_free(&dup).unwrap();
        assert_eq!(log.take(), [(7, 11)]);
        assert!(m.comm_free(m.world()).is_err());
        m.finalize().unwrap();
        assert_eq!(log.take(), [(0, 2), (0, 1), (0, 13), (0, 10)]);
    });
}

#[test]
fn names_are_cut() {
    run(1, 1, |m| {
        assert_eq!(m.world().name(), "MPI_COMM_WORLD");
        m.world().set_name(&"é".repeat(100));
        assert_eq!(m.world().name().len(), 126);
    });
}
