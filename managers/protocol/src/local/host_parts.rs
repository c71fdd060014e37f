//! The parts of a host's state, and the keys that each handler gets to them.
//!
//! A handler is a struct of references: its fields are all that it may read or change. Handlers
//! stand above each other, and none calls one above it: `ExitHandler`, `VacateHandler`; then
//! `LookupHandler`, `ImageHandler`, `ProcessHandler`; then `StartHandler`, `MoveOrderHandler`,
//! `HostEndHandler`, `OverdueHandler`; then `RankMessageHandler`, `LeaseHandler`. `CopyHandler`,
//! `LeavingHandler`, `ProbeHandler`, `RankRegionHandler`, `ReportHandler` and `SignalHandler` call
//! none.

use super::copy_table::CopyTable;
use super::host_course::HostCourse;
use super::host_lease::HostLease;
use super::host_lookups::HostLookups;
use super::host_probes::HostProbes;
use super::host_rollback::HostRollback;
use super::image_table::ImageTable;
use super::leave_time::LeaveTime;
use super::local_out::LocalOut;
use super::move_images::MoveImages;
use super::process_table::ProcessTable;
use crate::handler_keys::parts;

parts! {
    /// All parts, for one step.
    pub(super) HostParts<'a> {
        changes {
            course: HostCourse,
            processes: ProcessTable,
            restore: HostRollback,
            moves: MoveImages,
            images: ImageTable,
            copies: CopyTable,
            lease: HostLease,
            leaving: Option<LeaveTime>,
            lookups: Option<HostLookups>,
            probes: Option<HostProbes>,
            out: LocalOut,
        }
    }
}
