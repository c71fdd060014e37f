//! The imager takes the images of a process and keeps state between them.

use std::ops::Range;
use std::os::fd::RawFd;

use rejoin_image_format::ImageNumber;

use crate::{host_barrier, manifest, sys};

/// The library's settings for its process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The local manager's process number, as this process sees it; 0 when there is none. A process
    /// that is its direct child has its twins as siblings, where the program's own `wait` does not
    /// meet them.
    pub manager: i32,
    /// The first number of the library's block of descriptors: the twin closes all from there on.
    pub block: RawFd,
    /// Whether descriptors 1 and 2 are pipes that the manager made.
    pub streams: [bool; 2],
    /// The signal of orders ([`crate::checkpoint_request`]), which is never carried over.
    pub signal: i32,
}

/// Takes images of this process, one after another.
#[derive(Debug)]
pub struct Imager {
    pub(super) settings: Settings,
    /// Which pipes the standard streams are now.
    pub(super) pipes: [Option<(u64, u64)>; 2],
    /// Descriptors that the manager has open under the same numbers, with device and inode. They
    /// are inherited from the process that started the job, and the program does not know them.
    pub(super) inherited: Vec<(RawFd, (u64, u64))>,
    /// Twins that are this process's own children.
    pub(super) twins: Vec<i32>,
    /// The text of `maps`, whose memory is used again.
    pub(super) maps: Vec<u8>,
    /// Memory that the kernel would empty in clones.
    pub(super) wiped: manifest::WipedMemory,
    /// The last image.
    last: ImageNumber,
    /// Of the last image.
    pub(super) remembered: manifest::Remembered,
    /// Files whose memory was mapped at the last image, each with the image since which all images
    /// hold it.
    held: Vec<((u64, u64), ImageNumber)>,
    /// All files that were mapped at the last image.
    files_read: Vec<(u64, u64)>,
    /// Where the memory of the rank's log had bodies at the last image.
    pub(super) log_bodies: Vec<Range<usize>>,
    /// This process was made from a file, and has a copy of these bodies of its own.
    pub(super) log_is_private: bool,
}

impl Imager {
    /// Made once, when the library starts.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let pipes = [1, 2].map(|fd| {
            settings.streams[fd as usize - 1]
                .then(|| manifest::pipe(fd))
                .flatten()
        });
        let inherited = inherited(&settings);
        Self {
            settings,
            pipes,
            inherited,
            twins: Vec::new(),
            maps: Vec::with_capacity(64 * 1024),
            wiped: manifest::WipedMemory::default(),
            last: ImageNumber::default(),
            remembered: manifest::Remembered::default(),
            held: Vec::new(),
            files_read: Vec::new(),
            log_bodies: Vec::new(),
            log_is_private: false,
        }
    }

    /// An image is about to be taken: the memory of the rank's log ([`crate::rank_log_memory`]) has
    /// bodies at these addresses, in order, which must be in a file of the image.
    pub fn set_log_bodies(&mut self, bodies: Vec<Range<usize>>) {
        self.log_bodies = bodies;
    }

    /// In a restored process: the bodies of the log that it has in memory of its own, because it
    /// was made from a file. Returned once.
    pub fn take_private_bodies(&mut self) -> Option<Vec<Range<usize>>> {
        let is_private = std::mem::take(&mut self.log_is_private);
        is_private.then(|| std::mem::take(&mut self.log_bodies))
    }

    /// The process belongs to this local manager from now on.
    pub fn belong_to(&mut self, manager: i32) {
        self.settings.manager = manager;
    }

    /// Finds memory that the kernel would empty in the image of this number. If the last image was
    /// not committed, that may be the reason.
    pub(super) fn find_wiped(&mut self, number: ImageNumber) {
        let is_uncertain = self.last > ImageNumber::of_checkpoint(host_barrier::committed());
        self.wiped.find(&self.maps, is_uncertain);
        self.last = number;
    }

    /// Whether a descriptor does not belong to the program alone: a standard stream, or what the
    /// manager has under the same number.
    pub(super) fn is_other(&self, one: &manifest::Descriptor) -> bool {
        one.fd <= 2
            || self.inherited.contains(&(one.fd, one.file))
            || self.pipes.contains(&Some(one.file))
    }

    /// Whether this process is a child of the manager.
    pub(super) fn is_direct(&self) -> bool {
        self.settings.manager > 0 && sys::parent() == self.settings.manager
    }

    /// This process was made from a file, by the manager that is its parent.
    pub(super) fn renew_manager(&mut self) {
        if self.settings.manager > 0 {
            self.settings.manager = sys::parent();
        }
    }

    /// The image of this number holds the files that this process maps, as they were listed last.
    pub(super) fn note_shared_files(&mut self, number: ImageNumber) {
        let all = self.shared_files();
        let since = |file| {
            let before = self.held.iter().find(|(held, _)| *held == file);
            (file, before.map_or(number, |(_, since)| *since))
        };
        let written = all.iter().filter(|(_, writes)| *writes);
        self.held = written.map(|(file, _)| since(*file)).collect();
        self.files_read = all.into_iter().map(|(file, _)| file).collect();
    }

    /// All memory of this restored process is that of the image of this number. Files may have been
    /// made anew.
    pub fn memory_is_back(&mut self, number: ImageNumber) {
        if self.read_mappings().is_ok() {
            self.held.clear();
            self.note_shared_files(number);
        }
    }

    /// Files that this process mapped at the last image.
    pub(super) fn files_read(&self) -> &[(u64, u64)] {
        &self.files_read
    }

    /// The files of the mappings as they were listed last, and whether the process writes there.
    fn shared_files(&self) -> Vec<((u64, u64), bool)> {
        let maps = self.mappings();
        let shared = maps.shared().map(|m| ((m.device, m.inode), m.write));
        shared.collect()
    }

    /// Whether this process shares memory with other ranks that no committed checkpoint holds, as
    /// far as is known.
    #[must_use]
    pub fn shares_unsaved_memory(&mut self) -> bool {
        if !host_barrier::is_sharing() || self.read_mappings().is_err() {
            return false;
        }
        let committed = ImageNumber::of_checkpoint(host_barrier::committed());
        let is_held = |file| {
            let mut held = self.held.iter();
            held.any(|(held, since)| *held == file && *since <= committed)
        };
        let mut files = self.shared_files().into_iter();
        files.any(|(file, writes)| writes && !is_held(file))
    }

    /// Reaps dead twins that are this process's own children; the manager cannot reap them.
    pub(super) fn reap(&mut self) {
        self.twins.retain(|&pid| {
            let flags = libc::WNOHANG | libc::__WALL;
            // SAFETY: no status is asked for.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), flags) == 0 }
        });
    }
}

/// The descriptors that this process and its manager have in common.
fn inherited(settings: &Settings) -> Vec<(RawFd, (u64, u64))> {
    let all = manifest::descriptors(settings.block).unwrap_or_default();
    let is_common = |d: &&manifest::Descriptor| {
        let path = sys::ShortPath::new(format_args!("/proc/{}/fd/{}", settings.manager, d.fd));
        settings.manager > 0 && sys::status_of(path.as_c_str()) == Ok(d.file)
    };
    all.iter()
        .filter(is_common)
        .map(|d| (d.fd, d.file))
        .collect()
}
