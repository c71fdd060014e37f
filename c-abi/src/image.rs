//! Images of this process: ordered by signal, taken in the program's own code or as it leaves the library.

use rejoin_mpi::{Mpi as Core, Result, orders};

use crate::callback;
use crate::state::{self, Mpi};

/// Lets the manager order images from here on.
///
/// # Errors
/// The system refuses the signal.
pub fn take_orders(core: &Core) -> Result<()> {
    core.take_orders(is_inside, obey)
}

/// Whether an order has to wait for the library's next safe point. With several threads it always has: the handler
/// runs in any of them, and another one may be about to come in.
fn is_inside() -> bool {
    callback::is_inside() || !is_alone()
}

/// Whether this process has one thread. Each has a folder, so the count of links tells without reading any.
fn is_alone() -> bool {
    // SAFETY: `stat` is plain data that the call fills in; the path ends with a zero byte.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::stat(c"/proc/self/task".as_ptr(), &raw mut stat) == 0 && stat.st_nlink <= 3
    }
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
    let Some(core) = mpi.core.get() else {
        return;
    };
    // An order that comes meanwhile must not wait for the next call, which may be hours away.
    while orders::is_wanted() {
        let mark = callback::enter(locked);
        let _ = core.safe_point();
        callback::leave(locked, mark);
    }
}
