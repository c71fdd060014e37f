//! The number of the interrupted call, as the manager saw it: the registers no longer hold it.
//!
//! The number travels in the signal's value beside the epoch, with a hash of the call's address,
//! stack and arguments. The program may be in another call when the signal arrives; then the hash
//! differs.

use crate::proc;

/// Bits for the call's number; the largest value says that there is none.
const NUMBER_BITS: u32 = 9;
const NO_NUMBER: u32 = (1 << NUMBER_BITS) - 1;
const CHECK_BITS: u32 = 32 - NUMBER_BITS;

/// A call's number and a check of where it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint(u32);

/// Identifies a call: six arguments, stack pointer, the address after the call.
pub(crate) type CallSite = [u64; 8];

impl Hint {
    /// The hint without a call.
    #[must_use]
    pub fn none() -> Self {
        Self(NO_NUMBER)
    }

    /// From the text of `/proc/PID/syscall`: `35 0x7ffd… (six arguments) 0x7ffd… 0x7f01…`;
    /// `running` gives no hint.
    #[must_use]
    pub fn read(text: &[u8]) -> Self {
        let mut words = proc::words(text.trim_ascii());
        let number = words
            .next()
            .and_then(proc::number)
            .and_then(|n| u32::try_from(n).ok());
        let mut place: CallSite = [0; 8];
        for value in &mut place {
            let Some(word) = words.next().and_then(proc::hex) else {
                return Self::none();
            };
            *value = word;
        }
        match number {
            Some(number) if number < NO_NUMBER => {
                Self(number | check(number, &place) << NUMBER_BITS)
            }
            _ => Self::none(),
        }
    }

    /// The signal's value for an epoch.
    pub(crate) fn with(self, epoch: u32) -> u64 {
        u64::from(self.0) << 32 | u64::from(epoch)
    }

    /// From the signal's value.
    pub(crate) fn of(value: u64) -> Self {
        Self((value >> 32) as u32)
    }

    /// All of it, as a word.
    pub(crate) fn word(self) -> u32 {
        self.0
    }

    /// From [`Hint::word`].
    pub(crate) fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// The number, if the hint is about this place.
    pub(crate) fn number_at(self, place: &CallSite) -> Option<u32> {
        let number = self.0 & NO_NUMBER;
        let fits = number != NO_NUMBER && self.0 >> NUMBER_BITS == check(number, place);
        fits.then_some(number)
    }
}

/// Fowler–Noll–Vo's hash (FNV-1a) over words, with its upper bits folded in.
fn check(number: u32, place: &CallSite) -> u32 {
    let words = place.iter().copied().chain([u64::from(number)]);
    let sum = words.fold(0xcbf2_9ce4_8422_2325u64, |sum, word| {
        (sum ^ word ^ word >> 32).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (sum >> (64 - CHECK_BITS)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"35 0x7ffd01 0x0 0x1 0x2 0x3 0x4 0x7ffd00 0x7f0042\n";
    const PLACE: CallSite = [0x7f_fd01, 0, 1, 2, 3, 4, 0x7f_fd00, 0x7f_0042];

    #[test]
    fn a_hint_is_good_for_its_own_call_only() {
        let value = Hint::read(TEXT).with(77);
        assert_eq!(value as u32, 77);
        let hint = Hint::of(value);
        assert_eq!(hint.number_at(&PLACE), Some(35));
        for at in 0..8 {
            let mut other = PLACE;
            other[at] += 8;
            assert_eq!(hint.number_at(&other), None, "word {at}");
        }
    }

    #[test]
    fn nothing_is_made_of_other_text() {
        for text in [
            &b"running"[..],
            b"",
            b"-1 0x7ffd00 0x7f0042",
            b"511 0 0 0 0 0 0 0 0",
            b"35 0x1",
        ] {
            assert_eq!(Hint::read(text), Hint::none());
            assert_eq!(Hint::read(text).number_at(&PLACE), None);
        }
    }
}
