//! The ring and its bell under loom: every order of the two sides' steps, and what weak memory allows.

use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use rejoin_ring::{Reader, Word, Writer, bell};

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

    fn fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// The socket that carries wake-ups: one byte or none. Whoever waits for a wake-up that never comes
/// is a deadlock, which loom reports.
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
    bells: [Modelled; 2],
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
        bells: [word(), word()],
        sockets: [Socket::default(), Socket::default()],
    })
}

impl Shared {
    fn ring(&self, side: usize, wish: u64) {
        if bell::must_ring(&self.bells[side], wish) {
            self.sockets[side].send();
        }
    }

    fn write(&self, count: u8) {
        let mut writer = Writer::new(self.bytes.len());
        for number in 0..count {
            while writer.room(&self.head, 1).expect("in bounds") == 0 {
                bell::arm(&self.bells[WRITER], bell::ROOM);
                if writer.room(&self.head, 1).expect("in bounds") == 0 {
                    self.sockets[WRITER].receive();
                }
                bell::disarm(&self.bells[WRITER]);
            }
            let at = writer.next(1);
            // SAFETY: loom itself checks that nobody else uses the cell meanwhile.
            self.bytes[at.start].with_mut(|byte| unsafe { *byte = number + 1 });
            writer.publish(&self.tail);
            self.ring(READER, bell::DATA);
        }
    }

    fn read(&self, count: u8) {
        let mut reader = Reader::new(self.bytes.len());
        for number in 0..count {
            while reader.ready(&self.tail, 1).expect("in bounds") == 0 {
                bell::arm(&self.bells[READER], bell::DATA);
                // What was released without a fence.
                self.ring(WRITER, bell::ROOM);
                if reader.ready(&self.tail, 1).expect("in bounds") == 0 {
                    self.sockets[READER].receive();
                }
                bell::disarm(&self.bells[READER]);
            }
            let crowded = reader.is_crowded();
            let at = reader.next(1);
            // SAFETY: as above.
            let byte = self.bytes[at.start].with(|byte| unsafe { *byte });
            assert_eq!(byte, number + 1);
            reader.release(&self.head);
            if crowded {
                self.ring(WRITER, bell::ROOM);
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
fn a_reader_that_sleeps_is_woken() {
    model(4, 2);
}

#[test]
fn a_writer_that_sleeps_is_woken() {
    model(1, 2);
}

#[test]
fn bytes_wrap_around_while_both_sides_sleep_and_wake() {
    model(2, 3);
}
