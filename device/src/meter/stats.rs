//! Cheap counters of the device's work, which tests check.

/// Counts since the device was made. Reading them costs nothing; they are never reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Writes to links, those that found no room included.
    pub writes: u64,
    /// Writes that the link took nothing of.
    pub writes_blocked: u64,
    /// Reads from links, those that found nothing included.
    pub reads: u64,
    /// Reads that found nothing.
    pub reads_empty: u64,
    /// Reads and writes of shared memory among these: they make no system call.
    pub ring_calls: u64,
    /// Messages with a cell, short or by buffered copy, sent over shared memory: no writes, and not
    /// among their bytes.
    pub short_out: u64,
    /// Such messages read.
    pub short_in: u64,
    /// Links over shared memory that were made.
    pub rings_made: u64,
    /// Most bytes of shared memory that links had when one was made, or have now.
    pub ring_bytes: u64,
    /// Parts of bodies read out of their senders' memory, by the receiver or with the sender's
    /// help, with success or without.
    pub gets: u64,
    /// The bytes of these.
    pub bytes_got: u64,
    /// Bytes that this rank has written into receivers' memory, to help them: among those that they
    /// count.
    pub bytes_put: u64,
    /// Doorbells rung: peers that slept and were notified over a link of shared memory.
    pub doorbells: u64,
    /// Polls of epoll that do not block.
    pub event_polls: u64,
    /// Waits in epoll that may block.
    pub blocks: u64,
    /// Links that held bytes, or had room for them, though no event had said so: should be none.
    pub late: u64,
    /// Bytes written to links.
    pub bytes_out: u64,
    /// Bytes read from links.
    pub bytes_in: u64,
    /// Body bytes that passed through a staging buffer.
    pub bytes_staged: u64,
    /// Frames taken in.
    pub frames_in: u64,
    /// Links that reached agreement in a handshake.
    pub links_made: u64,
    /// Live links that were lost.
    pub links_lost: u64,
    /// Links that the fault injector of a test has ended between two calls of the fast path.
    pub injected_cuts: u64,
    /// Attempts to dial.
    pub dials: u64,
    /// Questions to the manager where a rank is.
    pub lookups: u64,
    /// Incoming connections dropped: strangers, forged or late handshakes, too many at once.
    pub strangers: u64,
}

impl Stats {
    /// Names and values as `mpirun --stats` shows them, with the messages that the engine sent to
    /// other ranks and received from them.
    #[must_use]
    pub fn named(&self, sends: u64, receives: u64) -> Vec<(String, u64)> {
        let moves = (self.writes + self.reads).saturating_sub(self.ring_calls);
        let calls = moves + self.event_polls + self.blocks + self.doorbells + self.gets;
        [
            ("sends", sends),
            ("receives", receives),
            ("bytes_out", self.bytes_out),
            ("bytes_in", self.bytes_in),
            ("bytes_staged", self.bytes_staged),
            ("frames_in", self.frames_in),
            ("system_calls", calls),
            ("writes", self.writes),
            ("writes_blocked", self.writes_blocked),
            ("reads", self.reads),
            ("reads_empty", self.reads_empty),
            ("ring_calls", self.ring_calls),
            ("short_out", self.short_out),
            ("short_in", self.short_in),
            ("rings_made", self.rings_made),
            ("ring_bytes", self.ring_bytes),
            ("doorbells", self.doorbells),
            ("gets", self.gets),
            ("bytes_got", self.bytes_got),
            ("bytes_put", self.bytes_put),
            ("event_polls", self.event_polls),
            ("blocks", self.blocks),
            ("late", self.late),
            ("injected_cuts", self.injected_cuts),
            ("dials", self.dials),
            ("lookups", self.lookups),
            ("links_made", self.links_made),
            ("links_lost", self.links_lost),
            ("strangers", self.strangers),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}
