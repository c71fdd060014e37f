//! Processes that make room for their successors.

use super::LocalManager;
use super::rank::{RankIo, end_of};
use crate::host::descendants;
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_managers_protocol::control::End;
use rejoin_managers_protocol::local::LocalInput;

/// Most ends of unknown processes that are remembered.
const MOST_STRAYS: usize = 256;

impl RankIo {
    /// An image of it has file locks, which a successor gets only once this process is dead.
    fn images_have_locks(&self) -> bool {
        self.images.iter().any(|i| i.holds.locks)
    }

    /// It has taken some since.
    fn has_locks(&self) -> bool {
        let mut present = self.child.iter().chain(&self.caller);
        present.any(|(pid, _)| locks(*pid))
    }
}

/// Whether a process has locks of files (proc_pid_fdinfo(5)); those of one that is not ours to look
/// at go unseen.
fn locks(pid: u32) -> bool {
    let Ok(all) = std::fs::read_dir(format!("/proc/{pid}/fdinfo")) else {
        return false;
    };
    all.flatten().any(|one| {
        let text = std::fs::read(one.path()).unwrap_or_default();
        text.windows(6).any(|window| window == b"\nlock:")
    })
}

impl LocalManager {
    /// Has a process stop, so that it can do nothing more.
    pub(super) fn retire(&mut self, rank: Rank, incarnation: Incarnation) {
        let Some(slot) = self.slot(rank) else {
            return;
        };
        self.forget_unstarted(rank);
        let io = &mut self.ranks[slot];
        if let Some(waking) = &mut io.waking
            && waking.instance.incarnation == incarnation
        {
            waking.stop = true;
            return;
        }
        io.retiring = true;
        io.must_end = io.images_have_locks();
        // Nothing can catch these signals or put them off. A stopped process keeps its memory,
        // which takes long to take down, and its file locks.
        let signal = if io.must_end {
            libc::SIGKILL
        } else {
            libc::SIGSTOP
        };
        for (pid, _) in io.child.iter().chain(&io.caller) {
            descendants::send(*pid, signal);
        }
        self.check_retiring(slot);
    }

    /// Whether some process is on its way out.
    pub(super) fn any_retiring(&self) -> bool {
        self.ranks.iter().any(|r| r.retiring)
    }

    pub(super) fn check_all_retiring(&mut self) {
        for slot in 0..self.ranks.len() {
            self.check_retiring(slot);
        }
    }

    fn check_retiring(&mut self, slot: usize) {
        let io = &mut self.ranks[slot];
        if !io.retiring {
            return;
        }
        let still = |pid| match io.must_end {
            true => descendants::has_ended(pid),
            false => io.dying || descendants::is_still(pid),
        };
        if !io
            .child
            .iter()
            .chain(&io.caller)
            .all(|(pid, _)| still(*pid))
        {
            return;
        }
        // Even one that is dying keeps its locks until its memory is gone.
        if !io.must_end && io.has_locks() {
            io.must_end = true;
            for (pid, _) in io.child.iter().chain(&io.caller) {
                descendants::send(*pid, libc::SIGKILL);
            }
            return;
        }
        if io.must_end && self.ends_clones(slot) {
            return;
        }
        let io = &mut self.ranks[slot];
        io.retiring = false;
        let present = |(pid, _): &(u32, _)| descendants::has_ended(*pid);
        let ended = io.child.as_ref().is_some_and(present) && !io.must_end;
        if !std::mem::replace(&mut io.dying, false) && ended {
            // Killed together with the one for which the job rolls back, and not noticed yet.
            self.told(slot, LocalInput::ExitDetected);
        }
        // Its messages do not count any more; its output does.
        self.drain_at_once(slot);
        let io = &mut self.ranks[slot];
        if let Some(socket) = io.socket.take() {
            self.reactor.remove(&socket);
        }
        io.handed.clear();
        let incarnation = io.incarnation;
        for (pid, pidfd) in io.child.take().into_iter().chain(io.caller.take()) {
            self.reactor.remove(&pidfd);
            io.retired.push((incarnation, pid, pidfd));
        }
        self.told(slot, LocalInput::Retired);
    }

    /// Ends clones that a rank has left in the middle of its image, before they had open files of
    /// their own: they share its file locks. Returns whether there are any.
    fn ends_clones(&self, slot: usize) -> bool {
        let rank = self.ranks[slot].rank;
        let known = |pid: u32| {
            self.ranks.iter().any(|io| {
                let mut present = io.child.iter().chain(&io.caller);
                present.any(|(of, _)| *of == pid) || io.images.iter().any(|image| image.pid == pid)
            })
        };
        let mut left = descendants::children(std::process::id());
        left.retain(|pid| {
            !known(*pid) && descendants::rank_of(*pid) == Some(rank.0) && locks(*pid)
        });
        left.iter()
            .for_each(|pid| descendants::send(*pid, libc::SIGKILL));
        !left.is_empty()
    }

    /// Ends processes that have retired.
    pub(super) fn discard(&mut self, rank: Rank, incarnation: Incarnation) {
        let Some(slot) = self.slot(rank) else {
            return;
        };
        for (of, pid, _) in &self.ranks[slot].retired {
            if *of == incarnation {
                descendants::send(*pid, libc::SIGKILL);
            }
        }
    }

    /// A process was reaped that is not one of the present ones.
    pub(super) fn forget(&mut self, pid: u32, status: Option<i32>) {
        for rank in &mut self.ranks {
            if let Some(image) = rank.images.iter().find(|i| i.pid == pid) {
                // Its socket may still be held by a process that it is making.
                let lost = (rank.rank, image.epoch);
                return self.image_lost(lost.0, lost.1, "its process ended");
            }
            let Some(at) = rank
                .retired
                .iter()
                .position(|(_, retired, _)| *retired == pid)
            else {
                continue;
            };
            let (incarnation, ..) = rank.retired.swap_remove(at);
            let end = status.map_or(End::Unknown, end_of);
            let who = rank.rank;
            self.queue
                .push_back(LocalInput::ChildEnded(who, incarnation, end));
            return;
        }
        // The process may be one of which this manager is about to learn.
        if let Some(status) = status
            && self.ranks.iter().any(|r| r.waking.is_some())
        {
            self.strays.truncate(MOST_STRAYS - 1);
            self.strays.push_front((pid, status));
        }
    }
}
