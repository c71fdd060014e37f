//! The queue of events, ordered by time. Events of one time keep the order of entry.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Events to come.
#[derive(Debug)]
pub struct Queue<E> {
    order: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, E>,
    sequence: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue {
            order: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
        }
    }
}

impl<E> Queue<E> {
    /// An event at this time.
    pub fn at(&mut self, time: u64, event: E) {
        self.sequence += 1;
        self.order.push(Reverse((time, self.sequence)));
        self.events.insert(self.sequence, event);
    }

    /// Forgets events that are not to be kept.
    pub fn retain(&mut self, keep: impl Fn(&E) -> bool) {
        self.events.retain(|_, event| keep(event));
        let events = &self.events;
        self.order
            .retain(|Reverse((_, sequence))| events.contains_key(sequence));
    }

    /// The next event and its time.
    pub fn pop(&mut self) -> Option<(u64, E)> {
        let Reverse((time, sequence)) = self.order.pop()?;
        let event = self.events.remove(&sequence)?;
        Some((time, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_first_and_entry_second() {
        let mut queue = Queue::default();
        for (time, name) in [(5, "c"), (1, "a"), (5, "d"), (2, "b")] {
            queue.at(time, name);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(1, "a"), (2, "b"), (5, "c"), (5, "d")]);
    }
}
