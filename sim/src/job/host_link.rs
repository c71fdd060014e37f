//! A host's link to central, which its local manager dials.
//!
//! A link belongs to one run of central. When central dies, messages to it are lost, and a part of
//! its own still arrives. The next central has the link as soon as the local manager has dialed it.
//! A cut link delivers nothing until the local manager has dialed again, and loses nothing.

use crate::rng::Rng;
use rejoin_managers_protocol::manager_messages::{ToCentral, ToLocal};
use std::collections::VecDeque;

/// The messages of one direction, in their order, with the time at which the last one arrives.
#[derive(Debug)]
struct Direction<M> {
    messages: VecDeque<M>,
    last: u64,
}

impl<M> Direction<M> {
    fn new() -> Direction<M> {
        Direction {
            messages: VecDeque::new(),
            last: 0,
        }
    }

    /// Adds a message, and returns when it arrives.
    fn send(&mut self, message: M, at: u64) -> u64 {
        self.messages.push_back(message);
        self.last = self.last.max(at);
        self.last
    }

    fn clear(&mut self) {
        self.messages.clear();
        self.last = 0;
    }
}

/// The next message of a link.
pub(super) enum NextMessage<M> {
    Message(M),
    /// The link delivers nothing until this time.
    Later(u64),
    /// It was lost with a run of central.
    Nothing,
}

impl<M> NextMessage<M> {
    fn of(direction: &mut Direction<M>, linked: bool, open: u64, now: u64) -> NextMessage<M> {
        if linked && open > now {
            return NextMessage::Later(open);
        }
        let next = direction.messages.pop_front_if(|_| linked);
        next.map_or(NextMessage::Nothing, NextMessage::Message)
    }
}

/// One host's link to central.
#[derive(Debug)]
pub(super) struct SimLink {
    /// The run of central that the local manager has dialed last.
    run: u32,
    /// Reports to that run.
    up: Direction<ToCentral>,
    /// Orders of that run; once it is dead, those that still arrive.
    down: Direction<ToLocal>,
    /// Orders of a run that the local manager has not dialed yet.
    waiting: Vec<ToLocal>,
    /// Nothing of the host is reached until then.
    unreachable: u64,
    /// This link alone delivers nothing until then.
    cut: u64,
    /// Central has dropped this host.
    dropped: bool,
}

impl SimLink {
    /// The link to this run of central.
    pub fn new(run: u32) -> SimLink {
        SimLink {
            run,
            up: Direction::new(),
            down: Direction::new(),
            waiting: Vec::new(),
            unreachable: 0,
            cut: 0,
            dropped: false,
        }
    }

    /// The link of a host whose local manager has dialed no central.
    pub fn undialed() -> SimLink {
        SimLink::new(u32::MAX)
    }

    /// The host can't be reached until this time.
    pub fn make_unreachable(&mut self, until: u64) {
        self.unreachable = self.unreachable.max(until);
    }

    /// The connection is cut, and made anew at this time.
    pub fn cut(&mut self, until: u64) {
        self.cut = self.cut.max(until);
    }

    /// Until when nothing of the host is reached.
    pub fn unreachable(&self) -> u64 {
        self.unreachable
    }

    /// When the link delivers.
    fn open(&self) -> u64 {
        self.unreachable.max(self.cut)
    }

    /// Central drops the host.
    pub fn drop_host(&mut self) {
        self.dropped = true;
    }

    /// Central has dropped the host.
    pub fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// This run of central has died: some of its last orders are in no socket of the host yet.
    pub fn central_died(&mut self, run: u32, rng: &mut Rng) {
        self.waiting.clear();
        if self.run == run {
            let arrive = rng.below(self.down.messages.len() as u64 + 1) as usize;
            self.down.messages.truncate(arrive);
        }
    }

    /// This run of central sends an order. When it arrives; `None`: it waits until the local
    /// manager has dialed, or goes nowhere.
    pub fn send_down(&mut self, run: u32, order: ToLocal, at: u64) -> Option<u64> {
        if self.dropped {
            return None;
        }
        if self.run != run {
            self.waiting.push(order);
            return None;
        }
        let at = self.open().max(at);
        Some(self.down.send(order, at))
    }

    /// The local manager sends a report. When it arrives, and at which run of central.
    pub fn send_up(&mut self, report: ToCentral, at: u64) -> Option<(u64, u32)> {
        let at = self.open().max(at);
        (!self.dropped).then(|| (self.up.send(report, at), self.run))
    }

    /// The next report to this run of central.
    pub fn next_up(&mut self, now: u64, run: u32) -> NextMessage<ToCentral> {
        let open = self.open();
        NextMessage::of(&mut self.up, self.run == run, open, now)
    }

    /// The next order of this run of central.
    pub fn next_down(&mut self, now: u64, run: u32) -> NextMessage<ToLocal> {
        let open = self.open();
        NextMessage::of(&mut self.down, self.run == run, open, now)
    }

    /// The local manager dials this run of central. Its connection is there now, or can be at the
    /// returned time. What the local manager kept for another run is useless to this one.
    pub fn dial(&mut self, now: u64, run: u32) -> Result<(), u64> {
        if self.open() > now {
            return Err(self.open());
        }
        if !self.dropped && self.run != run {
            self.run = run;
            self.up.clear();
            self.down.clear();
        }
        Ok(())
    }

    /// The orders that waited for the local manager to dial.
    pub fn take_waiting(&mut self) -> Vec<ToLocal> {
        std::mem::take(&mut self.waiting)
    }
}
