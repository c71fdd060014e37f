//! Processes that are being made from images.

use crate::local::start::DescriptorPairs;
use rejoin_channel_table::{ImageId, Incarnation};
use rejoin_managers_net::local_link::LocalLink;
use rejoin_managers_protocol::manager_messages::ProcessInstance;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// An image that has not answered by then does not.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Bytes that a slow disk reads in a second.
const SLOW_DISK: u64 = 50 << 20;

/// Most ends of unknown processes that are remembered.
const MOST_STRAYS: usize = 256;

/// A process that an image is making.
pub struct PendingRestore {
    instance: ProcessInstance,
    /// The image that makes it.
    id: ImageId,
    /// Descriptors of the process: the image has copies of the process's ends.
    ends: DescriptorPairs,
    /// The socket to it, with its Welcome.
    socket: LocalLink,
    /// The process is to retire as soon as it is there.
    stop: bool,
    /// When the image was asked for it.
    since: Instant,
    /// How long it may take.
    limit: Duration,
}

impl PendingRestore {
    /// The image has just been asked for this instance, with these descriptors.
    pub fn new(
        instance: ProcessInstance,
        id: ImageId,
        (ends, socket): (DescriptorPairs, LocalLink),
    ) -> PendingRestore {
        PendingRestore {
            instance,
            id,
            ends,
            socket,
            stop: false,
            since: Instant::now(),
            limit: ANSWER_LIMIT,
        }
    }

    /// So many bytes of a file are read first.
    pub fn reading(mut self, bytes: u64) -> PendingRestore {
        self.limit += Duration::from_secs(bytes / SLOW_DISK);
        self
    }

    /// The process instance.
    pub fn instance(&self) -> ProcessInstance {
        self.instance
    }

    /// The image that makes the process.
    pub fn image(&self) -> ImageId {
        self.id
    }

    /// Whether it is to retire as soon as it is there.
    pub fn is_to_retire(&self) -> bool {
        self.stop
    }

    /// Descriptors of the process, and the socket to it.
    pub fn into_descriptors(self) -> (DescriptorPairs, LocalLink) {
        (self.ends, self.socket)
    }
}

/// The processes that images of this host are making.
#[derive(Default)]
pub struct PendingRestores {
    /// By slot.
    ranks: Vec<Option<PendingRestore>>,
    /// Ends of processes that were reaped before they were known, with their statuses.
    strays: VecDeque<(u32, i32)>,
}

impl PendingRestores {
    /// So many ranks are on this host.
    pub fn serve(&mut self, ranks: usize) {
        self.ranks.resize_with(ranks, || None);
    }

    /// Whether any process is being made.
    pub fn is_any(&self) -> bool {
        self.ranks.iter().any(Option::is_some)
    }

    /// The image of this rank makes this process.
    pub fn begin(&mut self, slot: usize, restore: PendingRestore) {
        self.ranks[slot] = Some(restore);
    }

    /// The process is there, or will not come.
    pub fn take(&mut self, slot: usize) -> Option<PendingRestore> {
        self.ranks[slot].take()
    }

    /// A process shall retire as soon as it is there; `false` if it is not being made.
    pub fn retire(&mut self, slot: usize, incarnation: Incarnation) -> bool {
        let restore = self.ranks[slot].as_mut();
        let restore = restore.filter(|r| r.instance.incarnation == incarnation);
        restore.is_some_and(|r| {
            r.stop = true;
            true
        })
    }

    /// Whether the image of the rank is making a process.
    pub fn is_from(&self, slot: usize, id: ImageId) -> bool {
        self.ranks[slot].as_ref().is_some_and(|r| r.id == id)
    }

    /// Slots whose images have not answered in time, and that time.
    pub fn overdue(&self) -> Vec<(usize, Duration)> {
        let ranks = self.ranks.iter().enumerate();
        let late = ranks.filter_map(|(slot, restore)| {
            let restore = restore.as_ref()?;
            (restore.since.elapsed() > restore.limit).then_some((slot, restore.limit))
        });
        late.collect()
    }

    /// An unknown process was reaped. It may be one that an image has just made.
    pub fn add_stray(&mut self, pid: u32, status: i32) {
        if self.is_any() {
            self.strays.truncate(MOST_STRAYS - 1);
            self.strays.push_front((pid, status));
        }
    }

    /// The status of a process that was reaped before it was known.
    pub fn take_stray(&mut self, pid: u32) -> Option<i32> {
        let at = self.strays.iter().position(|(p, _)| *p == pid)?;
        self.strays.remove(at).map(|(_, status)| status)
    }
}

#[cfg(test)]
mod tests;
