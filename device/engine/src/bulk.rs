//! Bodies that are sent as data frames.

use rejoin_channel_table::ids::Ssn;

/// Where the bytes of a body that is sent as data frames are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BulkSource {
    /// In the retention: an eager body that the peer has not had as a whole.
    Eager,
    /// In the retention: the body of a rendezvous message, whose send may be over.
    Log,
    /// In user memory, of an open send.
    Open,
}

/// A body that is sent as data frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bulk {
    pub ssn: Ssn,
    pub source: BulkSource,
    pub offset: usize,
    pub len: usize,
}
