//! When a log asks for a checkpoint although it has room: so soon that it uses little memory, and
//! so seldom that checkpoints cost little.
//!
//! Memory that is used for the first time costs several times as much as the copy of a message into
//! it. A checkpoint lets the log use the same memory again, but has a price of its own: the pages
//! that the rank copies afterwards, and the files. So the first one is asked for early. When
//! checkpoints have cost as much as more memory would, they come half as often, and the log uses
//! twice as much. This way a rank never pays more than twice what it would if it knew how long it
//! runs (the ski rental problem; Karlin, Manasse, Rudolph and Sleator, "Competitive snoopy
//! caching", 1988).

use std::time::{Duration, Instant};

use rejoin_channel_table::Epoch;

/// Bytes since the last image at which the first checkpoint is asked for.
const FIRST: u64 = 64 << 20;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Microseconds that the first use of a page takes, as [`rejoin_wire::ImageCost::total`] counts it.
const FIRST_USE: u64 = 2;

/// How many bytes ask for a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogPace {
    bytes: u64,
    most: u64,
    /// The epoch in which a checkpoint was asked for that is not committed, and when.
    asked: Option<(Epoch, Instant)>,
    /// What checkpoints have cost since there are so many bytes.
    paid: Duration,
    /// Bytes of the log's memory that were in use at the last image, now or before.
    used: u64,
}

/// What twice as many bytes cost the first time: as many may be held for the last image.
fn price_of_more(bytes: u64) -> Duration {
    let pages = bytes.saturating_mul(2) / PAGE;
    Duration::from_micros(pages.saturating_mul(FIRST_USE))
}

impl LogPace {
    /// At `most` bytes a checkpoint is asked for in any case.
    pub(crate) fn new(most: u64) -> LogPace {
        LogPace {
            bytes: most.min(FIRST),
            most,
            asked: None,
            paid: Duration::ZERO,
            used: 0,
        }
    }

    /// No checkpoint is asked for.
    pub(crate) fn never() -> LogPace {
        LogPace {
            bytes: u64::MAX,
            ..LogPace::new(u64::MAX)
        }
    }

    /// So many bytes since the last image ask for a checkpoint.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The process was restored: what was asked for is of another one.
    pub(crate) fn forget(&mut self) {
        self.asked = None;
    }

    /// A rank in this epoch asks for a checkpoint.
    pub(crate) fn asks(&mut self, now: Instant, epoch: Epoch) {
        self.asked.get_or_insert((epoch, now));
        if self.paid >= price_of_more(self.bytes) {
            self.bytes = self.bytes.saturating_mul(2).min(self.most);
            self.paid = Duration::ZERO;
        }
    }

    /// An image was taken. It, and the pages that were copied since the last one, cost so many
    /// microseconds; `used` are the bytes of the log's memory that were ever in use.
    pub(crate) fn image_taken(&mut self, cost: u64, used: u64) {
        let new = used.saturating_sub(self.used) / PAGE;
        self.used = used;
        if self.asked.is_some() {
            let cost = cost.saturating_sub(new * FIRST_USE);
            self.paid = self.paid.saturating_add(Duration::from_micros(cost));
        }
    }

    /// Peers release what the image of this epoch has: its files, too, are there.
    pub(crate) fn released(&mut self, now: Instant, epoch: Epoch) {
        if let Some((_, at)) = self.asked.take_if(|(asked_in, _)| epoch > *asked_in) {
            let took = now.saturating_duration_since(at);
            self.paid = self.paid.saturating_add(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    /// Checkpoints that take so many milliseconds and cost so many microseconds: after how many of
    /// them they come half as often.
    fn doubles_after(pace: &mut LogPace, took: u64, cost: u64) -> u32 {
        let (start, bytes) = (Instant::now(), pace.bytes());
        for count in 0.. {
            pace.asks(start, Epoch(3));
            if pace.bytes() > bytes || count == 1000 {
                pace.forget();
                return count;
            }
            pace.image_taken(cost, pace.used);
            let took = start + Duration::from_millis(took);
            pace.released(took, Epoch(3));
            pace.released(took, Epoch(4));
            pace.released(took + Duration::from_secs(1), Epoch(5));
        }
        unreachable!()
    }

    #[test]
    fn checkpoints_come_half_as_often_when_they_have_cost_as_much_as_more_memory() {
        let mut pace = LogPace::new(1500 * MB);
        assert_eq!(pace.bytes(), FIRST);
        // 128 MiB are 32,768 pages of two microseconds.
        assert_eq!(doubles_after(&mut pace, 5, 0), 14);
        assert_eq!(pace.bytes(), 128 * MB);
        assert_eq!(doubles_after(&mut pace, 5, 95_000), 2);
        assert_eq!(pace.bytes(), 256 * MB);
        assert_eq!(doubles_after(&mut pace, 100, 0), 3);
        assert_eq!(doubles_after(&mut pace, 2000, 0), 1);
        assert_eq!(pace.bytes(), 1024 * MB);
        assert_eq!(doubles_after(&mut pace, 2000, 0), 1);
        assert_eq!(pace.bytes(), 1500 * MB);
        assert_eq!(doubles_after(&mut pace, 2000, 0), 1000, "it is the most");
    }

    #[test]
    fn memory_that_the_log_uses_first_is_no_cost_of_an_image() {
        let mut pace = LogPace::new(4096 * MB);
        let start = Instant::now();
        let pages = 600 * MB / PAGE;
        for (used, bytes) in [(600, FIRST), (600, FIRST), (600, 2 * FIRST)] {
            pace.asks(start, Epoch(1));
            assert_eq!(pace.bytes(), bytes);
            // The same faults again are those of the program.
            pace.image_taken(pages * FIRST_USE, used * MB);
            pace.released(start, Epoch(2));
        }
    }

    #[test]
    fn a_short_limit_is_the_pace_and_a_recording_has_none() {
        assert_eq!(LogPace::new(30).bytes(), 30);
        assert_eq!(LogPace::never().bytes(), u64::MAX);
    }
}
