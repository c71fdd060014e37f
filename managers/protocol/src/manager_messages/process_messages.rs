//! What a local manager reports of the process of a rank.

use super::instances::{Cause, End, ProcessInstance, Stage};
use rejoin_channel_table::BusinessCard;
use rejoin_wire::Limits;
use serde::{Deserialize, Serialize};

/// The process of a rank: from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ProcessMessage {
    /// A rank's process is there.
    Spawned {
        /// The process instance that was started.
        instance: ProcessInstance,
        /// Process id of the rank on its host.
        pid: u32,
    },
    /// A rank called `MPI_Init`.
    Registered {
        /// The process instance that registered.
        instance: ProcessInstance,
        /// Process id of the caller on its host.
        pid: u32,
        /// Where it listens.
        card: BusinessCard,
        /// The sizes it goes by.
        limits: Limits,
    },
    /// The counters of a rank, at its end.
    Counters {
        /// The process instance that counted.
        instance: ProcessInstance,
        /// Names and values.
        counters: Vec<(String, u64)>,
    },
    /// A rank is in `MPI_Finalize`.
    Finalizing {
        /// The process instance that is in `MPI_Finalize`.
        instance: ProcessInstance,
    },
    /// A rank ended as it should.
    Ended {
        /// The process instance that ended.
        instance: ProcessInstance,
        /// How far it had come: [`Stage::Spawned`] for a program that never used MPI.
        stage: Stage,
    },
    /// A rank's process has begun to end, how is not known yet; [`ProcessMessage::ExitStatus`]
    /// follows.
    ExitDetected {
        /// The process instance whose exit was detected.
        instance: ProcessInstance,
        /// Process id of the rank.
        pid: u32,
    },
    /// How a process ended whose exit was detected.
    ExitStatus {
        /// Which, in the generation that it was said in.
        instance: ProcessInstance,
        /// Process id of the rank.
        pid: u32,
        /// Exit status as a cause.
        cause: Cause,
    },
    /// A rank failed.
    Failed {
        /// The process instance that failed.
        instance: ProcessInstance,
        /// Process id of the rank, 0 when it never had one.
        pid: u32,
        /// The cause of the failure.
        cause: Cause,
    },
    /// Nothing of this instance, or of an earlier one of its rank, acts on this host any more:
    /// [`RankMoveOrder::Vacate`](super::RankMoveOrder::Vacate) is carried out.
    Vacated {
        /// The rank, and the latest of its instances that may have been here.
        instance: ProcessInstance,
    },
}

impl ProcessMessage {
    /// The process instance that it is about.
    #[must_use]
    pub fn instance(&self) -> ProcessInstance {
        match self {
            ProcessMessage::Spawned { instance, .. }
            | ProcessMessage::Registered { instance, .. }
            | ProcessMessage::Counters { instance, .. }
            | ProcessMessage::Finalizing { instance }
            | ProcessMessage::Ended { instance, .. }
            | ProcessMessage::ExitDetected { instance, .. }
            | ProcessMessage::ExitStatus { instance, .. }
            | ProcessMessage::Failed { instance, .. }
            | ProcessMessage::Vacated { instance } => *instance,
        }
    }
}

/// The exit of a process instance, from its detection until central has acknowledged it.
///
/// A running instance has none. Its exit is either detected first, and its status follows, or both
/// are known at once. An acknowledged exit is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessExit {
    instance: ProcessInstance,
    /// The process id, 0 when there never was one.
    pid: u32,
    state: ExitState,
}

/// How much is known of an exit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum ExitState {
    /// The process does nothing more; it had come so far.
    Detected(Stage),
    /// The status of an exit that was detected first.
    StatusKnown(Cause),
    /// Everything at once.
    Failed(Cause),
}

impl ProcessExit {
    /// An exit that is detected before its status is known.
    #[must_use]
    pub fn detected(instance: ProcessInstance, pid: u32, stage: Stage) -> ProcessExit {
        let state = ExitState::Detected(stage);
        ProcessExit {
            instance,
            pid,
            state,
        }
    }

    /// A failure of which everything is known at once.
    #[must_use]
    pub fn failed(instance: ProcessInstance, pid: u32, cause: Cause) -> ProcessExit {
        let state = ExitState::Failed(cause);
        ProcessExit {
            instance,
            pid,
            state,
        }
    }

    /// The process instance that exits.
    #[must_use]
    pub fn instance(&self) -> ProcessInstance {
        self.instance
    }

    /// The exit status has come; whether this exit waited for it.
    pub fn status_known(&mut self, end: End) -> bool {
        let ExitState::Detected(stage) = self.state else {
            return false;
        };
        self.state = ExitState::StatusKnown(Cause::Ended { end, stage });
        true
    }

    /// Central acknowledges such an exit with a message. For a failure that was known at once,
    /// central's next order is the acknowledgement.
    #[must_use]
    pub fn was_detected(&self) -> bool {
        !matches!(self.state, ExitState::Failed(_))
    }

    /// The message that reports it to central.
    #[must_use]
    pub fn message(&self) -> ProcessMessage {
        let (instance, pid) = (self.instance, self.pid);
        match self.state.clone() {
            ExitState::Detected(_) => ProcessMessage::ExitDetected { instance, pid },
            ExitState::StatusKnown(cause) => ProcessMessage::ExitStatus {
                instance,
                pid,
                cause,
            },
            ExitState::Failed(cause) => ProcessMessage::Failed {
                instance,
                pid,
                cause,
            },
        }
    }
}
