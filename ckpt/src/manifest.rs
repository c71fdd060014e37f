//! State that a clone does not inherit and that a restored process must set again.

use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

use crate::error::{Caveat, Refused};

mod description;
mod duplicates;
mod files;
mod input;
mod kept_files;
mod kernel_objects;
mod locked_memory;
mod locks;
mod message_queues;
mod open_file;
mod pending_signals;
mod positioned;
mod prefix_hashes;
mod process_settings;
mod program_children;
mod settled_lengths;
mod shared_memory;
mod timer_clock;
mod timers;
mod wiped_memory;

pub use files::WrittenFile;
pub use input::InputPipe;
pub(crate) use input::pipe;
pub use kept_files::Overwritten;
use kernel_objects::KernelObjects;
pub(crate) use message_queues::is_message_queue;
pub(crate) use open_file::{Cut, Descriptor, descriptors};
use prefix_hashes::PrefixHashes;
use process_settings::ProcessSettings;
use program_children::ProgramChildren;
pub use settled_lengths::SettledLength;
pub use shared_memory::LateMemory;
use shared_memory::SharedMemory;
pub(crate) use shared_memory::{MappedMemory, await_sharers};
pub(crate) use timers::restore_late as restore_late_timers;
pub(crate) use wiped_memory::WipedMemory;
pub use wiped_memory::keep_out_of_images;

/// The description of an image for the manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The files that a restore cuts back to their length at the image.
    pub written: Vec<WrittenFile>,
    /// Device and inode of every file that is open for writing, including those above. A file that
    /// several ranks list must not be cut.
    pub writable: Vec<(u64, u64)>,
    /// Standard input, when it is a pipe.
    pub input: Option<InputPipe>,
    /// The process holds locks of files, or numbers of children that have ended: it must be dead,
    /// not only stopped, before a runner can take them again.
    pub has_locks: bool,
    /// Bytes of files that a restore may have to read again, to find out whether they were
    /// overwritten.
    pub hashed: u64,
    /// Ranks of this host share memory with this one: it can't be restored alone.
    pub shares_memory: bool,
    /// State that a restored process does not get back.
    pub caveats: Vec<Caveat>,
}

/// What is kept of an image for the next one.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    /// Hashes of files.
    hashes: PrefixHashes,
    /// Pipes to resource trackers, which need not be children of a restored process.
    tracker_pipes: Vec<(u64, u64)>,
}

/// The state itself; it lies in the image's own memory.
pub(crate) struct Manifest {
    files: files::Files,
    objects: KernelObjects,
    shared: SharedMemory,
    timers: timers::Timers,
    pending: pending_signals::PendingSignals,
    locked: locked_memory::Locked,
    children: ProgramChildren,
    settings: ProcessSettings,
}

impl Manifest {
    /// Reads the state of this process, with signals blocked. `request_signal` is that of
    /// checkpoint requests, which is not part of the state. `is_other` are descriptors that do not
    /// belong to the program alone: the standard streams, and what the manager has, too.
    /// `remembered` is of the image before. `is_together`: all ranks of the host are parked
    /// ([`await_sharers`]).
    ///
    /// # Errors
    /// [`Refused::Contents`] for a descriptor whose contents can't be read;
    /// [`Refused::SharedMemory`] for memory that others write, too;
    /// [`Refused::ThreadClock`] for a timer whose clock can't be told.
    pub fn capture(
        all: &[Descriptor],
        maps: &MappedMemory<'_>,
        request_signal: i32,
        is_other: impl Fn(&Descriptor) -> bool,
        (remembered, is_together): (&mut Remembered, bool),
    ) -> Result<Self, Refused> {
        let shared = SharedMemory::capture(maps, all, &is_other, is_together)?;
        let children = ProgramChildren::capture(all, &mut remembered.tracker_pipes);
        // Python has both ends of a tracker's pipe while it starts the tracker.
        let is_others = |d: &Descriptor| is_other(d) || children.has_pipe(d.fd);
        let objects = KernelObjects::capture(all, is_others)?;
        let use_of = |d: &Descriptor| open_file::DescriptorUse {
            is_known: is_other(d) || objects.holds(d.fd) || children.has_pipe(d.fd),
            is_memory: shared.holds(d.fd),
            // A standard stream that is a file is one that the program has opened.
            is_own: d.fd <= 2 || !is_other(d),
            is_mapped: shared.has(d.file),
            is_remade: shared.is_remade(d.file),
        };
        let mut files = files::Files::capture(all, use_of, &mut remembered.hashes)?;
        files.caveats.extend(message_queues::of_system_v());
        Ok(Self {
            files,
            objects,
            shared,
            timers: timers::Timers::capture()?,
            pending: pending_signals::PendingSignals::capture(request_signal),
            locked: locked_memory::Locked::capture(),
            children,
            settings: ProcessSettings::capture(),
        })
    }

    /// The summary for the manager.
    pub fn summary(&self) -> Summary {
        Summary {
            written: self.files.written(),
            writable: self.files.writable(),
            input: InputPipe::capture(),
            has_locks: self.files.has_locks() || self.children.have_ended(),
            hashed: self.files.hashed_bytes(),
            shares_memory: self.shared.has_common_part(),
            caveats: self.files.caveats.clone(),
        }
    }

    /// In a runner that is set up: files that it maps when all ranks are back.
    pub fn into_late_memory(self, cut: Cut) -> LateMemory {
        self.shared.into_late((self.files, self.locked), cut)
    }

    /// In the twin: stops sharing open files, pipes and the like with the rank. `instead` takes the
    /// numbers of those that only a restored process has again. Returns the number of files that
    /// the twin still shares.
    pub fn detach(&self, instead: RawFd) -> u16 {
        self.settings.allow_descriptors();
        self.objects.release(instead);
        self.shared.release(instead);
        self.files.detach()
    }

    /// In the twin made from a file: keeps the numbers of what only a restored process has.
    pub fn reserve(&self, instead: RawFd, remembered: &mut Remembered) {
        self.objects.release(instead);
        self.shared.reserve(instead);
        self.files.reserve(instead);
        self.children.discard_writes();
        remembered.tracker_pipes.clear();
    }

    /// Whether this is a pipe to a resource tracker, which a process made from a file does without.
    pub fn leads_to_tracker(&self, fd: RawFd) -> bool {
        self.children.has_pipe(fd)
    }

    /// In the rank: takes these numbers out of the program's epoll sets, or puts them back.
    pub fn watch(&self, numbers: &[RawFd], again: bool) {
        self.objects.watch(numbers, again);
    }

    /// In a zygote: whether the files that the process writes are as they were at the image, or can
    /// be made so.
    pub fn check_contents(&self, cut: &Cut) -> Result<(), Overwritten> {
        self.files.check_contents(cut)
    }

    /// Checks that each open file has a path that leads to it. Otherwise the number of a file that
    /// has none.
    pub fn check_paths(&self) -> Result<(), RawFd> {
        self.files.check_paths()
    }

    /// In a zygote made from a file: opens the files by their paths, under their numbers. Otherwise
    /// the number of a file that is not there any more.
    pub fn open_by_path(&self) -> Result<(), RawFd> {
        self.files.open_by_path()
    }

    /// Sets everything again, in a runner with its signals blocked. Alarms come last, so that the
    /// other steps delay none.
    pub fn restore(&self, cut: &Cut) -> Vec<Caveat> {
        let mut caveats = Vec::new();
        self.files.restore(cut, &mut caveats);
        if let Err(not_made) = self.objects.restore() {
            not_made.end_process();
        }
        if let Err(errno) = self.shared.restore() {
            shared_memory::end_process(errno);
        }
        self.locked.restore(&mut caveats);
        // Their signals come before those that wait.
        self.children.restore(&mut caveats);
        self.pending.restore(&mut caveats);
        self.timers.restore(&mut caveats);
        self.settings.restore();
        caveats
    }
}
