use super::*;
use crate::adi::testnet::{run, run_seeds};
use crate::datatype::{Datatype, Form, Named};
use crate::error::ErrorClass;
use crate::request::RequestId;
use crate::runtime::Mpi;
use crate::status::{ANY_SOURCE, ANY_TAG, PROC_NULL, Status};
use std::rc::Rc;

fn byte() -> Rc<Datatype> {
    Datatype::named(Named::Byte)
}

fn data<'a>(bytes: &mut [u8], datatype: &'a Rc<Datatype>) -> Data<'a> {
    Data::new(bytes.as_mut_ptr(), bytes.len() as i64, datatype)
}

fn send(m: &Mpi, bytes: &[u8], to: i32, tag: i32, mode: SendMode) -> crate::Result<()> {
    let mut copy = bytes.to_vec();
    // SAFETY: the copy lives until the call returns.
    unsafe { m.send(&data(&mut copy, &byte()), to, tag, m.world(), mode) }
}

fn recv(m: &Mpi, len: usize, from: i32, tag: i32) -> (Vec<u8>, crate::Completed) {
    let mut bytes = vec![0; len];
    // SAFETY: the vector lives until the call returns.
    let done = unsafe { m.recv(&data(&mut bytes, &byte()), from, tag, m.world()) }.unwrap();
    bytes.truncate(done.status.count as usize);
    (bytes, done)
}

fn isend(m: &Mpi, bytes: &mut [u8], to: i32, tag: i32) -> RequestId {
    // SAFETY: the tests keep the bytes until the request is complete.
    unsafe {
        m.isend(
            &data(bytes, &byte()),
            to,
            tag,
            m.world(),
            SendMode::Standard,
        )
    }
    .unwrap()
}

fn irecv(m: &Mpi, bytes: &mut [u8], from: i32, tag: i32) -> RequestId {
    // SAFETY: the tests keep the bytes until the request is complete.
    unsafe { m.irecv(&data(bytes, &byte()), from, tag, m.world()) }.unwrap()
}

#[test]
fn messages_keep_their_order() {
    run_seeds(3, |m| {
        let next = (m.rank().0 as i32 + 1) % 3;
        let before = (m.rank().0 as i32 + 2) % 3;
        let mut out: Vec<Vec<u8>> = (0..40u8).map(|i| vec![i; usize::from(i) * 200]).collect();
        let ids: Vec<_> = out.iter_mut().map(|b| isend(&m, b, next, 7)).collect();
        for i in 0..40u8 {
            let (got, done) = recv(&m, 10_000, before, if i % 2 == 0 { 7 } else { ANY_TAG });
            assert_eq!(got, vec![i; usize::from(i) * 200]);
            assert_eq!((done.status.source, done.status.tag), (before, 7));
        }
        m.end_all(ids.len(), &|i| Some(ids[i]), Mpi::wait, &mut |_, d| {
            assert_eq!(d.status, Status::EMPTY)
        })
        .unwrap();
        assert_eq!(m.live_requests(), 0);
    });
}

#[test]
fn wildcards_get_each_message_once() {
    run_seeds(4, |m| {
        if m.rank().0 != 0 {
            for i in 0..10u8 {
                send(&m, &[i], 0, i32::from(i), SendMode::Standard).unwrap();
            }
            return;
        }
        let mut next = [0u8; 4];
        for _ in 0..30 {
            let (got, done) = recv(&m, 1, ANY_SOURCE, ANY_TAG);
            let from = done.status.source as usize;
            assert_eq!(
                (got[0], done.status.tag),
                (next[from], i32::from(next[from]))
            );
            next[from] += 1;
        }
        assert_eq!(next, [0, 10, 10, 10]);
    });
}

#[test]
fn a_synchronous_send_waits_for_its_match() {
    run_seeds(2, |m| {
        if m.rank().0 == 0 {
            let mut b = [1];
            // SAFETY: `b` lives until the wait.
            let id = unsafe {
                m.isend(
                    &data(&mut b, &byte()),
                    1,
                    1,
                    m.world(),
                    SendMode::Synchronous,
                )
            };
            let id = id.unwrap();
            for _ in 0..50 {
                assert!(m.test(id).unwrap().is_none());
            }
            send(&m, &[2], 1, 2, SendMode::Standard).unwrap();
            m.wait(id).unwrap();
        } else {
            assert_eq!(recv(&m, 1, 0, 2).0, [2]);
            assert_eq!(recv(&m, 1, 0, 1).0, [1]);
        }
    });
}

#[test]
fn to_self_and_to_nobody() {
    run(1, 1, |m| {
        let mut got = [0; 3];
        let id = irecv(&m, &mut got, 0, ANY_TAG);
        send(&m, b"abc", 0, 5, SendMode::Synchronous).unwrap();
        assert_eq!(m.wait(id).unwrap().status.tag, 5);
        assert_eq!(&got, b"abc");
        send(&m, b"x", PROC_NULL, 0, SendMode::Synchronous).unwrap();
        assert_eq!(recv(&m, 1, PROC_NULL, 3).1.status, Status::PROC_NULL);
        assert_eq!(m.probe(PROC_NULL, 1, m.world()).unwrap(), Status::PROC_NULL);
        let (msg, s) = m.mprobe(PROC_NULL, 1, m.world()).unwrap();
        assert!(msg.is_no_proc() && s == Status::PROC_NULL);
        // SAFETY: nothing is written.
        let done = unsafe { m.mrecv(&data(&mut got, &byte()), msg) }.unwrap();
        assert_eq!(done.status, Status::PROC_NULL);
    });
}

#[test]
fn truncation_is_an_error_with_a_status() {
    run_seeds(2, |m| {
        if m.rank().0 == 0 {
            send(&m, &[7; 100], 1, 1, SendMode::Standard).unwrap();
        } else {
            let (got, done) = recv(&m, 10, 0, 1);
            assert_eq!(got, [7; 10]);
            assert_eq!(done.error.unwrap().class, ErrorClass::Truncate);
        }
    });
}

#[test]
fn bad_arguments() {
    run(2, 1, |m| {
        let class = |r: crate::Result<()>| r.unwrap_err().class;
        assert_eq!(
            class(send(&m, b"", 2, 0, SendMode::Standard)),
            ErrorClass::Rank
        );
        assert_eq!(
            class(send(&m, b"", ANY_SOURCE, 0, SendMode::Standard)),
            ErrorClass::Rank
        );
        assert_eq!(
            class(send(&m, b"", 0, -5, SendMode::Standard)),
            ErrorClass::Tag
        );
        assert_eq!(
            class(send(&m, b"", 0, ANY_TAG, SendMode::Standard)),
            ErrorClass::Tag
        );
        assert_eq!(
            class(send(&m, b"x", 0, 0, SendMode::Buffered)),
            ErrorClass::Buffer
        );
        let loose = Datatype::contiguous(Form::Int, 2, &byte()).unwrap();
        let bad = |count, datatype: &Rc<Datatype>| {
            let d = Data::new(std::ptr::null_mut(), count, datatype);
            // SAFETY: refused before anything is read.
            class(unsafe { m.send(&d, 0, 0, m.world(), SendMode::Standard) })
        };
        assert_eq!(bad(-1, &byte()), ErrorClass::Count);
        assert_eq!(bad(1, &byte()), ErrorClass::Buffer);
        assert_eq!(bad(0, &loose), ErrorClass::Type);
    });
}

#[test]
fn derived_types_are_packed_on_both_sides() {
    run_seeds(2, |m| {
        let every_other = Datatype::vector(Form::Int, 4, 1, 2, &byte()).unwrap();
        every_other.commit();
        let mut mem: Vec<u8> = (0..8).collect();
        let d = Data::new(mem.as_mut_ptr(), 1, &every_other);
        if m.rank().0 == 0 {
            // SAFETY: `mem` has the elements.
            unsafe { m.send(&d, 1, 0, m.world(), SendMode::Standard) }.unwrap();
            // SAFETY: as above.
            let id = unsafe { m.isend(&d, 1, 1, m.world(), SendMode::Synchronous) }.unwrap();
            m.wait(id).unwrap();
        } else {
            assert_eq!(recv(&m, 8, 0, 0).0, [0, 2, 4, 6]);
            mem.fill(99);
            // SAFETY: `mem` has the elements.
            let id = unsafe { m.irecv(&d, 0, 1, m.world()) }.unwrap();
            assert_eq!(m.wait(id).unwrap().status.count, 4);
            assert_eq!(mem, [0, 99, 2, 99, 4, 99, 6, 99]);
        }
    });
}

#[test]
fn persistent_requests_run_again_and_again() {
    run_seeds(2, |m| {
        let me = m.rank().0 as i32;
        let (mut out, mut inn) = ([0u8], [0u8]);
        let t = byte();
        let s = m
            .send_init(
                &data(&mut out, &t),
                1 - me,
                3,
                m.world(),
                SendMode::Synchronous,
            )
            .unwrap();
        let r = m
            .recv_init(&data(&mut inn, &t), ANY_SOURCE, 3, m.world())
            .unwrap();
        assert_eq!(m.wait(r).unwrap().status, Status::EMPTY);
        for round in 0..20 {
            // SAFETY: the arrays outlive the requests; this one is not active.
            unsafe { std::ptr::write_volatile(out.as_mut_ptr(), round) };
            // SAFETY: as above.
            unsafe { m.start(r) }.unwrap();
            // SAFETY: as above.
            unsafe { m.start(s) }.unwrap();
            // SAFETY: refused, as it is active.
            let again = unsafe { m.start(s) };
            assert_eq!(again.unwrap_err().class, ErrorClass::Request);
            m.wait(s).unwrap();
            assert_eq!(m.wait(r).unwrap().status.source, 1 - me);
            // SAFETY: complete.
            assert_eq!(unsafe { std::ptr::read_volatile(inn.as_ptr()) }, round);
        }
        m.request_free(s).unwrap();
        m.request_free(r).unwrap();
        assert_eq!(m.live_requests(), 0);
    });
}

#[test]
fn cancelled_receives_and_sends() {
    run_seeds(2, |m| {
        let mut b = [0];
        let r = irecv(&m, &mut b, ANY_SOURCE, 9);
        m.cancel(r).unwrap();
        assert!(m.wait(r).unwrap().status.cancelled);
        assert_eq!(m.wait(r).unwrap_err().class, ErrorClass::Request);
        if m.rank().0 == 0 {
            let mut big = vec![0; 100_000];
            let s = isend(&m, &mut big, 1, 1);
            m.cancel(s).unwrap();
            assert!(m.wait(s).unwrap().status.cancelled);
        }
    });
}

/// A receive by the shortest way, which keeps least of it.
fn try_irecv(m: &Mpi, room: &mut [u8], source: i32, tag: i32) -> RequestId {
    // SAFETY: the tests keep the rooms until the requests are complete.
    let posted = unsafe { m.try_irecv(&data(room, &byte()), source, tag, m.world()) };
    posted.expect("simple arguments").unwrap()
}

#[test]
fn the_slow_path_continues_what_the_device_can_not_do_at_once() {
    run_seeds(2, |m| {
        let (me, byte) = (m.rank().0 as i32, byte());
        let peer = 1 - me;
        for len in [0, 8, 60_000] {
            let mut out = vec![me as u8 + 1; len];
            let mut room = vec![0; len + 1];
            // SAFETY: the buffers live until the calls return, or their requests are complete.
            unsafe {
                let sent = m.try_isend(&data(&mut out, &byte), peer, 3, m.world());
                let got = m.try_recv(&data(&mut room, &byte), peer, 3, m.world());
                let got = got.expect("simple arguments").unwrap();
                assert_eq!((got.status.count, got.error), (len as u64, None));
                m.wait(sent.expect("simple arguments").unwrap()).unwrap();
            }
            assert!(room[..len].iter().all(|&b| b == peer as u8 + 1));
            let posted = try_irecv(&m, &mut room[..len / 2], peer, 4);
            // SAFETY: as above.
            let sent = unsafe { m.try_send(&data(&mut out, &byte), peer, 4, m.world()) };
            sent.expect("simple arguments").unwrap();
            let cut = m.wait(posted).unwrap();
            let class = cut.error.map(|error| error.class);
            assert_eq!(class, (len > 0).then_some(ErrorClass::Truncate));
        }
        assert_eq!(m.live_requests(), 0);
    });
}

#[test]
fn arguments_that_are_not_simple_are_left_to_the_general_path() {
    run_seeds(2, |m| {
        let (byte, mut room) = (byte(), [0; 8]);
        let calls = [(PROC_NULL, 1), (2, 1), (1, -5), (ANY_SOURCE, ANY_TAG)];
        for (peer, tag) in calls {
            let data = data(&mut room, &byte);
            // SAFETY: nothing is done.
            unsafe {
                assert!(m.try_send(&data, peer, tag, m.world()).is_none());
                assert!(m.try_isend(&data, peer, tag, m.world()).is_none());
                assert!(m.try_recv(&data, peer, tag, m.world()).is_none());
                assert!(m.try_irecv(&data, peer, tag, m.world()).is_none());
            }
        }
        let null = Data::new(std::ptr::null_mut(), room.len() as i64, &byte);
        // SAFETY: as above.
        assert!(unsafe { m.try_send(&null, 1, 1, m.world()) }.is_none());
        assert_eq!(m.live_requests(), 0);
    });
}

#[test]
fn a_plain_receive_answers_as_any_other() {
    run_seeds(2, |m| {
        if m.rank().0 == 0 {
            recv(&m, 0, 1, 9);
            for tag in 0..4 {
                send(&m, &[tag as u8; 8], 1, tag, SendMode::Standard).unwrap();
            }
            recv(&m, 0, 1, 9);
            return;
        }
        let mut rooms = [[0u8; 8]; 6];
        let [a, b, c, d, e, f] = &mut rooms;
        let whole = try_irecv(&m, a, 0, 0);
        let short = try_irecv(&m, &mut b[..5], 0, 1);
        let (tested, freed) = (try_irecv(&m, c, 0, 2), try_irecv(&m, d, 0, 3));
        let (never, same) = (try_irecv(&m, e, 0, 77), try_irecv(&m, f, 0, 77));
        assert!(
            [whole, short, tested, freed, never]
                .iter()
                .all(|&id| m.request_exists(id))
        );
        assert_eq!((m.live_requests(), m.ended(never)), (6, None));
        assert_eq!(m.request_in_slot(whole.to_raw() as u32), Some(whole));
        assert!(
            m.request_comm(tested)
                .is_some_and(|c| Rc::ptr_eq(&c, m.world()))
        );
        m.request_free(freed).unwrap();
        m.cancel(never).unwrap();
        assert!(m.wait(never).unwrap().status.cancelled);
        assert!(!m.is_quiet(m.world()).unwrap());
        send(&m, &[], 0, 9, SendMode::Standard).unwrap();
        let done = m.wait(whole).unwrap().status;
        assert_eq!((done.source, done.tag, done.count), (0, 0, 8));
        assert_eq!(m.wait(whole).unwrap_err().class, ErrorClass::Request);
        assert_eq!(m.ended(whole), None);
        let cut = m.wait(short).unwrap();
        assert_eq!(cut.error.unwrap().class, ErrorClass::Truncate);
        assert_eq!(cut.status.count, 5);
        assert!(
            m.take_failed_comm()
                .is_some_and(|c| Rc::ptr_eq(&c, m.world()))
        );
        let status = loop {
            if let Some(done) = m.test(tested).unwrap() {
                break done.status;
            }
        };
        assert_eq!((status.tag, status.count), (2, 8));
        m.cancel(same).unwrap();
        m.wait(same).unwrap();
        m.drain_freed().unwrap();
        send(&m, &[], 0, 9, SendMode::Standard).unwrap();
        assert_eq!((rooms[0], rooms[2], rooms[4]), ([0; 8], [2; 8], [0; 8]));
    });
}

#[test]
fn probing_and_matched_receives() {
    run_seeds(2, |m| {
        if m.rank().0 == 0 {
            send(&m, &[1; 50], 1, 4, SendMode::Standard).unwrap();
            send(&m, &[2; 60], 1, 4, SendMode::Standard).unwrap();
            return;
        }
        assert_eq!(m.iprobe(0, 5, m.world()).unwrap(), None);
        let s = m.probe(ANY_SOURCE, ANY_TAG, m.world()).unwrap();
        assert_eq!((s.source, s.tag, s.count), (0, 4, 50));
        let (msg, s) = m.mprobe(0, 4, m.world()).unwrap();
        assert_eq!(s.count, 50);
        assert_eq!(recv(&m, 60, 0, 4).0, [2; 60]);
        let mut b = [0; 50];
        // SAFETY: `b` lives until the call returns.
        let done = unsafe { m.mrecv(&data(&mut b, &byte()), msg) }.unwrap();
        assert_eq!((done.status.count, b), (50, [1; 50]));
        assert!(m.improbe(0, 4, m.world()).unwrap().is_none());
    });
}

#[test]
fn buffered_sends_leave_and_come_back() {
    run_seeds(2, |m| {
        let me = m.rank().0 as i32;
        let mut memory = vec![0u8; 3 * 8000 + 64];
        let (addr, len) = (memory.as_mut_ptr(), memory.len());
        // SAFETY: the vector outlives the attachment.
        unsafe { m.buffer_attach(None, Some((addr, len))) }.unwrap();
        for i in 0..3u8 {
            send(&m, &[i; 8000], 1 - me, 1, SendMode::Buffered).unwrap();
        }
        let full = send(&m, &[9; 30_000], 1 - me, 1, SendMode::Buffered);
        assert_eq!(full.unwrap_err().class, ErrorClass::Buffer);
        for i in 0..3u8 {
            assert_eq!(recv(&m, 8000, 1 - me, 1).0, [i; 8000]);
        }
        assert_eq!(
            m.buffer_detach(None).unwrap(),
            Detached::Memory(addr as usize, len)
        );
        assert_eq!(m.buffer_detach(None).unwrap_err().class, ErrorClass::Buffer);
        // SAFETY: the library's own memory.
        unsafe { m.buffer_attach(Some(m.world()), None) }.unwrap();
        send(&m, &[5; 9000], 1 - me, 2, SendMode::Buffered).unwrap();
        let flush = m.buffer_iflush(Some(m.world())).unwrap();
        assert_eq!(recv(&m, 9000, 1 - me, 2).0, [5; 9000]);
        m.wait(flush).unwrap();
        assert_eq!(
            m.buffer_detach(Some(m.world())).unwrap(),
            Detached::Automatic
        );
    });
}

#[test]
fn sendrecv_in_rings() {
    run_seeds(5, |m| {
        let me = m.rank().0 as i32;
        let t = byte();
        let (to, from) = (
            ExchangeSide {
                peer: (me + 1) % 5,
                tag: 1,
            },
            ExchangeSide {
                peer: (me + 4) % 5,
                tag: 1,
            },
        );
        let mut out = vec![me as u8; 9000];
        let mut inn = vec![0; 9000];
        // SAFETY: both live until the call returns.
        let done = unsafe {
            m.sendrecv(
                &data(&mut out, &t),
                to,
                &data(&mut inn, &t),
                from,
                m.world(),
            )
        };
        assert_eq!(done.unwrap().status.source, from.peer);
        assert_eq!(inn, vec![from.peer as u8; 9000]);
        for _ in 0..5 {
            // SAFETY: lives until the call returns.
            unsafe { m.sendrecv_replace(&data(&mut out, &t), to, from, m.world()) }.unwrap();
        }
        assert_eq!(out, vec![me as u8; 9000]);
        // SAFETY: live until the wait.
        let id = unsafe {
            m.isendrecv(
                &data(&mut out, &t),
                to,
                &data(&mut inn, &t),
                from,
                m.world(),
            )
        };
        m.wait(id.unwrap()).unwrap();
        assert_eq!((m.live_requests(), inn[0]), (0, from.peer as u8));
    });
}
