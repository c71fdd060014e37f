//! This rank's image: taken, reported, and the way back from it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::stat::fstat;
use nix::sys::time::TimeValLike;
use rejoin_channel_table::Epoch;
use rejoin_ckpt::twin::{self, Image, Imager, Restored, Settings, Summary, Taken};
use rejoin_ckpt::{checkpoint_request, watch};
use rejoin_wire::ImageCost;
use rejoin_wire::{Holds, Images, MOST_FILES, ToManager, Unread};

use crate::descriptors;
use crate::device::Device;
use crate::error::{Error, Result, text_of};
use crate::rejoin::Old;

/// Takes images of this process as the manager wants them.
pub(crate) fn imager(images: &Images) -> Imager {
    let ours = |number: usize, stream: &dyn AsFd| {
        let there = fstat(stream.as_fd()).ok().map(|s| (s.st_dev, s.st_ino));
        there.is_some() && there == images.pipes[number]
    };
    Imager::new(Settings {
        manager: i32::try_from(images.manager).unwrap_or(0),
        block: descriptors::block_start(),
        streams: [ours(0, &std::io::stdout()), ours(1, &std::io::stderr())],
        signal: checkpoint_request::usual_signal(),
    })
}

/// What the manager must know of an image.
fn holds(summary: &Summary) -> Holds {
    let files = &summary.writable;
    Holds {
        files: (files.len() <= MOST_FILES).then(|| files.clone()),
        locks: summary.has_locks,
        input: summary.input.map(|input| Unread {
            pipe: input.pipe,
            bytes: input.unread,
            counted: input.counted,
        }),
    }
}

/// Lets the manager notice this process's end at once. Without that it notices a little later.
pub(crate) fn hold(images: Option<&Images>) {
    let Some((manager, (descriptor, slot))) = images.and_then(|i| Some((i.manager, i.watch?)))
    else {
        return;
    };
    let path = format!("/proc/{manager}/fd/{descriptor}");
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path);
    let held = opened.and_then(|memory| watch::hold(memory.as_fd(), slot));
    if let Err(error) = held {
        let why = text_of(&error);
        tracing::info!("the end of this process will be noticed late: {why}");
    }
}

/// Pages that a process has had to copy since its last image, as far as the system tells: faults
/// that no disk was needed for. Pages that the program used for the first time are among them.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    /// Faults, and microseconds of system time, until the last image, if there is one.
    before: Option<(u64, u64)>,
}

impl Copied {
    /// Begins anew, and returns how many pages were copied since the last time and the microseconds
    /// that this may have taken. Safe in a signal handler.
    fn since_last(&mut self) -> (u64, u64) {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
            return (0, 0);
        };
        let positive = |value: i64| u64::try_from(value).unwrap_or(0);
        let faults = positive(usage.minor_page_faults());
        let system = positive(usage.system_time().num_microseconds());
        let Some((faults_before, system_before)) = self.before.replace((faults, system)) else {
            return (0, 0);
        };
        // No page is copied twice between two images.
        let most = positive(usage.max_rss()) * 1024 / PAGE;
        let pages = faults.saturating_sub(faults_before).min(most);
        let system = system.saturating_sub(system_before);
        (pages, system.clamp(2 * pages, 16 * pages))
    }
}

/// Bytes of a page that is copied.
const PAGE: u64 = 4096;

/// Why there is no image of a process that a wrapper started: the wrapper would see its end and go
/// on.
const WRAPPED: &str = "it was started by another program (a shell without exec, a debugger), which would see its end \
                       and go on";

impl Device {
    /// Takes the image of an epoch that this rank has just entered, and reports it. In a process
    /// that is restored from it, comes back into the job instead.
    pub(crate) fn take_image(&mut self, epoch: Epoch) -> Result<()> {
        let wrapped = self.is_wrapped();
        let Some(imager) = &mut self.imager else {
            return Ok(());
        };
        if wrapped {
            return self.tell_manager(&ToManager::NotImaged {
                generation: self.identity.generation,
                epoch,
                why: WRAPPED.to_owned(),
            });
        }
        checkpoint_request::drain();
        match twin::take(imager) {
            Ok(Taken::Continued(image)) => self.report_image(epoch, &image),
            Ok(Taken::Restored(restored)) => self.come_back(restored),
            Err(refused) => {
                let generation = self.identity.generation;
                self.tell_manager(&ToManager::NotImaged {
                    generation,
                    epoch,
                    why: refused.to_string(),
                })
            }
        }
    }

    /// Another program stands between the manager and this process.
    fn is_wrapped(&self) -> bool {
        let manager = self.settings.images.as_ref().map(|images| images.manager);
        manager.is_some() && manager != u32::try_from(nix::unistd::getppid().as_raw()).ok()
    }

    fn report_image(&mut self, epoch: Epoch, image: &Image) -> Result<()> {
        let pipes = [&image.stdout, &image.stderr];
        let (copied, copying) = self.copied.since_last();
        let message = ToManager::Imaged {
            generation: self.identity.generation,
            epoch,
            pid: u32::try_from(image.pid).unwrap_or(0),
            cost: ImageCost {
                stall: (image.timings.prepare + image.timings.clone) / 1000,
                copied,
                copying,
            },
            streams: pipes.map(Option::is_some),
            caveats: image
                .summary
                .caveats
                .iter()
                .map(ToString::to_string)
                .collect(),
            holds: holds(&image.summary),
        };
        let ends = std::iter::once(&image.wait).chain(pipes.into_iter().flatten());
        let ends: Vec<_> = ends.map(AsRawFd::as_raw_fd).collect();
        match &mut self.io.agent {
            Some(agent) => agent.tell_with(&message, &ends),
            None => Ok(()),
        }
    }

    fn come_back(&mut self, restored: Restored) -> Result<()> {
        let mut fds = restored.fds.into_iter();
        let socket: OwnedFd = fds.next().ok_or_else(|| Error::Manager {
            rank: self.identity.rank,
            problem: "it woke an image without a socket to speak through".to_owned(),
        })?;
        for caveat in &restored.caveats {
            tracing::warn!("rank {}: {caveat}", self.identity.rank);
        }
        self.copied = Copied::default();
        self.copied.since_last();
        // What it comes back from is a checkpoint.
        self.known.kept = self.engine.epoch();
        self.reopen(socket, Old::Forget)
    }

    fn tell_manager(&mut self, message: &ToManager) -> Result<()> {
        match &mut self.io.agent {
            Some(agent) => agent.tell(message),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_written_to_since_the_last_image_are_counted() {
        use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};
        const PAGES: usize = 512;
        let mut copied = Copied::default();
        assert_eq!(copied.since_last(), (0, 0), "there is no image");
        // New to this process, which the system treats as it does a page that is to be copied. Huge
        // ones would be fewer.
        let length = std::num::NonZeroUsize::new(PAGES * PAGE as usize).expect("a length");
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: new memory wherever there is room.
        let memory = unsafe {
            let start = mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE);
            let start = start.expect("memory");
            madvise(start, length.get(), MmapAdvise::MADV_NOHUGEPAGE).expect("small pages");
            std::slice::from_raw_parts_mut(start.as_ptr().cast::<u8>(), length.get())
        };
        for byte in memory.iter_mut().step_by(PAGE as usize) {
            *byte += 1;
        }
        let (pages, took) = copied.since_last();
        assert!(pages >= PAGES as u64, "{pages}");
        assert!(
            (2 * pages..=16 * pages).contains(&took),
            "{took} us for {pages} pages"
        );
    }
}
