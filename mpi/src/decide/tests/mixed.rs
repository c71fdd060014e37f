//! Programs that choose their next call by the answers of earlier ones.

use super::*;
use crate::coll::{Allreduce, Bcast};
use crate::op::{Builtin, Op};
use crate::p2p::Typed;
use crate::request::Any;
use crate::status::{ANY_SOURCE, ANY_TAG, Status};

/// Messages of each rank to rank 0.
const MESSAGES: i32 = 10;

/// Choices that depend on what was seen.
struct Choices(u64);

impl Choices {
    fn note(&mut self, seen: &str) {
        for byte in seen.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Rank 0, which has receives in flight.
struct Receiver<'a> {
    m: &'a Mpi,
    trace: &'a Trace<'a>,
    choices: Choices,
    /// Their memory stays where it is.
    open: Vec<(RequestId, Box<[u8; 8]>)>,
    left: i32,
}

impl Receiver<'_> {
    fn see(&mut self, seen: String) {
        self.choices.note(&seen);
        self.trace.push(seen);
    }

    fn got(&mut self, status: &Status, bytes: &[u8; 8]) {
        self.see(format!("{} {} {bytes:?}", status.source, status.tag));
        self.left -= 1;
        let mut reply = [self.left as u8; 8];
        send(self.m, &mut reply, status.source, 100);
    }

    fn post(&mut self) {
        if self.open.len() as i32 == self.left {
            return;
        }
        let from = match self.choices.below(3) {
            0 => ANY_SOURCE,
            _ => 1 + self.choices.below(self.m.size() as u64 - 1) as i32,
        };
        let mut cell = Box::new([0; 8]);
        // Not every rank has enough messages for it: then it is cancelled.
        self.open
            .push((irecv(self.m, &mut *cell, from, ANY_TAG), cell));
    }

    fn end(&mut self, at: usize, status: &Status) {
        let (_, cell) = self.open.remove(at);
        match status.cancelled {
            true => self.see("cancelled".into()),
            false => self.got(status, &cell),
        }
    }

    fn call(&mut self) {
        let ids: Vec<_> = self.open.iter().map(|open| Some(open.0)).collect();
        let get = |i: usize| ids[i];
        let world = self.m.world();
        match self.choices.below(8) {
            0 | 1 => self.post(),
            2 if !ids.is_empty() => {
                let at = self.choices.below(ids.len() as u64) as usize;
                match self.m.test(self.open[at].0).unwrap() {
                    Some(done) => self.end(at, &done.status),
                    None => self.see("not done".into()),
                }
            }
            3 => match self.m.test_any(ids.len(), &get).unwrap() {
                Any::Found(at, done) => self.end(at, &done.status),
                other => self.see(format!("{other:?}")),
            },
            4 => {
                let mut found = Vec::new();
                let mut each = |i, done: crate::Completed| found.push((i, done.status));
                self.m.test_some(ids.len(), &get, &mut each).unwrap();
                found
                    .iter()
                    .rev()
                    .for_each(|(i, status)| self.end(*i, status));
            }
            5 if !ids.is_empty() => {
                let at = self.choices.below(ids.len() as u64) as usize;
                let id = self.open[at].0;
                self.m.cancel(id).unwrap();
                let done = self.m.wait(id).unwrap();
                self.end(at, &done.status);
            }
            6 => {
                let found = self.m.improbe(ANY_SOURCE, ANY_TAG, world).unwrap();
                let Some((message, status)) = found else {
                    return self.see("no message".into());
                };
                let mut cell = [0; 8];
                // SAFETY: the cell lives until the call returns.
                unsafe { self.m.mrecv(&data(&mut cell, &byte()), message) }.unwrap();
                self.got(&status, &cell);
            }
            _ if ids.is_empty() => {
                let found = self.m.probe(ANY_SOURCE, ANY_TAG, world).unwrap();
                let (first, from) = recv(self.m, found.source, found.tag);
                self.see(format!("{first} {from}"));
                self.got(&found, &[first; 8]);
            }
            _ => self.see(format!(
                "{}",
                self.m.iprobe(ANY_SOURCE, ANY_TAG, world).unwrap().is_some()
            )),
        }
    }
}

fn mixed(m: &Mpi, trace: &Trace<'_>, choices: u64) {
    let me = m.rank().0 as i32;
    let (mut a, mut b) = (vec![me; 500], vec![me; 9000]);
    let typed = |values: &mut [i32]| {
        let int = Datatype::named(Named::Int);
        // SAFETY: the vectors outlive the waits.
        unsafe { Typed::new(values.as_mut_ptr().cast(), values.len() as i64, int) }
    };
    let (op, send_none, recv_a) = (Op::builtin(Builtin::Sum), None, typed(&mut a));
    let reduce = Allreduce {
        op,
        send: send_none,
        recv: recv_a,
    };
    let bcast = Bcast {
        data: typed(&mut b),
        root: 1,
    };
    let tasks = [
        m.start_collective(m.world(), reduce).unwrap(),
        m.start_collective(m.world(), bcast).unwrap(),
    ];
    if me == 0 {
        let mut receiver = Receiver {
            m,
            trace,
            choices: Choices(choices),
            open: Vec::new(),
            left: MESSAGES * (m.size() as i32 - 1),
        };
        while receiver.left > 0 {
            receiver.call();
        }
        while let Some((id, _)) = receiver.open.first() {
            m.cancel(*id).unwrap();
            let done = m.wait(*id).unwrap();
            receiver.end(0, &done.status);
        }
    } else {
        for tag in 0..MESSAGES {
            send(m, &mut [(10 * me + tag) as u8; 8], 0, tag);
        }
        for _ in 0..MESSAGES {
            recv(m, 0, 100);
        }
    }
    for id in tasks {
        assert_eq!(m.wait(id).unwrap().error, None);
    }
    trace.push(format!("{} {}", a[499], b[8999]));
}

#[test]
fn all_answers_together() {
    for choices in 1..=3 {
        repeats(
            5,
            |m, trace| mixed(m, trace, choices),
            |outcome| (outcome.seen.clone(), outcome.sent.clone()),
        );
    }
}

#[test]
fn all_answers_together_after_deaths() {
    for choices in 1..=6 {
        survives_deaths(5, |m, trace| mixed(m, trace, choices));
    }
}
