//! Duplicate suppression: envelopes are taken strictly in the order of their numbers.

use rejoin_channel_table::ids::Ssn;

/// The receiving side's place in the sequence of envelopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReceiveOrder {
    next: Ssn,
}

/// The class of an arriving envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next one.
    New,
    /// Received before: drop it.
    Duplicate,
    /// An earlier envelope is missing: the sender made an error.
    Gap,
}

impl ReceiveOrder {
    /// The number expected next.
    #[inline]
    pub fn next(&self) -> Ssn {
        self.next
    }

    /// Classifies an envelope, without taking it.
    pub fn judge(&self, ssn: Ssn) -> Arrival {
        match ssn.cmp(&self.next) {
            std::cmp::Ordering::Equal => Arrival::New,
            std::cmp::Ordering::Less => Arrival::Duplicate,
            std::cmp::Ordering::Greater => Arrival::Gap,
        }
    }

    /// Takes the next envelope.
    #[inline]
    pub fn take(&mut self) {
        self.next = self.next.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_next_is_new() {
        let mut order = ReceiveOrder::default();
        assert_eq!(order.judge(Ssn(0)), Arrival::New);
        assert_eq!(order.judge(Ssn(1)), Arrival::Gap);
        order.take();
        assert_eq!(order.judge(Ssn(0)), Arrival::Duplicate);
        assert_eq!(order.judge(Ssn(1)), Arrival::New);
        assert_eq!(order.next(), Ssn(1));
    }
}
