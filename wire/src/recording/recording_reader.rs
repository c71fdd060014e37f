//! Reads the entries of a recording, one after the other.

use std::io::{self, Read, Seek, SeekFrom};

use super::{
    ENTRY_LIMIT, HEADER_BYTES, MAGIC, MAGIC_WORD, RecordingEntry, STAGE, STAGE_WORDS, STAGED_AT,
    STAGED_BYTES, STOPPED, filled,
};
use crate::codec::{CodecError, FrameReader};

/// An error of a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The system can't read the file.
    #[error("can't be read: {0}")]
    Read(#[from] io::Error),
    /// The file is none, or one of another version.
    #[error("is no recording of this version of Rejoin")]
    NoRecording,
    /// The file is damaged.
    #[error("is damaged at byte {at}: {problem}")]
    Damaged {
        /// The entry that can't be understood.
        at: u64,
        /// What does not fit the format.
        problem: String,
    },
}

/// An entry, and where its body is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The entry.
    pub entry: RecordingEntry,
    /// Offset of the first byte of its body.
    pub body: u64,
}

/// Reads a recording from its beginning. An entry that was cut short by the end of the rank is
/// none.
#[derive(Debug)]
pub struct RecordingReader<R> {
    file: R,
    words: Vec<u64>,
    /// Bytes that belong into the file from `staged_at` on.
    staged: Vec<u8>,
    staged_at: u64,
    /// Offset of the next entry, and of the end.
    at: u64,
    end: u64,
    /// Bytes of the file from `window_at` on.
    window: Vec<u8>,
    window_at: u64,
}

/// Bytes that are read at once.
const WINDOW: u64 = 256 << 10;

impl<R: Read + Seek> RecordingReader<R> {
    /// Begins with the first entry.
    ///
    /// # Errors
    /// The file can't be read, or is no recording.
    pub fn new(mut file: R) -> Result<Self, RecordingError> {
        let length = file.seek(SeekFrom::End(0))?;
        if length < HEADER_BYTES as u64 {
            return Err(RecordingError::NoRecording);
        }
        let mut header = vec![0; HEADER_BYTES];
        file.rewind()?;
        file.read_exact(&mut header)?;
        let words: Vec<u64> = header
            .as_chunks()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        let (staged_at, count) = (words[STAGED_AT], words[STAGED_BYTES] as usize);
        let is_placed = (HEADER_BYTES as u64..=length).contains(&staged_at);
        if words[MAGIC_WORD] != MAGIC || count > STAGE_WORDS * 8 || (count > 0 && !is_placed) {
            return Err(RecordingError::NoRecording);
        }
        let staged = header[STAGE * 8..][..count].to_vec();
        let end = match count {
            0 => length,
            count => staged_at + count as u64,
        };
        Ok(Self {
            file,
            words,
            staged,
            staged_at,
            at: HEADER_BYTES as u64,
            end,
            window: Vec::new(),
            window_at: 0,
        })
    }

    /// The words at the beginning of the file.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Whether the rank continued without a recording.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.words[STOPPED] != 0
    }

    /// The next entry; `None`: the recording ends.
    ///
    /// # Errors
    /// The file can't be read, or is damaged.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Located>, RecordingError> {
        let at = self.at;
        let mut prefix = [0; 4];
        if !self.copy(at, &mut prefix)? {
            return Ok(None);
        }
        let length = u64::from(u32::from_le_bytes(prefix)) + 4;
        if at + filled(length) > self.end {
            return Ok(None);
        }
        if length > ENTRY_LIMIT as u64 + 4 {
            let problem = format!("an entry of {length} bytes");
            return Err(RecordingError::Damaged { at, problem });
        }
        let damaged = |problem: CodecError| RecordingError::Damaged {
            at,
            problem: problem.to_string(),
        };
        let mut bytes = vec![0; length as usize];
        self.copy(at, &mut bytes)?;
        let mut frame = FrameReader::new(ENTRY_LIMIT);
        frame.push(&bytes);
        let entry = frame.next::<RecordingEntry>().map_err(damaged)?;
        let Some(entry) = entry else {
            return Ok(None);
        };
        let body = at + filled(length);
        let Some(end) = body
            .checked_add(entry.body_len())
            .filter(|e| *e <= self.end)
        else {
            return Ok(None);
        };
        self.at = filled(end);
        Ok(Some(Located { entry, body }))
    }

    /// Reads the body of an entry, or the beginning of it.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn read_body(&mut self, at: u64, into: &mut [u8]) -> Result<(), RecordingError> {
        match self.copy(at, into)? {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }

    /// Copies bytes of the recording. False: it has not so many there.
    fn copy(&mut self, at: u64, into: &mut [u8]) -> Result<bool, RecordingError> {
        let length = into.len() as u64;
        if at.checked_add(length).is_none_or(|end| end > self.end) {
            return Ok(false);
        }
        let in_file = match self.staged.is_empty() {
            true => length,
            false => self.staged_at.saturating_sub(at).min(length),
        };
        let (first, second) = into.split_at_mut(in_file as usize);
        if in_file > WINDOW {
            read_at(&mut self.file, at, first)?;
        } else if in_file > 0 {
            self.copy_from_window(at, first)?;
        }
        if !second.is_empty() {
            let from = (at + in_file - self.staged_at) as usize;
            second.copy_from_slice(&self.staged[from..][..second.len()]);
        }
        Ok(true)
    }

    fn copy_from_window(&mut self, at: u64, into: &mut [u8]) -> Result<(), RecordingError> {
        let end = at + into.len() as u64;
        let window_end = self.window_at + self.window.len() as u64;
        if at < self.window_at || end > window_end {
            let in_file = match self.staged.is_empty() {
                true => self.end,
                false => self.staged_at,
            };
            self.window.resize(WINDOW.min(in_file - at) as usize, 0);
            self.window_at = at;
            if let Err(error) = read_at(&mut self.file, at, &mut self.window) {
                self.window.clear();
                return Err(error.into());
            }
        }
        let from = (at - self.window_at) as usize;
        into.copy_from_slice(&self.window[from..][..into.len()]);
        Ok(())
    }
}

fn read_at(file: &mut (impl Read + Seek), at: u64, into: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{MessageName, append_entry};
    use std::io::Cursor;

    fn got(number: u64, len: u64) -> RecordingEntry {
        RecordingEntry::Got {
            task: None,
            number,
            name: MessageName::default(),
            len,
            truncated: None,
            cancelled: false,
        }
    }

    /// A recording of these bytes, of which so many are staged; with or without a copy of them in
    /// the file.
    fn recording(bytes: &[u8], staged: usize, is_written: bool) -> Cursor<Vec<u8>> {
        let mut file = vec![0_u8; HEADER_BYTES];
        let at = bytes.len() - staged;
        let words = [
            (MAGIC_WORD, MAGIC),
            (STAGED_AT, (HEADER_BYTES + at) as u64),
            (STAGED_BYTES, staged as u64),
        ];
        for (word, value) in words {
            file[word * 8..][..8].copy_from_slice(&value.to_le_bytes());
        }
        file[STAGE * 8..][..staged].copy_from_slice(&bytes[at..]);
        file.extend_from_slice(if is_written { bytes } else { &bytes[..at] });
        Cursor::new(file)
    }

    fn three_messages() -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in 0..3_u64 {
            append_entry(&got(number, number * 5), &mut bytes).expect("short");
            let body = vec![number as u8; number as usize * 5];
            bytes.extend_from_slice(&body);
            bytes.resize(filled(bytes.len() as u64) as usize, 0);
        }
        append_entry(&RecordingEntry::Finalized, &mut bytes).expect("short");
        bytes
    }

    #[test]
    fn entries_and_bodies_come_back_whatever_is_staged_and_written() {
        let bytes = three_messages();
        for staged in (0..=bytes.len()).step_by(8) {
            for is_written in [false, true] {
                let file = recording(&bytes, staged, is_written || staged == 0);
                let mut reader = RecordingReader::new(file).expect("a recording");
                for number in 0..3_u64 {
                    let located = reader.next().expect("readable").expect("an entry");
                    assert_eq!(located.entry, got(number, number * 5));
                    let mut body = vec![9; number as usize * 5];
                    reader.read_body(located.body, &mut body).expect("a body");
                    assert!(body.iter().all(|byte| u64::from(*byte) == number));
                }
                let last = reader.next().expect("readable").expect("an entry");
                assert_eq!(last.entry, RecordingEntry::Finalized);
                assert_eq!(reader.next().expect("readable"), None);
            }
        }
    }

    #[test]
    fn an_entry_that_was_cut_short_is_none() {
        let bytes = three_messages();
        let mut most = 0;
        for length in 0..bytes.len() {
            let file = recording(&bytes[..length], 0, true);
            let mut reader = RecordingReader::new(file).expect("a recording");
            let mut count = 0;
            while let Some(located) = reader.next().expect("readable") {
                let mut body = vec![0; located.entry.body_len() as usize];
                reader.read_body(located.body, &mut body).expect("a body");
                count += 1;
            }
            assert!(count >= most);
            most = count;
        }
        assert_eq!(most, 3);
    }

    #[test]
    fn damage_is_told_and_a_forged_length_allocates_nothing() {
        let mut bytes = three_messages();
        bytes[4] = 77;
        let mut reader = RecordingReader::new(recording(&bytes, 0, true)).expect("a recording");
        let error = reader.next().expect_err("no such entry").to_string();
        assert!(error.contains("damaged at byte 262144"), "{error}");
        bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut reader = RecordingReader::new(recording(&bytes, 0, true)).expect("a recording");
        assert_eq!(reader.next().expect("cut short"), None);
        let zeros = Cursor::new(vec![0; HEADER_BYTES]);
        let error = RecordingReader::new(zeros).expect_err("no recording");
        assert!(matches!(error, RecordingError::NoRecording), "{error}");
    }
}
