//! What mpirun has said to central, and must repeat to the next one: central may or may not have
//! taken its last inputs.

use rejoin_managers_protocol::central::{CentralInput, HostIndex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The inputs that the next central manager must hear, too.
#[derive(Default)]
pub(super) struct RepeatedInputs {
    /// Central has stored that the job began.
    began: bool,
    /// Inputs that were not acknowledged yet, with their numbers.
    pending: VecDeque<(u64, CentralInput)>,
    next: u64,
    /// Requests for moves that are not over, by their numbers. They are acknowledged before that.
    moves: BTreeMap<u64, CentralInput>,
    /// What was said of hosts that are lost or have ended.
    last: BTreeMap<HostIndex, CentralInput>,
    /// The hosts whose managers called before central had stored that the job began. A central
    /// manager that resumes a job counts a lease of each host from its own start.
    called: BTreeSet<HostIndex>,
}

/// How an input goes to central.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Not at all.
    Nowhere,
    /// Without a number; nobody acknowledges it.
    Unnumbered,
    /// With this number, which is acknowledged.
    Numbered(u64),
}

impl RepeatedInputs {
    /// Keeps an input as long as it must be repeated.
    pub fn add(&mut self, input: &CentralInput) -> Way {
        match input {
            // Of the first two there would be one too many. Local managers say the third
            // themselves.
            CentralInput::Begin | CentralInput::Tick | CentralInput::Local(..) => Way::Nowhere,
            CentralInput::HostLost(host)
            | CentralInput::HostGone(host, _)
            | CentralInput::HostEnded(host, _) => {
                self.last.entry(*host).or_insert_with(|| input.clone());
                Way::Unnumbered
            }
            CentralInput::HostCalled(host) => {
                if !self.began {
                    self.called.insert(*host);
                }
                Way::Unnumbered
            }
            // Another one asks again.
            CentralInput::Suspended | CentralInput::Stored(_) => Way::Unnumbered,
            CentralInput::Signal(_)
            | CentralInput::Stop(_)
            | CentralInput::Checkpoint
            | CentralInput::Move(_)
            | CentralInput::AddHosts(_)
            | CentralInput::OutputLost(_) => {
                if let CentralInput::Move(request) = input {
                    self.moves.insert(request.id, input.clone());
                }
                let number = self.number();
                self.pending.push_back((number, input.clone()));
                Way::Numbered(number)
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Central has stored that the job began, and what came of these inputs.
    pub fn stored(&mut self, took: &[u64]) {
        self.began = true;
        self.called.clear();
        self.pending.retain(|(number, _)| !took.contains(number));
    }

    /// Central has stored that the job began.
    pub fn began(&self) -> bool {
        self.began
    }

    /// A request for moves is carried out as far as possible.
    pub fn moves_over(&mut self, request: u64) {
        self.moves.remove(&request);
    }

    /// A request to end waits for its acknowledgement.
    pub fn has_end(&self) -> bool {
        self.pending
            .iter()
            .any(|(_, input)| input.end_signal().is_some())
    }

    /// Central has acknowledged all inputs.
    pub fn all_stored(&self) -> bool {
        self.pending.is_empty()
    }

    /// The numbered inputs for the next central manager. Requests for moves that the last one has
    /// acknowledged, and not carried out, are pending again.
    pub fn numbered(&mut self) -> Vec<(u64, CentralInput)> {
        // They were asked for before those that are pending.
        let moves: Vec<CentralInput> = self.moves.values().rev().cloned().collect();
        for input in moves {
            if !self.pending.iter().any(|(_, other)| *other == input) {
                let number = self.number();
                self.pending.push_front((number, input));
            }
        }
        self.pending.iter().cloned().collect()
    }

    /// What has become of hosts: which have called, and which are lost.
    pub fn of_hosts(&self) -> impl Iterator<Item = CentralInput> {
        let called = self.called.iter().copied().map(CentralInput::HostCalled);
        called.chain(self.last.values().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::Rank;
    use rejoin_managers_protocol::central::{MoveRequest, Movers};

    #[test]
    fn a_host_that_called_before_the_job_began_is_named_to_the_next_central_manager() {
        let mut inputs = RepeatedInputs::default();
        assert_eq!(inputs.add(&CentralInput::HostCalled(1)), Way::Unnumbered);
        assert_eq!(inputs.add(&CentralInput::HostLost(2)), Way::Unnumbered);
        let of_hosts: Vec<_> = inputs.of_hosts().collect();
        let want = [CentralInput::HostCalled(1), CentralInput::HostLost(2)];
        assert_eq!(of_hosts, want);
        // A later one waits for every host.
        inputs.stored(&[]);
        inputs.add(&CentralInput::HostCalled(3));
        let of_hosts: Vec<_> = inputs.of_hosts().collect();
        assert_eq!(of_hosts, [CentralInput::HostLost(2)]);
    }

    #[test]
    fn a_request_for_moves_is_repeated_until_it_is_over() {
        let mut inputs = RepeatedInputs::default();
        let request = CentralInput::Move(MoveRequest {
            id: 7,
            movers: Movers::Ranks(vec![Rank(1)]),
            to: None,
        });
        assert_eq!(inputs.add(&request), Way::Numbered(0));
        assert_eq!(inputs.add(&CentralInput::Checkpoint), Way::Numbered(1));
        inputs.stored(&[0]);
        let again = [(2, request), (1, CentralInput::Checkpoint)];
        assert_eq!(inputs.numbered(), again);
        inputs.moves_over(7);
        inputs.stored(&[2]);
        assert_eq!(inputs.numbered(), again[1..]);
    }
}
