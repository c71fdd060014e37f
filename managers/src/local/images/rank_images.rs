//! Images of this host's ranks.

use crate::error::{Context, Result};
use crate::host::descendants;
use crate::local::kind;
use crate::net::reactor::{Interest, Reactor, Token};
use rejoin_channel_table::{Epoch, Incarnation};
use rejoin_ckpt::twin::manager::{RestoreRequest, Zygote, ZygoteAnswer};
use rejoin_wire::{Holds, ToManager};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Time from a commit or a recovery until processes are made ahead for the next recovery. So this
/// work does not delay the end of a job that ends at once.
const PREPARE_DELAY: Duration = Duration::from_millis(50);

/// A rank's report of its image, until the image itself has reported that it is whole.
pub struct ImageReport {
    /// The reporting process.
    pub incarnation: Incarnation,
    /// Its process id, by the kernel.
    pub pid: u32,
    /// [`ToManager::Imaged`].
    pub message: ToManager,
}

/// An image of a rank: a frozen process that makes others of itself.
struct RankImage {
    epoch: Epoch,
    pid: u32,
    zygote: Zygote,
    report: Option<ImageReport>,
    /// The unfinished lines at the image.
    partial: [Vec<u8>; 2],
    /// Files and locks.
    holds: Holds,
    /// A process was made ahead of the next restore, or is about to be.
    prepared: bool,
}

/// What an image says, or its end.
pub enum ImageEvent {
    /// The image is whole.
    Whole {
        /// The rank's report of it, which counts from now on.
        report: Option<ImageReport>,
        /// It shares open files with the rank that it can't open anew.
        shares_files: bool,
    },
    /// The image lacks memory of the rank, and was dropped.
    Incomplete {
        /// The rank's report of it, which does not count.
        report: Option<ImageReport>,
        /// Bytes that it lacks.
        missing: u64,
    },
    /// It has made a process.
    Running {
        /// The new process.
        pid: u32,
    },
    /// It can't make a process.
    Failed {
        /// The reason.
        why: String,
    },
    /// It has ended.
    Lost {
        /// How that shows.
        why: String,
    },
}

/// The images of this host's ranks.
#[derive(Default)]
pub struct RankImages {
    /// By slot.
    ranks: Vec<Vec<RankImage>>,
    /// The committed checkpoint.
    committed: Option<Epoch>,
    /// When to make processes ahead of the next recovery.
    prepare_at: Option<Instant>,
}

fn token(slot: usize, epoch: Epoch) -> Token {
    Token {
        kind: kind::IMAGE,
        incarnation: epoch.0,
        index: slot as u32,
    }
}

impl RankImages {
    /// So many ranks are on this host.
    pub fn serve(&mut self, ranks: usize) {
        self.ranks.resize_with(ranks, Vec::new);
    }

    /// Takes over the image that a rank reports ([`ToManager::Imaged`]).
    pub fn add(
        &mut self,
        slot: usize,
        report: ImageReport,
        socket: OwnedFd,
        partial: [Vec<u8>; 2],
        reactor: &Reactor,
    ) -> Result<()> {
        let ToManager::Imaged {
            epoch, pid, holds, ..
        } = &report.message
        else {
            unreachable!("only this message comes here");
        };
        let zygote = Zygote::new(socket).context("take over an image")?;
        reactor.add(&zygote, token(slot, *epoch), Interest::READ)?;
        self.ranks[slot].push(RankImage {
            epoch: *epoch,
            pid: *pid,
            zygote,
            holds: holds.clone(),
            report: Some(report),
            partial,
            prepared: false,
        });
        Ok(())
    }

    /// A checkpoint is committed; `false` if that was known.
    pub fn commit(&mut self, epoch: Epoch) -> bool {
        let is_new = Some(epoch) > self.committed;
        if is_new {
            self.committed = Some(epoch);
            self.prepare_later();
        }
        is_new
    }

    /// Whether the rank has neither this image nor a later one.
    pub fn lacks(&self, slot: usize, epoch: Epoch) -> bool {
        self.committed < Some(epoch) && self.ranks[slot].iter().all(|image| image.epoch < epoch)
    }

    fn find(&self, slot: usize, epoch: Epoch) -> Option<&RankImage> {
        self.ranks[slot].iter().find(|image| image.epoch == epoch)
    }

    /// The next message of an image, with its epoch.
    pub fn event(&mut self, token: Token, reactor: &Reactor) -> Option<(Epoch, ImageEvent)> {
        let slot = token.index as usize;
        let same = |i: &&mut RankImage| i.epoch.0 == token.incarnation;
        let image = self.ranks.get_mut(slot)?.iter_mut().find(same)?;
        let epoch = image.epoch;
        let flushed = image.zygote.flush();
        if let Ok(true) = flushed {
            // Failing to change leaves a wake-up too many.
            let _ = reactor.change(&image.zygote, token, Interest::READ);
        }
        let answer = flushed.and_then(|_| image.zygote.answer());
        let event = match answer {
            Ok(None) => return None,
            Ok(Some(ZygoteAnswer::Frozen { missing: 0, shared })) => ImageEvent::Whole {
                report: image.report.take(),
                shares_files: shared > 0,
            },
            Ok(Some(ZygoteAnswer::Frozen { missing, .. })) => {
                let report = image.report.take();
                self.drop_image(slot, epoch, reactor);
                ImageEvent::Incomplete { report, missing }
            }
            Ok(Some(ZygoteAnswer::Running { pid })) => {
                image.prepared = false;
                ImageEvent::Running { pid: pid as u32 }
            }
            Ok(Some(ZygoteAnswer::Failed { errno })) => ImageEvent::Failed {
                why: std::io::Error::from_raw_os_error(errno).to_string(),
            },
            Err(error) => ImageEvent::Lost {
                why: error.to_string(),
            },
        };
        Some((epoch, event))
    }

    /// Drops an image; `false` if there is none.
    pub fn drop_image(&mut self, slot: usize, epoch: Epoch, reactor: &Reactor) -> bool {
        let images = &mut self.ranks[slot];
        let at = images.iter().position(|image| image.epoch == epoch);
        let image = at.map(|at| images.swap_remove(at));
        image.map(|image| end_image(image, reactor)).is_some()
    }

    /// Drops all images.
    pub fn drop_all(&mut self, reactor: &Reactor) {
        for image in self.ranks.iter_mut().flat_map(|images| images.drain(..)) {
            end_image(image, reactor);
        }
    }

    /// The slot and the epoch of the image that is this process.
    pub fn of_process(&self, pid: u32) -> Option<(usize, Epoch)> {
        let mut ranks = self.ranks.iter().enumerate();
        ranks.find_map(|(slot, images)| {
            let image = images.iter().find(|image| image.pid == pid)?;
            Some((slot, image.epoch))
        })
    }

    /// Whether an image of the rank has file locks, which a successor gets only once the rank's
    /// process is dead.
    pub fn have_locks(&self, slot: usize) -> bool {
        self.ranks[slot].iter().any(|image| image.holds.locks)
    }

    /// The unfinished lines of the rank's output at an image.
    pub fn partial_lines(&self, slot: usize, epoch: Epoch) -> [Vec<u8>; 2] {
        let image = self.find(slot, epoch);
        image.map_or_else(Default::default, |image| image.partial.clone())
    }

    /// Files that a rank's successor must leave as they are, since others write them too; `None`:
    /// all.
    pub fn spared_files(&self, slot: usize, epoch: Epoch) -> Option<Vec<(u64, u64)>> {
        let (mut mine, mut others) = (None, Vec::new());
        for other in 0..self.ranks.len() {
            let Some(image) = self.find(other, epoch) else {
                continue;
            };
            let files = image.holds.files.as_ref()?;
            match other == slot {
                true => mine = Some(files),
                false => others.extend(files),
            }
        }
        others.sort_unstable();
        let is_shared = |file: &&(u64, u64)| others.binary_search(file).is_ok();
        Some(mine?.iter().filter(is_shared).copied().collect())
    }

    /// Has an image make a process, or says why it does not.
    pub fn restore(
        &mut self,
        slot: usize,
        epoch: Epoch,
        request: &RestoreRequest<'_>,
        reactor: &Reactor,
    ) -> std::result::Result<(), String> {
        let image = self.ranks[slot].iter_mut().find(|i| i.epoch == epoch);
        let image = image.ok_or("its image is gone")?;
        if !image.zygote.restore(request).map_err(|e| e.to_string())? {
            let changed =
                reactor.change(&image.zygote, token(slot, epoch), Interest::READ_AND_WRITE);
            changed.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// The next recovery shall find processes made ahead.
    pub fn prepare_later(&mut self) {
        self.prepare_at = Some(Instant::now() + PREPARE_DELAY);
    }

    /// Time until [`RankImages::prepare`] is due.
    pub fn prepare_limit(&self) -> Option<Duration> {
        let at = self.prepare_at?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// Makes processes ahead of the next recovery, from the images that count, if that is due.
    /// While a recovery is under way (`recovering`), it waits.
    pub fn prepare(&mut self, recovering: bool, reactor: &Reactor) {
        if self.prepare_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.prepare_at = None;
        if recovering {
            return self.prepare_later();
        }
        for (slot, images) in self.ranks.iter_mut().enumerate() {
            let counts = |i: &&mut RankImage| Some(i.epoch) == self.committed;
            let Some(image) = images.iter_mut().find(counts) else {
                continue;
            };
            // It makes one at a time.
            if image.prepared || !descendants::is_own_child(image.pid) {
                continue;
            }
            image.prepared = true;
            match image.zygote.prepare() {
                Ok(true) => {}
                Ok(false) => {
                    let token = token(slot, image.epoch);
                    let _ = reactor.change(&image.zygote, token, Interest::READ_AND_WRITE);
                }
                // It is about to be noticed.
                Err(error) => tracing::info!(slot, %error, "nothing made ahead"),
            }
        }
    }
}

fn end_image(image: RankImage, reactor: &Reactor) {
    reactor.remove(&image.zygote);
    // It would see the end of its socket; this takes its memory down sooner. Only an unreaped child
    // of this process certainly still has this number.
    if descendants::is_own_child(image.pid) {
        descendants::send(image.pid, libc::SIGKILL);
    }
}

#[cfg(test)]
mod tests;
