//! The address book: every rank's current incarnation, and the business cards that are known.
//!
//! In a large job a rank knows every incarnation and every host from the start, and learns a card
//! when it first needs one.

use crate::card::{BusinessCard, CardError, LocalHostId};
use crate::ids::{Incarnation, Rank};
use serde::{Deserialize, Serialize};

/// Where ranks run, as far as that is known without their cards.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Site {
    /// Host name, for messages to the user.
    pub host: String,
    /// The running operating system.
    pub local_host: LocalHostId,
}

impl Site {
    /// The site that a card names.
    #[must_use]
    pub fn of(card: &BusinessCard) -> Site {
        Site {
            host: card.host.clone(),
            local_host: card.local_host.clone(),
        }
    }

    /// True if `card` names this site.
    #[must_use]
    pub fn is_of(&self, card: &BusinessCard) -> bool {
        self.host == card.host && self.local_host == card.local_host
    }
}

/// The site number of a rank that needs none, because its card is known.
const NO_SITE: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    incarnation: Incarnation,
    /// Number of its site.
    site: u32,
    card: Option<Box<BusinessCard>>,
}

/// Current incarnation of every rank of the job, and the cards that are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddressBook {
    entries: Vec<Entry>,
    sites: Vec<Site>,
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
        /// The rank whose card it is.
        rank: Rank,
        /// The incarnation in the update.
        offered: Incarnation,
        /// The incarnation in the book.
        current: Incarnation,
    },
    /// The card breaks a limit.
    #[error(transparent)]
    Card(#[from] CardError),
}

impl AddressBook {
    /// A book with one entry per rank, in the order of ranks.
    pub fn new(entries: Vec<(Incarnation, BusinessCard)>) -> Self {
        let entry = |(incarnation, card)| Entry {
            incarnation,
            site: NO_SITE,
            card: Some(Box::new(card)),
        };
        AddressBook {
            entries: entries.into_iter().map(entry).collect(),
            sites: Vec::new(),
        }
    }

    /// A book without cards: each rank's incarnation and the number of its site, in the order of
    /// ranks.
    pub fn without_cards(entries: Vec<(Incarnation, u32)>, sites: Vec<Site>) -> Self {
        let entry = |(incarnation, site)| Entry {
            incarnation,
            site,
            card: None,
        };
        AddressBook {
            entries: entries.into_iter().map(entry).collect(),
            sites,
        }
    }

    /// Ranks in the job.
    pub fn size(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    /// The current incarnation of `rank`; `None` if the job has no such rank.
    pub fn incarnation(&self, rank: Rank) -> Option<Incarnation> {
        self.entries
            .get(rank.index())
            .map(|entry| entry.incarnation)
    }

    /// The current card of `rank`; `None` if it is not known, or the job has no such rank.
    pub fn card(&self, rank: Rank) -> Option<&BusinessCard> {
        self.entries.get(rank.index())?.card.as_deref()
    }

    /// Name of the host of `rank`; `None` if the job has no such rank.
    pub fn host(&self, rank: Rank) -> Option<&str> {
        match self.card(rank) {
            Some(card) => Some(&card.host),
            None => self.site(rank).map(|site| site.host.as_str()),
        }
    }

    /// The running system that `rank` is on; `None` if the job has no such rank.
    pub fn local_host(&self, rank: Rank) -> Option<&LocalHostId> {
        match self.card(rank) {
            Some(card) => Some(&card.local_host),
            None => self.site(rank).map(|site| &site.local_host),
        }
    }

    fn site(&self, rank: Rank) -> Option<&Site> {
        let entry = self.entries.get(rank.index())?;
        self.sites.get(entry.site as usize)
    }

    /// Sets the card of `rank`; true if its incarnation is newer than the one known so far.
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
        if incarnation < entry.incarnation {
            return Err(BookError::Older {
                rank,
                offered: incarnation,
                current: entry.incarnation,
            });
        }
        let newer = incarnation > entry.incarnation;
        entry.incarnation = incarnation;
        entry.card = Some(Box::new(card));
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

    #[test]
    fn hosts_are_known_before_cards() {
        let site = |host: &str| Site {
            host: host.into(),
            local_host: LocalHostId(format!("system of {host}")),
        };
        let entries = vec![
            (Incarnation(3), 0),
            (Incarnation(4), 1),
            (Incarnation(0), 9),
        ];
        let mut book = AddressBook::without_cards(entries, vec![site("a"), site("b")]);
        assert_eq!((book.size(), book.card(Rank(1))), (3, None));
        assert_eq!(book.incarnation(Rank(1)), Some(Incarnation(4)));
        assert_eq!(
            (book.host(Rank(0)), book.host(Rank(1))),
            (Some("a"), Some("b"))
        );
        assert_eq!(book.local_host(Rank(1)), Some(&site("b").local_host));
        assert_eq!((book.host(Rank(2)), book.host(Rank(3))), (None, None));
        let card = BusinessCard {
            host: "c".into(),
            ..BusinessCard::default()
        };
        let older = book.update(Rank(1), Incarnation(3), card.clone());
        assert!(matches!(older, Err(BookError::Older { .. })), "{older:?}");
        assert_eq!(
            book.update(Rank(1), Incarnation(4), card.clone()),
            Ok(false)
        );
        assert_eq!(
            (book.card(Rank(1)), book.host(Rank(1))),
            (Some(&card), Some("c"))
        );
        assert!(Site::of(&card).is_of(&card) && !site("b").is_of(&card));
    }
}
