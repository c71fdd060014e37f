//! Writing what the engine has for a link, in as few system calls as there can be.

use rejoin_engine::{Engine, GATHER_PIECES};

use crate::live::{Live, Meter};
use crate::memory;
use crate::transport::{Fault, Piece};

/// Writes until nothing is left or nothing more fits; true if any byte went.
///
/// # Errors
/// The link must be dropped.
pub(crate) fn flush(
    engine: &mut Engine,
    live: &mut Live,
    meter: &mut Meter,
) -> Result<bool, Box<Fault>> {
    live.burst = 0;
    live.put_off = 0;
    if live.write_blocked {
        return Ok(false);
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

/// The end of the handshake goes ahead of all frames.
#[cold]
fn flush_ahead(live: &mut Live, meter: &mut Meter) -> Result<bool, Box<Fault>> {
    let rest = &live.ahead[live.ahead_sent..];
    let asked = rest.len();
    let pieces = [memory::incoming(rest.as_ptr().cast_mut(), asked)];
    // SAFETY: the bytes are the link's own and stay during the call.
    let taken = unsafe { live.write(meter, &pieces)? };
    if taken < asked {
        live.ahead_sent += taken;
        live.write_blocked = true;
    } else {
        live.ahead = Vec::new();
        live.ahead_sent = 0;
    }
    Ok(taken > 0)
}
