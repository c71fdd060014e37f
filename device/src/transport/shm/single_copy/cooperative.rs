//! Cooperative copy: both ranks copy chunks of one long body. The receiver reads chunks from the
//! sender's memory. A sender that waits for the receiver writes other chunks into the receiver's
//! memory (`process_vm_writev`).
//!
//! The receiver describes the chunks in the memory of the link ([`rejoin_ring::chunks`]) and copies
//! chunks itself. It returns only when it knows the result of each chunk that the sender has taken.
//! So no chunk is written for a body that is no longer awaited. If the sender dies, the body is
//! incomplete.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rejoin_ring::chunks::{ChunkOwner, ChunkPeer, MOST, PeerChunks};

use super::super::link_memory::{Direction, LinkMemory, SharedWord, word};
use super::peer_memory::PeerMemory;
use crate::transport::GetPart;

/// Polls of the peer's word before this rank yields its core.
const SPINS: u64 = 20_000;
/// Yields between two checks whether the peer lives.
const YIELDS_PER_CHECK: u64 = 1_000;
/// Pause after each check: a peer that takes so long has been stopped, or its host is crowded.
const NAP: Duration = Duration::from_micros(200);

/// The shared words of the side that owns a batch.
struct CopyDescriptors {
    batch: NonNull<AtomicU64>,
    done: NonNull<AtomicU64>,
    /// Three words of each chunk.
    chunks: NonNull<AtomicU64>,
}

impl CopyDescriptors {
    fn new(memory: &LinkMemory, owner: Direction) -> Self {
        Self {
            batch: memory.word(SharedWord::CopyBatch(owner)),
            done: memory.word(SharedWord::Done(owner)),
            chunks: memory.word(SharedWord::Chunks(owner)),
        }
    }

    /// The words that describe a chunk.
    fn chunk(&self, index: usize) -> [&AtomicU64; 3] {
        // SAFETY: so many words of each chunk lie in the mapping, which outlives the link.
        [0, 1, 2].map(|n| unsafe { self.chunks.add(3 * (index % MOST) + n).as_ref() })
    }
}

/// The copy descriptors of both sides of a link. The pointers are valid for as long as its memory
/// is mapped.
pub(in crate::transport::shm) struct CooperativeCopy {
    owner: ChunkOwner,
    own: CopyDescriptors,
    peer_role: ChunkPeer,
    theirs: CopyDescriptors,
    /// The peer's memory could not be written.
    write_failed: bool,
}

impl CooperativeCopy {
    pub(in crate::transport::shm) fn new(memory: &LinkMemory, own: Direction) -> Self {
        Self {
            owner: ChunkOwner::default(),
            own: CopyDescriptors::new(memory, own),
            peer_role: ChunkPeer::default(),
            theirs: CopyDescriptors::new(memory, own.opposite()),
            write_failed: false,
        }
    }

    /// Describes the parts, at most [`MOST`], to the peer.
    pub(in crate::transport::shm) fn describe(&mut self, parts: &[GetPart]) {
        for (index, part) in parts.iter().enumerate() {
            let to = part.to.expose_provenance() as u64;
            let values = [part.from, to, part.len as u64];
            for (word, value) in self.own.chunk(index).into_iter().zip(values) {
                word.store(value, Ordering::Relaxed);
            }
        }
        self.owner.describe(word!(self.own.batch), parts.len());
    }

    /// Copies the described parts that the peer does not copy. Returns bits of the parts that
    /// failed. Calls `waits` now and then while the peer takes long.
    ///
    /// # Safety
    /// Each part's place is writable, and nothing else uses it after its description was published.
    pub(in crate::transport::shm) unsafe fn finish(
        &mut self,
        peer: PeerMemory,
        parts: &[GetPart],
        waits: &mut dyn FnMut(),
    ) -> u64 {
        let mut failed = 0;
        while let Some(index) = self.owner.take(word!(self.own.batch)) {
            // SAFETY: the caller's promise.
            failed |= u64::from(!unsafe { read(peer, parts, index) }) << index;
        }
        for index in self.failed_chunks(peer, waits) {
            // SAFETY: the caller's promise.
            failed |= u64::from(!unsafe { read(peer, parts, index) }) << index;
        }
        failed
    }

    /// Waits for the parts that the peer has taken; the peer copies each without a pause. Returns
    /// the parts that failed. Only the peer's end ends this wait earlier, because a stopped peer
    /// writes when it continues.
    fn failed_chunks(
        &mut self,
        peer: PeerMemory,
        waits: &mut dyn FnMut(),
    ) -> impl Iterator<Item = usize> + use<> {
        let mut polls = 0u64;
        let bits = loop {
            if let PeerChunks::Over { failed } = self.owner.peer_chunks(word!(self.own.done)) {
                break failed;
            }
            polls = polls.wrapping_add(1);
            if polls < SPINS {
                std::hint::spin_loop();
                continue;
            }
            std::thread::yield_now();
            if polls.is_multiple_of(YIELDS_PER_CHECK) {
                // A process that is gone writes nothing more.
                if !peer.is_there() {
                    break self.owner.abandoned();
                }
                waits();
                std::thread::sleep(NAP);
            }
        };
        (0..MOST).filter(move |index| bits >> index & 1 != 0)
    }

    /// Whether the peer has described chunks that nobody has taken.
    #[inline]
    pub(in crate::transport::shm) fn has_chunks(&self) -> bool {
        self.peer_role.has_chunks(word!(self.theirs.batch))
    }

    /// Copies chunks that the peer has described and not taken itself; returns their bytes.
    pub(in crate::transport::shm) fn copy_for_peer(&mut self, peer: PeerMemory) -> usize {
        let mut copied = 0;
        while !self.write_failed
            && let Some(index) = self.peer_role.take(word!(self.theirs.batch))
        {
            let [from, to, len] = self
                .theirs
                .chunk(index)
                .map(|word| word.load(Ordering::Relaxed));
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            // The peer waits for this chunk, so its process is there if it is still the same.
            let whole = peer.is_there() && peer.write(from, to, len);
            self.write_failed = !whole;
            copied += if whole { len } else { 0 };
            self.peer_role.finish(word!(self.theirs.done), index, whole);
        }
        copied
    }
}

/// Reads a part; false where that fails.
///
/// # Safety
/// The place of the part is writable, and nothing else uses it.
pub(in crate::transport::shm) unsafe fn read(
    peer: PeerMemory,
    parts: &[GetPart],
    index: usize,
) -> bool {
    let Some(part) = parts.get(index) else {
        return false;
    };
    // SAFETY: the caller's promise.
    unsafe { peer.read(part.from, part.to, part.len) }.is_ok()
}
