//! The order of a rank's output when the rank moves: what its former host passes on comes first.
//!
//! The links of the two hosts have no common order. The former host sends a mark when the rank has
//! taken the image with which it moves. Output of the new host waits for that mark. At most a
//! window of it waits, because none of it is credited.
//!
//! When the job rolls back behind a move, the rank is on its former host again. Until its process
//! on the other host is stopped, that may still write, which counts no more.

use super::Stream;
use rejoin_channel_table::{ImageId, MoveNumber, Rank};
use rejoin_managers_protocol::central::HostIndex;
use std::collections::{BTreeMap, BTreeSet};

/// Output that waits.
#[derive(Debug, PartialEq, Eq)]
pub struct WaitingOutput {
    /// The new host of the rank.
    pub host: HostIndex,
    /// The stream.
    pub stream: Stream,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Nothing follows on this stream.
    pub last: bool,
}

/// A rank whose mark has not come from its former host.
#[derive(Debug)]
struct Arrival {
    host: HostIndex,
    number: MoveNumber,
    output: Vec<WaitingOutput>,
}

/// The ranks that have moved.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// The last mark of each rank.
    marks: BTreeMap<Rank, ImageId>,
    waiting: BTreeMap<Rank, Arrival>,
    /// The hosts on which a rank may be, if it has moved or rolled back.
    places: BTreeMap<Rank, BTreeSet<HostIndex>>,
}

impl Arrivals {
    /// A rank is on this host with its image of this number.
    pub fn begin(&mut self, host: HostIndex, rank: Rank, number: MoveNumber) {
        if let Some(places) = self.places.get_mut(&rank) {
            places.insert(host);
        }
        if self.marks.get(&rank) >= Some(&ImageId::Move(number)) {
            return;
        }
        let output = Vec::new();
        self.waiting.insert(
            rank,
            Arrival {
                host,
                number,
                output,
            },
        );
    }

    /// Whether output of a rank from this host counts.
    pub fn counts(&self, host: HostIndex, rank: Rank) -> bool {
        let places = self.places.get(&rank);
        places.is_none_or(|places| places.contains(&host))
    }

    /// Output of a rank, from this host. Returns the bytes if they need not wait.
    pub fn pass(
        &mut self,
        host: HostIndex,
        rank: Rank,
        stream: Stream,
        bytes: Vec<u8>,
        last: bool,
    ) -> Option<Vec<u8>> {
        let arrival = self.waiting.get_mut(&rank);
        let Some(arrival) = arrival.filter(|arrival| arrival.host == host) else {
            return Some(bytes);
        };
        arrival.output.push(WaitingOutput {
            host,
            stream,
            bytes,
            last,
        });
        None
    }

    /// The mark of this image has come. Returns the output that has waited for it.
    pub fn marked(&mut self, rank: Rank, image: ImageId) -> Vec<WaitingOutput> {
        let mark = self.marks.entry(rank).or_insert(image);
        *mark = image.max(*mark);
        match self.waiting.get(&rank) {
            Some(arrival) if ImageId::Move(arrival.number) <= image => self.take(rank),
            _ => Vec::new(),
        }
    }

    /// The rank rolls back, on this host: what has waited is written again, and what comes from
    /// others does not count.
    pub fn rolls_back(&mut self, host: HostIndex, rank: Rank) {
        self.waiting.remove(&rank);
        self.places.insert(rank, BTreeSet::from([host]));
    }

    fn take(&mut self, rank: Rank) -> Vec<WaitingOutput> {
        let arrival = self.waiting.remove(&rank);
        arrival.map_or_else(Vec::new, |arrival| arrival.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::Epoch;

    fn number(after: u32) -> MoveNumber {
        MoveNumber::next(None, Epoch(after))
    }

    #[test]
    fn output_of_the_new_host_waits_for_the_mark() {
        let mut arrivals = Arrivals::default();
        let out = |arrivals: &mut Arrivals, host, text: &str| {
            arrivals.pass(host, Rank(1), Stream::Out, text.into(), false)
        };
        arrivals.begin(2, Rank(1), number(5));
        assert_eq!(out(&mut arrivals, 0, "before"), Some("before".into()));
        assert_eq!(out(&mut arrivals, 2, "after"), None);
        assert!(
            arrivals
                .marked(Rank(1), ImageId::Checkpoint(Epoch(5)))
                .is_empty()
        );
        let waited = arrivals.marked(Rank(1), ImageId::Move(number(5)));
        assert_eq!(waited.len(), 1);
        assert_eq!((waited[0].host, &waited[0].bytes[..]), (2, &b"after"[..]));
        assert_eq!(out(&mut arrivals, 2, "more"), Some("more".into()));
    }

    #[test]
    fn after_a_rollback_only_the_host_of_the_rank_counts() {
        let mut arrivals = Arrivals::default();
        assert!(arrivals.counts(7, Rank(1)));
        arrivals.rolls_back(0, Rank(1));
        assert!(arrivals.counts(0, Rank(1)) && !arrivals.counts(2, Rank(1)));
        arrivals.begin(2, Rank(1), number(5));
        assert!(arrivals.counts(0, Rank(1)) && arrivals.counts(2, Rank(1)));
    }

    #[test]
    fn a_mark_may_come_first() {
        let mut arrivals = Arrivals::default();
        assert!(
            arrivals
                .marked(Rank(1), ImageId::Move(number(5)))
                .is_empty()
        );
        arrivals.begin(2, Rank(1), number(5));
        let passed = arrivals.pass(2, Rank(1), Stream::Out, b"a".to_vec(), false);
        assert_eq!(passed, Some(b"a".to_vec()));
    }
}
