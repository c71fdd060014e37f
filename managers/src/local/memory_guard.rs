//! Images in memory are given up before they take the memory that ranks need.
//!
//! A frozen image shares its pages with the rank until the rank writes to them. So a rank that
//! rewrites all of its memory has it twice, and three times while another image is taken. Without
//! this, the kernel would swap, or kill images when everything waits for memory already. The order:
//! processes of images that also have files, then the newest checkpoint, and those that are being
//! written last. An image that holds little is kept, because its end would help nobody.

use super::manager_parts::{ManagerParts, handler, keys};
use bytesize::ByteSize;
use rejoin_channel_table::ImageId;
use rejoin_managers_host::memory_room::{MemoryRoom, ProcessMemory};
use rejoin_managers_protocol::local::LocalInput;
use std::time::{Duration, Instant};

/// Memory is short below one part in so many of all, …
const RESERVE_SHARE: u64 = 20;
/// … and at most this many bytes.
const MOST_RESERVE: u64 = 4 << 30;
/// What images must give back at least, in parts of the reserve.
const LEAST_SHARE: u64 = 8;
/// Time between two looks, if memory is plentiful, and if less than a quarter is left.
const PERIODS: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(100)];
/// Time in which a process ends and its memory is free.
const SETTLES: Duration = Duration::from_secs(1);

/// The bytes that ranks must be able to get, and those that images must give back at least.
fn bounds(room: &MemoryRoom) -> (u64, u64) {
    #[cfg(feature = "fault-injection")]
    if let Some(bounds) = bounds_of_tests() {
        return bounds;
    }
    let reserve = (room.total / RESERVE_SHARE).min(MOST_RESERVE);
    (reserve, reserve / LEAST_SHARE)
}

/// Both numbers in `REJOIN_TEST_MEMORY`.
#[cfg(feature = "fault-injection")]
fn bounds_of_tests() -> Option<(u64, u64)> {
    let text = std::env::var("REJOIN_TEST_MEMORY").ok()?;
    let (reserve, least) = text.split_once(',')?;
    Some((reserve.parse().ok()?, least.parse().ok()?))
}

handler! {
    /// Watches the memory of this host.
    pub(super) MemoryGuard of ManagerParts {
        changes { memory_at, images, inputs }
        reads { ranks, restores, reactor }
    }
}

impl MemoryGuard<'_> {
    /// Gives up images if memory is short.
    pub fn guard(&mut self, now: Instant) {
        if now < *self.memory_at || !self.images.are_in_memory() {
            return;
        }
        let Some(room) = MemoryRoom::now() else {
            *self.memory_at = now + PERIODS[0];
            return;
        };
        let (reserve, least) = bounds(&room);
        let is_plentiful = room.available > (room.total / 4).max(reserve);
        *self.memory_at = now + PERIODS[usize::from(!is_plentiful)];
        if room.available >= reserve {
            return;
        }
        for id in self.images.dispensable() {
            let processes = self.images.processes(id);
            let freed = |(slot, pid): &(usize, u32)| {
                let rank = self.ranks[*slot].pids().last().map(ProcessMemory::of);
                ProcessMemory::of(*pid).freed_beside(rank.as_ref())
            };
            let bytes: u64 = processes.iter().map(freed).sum();
            if bytes < least {
                continue;
            }
            *self.memory_at = now + SETTLES;
            let why = format!(
                "memory is short ({} of {} are left, and this checkpoint's images hold {})",
                ByteSize(room.available),
                ByteSize(room.total),
                ByteSize(bytes)
            );
            for (slot, _) in processes {
                self.give_up_image(slot, id, &why);
            }
            return;
        }
    }

    fn give_up_image(&mut self, slot: usize, id: ImageId, why: &str) {
        // A process that is just being made of it is needed more.
        if self.restores.is_from(slot, id) {
            return;
        }
        let rank = self.ranks[slot].rank();
        tracing::warn!(rank = rank.0, image = %id, why, "an image is given up");
        if self.images.is_stored(slot, id) {
            self.images.drop_process(slot, id, self.reactor);
        } else if self.images.lose_image(slot, id, self.reactor) {
            let given_up = LocalInput::ImageEnded(rank, id, Some(why.to_owned()));
            self.inputs.push_back(given_up);
        }
    }
}
