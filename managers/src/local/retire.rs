//! Processes that make room for their successors.

use super::LocalManager;
use crate::host::descendants;
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_managers_protocol::local::LocalInput;

impl LocalManager {
    /// Has a process stop, so that it can do nothing more.
    pub(super) fn retire(&mut self, rank: Rank, incarnation: Incarnation) {
        let Some(slot) = self.slot(rank) else {
            return;
        };
        if let Some(starter) = &mut self.starter {
            starter.forget(rank);
        }
        if self.restores.retire(slot, incarnation) {
            return;
        }
        if self.gives_up_copy(rank, incarnation) || self.gives_up_determinants(rank, incarnation) {
            self.queue.push_back(LocalInput::Retired(rank, incarnation));
            return;
        }
        self.ranks[slot].retire(self.images.need_its_end(slot));
        self.check_retiring(slot);
    }

    /// Whether some process is on its way out.
    pub(super) fn any_retiring(&self) -> bool {
        self.ranks.iter().any(|r| r.is_retiring())
    }

    pub(super) fn check_all_retiring(&mut self) {
        for slot in 0..self.ranks.len() {
            self.check_retiring(slot);
        }
    }

    fn check_retiring(&mut self, slot: usize) {
        let rank = &mut self.ranks[slot];
        if !rank.is_suspended() {
            return;
        }
        if rank.must_end() && self.ends_clones(slot) {
            return;
        }
        if self.ranks[slot].retired(&self.reactor) {
            self.told(slot, LocalInput::ExitDetected);
        }
        // The output of the retired process still counts.
        self.outputs.drain(slot, &mut self.mpirun, &self.reactor);
        self.told(slot, LocalInput::Retired);
    }

    /// Ends clones that a rank has left in the middle of its image, before they had open files of
    /// their own: they share its file locks. Returns whether there are any.
    fn ends_clones(&self, slot: usize) -> bool {
        let rank = self.ranks[slot].rank();
        let known = |pid: u32| {
            let mut present = self.ranks.iter().flat_map(|rank| rank.pids());
            present.any(|of| of == pid) || self.images.of_process(pid).is_some()
        };
        let mut left = descendants::children(std::process::id());
        left.retain(|pid| {
            !known(*pid)
                && descendants::rank_of(*pid) == Some(rank.0)
                && descendants::has_locks(*pid)
        });
        left.iter()
            .for_each(|pid| descendants::send(*pid, libc::SIGKILL));
        !left.is_empty()
    }

    /// Ends processes that have retired.
    pub(super) fn discard(&mut self, rank: Rank, incarnation: Incarnation) {
        if let Some(slot) = self.slot(rank) {
            self.ranks[slot].discard(Some(incarnation));
        }
    }
}
