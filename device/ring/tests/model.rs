//! The ring and its doorbell under loom: every order of the two sides' steps that weak memory
//! allows.

use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use rejoin_ring::blocks::{BlockLayout, BlockPool, BlockReader, BlockWriter, Returns};
use rejoin_ring::chunks::{ChunkOwner, Helped, Helper};
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

struct Shared {
    tail: Modelled,
    head: Modelled,
    bytes: Vec<UnsafeCell<u8>>,
    /// Wishes of the writer and of the reader, and their sockets.
    doorbells: [Modelled; 2],
    sockets: [Socket; 2],
}

const WRITER: usize = 0;
const READER: usize = 1;

fn word() -> Modelled {
    Modelled(AtomicU64::new(0))
}

fn shared(capacity: usize) -> Arc<Shared> {
    Arc::new(Shared {
        tail: word(),
        head: word(),
        bytes: (0..capacity).map(|_| UnsafeCell::new(0)).collect(),
        doorbells: [word(), word()],
        sockets: [Socket::default(), Socket::default()],
    })
}

impl Shared {
    fn ring(&self, side: usize, wish: u64) {
        if doorbell::must_ring(&self.doorbells[side], wish) {
            self.sockets[side].send();
        }
    }

    fn write(&self, count: u8) {
        let mut writer = Writer::new(self.bytes.len());
        for number in 0..count {
            while writer.room(&self.head, 1).expect("in bounds") == 0 {
                doorbell::arm(&self.doorbells[WRITER], doorbell::ROOM);
                if writer.room(&self.head, 1).expect("in bounds") == 0 {
                    self.sockets[WRITER].receive();
                }
                doorbell::disarm(&self.doorbells[WRITER]);
            }
            let at = writer.next(1);
            // SAFETY: loom itself checks that no other thread uses the cell meanwhile.
            self.bytes[at.start].with_mut(|byte| unsafe { *byte = number + 1 });
            writer.publish(&self.tail);
            self.ring(READER, doorbell::DATA);
        }
    }

    fn read(&self, count: u8) {
        let mut reader = Reader::new(self.bytes.len());
        for number in 0..count {
            while reader.ready(&self.tail, 1).expect("in bounds") == 0 {
                doorbell::arm(&self.doorbells[READER], doorbell::DATA);
                // Bytes released without a fence.
                self.ring(WRITER, doorbell::ROOM);
                if reader.ready(&self.tail, 1).expect("in bounds") == 0 {
                    self.sockets[READER].receive();
                }
                doorbell::disarm(&self.doorbells[READER]);
            }
            let crowded = reader.is_crowded();
            let at = reader.next(1);
            // SAFETY: as above.
            let byte = self.bytes[at.start].with(|byte| unsafe { *byte });
            assert_eq!(byte, number + 1);
            reader.release(&self.head);
            if crowded {
                self.ring(WRITER, doorbell::ROOM);
            }
        }
    }
}

fn model(capacity: usize, count: u8) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let shared = shared(capacity);
        let other = Arc::clone(&shared);
        let writer = loom::thread::spawn(move || other.write(count));
        shared.read(count);
        writer.join().unwrap();
    });
}

#[test]
fn the_doorbell_wakes_a_reader_that_sleeps() {
    model(4, 2);
}

#[test]
fn the_doorbell_wakes_a_writer_that_sleeps() {
    model(1, 2);
}

#[test]
fn bytes_wrap_around_while_both_sides_sleep_and_wake() {
    model(2, 3);
}

/// Cells beside bytes: both arrive in the order in which they were sent.
struct Mixed {
    bytes: Arc<Shared>,
    firsts: Vec<Modelled>,
    bodies: Vec<UnsafeCell<u8>>,
    head: Modelled,
}

impl Mixed {
    fn new(capacity: usize, count: usize) -> Self {
        Self {
            bytes: shared(capacity),
            firsts: (0..count).map(|_| word()).collect(),
            bodies: (0..count).map(|_| UnsafeCell::new(0)).collect(),
            head: word(),
        }
    }

    /// Sends numbers, each as a cell where that is wanted and one is free, or as a byte.
    fn write(&self, wanted: &[bool]) {
        let mut writer = Writer::new(self.bytes.bytes.len());
        let mut out = cells::CellWriter::new(self.firsts.len());
        for (number, as_cell) in (1u8..).zip(wanted) {
            let free = as_cell.then(|| out.free(&self.head).expect("in bounds"));
            if let Some(index) = free.flatten() {
                // SAFETY: loom itself checks that no other thread uses it meanwhile.
                self.bodies[index].with_mut(|body| unsafe { *body = number });
                let after = u64::from(writer.position()) << 32;
                out.publish(&self.firsts[index], after);
            } else {
                assert_eq!(writer.room(&self.bytes.head, 1), Ok(1), "enough for all");
                let at = writer.next(1);
                // SAFETY: as above.
                self.bytes.bytes[at.start].with_mut(|byte| unsafe { *byte = number });
                writer.publish(&self.bytes.tail);
            }
            self.bytes.ring(READER, doorbell::DATA);
        }
    }

    /// The next number, if one is there.
    fn take(&self, reader: &mut Reader, come: &mut cells::CellReader) -> Option<u8> {
        let index = come.index();
        let look = |come: &cells::CellReader| {
            come.look(&self.firsts[index])
                .map(|word| (word >> 32) as u32)
        };
        if look(come) == Some(reader.position()) {
            // SAFETY: as above.
            let number = self.bodies[index].with(|body| unsafe { *body });
            come.release(&self.head);
            return Some(number);
        }
        let mut ready = reader.ready(&self.bytes.tail, 1).expect("in bounds");
        // Behind the bytes: a cell that comes before them shows now.
        if let Some(after) = look(come) {
            ready = ready.min(reader.until(after).expect("in bounds"));
        }
        if ready == 0 {
            return None;
        }
        let at = reader.next(1);
        // SAFETY: as above.
        let number = self.bytes.bytes[at.start].with(|byte| unsafe { *byte });
        reader.release(&self.bytes.head);
        Some(number)
    }

    fn read(&self, count: u8) {
        let mut reader = Reader::new(self.bytes.bytes.len());
        let mut come = cells::CellReader::new(self.firsts.len());
        for number in 1..=count {
            loop {
                let taken = self.take(&mut reader, &mut come);
                if let Some(taken) = taken {
                    assert_eq!(taken, number);
                    break;
                }
                doorbell::arm(&self.bytes.doorbells[READER], doorbell::DATA);
                let idle = come.look(&self.firsts[come.index()]).is_none()
                    && reader.is_empty(&self.bytes.tail);
                if idle {
                    self.bytes.sockets[READER].receive();
                }
                doorbell::disarm(&self.bytes.doorbells[READER]);
            }
        }
    }
}

fn mixed(count: usize, wanted: &'static [bool]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let memory = Arc::new(Mixed::new(4, count));
        let other = Arc::clone(&memory);
        let writer = loom::thread::spawn(move || other.write(wanted));
        memory.read(wanted.len() as u8);
        writer.join().unwrap();
    });
}

#[test]
fn cells_and_bytes_keep_one_order() {
    mixed(1, &[true, false, true]);
    mixed(2, &[false, true, false]);
}

#[test]
fn cells_are_used_again() {
    mixed(1, &[true, true, true]);
    mixed(2, &[true, true, true]);
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
    fn carry_out(&self, index: usize) {
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
            owner.lay_out(&self.batch, self.asked.len());
            while let Some(index) = owner.take(&self.batch) {
                self.carry_out(index);
            }
            while owner.helped(&self.done) == Helped::Waiting {
                loom::thread::yield_now();
            }
            for result in &self.results {
                // SAFETY: as above.
                assert_eq!(result.with(|result| unsafe { *result }), batch);
            }
        }
    }

    fn help(&self, looks: u8) {
        let mut helper = Helper::default();
        for _ in 0..looks {
            if let Some(index) = helper.take(&self.batch) {
                self.carry_out(index);
                helper.over(&self.done, index, true);
            }
        }
    }
}

#[test]
fn each_piece_is_done_once_while_it_is_asked_for() {
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
        let helper = loom::thread::spawn(move || other.help(3));
        work.own(2);
        helper.join().unwrap();
    });
}

/// Two streams through blocks that both directions share.
struct Streams {
    blocks: BlockLayout,
    bytes: Vec<UnsafeCell<u8>>,
    directions: [StreamWords; 2],
    doorbells: [Modelled; 2],
    sockets: [Socket; 2],
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
            pool: BlockPool::new(link.blocks, me == 0),
            writer: BlockWriter::default(),
            reader: BlockReader::new(link.blocks),
        }
    }

    fn has_room(&mut self) -> bool {
        let returns = self.link.directions[1 - self.me].returns();
        self.writer
            .room(&mut self.pool, 1, returns)
            .expect("in bounds")
            > 0
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

    fn write(&mut self, number: u8) {
        self.sleep_unless(doorbell::ROOM, Self::has_room);
        let out = &self.link.directions[self.me];
        let at = self.writer.next(&mut self.pool, &out.stream, 1).range.start;
        // SAFETY: loom itself checks that no other thread uses the cell meanwhile.
        self.link.bytes[at].with_mut(|byte| unsafe { *byte = number });
        self.writer.publish(&out.tail);
        self.ring(doorbell::DATA);
    }

    fn read(&mut self, number: u8) {
        self.sleep_unless(doorbell::DATA, Self::has_come);
        let (out, come) = (
            &self.link.directions[self.me],
            &self.link.directions[1 - self.me],
        );
        let range = self.reader.next(&mut self.pool, &come.stream, 1);
        let at = range.expect("in bounds").start;
        // SAFETY: as above.
        let byte = self.link.bytes[at].with(|byte| unsafe { *byte });
        assert_eq!(byte, number);
        let back = (&out.head, come.returns(), out.returns());
        let blocks = (&mut self.pool, &mut self.writer);
        let gave = self.reader.release(&come.head, blocks, back);
        if gave.expect("in bounds") {
            self.ring(doorbell::ROOM);
        }
    }
}

/// Runs both sides over four blocks of so many bytes.
fn streams(size: usize, sides: [fn(&mut StreamSide<'_>); 2]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let blocks = BlockLayout { count: 4, size };
        let link = Arc::new(Streams {
            blocks,
            bytes: (0..blocks.bytes()).map(|_| UnsafeCell::new(0)).collect(),
            directions: [StreamWords::new(4), StreamWords::new(4)],
            doorbells: [word(), word()],
            sockets: [Socket::default(), Socket::default()],
        });
        let other = Arc::clone(&link);
        let second = loom::thread::spawn(move || sides[1](&mut StreamSide::new(&other, 1)));
        sides[0](&mut StreamSide::new(&link, 0));
        second.join().unwrap();
    });
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
