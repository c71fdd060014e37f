//! Files of entries: messages of the managers' codec, each behind a head that shows whether it is
//! whole. Such a file is appended to. An entry that the end of its writer has cut short is the last
//! one, and was never acted upon.

use rejoin_wire::codec::{FrameReader, MANAGER_LIMIT, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes before each message: its length, its CRC-32C, and the CRC-32C of these two. A damaged
/// length is so no entry that was cut short.
pub const HEAD: usize = 12;

/// An entry that is not what was written, and why that shows.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TornEntry(String);

/// A message with its head.
///
/// # Errors
/// The message is too long.
pub fn entry<T: Serialize>(message: &T) -> Result<Vec<u8>, TornEntry> {
    let mut bytes = vec![0; HEAD];
    let torn = |error: &dyn std::fmt::Display| TornEntry(error.to_string());
    encode(message, MANAGER_LIMIT, &mut bytes).map_err(|error| torn(&error))?;
    let length = u32::try_from(bytes.len() - HEAD).map_err(|error| torn(&error))?;
    let sum = crc32c::crc32c(&bytes[HEAD..]);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..8]);
    bytes[8..HEAD].copy_from_slice(&sum.to_le_bytes());
    Ok(bytes)
}

/// The next whole entry. `None`: there is none, or it was cut short.
///
/// # Errors
/// The entry was altered.
pub fn next<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, TornEntry> {
    let number = |at: usize| {
        rest.get(at..at + 4)?
            .try_into()
            .ok()
            .map(u32::from_le_bytes)
    };
    let (Some(length), Some(sum), Some(head)) = (number(0), number(4), number(8)) else {
        return Ok(None);
    };
    if crc32c::crc32c(&rest[..8]) != head {
        let why = "the head of an entry does not match its checksum";
        return Err(TornEntry(why.into()));
    }
    let Some((entry, others)) = rest.split_at_checked(HEAD + length as usize) else {
        return Ok(None);
    };
    if crc32c::crc32c(&entry[HEAD..]) != sum {
        return Err(TornEntry("an entry does not match its checksum".into()));
    }
    *rest = others;
    Ok(Some(entry))
}

/// The message of an entry.
///
/// # Errors
/// The entry is no message of this type.
pub fn decode<T: DeserializeOwned>(entry: &[u8]) -> Result<T, TornEntry> {
    let mut reader = FrameReader::new(MANAGER_LIMIT);
    reader.push(entry.get(HEAD..).unwrap_or_default());
    match reader.next() {
        Ok(Some(message)) if reader.unread() == 0 => Ok(message),
        Ok(_) => Err(TornEntry("an entry is no whole message".into())),
        Err(error) => Err(TornEntry(error.to_string())),
    }
}
