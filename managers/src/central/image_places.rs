//! Where the files of hosts' images are copied, for hosts that ask. Central only passes it on.

use crate::launch::local_messages::CentralToLocal;
use rejoin_managers_protocol::central::HostIndex;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The addresses that hosts have told, and questions that wait for others.
#[derive(Debug, Default)]
pub(super) struct ImagePlaces {
    known: BTreeMap<u32, Vec<SocketAddr>>,
    /// Who asks, and about which host.
    questions: Vec<(HostIndex, u32)>,
}

impl ImagePlaces {
    /// A host asks about another. Returns the answer, if it is known.
    pub fn ask(&mut self, asker: HostIndex, host: u32) -> Option<CentralToLocal> {
        let Some(addresses) = self.known.get(&host).cloned() else {
            self.questions.push((asker, host));
            return None;
        };
        Some(CentralToLocal::ImagesAt { host, addresses })
    }

    /// A host tells its addresses. Returns answers, and to whom.
    pub fn learn(
        &mut self,
        host: HostIndex,
        addresses: Vec<SocketAddr>,
    ) -> Vec<(HostIndex, CentralToLocal)> {
        let host = u32::try_from(host).unwrap_or(u32::MAX);
        self.known.insert(host, addresses.clone());
        let about = |(_, about): &mut (HostIndex, u32)| *about == host;
        let answered = self.questions.extract_if(.., about);
        let answer = |(asker, host)| {
            let addresses = addresses.clone();
            (asker, CentralToLocal::ImagesAt { host, addresses })
        };
        answered.map(answer).collect()
    }
}
