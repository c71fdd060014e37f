//! Processes that make room for their successors.

use super::manager_parts::{ManagerParts, handler, keys};
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_managers_host::descendants;
use rejoin_managers_protocol::local::LocalInput;

handler! {
    /// Has processes retire.
    pub(super) RetireHandler of ManagerParts {
        changes { ranks, starter, restores, copies, outputs, mpirun, inputs }
        reads { images, reactor }
    }
}

impl RetireHandler<'_> {
    /// Has a process stop, so that it can do nothing more.
    pub fn retire(&mut self, rank: Rank, incarnation: Incarnation) {
        let Some(slot) = self.ranks.slot(rank) else {
            return;
        };
        if let Some(starter) = &mut self.starter {
            starter.forget(rank);
        }
        if self.restores.retire(slot, incarnation) {
            return;
        }
        let copies = self.copies.as_mut();
        let starter = self.starter.as_mut();
        if copies.is_some_and(|copies| copies.forget_awaited(rank, incarnation))
            || starter.is_some_and(|starter| starter.logs().forget(rank, incarnation))
        {
            let retired = LocalInput::Retired(rank, incarnation);
            return self.inputs.push_back(retired);
        }
        self.ranks[slot].retire(self.images.need_its_end(slot));
        self.check(slot);
    }

    /// Reports processes that have retired.
    pub fn check_all(&mut self) {
        for slot in 0..self.ranks.len() {
            self.check(slot);
        }
    }

    fn check(&mut self, slot: usize) {
        let rank = &mut self.ranks[slot];
        if !rank.is_suspended() {
            return;
        }
        if rank.must_end() && self.ends_clones(slot) {
            return;
        }
        if self.ranks[slot].retired(self.reactor) {
            self.ranks
                .report(slot, LocalInput::ExitDetected, self.inputs);
        }
        // The output of the retired process still counts.
        self.outputs.drain(slot, self.mpirun, self.reactor);
        self.ranks.report(slot, LocalInput::Retired, self.inputs);
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
    pub fn discard(&mut self, rank: Rank, incarnation: Incarnation) {
        if let Some(slot) = self.ranks.slot(rank) {
            self.ranks[slot].discard(Some(incarnation));
        }
    }
}
