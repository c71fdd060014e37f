//! What a host gives to all that copy its files, so that its ranks keep their share of the network:
//! when a host with many ranks is drained, many others copy at once.

use super::copy_rate::CopyRate;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Most bytes between two pauses. The receiver must not take a pause for silence, also if all
/// callers share a low rate.
const PIECE: usize = 16 << 10;

/// Writes no faster than a rate that others share.
pub(super) struct PacedWriter<'a, W> {
    to: W,
    /// `None`: as fast as it goes.
    rate: Option<&'a Mutex<CopyRate>>,
}

impl<'a, W> PacedWriter<'a, W> {
    /// With this rate, if there is one.
    pub fn new(to: W, rate: Option<&'a Mutex<CopyRate>>) -> PacedWriter<'a, W> {
        PacedWriter { to, rate }
    }
}

impl<W: Write> Write for PacedWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(rate) = self.rate else {
            return self.to.write(bytes);
        };
        let written = self.to.write(&bytes[..bytes.len().min(PIECE)])?;
        let mut rate = rate.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = rate.pause_after(written, Instant::now());
        // Others may write meanwhile, and wait longer.
        drop(rate);
        thread::sleep(pause);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn writers_share_a_rate_and_write_all() {
        const BYTES: usize = 100_000;
        let begun = Instant::now();
        let rate = Mutex::new(CopyRate::new(Some(1_000_000), begun));
        let write = || {
            let mut paper = Vec::new();
            let mut writer = PacedWriter::new(&mut paper, Some(&rate));
            writer.write_all(&[7; BYTES]).expect("written");
            paper.len()
        };
        let written = thread::scope(|scope| {
            let other = scope.spawn(write);
            (write(), other.join().expect("a thread"))
        });
        assert_eq!(written, (BYTES, BYTES));
        assert!(
            begun.elapsed() >= Duration::from_millis(190),
            "{:?}",
            begun.elapsed()
        );
    }
}
