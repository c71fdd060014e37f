//! A failure of a rank, as its local manager reported it.

use super::event::Event;
use super::placement::HostIndex;
use crate::manager_messages::{Cause, ProcessInstance};
use crate::policy::Refusal;
use crate::verdict::Verdict;

/// A failure of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Failure {
    pub instance: ProcessInstance,
    pub host: HostIndex,
    /// The process id, 0 when there never was one.
    pub pid: u32,
    pub cause: Cause,
}

impl Failure {
    /// `pid`: 0 when there never was a process.
    pub fn new(host: HostIndex, instance: ProcessInstance, pid: u32, cause: Cause) -> Failure {
        Failure {
            instance,
            host,
            pid,
            cause,
        }
    }

    /// The event of a masked failure. `alone`: only this rank is restored, and no generation
    /// begins.
    pub fn into_event(self, host: String, alone: bool) -> Event {
        let generation = self.instance.generation;
        Event::Lost {
            rank: self.instance.rank,
            host,
            pid: self.pid,
            cause: self.cause,
            generation: if alone { generation } else { generation.next() },
            alone,
        }
    }

    /// The verdict of a job that ends by it, with the reason why it was not masked.
    pub fn into_verdict(self, host: String, refusal: Option<Refusal>) -> Verdict {
        Verdict::Failed {
            rank: self.instance.rank,
            host,
            pid: self.pid,
            cause: self.cause,
            refusal,
        }
    }
}
