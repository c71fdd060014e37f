//! Typed data over the whole layer: communicators, requests, datatypes with gaps, users'
//! operations.

use super::super::typed::Shares;
use super::super::{
    Allgather, Allgatherv, Allreduce, Alltoall, Alltoallv, Bcast, Collective, Gather, Gatherv,
    Reduce, ReduceScatter, Scan, Scatter, Scatterv,
};
use super::Rng;
use crate::adi::testnet;
use crate::datatype::{Datatype, Form, Named};
use crate::error::ErrorClass;
use crate::op::{Builtin, Op};
use crate::p2p::Typed;
use crate::runtime::Mpi;
use std::rc::Rc;

/// Two 64-bit integers at 8 and 24, bounds from -8 to 32.
pub(super) fn gappy() -> Rc<Datatype> {
    let long = Datatype::named(Named::Int64);
    let two = Datatype::structure(Form::Int, &[1, 1], &[8, 24], &[long.clone(), long]).unwrap();
    let gappy = Datatype::resized(Form::Int, &two, -8, 40).unwrap();
    gappy.commit();
    gappy
}

pub(super) fn types() -> Vec<Rc<Datatype>> {
    let long = Datatype::named(Named::Int64);
    let dense = Datatype::contiguous(Form::Int, 2, &long).unwrap();
    vec![dense, gappy(), Datatype::named(Named::DoubleInt)]
}

/// A program's buffer of `count` elements; gaps are filled with a pattern.
pub(super) struct Buffer {
    words: Vec<u64>,
    count: i64,
    datatype: Rc<Datatype>,
}

const GAP: u64 = 0xEEEE_EEEE_EEEE_EEEE;

impl Buffer {
    pub(super) fn blank(datatype: &Rc<Datatype>, count: usize) -> Self {
        let (low, len) = datatype.span(count as i64).unwrap();
        Self {
            words: vec![GAP; (low + len) as usize / 8 + 1],
            count: count as i64,
            datatype: datatype.clone(),
        }
    }

    pub(super) fn filled(datatype: &Rc<Datatype>, packed: &[u8]) -> Self {
        let mut new = Self::blank(datatype, packed.len() / datatype.size() as usize);
        let base = new.words.as_mut_ptr().cast();
        // SAFETY: the buffer has room for the elements.
        unsafe { datatype.unpack(new.count, base, 0, packed.as_ptr(), packed.len()) };
        new
    }

    /// `count` elements from element `first` on.
    pub(super) fn part(&mut self, first: usize, count: usize) -> Typed {
        let at = first as isize * self.datatype.extent() as isize;
        let addr = self.words.as_mut_ptr().cast::<u8>().wrapping_offset(at);
        // SAFETY: tests keep their buffers until their collectives are complete.
        unsafe { Typed::new(addr, count as i64, self.datatype.clone()) }
    }

    pub(super) fn all(&mut self) -> Typed {
        self.part(0, self.count as usize)
    }

    /// The elements, packed; the gaps must be untouched.
    pub(super) fn packed(&self) -> Vec<u8> {
        let len = self.count * self.datatype.size();
        let mut packed = vec![0; len as usize];
        let base = self.words.as_ptr().cast();
        // SAFETY: the buffer holds the elements.
        unsafe {
            self.datatype
                .pack(self.count, base, 0, packed.as_mut_ptr(), packed.len())
        };
        let again = Self::filled(&self.datatype, &packed);
        assert_eq!(again.words, self.words, "gaps were written");
        packed
    }
}

pub(super) fn bytes(datatype: &Datatype, count: usize, seed: usize) -> Vec<u8> {
    let mut rng = Rng(seed as u64);
    (0..count * datatype.size() as usize)
        .map(|_| rng.next() as u8)
        .collect()
}

fn run(m: &Mpi, call: impl Collective) {
    m.collective(m.world(), &call).unwrap();
}

#[test]
fn moves_of_equal_blocks_with_a_root() {
    for n in 1..=5 {
        testnet::run(n, n as u64, |m| {
            for (t, count) in types().iter().flat_map(|t| [(t, 0), (t, 1), (t, 3)]) {
                let me = m.rank().0 as usize;
                let root = count % n;
                let block = |rank| bytes(t, count, rank);
                let whole: Vec<u8> = (0..n).flat_map(block).collect();

                let mut data = Buffer::filled(t, &block(me));
                run(
                    &m,
                    Bcast {
                        data: data.all(),
                        root,
                    },
                );
                assert_eq!(data.packed(), block(root));

                let mut mine = Buffer::filled(t, &block(me));
                let mut all = Buffer::blank(t, n * count);
                let recv = (me == root).then(|| all.part(0, count));
                run(
                    &m,
                    Gather {
                        send: Some(mine.all()),
                        recv,
                        root,
                    },
                );
                if me == root {
                    assert_eq!(all.packed(), whole);
                }

                let mut got = Buffer::blank(t, count);
                let send = (me == root).then(|| all.part(0, count));
                run(
                    &m,
                    Scatter {
                        send,
                        recv: Some(got.all()),
                        root,
                    },
                );
                assert_eq!(got.packed(), block(me));
            }
        });
    }
}

#[test]
fn moves_of_equal_blocks_among_all() {
    for n in 1..=5 {
        testnet::run(n, 20 + n as u64, |m| {
            for (t, count) in types().iter().flat_map(|t| [(t, 0), (t, 1), (t, 3)]) {
                let me = m.rank().0 as usize;
                let block = |rank| bytes(t, count, rank);
                let whole: Vec<u8> = (0..n).flat_map(block).collect();
                let mut mine = Buffer::filled(t, &block(me));
                let mut everywhere = Buffer::blank(t, n * count);
                let recv = everywhere.part(0, count);
                run(
                    &m,
                    Allgather {
                        send: Some(mine.all()),
                        recv,
                    },
                );
                assert_eq!(everywhere.packed(), whole);
                let mut in_place = Buffer::blank(t, n * count);
                let own = Buffer::filled(t, &block(me)).packed();
                // SAFETY: the part lies in the buffer.
                unsafe {
                    let at = (me * count) as isize * t.extent() as isize;
                    let base = in_place.words.as_mut_ptr().cast::<u8>().wrapping_offset(at);
                    t.unpack(count as i64, base, 0, own.as_ptr(), own.len());
                }
                let recv = in_place.part(0, count);
                run(&m, Allgather { send: None, recv });
                assert_eq!(in_place.packed(), whole);

                let row = |i: usize| bytes(t, n * count, 100 + i);
                let column: Vec<u8> = (0..n)
                    .flat_map(|i| {
                        let len = whole.len() / n;
                        row(i)[me * len..(me + 1) * len].to_vec()
                    })
                    .collect();
                let mut out = Buffer::filled(t, &row(me));
                let mut into = Buffer::blank(t, n * count);
                let (send, recv) = (Some(out.part(0, count)), into.part(0, count));
                run(&m, Alltoall { send, recv });
                assert_eq!(into.packed(), column);
                let recv = out.part(0, count);
                run(&m, Alltoall { send: None, recv });
                assert_eq!(out.packed(), column);
            }
        });
    }
}

#[test]
fn moves_of_uneven_blocks() {
    for n in 1..=5 {
        testnet::run(n, 40 + n as u64, |m| {
            for t in &types() {
                let me = m.rank().0 as usize;
                let root = n - 1;
                // Rank i's block has i + 1 elements, blocks lie from the last rank's to the
                // first's.
                let start = |i: usize| (i + 1..n).map(|j| j + 1).sum::<usize>();
                let block = |i: usize| bytes(t, i + 1, i);
                let total = n * (n + 1) / 2;
                let whole: Vec<u8> = (0..n).rev().flat_map(block).collect();

                let mut mine = Buffer::filled(t, &block(me));
                let mut all = Buffer::blank(t, total);
                let parts = |b: &mut Buffer| (0..n).map(|i| b.part(start(i), i + 1)).collect();
                let recv: Vec<Typed> = if me == root {
                    parts(&mut all)
                } else {
                    Vec::new()
                };
                let send = recv.clone();
                run(
                    &m,
                    Gatherv {
                        send: Some(mine.all()),
                        recv,
                        root,
                    },
                );
                if me == root {
                    assert_eq!(all.packed(), whole);
                }
                let mut got = Buffer::blank(t, me + 1);
                run(
                    &m,
                    Scatterv {
                        send,
                        recv: Some(got.all()),
                        root,
                    },
                );
                assert_eq!(got.packed(), block(me));
                let mut everywhere = Buffer::blank(t, total);
                let recv = parts(&mut everywhere);
                run(
                    &m,
                    Allgatherv {
                        send: Some(mine.all()),
                        recv,
                    },
                );
                assert_eq!(everywhere.packed(), whole);

                // From i to j go j + 1 elements.
                let mut out = Buffer::filled(t, &whole);
                let mut into = Buffer::blank(t, n * (me + 1));
                let send = Some(parts(&mut out));
                let recv = (0..n).map(|i| into.part(i * (me + 1), me + 1)).collect();
                run(&m, Alltoallv { send, recv });
                let expected: Vec<u8> = (0..n).flat_map(|_| block(me)).collect();
                assert_eq!(into.packed(), expected);
            }
        });
    }
}

/// x -> a x + b with a at 8 and b at 24 of the elements' true layout; not commutative.
pub(super) fn affine() -> Rc<Op> {
    let function = |input: *const u8, inout: *mut u8, count: i64, t: &Rc<Datatype>| {
        for i in 0..count {
            let at = (i * t.extent()) as isize;
            let (x, y) = (input.wrapping_offset(at + 8), inout.wrapping_offset(at + 8));
            assert!(x.cast::<i64>().is_aligned() && y.cast::<i64>().is_aligned());
            // SAFETY: the elements are the operation's operands.
            unsafe {
                let (a, b) = (x.cast::<i64>().read(), x.add(16).cast::<i64>().read());
                let (c, d) = (y.cast::<i64>().read(), y.add(16).cast::<i64>().read());
                y.cast::<i64>().write(a.wrapping_mul(c));
                y.add(16)
                    .cast::<i64>()
                    .write(b.wrapping_mul(c).wrapping_add(d));
            }
        }
    };
    Op::user(Rc::new(function), false)
}

pub(super) fn compose(lower: &[u8], upper: &[u8]) -> Vec<u8> {
    let mut result = upper.to_vec();
    super::TestOp::Affine.vector(lower, &mut result);
    result
}

#[test]
fn a_users_operation_sees_the_true_layout_in_the_order_of_ranks() {
    for (n, count) in [(1, 3), (2, 1), (3, 2000), (4, 5), (5, 7)] {
        testnet::run(n, 7 + n as u64, |m| {
            let (t, op, me) = (gappy(), affine(), m.rank().0 as usize);
            let value = |i: usize| bytes(&t, n * count, i);
            let prefix = |k: usize| (1..=k).fold(value(0), |acc, i| compose(&acc, &value(i)));
            let root = n / 2;
            let mut mine = Buffer::filled(&t, &value(me));
            let mut got = Buffer::blank(&t, n * count);
            let (send, recv) = (Some(mine.all()), got.all());
            let call = Allreduce {
                op: op.clone(),
                send,
                recv,
            };
            run(&m, call);
            assert_eq!(got.packed(), prefix(n - 1));

            let mut at_root = Buffer::filled(&t, &value(me));
            let (send, recv) = if me == root {
                (None, Some(at_root.all()))
            } else {
                (Some(mine.all()), None)
            };
            run(
                &m,
                Reduce {
                    op: op.clone(),
                    send,
                    recv,
                    root,
                },
            );
            if me == root {
                assert_eq!(at_root.packed(), prefix(n - 1));
            }
        });
    }
}

#[test]
fn a_users_operation_in_scans_and_reduce_scatters() {
    for (n, count) in [(1, 3), (2, 1), (3, 2000), (4, 5), (5, 7)] {
        testnet::run(n, 17 + n as u64, |m| {
            let (t, op, me) = (gappy(), affine(), m.rank().0 as usize);
            let value = |i: usize| bytes(&t, n * count, i);
            let prefix = |k: usize| (1..=k).fold(value(0), |acc, i| compose(&acc, &value(i)));
            let mut mine = Buffer::filled(&t, &value(me));
            for exclusive in [false, true] {
                let mut got = Buffer::filled(&t, &value(99));
                let (send, recv) = (Some(mine.all()), got.all());
                run(
                    &m,
                    Scan {
                        op: op.clone(),
                        send,
                        recv,
                        exclusive,
                    },
                );
                let expected = match (exclusive, me) {
                    (true, 0) => value(99),
                    (true, _) => prefix(me - 1),
                    (false, _) => prefix(me),
                };
                assert_eq!(got.packed(), expected);
            }
            let own = prefix(n - 1)[me * count * 16..(me + 1) * count * 16].to_vec();
            for shares in [
                Shares::Equal(count as i64),
                Shares::Each(vec![count as i64; n]),
            ] {
                let mut got = Buffer::blank(&t, count);
                let (send, recv) = (Some(mine.all()), got.all());
                run(
                    &m,
                    ReduceScatter {
                        op: op.clone(),
                        send,
                        recv,
                        shares,
                    },
                );
                assert_eq!(got.packed(), own);
            }
        });
    }
}

#[test]
fn predefined_pairs_with_gaps() {
    testnet::run(4, 3, |m| {
        let (t, me) = (Datatype::named(Named::DoubleInt), m.rank().0);
        let pair =
            |value: f64, index: i32| [&value.to_le_bytes()[..], &index.to_le_bytes()].concat();
        let value = f64::from([3, 9, 9, 1][me as usize]);
        let mut data = Buffer::filled(&t, &pair(value, me as i32));
        let op = Op::builtin(Builtin::Maxloc);
        run(
            &m,
            Allreduce {
                op,
                send: None,
                recv: data.all(),
            },
        );
        assert_eq!(data.packed(), pair(9.0, 1));
    });
}

#[test]
fn nonblocking_and_persistent() {
    for n in [1, 2, 5] {
        testnet::run(n, 5, |m| {
            let t = Datatype::named(Named::Int64);
            let (me, sum) = (m.rank().0 as i64, Op::builtin(Builtin::Sum));
            let values = |x: i64| [x.to_le_bytes(), (10 * x).to_le_bytes()].concat();
            let total: i64 = (0..n as i64).sum();
            let (mut a, mut b) = (
                Buffer::filled(&t, &values(me)),
                Buffer::filled(&t, &values(me)),
            );
            let mut c = Buffer::filled(&t, &values(me));
            let reduce = |x: &mut Buffer| Allreduce {
                op: sum.clone(),
                send: None,
                recv: x.all(),
            };
            let first = m.start_collective(m.world(), reduce(&mut a)).unwrap();
            let second = m
                .start_collective(
                    m.world(),
                    Bcast {
                        data: b.all(),
                        root: n - 1,
                    },
                )
                .unwrap();
            run(&m, reduce(&mut c));
            // Completion in any order.
            assert_eq!(m.wait(second).unwrap().error, None);
            assert_eq!(m.wait(first).unwrap().error, None);
            assert_eq!((a.packed(), c.packed()), (values(total), values(total)));
            assert_eq!(b.packed(), values(n as i64 - 1));

            for round in 0..4 {
                a = Buffer::filled(&t, &values(me + round));
                b = Buffer::filled(&t, &values(me - round));
                let (data, root) = (b.all(), 0);
                // Set up in one order, started in another on every other rank.
                let fresh = [
                    m.collective_init(m.world(), reduce(&mut a)),
                    m.collective_init(m.world(), Bcast { data, root }),
                ];
                let fresh = fresh.map(Result::unwrap);
                for i in [me as usize % 2, 1 - me as usize % 2] {
                    // SAFETY: the buffers stay until the waits below.
                    unsafe { m.start(fresh[i]) }.unwrap();
                }
                for request in fresh {
                    assert_eq!(m.wait(request).unwrap().error, None);
                    m.request_free(request).unwrap();
                }
                assert_eq!(a.packed(), values(total + round * n as i64));
                assert_eq!(b.packed(), values(-round));
            }
            assert_eq!(m.live_requests(), 0);
        });
    }
}

#[test]
fn a_persistent_call_starts_again_and_again() {
    testnet::run(3, 9, |m| {
        let t = Datatype::named(Named::Int64);
        let op = Op::builtin(Builtin::Sum);
        let one = 1i64.to_le_bytes();
        let (mut one, mut sum) = (Buffer::filled(&t, &one), Buffer::blank(&t, 1));
        let (send, recv) = (Some(one.all()), sum.all());
        let request = m
            .collective_init(m.world(), Allreduce { op, send, recv })
            .unwrap();
        for _ in 0..5 {
            // SAFETY: the buffers outlive the request.
            unsafe { m.start(request) }.unwrap();
            assert_eq!(m.wait(request).unwrap().error, None);
            assert_eq!(sum.packed(), 3i64.to_le_bytes());
        }
        m.request_free(request).unwrap();
    });
}

#[test]
fn bad_arguments_are_errors() {
    testnet::run(1, 1, |m| {
        let t = gappy();
        let mut data = Buffer::blank(&t, 1);
        let negative = data.part(0, usize::MAX);
        let error = m.collective(
            m.world(),
            &Bcast {
                data: negative,
                root: 0,
            },
        );
        assert_eq!(error.unwrap_err().class, ErrorClass::Count);
        let (op, recv) = (Op::builtin(Builtin::Sum), data.all());
        let call = Allreduce {
            op,
            send: None,
            recv,
        };
        // Alone, nothing is combined; the C layer checks the type of the operation.
        assert_eq!(m.collective(m.world(), &call), Ok(()));
    });
}
