//! Hosts that are lost, until it is decided how the job continues.
//!
//! The driver answers from which checkpoint the job can continue. Until then nothing may happen
//! that makes the answer wrong: no checkpoint is committed, and no rank leaves `MPI_Finalize`. So
//! reports of the other hosts wait.

use crate::central::interface::{CentralInput, HostIndex};
use crate::manager_messages::{HostMessage, ToCentral};

/// The hosts, why they are lost, and the inputs that wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::central) struct LostHosts {
    hosts: Vec<(HostIndex, String)>,
    later: Vec<CentralInput>,
}

impl LostHosts {
    /// A host is lost, for this reason.
    pub fn add(&mut self, host: HostIndex, why: String) {
        self.hosts.push((host, why));
    }

    /// The hosts for which nothing is decided, and why they are lost.
    pub fn hosts(&self) -> &[(HostIndex, String)] {
        &self.hosts
    }

    /// Something is to be decided.
    pub fn is_pending(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// The decision for all of these hosts is made.
    pub fn take_hosts(&mut self) -> Vec<(HostIndex, String)> {
        std::mem::take(&mut self.hosts)
    }

    /// Keeps an input that waits for the decision. Returns the others.
    pub fn postpone(&mut self, input: CentralInput) -> Option<CentralInput> {
        let waits = match &input {
            CentralInput::Local(
                _,
                ToCentral::Host(HostMessage::Renew { .. }) | ToCentral::Host(HostMessage::Watch(_)),
            ) => false,
            CentralInput::Local(..) => true,
            CentralInput::Checkpoint | CentralInput::Stop(_) => true,
            _ => false,
        };
        if !self.is_pending() || !waits {
            return Some(input);
        }
        self.later.push(input);
        None
    }

    /// The inputs that waited, once it is decided.
    pub fn take_later(&mut self) -> Vec<CentralInput> {
        match self.is_pending() {
            true => Vec::new(),
            false => std::mem::take(&mut self.later),
        }
    }
}
