//! Writing what the engine has for a link, in as few system calls as there can be.

use rejoin_channel_table::ids::Rank;
use rejoin_engine::{BRIEF_BODY, Engine, Envelope, GATHER_PIECES};

use crate::device::Device;
use crate::error::Result;
use crate::live::{Live, Meter};
use crate::memory;
use crate::stats::Stats;
use crate::transport::shm::ShmLink;
use crate::transport::{Fault, Piece, Stream};

/// Writes until nothing is left or nothing more fits; true if any byte went.
///
/// # Errors
/// The link must be dropped.
pub(crate) fn flush(
    engine: &mut Engine,
    live: &mut Live,
    meter: &mut Meter,
) -> std::result::Result<bool, Box<Fault>> {
    live.burst = 0;
    live.put_off = 0;
    if live.write_blocked {
        if !live.polled {
            return Ok(false);
        }
        live.write_blocked = false;
    }
    let mut moved = false;
    if !live.ahead.is_empty() {
        moved = flush_ahead(live, meter)?;
        if live.write_blocked {
            return Ok(moved);
        }
    }
    while engine.tx_pending(live.rank) {
        let mut pieces = [Piece {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; GATHER_PIECES];
        let gather = engine.tx_gather(live.rank);
        let asked = gather.bytes();
        let count = gather.pieces().len();
        if count == 0 {
            break;
        }
        for (piece, from) in pieces.iter_mut().zip(gather.pieces()) {
            *piece = memory::outgoing(from);
        }
        // SAFETY: the engine's bytes stay until it is called again, and its segments belong to
        // requests under way, whose memory the callers keep in place.
        let taken = unsafe { live.write(meter, &pieces[..count])? };
        if taken > 0 {
            engine.tx_advance(live.rank, taken);
            moved = true;
        }
        if taken < asked {
            live.write_blocked = true;
            break;
        }
    }
    Ok(moved)
}

/// Puts a message into a link that has nothing else to write, as a brief one. False: nothing was done, there is
/// no room or the engine does not send it alone.
#[inline(always)]
pub(crate) fn put_in(
    engine: &mut Engine,
    link: &mut ShmLink,
    stats: &mut Stats,
    (to, env): (Rank, &Envelope),
    bytes: &[u8],
) -> bool {
    if bytes.len() > BRIEF_BODY {
        return put_apart(engine, link, stats, (to, env), bytes);
    }
    let Some(rest) = link.free_brief() else {
        return false;
    };
    let Some(first) = engine.send_brief(to, env, bytes, rest) else {
        return false;
    };
    link.publish_brief(first);
    stats.briefs_out += 1;
    true
}

/// The same, the body apart from its message.
#[inline(never)]
fn put_apart(
    engine: &mut Engine,
    link: &mut ShmLink,
    stats: &mut Stats,
    (to, env): (Rank, &Envelope),
    bytes: &[u8],
) -> bool {
    let Some(room) = link.room(bytes.len()) else {
        return false;
    };
    let Some(rest) = link.free_brief() else {
        return false;
    };
    let Some(first) = engine.send_brief(to, env, bytes, rest) else {
        return false;
    };
    link.publish_apart(first, bytes, room);
    stats.briefs_out += 1;
    true
}

impl Device {
    /// A small send on a link that has nothing else to write: kept and written in one go. False: nothing was done,
    /// and it goes the long way. `polled`: only where a write makes no system call, which others could share.
    ///
    /// # Safety
    /// `buf` is readable for `len` bytes.
    ///
    /// # Errors
    /// A peer that cannot be reached.
    #[inline]
    pub(crate) unsafe fn send_alone(
        &mut self,
        to: Rank,
        env: &Envelope,
        buf: *const u8,
        len: usize,
        polled: bool,
    ) -> Result<bool> {
        let Some((_, token)) = self.table.live(to) else {
            return Ok(false);
        };
        let Some(live) = self.io.slots.live(token) else {
            return Ok(false);
        };
        let may = live.polled || !polled;
        if !may || live.write_blocked || !live.ahead.is_empty() || !self.engine.copies(len) {
            return Ok(false);
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { memory::bytes(memory::segment(buf, len)) };
        if let Some(link) = live.stream.brief()
            && put_in(
                &mut self.engine,
                link,
                &mut self.meter.stats,
                (to, env),
                bytes,
            )
        {
            if let Err(fault) = live.struck_after(&mut self.meter) {
                self.write_failed(to, token, *fault)?;
            }
            return Ok(true);
        }
        let Some(alone) = self.engine.send_alone(to, env, bytes) else {
            return Ok(false);
        };
        let count = 1 + usize::from(!alone.pieces[1].is_empty());
        let pieces = alone
            .pieces
            .map(|part| memory::incoming(part.as_ptr().cast_mut(), part.len()));
        live.burst = 0;
        live.put_off = 0;
        // SAFETY: the engine's bytes stay until it is called again.
        let written = unsafe { live.write(&mut self.meter, &pieces[..count]) };
        let place = alone.place;
        match written {
            Ok(taken) if taken as u64 == place.end - place.start => {}
            Ok(taken) => {
                live.write_blocked = true;
                self.engine.send_rest(to, &place, taken);
            }
            Err(fault) => {
                self.engine.send_rest(to, &place, 0);
                self.write_failed(to, token, *fault)?;
            }
        }
        Ok(true)
    }
}

/// The end of the handshake goes ahead of all frames.
#[cold]
fn flush_ahead(live: &mut Live, meter: &mut Meter) -> std::result::Result<bool, Box<Fault>> {
    let rest = &live.ahead[live.ahead_sent..];
    let asked = rest.len();
    let taken = if live.polled {
        live.stream.write_ahead(rest)?
    } else {
        let pieces = [memory::incoming(rest.as_ptr().cast_mut(), asked)];
        // SAFETY: the bytes are the link's own and stay during the call.
        unsafe { live.write(meter, &pieces)? }
    };
    if taken < asked {
        live.ahead_sent += taken;
        live.write_blocked = true;
    } else {
        live.ahead = Vec::new();
        live.ahead_sent = 0;
    }
    Ok(taken > 0)
}
