//! How far the order is that the thread for copies carries out.

use std::sync::{Arc, Mutex, PoisonError};

/// An order that is being carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OrderProgress {
    number: u64,
    done: u64,
    of: u64,
}

/// What the thread says of its present order, for others to read.
#[derive(Debug, Clone, Default)]
pub(super) struct CopyProgress(Arc<Mutex<Option<OrderProgress>>>);

impl CopyProgress {
    /// The order of this number has so many bytes of all.
    pub fn set(&self, number: u64, done: u64, of: u64) {
        let mut order = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *order = Some(OrderProgress { number, done, of });
    }

    /// How many bytes the order of this number has, of how many. `None`: it is not carried out yet,
    /// or not any more.
    pub fn of(&self, number: u64) -> Option<(u64, u64)> {
        let order = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let order = order.filter(|order| order.number == number)?;
        Some((order.done, order.of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_present_order_has_figures() {
        let progress = CopyProgress::default();
        assert_eq!(progress.of(0), None);
        progress.set(0, 5, 10);
        assert_eq!(progress.of(0), Some((5, 10)));
        progress.set(1, 0, 7);
        assert_eq!((progress.of(0), progress.of(1)), (None, Some((0, 7))));
    }
}
