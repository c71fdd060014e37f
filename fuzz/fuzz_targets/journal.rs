//! The central manager's journal: the bytes as a file, and as the message of an entry with right
//! checksums.
#![no_main]

use rejoin_channel_table::JobId;
use rejoin_managers::central::journal::Journal;
use std::io::Write as _;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let path = std::env::temp_dir().join(format!("rejoin-fuzz-journal-{}", std::process::id()));
    std::fs::write(&path, data).expect("written");
    let _ = Journal::resume(&path);
    std::fs::remove_file(&path).expect("removed");
    drop(Journal::create(&path, JobId(7)).expect("a journal"));
    let mut entry = (data.len() as u32).to_le_bytes().to_vec();
    entry.extend(crc32c::crc32c(data).to_le_bytes());
    entry.extend(crc32c::crc32c(&entry).to_le_bytes());
    entry.extend(data);
    let mut file = std::fs::File::options().append(true).open(&path).expect("the journal");
    file.write_all(&entry).expect("written");
    drop(file);
    let _ = Journal::resume(&path);
    std::fs::remove_file(&path).expect("removed");
});
