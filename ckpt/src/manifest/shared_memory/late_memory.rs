//! Files that a restored process maps and puts back together with the other ranks of its host.

use super::super::files::Files;
use super::super::locked_memory::Locked;
use super::super::open_file::Cut;
use super::mapped_file::SharedFile;
use super::other_mappers::{self, File, RankMappers};
use crate::error::{Caveat, NotShared};
use crate::host_barrier::{self, ReturnPass, ReturnPhase};

/// Files that a restored process maps again when all ranks are back in the job. Until then their
/// addresses and their descriptors are only reserved.
#[derive(Default)]
pub struct LateMemory {
    files: Vec<SharedFile>,
    /// The generation in which the image was taken.
    generation: u32,
    open: Files,
    locked: Locked,
    cut: Cut,
}

impl std::fmt::Debug for LateMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LateMemory")
            .field("files", &self.files.len())
            .finish()
    }
}

impl LateMemory {
    pub(super) fn new(
        (files, generation): (Vec<SharedFile>, u32),
        (open, locked): (Files, Locked),
        cut: Cut,
    ) -> Self {
        Self {
            files,
            generation,
            open,
            locked,
            cut,
        }
    }

    /// Lets the other ranks of this host wait for it. To be called before this process joins them.
    pub fn announce(&self) {
        host_barrier::set_returning(!self.files.is_empty());
    }

    /// Puts all of it back. To be called when all ranks have joined the job again, and before any
    /// of them continues; also where there are no such files, because others may wait. Returns what
    /// could not be set again.
    ///
    /// # Errors
    /// The files are not those of the images, or other ranks share them than at the checkpoint; or
    /// the system refuses it. The process must not continue then.
    pub fn restore(&self) -> Result<Vec<Caveat>, NotShared> {
        let pass = ReturnPass::begin(self.generation);
        let reach = |phase| pass.reach(phase).map_err(|rank| NotShared::Late { rank });
        if self.files.is_empty() {
            // The program may open files that other ranks put back.
            reach(ReturnPhase::Checked)?;
            return Ok(Vec::new());
        }
        if self.files.iter().any(SharedFile::is_of_ranks) {
            // The manager may be another one. A rank that takes its next image must not take itself
            // for the only one that maps the memory.
            host_barrier::announce_sharing();
        }
        self.check_places()?;
        let mut now: Vec<Option<File>> = vec![None; self.files.len()];
        for (one, file) in self.files.iter().zip(&mut now) {
            if one.share.maker.is_none() {
                *file = Some(one.make_again()?);
            }
        }
        reach(ReturnPhase::Made)?;
        let made = find_mappers(|_| true)?;
        for (one, file) in self.files.iter().zip(&mut now) {
            if let Some(maker) = one.share.maker {
                let opened = one.open_made(maker, |file| made.has(maker, file));
                if opened.is_err() && is_lost(maker) {
                    pass.await_rollback();
                    return Err(NotShared::Late { rank: maker });
                }
                *file = Some(opened?);
            }
        }
        let now: Vec<File> = now.into_iter().flatten().collect();
        let mut caveats = Vec::new();
        self.reopen(&now, &mut caveats)?;
        reach(ReturnPhase::Mapped)?;
        self.check_sharers(&now, pass.is_alone())?;
        reach(ReturnPhase::Checked)?;
        host_barrier::set_returning(false);
        // Each descriptor that was closed above has ended the locks on its file.
        self.open.take_locks(&mut caveats, |file| file.is_mapped);
        self.locked.restore(&mut caveats);
        Ok(caveats)
    }

    /// Checks that all ranks that share a file are on this host.
    fn check_places(&self) -> Result<(), NotShared> {
        let here = host_barrier::others();
        for one in &self.files {
            let is_elsewhere = |rank: &&u32| !here.iter().any(|(other, _)| other == *rank);
            if let Some(rank) = one.share.others.iter().find(is_elsewhere) {
                let (name, rank) = (one.name(), *rank);
                return Err(NotShared::Apart { name, rank });
            }
        }
        Ok(())
    }

    /// Opens the program's descriptors of files that were made again.
    fn reopen(&self, now: &[File], caveats: &mut Vec<Caveat>) -> Result<(), NotShared> {
        let file_now = |file: File| {
            let at = self.files.iter().position(|one| one.file == file)?;
            now.get(at).copied()
        };
        let reopened = self.open.reopen_remade(&self.cut, file_now, caveats);
        reopened.map_err(|(errno, path)| NotShared::System {
            name: path.to_owned(),
            errno,
        })
    }

    /// Checks that these ranks share each file now, and no others. Ranks of several hosts may have
    /// had files of one name; after a move they must not meet in one.
    fn check_sharers(&self, now: &[File], is_alone: bool) -> Result<(), NotShared> {
        let found = find_mappers(|file| now.contains(&file))?;
        let here = host_barrier::others();
        for (one, file) in self.files.iter().zip(now) {
            if *file != one.file
                && let Some(rank) = other_mappers::find_descriptor(&here, one.file)
            {
                return Err(NotShared::Open {
                    name: one.name(),
                    rank,
                });
            }
            for (rank, pid) in &here {
                let (name, rank) = (one.name(), *rank);
                let is_sharer = one.share.others.contains(&rank);
                match found.has(rank, *file) {
                    true if !is_sharer => return Err(NotShared::Met { name, rank }),
                    // The others have gone on since, or a rollback follows.
                    false if is_sharer && !is_alone && !other_mappers::has_ended(*pid) => {
                        return Err(NotShared::Other { name, rank });
                    }
                    _ => {}
                }
            }
            if one.is_of_ranks() && one.can_be_made() && !is_alone {
                one.check_length()?;
            }
        }
        Ok(())
    }
}

/// Whether the process of a rank of this host has ended.
fn is_lost(rank: u32) -> bool {
    let mut here = host_barrier::others().into_iter();
    here.any(|(other, pid)| other == rank && other_mappers::has_ended(pid))
}

fn find_mappers(is_wanted: impl Fn(File) -> bool) -> Result<RankMappers, NotShared> {
    let system = |errno| NotShared::System {
        name: "the mappings of another rank".to_owned(),
        errno,
    };
    RankMappers::find_by(is_wanted).map_err(system)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_barrier::BarrierMemory;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    /// The program may open files by name that other ranks put back.
    #[test]
    fn a_rank_that_maps_no_file_waits_until_those_of_others_are_back() {
        let memory = BarrierMemory::new(2).expect("memory");
        let late = LateMemory::default();
        let is_back = AtomicBool::new(false);
        memory.set_returned(1, 7, ReturnPhase::Mapped as u64);
        late.announce();
        host_barrier::join(memory.as_fd(), 0, 7).expect("joined");
        let restored = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                is_back.store(true, Ordering::SeqCst);
                memory.set_returned(1, 7, ReturnPhase::Checked as u64);
            });
            let restored = late.restore();
            assert!(is_back.load(Ordering::SeqCst));
            restored
        });
        host_barrier::leave();
        assert_eq!(restored.map(|caveats| caveats.len()), Ok(0));
    }
}
