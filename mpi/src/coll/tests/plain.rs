//! Collectives of plain arguments, ahead of the others: the same results, and refusals that leave
//! nothing undone.

use std::rc::Rc;

use super::super::typed::Typed;
use super::super::{Allgather, Alltoall, Bcast};
use crate::Result;
use crate::adi::testnet;
use crate::datatype::{Datatype, Form, Named};
use crate::error::ErrorClass;
use crate::p2p::Data;
use crate::runtime::Mpi;

fn byte() -> Rc<Datatype> {
    Datatype::named(Named::Byte)
}

fn data<'a>(bytes: &mut [u8], count: usize, datatype: &'a Rc<Datatype>) -> Data<'a> {
    Data {
        addr: bytes.as_mut_ptr(),
        count: count as i64,
        datatype,
    }
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

type Tried = Option<Result<()>>;

/// A refused call uses no number of a collective, so later calls still match.
#[test]
fn what_is_not_plain_is_refused_untouched() {
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
                let mut send = data(&mut from, 0, &t);
                let mut recv = data(&mut into, 0, &t);
                (send.count, recv.count) = (count, other);
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
