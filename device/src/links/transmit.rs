//! Writes the engine's frames for a link, in as few system calls as possible.

use rejoin_channel_table::ids::Rank;
use rejoin_engine::{Engine, Envelope, MAX_PIECES};

use super::live::Live;
use crate::meter::Meter;
use crate::program_memory;
use crate::transport::{Endpoint, Fault, Piece, SendOutcome};

/// How often a blocking send may wait for a reader that makes progress before it takes the slow
/// path.
const MAX_WAITS: u32 = 1024;

/// Writes until nothing is left or the link is full; true if any byte was written.
///
/// # Errors
/// The link must be dropped.
pub(crate) fn flush(
    engine: &mut Engine,
    live: &mut Live,
    meter: &mut Meter,
) -> std::result::Result<bool, Box<Fault>> {
    live.burst.written();
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
        }; MAX_PIECES];
        let gather = engine.tx_gather(live.rank);
        let asked = gather.bytes();
        let count = gather.pieces().len();
        if count == 0 {
            break;
        }
        for (piece, from) in pieces.iter_mut().zip(gather.pieces()) {
            *piece = program_memory::outgoing(from);
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

/// Waits for the reader of a link that could not take all, while it continues; true if nothing is
/// left to be written.
#[cold]
#[inline(never)]
pub(crate) fn unblock(engine: &mut Engine, live: &mut Live, meter: &mut Meter) -> bool {
    for _ in 0..MAX_WAITS {
        if !live.endpoint.await_peer_progress() {
            return false;
        }
        if let Err(fault) = flush(engine, live, meter) {
            // The slow path writes next, and drops the link.
            live.broken = Some(fault);
            return false;
        }
        if !live.write_blocked {
            return true;
        }
    }
    false
}

/// Sends a small message as a frame on a link that has nothing else to write: retained and written
/// in one go.
///
/// The link knows its peer, too. With `to` as a parameter the compiler finds a better choice of
/// registers for the fast path of the caller: nine instructions less for each message.
#[inline(never)]
pub(crate) fn send_frame(
    engine: &mut Engine,
    live: &mut Live,
    meter: &mut Meter,
    to: Rank,
    env: &Envelope,
    bytes: &[u8],
) -> SendOutcome {
    let Some(frame) = engine.send_eager(to, env, bytes) else {
        return SendOutcome::WouldBlock;
    };
    let count = 1 + usize::from(!frame.pieces[1].is_empty());
    let pieces = frame
        .pieces
        .map(|part| program_memory::incoming(part.as_ptr().cast_mut(), part.len()));
    live.burst.written();
    // SAFETY: the engine's bytes stay until it is called again.
    let written = unsafe { live.write(meter, &pieces[..count]) };
    let place = frame.place;
    match written {
        Ok(taken) if taken as u64 == place.end - place.start => SendOutcome::Sent,
        Ok(taken) => {
            live.write_blocked = true;
            engine.send_rest(to, &place, taken);
            SendOutcome::Sent
        }
        Err(fault) => {
            engine.send_rest(to, &place, 0);
            SendOutcome::LinkLost(fault)
        }
    }
}

/// The end of the handshake goes ahead of all frames.
#[cold]
fn flush_ahead(live: &mut Live, meter: &mut Meter) -> std::result::Result<bool, Box<Fault>> {
    let rest = &live.ahead[live.ahead_sent..];
    let asked = rest.len();
    let taken = if live.polled {
        live.endpoint.write_handshake(rest)?
    } else {
        let pieces = [program_memory::incoming(rest.as_ptr().cast_mut(), asked)];
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
