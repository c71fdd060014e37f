use super::*;
use std::sync::atomic::Ordering;

fn word(memory: &LinkMemory, place: SharedWord) -> &AtomicU64 {
    // SAFETY: the memory is mapped while it is borrowed.
    unsafe { memory.word(place).as_ref() }
}

#[test]
fn both_ends_see_the_same_memory() {
    let (ours, fd) = LinkMemory::make(LEAST).expect("made");
    let theirs = LinkMemory::open(fd).expect("mapped");
    assert_eq!(theirs.blocks().bytes(), 2 * LEAST);
    let all = [Direction::FromDialer, Direction::ToDialer]
        .into_iter()
        .flat_map(|d| {
            [
                SharedWord::Doorbell(d),
                SharedWord::Tail(d),
                SharedWord::Head(d),
            ]
        });
    for (number, place) in all.clone().enumerate() {
        word(&ours, place).store(number as u64 + 1, Ordering::Relaxed);
    }
    for (number, place) in all.enumerate() {
        assert_eq!(
            word(&theirs, place).load(Ordering::Relaxed),
            number as u64 + 1
        );
    }
    // SAFETY: the first byte of a block, and the last of all.
    unsafe {
        ours.first_block().write(7);
        ours.first_block().add(2 * LEAST - 1).write(8);
        assert_eq!(theirs.first_block().read(), 7);
        assert_eq!(theirs.first_block().add(2 * LEAST - 1).read(), 8);
    }
    let entries = |memory: &LinkMemory, table| {
        // SAFETY: the memory is mapped while it is borrowed.
        let entries = unsafe { memory.table(table).as_ref() };
        assert_eq!(entries.len(), 2 * LEAST / BLOCK);
        entries.as_ptr_range()
    };
    let tables = [
        BlockTable::Stream(Direction::FromDialer),
        BlockTable::Stream(Direction::ToDialer),
        BlockTable::Returned(Direction::FromDialer),
        BlockTable::Returned(Direction::ToDialer),
    ];
    // They lie one behind the other, between the small rings and the blocks.
    let behind = ours
        .small_ring(Direction::ToDialer)
        .as_ptr()
        .wrapping_add(SMALL_RING);
    let mut end = behind.cast_const().cast();
    for table in tables {
        let range = entries(&ours, table);
        assert_eq!(range.start, end);
        end = range.end;
    }
    assert!(end <= ours.first_block().as_ptr().cast_const().cast());
}

#[test]
fn blocks_get_memory_when_a_side_asks_for_it() {
    let (ours, fd) = LinkMemory::make(8 * LEAST).expect("made");
    let file = fd.try_clone().map(File::from).expect("a copy");
    let has = || {
        use std::os::unix::fs::MetadataExt;
        file.metadata().expect("its data").blocks() as usize * 512
    };
    let theirs = LinkMemory::open(fd).expect("mapped");
    // Memory of a system with huge pages for all of it comes in larger pieces.
    let has_all = |bytes: usize| has() >= bytes;
    if !block_growth::is_possible(ours.start) {
        assert!(has_all(ours.used()) && ours.growth().made() == 16);
        return;
    }
    assert_eq!(ours.used(), bytes_with(8 * LEAST, FIRST_BLOCKS));
    assert!(has_all(ours.used()));
    let (few, _fd) = LinkMemory::make(8 * LEAST).expect("made");
    let mut crowded = few.growth().between(true);
    while crowded.extend() {}
    assert_eq!(crowded.made(), 16);
    let (mut one, mut other) = (ours.growth(), theirs.growth());
    for made in [4, 8, 16, 32] {
        assert!(one.extend());
        assert_eq!((one.made(), other.made()), (made, made));
        assert_eq!(theirs.used(), ours.used());
        assert!(has_all(ours.used()), "{made}");
        std::mem::swap(&mut one, &mut other);
    }
    assert_eq!(ours.used(), length(8 * LEAST));
    assert!(!one.extend() && !other.extend(), "there are no more");
    // What a malicious peer says has no effect beyond the blocks, and ends.
    for said in [0, 1, u64::MAX] {
        word(&ours, SharedWord::Made).store(said, Ordering::Relaxed);
        assert!((FIRST_BLOCKS..=32).contains(&other.made()), "{said}");
        let mut again = theirs.growth();
        assert!((0..9).any(|_| !again.extend()), "{said}");
    }
}

#[test]
fn foreign_memory_is_refused() {
    let plain = create().expect("a file");
    let file = File::from(plain);
    file.set_len(length(LEAST) as u64).expect("long");
    let said = LinkMemory::open(file.into()).err().map(|e| e.to_string());
    assert_eq!(said.as_deref(), Some("the peer's memory may shrink"));
    for bytes in [
        0,
        4096,
        length(LEAST) + 1,
        length(LEAST / 2),
        length(MOST * 2),
    ] {
        let file = File::from(create().expect("a file"));
        file.set_len(bytes as u64).expect("long");
        if bytes > WORDS {
            let place = SharedWord::Version(Direction::FromDialer).offset();
            file.write_all_at(&LAYOUT.to_ne_bytes(), place)
                .expect("said");
        }
        let seals = SealFlag::F_SEAL_SHRINK;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).expect("sealed");
        assert!(LinkMemory::open(file.into()).is_err(), "{bytes}");
    }
    let null = File::open("/dev/null").expect("open");
    assert!(LinkMemory::open(null.into()).is_err());
}

#[test]
fn memory_of_another_layout_is_refused_and_both_sides_know_why() {
    let (ours, fd) = LinkMemory::make(LEAST).expect("made");
    assert!(ours.agreed(false).is_ok(), "nobody has looked at it");
    assert!(ours.agreed(true).is_err(), "who opens it says so");
    let fits = LinkMemory::open(fd.try_clone().expect("a copy")).is_ok();
    assert!(fits && ours.agreed(true).is_ok());
    let says = |theirs: u64| {
        format!(
            "the peer lays out shared memory by version {theirs}, this rank by version {LAYOUT}: \
             they are of different builds of Rejoin"
        )
    };
    for theirs in [0, LAYOUT + 1] {
        let version = word(&ours, SharedWord::Version(Direction::FromDialer));
        version.store(theirs, Ordering::Relaxed);
        word(&ours, SharedWord::Version(Direction::ToDialer)).store(0, Ordering::Relaxed);
        let refused = LinkMemory::open(fd.try_clone().expect("a copy")).err();
        assert_eq!(refused.map(|e| e.to_string()), Some(says(theirs)));
        // The other side's view of this side's secret.
        assert!(ours.agreed(true).is_ok());
    }
    let version = word(&ours, SharedWord::Version(Direction::ToDialer));
    version.store(LAYOUT + 2, Ordering::Relaxed);
    for opened in [false, true] {
        let said = ours.agreed(opened).err();
        assert_eq!(said.map(|e| e.to_string()), Some(says(LAYOUT + 2)));
    }
    // A later layout may be of another length: its version is what counts.
    let later = File::from(create().expect("a file"));
    later.set_len(length(LEAST) as u64 + 4096).expect("long");
    let place = SharedWord::Version(Direction::FromDialer).offset();
    let written = later.write_all_at(&(LAYOUT + 3).to_ne_bytes(), place);
    written.expect("written");
    let shrinks_not = FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK);
    fcntl(&later, shrinks_not).expect("sealed");
    let refused = LinkMemory::open(later.into()).err().map(|e| e.to_string());
    assert_eq!(refused, Some(says(LAYOUT + 3)));
}

#[test]
fn it_stays_out_of_forks() {
    let (memory, _fd) = LinkMemory::make(LEAST).expect("made");
    let start = memory.start.as_ptr() as usize;
    let text = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
    let mut lines = text.lines();
    let of = format!("{start:x}-");
    let head = lines.find(|line| line.starts_with(&of)).expect("mapped");
    assert!(head.ends_with("/memfd:rejoin-ring (deleted)"), "{head}");
    let flags = lines.find(|line| line.starts_with("VmFlags:"));
    assert!(flags.expect("flags").split(' ').any(|f| f == "dc"));
}
