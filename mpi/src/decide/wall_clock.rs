//! The time that a program is told in logging modes.
//!
//! A program may read the clock in a loop, so not every reading takes a record: a reading that
//! differs from the one before by less than the resolution repeats that one, and repetitions are
//! the answers without a record.

use rejoin_device::determinants::{DeterminantError, DeterminantKind, DeterminantLog, LogMemory};
use std::cell::Cell;

/// Seconds between two different readings, at least: `MPI_Wtick` in logging modes.
pub const TIME_RESOLUTION: f64 = 1e-6;
/// Seconds between two different readings, at least, where records fill the log: a loop of readings
/// leaves room until the next checkpoint.
const COARSE: f64 = 1e-3;

/// The readings of a process.
#[derive(Debug, Default)]
pub(super) struct WallClock {
    /// The last reading in seconds.
    last: Cell<f64>,
    /// Seconds by which readings are ahead of the clock: on another host it may show less.
    ahead: Cell<f64>,
}

impl WallClock {
    /// The reading for the program when the clock says `clock` seconds: in a replay the recorded
    /// one. Readings never run backwards.
    ///
    /// # Errors
    /// The replay asks for another answer than the log has.
    pub(super) fn answer<M: LogMemory>(
        &self,
        clock: f64,
        log: &mut DeterminantLog<M>,
    ) -> Result<f64, DeterminantError> {
        let last = self.last.get();
        let behind = last - (clock + self.ahead.get());
        if behind > 0.0 {
            self.ahead.set(self.ahead.get() + behind);
        }
        let reading = (clock + self.ahead.get()).max(last);
        let step = match log.is_half_full() {
            true => COARSE,
            false => TIME_RESOLUTION,
        };
        // A full log takes no new reading: it repeats the last one until the next checkpoint.
        let is_new = reading - last >= step && !log.is_full();
        let raw = is_new.then(|| [reading.to_bits(), 0, 0]);
        if let Some([bits, ..]) = log.answer(DeterminantKind::Time, raw)? {
            self.last.set(f64::from_bits(bits));
        }
        Ok(self.last.get())
    }
}
