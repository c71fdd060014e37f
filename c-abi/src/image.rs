//! Images of this process whose request has met the library inside a call: they are taken as the
//! call leaves the library.

use rejoin_mpi::checkpointing;

use crate::callback;
use crate::state::AbiState;

/// Answers a request that arrived during a call of the library, at the end of the call.
#[cold]
#[inline(never)]
pub fn take_pending(mpi: &AbiState, locked: bool) {
    let Some(core) = mpi.core.get() else {
        return;
    };
    // One that comes meanwhile must not wait for the next call, which may be hours away.
    while checkpointing::is_pending() {
        let mark = callback::enter(locked);
        let _ = core.safe_point();
        callback::leave(locked, mark);
    }
}
