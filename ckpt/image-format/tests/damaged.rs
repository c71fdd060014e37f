//! Files that are torn, altered, of another process or of another release are refused, whatever the
//! place of the damage; none is read past its end.

use proptest::prelude::*;
use rejoin_image_format::{
    CompressedBlock, ExtentReader, HEADER_LENGTH, HashesPlace, ImageError, ImageHeader,
    ImageIdentity, ImageNumber, MemoryLayout, PAGE, ProcessorFeatures, READER_BUFFER, RESTARTER,
    RegionKind, SavedBase, SavedExtent, SavedRegion, SavedTable, SavedThread, TableCounts,
    TablePlace, WORDS, checksum, checksum_of_pages, compression_room,
};

const IDENTITY: ImageIdentity = ImageIdentity {
    job: 77,
    generation: 2,
    number: ImageNumber::of_checkpoint(5),
    rank: 1,
    incarnation: 3,
    size: 4,
};

/// An image of eight pages in two regions, of which four are compressed, and a file mapping.
struct Sample {
    threads: Vec<SavedThread>,
    regions: Vec<SavedRegion>,
    extents: Vec<SavedExtent>,
    bases: Vec<SavedBase>,
    auxiliary: Vec<u8>,
    names: Vec<u8>,
    identity: ImageIdentity,
}

fn region(start: u64, pages: u64, kind: RegionKind, access: u8) -> SavedRegion {
    SavedRegion {
        start,
        end: start + pages * PAGE,
        kind,
        access,
        advice: 0,
        offset: 0,
        file_length: 0,
        changed: 0,
        name: 0,
        name_length: 0,
        first_extent: 0,
        extents: 0,
    }
}

/// Pages of one byte.
fn pages_of(byte: u8, pages: u32) -> Vec<u8> {
    vec![byte; pages as usize * PAGE as usize]
}

/// The block of such pages, and its bytes in a file.
fn block_of(byte: u8, pages: u32) -> (CompressedBlock, Vec<u8>) {
    let mut room = vec![0; compression_room()];
    let block = CompressedBlock::compress(&pages_of(byte, pages), &mut room);
    let block = block.expect("a block");
    room.truncate(block.stored_length() as usize);
    (block, room)
}

impl Sample {
    fn new() -> Self {
        let code = SavedRegion {
            name_length: 8,
            file_length: 9000,
            extents: 1,
            ..region(0x40_0000, 3, RegionKind::PrivateFile, 5)
        };
        let memory = SavedRegion {
            first_extent: 1,
            extents: 4,
            ..region(0x7f00_0000_0000, 8, RegionKind::Memory, 3)
        };
        let kernel = SavedRegion {
            first_extent: 5,
            ..region(0x7fff_0000_0000, 2, RegionKind::Kernel, 5)
        };
        let extent = |address, position: u64, pages, byte| SavedExtent {
            address,
            position: position * PAGE,
            pages,
            file: 0,
            checksum: checksum_of_pages(&pages_of(byte, pages)),
            block: None,
        };
        Self {
            threads: vec![SavedThread {
                stack: memory.start + 64,
                entry: code.start + 16,
                fs: memory.start,
                gs: 0,
            }],
            regions: vec![code, memory, kernel],
            extents: vec![
                extent(0x40_1000, 1, 1, 1),
                extent(0x7f00_0000_1000, 2, 2, 2),
                SavedExtent {
                    block: Some(block_of(3, 3).0),
                    ..extent(0x7f00_0000_3000, 4, 3, 3)
                },
                extent(0x7f00_0000_6000, 5, 1, 4),
                SavedExtent {
                    file: 1,
                    block: Some(CompressedBlock {
                        first: 2,
                        ..block_of(5, 4).0
                    }),
                    ..extent(0x7f00_0000_7000, 2, 1, 5)
                },
            ],
            bases: vec![SavedBase {
                length: 3 * PAGE,
                checksum: 5,
                name: 8,
                name_length: 6,
            }],
            auxiliary: vec![9; 32],
            names: b"/bin/appbefore".to_vec(),
            identity: IDENTITY,
        }
    }

    fn table(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.threads.iter().for_each(|t| bytes.extend(t.encode()));
        self.regions.iter().for_each(|r| bytes.extend(r.encode()));
        self.extents.iter().for_each(|e| bytes.extend(e.encode()));
        self.bases.iter().for_each(|b| bytes.extend(b.encode()));
        bytes.extend(&self.auxiliary);
        bytes.extend(&self.names);
        bytes
    }

    /// The file, with all checksums right.
    fn file(&self) -> Vec<u8> {
        let table = self.table();
        let own = self.extents.iter().filter(|e| e.file == 0);
        let own: u64 = own.map(SavedExtent::stored_length).sum();
        let hashes = HashesPlace {
            position: HEADER_LENGTH as u64 + own,
            pages: self.extents.iter().map(|e| u64::from(e.pages)).sum(),
            checksum: 0,
        };
        let position = hashes.position + PAGE;
        let length = (position + table.len() as u64).next_multiple_of(PAGE);
        let header = ImageHeader {
            identity: self.identity,
            build: [7; 32],
            processor: ProcessorFeatures { words: [3; WORDS] },
            kernel: [b'6'; 64],
            layout: MemoryLayout { addresses: [1; 11] },
            hashes,
            table: TablePlace {
                position,
                length: table.len() as u64,
                checksum: checksum(&table),
                counts: TableCounts {
                    threads: self.threads.len() as u32,
                    regions: self.regions.len() as u32,
                    extents: self.extents.len() as u32,
                    bases: self.bases.len() as u32,
                    auxiliary: self.auxiliary.len() as u32 / 8,
                },
            },
            length,
        };
        let mut file = header.encode().to_vec();
        for (extent, byte) in self.extents.iter().zip(1..).filter(|(e, _)| e.file == 0) {
            file.extend(match extent.block {
                Some(_) => block_of(byte, extent.pages).1,
                None => pages_of(byte, extent.pages),
            });
        }
        file.resize(position as usize, 0);
        file.extend(&table);
        file.resize(length as usize, 0);
        file
    }
}

/// What the restarter checks, without making anything.
fn check(file: &[u8]) -> Result<(), ImageError> {
    let page = file.first_chunk().ok_or(ImageError::NotAnImage)?;
    let header = ImageHeader::decode(page, file.len() as u64)?;
    let number = ImageNumber::of_checkpoint(5);
    header.identity.check(77, 1, number)?;
    let from = header.table.position as usize;
    let table = SavedTable::new(&header, &file[from..from + header.table.length as usize])?;
    let [mut stored, mut pages] = [(); 2].map(|()| vec![0; READER_BUFFER]);
    let mut reader = ExtentReader::new(&mut stored, &mut pages);
    for region in table.regions() {
        for extent in table.extents_of(&region).filter(|e| e.file == 0) {
            let mut memory = vec![0; extent.length() as usize];
            reader.fill(&extent, &mut memory, |room, position| {
                room.copy_from_slice(&file[position as usize..position as usize + room.len()]);
                Ok::<(), ImageError>(())
            })?;
        }
    }
    Ok(())
}

#[test]
fn an_image_is_read_as_it_was_written() {
    let sample = Sample::new();
    let file = sample.file();
    assert_eq!(check(&file), Ok(()));
    let header = ImageHeader::decode(file.first_chunk().expect("a page"), file.len() as u64);
    let header = header.expect("a header");
    assert_eq!(header.identity, IDENTITY);
    let bytes = sample.table();
    let table = SavedTable::new(&header, &bytes).expect("a table");
    assert_eq!(table.regions().collect::<Vec<_>>(), sample.regions);
    assert_eq!(table.threads().collect::<Vec<_>>(), sample.threads);
    assert_eq!(table.name_of(&sample.regions[0]), b"/bin/app");
    let extents: Vec<_> = table.extents_of(&sample.regions[1]).collect();
    assert_eq!(extents, sample.extents[1..]);
    assert_eq!(table.bases().collect::<Vec<_>>(), sample.bases);
    assert_eq!(table.base_name(&sample.bases[0]), b"before");
    assert_eq!(table.auxiliary(), [9; 32]);
}

#[test]
fn an_image_of_another_process_is_refused() {
    let of = |identity| {
        let sample = Sample {
            identity,
            ..Sample::new()
        };
        check(&sample.file())
    };
    let job = ImageIdentity {
        job: 78,
        ..IDENTITY
    };
    assert_eq!(of(job), Err(ImageError::OtherJob(78)));
    let rank = ImageIdentity {
        rank: 2,
        ..IDENTITY
    };
    assert_eq!(of(rank), Err(ImageError::OtherRank(2)));
    let epoch = ImageIdentity {
        number: ImageNumber { epoch: 5, step: 1 },
        ..IDENTITY
    };
    assert_eq!(of(epoch), Err(ImageError::OtherImage(epoch.number)));
}

#[test]
fn a_newer_format_is_named() {
    let mut file = Sample::new().file();
    file[8] = 9;
    assert_eq!(check(&file), Err(ImageError::Newer(9)));
}

#[test]
fn a_weaker_processor_is_refused_and_a_stronger_one_is_not() {
    let mut needed = ProcessorFeatures::default();
    needed.words[4] = 0b0110;
    let mut machine = needed;
    machine.words[7] = 1;
    assert_eq!(needed.check(&machine), Ok(()));
    machine.words[4] = 0b0101;
    assert_eq!(needed.check(&machine), Err(ImageError::WeakerProcessor(4)));
}

fn change_block(sample: &mut Sample, extent: usize, change: impl FnOnce(&mut CompressedBlock)) {
    change(sample.extents[extent].block.as_mut().expect("a block"));
}

/// Tables whose checksums are right and that contradict themselves.
#[test]
fn a_table_that_contradicts_itself_is_refused() {
    let changes: [fn(&mut Sample); 27] = [
        |s| s.extents[4].file = 2,
        |s| s.extents[4].position = 3 * PAGE,
        |s| s.extents[4].position = 0,
        |s| change_block(s, 2, |b| b.pages = 257),
        |s| change_block(s, 2, |b| b.pages = 4),
        |s| change_block(s, 2, |b| b.first = 1),
        |s| change_block(s, 2, |b| b.length = 0),
        |s| change_block(s, 4, |b| b.length = u32::MAX),
        |s| change_block(s, 4, |b| b.length = 4 * PAGE as u32),
        |s| change_block(s, 4, |b| b.first = 4),
        |s| change_block(s, 4, |b| b.pages = 257),
        |s| s.bases[0].name_length = 7,
        |s| s.names[9] = b'/',
        |s| s.regions[1].end = s.regions[1].start,
        |s| s.regions[1].start += 1,
        |s| s.regions.swap(0, 1),
        |s| s.regions[2].start = s.regions[1].end - PAGE,
        |s| s.regions[1] = region(RESTARTER.start - PAGE, 2, RegionKind::Memory, 3),
        |s| s.regions[2].end = !(PAGE - 1),
        |s| s.regions[0].name_length = 15,
        |s| s.names[0] = b'x',
        |s| s.regions[2].extents = 1,
        |s| s.extents[3].position += PAGE,
        |s| s.extents[1].address = s.regions[1].end - PAGE,
        |s| s.extents[0].pages = 0,
        |s| s.threads[0].entry = s.regions[1].start,
        |s| s.threads.clear(),
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut sample = Sample::new();
        change(&mut sample);
        let found = check(&sample.file());
        assert!(
            matches!(found, Err(ImageError::Malformed(_))),
            "{number}: {found:?}"
        );
    }
}

proptest! {
    #[test]
    fn a_torn_file_is_refused(part in 0.0..1.0f64) {
        let file = Sample::new().file();
        let length = (file.len() as f64 * part) as usize;
        prop_assert!(check(&file[..length]).is_err());
    }

    /// Hashes are compared by the next image alone, and do not count here.
    #[test]
    fn a_file_with_one_altered_bit_is_refused(place in any::<prop::sample::Index>(), bit in 0..8u32) {
        let sample = Sample::new();
        let mut file = sample.file();
        // The rest of the last page is no part of the table.
        let used = file.len() - (PAGE as usize - sample.table().len());
        let at = place.index(used - PAGE as usize);
        let hashes = 6 * PAGE as usize;
        let at = if at < hashes { at } else { at + PAGE as usize };
        // Nor do the zeros after a block.
        let block = sample.extents[2];
        let zeros = block.position + u64::from(block.block.expect("a block").length);
        prop_assume!(!(zeros..block.position + block.stored_length()).contains(&(at as u64)));
        file[at] ^= 1 << bit;
        prop_assert!(check(&file).is_err());
    }

    /// Forged tables with right checksums: either refused, or every extent lies in the file.
    #[test]
    fn a_forged_table_is_never_read_past_its_end(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 1..9usize), 1..4),
    ) {
        let sample = Sample::new();
        let mut table = sample.table();
        for (place, value, count) in changes {
            let at = place.index(table.len());
            for (place, byte) in table[at..].iter_mut().zip(&value.to_le_bytes()[..count]) {
                *place = *byte;
            }
        }
        let file = sample.file();
        let header = ImageHeader::decode(file.first_chunk().expect("a page"), file.len() as u64);
        let mut header = header.expect("a header");
        header.table.checksum = checksum(&table);
        if let Ok(read) = SavedTable::new(&header, &table) {
            for region in read.regions() {
                prop_assert!(read.name_of(&region).len() <= sample.names.len());
                for extent in read.extents_of(&region) {
                    let bases: Vec<_> = read.bases().collect();
                    let end = match extent.file {
                        0 => header.table.position,
                        number => bases[number as usize - 1].length,
                    };
                    prop_assert!(extent.position + extent.stored_length() <= end);
                    prop_assert!(extent.stored_length() <= READER_BUFFER as u64);
                    prop_assert!(extent.address + extent.length() <= region.end);
                    prop_assert!(extent.address >= region.start);
                }
            }
        }
    }

    #[test]
    fn any_header_is_refused_or_describes_the_file(bytes in prop::collection::vec(any::<u8>(), 4096), length in any::<u64>()) {
        let page: &[u8; HEADER_LENGTH] = bytes.first_chunk().expect("a page");
        prop_assert!(ImageHeader::decode(page, length).is_err());
    }

    /// Counts and lengths that no file has allocate nothing and are refused.
    #[test]
    fn forged_counts_are_refused(counts in any::<[u32; 5]>(), length in any::<u64>()) {
        let sample = Sample::new();
        let file = sample.file();
        let page = file.first_chunk().expect("a page");
        let good = ImageHeader::decode(page, file.len() as u64).expect("a header");
        let mut header = good;
        let [threads, regions, extents, bases, auxiliary] = counts;
        header.table.counts = TableCounts { threads, regions, extents, bases, auxiliary };
        let table = sample.table();
        if header.table.counts != good.table.counts {
            prop_assert!(SavedTable::new(&header, &table).is_err());
        }
        header = good;
        header.table.length = length;
        if length > file.len() as u64 {
            prop_assert!(ImageHeader::decode(&header.encode(), file.len() as u64).is_err());
        }
    }
}
