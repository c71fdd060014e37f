//! Images of this process: requested by signal, taken in the program's own code or as it leaves the
//! library.

use rejoin_mpi::{Mpi as Core, Result, checkpointing};

use crate::callback;
use crate::state::{self, AbiState};

/// Lets the manager request checkpoints from here on.
///
/// # Errors
/// The system refuses the signal.
pub fn accept_checkpoints(core: &Core) -> Result<()> {
    core.accept_checkpoints(take_here)
}

/// Takes the image of an epoch, if all threads of the program run its own code. Runs in the
/// signal's handler. Another thread may be about to enter the library, so it is parked first. If a
/// thread is inside, its call finds the request at its end.
fn take_here(epoch: u32) -> bool {
    // The next call of the library tries again, and reports why if it can't.
    let Ok(_parked) = checkpointing::try_park_others() else {
        return false;
    };
    if callback::is_inside() {
        return false;
    }
    let mark = callback::enter(false);
    // SAFETY: all threads are outside the library, and only this one runs: no other code uses the
    // state.
    let core = unsafe { state::mpi() }.core.get();
    let taken = core.is_none_or(|core| core.take_checkpoint(epoch));
    callback::leave(false, mark);
    taken
}

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
