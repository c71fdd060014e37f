//! How far the job has come, for the central manager.

use super::recovery::GlobalRestore;
use super::resume::Resuming;

/// How far the job has come.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum CentralPhase {
    /// Not begun, or some ranks have not registered.
    Starting,
    /// Taken up again: hosts are asked how everything is.
    Resuming(Box<Resuming>),
    /// Ranks are being rolled back, and some have not registered.
    Restoring(GlobalRestore),
    /// All ranks have registered and have each other's cards.
    Running,
    /// All ranks are in `MPI_Finalize`, and their last checkpoint is not yet committed.
    Finalizing,
    /// All ranks may leave `MPI_Finalize`; from here on each ends for itself.
    Finalized,
    /// Everything is being ended.
    Ending,
    /// Nothing more happens.
    Over,
}
