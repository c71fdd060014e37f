//! Context ids: numbers that keep the messages of communicators apart (MPI-5.0 §7.1.1).
//!
//! All members of a new communicator agree on the lowest id that is free at each of them: a
//! bitwise AND over windows of each member's map of free ids. Several agreements may run in one
//! process at a time (threads, nonblocking duplication); only one of them, the lowest by parent
//! and tag, offers ids, the others offer none and try again, so no id is given out twice.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// What travels in which of a communicator's contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Traffic {
    /// Point-to-point.
    PointToPoint = 0,
    /// Collectives.
    Collective = 1,
    /// Creation of communicators among some of the members.
    Creation = 2,
}

/// Words (of 64 ids) in one window of the agreement.
pub const WINDOW: usize = 32;
/// Number of windows, so the limit of live communicators is 2^20.
const WINDOWS: usize = 512;

/// What one member offers in a round, and what the round gave.
pub type Offer = [u64; WINDOW + 1];

/// Names an agreement: parent's id and tag.
pub type Key = (u32, i32);

/// The ids in use in this process.
#[derive(Debug, Default)]
pub struct ContextIds {
    used: RefCell<Vec<u64>>,
    offering: Cell<bool>,
    waiting: RefCell<BTreeSet<Key>>,
}

/// One agreement under way. Dropping it withdraws what it offered.
#[derive(Debug)]
pub struct Agreement<'a> {
    ids: &'a ContextIds,
    key: Key,
    window: usize,
    offers: bool,
}

impl ContextIds {
    /// The context id on the wire of communicator `id`'s `traffic`.
    #[inline]
    pub fn wire(id: u32, traffic: Traffic) -> u32 {
        (id << 2) | traffic as u32
    }

    /// The communicator of a context id on the wire.
    pub fn owner(wire: u32) -> u32 {
        wire >> 2
    }

    /// Marks `id` as used.
    pub fn take(&self, id: u32) {
        let mut used = self.used.borrow_mut();
        let word = id as usize / 64;
        if used.len() <= word {
            used.resize(word + 1, 0);
        }
        used[word] |= 1 << (id % 64);
    }

    /// Gives `id` back.
    pub fn release(&self, id: u32) {
        if let Some(word) = self.used.borrow_mut().get_mut(id as usize / 64) {
            *word &= !(1 << (id % 64));
        }
    }

    /// Number of ids in use.
    pub fn in_use(&self) -> u32 {
        self.used.borrow().iter().map(|w| w.count_ones()).sum()
    }

    /// Starts to agree on an id.
    pub fn agree(&self, key: Key) -> Agreement<'_> {
        self.waiting.borrow_mut().insert(key);
        Agreement {
            ids: self,
            key,
            window: 0,
            offers: false,
        }
    }
}

impl Agreement<'_> {
    /// What this member offers in the next round: free ids as bits, and in the last word whether it offers.
    pub fn offer(&mut self) -> Offer {
        let mut out = [0; WINDOW + 1];
        let first = self.ids.waiting.borrow().first() == Some(&self.key);
        if first && !self.ids.offering.get() {
            self.ids.offering.set(true);
            self.offers = true;
            let used = self.ids.used.borrow();
            for (i, word) in out[..WINDOW].iter_mut().enumerate() {
                *word = !used.get(self.window * WINDOW + i).copied().unwrap_or(0);
            }
            out[WINDOW] = 1;
        }
        out
    }

    /// Takes the AND of all offers: `Some(Ok(id))` ends the agreement, `Some(Err(()))` says that all ids are used.
    pub fn settle(&mut self, all: &Offer) -> Option<Result<u32, ()>> {
        if std::mem::take(&mut self.offers) {
            self.ids.offering.set(false);
        }
        if let Some(i) = all[..WINDOW].iter().position(|&w| w != 0) {
            let word = self.window * WINDOW + i;
            return Some(Ok(word as u32 * 64 + all[i].trailing_zeros()));
        }
        if all[WINDOW] != 0 {
            self.window += 1;
        }
        (self.window == WINDOWS).then_some(Err(()))
    }
}

impl Drop for Agreement<'_> {
    fn drop(&mut self) {
        if self.offers {
            self.ids.offering.set(false);
        }
        self.ids.waiting.borrow_mut().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn and(a: Offer, b: Offer) -> Offer {
        std::array::from_fn(|i| a[i] & b[i])
    }

    #[test]
    fn the_lowest_common_id() {
        let (a, b) = (ContextIds::default(), ContextIds::default());
        (0..70).for_each(|i| a.take(i));
        b.take(70);
        let (mut x, mut y) = (a.agree((0, 0)), b.agree((0, 0)));
        let all = and(x.offer(), y.offer());
        assert_eq!(
            (x.settle(&all), y.settle(&all)),
            (Some(Ok(71)), Some(Ok(71)))
        );
        a.release(3);
        assert_eq!(a.in_use(), 69);
    }

    #[test]
    fn full_windows_are_passed() {
        let a = ContextIds::default();
        (0..WINDOW as u32 * 64 + 5).for_each(|i| a.take(i));
        let mut x = a.agree((0, 0));
        let o = x.offer();
        assert_eq!(x.settle(&o), None);
        let o = x.offer();
        assert_eq!(x.settle(&o), Some(Ok(WINDOW as u32 * 64 + 5)));
    }

    #[test]
    fn one_agreement_at_a_time_offers() {
        let a = ContextIds::default();
        let mut late = a.agree((2, 0));
        assert_eq!(late.offer()[WINDOW], 1);
        let mut early = a.agree((1, 0));
        assert_eq!(early.offer()[WINDOW], 0, "another one offers");
        let none = [0; WINDOW + 1];
        assert_eq!(late.settle(&none), None);
        assert_eq!(late.offer()[WINDOW], 0, "a lower one waits");
        assert_eq!(early.settle(&none), None);
        assert_eq!(early.offer()[WINDOW], 1);
        drop(early);
        assert_eq!(late.settle(&none), None);
        assert_eq!(late.offer()[WINDOW], 1);
    }
}
