use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;

/// The words of one direction.
struct Direction {
    tail: AtomicU64,
    head: AtomicU64,
    stream: Vec<AtomicU64>,
    returned: AtomicU64,
    returns: Vec<AtomicU64>,
}

impl Direction {
    fn new(count: usize) -> Self {
        let words = || (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            stream: words(),
            returned: AtomicU64::new(0),
            returns: words(),
        }
    }

    fn returns(&self) -> Returns<'_, AtomicU64> {
        Returns {
            count: &self.returned,
            table: &self.returns,
        }
    }

    fn shared(&self) -> DirectionWords<'_, AtomicU64> {
        DirectionWords {
            head: &self.head,
            returned: self.returns(),
        }
    }

    /// All words.
    fn words(&self) -> Vec<&AtomicU64> {
        let single = [&self.tail, &self.head, &self.returned];
        single
            .into_iter()
            .chain(&self.stream)
            .chain(&self.returns)
            .collect()
    }
}

/// One side.
struct Side {
    pool: BlockPool,
    writer: BlockWriter,
    reader: BlockReader,
    /// How often it gave blocks back.
    gave: usize,
}

/// A link: direction 0 is written by side 0.
struct Link {
    blocks: BlockLayout,
    directions: [Direction; 2],
    made: AtomicU64,
    bytes: Vec<u8>,
    sides: [Side; 2],
}

impl Link {
    fn new(count: usize, size: usize) -> Self {
        Self::with_memory(count, size, count / 2)
    }

    /// A link of which so many blocks of each half have memory.
    fn with_memory(count: usize, size: usize, made: usize) -> Self {
        let blocks = BlockLayout { count, size };
        Self {
            blocks,
            directions: [Direction::new(count), Direction::new(count)],
            made: AtomicU64::new(made as u64),
            bytes: vec![0; blocks.bytes()],
            sides: [true, false].map(|first| Side {
                pool: BlockPool::new(blocks, first, made),
                writer: BlockWriter::default(),
                reader: BlockReader::new(blocks),
                gave: 0,
            }),
        }
    }

    /// Writes as many of the bytes as there is room for.
    fn write(&mut self, side: usize, from: &[u8]) -> Result<usize, OutOfBounds> {
        let (out, come) = (&self.directions[side], &self.directions[1 - side]);
        let Side { pool, writer, .. } = &mut self.sides[side];
        let room = writer.room(pool, from.len(), come.returns(), &self.made)?;
        let mut done = 0;
        while done < room {
            let place = writer.next(pool, &out.stream, room - done);
            let len = place.range.len();
            assert!(len > 0, "there is room");
            self.bytes[place.range].copy_from_slice(&from[done..done + len]);
            done += len;
        }
        writer.publish(&out.tail);
        Ok(done)
    }

    /// Reads so much, up to the look at which the surplus is found.
    fn read_until_gift(&mut self, side: usize, wanted: usize) -> usize {
        let (out, come) = (&self.directions[side], &self.directions[1 - side]);
        let Side {
            pool,
            writer,
            reader,
            ..
        } = &mut self.sides[side];
        let ready = reader.ready(&come.tail, wanted).expect("in bounds");
        let mut taken = 0;
        while taken < ready {
            let range = reader.next(pool, &come.stream, ready - taken);
            taken += range.expect("in bounds").len();
        }
        come.head
            .store(u64::from(reader.position()), Ordering::Release);
        pool.collect(come.returns()).expect("in bounds");
        writer.look(&out.head).expect("in bounds");
        pool.surplus(writer.unread(pool))
    }

    fn give(&mut self, side: usize, blocks: usize) {
        let back = self.directions[side].returns();
        self.sides[side].pool.give(blocks, back);
    }

    fn read(&mut self, side: usize, wanted: usize) -> Result<Vec<u8>, OutOfBounds> {
        let (out, come) = (&self.directions[side], &self.directions[1 - side]);
        let Side {
            pool,
            writer,
            reader,
            gave,
        } = &mut self.sides[side];
        let ready = reader.ready(&come.tail, wanted)?;
        let mut taken = Vec::new();
        while taken.len() < ready {
            let range = reader.next(pool, &come.stream, ready - taken.len())?;
            assert!(!range.is_empty(), "so many are ready");
            taken.extend_from_slice(&self.bytes[range]);
        }
        if reader.release(pool, writer, come.shared(), out.shared(), &self.made)? {
            *gave += 1;
        }
        Ok(taken)
    }
}

proptest! {
    #[test]
    fn bytes_come_out_as_they_went_in_and_no_side_stays_without_room(
        (count, size) in (2u32..7, 0u32..4),
        made in 2usize..32,
        steps in proptest::collection::vec((any::<(bool, bool, bool)>(), 0usize..200), 1..200),
    ) {
        let (count, size) = (1 << count, 1 << size);
        let mut link = Link::with_memory(count, size, made.min(count / 2));
        let mut models = [VecDeque::new(), VecDeque::new()];
        let mut next = 0u8;
        for ((side, writes, grows), len) in steps {
            let side = usize::from(side);
            if grows && link.made.load(Ordering::Relaxed) < count as u64 / 2 {
                link.made.fetch_add(1, Ordering::Relaxed);
            }
            if writes {
                let bytes: Vec<u8> = (0..len).map(|at| next.wrapping_add(at as u8)).collect();
                let taken = link.write(side, &bytes).expect("in bounds");
                let (mine, theirs) = (models[side].len(), models[1 - side].len());
                // What both have read to the end is with one of them, and each has its share of it.
                let idle = mine == 0 && theirs == 0;
                prop_assert!(taken > 0 || len == 0 || !idle, "no room on an idle link");
                models[side].extend(&bytes[..taken]);
                next = next.wrapping_add(taken as u8);
            } else {
                let model = &mut models[1 - side];
                let expected: Vec<u8> = model.drain(..len.min(model.len())).collect();
                prop_assert_eq!(link.read(side, len).expect("in bounds"), expected);
            }
            for (side, model) in models.iter().enumerate() {
                let tail = &link.directions[side].tail;
                prop_assert_eq!(link.sides[1 - side].reader.is_empty(tail), model.is_empty());
            }
        }
    }

    #[test]
    fn no_range_leaves_the_blocks_whatever_the_other_side_says(
        said in proptest::collection::vec(
            (any::<usize>(), prop_oneof![0u64..20, any::<u64>()], any::<bool>(), 0usize..300),
            1..60,
        ),
    ) {
        let mut link = Link::with_memory(8, 16, 2);
        for (place, value, writes, len) in said {
            {
                let words = link.directions.iter().flat_map(Direction::words);
                let words: Vec<_> = words.chain([&link.made]).collect();
                words[place % words.len()].store(value, Ordering::Relaxed);
            }
            // Out of bounds would panic.
            let done = if writes {
                link.write(0, &vec![1; len]).map(drop)
            } else {
                link.read(0, len).map(drop)
            };
            prop_assert!(link.sides[0].pool.room() <= link.blocks.bytes());
            if done.is_err() {
                break;
            }
        }
    }
}

#[test]
fn an_answer_goes_into_the_blocks_that_were_read_last() {
    let mut link = Link::new(32, 16);
    for round in 0..100 {
        for side in [0, 1] {
            assert_eq!(link.write(side, &[7; 64]), Ok(64));
            assert_eq!(link.read(1 - side, 64).map(|all| all.len()), Ok(64));
        }
        let used: Vec<u64> = link
            .directions
            .iter()
            .flat_map(|direction| {
                let first = 4 * round;
                (first..first + 4).map(|turn| direction.stream[turn % 32].load(Ordering::Relaxed))
            })
            .collect();
        assert_eq!(used, [0, 2, 4, 6, 6, 4, 2, 0], "round {round}");
        let side = &mut link.sides[0];
        assert!(
            side.writer
                .clone()
                .next(&mut side.pool.clone(), &link.directions[0].stream, 1)
                .was_read
        );
    }
    assert_eq!([link.sides[0].gave, link.sides[1].gave], [0, 0]);
}

#[test]
fn a_stream_without_answers_never_ends_for_lack_of_blocks() {
    let mut link = Link::new(32, 16);
    let mut sent = 0;
    for _ in 0..100 {
        let count = link.write(0, &[7; 1000]).expect("in bounds");
        assert!(count > 0);
        sent += count;
        assert_eq!(link.read(1, 1000).map(|all| all.len()), Ok(count));
    }
    assert!(sent > 10 * link.blocks.bytes());
    assert!(link.sides[1].gave > 10);
    // The reader can write as well meanwhile.
    assert!(link.write(1, &[7; 1000]).expect("in bounds") >= 16 * 16);
}

#[test]
fn new_blocks_are_used_by_both_sides_and_named_by_none_before() {
    let mut link = Link::with_memory(32, 16, 2);
    assert_eq!(link.write(0, &[7; 100]), Ok(2 * 16));
    assert_eq!(link.write(1, &[7; 16]), Ok(16));
    // Block 4 is side 0's, without memory.
    link.directions[1].stream[0].store(4, Ordering::Relaxed);
    assert!(link.read(0, 16).is_err());
    let mut link = Link::with_memory(32, 16, 2);
    link.write(0, &[7; 100]).expect("in bounds");
    // More than there can be, and then fewer.
    for made in [8, 4, u64::MAX, 0] {
        link.made.store(made, Ordering::Relaxed);
        let expected = match made {
            8 => 6 * 16,
            u64::MAX => 8 * 16,
            _ => 0,
        };
        assert_eq!(link.write(0, &[7; 1000]), Ok(expected), "{made}");
    }
    link.made.store(8, Ordering::Relaxed);
    assert_eq!(link.write(1, &[7; 1000]), Ok(8 * 16));
    let used = |turn: usize| link.directions[1].stream[turn].load(Ordering::Relaxed);
    assert_eq!([used(0), used(2), used(7)], [1, 5, 15]);
    assert_eq!(link.read(1, 1000).map(|all| all.len()), Ok(16 * 16));
    assert!(link.write(0, &[7; 16]).expect("in bounds") > 0, "a gift");
}

#[test]
fn what_nobody_reads_leaves_the_other_side_its_share() {
    for reads_first in [false, true] {
        let mut link = Link::new(32, 16);
        if reads_first {
            link.write(0, &[7; 256]).expect("in bounds");
            link.read(1, 256).expect("in bounds");
        }
        while link.write(1, &[7; 1000]).expect("in bounds") > 0 {}
        assert!(link.write(0, &[7; 1000]).expect("in bounds") >= 11 * 16);
    }
}

#[test]
fn a_block_that_the_other_side_does_not_own_ends_the_link() {
    let mut link = Link::new(8, 16);
    assert_eq!(link.write(1, &[1; 16]), Ok(16));
    // Block 0 is the reader's own, block 8 is none.
    for number in [0, 8, u64::MAX] {
        link.directions[1].stream[0].store(number, Ordering::Relaxed);
        let mut side = link.sides[0].reader.clone();
        assert_eq!(side.ready(&link.directions[1].tail, 16), Ok(16));
        let pool = &mut link.sides[0].pool;
        let found = side.next(pool, &link.directions[1].stream, 16);
        assert!(found.is_err(), "{number}");
    }
    // The same of blocks that are given back.
    for (number, count) in [(0, 1), (8, 1), (5, 9)] {
        link.directions[1].returns[0].store(number, Ordering::Relaxed);
        link.directions[1].returned.store(count, Ordering::Relaxed);
        assert!(link.write(0, &[1; 100]).is_err(), "{number} of {count}");
    }
}

#[test]
fn positions_that_cannot_be_end_the_link() {
    for (word, value) in [(0, 8 * 16 + 1), (0, 1 << 40), (1, 17), (1, u64::MAX)] {
        let mut link = Link::new(8, 16);
        link.write(0, &[1; 16]).expect("in bounds");
        link.write(1, &[1; 64]).expect("in bounds");
        match word {
            0 => link.directions[1].tail.store(value, Ordering::Relaxed),
            _ => link.directions[0].head.store(value, Ordering::Relaxed),
        }
        // The whole of the peer's half is read, so that the reader looks whether it has too much.
        assert!(link.read(0, 1000).is_err(), "{word} {value}");
    }
}

/// Each side is stopped between its look and its gift, while the other reads and writes on. Without
/// the block that stays, side 0 would be left with none, and nothing would show side 1 the gift.
#[test]
fn gifts_that_come_late_leave_each_side_a_block() {
    let mut link = Link::new(4, 1);
    let write = |link: &mut Link, side: usize, count: usize| {
        assert_eq!(link.write(side, &vec![7; count]), Ok(count), "side {side}");
    };
    write(&mut link, 0, 1);
    write(&mut link, 1, 2);
    let late = link.read_until_gift(1, 1);
    link.read(0, 1).expect("in bounds");
    write(&mut link, 0, 2);
    link.give(1, late);
    let later = link.read_until_gift(0, 1);
    assert!(late > 0 && later > 0, "both look for a gift");
    assert_eq!(link.read(1, 4).map(|taken| taken.len()), Ok(2));
    link.give(0, later);
    // What this write shows brings back what is too much.
    write(&mut link, 0, 1);
    assert_eq!(link.read(1, 4).map(|taken| taken.len()), Ok(1));
    write(&mut link, 0, 1);
}
