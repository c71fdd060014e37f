//! The load of a connection, and counts of short messages.

use rejoin_engine::{HEADER_LEN, ShortHeader};

/// A unit of data on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Load {
    /// Bytes of a handshake or of frames.
    Bytes(Vec<u8>),
    /// A short message: its header and its body.
    Short(ShortHeader, Vec<u8>),
}

/// How many short messages a node has sent, and how it received others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShortCounts {
    /// Sent.
    pub sent: u64,
    /// Taken by a receive that was posted.
    pub met: u64,
    /// Taken by a receive that was not posted.
    pub direct: u64,
    /// Taken as frames.
    pub unpacked: u64,
}

impl std::ops::AddAssign for ShortCounts {
    fn add_assign(&mut self, other: ShortCounts) {
        self.sent += other.sent;
        self.met += other.met;
        self.direct += other.direct;
        self.unpacked += other.unpacked;
    }
}

impl Load {
    /// Bytes under way that it counts for.
    pub fn len(&self) -> usize {
        match self {
            Load::Bytes(bytes) => bytes.len(),
            Load::Short(_, body) => HEADER_LEN + body.len(),
        }
    }

    /// Whether nothing travels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
