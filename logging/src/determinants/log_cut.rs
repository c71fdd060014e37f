//! The end of a log before one of its records. The process that ends it may be killed meanwhile:
//! one word says so first, and whoever reads next completes it.

use super::determinant_record::DeterminantRecord;
use super::log_layout::{ANSWERS, CUT, END, FIRST, SENDS, capacity, place};
use super::{DeterminantError, LogMemory};

/// The counters of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogCounters {
    /// Number of records ever appended.
    pub end: u64,
    /// Number of answers ever given.
    pub answers: u64,
    /// Number of sends whose order matters.
    pub sends: u64,
}

/// The log ends before the record of this index, which is a dependency, from now on.
pub(super) fn begin(memory: &mut impl LogMemory, index: u64) {
    memory.store(CUT, index.saturating_add(1));
}

/// The counters, as they are once a cut that was begun is complete.
///
/// # Errors
/// The memory is no log, or a cut was begun where there is no record.
pub(super) fn counters(memory: &impl LogMemory) -> Result<LogCounters, DeterminantError> {
    let [end, answers, sends, cut] = [END, ANSWERS, SENDS, CUT].map(|word| memory.load(word));
    let Some(index) = cut.checked_sub(1) else {
        return Ok(LogCounters {
            end,
            answers,
            sends,
        });
    };
    let capacity = capacity(memory)?;
    let first = memory.load(FIRST);
    let at = place(capacity, index);
    let words = std::array::from_fn(|word| memory.load(at + word));
    // The end may be there already.
    match DeterminantRecord::decode(words).filter(|_| (first..=end).contains(&index)) {
        Some(record) => Ok(LogCounters {
            end: index,
            answers: record.number,
            sends: record.values[2],
        }),
        None => Err(DeterminantError::OutOfRange {
            first,
            end,
            position: index,
        }),
    }
}

/// Completes a cut that was begun.
///
/// # Errors
/// The errors of [`counters`].
pub(super) fn complete(memory: &mut impl LogMemory) -> Result<(), DeterminantError> {
    if memory.load(CUT) == 0 {
        return Ok(());
    }
    let to = counters(memory)?;
    memory.store(END, to.end);
    memory.store(ANSWERS, to.answers);
    memory.store(SENDS, to.sends);
    memory.store(CUT, 0);
    Ok(())
}
