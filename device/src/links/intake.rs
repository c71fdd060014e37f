//! Ingests the bytes of a link: headers go to the engine, bodies to the place that the engine
//! names.
//!
//! One read fills the staging buffer with a header, its body and the next frames, or, of a link
//! that is polled, with a header and the first bytes of a body. The device copies small bodies from
//! there. When more of a body is missing, the next read goes directly to the place of the body,
//! with the staging buffer behind it for the next headers. After a long body the first read is
//! short, so that little of the next long body is copied.
//!
//! Short messages come one by one, each whole, in one order with the bytes.
//!
//! A frame of a later epoch waits in its link, with the bytes read behind it, until this rank has
//! passed its safe point. Meanwhile the device does not read the link.

use std::io;

use rejoin_channel_table::Epoch;
use rejoin_engine::{Engine, HEADER_LEN, Header, Matched, ProtocolError, RxBody, Segment};

use super::live::{IncomingBody, Live};
use crate::meter::Meter;
use crate::program_memory;
use crate::recovery::PendingCheckpoint;
use crate::transport::{self, Endpoint, Fault, Lost, Piece};

/// Length of the staging buffer, which all links share: between reads a link keeps no more than a
/// part of a header.
pub(crate) const STAGING: usize = 32 << 10;
/// Bytes of it that are read when a long body is likely to follow.
const STAGING_LARGE: usize = 4 << 10;
/// Bytes of it that are read from a polled link: another read costs no system call, and the rest
/// of a body is received in place. So it is copied once, and a sender that is ahead sees how far
/// this rank is.
const STAGING_POLLED: usize = 1 << 10;
/// Unexpected short messages that are buffered from a polled link at a time, for the same
/// reason.
const EARLY_SHORT: usize = 16;
/// Bodies from this length on make the next one likely to be long.
const LARGE: usize = 24 << 10;
/// Bytes after which another link gets its turn.
const TURN: usize = 4 << 20;
/// Short messages after which another link gets its turn.
const MOST_SHORT: usize = 256;
// The body of a message beside the stream fits behind its header.
const _: () = assert!(transport::MAX_BESIDE_STREAM < STAGING / 2);

/// Why the reading of a link has stopped.
#[derive(Debug)]
pub(crate) enum LinkFault {
    /// The connection broke.
    Lost(Lost),
    /// The peer broke the protocol.
    Breach(String),
    /// The system cannot use the buffer of the program: no fault of the link.
    Memory(io::Error),
    /// The next frame is of a later epoch: no fault of the link.
    Later(Epoch),
}

impl From<Box<Fault>> for LinkFault {
    fn from(fault: Box<Fault>) -> Self {
        match *fault {
            Fault::Link(lost) => Self::Lost(lost),
            Fault::Memory(error) => Self::Memory(error),
        }
    }
}

impl From<ProtocolError> for LinkFault {
    fn from(error: ProtocolError) -> Self {
        match error {
            ProtocolError::LaterEpoch(epoch) => Self::Later(epoch),
            _ => Self::Breach(error.to_string()),
        }
    }
}

/// The context of a receive beside the link.
pub(crate) struct Intake<'a> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) staging: &'a mut [u8],
    pub(crate) meter: &'a mut Meter,
    /// While a request is pending, links that hold a frame of a later epoch are not read on.
    pub(crate) checkpoint: &'a mut PendingCheckpoint,
}

impl Intake<'_> {
    /// Reads a link until it is empty or its turn is over; true if any byte came.
    ///
    /// # Errors
    /// The link must be dropped.
    pub(crate) fn read(&mut self, live: &mut Live) -> Result<bool, LinkFault> {
        let mut total = 0;
        let waited = !live.held.is_empty();
        if waited && !self.resume_held(live)? {
            return Ok(false);
        }
        loop {
            if live.polled {
                let (count, unexpected) = self.take_short_messages(live)?;
                total += count * HEADER_LEN;
                if !live.held.is_empty() || count >= MOST_SHORT || unexpected >= EARLY_SHORT {
                    live.readable = true;
                    return Ok(true);
                }
            }
            let (pieces, count, direct) = self.targets(live);
            let asked = pieces[..count]
                .iter()
                .map(|piece| piece.iov_len)
                .sum::<usize>();
            // SAFETY: the first piece is the rest of a posted receive's segment or of the engine's
            // buffer. The last piece is the staging buffer. Nothing else touches them during the
            // call.
            let got = unsafe { live.read(self.meter, &pieces[..count])? };
            if got == 0 {
                live.readable = false;
                return Ok(waited || total > 0);
            }
            total += got;
            let waiting = self.engine.unexpected();
            let placed = got.min(direct);
            if placed > 0 {
                self.advance_body(live, placed)?;
            }
            if got > placed || live.head_len > 0 {
                self.parse(live, got - placed)?;
                if !live.held.is_empty() {
                    return Ok(true);
                }
            }
            // A short read emptied the link; an event announces later bytes.
            live.readable = got == asked;
            if live.polled && self.engine.unexpected() > waiting {
                // The sender is ahead: the program posts its receives before more is accepted.
                live.readable = true;
                return Ok(true);
            }
            if !(live.readable || live.polled) || total >= TURN {
                return Ok(true);
            }
        }
    }

    /// Accepts the next short messages that match posted receives; returns their number. The first
    /// that matches none stays in its link.
    #[inline]
    pub(crate) fn take_matched(&mut self, live: &mut Live) -> usize {
        if !live.is_between_frames() {
            return 0;
        }
        let mut count = 0;
        while count < MOST_SHORT
            && let Some(header) = live.endpoint.try_recv()
            && let Some(matched) = self.engine.rx_short(live.rank, &header)
        {
            // SAFETY: the segment is a posted receive's, which is complete with this copy.
            unsafe {
                live.endpoint
                    .take(&header, program_memory::place(matched.into))
            };
            count += 1;
        }
        if count > 0 {
            live.large = false;
            self.meter.stats.frames_in += count as u64;
            self.meter.stats.short_in += count as u64;
        }
        count
    }

    /// Accepts the next short messages; returns their number, and how many matched no receive.
    ///
    /// # Errors
    /// The link must be dropped.
    fn take_short_messages(&mut self, live: &mut Live) -> Result<(usize, usize), LinkFault> {
        let (mut count, mut unexpected) = (0, 0);
        while count < MOST_SHORT && unexpected < EARLY_SHORT && live.held.is_empty() {
            count += self.take_matched(live);
            if !self.take_as_frame(live)? {
                break;
            }
            count += 1;
            unexpected += 1;
        }
        if count > 0 {
            live.inject_cut_after(self.meter)?;
        }
        Ok((count, unexpected))
    }

    /// Accepts a short message as a frame that the fast path of the engine has refused; false when
    /// there is none.
    #[cold]
    fn take_as_frame(&mut self, live: &mut Live) -> Result<bool, LinkFault> {
        let within = !live.is_between_frames();
        let Some(short) = live.endpoint.try_recv() else {
            return Ok(false);
        };
        let header = self.engine.widen(live.rank, &short);
        let len = short.len.into();
        let Some(header) = header.filter(|_| !within) else {
            let why = "a short message within another, or one that is too long".to_owned();
            return Err(LinkFault::Breach(why));
        };
        let (head, rest) = self.staging.split_at_mut(HEADER_LEN);
        head.copy_from_slice(&header.encode());
        // SAFETY: so many bytes of the staging buffer are behind the header.
        unsafe {
            live.endpoint
                .take(&short, program_memory::incoming(rest.as_mut_ptr(), len));
        }
        self.meter.stats.short_in += 1;
        self.parse(live, HEADER_LEN + len)?;
        Ok(true)
    }

    /// Where the next bytes go: up to two pieces, their number, and how many bytes go in place.
    #[inline]
    fn targets(&mut self, live: &Live) -> ([Piece; 2], usize, usize) {
        let limit = if live.polled {
            STAGING_POLLED
        } else if live.large {
            STAGING_LARGE
        } else {
            self.staging.len()
        };
        self.staging[..live.head_len].copy_from_slice(&live.head[..live.head_len]);
        let stage = &mut self.staging[live.head_len..limit];
        let stage = program_memory::incoming(stage.as_mut_ptr(), stage.len());
        match live.body {
            IncomingBody::Into { into, .. } if into.len > 0 => {
                let place = program_memory::incoming(program_memory::start(into), into.len);
                ([place, stage], 2, into.len)
            }
            IncomingBody::Buffer { done, len } if done < len => {
                let rest = &mut self.engine.rx_buffer(live.rank)[done..];
                let place = program_memory::incoming(rest.as_mut_ptr(), rest.len());
                ([place, stage], 2, rest.len())
            }
            _ => ([stage, stage], 1, 0),
        }
    }

    /// `count` bytes of the body have been read to their place.
    fn advance_body(&mut self, live: &mut Live, count: usize) -> Result<(), LinkFault> {
        match &mut live.body {
            IncomingBody::Into { into, .. } => {
                *into = Segment {
                    addr: into.addr.wrapping_add(count),
                    len: into.len - count,
                };
            }
            IncomingBody::Buffer { done, .. } => *done += count,
            IncomingBody::None => {}
        }
        self.finish_if_whole(live)
    }

    /// Parses `fresh` bytes that were read behind the link's unparsed bytes in the staging buffer.
    pub(crate) fn parse(&mut self, live: &mut Live, fresh: usize) -> Result<(), LinkFault> {
        let end = live.head_len + fresh;
        live.head_len = 0;
        let mut at = 0;
        while at < end {
            if live.body != IncomingBody::None {
                at += self.copy_staged(live, at, end)?;
                continue;
            }
            if let Some(matched) = self.engine.rx_eager(live.rank, &self.staging[at..end]) {
                at += self.finish_matched(live, matched, at + HEADER_LEN);
                continue;
            }
            let Some(head) = self.staging[at..end].first_chunk::<HEADER_LEN>() else {
                live.head_len = end - at;
                live.head[..live.head_len].copy_from_slice(&self.staging[at..end]);
                break;
            };
            let header =
                Header::decode(head).map_err(|error| LinkFault::Breach(error.to_string()))?;
            if let Err(broken) = self.accept_header(live, &header) {
                return self.hold_frame(live, broken, at, end);
            }
            at += HEADER_LEN;
        }
        Ok(())
    }

    /// Copies the body of a message that has matched a receive; returns the length of its frame.
    #[inline]
    fn finish_matched(&mut self, live: &mut Live, matched: Matched, at: usize) -> usize {
        // SAFETY: the segment is a posted receive's, which is complete with this copy.
        unsafe { program_memory::fill(matched.into, &self.staging[at..at + matched.into.len]) };
        live.large = matched.len >= LARGE;
        self.meter.stats.frames_in += 1;
        self.meter.stats.bytes_staged += matched.len as u64;
        HEADER_LEN + matched.len
    }

    /// Keeps a frame of a later epoch, and the bytes read behind it, until after the safe point.
    #[cold]
    fn hold_frame(
        &mut self,
        live: &mut Live,
        broken: LinkFault,
        at: usize,
        end: usize,
    ) -> Result<(), LinkFault> {
        let LinkFault::Later(epoch) = broken else {
            return Err(broken);
        };
        live.held = self.staging[at..end].to_vec();
        // No event announces it again.
        live.readable = true;
        self.checkpoint.request(epoch);
        Ok(())
    }

    /// Continues with the held bytes of a link, unless a checkpoint request is still or again
    /// pending.
    #[cold]
    fn resume_held(&mut self, live: &mut Live) -> Result<bool, LinkFault> {
        if !self.checkpoint.is_pending() {
            let held = std::mem::take(&mut live.held);
            self.staging[..held.len()].copy_from_slice(&held);
            self.parse(live, held.len())?;
        }
        Ok(live.held.is_empty())
    }

    /// Passes a header to the engine.
    #[inline]
    fn accept_header(&mut self, live: &mut Live, header: &Header) -> Result<(), LinkFault> {
        self.meter.stats.frames_in += 1;
        let body = self.engine.rx_header(live.rank, header)?;
        live.received_frame = true;
        live.body = match body {
            RxBody::None => {
                live.begin_body(header, 0);
                return Ok(());
            }
            RxBody::Into { into, discard } => IncomingBody::Into { into, discard },
            RxBody::Buffer => IncomingBody::Buffer {
                done: 0,
                len: self.engine.rx_buffer(live.rank).len(),
            },
            RxBody::Discard(discard) => IncomingBody::Into {
                into: Segment::default(),
                discard,
            },
        };
        live.large = header.body_len() >= LARGE as u64;
        if let IncomingBody::Into { into, .. } = live.body {
            live.begin_body(header, into.len);
        }
        self.finish_if_whole(live)
    }

    /// Copies staged bytes of a body to their place; returns how many.
    fn copy_staged(&mut self, live: &mut Live, at: usize, end: usize) -> Result<usize, LinkFault> {
        let staged = &self.staging[at..end];
        let taken = match &mut live.body {
            IncomingBody::Into { into, discard } => {
                let count = staged.len().min(into.len);
                // SAFETY: the segment is the rest of a posted receive's.
                unsafe { program_memory::fill(*into, &staged[..count]) };
                *into = Segment {
                    addr: into.addr.wrapping_add(count),
                    len: into.len - count,
                };
                let away = usize::try_from(*discard)
                    .unwrap_or(usize::MAX)
                    .min(staged.len() - count);
                *discard -= away as u64;
                count + away
            }
            IncomingBody::Buffer { done, .. } => {
                let rest = &mut self.engine.rx_buffer(live.rank)[*done..];
                let count = staged.len().min(rest.len());
                rest[..count].copy_from_slice(&staged[..count]);
                *done += count;
                count
            }
            IncomingBody::None => 0,
        };
        self.meter.stats.bytes_staged += taken as u64;
        self.finish_if_whole(live)?;
        Ok(taken)
    }

    #[inline]
    fn finish_if_whole(&mut self, live: &mut Live) -> Result<(), LinkFault> {
        let whole = match live.body {
            IncomingBody::None => false,
            IncomingBody::Into { into, discard } => into.len == 0 && discard == 0,
            IncomingBody::Buffer { done, len } => done == len,
        };
        if whole {
            live.body = IncomingBody::None;
            live.end_body();
            self.engine.rx_done(live.rank)?;
            program_memory::copy_out(self.engine);
        }
        Ok(())
    }
}
