//! The determinants of a recording.

use std::fs::File;

use rejoin_logging::determinants::{DeterminantError, LogMemory, LogPart};
use rejoin_wire::recording::{DETERMINANT_WORDS, RecordingEntry, RecordingReader};

use crate::log::Determinants;

/// Records that a replay's log takes beyond those of the recording.
const ROOM: usize = 1 << 16;
/// Words of a log's header, and of a record.
const HEADER: usize = 16;
const RECORD: usize = 4;

/// The log, from which all is to be repeated, and the number of answers that were given.
///
/// # Errors
/// The recording can't be read, or its determinants contradict each other.
pub(super) fn log_of(file: File) -> Result<(Determinants, u64), String> {
    let mut reader = RecordingReader::new(file).map_err(|error| error.to_string())?;
    let mut records = Vec::new();
    while let Some(located) = reader.next().map_err(|error| error.to_string())? {
        if let RecordingEntry::Determinants { from, records: new } = located.entry {
            add(&mut records, from, new)?;
        }
    }
    let words = reader.words()[..DETERMINANT_WORDS].to_vec();
    let text = |error: DeterminantError| error.to_string();
    let newest = LogPart::read(&words, records.len() as u64).map_err(text)?;
    // One that could not be continued lacks those in between.
    if !reader.is_stopped() || newest.from <= records.len() as u64 {
        add(&mut records, newest.from, newest.records)?;
    }
    let capacity = HEADER + RECORD * (records.len() + ROOM);
    let empty = || Box::new(vec![0_u64; capacity]) as Box<dyn LogMemory + Send>;
    let mut memory = empty();
    let all = LogPart {
        first: 0,
        from: 0,
        answers: newest.answers,
        sends: newest.sends,
        records,
    };
    all.write(&mut memory).map_err(text)?;
    let mut log = Determinants::new(empty()).map_err(text)?;
    log.replay_from(memory).map_err(text)?;
    Ok((log, newest.answers))
}

/// Adds records, of which some may be there already.
fn add(records: &mut Vec<[u64; 4]>, from: u64, new: Vec<[u64; 4]>) -> Result<(), String> {
    let known = (records.len() as u64).checked_sub(from);
    let known = known.ok_or("determinants are missing")?;
    records.extend(new.into_iter().skip(known as usize));
    Ok(())
}
