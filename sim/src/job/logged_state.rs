//! The state of a rank of the ring with logs, and what all ranks are to compute.

use rejoin_channel_table::Epoch;
use std::collections::VecDeque;

/// A rank's state, which is also the content of its image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub done: u64,
    pub value: u64,
    pub epoch: Epoch,
    /// Messages of the left neighbour up to this one are here, in the value or in `inbox`.
    pub heard: u64,
    pub inbox: VecDeque<u64>,
    /// Messages to the right neighbour up to this one are retained no more.
    pub released: u64,
    pub retained: VecDeque<u64>,
    /// Of those that are gone, the receiver may need the ones up to this number.
    pub lacks: u64,
}

impl State {
    /// The retained messages from this number on, which is 1 at least; `None`: some are gone.
    pub fn since(&self, number: u64) -> Option<impl Iterator<Item = (u64, u64)>> {
        let skipped = number.checked_sub(self.released + 1)?;
        let messages = self.retained.iter().copied().enumerate();
        let messages = messages.skip(usize::try_from(skipped).unwrap_or(usize::MAX));
        let first = self.released + 1;
        Some(messages.map(move |(at, value)| (first + at as u64, value)))
    }

    /// A file lacks the messages up to this one.
    pub fn leave_out(&mut self, heard: u64) {
        if heard > self.released {
            self.release(heard);
            self.lacks = self.lacks.max(self.released);
        }
    }

    pub fn release(&mut self, heard: u64) {
        if heard >= self.lacks {
            self.lacks = 0;
        }
        while self.released < heard && self.retained.pop_front().is_some() {
            self.released += 1;
        }
    }
}

/// What a rank has received, in its log, which outlives its process and its host. All messages are
/// checked when they arrive, so their numbers are enough.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RingLog {
    /// Each image from which the rank may come back has the messages up to this one.
    gone: u64,
    end: u64,
}

impl RingLog {
    /// The last message in it.
    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn store(&mut self, heard: u64) {
        self.end = self.end.max(heard);
    }

    /// The messages in it after this one, which it has unless the next one is gone.
    pub fn after(self, heard: u64) -> std::ops::RangeInclusive<u64> {
        let last = if heard < self.gone { heard } else { self.end };
        heard + 1..=last
    }

    pub fn forget(&mut self, heard: u64) {
        self.gone = self.gone.max(heard);
        self.end = self.end.max(heard);
    }
}

/// The value after a round, with a message that was taken in.
pub(super) fn mix(value: u64, message: u64, rank: u32, round: u64) -> u64 {
    let place = u64::from(rank) << 32 | round;
    let word = (value ^ message.rotate_left(17) ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^ (word >> 29)
}

/// The values of each rank after each round.
pub(super) fn values(ranks: u32, rounds: u64) -> Vec<Vec<u64>> {
    let mut all = vec![vec![0]; ranks as usize];
    for round in 0..rounds {
        let before: Vec<u64> = all.iter().map(|values| values[round as usize]).collect();
        for rank in 0..ranks {
            let left = before[((rank + ranks - 1) % ranks) as usize];
            all[rank as usize].push(mix(before[rank as usize], left, rank, round));
        }
    }
    all
}
