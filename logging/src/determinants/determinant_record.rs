//! The records of a determinant log, and their form of four words.

use std::fmt;

/// Words of a record.
pub(super) const RECORD_WORDS: usize = 4;
/// Bits of a record's number. The kind is above them.
const NUMBER_BITS: u32 = 56;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// What a determinant answers.
///
/// The answers of calls share one number sequence, in the order of the calls. Matches, cancelled
/// operations and sends of tasks have sequences of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DeterminantKind {
    /// Which message a receive with a wildcard was matched with; by number of such receives, in
    /// the order in which they are posted.
    Match = 1,
    /// Which task issued a send; by number of the rank's sends.
    TaskSend = 2,
    /// Whether an operation was cancelled; by number of the operations that can be.
    Cancel = 3,
    /// `MPI_Probe`, `MPI_Mprobe`: which message.
    Probe = 4,
    /// `MPI_Iprobe`, `MPI_Improbe`: whether, and which.
    Iprobe = 5,
    /// `MPI_Test`, `MPI_Testall`, `MPI_Request_get_status` and its form for all: whether.
    Test = 6,
    /// `MPI_Waitany`, `MPI_Testany`: which request.
    Any = 7,
    /// `MPI_Waitsome`, `MPI_Testsome`: whether, of each active request in order.
    Some = 8,
    /// `MPI_Wtime`: the time, if it is not that of the answer before.
    Time = 9,
    /// A buffered send: whether the attached buffer had no room.
    NoRoom = 10,
    /// What comes later depends on determinants of another rank that are not stored yet
    /// ([`super::Dependency`]); its number is that of the next answer.
    Dependency = 11,
    /// Another incarnation of the rank continues the log; its number is that of the next answer.
    Begin = 12,
}

impl DeterminantKind {
    const ALL: [Self; 12] = [
        Self::Match,
        Self::TaskSend,
        Self::Cancel,
        Self::Probe,
        Self::Iprobe,
        Self::Test,
        Self::Any,
        Self::Some,
        Self::Time,
        Self::NoRoom,
        Self::Dependency,
        Self::Begin,
    ];

    /// Whether it is in the number sequence of answers.
    pub fn is_answer(self) -> bool {
        use DeterminantKind as K;
        !matches!(
            self,
            K::Match | K::TaskSend | K::Cancel | K::Dependency | K::Begin
        )
    }
}

impl fmt::Display for DeterminantKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Match => "a match of a receive with a wildcard",
            Self::TaskSend => "a send of a nonblocking collective",
            Self::Cancel => "MPI_Cancel",
            Self::Probe => "MPI_Probe or MPI_Mprobe",
            Self::Iprobe => "MPI_Iprobe or MPI_Improbe",
            Self::Test => "MPI_Test, MPI_Testall or MPI_Request_get_status",
            Self::Any => "MPI_Waitany or MPI_Testany",
            Self::Some => "MPI_Waitsome or MPI_Testsome",
            Self::Time => "MPI_Wtime",
            Self::NoRoom => "MPI_Bsend",
            Self::Dependency => "a dependency on another rank",
            Self::Begin => "the begin of an incarnation",
        })
    }
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeterminantRecord {
    /// What it answers.
    pub kind: DeterminantKind,
    /// Number of the record in the sequence of its kind, below 2^56.
    pub number: u64,
    /// The answer; the meaning of the words depends on the kind.
    pub values: [u64; 3],
}

impl DeterminantRecord {
    /// The record as words.
    pub(super) fn encode(&self) -> [u64; RECORD_WORDS] {
        let head = (self.kind as u64) << NUMBER_BITS | self.number & NUMBER_MASK;
        let [a, b, c] = self.values;
        [head, a, b, c]
    }

    /// The record of these words; `None`: there is no such kind.
    pub(super) fn decode([head, a, b, c]: [u64; RECORD_WORDS]) -> Option<Self> {
        let byte = kind_byte(head);
        let kind = DeterminantKind::ALL
            .into_iter()
            .find(|kind| *kind as u8 == byte)?;
        Some(Self {
            kind,
            number: head & NUMBER_MASK,
            values: [a, b, c],
        })
    }
}

/// The kind in the first word of a record.
pub(super) fn kind_byte(head: u64) -> u8 {
    (head >> NUMBER_BITS) as u8
}

/// Source and tag as the words of a match or a probe.
pub fn pack_message(source: i32, tag: i32) -> [u64; 3] {
    [u64::from(source as u32), u64::from(tag as u32), 0]
}

/// The source and the tag of [`pack_message`].
pub fn unpack_message(values: [u64; 3]) -> (i32, i32) {
    (values[0] as u32 as i32, values[1] as u32 as i32)
}
