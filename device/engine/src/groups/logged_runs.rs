//! Which messages of a peer the receive log has.

use rejoin_channel_table::ids::Ssn;

/// Runs of messages without gaps, in order. There are few: a message that is received late makes a
/// gap until it is whole, and one that is not logged makes one until an image has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LoggedRuns(Vec<(Ssn, Ssn)>);

impl LoggedRuns {
    /// The log has this message.
    pub(crate) fn add(&mut self, ssn: Ssn) {
        let at = self.0.partition_point(|run| run.1 < ssn);
        match self.0.get_mut(at) {
            Some((start, end)) if *start <= ssn && ssn < *end => {}
            Some((_, end)) if *end == ssn => {
                *end = ssn.next();
                self.join(at);
            }
            Some((start, _)) if *start == ssn.next() => *start = ssn,
            _ => self.0.insert(at, (ssn, ssn.next())),
        }
    }

    /// Joins a run with the next one, if no message lies between.
    fn join(&mut self, at: usize) {
        if let Some(&(start, end)) = self.0.get(at + 1)
            && start == self.0[at].1
        {
            self.0[at].1 = end;
            self.0.remove(at + 1);
        }
    }

    /// The first message that the log does not have, from this one on.
    pub(crate) fn end_from(&self, ssn: Ssn) -> Ssn {
        let run = self.0.get(self.0.partition_point(|run| run.1 <= ssn));
        run.filter(|run| run.0 <= ssn).map_or(ssn, |run| run.1)
    }

    /// Earlier messages are of no interest any more.
    pub(crate) fn forget_below(&mut self, ssn: Ssn) {
        self.0.retain(|run| run.1 > ssn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn runs_have_what_was_added(
            added in prop::collection::vec(0u64..40, 0..60),
            from in 0u64..40,
            forgotten in 0u64..40,
        ) {
            let mut runs = LoggedRuns::default();
            let mut all = BTreeSet::new();
            for ssn in added {
                runs.add(Ssn(ssn));
                all.insert(ssn);
                prop_assert!(runs.0.windows(2).all(|two| two[0].1 < two[1].0));
            }
            runs.forget_below(Ssn(forgotten));
            let end = (from..).find(|ssn| !all.contains(ssn)).expect("an end");
            if from >= forgotten {
                prop_assert_eq!(runs.end_from(Ssn(from)), Ssn(end));
            }
        }
    }
}
