//! What two local managers say to each other when one copies files of images from the other, after
//! both have proved themselves ([`rejoin_managers_net::auth`]). Numbers are little-endian.
//!
//! | from | what |
//! |---|---|
//! | server | length (2 bytes) and name of its claim in its folder of images |
//! | client | kind (4: 0 the file of an image, 1 a parity; 2 more if a process waits for it), rank (4), checkpoint (4), step of a move after it or 0 (4), and how many bytes of the file it has (8) |
//! | server | 0, or length (2) of the reason why there is no file, and the reason |
//! | server | bytes of the file (8), length of the note (4), checksum of the note (8), the note |
//! | server | for each chunk its length (4), its checksum (8), and its bytes |
//!
//! A client that sees the claim in its own folder asks for nothing: the folder is the same. After a
//! broken connection it continues with the bytes that it lacks.

use rejoin_channel_table::{Epoch, ImageId, MoveNumber, Rank};
use rejoin_ckpt::store::checksum;
use rejoin_managers_protocol::manager_messages::KeptFile;
use std::io::{self, Read, Write};

/// Most bytes of a chunk.
pub const CHUNK: usize = 1 << 20;
/// Most bytes of a note.
const NOTE_LIMIT: u32 = 64 << 20;

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyRequest {
    /// The file.
    pub file: KeptFile,
    /// Bytes of the file that the client has.
    pub from: u64,
    /// A process waits for it: the server keeps to no limit.
    pub is_awaited: bool,
}

/// The bit of the kind that says so.
const AWAITED: u32 = 2;

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} is damaged"))
}

fn read_exactly<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Writes a text of at most 65,535 bytes behind its length.
pub fn write_text(to: &mut impl Write, text: &str) -> io::Result<()> {
    let mut length = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    let bytes = &text.as_bytes()[..length];
    to.write_all(&u16::try_from(length).unwrap_or_default().to_le_bytes())?;
    to.write_all(bytes)
}

/// Reads what [`write_text`] wrote.
pub fn read_text(from: &mut impl Read) -> io::Result<String> {
    let length = u16::from_le_bytes(read_exactly(from)?);
    let mut bytes = vec![0; usize::from(length)];
    from.read_exact(&mut bytes)?;
    String::from_utf8(bytes).map_err(|_| damaged("a text"))
}

/// Writes a request.
pub fn write_request(to: &mut impl Write, request: CopyRequest) -> io::Result<()> {
    let KeptFile {
        rank,
        image,
        is_parity,
    } = request.file;
    let (epoch, step) = image.parts();
    let mut bytes = [0; 24];
    let awaited = if request.is_awaited { AWAITED } else { 0 };
    bytes[..4].copy_from_slice(&(u32::from(is_parity) | awaited).to_le_bytes());
    bytes[4..8].copy_from_slice(&rank.0.to_le_bytes());
    bytes[8..12].copy_from_slice(&epoch.to_le_bytes());
    bytes[12..16].copy_from_slice(&step.to_le_bytes());
    bytes[16..].copy_from_slice(&request.from.to_le_bytes());
    to.write_all(&bytes)
}

/// Reads a request.
pub fn read_request(from: &mut impl Read) -> io::Result<CopyRequest> {
    let kind = u32::from_le_bytes(read_exactly(from)?);
    let is_parity = match kind & !AWAITED {
        0 => false,
        1 => true,
        _ => return Err(damaged("the kind of a file")),
    };
    Ok(CopyRequest {
        file: KeptFile {
            is_parity,
            rank: Rank(u32::from_le_bytes(read_exactly(from)?)),
            image: read_image(from)?,
        },
        from: u64::from_le_bytes(read_exactly(from)?),
        is_awaited: kind & AWAITED != 0,
    })
}

fn read_image(from: &mut impl Read) -> io::Result<ImageId> {
    let after = Epoch(u32::from_le_bytes(read_exactly(from)?));
    Ok(match u32::from_le_bytes(read_exactly(from)?) {
        0 => ImageId::Checkpoint(after),
        step => ImageId::Move(MoveNumber { after, step }),
    })
}

/// Writes the length of the file, and the note.
pub fn write_head(to: &mut impl Write, bytes: u64, note: &[u8]) -> io::Result<()> {
    let length = u32::try_from(note.len()).map_err(|_| damaged("the note"))?;
    to.write_all(&bytes.to_le_bytes())?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&checksum(note).to_le_bytes())?;
    to.write_all(note)
}

/// Reads the length of the file, and the note.
pub fn read_head(from: &mut impl Read) -> io::Result<(u64, Vec<u8>)> {
    let bytes = u64::from_le_bytes(read_exactly(from)?);
    let length = u32::from_le_bytes(read_exactly(from)?);
    if length > NOTE_LIMIT {
        return Err(damaged("the length of the note"));
    }
    let sum = read_exactly(from)?;
    let mut note = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut note)?;
    match note.len() == length as usize && checksum(&note).to_le_bytes() == sum {
        true => Ok((bytes, note)),
        false => Err(damaged("the note")),
    }
}

/// Writes a chunk of the file.
pub fn write_chunk(to: &mut impl Write, chunk: &[u8]) -> io::Result<()> {
    let length = u32::try_from(chunk.len()).map_err(|_| damaged("a chunk"))?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&checksum(chunk).to_le_bytes())?;
    to.write_all(chunk)
}

/// Reads a chunk of the file into a buffer of [`CHUNK`] bytes. Returns its length.
pub fn read_chunk(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let length = u32::from_le_bytes(read_exactly(from)?) as usize;
    let sum: [u8; _] = read_exactly(from)?;
    let chunk = buffer.get_mut(..length).filter(|chunk| !chunk.is_empty());
    let chunk = chunk.ok_or_else(|| damaged("the length of a chunk"))?;
    from.read_exact(chunk)?;
    match checksum(chunk).to_le_bytes() == sum {
        true => Ok(length),
        false => Err(damaged("a chunk")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_damage_is_noticed() {
        let request = CopyRequest {
            file: KeptFile {
                rank: Rank(3),
                image: ImageId::Move(MoveNumber {
                    after: Epoch(9),
                    step: 2,
                }),
                is_parity: true,
            },
            from: 1 << 40,
            is_awaited: true,
        };
        let mut bytes = Vec::new();
        write_text(&mut bytes, "a claim").expect("written");
        write_request(&mut bytes, request).expect("written");
        let head = bytes.len();
        write_head(&mut bytes, 77, b"note").expect("written");
        write_chunk(&mut bytes, b"chunk").expect("written");
        let mut from = &bytes[..];
        let mut buffer = vec![0; CHUNK];
        assert_eq!(read_text(&mut from).expect("a text"), "a claim");
        assert_eq!(read_request(&mut from).expect("a request"), request);
        assert_eq!(
            read_head(&mut from).expect("a head"),
            (77, b"note".to_vec())
        );
        assert_eq!(read_chunk(&mut from, &mut buffer).expect("a chunk"), 5);
        assert_eq!(&buffer[..5], b"chunk");
        // The length of the file stands for itself: a wrong one shows at its end.
        for at in head + 8..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= 0x80;
            let mut from = &altered[head..];
            let read = read_head(&mut from).and_then(|_| read_chunk(&mut from, &mut buffer));
            assert!(read.is_err(), "byte {at} is altered");
        }
        let mut cut = &bytes[head..head + 15];
        assert!(read_head(&mut cut).is_err());
    }
}
