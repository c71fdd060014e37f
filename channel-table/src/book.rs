//! The address book: every rank's current incarnation and business card.

use crate::card::{BusinessCard, CardError};
use crate::ids::{Incarnation, Rank};

/// Current incarnation and card of every rank of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddressBook {
    entries: Vec<(Incarnation, BusinessCard)>,
}

/// Why an update of the book was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BookError {
    /// The job has no such rank.
    #[error("rank {rank} is not in a job of {size} ranks")]
    NotInJob {
        /// The rank asked for.
        rank: Rank,
        /// Ranks in the job.
        size: u32,
    },
    /// The book knows a newer incarnation.
    #[error("incarnation {offered} of rank {rank} is older than the current one, {current}")]
    Older {
        /// Whose.
        rank: Rank,
        /// What the update said.
        offered: Incarnation,
        /// What the book says.
        current: Incarnation,
    },
    /// The card breaks a limit.
    #[error(transparent)]
    Card(#[from] CardError),
}

impl AddressBook {
    /// A book with one entry per rank, in the order of ranks.
    pub fn new(entries: Vec<(Incarnation, BusinessCard)>) -> Self {
        AddressBook { entries }
    }

    /// Ranks in the job.
    pub fn size(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    /// The current incarnation of `rank`; `None` if the job has no such rank.
    pub fn incarnation(&self, rank: Rank) -> Option<Incarnation> {
        self.entries.get(rank.index()).map(|entry| entry.0)
    }

    /// The current card of `rank`; `None` if the job has no such rank.
    pub fn card(&self, rank: Rank) -> Option<&BusinessCard> {
        self.entries.get(rank.index()).map(|entry| &entry.1)
    }

    /// Replaces the card of `rank`; true if its incarnation is newer than the one known so far.
    ///
    /// # Errors
    /// An unknown rank, an older incarnation, a card that breaks a limit; the book then stays.
    pub fn update(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        card: BusinessCard,
    ) -> Result<bool, BookError> {
        card.check()?;
        let size = self.size();
        let entry = self
            .entries
            .get_mut(rank.index())
            .ok_or(BookError::NotInJob { rank, size })?;
        if incarnation < entry.0 {
            return Err(BookError::Older {
                rank,
                offered: incarnation,
                current: entry.0,
            });
        }
        let newer = incarnation > entry.0;
        *entry = (incarnation, card);
        Ok(newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_incarnations_are_refused() {
        let mut book = AddressBook::new(vec![Default::default(); 2]);
        let card = |pid| BusinessCard {
            pid,
            ..BusinessCard::default()
        };
        assert_eq!(book.update(Rank(1), Incarnation(2), card(5)), Ok(true));
        assert_eq!(book.update(Rank(1), Incarnation(2), card(6)), Ok(false));
        let older = book.update(Rank(1), Incarnation(1), card(7));
        assert!(matches!(older, Err(BookError::Older { .. })));
        assert_eq!(book.card(Rank(1)).unwrap().pid, 6);
        assert_eq!(book.incarnation(Rank(1)), Some(Incarnation(2)));
        let absent = book.update(Rank(2), Incarnation(0), card(1));
        assert_eq!(
            absent,
            Err(BookError::NotInJob {
                rank: Rank(2),
                size: 2
            })
        );
        assert_eq!(book.incarnation(Rank(2)), None);
    }
}
