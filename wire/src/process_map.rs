//! Which rank is on which host, in few bytes. A rank of a large job needs no more to start. It asks
//! for a card when it needs one ([`crate::ToManager::LookUp`]).
//!
//! Ranks of one incarnation on one host mostly follow each other, so they are encoded as runs. The
//! names of each host are encoded once.

use rejoin_channel_table::book::Site;
use rejoin_channel_table::{AddressBook, BusinessCard, Incarnation, Rank};
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Consecutive ranks of one incarnation at one location.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Run {
    count: u32,
    /// Index of the location.
    location: u32,
    incarnation: Incarnation,
}

/// A local manager's host, by its position in the tree, and a system that ranks run on there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Location {
    position: u32,
    site: Site,
}

/// Every rank's incarnation and location.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessMap {
    locations: Vec<Location>,
    runs: Vec<Run>,
}

/// An error of a process map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessMapError {
    /// The map's number of ranks differs from the job's.
    #[error("a process map of {found} ranks, not {size}")]
    Size {
        /// Ranks in the process map.
        found: u64,
        /// Ranks in the job.
        size: u32,
    },
    /// The map puts ranks at a location that it does not list.
    #[error("a process map with {locations} locations names location {location}")]
    Location {
        /// Index of the location.
        location: u32,
        /// Number of locations listed.
        locations: usize,
    },
}

impl ProcessMap {
    /// Makes the map from a table in rank order; `position` gives the place of a rank's host in the
    /// tree.
    #[must_use]
    pub fn of(
        table: &[(Incarnation, impl Borrow<BusinessCard>)],
        position: impl Fn(usize) -> usize,
    ) -> ProcessMap {
        let mut process_map = ProcessMap::default();
        // The locations of each position: there is seldom more than one.
        let mut known = BTreeMap::<u32, Vec<u32>>::new();
        for (rank, (incarnation, card)) in table.iter().enumerate() {
            let card = card.borrow();
            let position = u32::try_from(position(rank)).unwrap_or(u32::MAX);
            let here = known.entry(position).or_default();
            let same = |location: &&u32| {
                let location = process_map.locations.get(**location as usize);
                location.is_some_and(|location| location.site.is_of(card))
            };
            let location = here.iter().find(same).copied().unwrap_or_else(|| {
                let site = Site::of(card);
                process_map.locations.push(Location { position, site });
                let location = u32::try_from(process_map.locations.len() - 1).unwrap_or(u32::MAX);
                here.push(location);
                location
            });
            process_map.add(location, *incarnation);
        }
        process_map
    }

    fn add(&mut self, location: u32, incarnation: Incarnation) {
        let last = self.runs.last_mut();
        match last.filter(|run| (run.location, run.incarnation) == (location, incarnation)) {
            Some(run) => run.count = run.count.saturating_add(1),
            None => self.runs.push(Run {
                count: 1,
                location,
                incarnation,
            }),
        }
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.count)).sum()
    }

    /// The incarnation of a rank.
    #[must_use]
    pub fn incarnation(&self, rank: Rank) -> Option<Incarnation> {
        let mut ends = 0u64;
        let run = self.runs.iter().find(|run| {
            ends += u64::from(run.count);
            ends > u64::from(rank.0)
        });
        run.map(|run| run.incarnation)
    }

    /// For each rank its host's position.
    ///
    /// # Errors
    /// The size differs, or a run has a location that is not listed.
    pub fn positions(&self, size: u32) -> Result<Vec<usize>, ProcessMapError> {
        self.check(size)?;
        let position = |run: &Run| {
            self.locations
                .get(run.location as usize)
                .map(|p| p.position)
        };
        Ok(self
            .each(|run| position(run).unwrap_or(u32::MAX) as usize)
            .collect())
    }

    /// The address book of a job of so many ranks, which has no card.
    ///
    /// # Errors
    /// The errors of [`ProcessMap::positions`].
    pub fn book(self, size: u32) -> Result<AddressBook, ProcessMapError> {
        self.check(size)?;
        let entries = self.each(|run| (run.incarnation, run.location)).collect();
        let sites = self
            .locations
            .into_iter()
            .map(|location| location.site)
            .collect();
        Ok(AddressBook::without_cards(entries, sites))
    }

    /// Checks the numbers before any allocation depends on them.
    fn check(&self, size: u32) -> Result<(), ProcessMapError> {
        let found = self.size();
        if found != u64::from(size) {
            return Err(ProcessMapError::Size { found, size });
        }
        let locations = self.locations.len();
        let missing = self
            .runs
            .iter()
            .find(|run| run.location as usize >= locations);
        missing.map_or(Ok(()), |run| {
            let location = run.location;
            Err(ProcessMapError::Location {
                location,
                locations,
            })
        })
    }

    fn each<T>(&self, of: impl Fn(&Run) -> T) -> impl Iterator<Item = T> {
        let repeat = |run: &'_ Run| std::iter::repeat_n(*run, run.count as usize);
        self.runs.iter().flat_map(repeat).map(move |run| of(&run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::LocalHostId;

    fn card(host: &str) -> BusinessCard {
        BusinessCard {
            host: host.into(),
            local_host: LocalHostId(format!("system of {host}")),
            ..BusinessCard::default()
        }
    }

    /// Four ranks on the first host, of which one runs in a container, and two on the second.
    fn table() -> Vec<(Incarnation, BusinessCard)> {
        let hosts = ["a", "a", "c", "a", "b", "b"];
        let mut table: Vec<_> = hosts.map(|h| (Incarnation(1), card(h))).into();
        table[5].0 = Incarnation(2);
        table
    }

    #[test]
    fn a_process_map_holds_all_but_the_cards() {
        let table = table();
        let process_map = ProcessMap::of(&table, |rank| rank / 4);
        assert_eq!(
            (process_map.locations.len(), process_map.runs.len()),
            (3, 5)
        );
        assert_eq!(process_map.positions(6), Ok(vec![0, 0, 0, 0, 1, 1]));
        assert_eq!(process_map.incarnation(Rank(6)), None);
        let book = process_map.clone().book(6).expect("a book");
        for ((incarnation, card), rank) in table.iter().zip((0..).map(Rank)) {
            assert_eq!(book.incarnation(rank), Some(*incarnation));
            assert_eq!(process_map.incarnation(rank), Some(*incarnation));
            assert_eq!(book.host(rank), Some(card.host.as_str()));
            assert_eq!(book.local_host(rank), Some(&card.local_host));
            assert_eq!(book.card(rank), None);
        }
    }

    #[test]
    fn ranks_of_a_host_take_no_room() {
        let table: Vec<_> = (0..6400)
            .map(|rank| (Incarnation(0), card(&format!("host{}", rank / 64))))
            .collect();
        let process_map = ProcessMap::of(&table, |rank| rank / 64);
        assert_eq!(
            (process_map.locations.len(), process_map.runs.len()),
            (100, 100)
        );
        assert_eq!(process_map.size(), 6400);
    }

    #[test]
    fn forged_numbers_make_no_room() {
        let forged = |count, location| ProcessMap {
            locations: Vec::new(),
            runs: vec![
                Run {
                    count,
                    location,
                    incarnation: Incarnation(0),
                };
                3
            ],
        };
        let found = 3 * u64::from(u32::MAX);
        let size = Err(ProcessMapError::Size { found, size: 3 });
        assert_eq!(forged(u32::MAX, 0).positions(3), size);
        let location = ProcessMapError::Location {
            location: 7,
            locations: 0,
        };
        assert_eq!(forged(1, 7).book(3), Err(location));
    }
}
