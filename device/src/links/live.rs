//! A live link: reading and writing it, with the cuts of tests.

use std::time::Instant;

use rejoin_channel_table::ids::Rank;
use rejoin_engine::{Flags, FrameKind, Gets, HEADER_LEN, Header};

use super::burst::Burst;
use super::unanswered::Unanswered;
use crate::cost::{BodyCosts, BodyUse, BodyWay};
use crate::meter::Meter;
use crate::transport::{AnyEndpoint, Endpoint, Fault, Lost, Piece};

/// Why a link of a test is gone.
const CUT: &str = "cut by REJOIN_TEST_CUT";

/// The part of a body that is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncomingBody {
    /// A header is next.
    None,
    /// Into the program's memory, then away.
    Into {
        /// The rest of the segment.
        into: rejoin_engine::Segment,
        /// Bytes behind it that do not fit.
        discard: u64,
    },
    /// Into the engine's buffer, `done` bytes of which are there.
    Buffer {
        /// Bytes that have come.
        done: usize,
        /// The body's length.
        len: usize,
    },
}

/// An established link to one rank.
pub(crate) struct Live {
    pub(crate) endpoint: AnyEndpoint,
    pub(super) rank: Rank,
    /// The last write was short: nothing more fits before an event says so.
    pub(super) write_blocked: bool,
    /// A frame has come.
    pub(super) received_frame: bool,
    /// There may be bytes that no event will announce again.
    pub(super) readable: bool,
    /// In the list of links to be read before anything blocks.
    pub(super) listed: bool,
    /// Reads in a row that brought something to a request that was waited for.
    pub(super) hits: u32,
    /// Epoll watches the link for bytes.
    pub(super) watched: bool,
    /// The link raises no event until it is armed.
    pub(super) polled: bool,
    /// This rank knows whether the peer can read its memory.
    pub(super) access_known: bool,
    /// The bodies that the engine lets the peer read, if it can.
    gets: Option<Gets>,
    /// What the ways of bodies that come over the link cost.
    costs: BodyCosts,
    /// What the sender said of the last long body.
    body_use: BodyUse,
    /// The long body of the present frame, and when its header came.
    timed: Option<(usize, Instant)>,
    /// The last body was long: read little into the staging buffer, the rest in place.
    pub(super) large: bool,
    /// The present burst of nonblocking sends.
    pub(crate) burst: Burst,
    /// A header of which only a part has come.
    pub(super) head: [u8; HEADER_LEN],
    /// Bytes of it.
    pub(super) head_len: usize,
    pub(super) body: IncomingBody,
    /// A frame of a later epoch and the bytes read behind it, which are ingested after the safe
    /// point.
    pub(super) held: Vec<u8>,
    /// The end of the handshake, which goes ahead of all frames, and how much of it is sent.
    pub(super) ahead: Vec<u8>,
    pub(super) ahead_sent: usize,
    /// Why it is broken, found where the link could not be dropped: the next read or write says so.
    pub(super) broken: Option<Box<Fault>>,
    pub(crate) unanswered: Unanswered,
}

impl Live {
    pub(crate) fn new(endpoint: AnyEndpoint, rank: Rank, ahead: Vec<u8>) -> Self {
        let polled = endpoint.capabilities().doorbell;
        Self {
            endpoint,
            rank,
            polled,
            access_known: false,
            gets: None,
            costs: BodyCosts::default(),
            body_use: BodyUse::Single,
            timed: None,
            write_blocked: false,
            received_frame: false,
            // Frames may have come right behind the handshake.
            readable: true,
            listed: false,
            hits: 0,
            watched: !polled,
            large: false,
            burst: Burst::default(),
            head: [0; HEADER_LEN],
            head_len: 0,
            body: IncomingBody::None,
            held: Vec::new(),
            ahead,
            ahead_sent: 0,
            broken: None,
            unanswered: Unanswered::default(),
        }
    }

    /// The peer.
    #[inline(always)]
    pub(crate) fn rank(&self) -> Rank {
        self.rank
    }

    /// Whether the link raises no event until it is armed.
    #[inline(always)]
    pub(crate) fn is_polled(&self) -> bool {
        self.polled
    }

    /// Whether epoll watches the link for bytes.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    /// Whether the last write was short: nothing more fits before an event says so.
    #[inline(always)]
    pub(crate) fn is_write_blocked(&self) -> bool {
        self.write_blocked
    }

    /// Whether nothing of the handshake is still to be sent.
    #[inline(always)]
    pub(crate) fn is_handshaken(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Whether short messages may be looked for in place: nothing else is to be done first.
    #[inline(always)]
    pub(crate) fn may_look_for_short(&self) -> bool {
        self.polled && !self.write_blocked && self.held.is_empty()
    }

    /// Whether a part of a message has moved over shared memory, and the rest is to follow.
    pub(crate) fn is_half_way(&self) -> bool {
        self.polled && (self.write_blocked || !self.is_between_frames())
    }

    /// Whether there may be bytes that neither an event nor a look at the polled links announces.
    #[inline]
    pub(crate) fn must_be_listed(&self) -> bool {
        // A polled link is read in any case, except for the bytes that it holds itself.
        self.readable && !(self.polled && self.held.is_empty()) && !self.listed
    }

    /// A write that found no room is tried again.
    #[inline]
    pub(crate) fn retry_write(&mut self) {
        self.write_blocked = false;
    }

    /// Whether this side can read the peer's memory, and which bodies the peer reads in this
    /// side's, if it can. `None`: that was reported already.
    #[inline]
    pub(crate) fn learn_access(&mut self) -> Option<(bool, Option<Gets>)> {
        let gets = self.endpoint.gets();
        if self.access_known && gets == self.gets {
            return None;
        }
        let (ours, theirs) = self.endpoint.remote_access();
        self.access_known = theirs.is_some();
        self.gets = gets;
        Some((ours, gets.filter(|_| theirs == Some(true))))
    }

    /// The header of a frame came. `into`: bytes of its body that follow and go to a receive.
    #[inline]
    pub(super) fn begin_body(&mut self, header: &Header, into: usize) {
        let len = usize::try_from(header.length).unwrap_or(usize::MAX);
        if !BodyCosts::counts(len) {
            return;
        }
        if matches!(header.kind, FrameKind::Eager | FrameKind::Rts) {
            self.body_use = match header.flags.has(Flags::STREAM) {
                true => BodyUse::Stream,
                false => BodyUse::Single,
            };
        }
        // Not of a body that is cut, nor of the rest of one.
        let is_rest = header.kind == FrameKind::Data && header.aux > 0;
        if self.polled && into == len && !is_rest {
            self.timed = Some((len, Instant::now()));
        }
    }

    /// The body of the present frame is complete.
    #[inline]
    pub(super) fn end_body(&mut self) {
        if let Some((len, begun)) = self.timed.take() {
            self.note_bodies(BodyWay::Buffered, (1, len), begun);
        }
    }

    /// So many bodies of so many bytes together came by this way since then.
    pub(crate) fn note_bodies(&mut self, way: BodyWay, bodies: (usize, usize), begun: Instant) {
        let time = (begun, Instant::now());
        if let Some(word) = self.costs.note(way, self.body_use, bodies, time) {
            self.endpoint.ask_for_gets(word);
        }
    }

    /// The peer's memory can't be read any more.
    #[cold]
    pub(crate) fn gets_failed(&mut self) {
        let word = self.costs.end();
        self.endpoint.ask_for_gets(word);
    }

    /// Whether a short message may be taken at once: no part of a frame has come, and none is held.
    #[inline(always)]
    pub(crate) fn is_between_frames(&self) -> bool {
        self.head_len == 0 && self.body == IncomingBody::None && self.held.is_empty()
    }

    /// Copies a part of a body that the peer waits for; true if there was one.
    #[inline]
    pub(crate) fn serve_get(&mut self, meter: &mut Meter) -> bool {
        let bytes = self.endpoint.serve_get();
        meter.stats.bytes_put += bytes as u64;
        bytes > 0
    }

    /// Whether a short message comes next.
    pub(crate) fn has_short(&self) -> bool {
        self.endpoint.try_recv().is_some()
    }

    /// One write; short or empty when there is no room.
    ///
    /// # Safety
    /// Each piece is readable memory.
    #[inline(always)]
    pub(crate) unsafe fn write(
        &mut self,
        meter: &mut Meter,
        pieces: &[Piece],
    ) -> Result<usize, Box<Fault>> {
        self.still_good()?;
        meter.stats.writes += 1;
        meter.stats.ring_calls += u64::from(self.polled);
        // A polled link also gets write attempts without effect; they must not count.
        if meter.injects_faults() && !self.polled {
            // SAFETY: the caller's promise.
            unsafe { self.inject_cut_within(meter, pieces)? };
        }
        // SAFETY: the caller's promise.
        let count = unsafe { self.endpoint.try_write(pieces)? };
        if self.polled && count > 0 {
            self.inject_cut_after(meter)?;
        }
        meter.stats.bytes_out += count as u64;
        meter.stats.writes_blocked += u64::from(count == 0);
        Ok(count)
    }

    /// One read; short or empty when there is no more.
    ///
    /// # Safety
    /// Each piece is writable memory that nothing else uses.
    #[inline]
    pub(crate) unsafe fn read(
        &mut self,
        meter: &mut Meter,
        pieces: &[Piece],
    ) -> Result<usize, Box<Fault>> {
        self.still_good()?;
        meter.stats.reads += 1;
        meter.stats.ring_calls += u64::from(self.polled);
        // SAFETY: the caller's promise.
        let count = unsafe { self.endpoint.try_read(pieces)? };
        meter.stats.bytes_in += count as u64;
        meter.stats.reads_empty += u64::from(count == 0);
        if count > 0 {
            // The bytes of the read are lost with the link, as if they had never arrived.
            self.inject_cut_after(meter)?;
        }
        Ok(count)
    }

    /// The fault that was found where the link could not be dropped.
    #[inline(always)]
    fn still_good(&mut self) -> Result<(), Box<Fault>> {
        match self.broken.take() {
            None => Ok(()),
            Some(fault) => Err(fault),
        }
    }

    /// Breaks the link after bytes have moved, when the fault injector says so.
    #[inline]
    pub(crate) fn inject_cut_after(&mut self, meter: &mut Meter) -> Result<(), Box<Fault>> {
        if meter.draw_cut(0).is_none() {
            return Ok(());
        }
        self.endpoint.cut();
        Err(Box::new(Fault::Link(Lost(CUT.to_owned()))))
    }

    /// Writes a random part of the bytes and then breaks the link, when the fault injector says so.
    ///
    /// # Safety
    /// The conditions are those of `write`.
    #[cold]
    unsafe fn inject_cut_within(
        &mut self,
        meter: &mut Meter,
        pieces: &[Piece],
    ) -> Result<(), Box<Fault>> {
        let Some(first) = pieces.first() else {
            return Ok(());
        };
        let Some(len) = meter.draw_cut(first.iov_len) else {
            return Ok(());
        };
        if len > 0 {
            let part = [Piece {
                iov_base: first.iov_base,
                iov_len: len,
            }];
            // SAFETY: a part of the first piece, for which the caller has promised.
            unsafe { self.endpoint.try_write(&part)? };
        }
        self.endpoint.cut();
        Err(Box::new(Fault::Link(Lost(CUT.to_owned()))))
    }
}
