//! Context ids: numbers that keep the messages of communicators apart (MPI-5.0 §7.1.1).
//!
//! A context id belongs to the process that receives with it. Each member of a new communicator
//! takes the lowest id that is free in its own process, and sends it to the other members. A
//! message carries the id of its receiver. So a new communicator waits for its own members only.
//! Two constructors under way share no state, in whatever threads or requests they run.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The kinds of messages, each with a context of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Traffic {
    /// Point-to-point.
    PointToPoint = 0,
    /// Collectives.
    Collective = 1,
    /// Calls among some of the members: creation of communicators, and collectives on
    /// intercommunicators.
    Creation = 2,
    /// Partitioned communication.
    Partitioned = 3,
    /// Calls of the leaders of two groups that make an intercommunicator. Their tags are the
    /// program's, as those of calls among some are that other threads make meanwhile.
    Meeting = 4,
}

impl Traffic {
    /// The context id on the wire of this traffic to a member that receives with `id`.
    #[inline]
    pub fn wire(self, id: u32) -> u32 {
        (id << 3) | self as u32
    }
}

/// A context id on the wire that no message has.
pub(crate) const NO_CONTEXT: u32 = u32::MAX;

/// The number of a context id on the wire, whatever its traffic.
pub(super) fn number(wire: u32) -> u32 {
    wire >> 3
}

/// Most ids in use in one process at a time.
const MAX_IDS: usize = 1 << 20;

/// The ids in use in this process: a bit for each.
#[derive(Debug, Default)]
pub struct ContextIds {
    used: RefCell<Vec<u64>>,
    /// Above all ids that were ever taken.
    fresh: Cell<u32>,
}

/// An id of this process. Dropping the value frees the id, unless it is lent.
#[derive(Debug)]
pub struct ContextId {
    ids: Rc<ContextIds>,
    number: u32,
    /// Another value with this number frees the id.
    is_lent: bool,
}

impl ContextIds {
    /// Takes the lowest free id; `None` when all of 2^20 are in use.
    pub fn take(self: &Rc<Self>) -> Option<ContextId> {
        let mut used = self.used.borrow_mut();
        let word = used.iter().position(|word| *word != u64::MAX);
        let word = word.unwrap_or(used.len());
        if word == used.len() {
            if word * 64 == MAX_IDS {
                return None;
            }
            used.push(0);
        }
        let bit = used[word].trailing_ones();
        used[word] |= 1 << bit;
        let number = word as u32 * 64 + bit;
        self.fresh.set(self.fresh.get().max(number + 1));
        Some(self.owned(number))
    }

    fn owned(self: &Rc<Self>, number: u32) -> ContextId {
        let (ids, is_lent) = (self.clone(), false);
        ContextId {
            ids,
            number,
            is_lent,
        }
    }

    /// Takes an id that was never taken, as long as there is one. When an id becomes free depends
    /// on timing: on requests that the program has freed and that are in flight. So a replay could
    /// get another one by [`ContextIds::take`].
    pub fn take_fresh(self: &Rc<Self>) -> Option<ContextId> {
        let number = self.fresh.get();
        if number as usize >= MAX_IDS {
            return self.take();
        }
        let mut used = self.used.borrow_mut();
        let word = number as usize / 64;
        if word >= used.len() {
            used.resize(word + 1, 0);
        }
        used[word] |= 1 << (number % 64);
        self.fresh.set(number + 1);
        Some(self.owned(number))
    }

    /// Number of ids in use.
    pub fn in_use(&self) -> u32 {
        self.used.borrow().iter().map(|w| w.count_ones()).sum()
    }
}

impl ContextId {
    /// The id as a number below 2^20.
    #[inline]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The same id, for a part of the communicator that has this one.
    pub(super) fn lend(&self) -> Self {
        let (ids, number) = (self.ids.clone(), self.number);
        Self {
            ids,
            number,
            is_lent: true,
        }
    }
}

impl Drop for ContextId {
    fn drop(&mut self) {
        if self.is_lent {
            return;
        }
        self.ids.used.borrow_mut()[self.number as usize / 64] &= !(1 << (self.number % 64));
    }
}

/// The context ids of a new communicator.
#[derive(Debug)]
pub(crate) struct Contexts {
    /// The id that this process receives with.
    pub own: ContextId,
    /// The ids of all who took part in the exchange, in order of rank.
    pub all: Vec<u32>,
}

impl Contexts {
    /// The ids of some of the members, by their ranks in the exchange.
    pub(super) fn of(self, ranks: impl Iterator<Item = usize>) -> Self {
        Self {
            all: ranks.map(|rank| self.all[rank]).collect(),
            own: self.own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_id_was_never_taken() {
        let ids = Rc::new(ContextIds::default());
        let first = ids.take_fresh().unwrap();
        drop(ids.take_fresh().unwrap());
        assert_eq!(ids.take_fresh().unwrap().number(), 2);
        assert_eq!(ids.take().unwrap().number(), 1);
        let more: Vec<_> = (0..200).map(|_| ids.take_fresh().unwrap()).collect();
        assert!(more.iter().map(ContextId::number).eq(3..203));
        assert_eq!((first.number(), ids.in_use()), (0, 201));
        ids.fresh.set(MAX_IDS as u32);
        assert_eq!(ids.take_fresh().unwrap().number(), 1);
    }

    #[test]
    fn the_lowest_free_id_is_taken() {
        let ids = Rc::new(ContextIds::default());
        let mut taken: Vec<_> = (0..70).map(|_| ids.take().unwrap()).collect();
        assert!(taken.iter().map(ContextId::number).eq(0..70));
        drop(taken.remove(65));
        drop(taken.remove(3));
        assert_eq!(ids.in_use(), 68);
        let again = [(); 3].map(|()| ids.take().unwrap());
        assert_eq!(again.each_ref().map(ContextId::number), [3, 65, 70]);
    }

    #[test]
    fn the_number_of_ids_is_bounded() {
        let ids = Rc::new(ContextIds::default());
        ids.used.borrow_mut().resize(MAX_IDS / 64, u64::MAX);
        assert!(ids.take().is_none());
        ids.used.borrow_mut()[7] &= !2;
        assert_eq!(ids.take().unwrap().number(), 7 * 64 + 1);
    }
}
