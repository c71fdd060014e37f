use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use super::*;

/// Both words of one direction, and its bytes.
struct Shared {
    tail: AtomicU64,
    head: AtomicU64,
    bytes: Vec<u8>,
}

impl Shared {
    fn new(capacity: usize) -> Self {
        Self {
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            bytes: vec![0; capacity],
        }
    }

    fn write(&mut self, writer: &mut Writer, from: &[u8]) -> usize {
        let room = writer.room(&self.head, from.len()).expect("in bounds");
        let mut done = 0;
        while done < room {
            let range = writer.next(room - done);
            let len = range.len();
            self.bytes[range].copy_from_slice(&from[done..done + len]);
            done += len;
        }
        writer.publish(&self.tail);
        done
    }

    fn read(&mut self, reader: &mut Reader, wanted: usize) -> Vec<u8> {
        let ready = reader.ready(&self.tail, wanted).expect("in bounds");
        let mut taken = Vec::new();
        while taken.len() < ready {
            let range = reader.next(ready - taken.len());
            taken.extend_from_slice(&self.bytes[range]);
        }
        reader.release(&self.head);
        taken
    }
}

proptest! {
    #[test]
    fn bytes_come_out_as_they_went_in(
        power in 0u32..7,
        steps in proptest::collection::vec((any::<bool>(), 0usize..200), 1..200),
    ) {
        let capacity = 1 << power;
        let mut shared = Shared::new(capacity);
        let (mut writer, mut reader) = (Writer::new(capacity), Reader::new(capacity));
        let mut model = VecDeque::new();
        let mut next = 0u8;
        for (writes, len) in steps {
            if writes {
                let bytes: Vec<u8> = (0..len).map(|at| next.wrapping_add(at as u8)).collect();
                let taken = shared.write(&mut writer, &bytes);
                prop_assert_eq!(taken, len.min(capacity - model.len()));
                model.extend(&bytes[..taken]);
                next = next.wrapping_add(taken as u8);
            } else {
                let expected: Vec<u8> = model.drain(..len.min(model.len())).collect();
                prop_assert_eq!(shared.read(&mut reader, len), expected);
            }
        }
    }

    #[test]
    fn no_range_leaves_the_ring_whatever_the_other_side_says(
        power in 0u32..7,
        said in proptest::collection::vec(
            (prop_oneof![0u64..200, any::<u64>()], 0usize..300), 1..60),
    ) {
        let capacity = 1usize << power;
        let (mut writer, mut reader) = (Writer::new(capacity), Reader::new(capacity));
        for (word, len) in said {
            let word = AtomicU64::new(word);
            let room = writer.room(&word, len).unwrap_or(0);
            prop_assert!(room <= len.min(capacity));
            prop_assert!(writer.next(room).end <= capacity);
            let ready = reader.ready(&word, len).unwrap_or(0);
            prop_assert!(ready <= len.min(capacity));
            prop_assert!(reader.next(ready).end <= capacity);
            let _ = reader.shown(len);
            prop_assert!(reader.next(len).end <= capacity);
        }
    }
}

#[test]
fn positions_that_cannot_be_are_refused() {
    let mut writer = Writer::new(8);
    assert_eq!(writer.room(&AtomicU64::new(0), 5), Ok(5));
    assert_eq!(writer.next(5), 0..5);
    let beyond = OutOfBounds { theirs: 6, ours: 5 };
    assert_eq!(writer.room(&AtomicU64::new(6), 8), Err(beyond));
    assert_eq!(writer.room(&AtomicU64::new(4), 8), Ok(7));
    let back = OutOfBounds { theirs: 3, ours: 5 };
    assert_eq!(writer.room(&AtomicU64::new(3), 8), Err(back));

    let mut reader = Reader::new(8);
    let beyond = OutOfBounds { theirs: 9, ours: 0 };
    assert_eq!(reader.ready(&AtomicU64::new(9), 1), Err(beyond));
    assert_eq!(reader.ready(&AtomicU64::new(6), 8), Ok(6));
    assert_eq!(reader.ready(&AtomicU64::new(5), 8), Ok(6));
    assert_eq!(reader.next(3), 0..3);
    assert_eq!(reader.ready(&AtomicU64::new(7), 8), Ok(4));
}

#[test]
fn a_doorbell_rings_once_for_each_time_it_was_armed() {
    let word = AtomicU64::new(0);
    assert!(!doorbell::must_ring(&word, doorbell::DATA));
    doorbell::arm(&word, doorbell::DATA);
    assert!(!doorbell::must_ring(&word, doorbell::ROOM));
    assert!(doorbell::must_ring(&word, doorbell::DATA));
    assert!(!doorbell::must_ring(&word, doorbell::DATA));
    doorbell::arm(&word, doorbell::DATA | doorbell::ROOM);
    doorbell::disarm(&word);
    assert!(!doorbell::must_ring(&word, doorbell::ROOM));
}

#[test]
fn cells_show_themselves_once_each_time_around() {
    let head = AtomicU64::new(0);
    let firsts = [0u64; 4].map(AtomicU64::new);
    let (mut writer, mut reader) = (cells::CellWriter::new(4), cells::CellReader::new(4));
    for round in 0..100u64 {
        assert_eq!(reader.look(&firsts[reader.index()]), None);
        for number in 0..4 {
            let index = writer.free(&head).expect("in bounds").expect("free");
            writer.publish(&firsts[index], (4 * round + number) << 8 | 0xff);
        }
        assert_eq!(writer.free(&head), Ok(None));
        for number in 0..4 {
            let word = reader.look(&firsts[reader.index()]).expect("there");
            assert_eq!(word >> 8, 4 * round + number);
            reader.release(&head);
        }
    }
    let forged = AtomicU64::new(9);
    let mut writer = cells::CellWriter::new(2);
    for index in 0..2 {
        assert_eq!(writer.free(&forged), Ok(Some(index)));
        writer.publish(&AtomicU64::new(0), 0);
    }
    assert_eq!(
        writer.free(&forged),
        Err(OutOfBounds { theirs: 9, ours: 2 })
    );
}

#[test]
fn bytes_that_something_else_has_shown_are_there_before_the_word_says_so() {
    let shared = Shared::new(8);
    let mut reader = Reader::new(8);
    assert_eq!(reader.shown(5), Ok(()));
    assert_eq!(reader.ready(&shared.tail, 5), Ok(5));
    assert_eq!(reader.next(5), 0..5);
    assert_eq!(reader.ready(&shared.tail, 1), Ok(0));
    let later = AtomicU64::new(7);
    assert_eq!(reader.ready(&later, 8), Ok(2));
    // However long the word says nothing of them.
    let mut lagging = Reader::new(8);
    for round in 0..20 {
        assert_eq!(lagging.shown(8), Ok(()));
        let taken = lagging.next(3).len() + lagging.next(5).len();
        assert_eq!(
            (taken, lagging.ready(&shared.tail, 8)),
            (8, Ok(0)),
            "{round}"
        );
    }
    let beyond = OutOfBounds {
        theirs: 14,
        ours: 5,
    };
    assert_eq!(reader.shown(9), Err(beyond));
}

#[test]
fn a_peer_that_is_late_finds_no_chunk() {
    use crate::chunks::{ChunkOwner, ChunkPeer, MOST, PeerChunks};
    let (batch, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let (mut owner, mut peer) = (ChunkOwner::default(), ChunkPeer::default());
    for number in 1..=3 {
        owner.describe(&batch, MOST);
        assert!(peer.has_chunks(&batch));
        let taken = peer.take(&batch).expect("a chunk");
        let mut own = 0;
        while let Some(index) = owner.take(&batch) {
            assert_ne!(index, taken);
            own += 1;
        }
        assert_eq!(own, MOST - 1);
        assert_eq!(peer.take(&batch), None);
        assert_eq!(
            owner.peer_chunks(&done),
            PeerChunks::Waiting,
            "batch {number}"
        );
        let whole = number != 2;
        peer.finish(&done, taken, whole);
        let failed = if whole { 0 } else { 1 << taken };
        assert_eq!(owner.peer_chunks(&done), PeerChunks::Over { failed });
        assert_eq!(owner.abandoned(), 0);
    }
    owner.describe(&batch, 2);
    assert_eq!(peer.take(&batch), Some(1));
    assert_eq!(owner.take(&batch), Some(0));
    assert_eq!(owner.abandoned(), 1 << 1, "it is gone");
}
