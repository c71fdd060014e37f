use super::*;
use crate::adi::testnet::{run, run_seeds};
use crate::big_lock::Until;
use crate::coll::{CallState, Ctx};
use crate::datatype::{Datatype, Named};
use crate::p2p::{Data, SendMode};
use crate::runtime::Mpi;
use crate::status::{ANY_SOURCE, Status};
use std::cell::RefCell;

fn post(m: &Mpi, cell: &mut u8, peer: i32, tag: i32, sends: bool) -> RequestId {
    let datatype = Datatype::named(Named::Byte);
    let d = Data::new(cell, 1, &datatype);
    // SAFETY: the tests keep the cells until the requests are complete.
    unsafe {
        if sends {
            m.isend(&d, peer, tag, m.world(), SendMode::Standard)
        } else {
            m.irecv(&d, peer, tag, m.world())
        }
    }
    .unwrap()
}

#[test]
fn stale_ids_are_errors() {
    let mut slab = super::request_slab::RequestSlab::default();
    let make = || Request::new(Started::new(State::Inactive), None);
    let a = slab.insert(make());
    slab.remove(a).unwrap();
    let b = slab.insert(make());
    assert_eq!(a.slot(), b.slot());
    assert!(slab.get(a).is_err() && slab.get(b).is_ok());
    assert!(slab.get(RequestId::from_raw(0)).is_err());
    assert!(slab.get(RequestId::from_raw(u64::MAX)).is_err());
    assert_eq!(RequestId::from_raw(b.to_raw()), b);
    assert_eq!(slab.len(), 1);
}

#[test]
fn any_and_some_find_every_request_once() {
    run_seeds(3, |m| {
        let me = m.rank().0;
        if me != 0 {
            let mut cells: Vec<u8> = (0..10).collect();
            let ids: Vec<_> = cells
                .iter_mut()
                .enumerate()
                .map(|(i, c)| post(&m, c, 0, i as i32, true))
                .collect();
            m.end_all(10, &|i| Some(ids[i]), Mpi::wait, &mut |_, _| {})
                .unwrap();
            return;
        }
        let mut cells = [0u8; 20];
        let ids: Vec<_> = cells
            .iter_mut()
            .enumerate()
            .map(|(i, c)| post(&m, c, 1 + i as i32 / 10, i as i32 % 10, false))
            .collect();
        let left = RefCell::new(ids.iter().copied().map(Some).collect::<Vec<_>>());
        for _ in 0..5 {
            match m.wait_any(20, &|i| left.borrow()[i]).unwrap() {
                Any::Found(i, done) => {
                    assert_eq!(done.status.tag, i as i32 % 10);
                    assert!(left.borrow_mut()[i].take().is_some());
                }
                other => panic!("{other:?}"),
            }
        }
        let mut found = 5;
        while found < 20 {
            let n = m
                .wait_some(20, &|i| left.borrow()[i], &mut |i, _| {
                    assert!(left.borrow_mut()[i].take().is_some());
                })
                .unwrap();
            found += n.unwrap();
        }
        assert_eq!(
            m.wait_any(20, &|i| left.borrow()[i]).unwrap(),
            Any::NoneActive
        );
        assert_eq!(
            m.test_some(20, &|i| left.borrow()[i], &mut |_, _| {})
                .unwrap(),
            None
        );
        assert!(
            cells
                .iter()
                .enumerate()
                .all(|(i, &c)| usize::from(c) == i % 10)
        );
        assert_eq!(m.live_requests(), 0);
    });
}

#[test]
fn testall_is_all_or_nothing() {
    run_seeds(2, |m| {
        if m.rank().0 == 1 {
            let mut go = 0;
            let g = post(&m, &mut go, 0, 1, true);
            m.wait(g).unwrap();
            let w = post(&m, &mut go, 0, 3, false);
            m.wait(w).unwrap();
            let g = post(&m, &mut go, 0, 2, true);
            m.wait(g).unwrap();
            return;
        }
        let mut cells = [0u8; 3];
        let [a, b, c] = &mut cells;
        let ids = [post(&m, a, 1, 1, false), post(&m, b, 1, 2, false)];
        while m.request_status(ids[0]).unwrap().is_none() {}
        let get = |i: usize| Some(ids[i]);
        assert!(!m.test_all(2, &get, &mut |_, _| panic!("none yet")).unwrap());
        let go = post(&m, c, 1, 3, true);
        m.wait(go).unwrap();
        let mut tags = Vec::new();
        while !m
            .test_all(2, &get, &mut |_, d| tags.push(d.status.tag))
            .unwrap()
        {
            m.block(None, Until::Event).unwrap();
        }
        assert_eq!(tags, [1, 2]);
        assert_eq!(m.live_requests(), 0);
    });
}

#[test]
fn freed_requests_finish_in_the_background() {
    run_seeds(2, |m| {
        let mut cell = 7u8;
        if m.rank().0 == 0 {
            let id = post(&m, &mut cell, 1, 1, true);
            m.request_free(id).unwrap();
            assert!(m.test(id).is_err() || m.live_requests() > 0);
        } else {
            let id = post(&m, &mut cell, ANY_SOURCE, 1, false);
            m.request_free(id).unwrap();
            m.wait_until(None, |m| Ok((m.live_requests() == 0).then_some(())))
                .unwrap();
        }
        m.finalize().unwrap();
    });
}

struct Logged(Rc<RefCell<Vec<&'static str>>>);

impl GeneralizedCallbacks for Logged {
    fn query(&self) -> (Status, Result<(), i32>) {
        self.0.borrow_mut().push("query");
        (
            Status {
                count: 12,
                ..Status::EMPTY
            },
            Ok(()),
        )
    }
    fn free(&self) -> Result<(), i32> {
        self.0.borrow_mut().push("free");
        Err(99)
    }
    fn cancel(&self, complete: bool) -> Result<(), i32> {
        self.0
            .borrow_mut()
            .push(if complete { "cancel late" } else { "cancel" });
        Ok(())
    }
}

#[test]
fn generalized_requests_call_back() {
    run(1, 1, |m| {
        let log = Rc::default();
        let id = m.grequest_start(Box::new(Logged(Rc::clone(&log))));
        assert!(m.test(id).unwrap().is_none());
        m.cancel(id).unwrap();
        m.grequest_complete(id).unwrap();
        assert!(m.grequest_complete(id).is_err());
        assert_eq!(m.request_status(id).unwrap().unwrap().status.count, 12);
        let done = m.wait(id).unwrap();
        assert_eq!(
            (done.status.count, done.error.unwrap().code),
            (12, Some(99))
        );
        assert_eq!(*log.borrow(), ["cancel", "query", "query", "free"]);
        assert_eq!(m.live_requests(), 0);
    });
}

#[test]
fn tasks_move_whoever_waits() {
    run_seeds(2, |m| {
        let mut cells = [3u8, 0];
        let [a, b] = &mut cells;
        let me = m.rank().0 as i32;
        let comm = m.world().clone();
        let (mpi, on) = (m.rc(), comm.clone());
        let task = m.start_task(
            Some(&comm),
            Box::pin(async move {
                let state = CallState::new(&mpi);
                let ctx = Ctx::of_all(&on, 77, &state);
                let all = ctx.notify_all(&[me as u8 + 1]).await.unwrap();
                Completed::ok(Status {
                    count: u64::from(all[0] + all[1]),
                    ..Status::EMPTY
                })
            }),
        );
        // Only the messages' requests are waited for; the task still makes progress.
        let (s, r) = (post(&m, a, 1 - me, 1, true), post(&m, b, 1 - me, 1, false));
        m.wait(s).unwrap();
        m.wait(r).unwrap();
        assert_eq!(m.wait(task).unwrap().status.count, 3);
        assert_eq!(m.live_requests(), 0);
    });
}
