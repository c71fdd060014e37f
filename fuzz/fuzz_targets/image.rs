//! The header, the table and the compressed blocks of a process image, with right checksums over
//! whatever comes.
#![no_main]

use rejoin_image_format::{
    CompressedBlock, EXTENT_PAGES, HEADER_LENGTH, HashesPlace, ImageHeader, ImageIdentity,
    MemoryLayout, PAGE, ProcessorFeatures, READER_BUFFER, SavedTable, TableCounts, TablePlace,
    checksum,
};

/// The bytes as a block of some pages: no panic, and nothing beyond the memory.
fn decompress(data: &[u8]) {
    let pages = data
        .first()
        .map_or(1, |byte| u32::from(*byte) % EXTENT_PAGES + 1);
    let block = CompressedBlock {
        length: data.len() as u32,
        pages: pages as u16,
        first: 0,
        checksum: checksum(data),
    };
    let mut memory = vec![0; (u64::from(pages) * PAGE) as usize];
    let _ = block.decompress(data, &mut memory);
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(page) = data.first_chunk::<HEADER_LENGTH>() {
        let _ = ImageHeader::decode(page, data.len() as u64);
    }
    decompress(data);
    let Some((counts, table)) = data.split_at_checked(32) else {
        return;
    };
    let word = |at: usize| {
        u32::from_le_bytes([counts[at], counts[at + 1], counts[at + 2], counts[at + 3]])
    };
    let position = u64::from(word(16)) << 12 | u64::from(word(20) & 1);
    let header = ImageHeader {
        identity: ImageIdentity::decode(&[0; ImageIdentity::LENGTH]),
        build: [0; 32],
        processor: ProcessorFeatures::default(),
        kernel: [0; 64],
        layout: MemoryLayout::default(),
        hashes: HashesPlace {
            position,
            pages: word(28).into(),
            checksum: 0,
        },
        table: TablePlace {
            position,
            length: table.len() as u64,
            checksum: checksum(table),
            counts: TableCounts {
                threads: word(0) & 0xf,
                regions: word(4) & 0xff,
                extents: word(8) & 0xff,
                bases: word(24) & 0xf,
                auxiliary: word(12) & 0xf,
            },
        },
        length: position,
    };
    let Ok(read) = SavedTable::new(&header, table) else {
        return;
    };
    for region in read.regions() {
        assert!(read.name_of(&region).len() <= table.len());
        for extent in read.extents_of(&region) {
            let base = (extent.file as usize).checked_sub(1);
            let base = base.map(|number| read.bases().nth(number).expect("a base").length);
            assert!(extent.position + extent.stored_length() <= base.unwrap_or(position));
            assert!(extent.stored_length() <= READER_BUFFER as u64);
            assert!(region.start <= extent.address);
            assert!(extent.address + extent.length() <= region.end);
        }
    }
});
