//! The sends of one collective have one order, whatever the order of arrival: the log records only
//! which task issued a send.

use super::*;
use crate::coll::typed::Shares;
use crate::coll::{
    Allgather, Allgatherv, Allreduce, Alltoall, Alltoallv, Barrier, Bcast, Collective, Gather,
    Reduce, ReduceScatter, Scan, Scatter,
};
use crate::op::{Builtin, Op};
use crate::p2p::Typed;

/// The elements of a rank: `count` for each rank.
struct Vectors {
    send: Vec<i32>,
    recv: Vec<i32>,
    count: usize,
}

impl Vectors {
    fn part(values: &mut [i32], from: usize, count: usize) -> Typed {
        let int = Datatype::named(Named::Int);
        let part = &mut values[from..from + count];
        // SAFETY: the vectors outlive the call that uses the part, which waits.
        unsafe { Typed::new(part.as_mut_ptr().cast(), count as i64, int) }
    }

    fn one(&mut self) -> Typed {
        Self::part(&mut self.send, 0, self.count)
    }

    fn all(&mut self) -> Typed {
        let len = self.send.len();
        Self::part(&mut self.send, 0, len)
    }

    /// Parts of different lengths.
    fn uneven(values: &mut [i32], n: usize, length: impl Fn(usize) -> usize) -> Vec<Typed> {
        let count = values.len() / n;
        (0..n)
            .map(|i| Self::part(values, i * count, length(i).min(count)))
            .collect()
    }
}

fn sum() -> Rc<Op> {
    Op::builtin(Builtin::Sum)
}

fn moves(m: &Mpi, v: &mut Vectors) {
    let (n, me, root) = (m.size() as usize, m.rank().0 as usize, 1);
    let count = v.count;
    run_one(m, &Barrier {});
    let data = v.one();
    run_one(m, &Bcast { data, root });
    let each = Vectors::part(&mut v.recv, 0, count);
    let gather = Gather {
        send: Some(v.one()),
        recv: (me == root).then(|| each.clone()),
        root,
    };
    run_one(m, &gather);
    let scatter = Scatter {
        send: (me == root).then(|| v.one()),
        recv: Some(each.clone()),
        root,
    };
    run_one(m, &scatter);
    let (send, recv) = (Some(v.one()), each.clone());
    run_one(m, &Allgather { send, recv });
    let recv = Vectors::uneven(&mut v.recv, n, |i| i * count / 2);
    let own = Vectors::part(&mut v.send, 0, (me * count / 2).min(count));
    let send = Some(own);
    run_one(m, &Allgatherv { send, recv });
    let (send, recv) = (Some(v.one()), each);
    run_one(m, &Alltoall { send, recv });
    let length = |i| (i + me) % 3 * count / 2;
    let send = Some(Vectors::uneven(&mut v.send, n, length));
    let recv = Vectors::uneven(&mut v.recv, n, length);
    run_one(m, &Alltoallv { send, recv });
}

fn run_one(m: &Mpi, call: &impl Collective) {
    m.collective(m.world(), call).unwrap();
}

fn reductions(m: &Mpi, v: &mut Vectors) {
    let (n, me, root) = (m.size() as usize, m.rank().0 as usize, 2);
    let (send, recv) = (Some(v.one()), Vectors::part(&mut v.recv, 0, v.count));
    let reduce = Reduce {
        op: sum(),
        send: send.clone(),
        recv: (me == root).then(|| recv.clone()),
        root,
    };
    run_one(m, &reduce);
    // Also in place.
    for send in [send.clone(), None] {
        let (op, recv) = (sum(), recv.clone());
        run_one(m, &Allreduce { op, send, recv });
    }
    for exclusive in [false, true] {
        let scan = Scan {
            op: sum(),
            send: send.clone(),
            recv: recv.clone(),
            exclusive,
        };
        run_one(m, &scan);
    }
    let equal = ReduceScatter {
        op: sum(),
        send: Some(v.all()),
        recv,
        shares: Shares::Equal(v.count as i64),
    };
    run_one(m, &equal);
    let counts: Vec<i64> = (0..n).map(|i| (i % 2 * v.count) as i64).collect();
    let total: i64 = counts.iter().sum();
    let uneven = ReduceScatter {
        op: sum(),
        send: Some(Vectors::part(&mut v.send, 0, total as usize)),
        recv: Vectors::part(&mut v.recv, 0, counts[me] as usize),
        shares: Shares::Each(counts),
    };
    run_one(m, &uneven);
}

#[test]
fn sends_of_a_collective_have_one_order() {
    for n in [3, 5, 6, 9] {
        for count in [1, 300, 5000, 40_000] {
            let all: Vec<_> = (1..=4)
                .map(|seed| {
                    let sent = Mutex::new(vec![Vec::new(); n]);
                    run(n, seed, |m| {
                        let len = n * count;
                        let (send, recv) = (vec![1; len], vec![0; len]);
                        let mut v = Vectors { send, recv, count };
                        moves(&m, &mut v);
                        reductions(&m, &mut v);
                        let messages = sent_messages(&m);
                        sent.lock().unwrap()[m.rank().0 as usize] = messages;
                    });
                    sent.into_inner().unwrap()
                })
                .collect();
            assert!(
                all.iter().all(|one| *one == all[0]),
                "{n} ranks, {count} elements"
            );
        }
    }
}
