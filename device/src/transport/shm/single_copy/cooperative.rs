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

use rejoin_ring::chunks::{ChunkOwner, Helped, Helper, MOST};

use super::super::memory::{Direction, LinkMemory, SharedWord, word};
use super::peer_memory::PeerMemory;
use crate::transport::GetPart;

/// Looks at the helper's word before others get this core.
const LOOKS: u64 = 20_000;
/// Times to give way between two looks whether the helper lives.
const GIVE_WAY: u64 = 1_000;
/// A helper that takes so long has been stopped, or its host is crowded: this core is of more use
/// to others.
const NAP: Duration = Duration::from_micros(200);

/// The shared words of the side that owns a batch.
struct CopyDescriptors {
    batch: NonNull<AtomicU64>,
    done: NonNull<AtomicU64>,
    /// Three words of each piece.
    pieces: NonNull<AtomicU64>,
}

impl CopyDescriptors {
    fn new(memory: &LinkMemory, owner: Direction) -> Self {
        Self {
            batch: memory.word(SharedWord::CopyBatch(owner)),
            done: memory.word(SharedWord::Done(owner)),
            pieces: memory.word(SharedWord::Pieces(owner)),
        }
    }

    /// The words that describe a piece.
    fn piece(&self, index: usize) -> [&AtomicU64; 3] {
        // SAFETY: so many words of each piece lie in the mapping, which outlives the link.
        [0, 1, 2].map(|n| unsafe { self.pieces.add(3 * (index % MOST) + n).as_ref() })
    }
}

/// The copy descriptors of both sides of a link. The pointers are valid for as long as its memory
/// is mapped.
pub(in crate::transport::shm) struct CooperativeCopy {
    owner: ChunkOwner,
    own: CopyDescriptors,
    helper: Helper,
    theirs: CopyDescriptors,
    /// The peer's memory could not be written.
    barred: bool,
}

impl CooperativeCopy {
    pub(in crate::transport::shm) fn new(memory: &LinkMemory, own: Direction) -> Self {
        Self {
            owner: ChunkOwner::default(),
            own: CopyDescriptors::new(memory, own),
            helper: Helper::default(),
            theirs: CopyDescriptors::new(memory, own.opposite()),
            barred: false,
        }
    }

    /// Lays out the parts, at most [`MOST`].
    pub(in crate::transport::shm) fn lay_out(&mut self, parts: &[GetPart]) {
        for (index, part) in parts.iter().enumerate() {
            let to = part.to.expose_provenance() as u64;
            let values = [part.from, to, part.len as u64];
            for (word, value) in self.own.piece(index).into_iter().zip(values) {
                word.store(value, Ordering::Relaxed);
            }
        }
        self.owner.lay_out(word!(self.own.batch), parts.len());
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
        for index in self.left_undone(peer, waits) {
            // SAFETY: the caller's promise.
            failed |= u64::from(!unsafe { read(peer, parts, index) }) << index;
        }
        failed
    }

    /// Waits for the parts that the peer has taken; the peer copies each without a pause. Returns
    /// the parts that failed. Only the peer's end ends this wait earlier, because a stopped peer
    /// writes when it continues.
    fn left_undone(
        &mut self,
        peer: PeerMemory,
        waits: &mut dyn FnMut(),
    ) -> impl Iterator<Item = usize> + use<> {
        let mut looks = 0u64;
        let bits = loop {
            if let Helped::Over { failed } = self.owner.helped(word!(self.own.done)) {
                break failed;
            }
            looks = looks.wrapping_add(1);
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            std::thread::yield_now();
            if looks.is_multiple_of(GIVE_WAY) {
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

    /// Whether the peer has laid out something.
    #[inline]
    pub(in crate::transport::shm) fn is_asked(&self) -> bool {
        self.helper.is_asked(word!(self.theirs.batch))
    }

    /// Copies the peer's described parts, as far as it has not copied them itself; returns the
    /// bytes.
    pub(in crate::transport::shm) fn help(&mut self, peer: PeerMemory) -> usize {
        let mut carried = 0;
        while !self.barred
            && let Some(index) = self.helper.take(word!(self.theirs.batch))
        {
            let [from, to, len] = self
                .theirs
                .piece(index)
                .map(|word| word.load(Ordering::Relaxed));
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            // It waits for this part, so it is there if it is the peer that was seen first.
            let whole = peer.is_there() && peer.write(from, to, len);
            self.barred = !whole;
            carried += if whole { len } else { 0 };
            self.helper.over(word!(self.theirs.done), index, whole);
        }
        carried
    }
}

/// Reads a part; false where that fails.
///
/// # Safety
/// Its place is writable, and nothing else uses it.
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
