//! The exit of a process instance as central learns of it, and its place among the host's exits.

use crate::manager_messages::{Cause, End, ProcessExit, ProcessInstance, Stage, ToCentral};

/// The place of an exit among those of the host. A report names them in the order of their
/// detection, because the first one may be the cause of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ExitNumber(u32);

impl ExitNumber {
    /// The number after this one.
    pub fn next(self) -> ExitNumber {
        ExitNumber(self.0 + 1)
    }
}

/// An exit that central has not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct UnacknowledgedExit {
    number: ExitNumber,
    exit: ProcessExit,
}

impl UnacknowledgedExit {
    /// See [`ProcessExit::detected`].
    pub fn detected(
        number: ExitNumber,
        instance: ProcessInstance,
        pid: u32,
        stage: Stage,
    ) -> UnacknowledgedExit {
        let exit = ProcessExit::detected(instance, pid, stage);
        UnacknowledgedExit { number, exit }
    }

    /// See [`ProcessExit::failed`].
    pub fn failed(
        number: ExitNumber,
        instance: ProcessInstance,
        pid: u32,
        cause: Cause,
    ) -> UnacknowledgedExit {
        let exit = ProcessExit::failed(instance, pid, cause);
        UnacknowledgedExit { number, exit }
    }

    pub fn number(&self) -> ExitNumber {
        self.number
    }

    pub fn exit(&self) -> &ProcessExit {
        &self.exit
    }

    /// See [`ProcessExit::was_detected`].
    pub fn was_detected(&self) -> bool {
        self.exit.was_detected()
    }

    /// The message that reports it to central.
    pub fn message(&self) -> ToCentral {
        ToCentral::Process(self.exit.message())
    }

    /// The exit status has come. Returns the message about it, if this exit waited for it.
    pub fn status_known(&mut self, end: End) -> Option<ToCentral> {
        self.exit.status_known(end).then(|| self.message())
    }
}
