//! Addresses of hosts, for hosts that ask for them. Central only passes them on.

use rejoin_managers_protocol::central::HostIndex;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The addresses that hosts have told, and questions that wait for others.
#[derive(Debug, Default)]
pub(super) struct AskedPlaces {
    known: BTreeMap<HostIndex, Vec<SocketAddr>>,
    /// Who asks, and about which host.
    questions: Vec<(HostIndex, HostIndex)>,
}

impl AskedPlaces {
    /// A host asks about another. Returns the addresses, if they are known.
    pub fn ask(&mut self, asker: HostIndex, host: HostIndex) -> Option<Vec<SocketAddr>> {
        let known = self.known.get(&host).cloned();
        if known.is_none() {
            self.questions.push((asker, host));
        }
        known
    }

    /// A host tells its addresses. Returns the hosts that have asked for them.
    pub fn learn(&mut self, host: HostIndex, addresses: Vec<SocketAddr>) -> Vec<HostIndex> {
        self.known.insert(host, addresses);
        let about = |(_, about): &mut (HostIndex, HostIndex)| *about == host;
        let answered = self.questions.extract_if(.., about);
        answered.map(|(asker, _)| asker).collect()
    }
}
