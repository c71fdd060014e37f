//! Addresses of hosts, for hosts that ask for them. Central only passes them on.

use rejoin_managers_net::address::ManagerReach;
use rejoin_managers_protocol::central::HostIndex;
use std::collections::BTreeMap;

/// The addresses that hosts have told, and questions that wait for others.
#[derive(Debug, Default)]
pub(super) struct RequestedPlaces {
    known: BTreeMap<HostIndex, ManagerReach>,
    /// Who asks, and about which host.
    questions: Vec<(HostIndex, HostIndex)>,
}

impl RequestedPlaces {
    /// A host asks about another. Returns the addresses, if they are known.
    pub fn request(&mut self, asker: HostIndex, host: HostIndex) -> Option<ManagerReach> {
        let known = self.known.get(&host).cloned();
        if known.is_none() {
            self.questions.push((asker, host));
        }
        known
    }

    /// A host takes no part any more. If its addresses were told, these hosts learn of that, and of
    /// its addresses if it comes again.
    pub fn forget(&mut self, host: HostIndex, others: impl Iterator<Item = HostIndex>) -> bool {
        let is_known = self.known.remove(&host).is_some();
        if is_known {
            self.questions.extend(others.map(|other| (other, host)));
        }
        is_known
    }

    /// A host tells its addresses. Returns the hosts that have asked for them.
    pub fn learn(&mut self, host: HostIndex, reach: ManagerReach) -> Vec<HostIndex> {
        self.known.insert(host, reach);
        let about = |(_, about): &mut (HostIndex, HostIndex)| *about == host;
        let answered = self.questions.extract_if(.., about);
        answered.map(|(asker, _)| asker).collect()
    }
}
