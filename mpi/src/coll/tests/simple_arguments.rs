//! The second entry of collectives, for simple arguments: it has the same results, and a refused
//! call has done nothing.

use std::rc::Rc;

use super::super::{Allgather, Allreduce, Alltoall, Bcast, Reduce, Scan};
use crate::Result;
use crate::adi::testnet;
use crate::datatype::{Datatype, Form, Named};
use crate::error::ErrorClass;
use crate::op::{Builtin, Op, UserFunction};
use crate::p2p::{Data, Typed};
use crate::runtime::Mpi;

fn byte() -> Rc<Datatype> {
    Datatype::named(Named::Byte)
}

fn data<'a>(bytes: &mut [u8], count: usize, datatype: &'a Rc<Datatype>) -> Data<'a> {
    Data::new(bytes.as_mut_ptr(), count as i64, datatype)
}

fn typed(bytes: &mut [u8], count: usize, datatype: &Rc<Datatype>) -> Typed {
    // SAFETY: the bytes outlive the call.
    unsafe { Typed::new(bytes.as_mut_ptr(), count as i64, datatype.clone()) }
}

/// Every other time this rank takes the way of all other calls, whatever its peers do.
fn bcast(m: &Mpi, long: bool, bytes: &mut [u8], root: usize) {
    let t = byte();
    let count = bytes.len();
    if !long {
        // SAFETY: the bytes outlive the call.
        let done = unsafe { m.try_bcast(&data(bytes, count, &t), root as i32, m.world()) };
        return done.expect("it is of this kind").unwrap();
    }
    let data = typed(bytes, count, &t);
    m.collective(m.world(), &Bcast { data, root }).unwrap();
}

#[test]
fn ranks_may_take_either_way() {
    for n in [2, 3, 4] {
        testnet::run(n, 17, |m| {
            let (me, t) = (m.rank().0 as usize, byte());
            for round in 0..12 {
                let (long, root) = ((round + me) % 2 == 0, round % n);
                for len in [1, 8, 1024, 20_000] {
                    let mut bytes = vec![me as u8; len];
                    bcast(&m, long, &mut bytes, root);
                    assert_eq!(bytes, vec![root as u8; len]);

                    let mut from: Vec<u8> =
                        (0..n * len).map(|i| (me * 16 + i / len) as u8).collect();
                    let mut all = vec![0; n * len];
                    let (send, recv) = (typed(&mut from, len, &t), typed(&mut all, len, &t));
                    if long || len > 1024 {
                        let send = Some(send);
                        m.collective(m.world(), &Alltoall { send, recv }).unwrap();
                    } else {
                        let (send, recv) = (data(&mut from, len, &t), data(&mut all, len, &t));
                        // SAFETY: the buffers outlive the call.
                        let done = unsafe { m.try_alltoall(&send, &recv, m.world()) };
                        done.expect("it is of this kind").unwrap();
                    }
                    let right: Vec<u8> = (0..n * len).map(|i| (i / len * 16 + me) as u8).collect();
                    assert_eq!(all, right);

                    let mut mine = vec![me as u8; len];
                    let (send, recv) = (typed(&mut mine, len, &t), typed(&mut all, len, &t));
                    if long || len > 1024 {
                        let send = Some(send);
                        m.collective(m.world(), &Allgather { send, recv }).unwrap();
                    } else {
                        let (send, recv) = (data(&mut mine, len, &t), data(&mut all, len, &t));
                        // SAFETY: the buffers outlive the call.
                        let done = unsafe { m.try_allgather(&send, &recv, m.world()) };
                        done.expect("it is of this kind").unwrap();
                    }
                    let right: Vec<u8> = (0..n * len).map(|i| (i / len) as u8).collect();
                    assert_eq!(all, right);
                }
            }
        });
    }
}

/// The results of all reductions of this rank's number and its square, by one entry or the other.
fn reductions(m: &Mpi, second: bool, root: usize) -> [[i32; 2]; 4] {
    let (world, int) = (m.world(), Datatype::named(Named::Int));
    let op = Op::builtin(Builtin::Sum);
    let me = m.rank().0 as i32;
    let mut mine = [me, me * me];
    let mut results = [[-1; 2]; 4];
    let [all, one, below, before] = results.each_mut().map(|r| r.as_mut_ptr().cast::<u8>());
    let send = Data::new(mine.as_mut_ptr().cast(), 2, &int);
    if second {
        // SAFETY: the arrays outlive the calls.
        let done = unsafe {
            [
                m.try_allreduce(&op, &send, all, world),
                m.try_reduce(&op, &send, one, root as i32, world),
                m.try_scan(&op, &send, below, false, world),
                m.try_scan(&op, &send, before, true, world),
            ]
        };
        for done in done {
            done.expect("it is of this kind").unwrap();
        }
        return results;
    }
    // SAFETY: as above.
    let typed = |addr| unsafe { Typed::new(addr, 2, int.clone()) };
    let from = || Some(typed(mine.as_ptr().cast_mut().cast()));
    let (op, send) = (|| op.clone(), from);
    let call = Allreduce {
        op: op(),
        send: send(),
        recv: typed(all),
    };
    m.collective(world, &call).unwrap();
    let recv = (root == me as usize).then(|| typed(one));
    m.collective(
        world,
        &Reduce {
            op: op(),
            send: send(),
            recv,
            root,
        },
    )
    .unwrap();
    for (recv, exclusive) in [(below, false), (before, true)] {
        let call = Scan {
            op: op(),
            send: send(),
            recv: typed(recv),
            exclusive,
        };
        m.collective(world, &call).unwrap();
    }
    results
}

#[test]
fn reductions_have_the_same_results_by_either_entry() {
    for n in [1, 2, 3, 4, 6] {
        testnet::run(n, 23, |m| {
            let me = m.rank().0 as usize;
            for round in 0..12 {
                let root = round % n;
                let results = reductions(&m, (round + me).is_multiple_of(2), root);
                let sums =
                    |ranks: usize| (0..ranks as i32).fold([0, 0], |[a, b], r| [a + r, b + r * r]);
                let untouched = [-1; 2];
                let right = [
                    sums(n),
                    if me == root { sums(n) } else { untouched },
                    sums(me + 1),
                    if me > 0 { sums(me) } else { untouched },
                ];
                assert_eq!(results, right, "{n} ranks, round {round}");
            }
        });
    }
}

#[test]
fn operations_of_the_program_and_invalid_operands_are_refused() {
    testnet::run(1, 1, |m| {
        let int = Datatype::named(Named::Int);
        let (mut mine, mut all) = ([1i32; 2], [0i32; 2]);
        let send = Data::new(mine.as_mut_ptr().cast(), 2, &int);
        let tried = |op: &Rc<Op>, send: &Data<'_>, recv: *mut u8| -> Tried {
            // SAFETY: the arrays outlive the call.
            unsafe { m.try_allreduce(op, send, recv, m.world()) }
        };
        let into: *mut u8 = all.as_mut_ptr().cast();
        let function: Rc<UserFunction> = Rc::new(|_, _, _, _| ());
        assert!(tried(&Op::user(function, true), &send, into).is_none());
        for builtin in [Builtin::Replace, Builtin::NoOp, Builtin::Minloc] {
            assert!(
                tried(&Op::builtin(builtin), &send, into).is_none(),
                "{builtin:?}"
            );
        }
        let sum = Op::builtin(Builtin::Sum);
        assert!(tried(&sum, &send, std::ptr::null_mut()).is_none());
        assert!(tried(&sum, &send, mine.as_mut_ptr().cast()).is_none());
        assert!(tried(&sum, &Data::new(into, -1, &int), into).is_none());
        assert!(matches!(tried(&sum, &send, into), Some(Ok(()))));
        assert_eq!(all, mine);
    });
}

type Tried = Option<Result<()>>;

/// A refused call uses no number of a collective, so later calls still match.
#[test]
fn what_is_not_simple_is_refused_untouched() {
    testnet::run(3, 5, |m| {
        let (me, t) = (m.rank().0 as usize, byte());
        let loose = Datatype::contiguous(Form::Int, 2, &t).unwrap();
        let gaps = Datatype::vector(Form::Int, 2, 1, 2, &t).unwrap();
        gaps.commit();
        let mut bytes = vec![me as u8; 5000];
        let bcast = |bytes: &mut [u8], count, t: &Rc<Datatype>, root| -> Tried {
            // SAFETY: the bytes outlive the call.
            unsafe { m.try_bcast(&data(bytes, count, t), root, m.world()) }
        };
        // Only this rank, so that whatever was sent or awaited would be left over.
        if me == 0 {
            assert!(bcast(&mut bytes, usize::MAX, &t, 0).is_none(), "negative");
            assert!(bcast(&mut bytes, 1 << 20, &t, 0).is_none(), "too many");
            assert!(
                bcast(&mut bytes, 8, &t, 3).is_none() && bcast(&mut bytes, 8, &t, -1).is_none()
            );
            assert!(bcast(&mut bytes, 4, &loose, 0).is_none(), "not committed");
            assert!(bcast(&mut bytes, 4, &gaps, 0).is_none(), "with gaps");
            let (mut from, mut into) = (vec![0; 5000], vec![0; 5000]);
            let mut both = |count: i64, other: i64| -> [Tried; 2] {
                let send = Data::new(from.as_mut_ptr(), count, &t);
                let recv = Data::new(into.as_mut_ptr(), other, &t);
                // SAFETY: the buffers outlive the calls.
                unsafe {
                    [
                        m.try_alltoall(&send, &recv, m.world()),
                        m.try_allgather(&send, &recv, m.world()),
                    ]
                }
            };
            for (count, other) in [(4, 8), (1025, 1025), (0, 0), (-1, -1), (i64::MAX, i64::MAX)] {
                assert!(
                    both(count, other).iter().all(Option::is_none),
                    "{count} {other}"
                );
            }
        }
        assert!(matches!(bcast(&mut bytes, 8, &t, 1), Some(Ok(()))));
        assert_eq!(bytes[..9], [1, 1, 1, 1, 1, 1, 1, 1, me as u8]);
        assert_eq!(m.live_requests(), 0);
    });
}

#[test]
fn different_lengths_are_told() {
    testnet::run(2, 3, |m| {
        let (me, t) = (m.rank().0 as usize, byte());
        let mut bytes = vec![0; 16];
        // SAFETY: the bytes outlive the call.
        let done = unsafe { m.try_bcast(&data(&mut bytes, 8 + me, &t), 0, m.world()) };
        let class = done
            .expect("it is of this kind")
            .map_err(|error| error.class);
        let right = if me == 0 {
            Ok(())
        } else {
            Err(ErrorClass::Truncate)
        };
        assert_eq!(class, right);
    });
}
