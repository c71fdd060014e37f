//! Who is in the job and where, in few bytes: all that a rank of a large job needs to start. It asks for
//! cards when it needs them ([`crate::lookup`]).
//!
//! Ranks stand in runs of the same incarnation on the same host, as they mostly do; the names of each host
//! are said once.

use rejoin_channel_table::book::Site;
use rejoin_channel_table::{AddressBook, BusinessCard, Incarnation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Ranks of which nothing differs but their cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Run {
    count: u32,
    /// Number of the place.
    place: u32,
    incarnation: Incarnation,
}

/// A local manager's host, by its position in the tree, and a system that ranks run on there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Place {
    position: u32,
    site: Site,
}

/// Every rank's incarnation and place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Roster {
    places: Vec<Place>,
    runs: Vec<Run>,
}

/// What is wrong with a roster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RosterError {
    /// It is of another number of ranks than the job.
    #[error("a roster of {found} ranks, not {size}")]
    Size {
        /// Ranks in the roster.
        found: u64,
        /// Ranks in the job.
        size: u32,
    },
    /// It puts ranks at a place that it does not name.
    #[error("a roster with {places} places names place {place}")]
    Place {
        /// Number of the place.
        place: u32,
        /// How many there are.
        places: usize,
    },
}

impl Roster {
    /// Of a table in rank order; `position` says where in the tree a rank's host stands.
    #[must_use]
    pub fn of(table: &[(Incarnation, BusinessCard)], position: impl Fn(usize) -> usize) -> Roster {
        let mut roster = Roster::default();
        // The places of each position: there is seldom more than one.
        let mut known = BTreeMap::<u32, Vec<u32>>::new();
        for (rank, (incarnation, card)) in table.iter().enumerate() {
            let position = u32::try_from(position(rank)).unwrap_or(u32::MAX);
            let here = known.entry(position).or_default();
            let same = |place: &&u32| {
                let place = roster.places.get(**place as usize);
                place.is_some_and(|place| place.site.is_of(card))
            };
            let place = here.iter().find(same).copied().unwrap_or_else(|| {
                let site = Site::of(card);
                roster.places.push(Place { position, site });
                let place = u32::try_from(roster.places.len() - 1).unwrap_or(u32::MAX);
                here.push(place);
                place
            });
            roster.add(place, *incarnation);
        }
        roster
    }

    fn add(&mut self, place: u32, incarnation: Incarnation) {
        let last = self.runs.last_mut();
        match last.filter(|run| (run.place, run.incarnation) == (place, incarnation)) {
            Some(run) => run.count = run.count.saturating_add(1),
            None => self.runs.push(Run {
                count: 1,
                place,
                incarnation,
            }),
        }
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.count)).sum()
    }

    /// For each rank its host's position.
    ///
    /// # Errors
    /// It is of another size, or names a place that is none.
    pub fn positions(&self, size: u32) -> Result<Vec<usize>, RosterError> {
        self.check(size)?;
        let position = |run: &Run| self.places.get(run.place as usize).map(|p| p.position);
        Ok(self
            .each(|run| position(run).unwrap_or(u32::MAX) as usize)
            .collect())
    }

    /// The address book of a job of so many ranks, which has no card.
    ///
    /// # Errors
    /// As for [`Roster::positions`].
    pub fn book(self, size: u32) -> Result<AddressBook, RosterError> {
        self.check(size)?;
        let entries = self.each(|run| (run.incarnation, run.place)).collect();
        let sites = self.places.into_iter().map(|place| place.site).collect();
        Ok(AddressBook::without_cards(entries, sites))
    }

    /// Nothing is made room for before the numbers are known to be right.
    fn check(&self, size: u32) -> Result<(), RosterError> {
        let found = self.size();
        if found != u64::from(size) {
            return Err(RosterError::Size { found, size });
        }
        let places = self.places.len();
        let missing = self.runs.iter().find(|run| run.place as usize >= places);
        missing.map_or(Ok(()), |run| {
            let place = run.place;
            Err(RosterError::Place { place, places })
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
    use rejoin_channel_table::{LocalHostId, Rank};

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
    fn a_roster_holds_all_but_the_cards() {
        let table = table();
        let roster = Roster::of(&table, |rank| rank / 4);
        assert_eq!((roster.places.len(), roster.runs.len()), (3, 5));
        assert_eq!(roster.positions(6), Ok(vec![0, 0, 0, 0, 1, 1]));
        let book = roster.book(6).expect("a book");
        for ((incarnation, card), rank) in table.iter().zip((0..).map(Rank)) {
            assert_eq!(book.incarnation(rank), Some(*incarnation));
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
        let roster = Roster::of(&table, |rank| rank / 64);
        assert_eq!((roster.places.len(), roster.runs.len()), (100, 100));
        assert_eq!(roster.size(), 6400);
    }

    #[test]
    fn forged_numbers_make_no_room() {
        let forged = |count, place| Roster {
            places: Vec::new(),
            runs: vec![
                Run {
                    count,
                    place,
                    incarnation: Incarnation(0),
                };
                3
            ],
        };
        let found = 3 * u64::from(u32::MAX);
        let size = Err(RosterError::Size { found, size: 3 });
        assert_eq!(forged(u32::MAX, 0).positions(3), size);
        let place = RosterError::Place {
            place: 7,
            places: 0,
        };
        assert_eq!(forged(1, 7).book(3), Err(place));
    }
}
