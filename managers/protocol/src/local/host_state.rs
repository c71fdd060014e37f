//! The local manager's state. Handlers of inputs change its parts through their methods.

use super::copy_table::CopyTable;
use super::host_lease::HostLease;
use super::host_lookups::HostLookups;
use super::host_probes::HostProbes;
use super::host_rollback::HostRollback;
use super::image_table::ImageTable;
use super::inputs::LocalEffect;
use super::leave_time::LeaveTime;
use super::move_images::MoveImages;
use super::process_table::ProcessTable;
use crate::manager_messages::{Time, ToCentral};

/// How far the job has come on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum LocalPhase {
    #[default]
    Idle,
    Running,
    /// Asked to end; SIGKILL follows at the deadline.
    Ending(Option<Time>),
    Sweeping,
    /// No process is left; central has not confirmed that it has stored this.
    Done,
    Over,
}

/// State of one host's local manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Local {
    pub(super) phase: LocalPhase,
    pub(super) processes: ProcessTable,
    /// Central may still come back.
    pub(super) central: bool,
    /// Failed ranks keep their place until central has said how to continue.
    pub(super) hold: bool,
    /// The last signal of those that ask programs to end that was passed on.
    pub(super) signalled: Option<i32>,
    /// One that came while ranks were suspended: they get it when they continue.
    pub(super) held_signal: Option<i32>,
    /// The user has stopped the job from the terminal.
    pub(super) halted: bool,
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
            phase: LocalPhase::Idle,
            processes: ProcessTable::default(),
            central: true,
            hold: false,
            signalled: None,
            held_signal: None,
            halted: false,
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

    /// When the driver must send [`LocalInput::Tick`](super::LocalInput::Tick) at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let grace = match self.phase {
            LocalPhase::Ending(at) => at,
            _ => None,
        };
        let ends = self.processes.iter().filter_map(|p| p.state().deadline());
        ends.chain(grace)
            .chain(self.lease.deadline())
            .chain(self.leaving.as_ref().map(LeaveTime::deadline))
            .chain(self.lookups.as_ref().and_then(HostLookups::deadline))
            .chain(self.probes_deadline())
            .min()
    }

    fn probes_deadline(&self) -> Option<Time> {
        let probes = self.probes.as_ref().filter(|_| !self.is_over());
        probes.and_then(HostProbes::deadline)
    }

    /// Every process of the job on this host has ended and central knows it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == LocalPhase::Over
    }

    /// Tells central, unless it does not come back.
    pub(super) fn tell(&self, message: impl Into<ToCentral>, effects: &mut Vec<LocalEffect>) {
        if self.central {
            effects.push(LocalEffect::Central(message.into()));
        }
    }

    /// Tells central, if there is any news.
    pub(super) fn tell_any(&self, news: Option<ToCentral>, effects: &mut Vec<LocalEffect>) {
        if let Some(news) = news {
            self.tell(news, effects);
        }
    }
}
