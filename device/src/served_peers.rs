//! Peers that get messages while the program computes, and when it is interrupted for them.

use rejoin_channel_table::ids::Rank;

/// Milliseconds from one interruption to the next: the fewest, and the most while nothing moves. A
/// peer that computes takes its messages late.
const PAUSES: [u32; 2] = [2, 64];

/// The peers that get messages while the program computes, and the interruptions of the program for
/// them.
#[derive(Debug, Default)]
pub(crate) struct ServedPeers {
    peers: Vec<Rank>,
    /// From the last interruption to the next.
    pause: u32,
    /// The manager was asked for an interruption that has not come.
    is_asked: bool,
}

impl ServedPeers {
    /// This peer may lack messages.
    pub(crate) fn add(&mut self, rank: Rank) {
        if !self.peers.contains(&rank) {
            self.peers.push(rank);
        }
    }

    /// Whether any peer lacks something. Forgets the others.
    pub(crate) fn any_lacks(&mut self, lacks: impl Fn(Rank) -> bool) -> bool {
        self.peers.retain(|rank| lacks(*rank));
        !self.peers.is_empty()
    }

    /// The interruption has come.
    pub(crate) fn interrupted(&mut self) {
        self.is_asked = false;
    }

    /// After how many milliseconds the manager is to interrupt the program. `None`: it was asked
    /// already. `soon`: messages move.
    pub(crate) fn next(&mut self, soon: bool) -> Option<u32> {
        if std::mem::replace(&mut self.is_asked, true) {
            return None;
        }
        let [fewest, most] = PAUSES;
        self.pause = if soon {
            fewest
        } else {
            (2 * self.pause).clamp(fewest, most)
        };
        Some(self.pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_are_seldom_while_nothing_moves() {
        let mut served = ServedPeers::default();
        served.add(Rank(3));
        served.add(Rank(3));
        assert_eq!(served.next(true), Some(2));
        assert_eq!(served.next(true), None, "the first one has not come");
        let mut pauses = Vec::new();
        for _ in 0..7 {
            served.interrupted();
            pauses.extend(served.next(false));
        }
        assert_eq!(pauses, [4, 8, 16, 32, 64, 64, 64]);
        served.interrupted();
        assert_eq!(served.next(true), Some(2));
        assert!(served.any_lacks(|rank| rank == Rank(3)));
        assert!(!served.any_lacks(|_| false) && !served.any_lacks(|_| true));
    }
}
