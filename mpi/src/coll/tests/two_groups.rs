//! Collectives on intercommunicators, of all small sizes of both groups and with all roots.

use super::super::typed::Shares;
use super::super::{
    Allgather, Allgatherv, Allreduce, Alltoall, Alltoallv, Barrier, Bcast, Collective, Gather,
    Gatherv, Reduce, ReduceScatter, Scan, Scatter, Scatterv,
};
use super::typed::{Buffer, affine, bytes, compose, gappy, types};
use crate::adi::testnet;
use crate::comm::Communicator;
use crate::datatype::{Datatype, Named};
use crate::error::ErrorClass;
use crate::op::{Builtin, Op};
use crate::p2p::Typed;
use crate::runtime::Mpi;
use crate::status::{ROOT_BESIDE, ROOT_HERE};
use std::rc::Rc;

mod disagreements;

/// A process's view of two groups.
struct Sides<'a> {
    m: &'a Mpi,
    inter: Rc<Communicator>,
    /// This process's group: 0 or 1.
    group: usize,
    me: usize,
    /// Sizes of both groups.
    sizes: [usize; 2],
}

impl<'a> Sides<'a> {
    /// Group 0 has `sizes[0]` processes: the first ones of the job, or the last ones in an order
    /// from the end.
    fn new(m: &'a Mpi, sizes: [usize; 2], turned: bool) -> Self {
        let (world, n) = (m.rank().0 as usize, sizes[0] + sizes[1]);
        let place = if turned { n - 1 - world } else { world };
        let group = usize::from(place >= sizes[0]);
        let local = m.comm_split(m.world(), group as i32, place as i32);
        let local = local.unwrap().unwrap();
        // The last process of each group leads it.
        let other = [n - 1, sizes[0] - 1][group];
        let other = if turned { n - 1 - other } else { other } as i32;
        let peer = Ok((m.world().clone(), other));
        let leader = sizes[group] as i32 - 1;
        let inter = m.intercomm_create(&local, leader, peer, 3).unwrap();
        assert_eq!(inter.size(), sizes[group]);
        assert_eq!(inter.remote_group().unwrap().size(), sizes[1 - group]);
        let me = inter.rank();
        Self {
            m,
            inter,
            group,
            me,
            sizes,
        }
    }

    fn run(&self, call: impl Collective) {
        self.m.collective(&self.inter, &call).unwrap();
    }

    /// Size of the other group.
    fn others(&self) -> usize {
        self.sizes[1 - self.group]
    }

    /// The root's argument here, if it is rank `root` of `group`.
    fn root(&self, group: usize, root: usize) -> usize {
        match (self.group == group, self.me == root) {
            (true, true) => ROOT_HERE,
            (true, false) => ROOT_BESIDE,
            (false, _) => root,
        }
    }

    /// All roots, as this process names them, and whose they are.
    fn roots(&self) -> Vec<(usize, usize, usize)> {
        let all = (0..2).flat_map(|group| (0..self.sizes[group]).map(move |root| (group, root)));
        all.map(|(group, root)| (group, root, self.root(group, root)))
            .collect()
    }
}

/// Runs `body` on all sizes of both groups.
fn with_sizes(seed: u64, body: impl Fn(&Sides<'_>) + Send + Sync + Copy + 'static) {
    for a in 1..=4usize {
        for b in 1..=4usize {
            let turned = (a + b) % 2 == 1;
            testnet::run(a + b, seed + (a * 5 + b) as u64, move |m| {
                body(&Sides::new(&m, [a, b], turned));
            });
        }
    }
}

/// What a process sends.
fn block(t: &Datatype, count: usize, group: usize, rank: usize) -> Vec<u8> {
    bytes(t, count, 100 * group + rank)
}

#[test]
fn moves_with_a_root_in_the_other_group() {
    with_sizes(1, |s| {
        for (t, count) in types().iter().flat_map(|t| [(t, 0), (t, 1), (t, 3)]) {
            for (group, root, arg) in s.roots() {
                let others = s.sizes[1 - group];
                let from = |rank| block(t, count, 1 - group, rank);
                let whole: Vec<u8> = (0..others).flat_map(from).collect();
                let sent = block(t, count, group, root);

                let mut data = Buffer::filled(t, &block(t, count, s.group, s.me));
                let root = arg;
                let before = data.packed();
                s.run(Bcast {
                    data: data.all(),
                    root,
                });
                let got = if s.group == group { &before } else { &sent };
                assert_eq!(&data.packed(), got);

                let mut mine = Buffer::filled(t, &before);
                let mut all = Buffer::blank(t, others * count);
                let recv = (root == ROOT_HERE).then(|| all.part(0, count));
                let send = (s.group != group).then(|| mine.all());
                s.run(Gather { send, recv, root });
                if root == ROOT_HERE {
                    assert_eq!(all.packed(), whole);
                }

                let mut got = Buffer::blank(t, count);
                let send = (root == ROOT_HERE).then(|| all.part(0, count));
                let recv = (s.group != group).then(|| got.all());
                s.run(Scatter { send, recv, root });
                if s.group != group {
                    assert_eq!(got.packed(), block(t, count, s.group, s.me));
                }
            }
        }
    });
}

#[test]
fn uneven_moves_with_a_root_in_the_other_group() {
    with_sizes(2, |s| {
        for t in &types() {
            for (group, _, root) in s.roots() {
                // Rank i's block has i elements, so one is empty.
                let others = s.sizes[1 - group];
                let start = |i: usize| i * i.saturating_sub(1) / 2;
                let from = |rank| block(t, rank, 1 - group, rank);
                let whole: Vec<u8> = (0..others).flat_map(from).collect();
                let mut all = Buffer::blank(t, start(others));
                let parts: Vec<Typed> = match root {
                    ROOT_HERE => (0..others).map(|i| all.part(start(i), i)).collect(),
                    _ => Vec::new(),
                };
                let mut mine = Buffer::filled(t, &block(t, s.me, s.group, s.me));
                let send = (s.group != group).then(|| mine.all());
                let recv = parts.clone();
                s.run(Gatherv { send, recv, root });
                if root == ROOT_HERE {
                    assert_eq!(all.packed(), whole);
                }
                let mut got = Buffer::blank(t, s.me);
                let recv = (s.group != group).then(|| got.all());
                let send = parts;
                s.run(Scatterv { send, recv, root });
                if s.group != group {
                    assert_eq!(got.packed(), mine.packed());
                }
            }
        }
    });
}

#[test]
fn moves_among_all() {
    with_sizes(3, |s| {
        s.run(Barrier {});
        let (me, other, others) = (s.me, 1 - s.group, s.others());
        for (t, count) in types().iter().flat_map(|t| [(t, 0), (t, 1), (t, 3)]) {
            let mut mine = Buffer::filled(t, &block(t, count, s.group, me));
            let whole: Vec<u8> = (0..others)
                .flat_map(|rank| block(t, count, other, rank))
                .collect();
            let mut all = Buffer::blank(t, others * count);
            let (send, recv) = (Some(mine.all()), all.part(0, count));
            s.run(Allgather { send, recv });
            assert_eq!(all.packed(), whole);

            let row = |group: usize, i: usize| bytes(t, 4 * count, 1000 + 100 * group + i);
            let len = count * t.size() as usize;
            let column: Vec<u8> = (0..others)
                .flat_map(|i| row(other, i)[me * len..(me + 1) * len].to_vec())
                .collect();
            let mut out = Buffer::filled(t, &row(s.group, me));
            let mut into = Buffer::blank(t, others * count);
            let (send, recv) = (Some(out.part(0, count)), into.part(0, count));
            s.run(Alltoall { send, recv });
            assert_eq!(into.packed(), column);
        }
    });
}

#[test]
fn uneven_moves_among_all() {
    with_sizes(4, |s| {
        let (me, other, others) = (s.me, 1 - s.group, s.others());
        let start = |i: usize| i * i.saturating_sub(1) / 2;
        for t in &types() {
            let mut mine = Buffer::filled(t, &block(t, me, s.group, me));
            let whole: Vec<u8> = (0..others)
                .flat_map(|rank| block(t, rank, other, rank))
                .collect();
            let mut all = Buffer::blank(t, start(others));
            let recv = (0..others).map(|i| all.part(start(i), i)).collect();
            let send = Some(mine.all());
            s.run(Allgatherv { send, recv });
            assert_eq!(all.packed(), whole);

            // From i to j go j elements.
            let line = |group: usize, i: usize| bytes(t, 6, 1000 + 100 * group + i);
            let element = t.size() as usize;
            let expected: Vec<u8> = (0..others)
                .flat_map(|i| line(other, i)[start(me) * element..start(me + 1) * element].to_vec())
                .collect();
            let mut out = Buffer::filled(t, &line(s.group, me));
            let mut into = Buffer::blank(t, others * me);
            let send = Some((0..others).map(|j| out.part(start(j), j)).collect());
            let recv = (0..others).map(|i| into.part(i * me, me)).collect();
            s.run(Alltoallv { send, recv });
            assert_eq!(into.packed(), expected);
        }
    });
}

#[test]
fn reductions_give_each_group_what_the_other_has_combined() {
    with_sizes(5, |s| {
        let (t, op) = (gappy(), affine());
        // As many elements as both groups divide.
        let total = s.sizes[0] * s.sizes[1] * 2;
        let element = t.size() as usize;
        let value = |group: usize, rank: usize| bytes(&t, total, 10 + 100 * group + rank);
        let combined = |group: usize| {
            let rest = (1..s.sizes[group]).map(|rank| value(group, rank));
            rest.fold(value(group, 0), |acc, next| compose(&acc, &next))
        };
        let other = 1 - s.group;
        let mut mine = Buffer::filled(&t, &value(s.group, s.me));
        let mut got = Buffer::blank(&t, total);
        let (send, recv) = (Some(mine.all()), got.all());
        let op = || op.clone();
        s.run(Allreduce {
            op: op(),
            send,
            recv,
        });
        assert_eq!(got.packed(), combined(other));

        for (group, _, root) in s.roots() {
            let mut got = Buffer::blank(&t, total);
            let send = (s.group != group).then(|| mine.all());
            let recv = (root == ROOT_HERE).then(|| got.all());
            s.run(Reduce {
                op: op(),
                send,
                recv,
                root,
            });
            if root == ROOT_HERE {
                assert_eq!(got.packed(), combined(other));
            }
        }

        let each = total / s.sizes[s.group];
        // The first gives what it has less to the last.
        let mut uneven = vec![each as i64; s.sizes[s.group]];
        uneven[0] -= 1;
        *uneven.last_mut().unwrap() += 1;
        for shares in [Shares::Equal(each as i64), Shares::Each(uneven.clone())] {
            let (start, own) = match &shares {
                Shares::Equal(_) => (s.me * each, each),
                Shares::Each(counts) => {
                    let before: i64 = counts[..s.me].iter().sum();
                    (before as usize, counts[s.me] as usize)
                }
            };
            let mut got = Buffer::blank(&t, own);
            let (send, recv) = (Some(mine.all()), got.all());
            s.run(ReduceScatter {
                op: op(),
                send,
                recv,
                shares,
            });
            let whole = combined(other);
            assert_eq!(
                got.packed(),
                whole[start * element..(start + own) * element]
            );
        }
    });
}

#[test]
fn calls_in_flight_do_not_mix() {
    with_sizes(6, |s| {
        let t = Datatype::named(Named::Int64);
        let sum = Op::builtin(Builtin::Sum);
        let value = |x: usize| (x as i64).to_le_bytes();
        let mut mine = Buffer::filled(&t, &value(1 + s.me + 10 * s.group));
        let (mut a, mut b) = (Buffer::blank(&t, 1), Buffer::blank(&t, s.others()));
        let mut c = Buffer::blank(&t, 1);
        let reduce = |into: &mut Buffer, mine: &mut Buffer| Allreduce {
            op: sum.clone(),
            send: Some(mine.all()),
            recv: into.all(),
        };
        let total: usize = (0..s.others()).map(|i| 1 + i + 10 * (1 - s.group)).sum();
        let each = (0..s.others()).map(|i| value(1 + i + 10 * (1 - s.group)));
        let gather = Allgather {
            send: Some(mine.all()),
            recv: b.part(0, 1),
        };
        let kept = s.m.collective_init(&s.inter, reduce(&mut c, &mut mine));
        let kept = kept.unwrap();
        let first = s.m.start_collective(&s.inter, reduce(&mut a, &mut mine));
        let second = s.m.start_collective(&s.inter, gather);
        for round in 0..2 {
            // SAFETY: the buffers outlive the request.
            unsafe { s.m.start(kept) }.unwrap();
            s.run(Barrier {});
            assert_eq!(s.m.wait(kept).unwrap().error, None, "round {round}");
            assert_eq!(c.packed(), value(total));
        }
        assert_eq!(s.m.wait(second.unwrap()).unwrap().error, None);
        assert_eq!(s.m.wait(first.unwrap()).unwrap().error, None);
        assert_eq!(a.packed(), value(total));
        assert_eq!(b.packed(), each.collect::<Vec<_>>().concat());
        s.m.request_free(kept).unwrap();
    });
}

#[test]
fn what_is_not_defined_is_refused() {
    testnet::run(3, 1, |m| {
        let s = Sides::new(&m, [1, 2], false);
        let t = Datatype::named(Named::Int64);
        let (mut a, mut b) = (Buffer::blank(&t, 1), Buffer::blank(&t, 1));
        let op = Op::builtin(Builtin::Sum);
        let (send, recv) = (Some(a.all()), b.all());
        let scan = Scan {
            op: op.clone(),
            send,
            recv,
            exclusive: false,
        };
        let refused = m.collective(&s.inter, &scan);
        assert_eq!(refused.unwrap_err().class, ErrorClass::Comm);
        let recv = b.all();
        let in_place = Allreduce {
            op,
            send: None,
            recv,
        };
        let refused = m.collective(&s.inter, &in_place);
        assert_eq!(refused.unwrap_err().class, ErrorClass::Buffer);
    });
}
