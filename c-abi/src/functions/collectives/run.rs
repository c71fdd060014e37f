//! Runs a collective to its end, starts it, or makes it persistent.

use rejoin_mpi::Result;
use rejoin_mpi::coll::Collective;

use super::args::Args;
use crate::functions::point_to_point::request::give;
use crate::support::arg_error;
use crate::types::*;

/// Checked before anything starts: a request that cannot be given back could not be waited for.
fn check_target(request: *mut MPI_Request) -> Result<()> {
    if request.is_null() {
        return Err(arg_error("the pointer for the request is null"));
    }
    Ok(())
}

impl Args<'_> {
    #[inline(always)]
    pub(crate) fn run(&self, call: &impl Collective) -> Result<()> {
        self.mpi.core()?.collective(&self.comm, call)
    }

    /// # Safety
    /// `request` is null or valid.
    pub(crate) unsafe fn start(
        &self,
        call: impl Collective,
        request: *mut MPI_Request,
    ) -> Result<()> {
        check_target(request)?;
        let id = self.mpi.core()?.start_collective(&self.comm, call)?;
        // SAFETY: the caller's promise.
        unsafe { give(request, id) }
    }

    /// # Safety
    /// As [`Args::start`].
    pub(crate) unsafe fn init(
        &self,
        call: impl Collective,
        request: *mut MPI_Request,
    ) -> Result<()> {
        check_target(request)?;
        let id = self.mpi.core()?.collective_init(&self.comm, call)?;
        // SAFETY: the caller's promise.
        unsafe { give(request, id) }
    }
}
