//! Images of this process: ordered by signal, taken in the program's own code or as it leaves the library.

use rejoin_mpi::{Mpi as Core, Result};

use crate::callback;
use crate::state::{self, Mpi};

/// Lets the manager order images from here on.
///
/// # Errors
/// The system refuses the signal.
pub fn take_orders(core: &Core) -> Result<()> {
    core.take_orders(callback::is_inside, obey)
}

/// An order that came in the program's own code. Runs in the signal's handler.
fn obey(epoch: u32) {
    let mark = callback::enter(false);
    // SAFETY: the program is outside the library, in its one thread: nobody else uses the state.
    if let Some(core) = unsafe { state::mpi() }.core.get() {
        // An error shuts the device, and the program's next call reports it.
        let _ = core.enter_epoch(epoch);
    }
    callback::leave(false, mark);
}

/// An order came while a call was inside the library, which is over now.
#[cold]
#[inline(never)]
pub fn obey_late(mpi: &Mpi, locked: bool) {
    let mark = callback::enter(locked);
    if let Some(core) = mpi.core.get() {
        let _ = core.safe_point();
    }
    callback::leave(locked, mark);
}
