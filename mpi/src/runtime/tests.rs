use super::Mpi;
use crate::adi::ReqId;
use crate::adi::testnet::{LARGE, fail_next, run, run_seeds, waits};
use crate::big_lock::{Completions, Until};
use crate::coll::Gather;
use crate::datatype::{Datatype, Form, Named};
use crate::error::ErrorClass;
use crate::p2p::{Data, ExchangeSide, SendMode, Typed};
use crate::request::RequestId;
use crate::status::{Completed, Status};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

fn byte() -> Rc<Datatype> {
    Datatype::named(Named::Byte)
}

fn data<'a>(bytes: &mut [u8], datatype: &'a Rc<Datatype>) -> Data<'a> {
    Data::new(bytes.as_mut_ptr(), bytes.len() as i64, datatype)
}

fn irecv(m: &Mpi, bytes: &mut [u8], from: i32) -> crate::Result<RequestId> {
    // SAFETY: the tests keep the bytes.
    unsafe { m.irecv(&data(bytes, &byte()), from, 5, m.world()) }
}

fn send(m: &Mpi, bytes: &mut [u8], to: i32) -> crate::Result<()> {
    let to_send = &byte();
    // SAFETY: the bytes are borrowed until the call returns.
    unsafe { m.send(&data(bytes, to_send), to, 5, m.world(), SendMode::Standard) }
}

#[test]
fn after_an_error_of_the_device_nothing_is_written_and_the_first_reason_is_told() {
    run_seeds(2, |m| {
        if m.rank().0 == 0 {
            send(&m, &mut [7; 8], 1).unwrap();
            send(&m, &mut [8; 8], 1).unwrap();
            return;
        }
        fail_next(&m, "the first");
        fail_next(&m, "the second");
        let mut bytes = [0; 8];
        // A blocking call fails with its receive posted: its buffer is the program's again.
        // SAFETY: as the call says.
        let failed = unsafe { m.recv(&data(&mut bytes, &byte()), 0, 6, m.world()) };
        assert_eq!(failed.unwrap_err().message, "the first");
        let again = |e: crate::Error| assert_eq!(e.message, "the first");
        for _ in 0..100 {
            again(m.make_progress(None).unwrap_err());
        }
        assert_eq!(bytes, [0; 8]);
        again(irecv(&m, &mut bytes, 0).unwrap_err());
        again(send(&m, &mut bytes, 0).unwrap_err());
        // A wait gets it too, also where other threads want the lock.
        again(m.block(None, Until::Event).unwrap_err());
        assert!(m.is_complete(ReqId(1)), "no wait continues");
        again(m.iprobe(0, 5, m.world()).unwrap_err());
        again(m.probe(0, 5, m.world()).unwrap_err());
        again(m.comm_dup(m.world()).map(drop).unwrap_err());
        again(m.finalize().unwrap_err());
    });
}

#[test]
fn after_an_error_nobody_reads_what_had_been_offered() {
    let shut = AtomicUsize::new(0);
    run(2, 5, |m| {
        if m.rank().0 == 0 {
            let mut bytes = vec![7; 2 * LARGE];
            fail_next(&m, "lost");
            assert_eq!(send(&m, &mut bytes, 1).unwrap_err().message, "lost");
            // The program's again.
            bytes.fill(0xEE);
            shut.store(1, Ordering::Relaxed);
            return;
        }
        while shut.load(Ordering::Relaxed) == 0 {
            m.make_progress(None).unwrap();
        }
        let mut bytes = vec![0; 2 * LARGE];
        let id = irecv(&m, &mut bytes, 0).unwrap();
        for _ in 0..100 {
            assert!(m.test(id).unwrap().is_none());
        }
        assert!(bytes.iter().all(|byte| *byte == 0));
    });
}

#[test]
fn requests_of_a_shut_device_say_why_they_never_end() {
    run(2, 3, |m| {
        if m.rank().0 == 0 {
            send(&m, &mut [7; 8], 1).unwrap();
            return;
        }
        let mut bytes = [0; 8];
        let id = irecv(&m, &mut bytes, 0).unwrap();
        fail_next(&m, "lost");
        assert_eq!(m.wait(id).unwrap_err().message, "lost");
        assert_eq!(m.test(id).unwrap_err().message, "lost");
        m.cancel(id).unwrap();
        m.request_free(id).unwrap();
        assert_eq!(bytes, [0; 8]);
    });
}

#[test]
fn a_failed_collective_leaves_nothing_that_writes() {
    let shut = AtomicUsize::new(0);
    run_seeds(4, |m| {
        let (mut out, mut into) = (vec![7; 64], vec![0; 128]);
        // Rank 1 sends twice what the root expects.
        let len = if m.rank().0 == 1 { 64 } else { 32 };
        // SAFETY: the vectors outlive the call, and what it leaves behind is shut.
        let (send, recv) = unsafe {
            let typed = |v: &mut Vec<u8>, n| Typed::new(v.as_mut_ptr(), n, byte());
            (typed(&mut out, len), typed(&mut into, 32))
        };
        let call = Gather {
            send: Some(send),
            recv: (m.rank().0 == 0).then_some(recv),
            root: 0,
        };
        let result = m.collective(m.world(), &call);
        if m.rank().0 != 0 {
            return;
        }
        let error = result.unwrap_err();
        assert_eq!(error.class, ErrorClass::Truncate);
        into.fill(0xEE);
        for _ in 0..100 {
            if let Err(again) = m.make_progress(None) {
                assert_eq!(again, error);
                shut.fetch_add(1, Ordering::Relaxed);
            }
        }
        assert!(into.iter().all(|&b| b == 0xEE));
    });
    assert!(shut.into_inner() > 0, "no message was in flight");
}

#[test]
fn a_send_that_cannot_start_takes_its_receive_back() {
    run(1, 1, |m| {
        // Gaps demand a packed copy, for which there is no memory.
        let gaps = Datatype::vector(Form::Int, 2, 1, 2, &byte()).unwrap();
        gaps.commit();
        let mut into = [0; 4];
        let out = Data::new(std::ptr::without_provenance_mut(64), 1 << 60, &gaps);
        let side = ExchangeSide { peer: 0, tag: 5 };
        // SAFETY: nothing is read as the send cannot start; the array outlives its receive.
        let failed = unsafe { m.isendrecv(&out, side, &data(&mut into, &byte()), side, m.world()) };
        assert_eq!(failed.unwrap_err().class, ErrorClass::NoMem);
        assert_eq!(m.live_requests(), 0);
        send(&m, &mut [9; 4], 0).unwrap();
        m.make_progress(None).unwrap();
        assert_eq!(into, [0; 4]);
    });
}

#[test]
fn disconnect_waits_for_what_is_pending() {
    run_seeds(2, |m| {
        let comm = m.comm_dup(m.world()).unwrap();
        let peer = 1 - m.rank().0 as i32;
        let mut out = vec![3; 100_000];
        let mut into = vec![0; 100_000];
        let b = byte();
        // SAFETY: the vectors outlive the disconnect, which waits for both.
        let ids = unsafe {
            [
                m.irecv(&data(&mut into, &b), peer, 1, &comm).unwrap(),
                m.isend(&data(&mut out, &b), peer, 1, &comm, SendMode::Standard)
                    .unwrap(),
            ]
        };
        m.comm_disconnect(&comm).unwrap();
        assert!(into.iter().all(|&x| x == 3));
        for id in ids {
            m.wait(id).unwrap();
        }
    });
}

struct Count(Rc<Cell<usize>>);

impl crate::attr::Callbacks for Count {
    fn copy(&self, _: usize, _: i32, value: usize) -> Result<Option<usize>, i32> {
        self.0.set(self.0.get() + 1);
        if value == 99 {
            Err(99)
        } else {
            Ok(Some(value))
        }
    }

    fn delete(&self, _: usize, _: i32, _: usize) -> Result<(), i32> {
        Ok(())
    }
}

#[test]
fn idup_copies_attributes_at_the_call() {
    run_seeds(2, |m| {
        let copies = Rc::new(Cell::new(0));
        let kind = crate::attr::ObjectKind::Comm;
        let id = m.keyvals().create(kind, Box::new(Count(copies.clone())));
        let keyval = m.keyvals().get(kind, id).unwrap();
        let comm = m.comm_dup(m.world()).unwrap();
        comm.attributes().set(0, &keyval, 1).unwrap();
        let made = Rc::new(Cell::new(None));
        let place = made.clone();
        let future = m.comm_idup(&comm, move |c| place.set(Some(c))).unwrap();
        assert_eq!(copies.get(), 1);
        comm.attributes().set(0, &keyval, 2).unwrap();
        crate::coll::block_on(future, || m.block(None, Until::Event)).unwrap();
        assert_eq!(made.take().unwrap().attributes().get(id), Some(1));
        comm.attributes().set(0, &keyval, 99).unwrap();
        let refused = m.comm_idup(&comm, |_| ()).map(drop).unwrap_err();
        assert_eq!(refused.code, Some(99));
    });
}

#[test]
fn what_is_finished_stays_when_the_answer_is_not_yet() {
    run_seeds(2, |m| {
        if m.rank().0 == 0 {
            send(&m, &mut [1; 4], 1).unwrap();
            send(&m, &mut [2; 4], 1).unwrap();
            return;
        }
        let (mut a, mut b) = ([0; 4], [0; 4]);
        let ids = [irecv(&m, &mut a, 0).unwrap(), irecv(&m, &mut b, 0).unwrap()];
        for id in ids {
            m.await_settled(id).unwrap();
        }
        let get = |i: usize| Some(ids[i]);
        let refuse = |n| m.decider().refuse.set(n);
        refuse(1);
        assert!(m.test(ids[0]).unwrap().is_none());
        refuse(1);
        assert!(m.request_status(ids[0]).unwrap().is_none());
        refuse(1);
        let mut none = |_, _| panic!("given although the answer was no");
        assert!(!m.test_all(2, &get, &mut none).unwrap());
        refuse(2);
        assert_eq!(m.test_some(2, &get, &mut none).unwrap(), Some(0));
        assert_eq!(m.live_requests(), 2);
        // Of the second one only: the first stays.
        refuse(1);
        let mut given = Vec::new();
        m.test_some(2, &get, &mut |i, _| given.push(i)).unwrap();
        assert_eq!(given, [1]);
        assert!(m.test(ids[0]).unwrap().is_some());
        assert_eq!(m.live_requests(), 0);
    });
}

#[test]
fn cancelling_is_told_when_it_is_over() {
    run(1, 1, |m| {
        let mut bytes = [0; 4];
        let id = irecv(&m, &mut bytes, 0).unwrap();
        m.cancel(id).unwrap();
        assert!(m.wait(id).unwrap().status.cancelled);
    });
}

#[test]
fn a_wait_whose_message_a_task_takes_in_does_not_block() {
    run_seeds(2, |m| {
        if m.rank().0 == 0 {
            send(&m, &mut [7; 4], 1).unwrap();
            return;
        }
        let mut bytes = [0; 4];
        let id = irecv(&m, &mut bytes, 0).unwrap();
        let request = m.hint(id).expect("a receive of the device");
        let stage = Rc::new(Cell::new(0));
        let (mpi, now) = (m.rc(), stage.clone());
        let receive = async move {
            poll_fn(|_| {
                while now.get() == 1 && !mpi.dev().is_complete(request) {
                    mpi.dev_mut().progress(None).unwrap();
                }
                // The task does not end, so its end is not the event that the wait sees.
                if now.get() == 2 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            Completed::ok(Status::EMPTY)
        };
        let task = m.start_task(None, Box::pin(receive));
        stage.set(1);
        m.wait(id).unwrap();
        assert_eq!(waits(&m), 0);
        stage.set(2);
        m.wait(task).unwrap();
        assert_eq!(bytes, [7; 4]);
    });
}
