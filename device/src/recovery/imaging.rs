//! Images of this process: the imager, the reports to the manager, and the costs.

use std::os::fd::AsFd;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::stat::fstat;
use nix::sys::time::TimeValLike;
use rejoin_channel_table::Generation;
use rejoin_ckpt::twin::{Imager, Settings, Summary};
use rejoin_ckpt::{checkpoint_request, host_barrier, watch};
use rejoin_wire::{BarrierPlace, Holds, Images, MOST_FILES, Unread};

use crate::descriptors;
use crate::error::text_of;

/// Takes images of this process as the manager wants them.
pub(super) fn imager(images: &Images) -> Imager {
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

/// The part of an image's summary that the manager needs.
pub(super) fn holds(summary: &Summary, generation: Generation) -> Holds {
    let files = &summary.writable;
    Holds {
        files: (files.len() <= MOST_FILES).then(|| files.clone()),
        hashed: summary.hashed,
        locks: summary.has_locks,
        together: summary.shares_memory.then_some(generation),
        input: summary.input.map(|input| Unread {
            pipe: input.pipe,
            bytes: input.unread,
            counted: input.counted,
        }),
    }
}

/// Lets the manager detect this process's end at once. Without this it detects the end a little
/// later.
pub(super) fn watch_exit(images: Option<&Images>) {
    let place = images.and_then(|i| Some((i.manager, i.watch?)));
    let held = place.map(|(manager, (descriptor, slot))| {
        let opened = managers_memory(manager, descriptor);
        opened.and_then(|memory| watch::hold(memory.as_fd(), slot))
    });
    let held = match held {
        Some(Ok(())) => return,
        Some(Err(error)) => watch::hold_none().and(Err(error)),
        // A host that has taken in more ranks than it watches.
        None => watch::hold_none(),
    };
    if let Err(error) = held {
        let why = text_of(&error);
        tracing::info!("the end of this process will be noticed late: {why}");
    }
}

/// Lets this rank take images together with the ranks of its host. Without this, memory that it
/// shares with them refuses its images.
pub(super) fn join_barrier(images: Option<&Images>) {
    host_barrier::forget();
    let Some((manager, place)) = images.and_then(|i| Some((i.manager, i.barrier?))) else {
        return;
    };
    let BarrierPlace {
        descriptor,
        rank,
        generation,
    } = place;
    let opened = managers_memory(manager, descriptor);
    let joined = opened.and_then(|memory| host_barrier::join(memory.as_fd(), rank, generation));
    if let Err(error) = joined {
        let why = text_of(&error);
        tracing::info!("memory that ranks share can be part of no image: {why}");
    }
}

/// Whether this process may open memory of the local manager. Safe in a signal handler.
pub(super) fn may_open_memory_of(manager: u32) -> bool {
    std::fs::File::open(format!("/proc/{manager}/fd")).is_ok()
}

/// Opens memory of the local manager by its number there.
pub(crate) fn managers_memory(manager: u32, descriptor: u32) -> std::io::Result<std::fs::File> {
    let path = format!("/proc/{manager}/fd/{descriptor}");
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).open(path)
}

/// Pages that a process has had to copy since its last image, as far as the system tells: faults
/// that no disk was needed for. Pages that the program used for the first time are among them.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// Faults, and microseconds of system time, until the last image, if there is one.
    before: Option<(u64, u64)>,
}

impl Copied {
    /// Begins anew, and returns how many pages were copied since the last time and the microseconds
    /// that this may have taken. Safe in a signal handler.
    pub(super) fn since_last(&mut self) -> (u64, u64) {
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
