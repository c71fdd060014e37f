//! How far a process instance has come towards its end, and what is awaited of it meanwhile.

use super::process_exit::UnacknowledgedExit;
use super::recovery_wait::{Awaited, RecoveryWait, WaitDuty};
use crate::manager_messages::Time;

/// What a present instance is given time for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PresentWait {
    /// The started process ended well, and may have left another behind that calls `MPI_Init`.
    Fork(Time),
    /// The caller ended, and its wrapper may pass on how.
    Wrapper(Time),
    /// The socket was closed, and the process may end.
    Close(Time),
    /// The instance comes from an image and is to register; a rollback waits for that.
    Registration(RecoveryWait),
}

/// How much central knows of the end of an instance that makes room for its successor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ReplacedEnd {
    /// Central has heard of no end.
    Unreported,
    /// Central has not acknowledged this detected exit.
    Unacknowledged(UnacknowledgedExit),
    /// Central knows the end.
    Known,
}

/// How far an instance has made room for its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Retirement {
    /// The instance got the order. A rollback waits for it, or may have to, unless the job ends.
    Stopping(Option<RecoveryWait>),
    /// The instance can do nothing any more.
    Done,
}

/// How far an instance has come towards its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum InstanceState {
    /// The instance is present, and central knows of no end: it runs, or its end is not judged yet.
    Present(Option<PresentWait>),
    /// The instance ended as it should, or failed and does not come back. Central knows that.
    Settled,
    /// The instance failed, and central has not said how to continue. Without an exit, central has
    /// acknowledged that.
    Lost(Option<UnacknowledgedExit>),
    /// The instance makes room for its successor.
    Replaced(ReplacedEnd, Retirement),
}

impl InstanceState {
    /// Sets what it is given time for, as long as it is the present instance and has no known end.
    pub fn give_time(&mut self, wait: PresentWait) {
        if let InstanceState::Present(present) = self {
            *present = Some(wait);
        }
    }

    /// What is due for the wait of a rollback for it, with what is awaited.
    pub fn recovery_wait_due(&mut self, now: Time) -> Option<(Awaited, WaitDuty)> {
        match self {
            InstanceState::Present(Some(PresentWait::Registration(wait))) => {
                Some((Awaited::Registration, wait.due(now)?))
            }
            InstanceState::Replaced(_, Retirement::Stopping(Some(wait))) => {
                Some((Awaited::Stop, wait.due(now)?))
            }
            _ => None,
        }
    }

    /// The instance may not run now, so that the wait for its registration begins anew.
    pub fn suspended(&mut self, now: Time) {
        if let InstanceState::Present(Some(PresentWait::Registration(wait))) = self {
            *wait = RecoveryWait::new(now);
        }
    }

    /// The instance is the present one, and central knows of no end.
    pub fn is_present(&self) -> bool {
        matches!(self, InstanceState::Present(_))
    }

    /// The instance ended as it should, or failed and does not come back, and central knows that.
    pub fn is_settled(&self) -> bool {
        *self == InstanceState::Settled
    }

    /// The instance failed, and central has not said how to continue.
    pub fn is_lost(&self) -> bool {
        matches!(self, InstanceState::Lost(_))
    }

    /// The instance is to make room for its successor, or has done so.
    pub fn is_retiring(&self) -> bool {
        matches!(self, InstanceState::Replaced(..))
    }

    /// The instance is to make room for its successor, and has not done so.
    pub fn delays_successor(&self) -> bool {
        matches!(self, InstanceState::Replaced(_, Retirement::Stopping(_)))
    }

    /// The instance is to make room for its successor: central's order acknowledges a failure of
    /// which everything was known. Returns whether the order is new.
    pub fn retire(&mut self, now: Time) -> bool {
        let end = match self {
            InstanceState::Present(_) => ReplacedEnd::Unreported,
            InstanceState::Settled => ReplacedEnd::Known,
            InstanceState::Lost(exit) => match exit.take().filter(|exit| exit.was_detected()) {
                Some(exit) => ReplacedEnd::Unacknowledged(exit),
                None => ReplacedEnd::Known,
            },
            InstanceState::Replaced(..) => return false,
        };
        let stopping = Retirement::Stopping(Some(RecoveryWait::new(now)));
        *self = InstanceState::Replaced(end, stopping);
        true
    }

    /// The instance can do nothing any more. Returns whether that was waited for.
    pub fn has_retired(&mut self) -> bool {
        match self {
            InstanceState::Replaced(_, stop @ Retirement::Stopping(_)) => {
                *stop = Retirement::Done;
                true
            }
            _ => false,
        }
    }

    /// The instance has made room.
    pub fn has_made_room(&self) -> bool {
        matches!(self, InstanceState::Replaced(_, Retirement::Done))
    }

    /// Central has stored how it exited.
    pub fn acknowledged(&mut self) {
        match self {
            InstanceState::Lost(exit) => {
                exit.take_if(|exit| exit.was_detected());
            }
            InstanceState::Replaced(end @ ReplacedEnd::Unacknowledged(_), _) => {
                *end = ReplacedEnd::Known;
            }
            _ => {}
        }
    }

    /// The instance failed and does not come back.
    pub fn release(&mut self) {
        if self.is_lost() {
            *self = InstanceState::Settled;
        }
    }

    /// The exit that central has not acknowledged.
    pub fn exit(&self) -> Option<&UnacknowledgedExit> {
        match self {
            InstanceState::Lost(Some(exit))
            | InstanceState::Replaced(ReplacedEnd::Unacknowledged(exit), _) => Some(exit),
            _ => None,
        }
    }

    /// The exit that central has not acknowledged, to be changed.
    pub fn exit_mut(&mut self) -> Option<&mut UnacknowledgedExit> {
        match self {
            InstanceState::Lost(Some(exit))
            | InstanceState::Replaced(ReplacedEnd::Unacknowledged(exit), _) => Some(exit),
            _ => None,
        }
    }

    /// When its time is over, or [`InstanceState::recovery_wait_due`] has something.
    pub fn deadline(&self) -> Option<Time> {
        match self {
            InstanceState::Present(Some(
                PresentWait::Fork(at) | PresentWait::Wrapper(at) | PresentWait::Close(at),
            )) => Some(*at),
            InstanceState::Present(Some(PresentWait::Registration(wait)))
            | InstanceState::Replaced(_, Retirement::Stopping(Some(wait))) => Some(wait.deadline()),
            _ => None,
        }
    }

    /// The instance is not judged before the process that it left behind has had time for
    /// `MPI_Init`.
    pub fn may_register_late(&self) -> bool {
        matches!(self, InstanceState::Present(Some(PresentWait::Fork(_))))
    }

    /// The instance's end needs no judgement any more, and no rollback waits for it.
    pub fn stop_waits(&mut self) {
        match self {
            InstanceState::Present(wait) => *wait = None,
            InstanceState::Replaced(_, Retirement::Stopping(wait)) => *wait = None,
            _ => {}
        }
    }

    /// The instance's exit is detected, which central has not heard. Returns whether that is news
    /// to central.
    pub fn detected(&mut self, exit: UnacknowledgedExit) -> bool {
        match self {
            InstanceState::Present(_) => *self = InstanceState::Lost(Some(exit)),
            InstanceState::Replaced(end @ ReplacedEnd::Unreported, _) => {
                *end = ReplacedEnd::Unacknowledged(exit);
            }
            _ => return false,
        }
        true
    }
}
