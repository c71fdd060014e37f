//! The ring, the streams through blocks, the cells and the doorbell under loom: every order of the
//! two sides' steps that weak memory allows.

use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use rejoin_ring::blocks::{
    BlockLayout, BlockPool, BlockReader, BlockWriter, DirectionWords, Returns,
};
use rejoin_ring::chunks::{ChunkOwner, ChunkPeer, PeerChunks};
use rejoin_ring::{Reader, Word, Writer, cells, doorbell};

/// Loom's word.
struct Modelled(AtomicU64);

impl Word for Modelled {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.0.swap(value, order)
    }

    fn exchange(&self, old: u64, new: u64) -> Result<(), u64> {
        self.0
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }

    fn fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// The socket that carries wake-ups: one byte or none. A side that waits for a wake-up that never
/// comes is a deadlock, which loom reports.
#[derive(Default)]
struct Socket {
    byte: Mutex<bool>,
    came: Condvar,
}

impl Socket {
    fn send(&self) {
        *self.byte.lock().unwrap() = true;
        self.came.notify_one();
    }

    fn receive(&self) {
        let mut byte = self.byte.lock().unwrap();
        while !*byte {
            byte = self.came.wait(byte).unwrap();
        }
        *byte = false;
    }
}

fn word() -> Modelled {
    Modelled(AtomicU64::new(0))
}

/// A ring whose bytes something else shows, as a cell does: here the word that counts them.
struct Ring {
    shown: Modelled,
    head: Modelled,
    bytes: Vec<UnsafeCell<u8>>,
}

#[test]
fn a_ring_wraps_around() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let ring = Arc::new(Ring {
            shown: word(),
            head: word(),
            bytes: (0..2).map(|_| UnsafeCell::new(0)).collect(),
        });
        let other = Arc::clone(&ring);
        let writer = loom::thread::spawn(move || {
            let mut writer = Writer::new(2);
            for number in 1..=3 {
                while writer.room(&other.head, 1).expect("in bounds") == 0 {
                    loom::thread::yield_now();
                }
                let at = writer.next(1).start;
                // SAFETY: loom itself checks that no other thread uses the cell meanwhile.
                other.bytes[at].with_mut(|byte| unsafe { *byte = number });
                writer.publish(&other.shown);
            }
        });
        let mut reader = Reader::new(2);
        for number in 1..=3 {
            while reader.ready(&ring.shown, 1).expect("in bounds") == 0 {
                loom::thread::yield_now();
            }
            let at = reader.next(1).start;
            // SAFETY: as above.
            let byte = ring.bytes[at].with(|byte| unsafe { *byte });
            assert_eq!(byte, number);
            reader.release(&ring.head);
        }
        writer.join().unwrap();
    });
}

/// Chunks of a batch: each is to be done once, while it is asked for.
struct Work {
    batch: Modelled,
    done: Modelled,
    /// The description of a piece: the number of its batch.
    asked: Vec<UnsafeCell<u8>>,
    /// Its result: the batch that it was done for.
    results: Vec<UnsafeCell<u8>>,
}

impl Work {
    fn copy(&self, index: usize) {
        // SAFETY: loom itself checks that no other thread writes the one or uses the other
        // meanwhile.
        let batch = self.asked[index].with(|asked| unsafe { *asked });
        // SAFETY: as above.
        self.results[index].with_mut(|result| unsafe { *result = batch });
    }

    fn own(&self, batches: u8) {
        let mut owner = ChunkOwner::default();
        for batch in 1..=batches {
            for asked in &self.asked {
                // SAFETY: as above.
                asked.with_mut(|asked| unsafe { *asked = batch });
            }
            owner.describe(&self.batch, self.asked.len());
            while let Some(index) = owner.take(&self.batch) {
                self.copy(index);
            }
            while owner.peer_chunks(&self.done) == PeerChunks::Waiting {
                loom::thread::yield_now();
            }
            for result in &self.results {
                // SAFETY: as above.
                assert_eq!(result.with(|result| unsafe { *result }), batch);
            }
        }
    }

    fn copy_for_owner(&self, polls: u8) {
        let mut peer = ChunkPeer::default();
        for _ in 0..polls {
            if let Some(index) = peer.take(&self.batch) {
                self.copy(index);
                peer.finish(&self.done, index, true);
            }
        }
    }
}

#[test]
fn each_chunk_is_copied_once_while_it_is_described() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let work = Arc::new(Work {
            batch: word(),
            done: word(),
            asked: (0..2).map(|_| UnsafeCell::new(0)).collect(),
            results: (0..2).map(|_| UnsafeCell::new(0)).collect(),
        });
        let other = Arc::clone(&work);
        let peer = loom::thread::spawn(move || other.copy_for_owner(3));
        work.own(2);
        peer.join().unwrap();
    });
}

/// Two streams through blocks that both directions share.
struct Streams {
    blocks: BlockLayout,
    bytes: Vec<UnsafeCell<u8>>,
    directions: [StreamWords; 2],
    made: Modelled,
    doorbells: [Modelled; 2],
    sockets: [Socket; 2],
}

impl Streams {
    /// Of which two blocks of each half have memory.
    fn new(count: usize, size: usize) -> Self {
        let blocks = BlockLayout { count, size };
        Self {
            blocks,
            bytes: (0..blocks.bytes()).map(|_| UnsafeCell::new(0)).collect(),
            directions: [StreamWords::new(count), StreamWords::new(count)],
            made: word(),
            doorbells: [word(), word()],
            sockets: [Socket::default(), Socket::default()],
        }
    }
}

struct StreamWords {
    tail: Modelled,
    head: Modelled,
    stream: Vec<Modelled>,
    returned: Modelled,
    returns: Vec<Modelled>,
}

impl StreamWords {
    fn new(count: usize) -> Self {
        Self {
            tail: word(),
            head: word(),
            stream: (0..count).map(|_| word()).collect(),
            returned: word(),
            returns: (0..count).map(|_| word()).collect(),
        }
    }

    fn returns(&self) -> Returns<'_, Modelled> {
        Returns {
            count: &self.returned,
            table: &self.returns,
        }
    }

    fn shared(&self) -> DirectionWords<'_, Modelled> {
        DirectionWords {
            head: &self.head,
            returned: self.returns(),
        }
    }
}

/// What one side has of them.
struct StreamSide<'a> {
    link: &'a Streams,
    me: usize,
    pool: BlockPool,
    writer: BlockWriter,
    reader: BlockReader,
}

impl<'a> StreamSide<'a> {
    fn new(link: &'a Streams, me: usize) -> Self {
        Self {
            link,
            me,
            pool: BlockPool::new(link.blocks, me == 0, 2),
            writer: BlockWriter::default(),
            reader: BlockReader::new(link.blocks),
        }
    }

    fn has_room(&mut self) -> bool {
        let made = &self.link.made;
        let mut has_room = || {
            let returns = self.link.directions[1 - self.me].returns();
            let room = self.writer.room(&mut self.pool, 1, returns, made);
            room.expect("in bounds") > 0
        };
        // The blocks that have no memory yet get some from whoever lacks room first.
        let all = self.link.blocks.count as u64 / 2;
        has_room()
            || made.load(Ordering::Acquire) < all && {
                made.store(all, Ordering::Release);
                has_room()
            }
    }

    fn has_come(&mut self) -> bool {
        let tail = &self.link.directions[1 - self.me].tail;
        self.reader.ready(tail, 1).expect("in bounds") > 0
    }

    fn sleep_unless(&mut self, wish: u64, ready: fn(&mut Self) -> bool) {
        while !ready(self) {
            doorbell::arm(&self.link.doorbells[self.me], wish);
            if !ready(self) {
                self.link.sockets[self.me].receive();
            }
            doorbell::disarm(&self.link.doorbells[self.me]);
        }
    }

    fn ring(&self, wish: u64) {
        let other = 1 - self.me;
        if doorbell::must_ring(&self.link.doorbells[other], wish) {
            self.link.sockets[other].send();
        }
    }

    /// Copies a number in, which the reader does not see yet.
    fn put(&mut self, number: u8) {
        self.sleep_unless(doorbell::ROOM, Self::has_room);
        let stream = &self.link.directions[self.me].stream;
        let at = self.writer.next(&mut self.pool, stream, 1).range.start;
        // SAFETY: loom itself checks that no other thread uses the cell meanwhile.
        self.link.bytes[at].with_mut(|byte| unsafe { *byte = number });
    }

    fn write(&mut self, number: u8) {
        self.put(number);
        self.writer.publish(&self.link.directions[self.me].tail);
        self.ring(doorbell::DATA);
    }

    /// Takes a number that has come.
    fn take(&mut self) -> u8 {
        let (out, come) = (
            &self.link.directions[self.me],
            &self.link.directions[1 - self.me],
        );
        let range = self.reader.next(&mut self.pool, &come.stream, 1);
        let at = range.expect("in bounds").start;
        // SAFETY: as above.
        let number = self.link.bytes[at].with(|byte| unsafe { *byte });
        let (pool, writer) = (&mut self.pool, &mut self.writer);
        let gave = self
            .reader
            .release(pool, writer, come.shared(), out.shared(), &self.link.made);
        if gave.expect("in bounds") {
            self.ring(doorbell::ROOM);
        }
        number
    }

    fn read(&mut self, number: u8) {
        self.sleep_unless(doorbell::DATA, Self::has_come);
        assert_eq!(self.take(), number);
    }
}

/// Runs both sides over four blocks of so many bytes.
fn streams(size: usize, sides: [fn(&mut StreamSide<'_>); 2]) {
    streams_over(4, size, sides);
}

/// Runs both sides over so many blocks of so many bytes.
fn streams_over(count: usize, size: usize, sides: [fn(&mut StreamSide<'_>); 2]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let link = Arc::new(Streams::new(count, size));
        let other = Arc::clone(&link);
        let second = loom::thread::spawn(move || sides[1](&mut StreamSide::new(&other, 1)));
        sides[0](&mut StreamSide::new(&link, 0));
        second.join().unwrap();
    });
}

#[test]
fn the_doorbell_wakes_a_reader_that_sleeps() {
    streams(
        1,
        [
            |side| (1..3).for_each(|number| side.write(number)),
            |side| (1..3).for_each(|number| side.read(number)),
        ],
    );
}

#[test]
fn blocks_go_to_and_fro() {
    streams(
        1,
        [
            |side| {
                (1..4).for_each(|number| {
                    side.write(number);
                    side.read(10 + number);
                })
            },
            |side| {
                (1..4).for_each(|number| {
                    side.read(number);
                    side.write(10 + number);
                })
            },
        ],
    );
}

#[test]
fn blocks_come_back_to_a_writer_that_sleeps() {
    streams(
        1,
        [
            |side| (1..5).for_each(|number| side.write(number)),
            |side| (1..5).for_each(|number| side.read(number)),
        ],
    );
}

#[test]
fn blocks_get_memory_while_the_other_side_sleeps() {
    streams_over(
        8,
        1,
        [
            |side| (1..8).for_each(|number| side.write(number)),
            |side| {
                (1..6).for_each(|number| side.read(number));
                (1..3).for_each(|number| side.write(number));
                (6..8).for_each(|number| side.read(number));
            },
        ],
    );
}

#[test]
fn both_sides_write_before_they_read() {
    streams(
        2,
        [
            |side| {
                (1..4).for_each(|number| side.write(number));
                (1..3).for_each(|number| side.read(number));
            },
            |side| {
                (1..3).for_each(|number| side.write(number));
                (1..4).for_each(|number| side.read(number));
            },
        ],
    );
}

/// How a number goes beside others.
#[derive(Clone, Copy)]
enum Way {
    /// In a cell.
    Cell,
    /// In the stream, behind a cell.
    Behind,
    /// As a byte of the stream.
    Byte,
}

/// Cells beside a stream: all arrive in the order in which they were sent.
struct Mixed {
    link: Streams,
    firsts: Vec<Modelled>,
    bodies: Vec<UnsafeCell<u8>>,
    head: Modelled,
}

/// The body of this cell is in the stream.
const IN_STREAM: u8 = u8::MAX;

impl Mixed {
    fn new(count: usize) -> Self {
        Self {
            link: Streams::new(4, 1),
            firsts: (0..count).map(|_| word()).collect(),
            bodies: (0..count).map(|_| UnsafeCell::new(0)).collect(),
            head: word(),
        }
    }

    /// Sends numbers, each so where there is a free cell, or as a byte.
    fn write(&self, ways: &[Way]) {
        let mut side = StreamSide::new(&self.link, 0);
        let mut out = cells::CellWriter::new(self.firsts.len());
        for (number, way) in (1u8..).zip(ways) {
            let free = match way {
                Way::Byte => None,
                _ => out.free(&self.head).expect("in bounds"),
            };
            let Some(index) = free else {
                side.write(number);
                continue;
            };
            let after = u64::from(side.writer.position()) << 32;
            let mut body = number;
            if matches!(way, Way::Behind) {
                side.put(number);
                body = IN_STREAM;
            }
            // SAFETY: loom itself checks that no other thread uses it meanwhile.
            self.bodies[index].with_mut(|place| unsafe { *place = body });
            out.publish(&self.firsts[index], after);
            side.ring(doorbell::DATA);
        }
    }

    fn look(&self, come: &cells::CellReader) -> Option<u32> {
        let word = come.look(&self.firsts[come.index()])?;
        Some((word >> 32) as u32)
    }

    /// The next number, if one is there.
    fn take(&self, side: &mut StreamSide<'_>, come: &mut cells::CellReader) -> Option<u8> {
        if self.look(come) == Some(side.reader.position()) {
            // SAFETY: as above.
            let mut number = self.bodies[come.index()].with(|body| unsafe { *body });
            if number == IN_STREAM {
                side.reader.shown(1).expect("in bounds");
                number = side.take();
            }
            come.release(&self.head);
            return Some(number);
        }
        let tail = &self.link.directions[0].tail;
        let mut ready = side.reader.ready(tail, 1).expect("in bounds");
        // Behind the bytes: a cell that comes before them shows now.
        if let Some(after) = self.look(come) {
            ready = ready.min(side.reader.until(after).expect("in bounds"));
        }
        (ready > 0).then(|| side.take())
    }

    fn read(&self, count: u8) {
        let mut side = StreamSide::new(&self.link, 1);
        let mut come = cells::CellReader::new(self.firsts.len());
        for number in 1..=count {
            loop {
                if let Some(taken) = self.take(&mut side, &mut come) {
                    assert_eq!(taken, number);
                    break;
                }
                doorbell::arm(&self.link.doorbells[1], doorbell::DATA);
                let tail = &self.link.directions[0].tail;
                if self.look(&come).is_none() && side.reader.is_empty(tail) {
                    self.link.sockets[1].receive();
                }
                doorbell::disarm(&self.link.doorbells[1]);
            }
        }
    }
}

fn mixed(count: usize, ways: &'static [Way]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let memory = Arc::new(Mixed::new(count));
        let other = Arc::clone(&memory);
        let writer = loom::thread::spawn(move || other.write(ways));
        memory.read(ways.len() as u8);
        writer.join().unwrap();
    });
}

#[test]
fn cells_and_bytes_keep_one_order() {
    mixed(1, &[Way::Cell, Way::Byte, Way::Cell]);
    mixed(2, &[Way::Byte, Way::Cell, Way::Byte]);
}

#[test]
fn bodies_behind_cells_keep_their_order_with_bytes() {
    mixed(2, &[Way::Behind, Way::Byte, Way::Behind]);
    mixed(1, &[Way::Byte, Way::Behind, Way::Cell]);
}

#[test]
fn cells_are_used_again() {
    mixed(1, &[Way::Cell, Way::Cell, Way::Cell]);
    mixed(2, &[Way::Cell, Way::Cell, Way::Cell]);
}
