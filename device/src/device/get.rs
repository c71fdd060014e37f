//! Bodies that are read out of the memory of a sender on the same host, or that it writes into this
//! rank's.
//!
//! Bodies are cut into parts, which both sides copy. To share a short body would cost more.

use std::time::Instant;

use rejoin_engine::{Engine, RemoteGet};

use crate::cost::BodyWay;
use crate::job_member::JobMember;
use crate::links::Links;
use crate::meter::Meter;
use crate::program_memory;
use crate::progress::ProgressState;
use crate::transport::{Endpoint, GetPart, MAX_GET_PARTS as MOST};

/// Most bytes of a part: one side waits for the other at the last part.
const PART: usize = 512 << 10;
/// A single body from this length on is copied by both sides.
const SHARE_MIN: usize = 64 << 10;
/// Bodies are cut where pages of theirs may end.
const PAGE: usize = 4096;

/// Copies bodies between memories of processes. Makes and drops no link.
pub(super) struct GetHandler<'a> {
    pub(super) member: &'a JobMember,
    pub(super) engine: &'a mut Engine,
    pub(super) meter: &'a mut Meter,
    pub(super) links: &'a mut Links,
    /// Whether the rank has a core of its own, and how waits for the other side are reported.
    pub(super) progress: &'a ProgressState,
}

impl GetHandler<'_> {
    /// Copies the bodies that the engine asks for, from the first one on.
    pub(super) fn get_from(&mut self, first: RemoteGet) {
        let mut next = Some(first);
        while let Some(first) = next {
            next = self.get_with(first);
        }
    }

    /// Copies a body and the next ones of the same sender; returns the first one of another.
    fn get_with(&mut self, first: RemoteGet) -> Option<RemoteGet> {
        let mut batch = Batch::new(first);
        let next = loop {
            let next = self.engine.next_get();
            match next {
                Some(get) if batch.add(get) => {}
                _ => break next,
            }
        };
        // A sender that shares its core is not likely to run now.
        let together = !self.progress.spin.is_never();
        let (parts, count) = batch.parts(together);
        let wanted = self.member.options().stall_report;
        let stall = &self.progress.stall;
        let mut chunk_stall = stall.chunk_stall(self.member.rank(), wanted);
        let (book, live) = self.links.book_and_live(first.peer);
        let mut waits = || chunk_stall.lasts(first.peer, book.host(first.peer).unwrap_or_default());
        let parts = &parts[..count];
        let bytes = parts.iter().map(|part| part.len).sum();
        let failed = live.map_or(u64::MAX, |live| {
            let begun = Instant::now();
            // SAFETY: the segments are posted receives', for which the callers have promised.
            let failed = unsafe { live.endpoint.get(parts, together, &mut waits) };
            match failed {
                0 => live.note_bodies(BodyWay::SingleCopy, (batch.count, bytes), begun),
                _ => live.gets_failed(),
            }
            failed
        });
        self.meter.stats.gets += count as u64;
        let mut at = 0;
        for (get, parts) in batch.gets.iter().zip(batch.counts).take(batch.count) {
            let whole = failed >> at & ((1 << parts) - 1) == 0;
            at += parts;
            self.meter.stats.bytes_got += if whole { get.to.len as u64 } else { 0 };
            self.engine.get_done(get, whole);
        }
        next
    }
}

/// Bodies of one sender that are copied together.
struct Batch {
    gets: [RemoteGet; MOST],
    /// How many parts each has.
    counts: [usize; MOST],
    count: usize,
    /// Number of parts of all bodies.
    all: usize,
}

impl Batch {
    fn new(first: RemoteGet) -> Self {
        Self {
            gets: [first; MOST],
            counts: [first.to.len.div_ceil(PART).clamp(1, MOST); MOST],
            count: 1,
            all: first.to.len.div_ceil(PART).clamp(1, MOST),
        }
    }

    /// Adds another body, if there is room for its parts.
    fn add(&mut self, get: RemoteGet) -> bool {
        let parts = get.to.len.div_ceil(PART).max(1);
        if get.peer != self.gets[0].peer || self.all.saturating_add(parts) > MOST {
            return false;
        }
        self.gets[self.count] = get;
        self.counts[self.count] = parts;
        self.count += 1;
        self.all += parts;
        true
    }

    /// The parts of all bodies, and their number. A single long body has two.
    fn parts(&mut self, together: bool) -> ([GetPart; MOST], usize) {
        if together && self.all == 1 && self.gets[0].to.len >= SHARE_MIN {
            self.counts[0] = 2;
            self.all = 2;
        }
        let mut parts = [GetPart::EMPTY; MOST];
        let mut filled = 0;
        for (get, count) in self.gets.iter().zip(self.counts).take(self.count) {
            let each = get.to.len.div_ceil(count).next_multiple_of(PAGE);
            for number in 0..count {
                let at = (number * each).min(get.to.len);
                let segment = get.to.part(at, each);
                parts[filled] = GetPart {
                    from: get.from.wrapping_add(at as u64),
                    to: program_memory::start(segment),
                    len: segment.len,
                };
                filled += 1;
            }
        }
        (parts, filled)
    }
}
