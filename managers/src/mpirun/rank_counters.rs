//! The counters that ranks report when they end.

use rejoin_channel_table::Rank;
use std::collections::BTreeMap;

/// The reported counters, by rank: their names and values.
#[derive(Default)]
pub(super) struct RankCounters {
    ranks: BTreeMap<Rank, Vec<(String, u64)>>,
}

impl RankCounters {
    /// A rank reports its counters; the last report counts.
    pub fn insert(&mut self, rank: Rank, counters: Vec<(String, u64)>) {
        self.ranks.insert(rank, counters);
    }

    /// One line per rank of a job of `size` ranks, with its counters.
    pub fn report(&self, size: u32) -> String {
        let mut text = String::new();
        for rank in (0..size).map(Rank) {
            text += &format!("mpirun: stats: rank {}:", rank.0);
            match self.ranks.get(&rank) {
                Some(counters) => {
                    for (name, value) in counters {
                        text += &format!(" {name}={value}");
                    }
                }
                None => text += " nothing reported, it did not come to the end of MPI_Finalize",
            }
            text.push('\n');
        }
        text
    }
}
