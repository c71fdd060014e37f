use super::answers::{is_receiver, seen};
use super::*;
use crate::status::{ANY_SOURCE, ANY_TAG};
use std::cell::Cell;

fn cancels(m: &Mpi, trace: &Trace<'_>) {
    if is_receiver(m, 6) {
        for tag in 0..6 {
            let mut cell = [0; 8];
            let id = irecv(m, &mut cell, 1, tag);
            m.make_progress(None).unwrap();
            m.cancel(id).unwrap();
            m.cancel(id).unwrap();
            let cancelled = m.wait(id).unwrap().status.cancelled;
            trace.push(format!("{cancelled}"));
            if cancelled {
                assert_eq!(cell, [0; 8]);
                trace.push(format!("{:?}", recv(m, 1, tag)));
            }
        }
    }
}

fn cancelled_wildcards(m: &Mpi, trace: &Trace<'_>) {
    if is_receiver(m, 4) {
        let mut left = 12;
        while left > 0 {
            let mut cell = [0; 8];
            let id = irecv(m, &mut cell, ANY_SOURCE, ANY_TAG);
            m.make_progress(None).unwrap();
            m.cancel(id).unwrap();
            let status = m.wait(id).unwrap().status;
            trace.push(format!("{} {cell:?}", status.cancelled));
            left -= u8::from(!status.cancelled);
            if status.cancelled {
                trace.push(format!("{:?}", recv(m, ANY_SOURCE, ANY_TAG)));
                left -= 1;
            }
        }
    }
}

#[test]
fn cancellations_of_receives_with_wildcards() {
    repeats(4, cancelled_wildcards, seen);
    survives_deaths(4, cancelled_wildcards);
}

#[test]
fn cancellations_of_receives() {
    repeats(2, cancels, seen);
    survives_deaths(2, cancels);
}

fn cancelled_sends(m: &Mpi, trace: &Trace<'_>) {
    let mut cells = [[7; 8]; 6];
    if m.rank().0 == 0 {
        for (tag, cell) in cells.iter_mut().enumerate() {
            let (d, tag) = (&byte(), tag as i32);
            let message = data(cell, d);
            // SAFETY: the cell lives until the wait.
            let id = unsafe { m.isend(&message, 1, tag, m.world(), SendMode::Synchronous) };
            let id = id.unwrap();
            m.make_progress(None).unwrap();
            m.make_progress(None).unwrap();
            m.cancel(id).unwrap();
            let cancelled = m.wait(id).unwrap().status.cancelled;
            trace.push(format!("{cancelled}"));
        }
        send(m, &mut [1; 8], 1, 9);
    } else {
        let ids: Vec<_> = cells
            .iter_mut()
            .zip(0..)
            .map(|(c, tag)| irecv(m, c, 0, tag))
            .collect();
        recv(m, 0, 9);
        for id in ids {
            m.cancel(id).unwrap();
            m.wait(id).unwrap();
        }
    }
}

#[test]
fn cancellations_of_sends() {
    // Other ranks must not have got what this one cancels: the same order of arrival.
    let (outcome, journal) = run_logged((2, 3), None, &cancelled_sends);
    let (again, after) = run_logged((2, 3), Some(&journal), &cancelled_sends);
    assert_eq!((again.seen, again.sent), (outcome.seen, outcome.sent));
    assert_eq!(after.counters(), journal.counters());
}

fn buffered(m: &Mpi, trace: &Trace<'_>) {
    const LEN: usize = 5000;
    if m.rank().0 == 0 {
        let mut memory = vec![0; 12_000];
        // SAFETY: the memory lives until the buffer is detached.
        unsafe { m.buffer_attach(None, Some((memory.as_mut_ptr(), 12_000))) }.unwrap();
        let (mut sent, mut refused) = (0, 0);
        while sent < 6 {
            let mut bytes = vec![sent; LEN];
            let (d, world) = (&byte(), m.world());
            let message = data(&mut bytes, d);
            // SAFETY: the bytes live until the call returns.
            match unsafe { m.send(&message, 1, 0, world, SendMode::Buffered) } {
                Ok(()) => sent += 1,
                Err(_) => refused += 1,
            }
            trace.push(format!("{sent} {refused}"));
        }
        m.buffer_detach(None).unwrap();
    } else {
        let mut bytes = vec![0; LEN];
        for _ in 0..6 {
            // SAFETY: the bytes live until the call returns.
            unsafe { m.recv(&data(&mut bytes, &byte()), 0, 0, m.world()) }.unwrap();
        }
    }
}

#[test]
fn room_for_buffered_sends() {
    repeats(2, buffered, seen);
    survives_deaths(2, buffered);
}

#[test]
fn the_time() {
    let start = Cell::new(1000.0);
    let at = Mutex::new(0.0);
    let times = |m: &Mpi, trace: &Trace<'_>| {
        for i in 0..50 {
            let mut clock = at.lock().unwrap();
            // Every third reading follows at once.
            *clock += if i % 3 == 0 { 1e-9 } else { 0.25 };
            trace.push(format!("{}", m.wall_time(*clock)));
        }
    };
    let run = |replay: Option<&Journal>| {
        *at.lock().unwrap() = start.get();
        run_logged((1, 1), replay, &times)
    };
    let (outcome, journal) = run(None);
    let clocks = outcome.seen.iter().map(|t| t.parse::<f64>().unwrap());
    assert!(clocks.is_sorted());
    // A host that is up for longer, and one that is up for less time.
    for begin in [5000.0, 3.0] {
        start.set(begin);
        let (again, _) = run(Some(&journal));
        assert_eq!(again.seen, outcome.seen);
        let stores = outcome.stores[20];
        let (again, _) = run(Some(&journal.until(stores)));
        assert_eq!(again.seen[..20], outcome.seen[..20]);
        let clocks = again.seen.iter().map(|t| t.parse::<f64>().unwrap());
        assert!(clocks.is_sorted(), "{:?}", again.seen);
    }
    // Repeated readings take no record.
    assert!(journal.counters()[1] < 40, "{:?}", journal.counters());
}

#[test]
fn a_replay_of_another_program_ends_with_an_error_that_says_why() {
    let asks = |m: &Mpi| m.iprobe(ANY_SOURCE, ANY_TAG, m.world()).map(drop);
    let program = |m: &Mpi, trace: &Trace<'_>| {
        if is_receiver(m, 1) {
            while m.iprobe(ANY_SOURCE, ANY_TAG, m.world()).unwrap().is_none() {}
            trace.push("found");
        }
    };
    let (_, journal) = run_logged((2, 1), None, &program);
    let other = |m: &Mpi, _: &Trace<'_>| {
        if is_receiver(m, 1) {
            let mut cell = [0; 8];
            let id = irecv(m, &mut cell, 1, 3);
            let error = loop {
                match m.test(id) {
                    Ok(done) => assert_eq!(done, None),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.class, crate::error::ErrorClass::Intern);
            let text = error.message.to_string();
            assert!(text.starts_with("rank 0: determinants: answer "), "{text}");
            assert!(
                text.contains("MPI_Test") && text.contains("MPI_Iprobe"),
                "{text}"
            );
            // Every later call says so, too.
            assert_eq!(asks(m).unwrap_err(), error);
        }
    };
    run_logged((2, 5), Some(&journal), &other);
}

#[test]
fn a_full_log_without_checkpoints_ends_with_an_error() {
    run(1, 1, |m| {
        let log = Determinants::new(boxed(&Journal::new(HEADER + 4 * 2))).unwrap();
        m.dev_mut().set_determinants(log);
        m.start_logging();
        for _ in 0..2 {
            send(&m, &mut [1; 8], 0, 5);
            recv(&m, 0, 5);
            let done = m.test(RequestId::SENT).unwrap();
            assert!(done.is_some());
        }
        let error = m.test(RequestId::SENT).unwrap_err();
        assert!(
            error.message.contains("full (2 records"),
            "{}",
            error.message
        );
    });
}
