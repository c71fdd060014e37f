//! A journal that was damaged: it is refused, or holds the records before the place where it was
//! cut. What a forged entry says is decoded or refused.

use proptest::prelude::*;
use rejoin_channel_table::{Epoch, Generation, Incarnation, JobId};
use rejoin_managers::central::journal::{Journal, JournalError};
use rejoin_managers_protocol::central::{HostIndex, Record};
use rejoin_managers_protocol::levels::Level;
use rejoin_managers_protocol::manager_messages::Time;
use rejoin_managers_protocol::region_commits::RegionEpochs;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_tests::folder::Folder;
use rejoin_wire::ImageCost;
use std::path::Path;

fn record() -> impl Strategy<Value = Record> {
    let at = Time(3);
    prop_oneof![
        (1..5usize).prop_map(move |ranks| Record::Began {
            generation: Generation(1),
            incarnations: vec![Incarnation(2); ranks],
            at,
        }),
        any::<u32>().prop_map(|epoch| Record::Requested {
            epoch: Epoch(epoch)
        }),
        any::<u32>().prop_map(move |epoch| Record::Committed {
            epoch: Epoch(epoch),
            level: Level::File,
            at,
            cost: ImageCost::default(),
        }),
        any::<u32>().prop_map(|epoch| Record::RegionsNumbered {
            epoch: Epoch(epoch)
        }),
        any::<Option<u32>>().prop_map(|epoch| Record::RegionsCommitted {
            epochs: RegionEpochs {
                newest: epoch.map(Epoch),
                before: None,
            },
        }),
        any::<u8>().prop_map(|host| Record::HostDone(HostIndex::from(host))),
        ".{0,40}".prop_map(|why| Record::Decided(Verdict::OutputLost { why })),
    ]
}

/// The bytes of a journal of these records.
fn written(folder: &Folder, records: &[Record]) -> Vec<u8> {
    let path = folder.join("journal");
    let _ = std::fs::remove_file(&path);
    let mut journal = Journal::create(&path, JobId(7)).expect("a journal");
    for record in records {
        journal.append(record).expect("a record");
    }
    drop(journal);
    std::fs::read(&path).expect("the journal")
}

fn resumed(path: &Path, bytes: &[u8]) -> Result<Vec<Record>, JournalError> {
    std::fs::write(path, bytes).expect("written");
    let (_journal, job, records) = Journal::resume(path)?;
    assert_eq!(job, JobId(7));
    Ok(records)
}

/// An entry with right checksums over these bytes.
fn forged(message: &[u8]) -> Vec<u8> {
    let mut bytes = (message.len() as u32).to_le_bytes().to_vec();
    bytes.extend(crc32c::crc32c(message).to_le_bytes());
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes.extend(message);
    bytes
}

proptest! {
    #[test]
    fn a_changed_byte_is_noticed_anywhere(
        records in prop::collection::vec(record(), 0..8),
        place in any::<prop::sample::Index>(),
        change in 1u8..,
    ) {
        let folder = Folder::new("journal-changed");
        let mut bytes = written(&folder, &records);
        let at = place.index(bytes.len());
        bytes[at] ^= change;
        prop_assert!(resumed(&folder.join("copy"), &bytes).is_err());
    }

    #[test]
    fn a_cut_journal_has_the_records_before_the_cut(
        records in prop::collection::vec(record(), 0..8),
        place in any::<prop::sample::Index>(),
    ) {
        let folder = Folder::new("journal-cut");
        let bytes = written(&folder, &records);
        let at = place.index(bytes.len() + 1);
        let mut begun = (0..=records.len()).map(|count| written(&folder, &records[..count]));
        let whole = begun.rfind(|begun| begun.len() <= at);
        let read = resumed(&folder.join("copy"), &bytes[..at]);
        match whole {
            // Not even the job's name.
            None => {
                let is_empty = matches!(read, Err(JournalError::Empty { .. }));
                prop_assert!(is_empty);
            }
            Some(whole) => {
                let expected = resumed(&folder.join("copy"), &whole).expect("whole");
                prop_assert_eq!(read.expect("a beginning"), expected);
            }
        }
    }

    #[test]
    fn forged_entries_are_decoded_or_refused(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..4),
        length in any::<Option<u32>>(),
    ) {
        let folder = Folder::new("journal-forged");
        let mut bytes = written(&folder, &[]);
        for message in &messages {
            bytes.extend(forged(message));
        }
        if let Some(length) = length {
            // The head of an entry as long as that, which is not there.
            let mut head = length.to_le_bytes().to_vec();
            head.extend([0; 4]);
            head.extend(crc32c::crc32c(&head).to_le_bytes());
            bytes.extend(head);
        }
        let _ = resumed(&folder.join("copy"), &bytes);
    }
}
