//! The links that blocking calls wait for at their end, and for how long they do.

use std::time::Duration;

use rejoin_channel_table::ids::Rank;

/// How long a call waits for the first answer of a peer. A peer that is in an MPI call answers
/// within a millisecond, or within some tens of them where many ranks share a core.
const SILENCE: Duration = Duration::from_millis(100);
/// The wait is halved after each failed wait, down to this value. So a rank that sends to many
/// computing ranks loses little time.
const SHORTEST_SILENCE: Duration = Duration::from_millis(1);
/// How long a call waits for the rest of a handshake that the peer has answered.
const ANSWERED: Duration = Duration::from_secs(1);

/// The peers to which something was sent without a link.
#[derive(Debug)]
pub(super) struct AwaitedLinks {
    ranks: Vec<Rank>,
    /// How long the next call waits for a first answer.
    silence: Duration,
}

impl Default for AwaitedLinks {
    fn default() -> Self {
        Self {
            ranks: Vec::new(),
            silence: SILENCE,
        }
    }
}

impl AwaitedLinks {
    /// A call waits for the link to this rank at its end.
    pub(super) fn add(&mut self, rank: Rank) {
        if !self.ranks.contains(&rank) {
            self.ranks.push(rank);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Takes the ranks out; the caller [puts back](AwaitedLinks::put_back) those without a link.
    pub(super) fn take(&mut self) -> Vec<Rank> {
        std::mem::take(&mut self.ranks)
    }

    /// How long to wait for these ranks after a wait of `waited`. `None`: there are none, or the
    /// wait has failed.
    pub(super) fn put_back(
        &mut self,
        ranks: Vec<Rank>,
        answered: bool,
        waited: Duration,
    ) -> Option<Duration> {
        self.ranks = ranks;
        if self.ranks.is_empty() {
            self.silence = SILENCE;
            return None;
        }
        let limit = if answered { ANSWERED } else { self.silence };
        let left = limit.saturating_sub(waited);
        if left.is_zero() {
            self.ranks.clear();
            self.silence = (self.silence / 2).max(SHORTEST_SILENCE);
            return None;
        }
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a call waits for rank 3 without success.
    fn failed_wait(awaited: &mut AwaitedLinks) -> Duration {
        awaited.add(Rank(3));
        let ranks = awaited.take();
        let limit = awaited.put_back(ranks, false, Duration::ZERO);
        let limit = limit.expect("there is something to wait for");
        let ranks = awaited.take();
        assert_eq!(awaited.put_back(ranks, false, limit), None);
        assert!(awaited.is_empty());
        limit
    }

    #[test]
    fn failed_waits_become_shorter_until_a_link_is_established() {
        let mut awaited = AwaitedLinks::default();
        assert_eq!(failed_wait(&mut awaited), SILENCE);
        assert_eq!(failed_wait(&mut awaited), SILENCE / 2);
        for _ in 0..20 {
            failed_wait(&mut awaited);
        }
        assert_eq!(failed_wait(&mut awaited), SHORTEST_SILENCE);
        awaited.add(Rank(3));
        let _stands = awaited.take();
        assert_eq!(awaited.put_back(Vec::new(), false, Duration::ZERO), None);
        assert_eq!(failed_wait(&mut awaited), SILENCE);
    }

    #[test]
    fn a_peer_that_has_answered_is_waited_for_longer() {
        let mut awaited = AwaitedLinks::default();
        awaited.add(Rank(3));
        awaited.add(Rank(3));
        let ranks = awaited.take();
        assert_eq!(ranks, [Rank(3)]);
        let waited = 3 * SILENCE;
        assert_eq!(
            awaited.put_back(ranks, true, waited),
            Some(ANSWERED - waited)
        );
    }
}
