//! How far the job has come on this host, and what the user asked for from the terminal.

use crate::manager_messages::Time;

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

/// The course of the job on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct HostCourse {
    pub phase: LocalPhase,
    /// The last signal of those that ask programs to end that was passed on.
    pub signalled: Option<i32>,
    /// A signal that came while ranks were suspended: they get it when they continue.
    pub held_signal: Option<i32>,
    /// The user has stopped the job from the terminal.
    pub halted: bool,
}

impl HostCourse {
    /// Every process of the job on this host has ended and central knows it.
    pub fn is_over(&self) -> bool {
        self.phase == LocalPhase::Over
    }

    /// Ranks of this host run, or would.
    pub fn runs(&self) -> bool {
        self.phase == LocalPhase::Running
    }
}
