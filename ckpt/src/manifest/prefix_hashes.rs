//! Hashes of files that are too large to be copied into an image.
//!
//! A file that a program appends to is read only once: the hash at an image continues that at the
//! image before. If the program overwrites bytes that were hashed before, the hash does not fit the
//! file any more. Then a restore is refused that could have been right, but none is made that is
//! wrong.

use std::os::fd::RawFd;

use xxhash_rust::xxh3::Xxh3;

use super::positioned::read_once;
use crate::sys;

/// Bytes that are read at once. A larger buffer costs more in faults on new memory than it saves.
const STEP: usize = 128 << 10;

/// Most bytes that are hashed at one image. Bytes that the program has just written are in memory,
/// and hashing them takes a fraction of the time of writing them.
pub(super) const MOST_HASHED: u64 = 512 << 20;

/// Most of them that come from a disk: the rank waits for them.
const MOST_COLD: u64 = 8 << 20;

/// The hash of the first bytes of a file.
struct PrefixHash {
    file: (u64, u64),
    /// So many bytes.
    hashed: u64,
    hasher: Box<Xxh3>,
    /// The hash belongs to the image that is being taken.
    is_used: bool,
}

/// The hashes of an image, from which those of the next image continue.
#[derive(Default)]
pub(crate) struct PrefixHashes {
    files: Vec<PrefixHash>,
}

/// What may still be read at this image.
pub(super) struct HashBudget {
    bytes: u64,
    cold: u64,
}

impl Default for HashBudget {
    fn default() -> Self {
        Self {
            bytes: MOST_HASHED,
            cold: MOST_COLD,
        }
    }
}

impl std::fmt::Debug for PrefixHashes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrefixHashes({} files)", self.files.len())
    }
}

impl PrefixHashes {
    /// The hash of a file of this length, which can be read through `fd`; `None` if the budget does
    /// not suffice: it is continued at the next image.
    pub(super) fn hash(
        &mut self,
        file: (u64, u64),
        fd: RawFd,
        length: u64,
        budget: &mut HashBudget,
    ) -> Option<u128> {
        let known = self.files.iter().position(|one| one.file == file);
        let at = known.unwrap_or_else(|| {
            self.files.push(PrefixHash::new(file));
            self.files.len() - 1
        });
        let one = &mut self.files[at];
        if one.hashed > length {
            *one = PrefixHash::new(file); // It was cut since.
        }
        one.is_used = true;
        one.proceed(fd, length, budget).ok()?;
        (one.hashed == length).then(|| one.hasher.digest128())
    }

    /// Forgets the files that no image has asked for since the last call.
    pub fn forget_unused(&mut self) {
        self.files
            .retain_mut(|one| std::mem::take(&mut one.is_used));
    }
}

impl PrefixHash {
    fn new(file: (u64, u64)) -> Self {
        Self {
            file,
            hashed: 0,
            hasher: Box::new(Xxh3::new()),
            is_used: false,
        }
    }

    fn proceed(&mut self, fd: RawFd, length: u64, budget: &mut HashBudget) -> sys::Sys<()> {
        if self.hashed == length {
            return Ok(());
        }
        let mut buffer = vec![0; STEP];
        while self.hashed < length && budget.bytes > 0 {
            let room = (length - self.hashed).min(budget.bytes).min(STEP as u64);
            let room = &mut buffer[..room as usize];
            let count = match read_once(fd, room, self.hashed, true) {
                Err(libc::EAGAIN) if budget.cold == 0 => return Ok(()),
                Err(libc::EAGAIN) => {
                    let count = read_once(fd, room, self.hashed, false)?;
                    budget.cold = budget.cold.saturating_sub(count as u64);
                    count
                }
                result => result?,
            };
            if count == 0 {
                return Err(libc::EIO); // It is shorter than it says.
            }
            self.hasher.update(&room[..count]);
            self.hashed += count as u64;
            budget.bytes = budget.bytes.saturating_sub(count as u64);
        }
        Ok(())
    }
}

/// Whether the first bytes of a file have this hash.
pub(super) fn is_prefix(fd: RawFd, length: u64, hash: u128) -> sys::Sys<bool> {
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; STEP];
    let mut at = 0;
    while at < length {
        let room = (length - at).min(STEP as u64) as usize;
        let count = read_once(fd, &mut buffer[..room], at, false)?;
        if count == 0 {
            return Ok(false);
        }
        hasher.update(&buffer[..count]);
        at += count as u64;
    }
    Ok(hasher.digest128() == hash)
}
