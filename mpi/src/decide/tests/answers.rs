use super::*;
use crate::request::Any;
use crate::status::{ANY_SOURCE, ANY_TAG};
use std::cell::Cell;

/// All ranks but 0 send `count` messages to rank 0: rank, and number as the tag. True for rank 0.
pub fn is_receiver(m: &Mpi, count: i32) -> bool {
    let me = m.rank().0;
    if me == 0 {
        return true;
    }
    for tag in 0..count {
        send(m, &mut [me as u8; 8], 0, tag);
    }
    false
}

pub fn seen(outcome: &Outcome) -> Vec<String> {
    outcome.seen.clone()
}

fn matches(m: &Mpi, trace: &Trace<'_>) {
    if is_receiver(m, 4) {
        for i in 0..12 {
            let tag = if i % 2 == 0 { ANY_TAG } else { i / 4 };
            let from = if i % 2 == 0 { ANY_SOURCE } else { 1 + i % 3 };
            if i % 2 == 0 {
                trace.push(format!("{:?}", recv(m, from, tag)));
            }
        }
        let mut cells = [[0; 8]; 6];
        let ids = cells
            .each_mut()
            .map(|cell| irecv(m, cell, ANY_SOURCE, ANY_TAG));
        for id in ids {
            let done = m.wait(id).unwrap();
            trace.push(format!("{} {}", done.status.source, done.status.tag));
        }
    }
}

#[test]
fn matches_of_wildcards() {
    repeats(4, matches, seen);
    survives_deaths(4, matches);
}

fn tests_of_one(m: &Mpi, trace: &Trace<'_>) {
    if is_receiver(m, 2) {
        for tag in 0..2 {
            let mut cell = [0; 8];
            let id = irecv(m, &mut cell, 1, tag);
            let mut refused = 0;
            while m.request_status(id).unwrap().is_none() {
                refused += 1;
                if m.test(id).unwrap().is_some() {
                    break;
                }
                refused += 1;
            }
            let left = m.live_requests();
            if left > 0 {
                m.wait(id).unwrap();
            }
            trace.push(format!("{refused} {left} {cell:?}"));
        }
    }
}

#[test]
fn results_of_tests() {
    repeats(2, tests_of_one, seen);
    survives_deaths(2, tests_of_one);
}

fn tests_of_all(m: &Mpi, trace: &Trace<'_>) {
    if is_receiver(m, 2) {
        for tag in 0..2 {
            let mut cells = [[0; 8]; 3];
            let mut from = 0;
            let ids = cells.each_mut().map(|cell| {
                from += 1;
                irecv(m, cell, from, tag)
            });
            let get = |i: usize| Some(ids[i]);
            let mut refused = 0;
            while !m.status_all(3, &get, &mut |_, _| {}).unwrap() {
                refused += 1;
            }
            assert!(m.test_all(3, &get, &mut |_, _| {}).unwrap());
            trace.push(format!("{refused} {cells:?}"));
        }
    }
}

#[test]
fn results_of_tests_of_all() {
    repeats(4, tests_of_all, seen);
    survives_deaths(4, tests_of_all);
}

/// Requests of which some are done.
struct Several {
    cells: Vec<[u8; 8]>,
    ids: Vec<Cell<Option<RequestId>>>,
}

impl Several {
    /// A receive for each message of [`is_receiver`] of the ranks 1 to 3.
    fn new(m: &Mpi, count: i32) -> Self {
        let mut cells = vec![[0; 8]; 3 * count as usize];
        let mut ids = Vec::new();
        for (at, cell) in cells.iter_mut().enumerate() {
            let (from, tag) = (1 + at as i32 / count, at as i32 % count);
            ids.push(Cell::new(Some(irecv(m, cell, from, tag))));
        }
        Self { cells, ids }
    }

    fn get(&self, i: usize) -> Option<RequestId> {
        self.ids[i].get()
    }

    fn is_over(&self) -> bool {
        self.ids.iter().all(|id| id.get().is_none())
    }

    fn end(&self, i: usize) {
        self.ids[i].set(None);
    }
}

fn any(m: &Mpi, trace: &Trace<'_>) {
    if is_receiver(m, 4) {
        let several = Several::new(m, 4);
        let get = |i| several.get(i);
        let mut tests = 0;
        while !several.is_over() {
            tests += 1;
            let found = match tests % 2 {
                0 => m.wait_any(12, &get).unwrap(),
                _ => m.test_any(12, &get).unwrap(),
            };
            trace.push(format!("{found:?}"));
            if let Any::Found(i, _) = found {
                several.end(i);
            }
        }
        assert_eq!(m.wait_any(12, &get).unwrap(), Any::NoneActive);
        assert_eq!(m.test_any(12, &get).unwrap(), Any::NoneActive);
        trace.push(format!("{:?}", several.cells));
    }
}

#[test]
fn the_first_of_several_requests() {
    repeats(4, any, seen);
    survives_deaths(4, any);
}

fn some(m: &Mpi, trace: &Trace<'_>) {
    if is_receiver(m, 4) {
        let several = Several::new(m, 4);
        let get = |i| several.get(i);
        let mut calls = 0;
        while !several.is_over() {
            calls += 1;
            let mut found = Vec::new();
            let mut each = |i, _| found.push(i);
            let count = match calls % 3 {
                0 => m.wait_some(12, &get, &mut each),
                1 => m.test_some(12, &get, &mut each),
                _ => m.status_some(12, &get, calls % 2 == 0, &mut each),
            };
            let count = count.unwrap().unwrap();
            assert_eq!(count, found.len());
            assert!(count > 0 || calls % 3 != 0, "a wait found nothing");
            trace.push(format!("{found:?}"));
            if calls % 3 < 2 {
                found.iter().for_each(|i| several.end(*i));
            }
        }
        assert_eq!(m.wait_some(12, &get, &mut |_, _| {}).unwrap(), None);
        trace.push(format!("{:?}", several.cells));
    }
}

#[test]
fn those_of_several_requests_that_are_done() {
    repeats(4, some, seen);
    survives_deaths(4, some);
}

fn probes(m: &Mpi, trace: &Trace<'_>) {
    if is_receiver(m, 4) {
        for _ in 0..4 {
            let found = m.probe(ANY_SOURCE, ANY_TAG, m.world()).unwrap();
            trace.push(format!("{found:?} {:?}", recv(m, found.source, found.tag)));
            let (message, found) = m.mprobe(ANY_SOURCE, ANY_TAG, m.world()).unwrap();
            trace.push(format!("{found:?}"));
            let mut cell = [0; 8];
            // SAFETY: the cell lives until the call returns.
            unsafe { m.mrecv(&data(&mut cell, &byte()), message) }.unwrap();
            trace.push(format!("{cell:?}"));
        }
        for from in 1..4 {
            trace.push(format!("{:?}", m.iprobe(from, ANY_TAG, m.world())));
        }
    }
}

#[test]
fn messages_of_probes() {
    repeats(4, probes, seen);
    survives_deaths(4, probes);
}

fn immediate_probes(m: &Mpi, trace: &Trace<'_>) {
    if is_receiver(m, 4) {
        let (mut left, mut refused) = (12, 0);
        while left > 0 {
            if left % 2 == 0 {
                let found = m.iprobe(ANY_SOURCE, ANY_TAG, m.world()).unwrap();
                let Some(found) = found else {
                    refused += 1;
                    continue;
                };
                trace.push(format!("{refused} {found:?}"));
                recv(m, found.source, found.tag);
            } else {
                let found = m.improbe(ANY_SOURCE, ANY_TAG, m.world()).unwrap();
                let Some((message, found)) = found else {
                    refused += 1;
                    continue;
                };
                let mut cell = [0; 8];
                // SAFETY: the cell lives until the call returns.
                unsafe { m.mrecv(&data(&mut cell, &byte()), message) }.unwrap();
                trace.push(format!("{refused} {found:?} {cell:?}"));
            }
            left -= 1;
        }
    }
}

#[test]
fn messages_of_immediate_probes() {
    repeats(4, immediate_probes, seen);
    survives_deaths(4, immediate_probes);
}

#[test]
fn an_index_outside_the_list_ends_with_an_error() {
    let program = |m: &Mpi, _: &Trace<'_>| {
        if is_receiver(m, 4) {
            let several = Several::new(m, 4);
            let rest = |i: usize| several.get(11 - i);
            let Any::Found(..) = m.wait_any(12, &rest).unwrap() else {
                panic!("no request")
            };
        }
    };
    let other = |m: &Mpi, _: &Trace<'_>| {
        if is_receiver(m, 4) {
            let several = Several::new(m, 4);
            let null = |_| None;
            assert_eq!(m.wait_any(3, &null).unwrap(), Any::NoneActive);
            let one = |i: usize| {
                assert_eq!(i, 0, "beyond the list");
                several.get(0)
            };
            let error = m.wait_any(1, &one).unwrap_err();
            assert!(error.message.contains("MPI_Waitany"), "{}", error.message);
        }
    };
    for seed in 1..6 {
        let (_, journal) = run_logged((4, seed), None, &program);
        let names_other = journal.until(journal.len());
        if names_other.first_record()[1] != 0 {
            run_logged((4, seed), Some(&names_other), &other);
            return;
        }
    }
    panic!("the first request was always the first to be done");
}
