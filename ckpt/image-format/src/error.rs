//! Why a file is refused.

use crate::bytes::{RecordReader, RecordWriter};
use crate::image_number::ImageNumber;

/// Length of an encoded error in bytes: that of the answers of a zygote, in whose place it comes.
pub const ERROR_LENGTH: usize = 16;

const MAGIC: u32 = u32::from_le_bytes(*b"rjie");

/// Why a process can't be made from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The file does not begin as an image.
    #[error("the file is no process image, or was not finished")]
    NotAnImage,
    /// A newer release wrote it.
    #[error("a newer release wrote the process image (format {0})")]
    Newer(u32),
    /// An earlier release wrote it.
    #[error("an earlier release wrote the process image (format {0})")]
    Older(u32),
    /// An earlier image that has pages of this one is gone, or is another; its number.
    #[error(
        "an earlier image that the process image builds on has changed or is gone (number {0})"
    )]
    BaseChanged(u32),
    /// The header has another checksum.
    #[error("the header of the process image is damaged")]
    HeaderDamaged,
    /// The file is shorter or longer than its header says.
    #[error("the process image is not as long as its header says: {0} bytes")]
    WrongLength(u64),
    /// The table has another checksum.
    #[error("the table of the process image is damaged")]
    TableDamaged,
    /// The table contradicts itself; the number tells the rule.
    #[error("the table of the process image contradicts itself (rule {0})")]
    Malformed(u32),
    /// An extent has another checksum.
    #[error("the process image is damaged where the memory at {0:#x} is")]
    MemoryDamaged(u64),
    /// The image belongs to another job.
    #[error("the process image belongs to job {0:016x}")]
    OtherJob(u64),
    /// The image belongs to another rank.
    #[error("the process image belongs to rank {0}")]
    OtherRank(u32),
    /// The file holds another image of the rank.
    #[error("the process image is that of {0}")]
    OtherImage(ImageNumber),
    /// The processor lacks a feature that the process may use; the number tells the register.
    #[error("this machine's processor lacks features that the process may use (register {0})")]
    WeakerProcessor(u32),
    /// The kernel has another vDSO, whose addresses the process knows.
    #[error("this machine's kernel lays out its vDSO in another way")]
    OtherKernel,
    /// A mapped file is not what it was; the number tells the region.
    #[error("a file that the process has mapped has changed or is gone (region {0})")]
    FileChanged(u32),
    /// The image holds more threads than can be made.
    #[error("the process image holds {0} threads, and only one can be made")]
    Threads(u32),
    /// The system refused something; the step and the system's number.
    #[error("the system refused to {} (error {errno})", step_name(*.step))]
    System {
        /// What was tried: a number that [`ImageError`]'s text explains.
        step: u16,
        /// The system's number for the error.
        errno: i32,
    },
    /// The restarter was called wrongly.
    #[error("the restarter was called with other arguments than it takes")]
    Usage,
}

/// Names of the steps of [`ImageError::System`].
const STEPS: [&str; 8] = [
    "open the process image",
    "read the process image",
    "map memory for the process",
    "protect memory of the process",
    "list the restarter's mappings",
    "move the vDSO",
    "set up the thread",
    "unmap the restarter's memory",
];

fn step_name(step: u16) -> &'static str {
    STEPS.get(usize::from(step)).copied().unwrap_or("restore")
}

impl ImageError {
    /// For a message of fixed length.
    #[must_use]
    pub fn encode(self) -> [u8; ERROR_LENGTH] {
        let (code, value) = match self {
            Self::NotAnImage => (1, 0),
            Self::Newer(version) => (2, version.into()),
            Self::HeaderDamaged => (3, 0),
            Self::WrongLength(length) => (4, length),
            Self::TableDamaged => (5, 0),
            Self::Malformed(rule) => (6, rule.into()),
            Self::MemoryDamaged(address) => (7, address),
            Self::OtherJob(job) => (8, job),
            Self::OtherRank(rank) => (9, rank.into()),
            Self::OtherImage(number) => {
                (10, u64::from(number.epoch) << 32 | u64::from(number.step))
            }
            Self::WeakerProcessor(word) => (11, word.into()),
            Self::OtherKernel => (12, 0),
            Self::FileChanged(region) => (13, region.into()),
            Self::Threads(count) => (14, count.into()),
            Self::System { step, errno } => {
                (15, u64::from(step) << 32 | u64::from(errno.cast_unsigned()))
            }
            Self::Usage => (16, 0),
            Self::Older(version) => (17, version.into()),
            Self::BaseChanged(number) => (18, number.into()),
        };
        let mut bytes = [0; ERROR_LENGTH];
        let mut fields = RecordWriter::new(&mut bytes);
        fields.word(MAGIC);
        fields.word(code);
        fields.long(value);
        bytes
    }

    /// Reads [`ImageError::encode`]'s bytes. `None` for others.
    #[must_use]
    pub fn decode(bytes: &[u8; ERROR_LENGTH]) -> Option<Self> {
        let mut fields = RecordReader::new(bytes);
        let (_magic, code, value) = (fields.word(), fields.word(), fields.long());
        let word = value as u32;
        let error = match code {
            1 => Self::NotAnImage,
            2 => Self::Newer(word),
            3 => Self::HeaderDamaged,
            4 => Self::WrongLength(value),
            5 => Self::TableDamaged,
            6 => Self::Malformed(word),
            7 => Self::MemoryDamaged(value),
            8 => Self::OtherJob(value),
            9 => Self::OtherRank(word),
            10 => Self::OtherImage(ImageNumber::from(((value >> 32) as u32, word))),
            11 => Self::WeakerProcessor(word),
            12 => Self::OtherKernel,
            13 => Self::FileChanged(word),
            14 => Self::Threads(word),
            15 => Self::System {
                step: (value >> 32) as u16,
                errno: word.cast_signed(),
            },
            16 => Self::Usage,
            17 => Self::Older(word),
            18 => Self::BaseChanged(word),
            _ => return None,
        };
        (error.encode() == *bytes).then_some(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_pass_a_message_unchanged() {
        for error in [
            ImageError::NotAnImage,
            ImageError::Newer(7),
            ImageError::Older(1),
            ImageError::BaseChanged(3),
            ImageError::WrongLength(u64::MAX),
            ImageError::MemoryDamaged(0x7fff_0000_1000),
            ImageError::OtherJob(1 << 63),
            ImageError::System {
                step: 7,
                errno: -12,
            },
            ImageError::Usage,
        ] {
            assert_eq!(ImageError::decode(&error.encode()), Some(error));
        }
        assert_eq!(ImageError::decode(&[0; ERROR_LENGTH]), None);
        assert_eq!(ImageError::decode(&[0xff; ERROR_LENGTH]), None);
    }
}
