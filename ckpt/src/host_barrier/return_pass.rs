//! Restored ranks of a host wait for each other until the memory that they share is back.

use std::sync::atomic::Ordering::SeqCst;

use super::{joined, present, this_generation, this_rank};
use crate::sys;

/// Nanoseconds for which a restored rank waits at most for the others: they write up to 1 GiB each.
/// A rank that is lost meanwhile makes the job roll back again, which ends the wait.
const BACK_IN: u64 = 60_000_000_000;

/// How far a rank is with its return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReturnPhase {
    /// The files that it makes for others are there.
    Made = 1,
    /// The rank has mapped and written all that it has to.
    Mapped = 2,
    /// The rank has found that it shares its memory with the right ranks.
    Checked = 3,
}

/// A restored process among those of its host.
#[derive(Debug)]
pub(crate) struct ReturnPass {
    is_alone: bool,
}

impl ReturnPass {
    /// `generation` is that in which the image was taken. A rank that is restored in the same one
    /// comes back alone.
    pub fn begin(generation: u32) -> Self {
        let is_alone = generation == this_generation();
        Self { is_alone }
    }

    /// Whether the other ranks have gone on.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// This rank has come so far. Waits until that is so of all ranks of the host; otherwise names
    /// one that has not.
    pub fn reach(&self, phase: ReturnPhase) -> Result<(), u32> {
        self.note(phase);
        let Some(mapped) = joined().filter(|_| !self.is_alone) else {
            return Ok(());
        };
        let end = sys::now() + BACK_IN;
        loop {
            let seen = mapped.header().changes.load(SeqCst);
            let mut others = present(mapped.entries(), this_rank(), this_generation());
            let Some((rank, ..)) = others.find(|one| one.2.back.load(SeqCst) < phase as u64) else {
                return Ok(());
            };
            let now = sys::now();
            if now >= end {
                return Err(rank);
            }
            mapped.sleep(seen, end - now);
        }
    }

    /// A rank was lost before all memory was back. The rollback that follows ends this process;
    /// returns if none does.
    pub fn await_rollback(&self) {
        let end = sys::now() + BACK_IN;
        while let Some(mapped) = joined().filter(|_| sys::now() < end) {
            let seen = mapped.header().changes.load(SeqCst);
            mapped.sleep(seen, end.saturating_sub(sys::now()));
        }
    }

    /// This rank has come so far.
    fn note(&self, phase: ReturnPhase) {
        if let Some(mapped) = joined() {
            mapped.change(this_rank(), |entry| entry.back.store(phase as u64, SeqCst));
        }
    }
}
