//! Rank 0 of a network records its answers. Then it repeats them in another run, in which messages
//! arrive in another order.

mod answers;
mod journal;
mod mixed;
mod one_order;
mod operations;
mod sends;

use crate::adi::testnet::{SentMessage, run, sent_messages};
use crate::datatype::{Datatype, Named};
use crate::p2p::{Data, SendMode};
use crate::request::RequestId;
use crate::runtime::Mpi;
use journal::{HEADER, Journal};
use rejoin_device::Determinants;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Mutex;

/// What the program of rank 0 has seen, in order.
struct Trace<'a> {
    seen: RefCell<Vec<String>>,
    /// How many words had been stored before each.
    stores: RefCell<Vec<usize>>,
    journal: &'a Journal,
}

impl Trace<'_> {
    fn push(&self, seen: impl Into<String>) {
        self.seen.borrow_mut().push(seen.into());
        self.stores.borrow_mut().push(self.journal.len());
    }
}

/// A run of rank 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outcome {
    seen: Vec<String>,
    stores: Vec<usize>,
    sent: Vec<SentMessage>,
}

/// Words of the logs here.
const WORDS: usize = HEADER + 4 * 4096;
/// The word that counts the sends whose order matters.
const SENDS: usize = 4;

fn boxed(journal: &Journal) -> Box<Journal> {
    Box::new(journal.clone())
}

/// Runs `body` on `n` ranks. Rank 0 has a log; with `replay`, it repeats what that memory holds.
fn run_logged(
    (n, seed): (usize, u64),
    replay: Option<&Journal>,
    body: &(impl Fn(&Mpi, &Trace<'_>) + Sync),
) -> (Outcome, Journal) {
    let journal = replay.map_or_else(|| Journal::new(WORDS), Journal::fork);
    let outcome = Mutex::new(Outcome::default());
    run(n, seed, |m| {
        let trace = Trace {
            seen: RefCell::default(),
            stores: RefCell::default(),
            journal: &journal,
        };
        if m.rank().0 != 0 {
            body(&m, &trace);
            return;
        }
        let log = match replay {
            None => Determinants::new(boxed(&journal)).unwrap(),
            Some(_) => {
                let mut log = Determinants::new(boxed(&Journal::new(WORDS))).unwrap();
                log.replay_from(boxed(&journal)).unwrap();
                log
            }
        };
        m.dev_mut().set_determinants(log);
        m.start_logging();
        body(&m, &trace);
        *outcome.lock().unwrap() = Outcome {
            seen: trace.seen.take(),
            stores: trace.stores.take(),
            sent: sent_messages(&m),
        };
    });
    (outcome.into_inner().unwrap(), journal)
}

/// Runs `body` with several orders of arrival, which must make a difference that `of` shows. Then
/// each run is repeated with the orders of others.
fn repeats<T: PartialEq + std::fmt::Debug>(
    n: usize,
    body: impl Fn(&Mpi, &Trace<'_>) + Sync,
    of: impl Fn(&Outcome) -> T,
) {
    let runs: Vec<_> = (1..=10).map(|s| run_logged((n, s), None, &body)).collect();
    let first = of(&runs[0].0);
    assert!(
        runs.iter().any(|run| of(&run.0) != first),
        "the order of arrival makes no difference: {first:?}"
    );
    for (at, (outcome, journal)) in runs.iter().enumerate() {
        for seed in [1, 4, 9, 20 + at as u64] {
            println!("run {} again with {seed}", at + 1);
            let (again, after) = run_logged((n, seed), Some(journal), &body);
            assert_eq!(of(&again), of(outcome));
            let (mut counters, mut before) = (after.counters(), journal.counters());
            // In a replay, tasks may be under way for longer.
            assert!(counters[SENDS] >= before[SENDS]);
            (counters[SENDS], before[SENDS]) = (0, 0);
            assert_eq!(counters, before);
        }
    }
}

/// Runs `body`, lets rank 0 die at many of its stores, and continues with another order of arrival:
/// what the program had seen then, it sees again.
fn survives_deaths(n: usize, body: impl Fn(&Mpi, &Trace<'_>) + Sync) {
    for seed in 1..=4 {
        let (outcome, journal) = run_logged((n, seed), None, &body);
        let step = (journal.len() / 12).max(1);
        for stores in (HEADER + 1..=journal.len()).step_by(step) {
            println!("run {seed} until {stores} of {} stores", journal.len());
            let left = journal.until(stores);
            let (again, _) = run_logged((n, seed + 50), Some(&left), &body);
            let known = outcome.stores.iter().take_while(|s| **s <= stores).count();
            assert_eq!(again.seen[..known], outcome.seen[..known]);
        }
    }
}

fn byte() -> Rc<Datatype> {
    Datatype::named(Named::Byte)
}

fn data<'a>(bytes: &mut [u8], datatype: &'a Rc<Datatype>) -> Data<'a> {
    Data::new(bytes.as_mut_ptr(), bytes.len() as i64, datatype)
}

/// As the C interface does it: the fast path comes first.
fn send(m: &Mpi, bytes: &mut [u8], to: i32, tag: i32) {
    let byte = byte();
    let bytes = data(bytes, &byte);
    // SAFETY: the bytes are borrowed until the call returns.
    let sent = unsafe {
        let tried = m.try_send(&bytes, to, tag, m.world());
        tried.unwrap_or_else(|| m.send(&bytes, to, tag, m.world(), SendMode::Standard))
    };
    sent.unwrap();
}

/// As the C interface posts it: the fast path comes first.
fn irecv(m: &Mpi, bytes: &mut [u8], from: i32, tag: i32) -> RequestId {
    let byte = byte();
    let bytes = data(bytes, &byte);
    // SAFETY: the tests keep the bytes until the request is complete.
    let posted = unsafe {
        let tried = m.try_irecv(&bytes, from, tag, m.world());
        tried.unwrap_or_else(|| m.irecv(&bytes, from, tag, m.world()))
    };
    posted.unwrap()
}

/// The first byte and the source of the next message that matches.
fn recv(m: &Mpi, from: i32, tag: i32) -> (u8, i32) {
    let mut bytes = [0; 8];
    // SAFETY: the bytes live until the call returns.
    let done = unsafe { m.recv(&data(&mut bytes, &byte()), from, tag, m.world()) }.unwrap();
    (bytes[0], done.status.source)
}
