//! The receiver's state in a handshake, from which the sender sends the rest again.

use crate::ids::{Epoch, Ssn};
use crate::numbers::{FieldReader, put_varint};

/// Most sequence numbers in all lists of one [`Resume`] together. The engine's cap on unexpected
/// messages keeps well below it.
pub const MAX_RESUME_ENTRIES: usize = 1 << 22;
/// Highest total of bytes or envelopes, so that sums do not overflow.
const MAX_TOTAL: u64 = 1 << 62;
/// Longest encoding of one [`Resume`], in bytes.
pub const MAX_RESUME_BYTES: usize = 16 << 20;

/// The state of the direction from the peer to this side, as this side sends it when a link opens.
///
/// A side takes its resume when it no longer reads any older link to the peer. The resume is a
/// snapshot of that moment. A receive may match, or the program may consume bytes, before the link
/// is open. Ordinary frames report such changes once the link is open. These frames belong to one
/// attempt. They are dropped when it fails, because the next [`Resume`] holds their content.
///
/// Lists are strictly ascending and below [`Resume::next_envelope`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resume {
    /// Epoch in which the resume was taken. A resume is an ack: a rank in an earlier epoch takes
    /// its own image before it accepts the resume of a later epoch.
    pub epoch: Epoch,
    /// Every envelope below this SSN was received, and its match, if it has one, is permanent.
    pub next_envelope: Ssn,
    /// Bytes of window ever taken by the peer's messages.
    pub taken: u64,
    /// Bytes of window ever given back to the peer, at most as many.
    pub credit: u64,
    /// Envelopes ever granted beyond the window.
    pub granted: u64,
    /// Granted envelopes that have come.
    pub used: u64,
    /// A committed image of this side holds all messages below, with their bodies. It counts
    /// between recovery groups only.
    pub committed: Ssn,
    /// Envelopes received whose eager body is not complete: the body is sent again as data frames.
    pub incomplete_eager: Vec<Ssn>,
    /// Rendezvous messages that are matched and whose body is not complete: clear to send, from
    /// offset 0.
    pub clear: Vec<Ssn>,
    /// Rendezvous messages received and not matched yet. A rendezvous message below
    /// `next_envelope` that is neither here nor in `clear` is finished.
    pub pending_rts: Vec<Ssn>,
    /// Synchronous messages received and not matched yet; any other synchronous message below
    /// `next_envelope` has been matched.
    pub unmatched_sync: Vec<Ssn>,
}

/// What is wrong with a [`Resume`] or its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// The bytes end early, continue after the end, or a number is not well formed.
    #[error("the bytes of a resume are damaged")]
    Damaged,
    /// More than [`MAX_RESUME_ENTRIES`] entries or [`MAX_RESUME_BYTES`] bytes.
    #[error("a resume is larger than allowed")]
    TooLarge,
    /// A list is not strictly ascending, or holds a number at or above `next_envelope`, or a
    /// message is both clear and pending, or a total exceeds the one that bounds it.
    #[error("the lists or totals of a resume contradict one another")]
    Inconsistent,
}

impl Resume {
    /// Checks the order and the bounds of the lists.
    ///
    /// # Errors
    /// [`ResumeError::TooLarge`] or [`ResumeError::Inconsistent`].
    pub fn check(&self) -> Result<(), ResumeError> {
        let lists = self.lists();
        if lists.iter().map(|l| l.len()).sum::<usize>() > MAX_RESUME_ENTRIES {
            return Err(ResumeError::TooLarge);
        }
        for list in lists {
            let ascending = list.windows(2).all(|pair| pair[0] < pair[1]);
            let below = list.last().is_none_or(|&last| last < self.next_envelope);
            if !ascending || !below {
                return Err(ResumeError::Inconsistent);
            }
        }
        let most = self.taken.max(self.granted);
        if self.credit > self.taken || self.used > self.granted || most > MAX_TOTAL {
            return Err(ResumeError::Inconsistent);
        }
        if self.committed > self.next_envelope {
            return Err(ResumeError::Inconsistent);
        }
        let both =
            |list: &[Ssn], other: &[Ssn]| list.iter().any(|s| other.binary_search(s).is_ok());
        if both(&self.clear, &self.pending_rts) {
            return Err(ResumeError::Inconsistent);
        }
        Ok(())
    }

    /// Appends the encoding to `out`: numbers as LEB128, each list as its length and its steps.
    ///
    /// # Errors
    /// The errors of [`Resume::check`], or [`ResumeError::TooLarge`] when there are too many bytes.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), ResumeError> {
        self.check()?;
        let start = out.len();
        put_varint(out, self.epoch.0.into());
        put_varint(out, self.next_envelope.0);
        for total in [self.taken, self.credit, self.granted, self.used] {
            put_varint(out, total);
        }
        put_varint(out, self.committed.0);
        for list in self.lists() {
            put_varint(out, list.len() as u64);
            // The step from one number to the next is at least 1; the encoding holds the excess.
            let mut least = 0;
            for ssn in list {
                put_varint(out, ssn.0 - least);
                least = ssn.0 + 1;
            }
        }
        if out.len() - start > MAX_RESUME_BYTES {
            out.truncate(start);
            return Err(ResumeError::TooLarge);
        }
        Ok(())
    }

    /// Reads what [`Resume::encode`] wrote; `bytes` holds that and nothing else.
    ///
    /// # Errors
    /// The defect of `bytes`. A forged length allocates no more than the bytes justify.
    pub fn decode(bytes: &[u8]) -> Result<Resume, ResumeError> {
        if bytes.len() > MAX_RESUME_BYTES {
            return Err(ResumeError::TooLarge);
        }
        let mut reader = FieldReader::new(bytes);
        let epoch = reader.varint().ok_or(ResumeError::Damaged)?;
        let mut next = || reader.varint().ok_or(ResumeError::Damaged);
        let resume = Resume {
            epoch: Epoch(u32::try_from(epoch).map_err(|_| ResumeError::Damaged)?),
            next_envelope: Ssn(next()?),
            taken: next()?,
            credit: next()?,
            granted: next()?,
            used: next()?,
            committed: Ssn(next()?),
            incomplete_eager: decode_list(&mut reader)?,
            clear: decode_list(&mut reader)?,
            pending_rts: decode_list(&mut reader)?,
            unmatched_sync: decode_list(&mut reader)?,
        };
        if !reader.is_empty() {
            return Err(ResumeError::Damaged);
        }
        resume.check()?;
        Ok(resume)
    }

    fn lists(&self) -> [&Vec<Ssn>; 4] {
        [
            &self.incomplete_eager,
            &self.clear,
            &self.pending_rts,
            &self.unmatched_sync,
        ]
    }
}

fn decode_list(reader: &mut FieldReader<'_>) -> Result<Vec<Ssn>, ResumeError> {
    let count = reader.varint().ok_or(ResumeError::Damaged)?;
    // Each entry takes a byte at least, so a count above the number of bytes left is forged.
    let count = usize::try_from(count).map_err(|_| ResumeError::Damaged)?;
    if count > reader.remaining() {
        return Err(ResumeError::Damaged);
    }
    if count > MAX_RESUME_ENTRIES {
        return Err(ResumeError::TooLarge);
    }
    let mut list = Vec::with_capacity(count);
    let mut least: Option<u64> = Some(0);
    for _ in 0..count {
        let excess = reader.varint().ok_or(ResumeError::Damaged)?;
        let ssn = least
            .and_then(|l| l.checked_add(excess))
            .ok_or(ResumeError::Inconsistent)?;
        list.push(Ssn(ssn));
        least = ssn.checked_add(1);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ascending(below: u64) -> impl Strategy<Value = Vec<Ssn>> {
        proptest::collection::btree_set(0..below, 0..20)
            .prop_map(|set| set.into_iter().map(Ssn).collect())
    }

    fn resumes() -> impl Strategy<Value = Resume> {
        let totals = [0..MAX_TOTAL, 0..MAX_TOTAL, 0..MAX_TOTAL, 0..MAX_TOTAL];
        (any::<u32>(), 1u64..u64::MAX, totals).prop_flat_map(|(epoch, next, totals)| {
            (
                ascending(next),
                ascending(next),
                ascending(next),
                ascending(next),
            )
                .prop_map(
                    move |(incomplete_eager, clear, mut pending_rts, unmatched_sync)| {
                        pending_rts.retain(|s| !clear.contains(s));
                        Resume {
                            epoch: Epoch(epoch),
                            next_envelope: Ssn(next),
                            taken: totals[0].max(totals[1]),
                            credit: totals[0].min(totals[1]),
                            granted: totals[2].max(totals[3]),
                            used: totals[2].min(totals[3]),
                            committed: Ssn(next / 2),
                            incomplete_eager,
                            clear,
                            pending_rts,
                            unmatched_sync,
                        }
                    },
                )
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(resume in resumes()) {
            let mut bytes = Vec::new();
            resume.encode(&mut bytes).unwrap();
            prop_assert_eq!(Resume::decode(&bytes).unwrap(), resume);
        }

        #[test]
        fn any_bytes_decode_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(resume) = Resume::decode(&bytes) {
                prop_assert!(resume.check().is_ok());
            }
        }

        #[test]
        fn damaged_encodings_decode_without_panic(
            resume in resumes(), at in any::<prop::sample::Index>(), with in any::<u8>(), cut in any::<prop::sample::Index>()
        ) {
            let mut bytes = Vec::new();
            resume.encode(&mut bytes).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = with;
            bytes.truncate(cut.index(bytes.len() + 1));
            if let Ok(resume) = Resume::decode(&bytes) {
                prop_assert!(resume.check().is_ok());
            }
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let base = Resume {
            next_envelope: Ssn(5),
            ..Resume::default()
        };
        let at_next = Resume {
            clear: vec![Ssn(5)],
            ..base.clone()
        };
        let twice = Resume {
            unmatched_sync: vec![Ssn(1), Ssn(1)],
            ..base.clone()
        };
        let both = Resume {
            clear: vec![Ssn(1)],
            pending_rts: vec![Ssn(1)],
            ..base.clone()
        };
        let credit = Resume {
            credit: 1,
            ..base.clone()
        };
        let used = Resume {
            used: 1,
            ..base.clone()
        };
        let committed = Resume {
            committed: Ssn(6),
            ..base.clone()
        };
        for wrong in [at_next, twice, both, credit, used, committed] {
            assert_eq!(
                wrong.encode(&mut Vec::new()),
                Err(ResumeError::Inconsistent)
            );
        }
    }

    #[test]
    fn a_forged_count_is_refused_before_it_allocates() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 0);
        put_varint(&mut bytes, 9);
        bytes.extend([0; 5]);
        put_varint(&mut bytes, u64::MAX);
        assert_eq!(Resume::decode(&bytes), Err(ResumeError::Damaged));
    }

    #[test]
    fn an_epoch_beyond_its_type_is_refused() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 1 << 32);
        bytes.extend([0; 10]);
        assert_eq!(Resume::decode(&bytes), Err(ResumeError::Damaged));
        bytes[..5].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(Resume::decode(&bytes).unwrap().epoch, Epoch(u32::MAX));
    }

    #[test]
    fn runs_are_compact() {
        let list: Vec<Ssn> = (1000..61000).map(Ssn).collect();
        let resume = Resume {
            next_envelope: Ssn(70000),
            unmatched_sync: list,
            ..Resume::default()
        };
        let mut bytes = Vec::new();
        resume.encode(&mut bytes).unwrap();
        assert!(bytes.len() < 60100);
    }
}
