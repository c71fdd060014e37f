//! Runs a collective to its end, starts it, or makes it persistent.

use rejoin_mpi::Result;
use rejoin_mpi::coll::Collective;

use super::args::Args;
use crate::functions::point_to_point::request::{check_out, give};
use crate::types::*;

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
        check_out(request)?;
        let id = self.mpi.core()?.start_collective(&self.comm, call)?;
        // SAFETY: the caller's promise.
        unsafe { give(request, id) }
    }

    /// # Safety
    /// The conditions of [`Args::start`].
    pub(crate) unsafe fn init(
        &self,
        call: impl Collective,
        request: *mut MPI_Request,
    ) -> Result<()> {
        check_out(request)?;
        let id = self.mpi.core()?.collective_init(&self.comm, call)?;
        // SAFETY: the caller's promise.
        unsafe { give(request, id) }
    }
}
