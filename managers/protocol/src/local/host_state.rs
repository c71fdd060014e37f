//! The local manager's state. Handlers of inputs change its parts through their methods.

use super::copy_table::CopyTable;
use super::host_course::{HostCourse, LocalPhase};
use super::host_lease::HostLease;
use super::host_lookups::HostLookups;
use super::host_parts::HostParts;
use super::host_probes::HostProbes;
use super::host_rollback::HostRollback;
use super::image_table::ImageTable;
use super::leave_time::LeaveTime;
use super::local_out::LocalOut;
use super::move_images::{MoveImages, OrderedImage};
use super::process_table::ProcessTable;
use crate::detector::DetectorSettings;
use crate::lease::Terms;
use crate::manager_messages::Time;
use rejoin_channel_table::{ImageId, MoveNumber, Rank};

/// State of one host's local manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Local {
    pub(super) course: HostCourse,
    pub(super) processes: ProcessTable,
    /// Central may still come back.
    pub(super) has_central: bool,
    pub(super) restore: HostRollback,
    /// Images of ranks that are about to move.
    pub(super) moves: MoveImages,
    pub(super) images: ImageTable,
    pub(super) copies: CopyTable,
    pub(super) lease: HostLease,
    /// The ranks are to leave this host.
    pub(super) leaving: Option<LeaveTime>,
    /// Of a job whose ranks look cards up.
    pub(super) lookups: Option<HostLookups>,
    /// Of a job whose local managers probe each other.
    pub(super) probes: Option<HostProbes>,
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

impl Local {
    /// A local manager with no ranks yet.
    #[must_use]
    pub fn new() -> Self {
        Local {
            course: HostCourse::default(),
            processes: ProcessTable::default(),
            has_central: true,
            restore: HostRollback::default(),
            moves: MoveImages::default(),
            images: ImageTable::default(),
            copies: CopyTable::default(),
            lease: HostLease::default(),
            leaving: None,
            lookups: None,
            probes: None,
        }
    }

    /// All parts, for one handler.
    pub(super) fn parts<'a>(&'a mut self, out: &'a mut LocalOut) -> HostParts<'a> {
        HostParts {
            course: &mut self.course,
            processes: &mut self.processes,
            restore: &mut self.restore,
            moves: &mut self.moves,
            images: &mut self.images,
            copies: &mut self.copies,
            lease: &mut self.lease,
            leaving: &mut self.leaving,
            lookups: &mut self.lookups,
            probes: &mut self.probes,
            out,
        }
    }

    /// This host is reached over a network: nothing runs here without a lease.
    pub fn use_leases(&mut self, terms: Terms, now: Time) {
        self.lease.begin(terms, now);
    }

    /// Ranks of this host look cards up, in a job of so many ranks. `position` is the place of this
    /// host in the tree; without a tree, any number.
    pub fn use_lookups(&mut self, position: usize, size: u32) {
        self.lookups = Some(HostLookups::new(Some(position), size));
    }

    /// The local managers of this job probe each other.
    pub fn use_probes(&mut self, settings: DetectorSettings) {
        self.probes = Some(HostProbes::new(settings));
    }

    /// Nothing may run here without a lease, and there is none.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.lease.is_suspended()
    }

    /// The images with which ranks move whose files are being written: rank, number, and whether it
    /// is the first one, with all memory.
    pub fn files_of_moves(&self) -> impl Iterator<Item = (Rank, MoveNumber, bool)> {
        let written = |(rank, image): &(Rank, OrderedImage)| {
            self.images
                .is_being_written(*rank, ImageId::Move(image.number))
        };
        let latest = self.moves.all_latest().filter(written);
        latest.map(|(rank, image)| (rank, image.number, image.base.is_none()))
    }

    /// When the driver must send [`LocalInput::Tick`](super::LocalInput::Tick) at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let grace = match self.course.phase {
            LocalPhase::Ending(at) => at,
            _ => None,
        };
        let ends = self.processes.iter().filter_map(|p| p.state().deadline());
        ends.chain(grace)
            .chain(self.lease.deadline())
            .chain(self.leaving.as_ref().map(LeaveTime::deadline))
            .chain(self.search_deadlines().into_iter().flatten())
            .min()
    }

    /// Of what is asked of other hosts. Nobody waits for that once the job is over here.
    fn search_deadlines(&self) -> [Option<Time>; 2] {
        if self.is_over() {
            return [None; 2];
        }
        let lookups = self.lookups.as_ref().and_then(HostLookups::deadline);
        [lookups, self.probes.as_ref().and_then(HostProbes::deadline)]
    }

    /// Every process of the job on this host has ended and central knows it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.course.is_over()
    }
}
