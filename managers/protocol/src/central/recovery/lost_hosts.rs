//! Hosts that are lost, until it is decided how the job continues.
//!
//! A host counts as lost here also if ranks can't come back because it had their images.
//!
//! The driver answers from which checkpoint the job can continue. Until then nothing may happen
//! that makes the answer wrong: no checkpoint is committed, and no rank leaves `MPI_Finalize`. So
//! reports of the other hosts wait.

use crate::central::interface::{CentralInput, HostIndex};
use crate::manager_messages::{HostMessage, ToCentral};
use rejoin_channel_table::Rank;

/// The hosts, why they are lost, and the inputs that wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::central) struct LostHosts {
    hosts: Vec<(HostIndex, String)>,
    /// Ranks that come back anyway: they have failed, or are tied to such ranks.
    ranks: Vec<Rank>,
    later: Vec<CentralInput>,
}

impl LostHosts {
    /// A host is lost, for this reason.
    pub fn add(&mut self, host: HostIndex, why: String) {
        self.hosts.push((host, why));
    }

    /// These ranks were to come back, and a host is lost that had the image of one.
    pub fn add_returning(&mut self, host: HostIndex, why: String, ranks: &[Rank]) {
        self.add(host, why);
        self.ranks.extend(ranks);
    }

    /// The ranks that come back anyway.
    pub fn returning(&self) -> &[Rank] {
        &self.ranks
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
        self.ranks.clear();
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
