//! A restarter that loads images of a rank ahead of its process.

use rejoin_ckpt::twin::manager::Zygote;
use rejoin_managers_host::descendants;

/// A restarter that has loaded images of a rank, or is loading one.
pub struct ImageLoader {
    /// The number of its process, a child of this one until it is reaped.
    pub pid: u32,
    /// Socket of the restarter, which is that of the zygote that comes of it.
    pub zygote: Zygote,
}

impl ImageLoader {
    /// Ends it: no process comes of it.
    pub fn end(self) {
        if descendants::is_own_child(self.pid) {
            descendants::send(self.pid, libc::SIGKILL);
        }
    }
}
