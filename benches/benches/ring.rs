//! The cost of a ring's indices: one side writes and the other reads, on one thread and without
//! memory.

use std::sync::atomic::AtomicU64;

use criterion::{Criterion, criterion_group, criterion_main};
use rejoin_ring::{Reader, Writer, cells};

/// Bytes of the ring of bytes, and number of cells.
const BYTES: usize = 1 << 16;
const CELLS: usize = 64;

fn bytes(c: &mut Criterion) {
    let (head, tail) = (AtomicU64::new(0), AtomicU64::new(0));
    let (mut writer, mut reader) = (Writer::new(BYTES), Reader::new(BYTES));
    c.bench_function("ring: 256 bytes in and out", |b| {
        b.iter(|| {
            let room = writer.room(&head, 256).expect("a ring");
            let written = writer.next(room);
            writer.publish(&tail);
            let ready = reader.ready(&tail, 256).expect("a ring");
            let read = reader.next(ready);
            reader.release(&head);
            assert_eq!(written, read);
        });
    });
}

fn cell(c: &mut Criterion) {
    let head = AtomicU64::new(0);
    let first: Vec<AtomicU64> = (0..CELLS).map(|_| AtomicU64::new(0)).collect();
    let (mut writer, mut reader) = (cells::CellWriter::new(CELLS), cells::CellReader::new(CELLS));
    c.bench_function("ring: a cell in and out", |b| {
        b.iter(|| {
            let at = writer.free(&head).expect("cells").expect("a free one");
            writer.publish(&first[at], 64);
            let word = reader.look(&first[reader.index()]);
            reader.release(&head);
            assert!(word.is_some());
        });
    });
}

criterion_group!(benches, bytes, cell);
criterion_main!(benches);
