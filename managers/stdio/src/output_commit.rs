//! Output that is held until the checkpoint after it is committed (`--output commit`). So shown
//! output is never written again, and never differently.
//!
//! Output that a rank writes after its image of an epoch, and before its next image, belongs to
//! that epoch's segment. When a checkpoint is committed, all earlier segments are shown, in the
//! order in which the lines arrived. When a rank rolls back, its output in the other segments
//! becomes void. Memory is bounded: longer segments are in temporary files without a name.
//!
//! A job that is to stop holds output, too: what ranks write after the images of its last
//! checkpoint is written again after a restart. Other output passes at once.

use crate::Stream;
use rejoin_channel_table::{Epoch, Rank};
use rejoin_managers_host::error::system_text;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// Bytes of each segment that are kept in memory.
const MEMORY: usize = 1 << 20;

/// Bytes before each piece: rank, instance, length, stream with end and kind.
const HEADER: usize = 13;

/// Bits of the last of these for the marks.
const REGIONS: u8 = 4;
const IMAGE: u8 = 8;

/// Output that one rank wrote at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPiece {
    /// The rank that wrote it.
    pub rank: Rank,
    /// Of which stream.
    pub stream: Stream,
    /// The written bytes.
    pub bytes: Vec<u8>,
    /// Nothing follows on this stream.
    pub last: bool,
    /// The piece is no output, but this mark in it.
    pub mark: Option<OutputMark>,
}

/// A mark in a rank's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMark {
    /// The rank has stored its state as the one of this number.
    Regions(Epoch),
    /// The rank took its image of this epoch.
    Image(Epoch),
}

impl OutputPiece {
    /// A mark in a rank's output.
    pub fn mark(rank: Rank, mark: OutputMark) -> OutputPiece {
        OutputPiece {
            rank,
            stream: Stream::Out,
            bytes: Vec::new(),
            last: false,
            mark: Some(mark),
        }
    }

    #[cfg(test)]
    /// Standard output of a rank.
    pub fn text(rank: u32, text: &str) -> OutputPiece {
        OutputPiece {
            rank: Rank(rank),
            stream: Stream::Out,
            bytes: text.into(),
            last: false,
            mark: None,
        }
    }
}

/// Pieces in their order, the older ones in a file.
#[derive(Debug, Default)]
struct Log {
    file: Option<File>,
    /// Bytes in the file.
    length: u64,
    /// Bytes of the file that were taken.
    read: u64,
    memory: Vec<u8>,
    /// Bytes of the memory that were taken.
    taken: usize,
}

impl Log {
    fn push(&mut self, piece: &OutputPiece, instance: u32, limit: usize) -> Result<()> {
        let (number, kind) = match piece.mark {
            None => (None, 0),
            Some(OutputMark::Regions(epoch)) => (Some(epoch.0.to_le_bytes()), REGIONS),
            Some(OutputMark::Image(epoch)) => (Some(epoch.0.to_le_bytes()), IMAGE),
        };
        let bytes = number.as_ref().map_or(&piece.bytes[..], |n| &n[..]);
        let length = u32::try_from(bytes.len()).map_err(Error::other)?;
        let stream = piece.stream as u8 | u8::from(piece.last) << 1 | kind;
        self.memory.extend_from_slice(&piece.rank.0.to_le_bytes());
        self.memory.extend_from_slice(&instance.to_le_bytes());
        self.memory.extend_from_slice(&length.to_le_bytes());
        self.memory.push(stream);
        self.memory.extend_from_slice(bytes);
        if self.memory.len() <= limit {
            return Ok(());
        }
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(nameless().map_err(unkept)?),
        };
        let written = file.write_all_at(&self.memory, self.length);
        written.map_err(unkept)?;
        self.length += self.memory.len() as u64;
        // Not kept at the size of the largest piece.
        self.memory = Vec::new();
        Ok(())
    }

    /// Takes bytes off the front; `None` at the end.
    fn bytes(&mut self, count: usize) -> Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; count];
        match &self.file {
            Some(file) if self.read < self.length => {
                file.read_exact_at(&mut bytes, self.read)?;
                self.read += count as u64;
            }
            _ => {
                let Some(there) = self.memory.get(self.taken..self.taken + count) else {
                    return Ok(None);
                };
                bytes.copy_from_slice(there);
                self.taken += count;
            }
        }
        Ok(Some(bytes))
    }

    /// The next piece and the instance that wrote it.
    fn take(&mut self) -> Result<Option<(OutputPiece, u32)>> {
        let Some(header) = self.bytes(HEADER)? else {
            return Ok(None);
        };
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap_or_default());
        let number = |at: usize| word(&header[at..at + 4]);
        let mut bytes = self.bytes(number(8) as usize)?.unwrap_or_default();
        let mark = match header[12] & (REGIONS | IMAGE) {
            REGIONS => Some(OutputMark::Regions(Epoch(word(&std::mem::take(
                &mut bytes,
            ))))),
            IMAGE => Some(OutputMark::Image(Epoch(word(&std::mem::take(&mut bytes))))),
            _ => None,
        };
        let piece = OutputPiece {
            mark,
            rank: Rank(number(0)),
            stream: if header[12] & 1 == 0 {
                Stream::Out
            } else {
                Stream::Err
            },
            bytes,
            last: header[12] & 2 != 0,
        };
        Ok(Some((piece, number(4))))
    }
}

/// Adds the remedy for the user.
fn unkept(error: Error) -> Error {
    let folder = std::env::temp_dir();
    let (shown, why) = (folder.display(), system_text(&error));
    let text = format!("what is held of it can't be kept in {shown} (TMPDIR): {why}");
    Error::new(error.kind(), text)
}

/// A file without a name, which vanishes with its descriptor.
fn nameless() -> Result<File> {
    let folder = std::env::temp_dir();
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    let made = options.custom_flags(libc::O_TMPFILE).open(&folder);
    // Not every file system can do that.
    made.or_else(|_| {
        let path = folder.join(format!("rejoin-output-{}", std::process::id()));
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    })
}

#[derive(Debug, Default)]
struct Segment {
    log: Log,
    /// For each rank: output that it wrote before so many rollbacks is void.
    void: BTreeMap<Rank, u32>,
}

/// Where a rank is.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// The epoch of its last image.
    after: Option<Epoch>,
    /// How often it rolled back.
    instance: u32,
}

/// Everything that is held.
#[derive(Debug)]
pub struct OutputCommit {
    held: BTreeMap<Option<Epoch>, Segment>,
    /// Output that may be shown.
    released: VecDeque<Segment>,
    places: BTreeMap<Rank, Place>,
    /// The last behind which no rank rolls back.
    committed: Option<Epoch>,
    /// Epochs up to here are committed, superseded or aborted.
    settled: Option<Epoch>,
    /// Output of a rank whose last image is of an earlier epoch passes at once. `None`: no output
    /// does.
    passes_below: Option<Epoch>,
    memory: usize,
}

impl Default for OutputCommit {
    fn default() -> Self {
        Self::new()
    }
}

impl OutputCommit {
    /// Holds nothing yet.
    pub fn new() -> OutputCommit {
        OutputCommit::with_memory(MEMORY)
    }

    /// Of a job that is to stop: holds what ranks write after images that they take from now on.
    pub fn while_stopping() -> OutputCommit {
        OutputCommit {
            passes_below: Some(Epoch(0)),
            ..OutputCommit::new()
        }
    }

    fn with_memory(memory: usize) -> OutputCommit {
        OutputCommit {
            held: BTreeMap::new(),
            released: VecDeque::new(),
            places: BTreeMap::new(),
            committed: None,
            settled: None,
            passes_below: None,
            memory,
        }
    }

    /// Holds output of a rank.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn push(&mut self, piece: &OutputPiece) -> Result<()> {
        let place = *self.places.entry(piece.rank).or_default();
        self.push_after(place.after, piece, place.instance)
    }

    /// Adds a piece to the segment of this epoch.
    fn push_after(
        &mut self,
        epoch: Option<Epoch>,
        piece: &OutputPiece,
        instance: u32,
    ) -> Result<()> {
        if !self.passes_after(epoch) {
            let segment = self.held.entry(epoch).or_default();
            return segment.log.push(piece, instance, self.memory);
        }
        if self.released.is_empty() {
            self.released.push_back(Segment::default());
        }
        match self.released.back_mut() {
            Some(segment) => segment.log.push(piece, instance, self.memory),
            None => Ok(()),
        }
    }

    /// Whether output after a rank's image of this epoch passes at once.
    pub fn passes_after(&self, epoch: Option<Epoch>) -> bool {
        self.passes_below.is_some_and(|below| epoch < Some(below))
    }

    /// The job does not stop with a checkpoint of a lower number: only output after the others is
    /// held.
    pub fn hold_from(&mut self, epoch: Epoch) {
        self.passes_below = Some(epoch);
        let later = self.held.split_off(&Some(epoch));
        let earlier = std::mem::replace(&mut self.held, later);
        self.released.extend(earlier.into_values());
    }

    /// The job has stopped with this checkpoint: releases the output before it, and drops the rest.
    pub fn stop(&mut self, epoch: Epoch) {
        self.commit(epoch);
        self.held.clear();
    }

    /// A rank took its image. An image of an aborted checkpoint has no effect.
    pub fn mark(&mut self, rank: Rank, epoch: Epoch) {
        if Some(epoch) > self.settled {
            self.places.entry(rank).or_default().after = Some(epoch);
        }
    }

    /// A rank rolls back to the committed checkpoint, or to its start: its held output from there
    /// on is void. The report of that commit may come later.
    pub fn rewind(&mut self, rank: Rank, epoch: Option<Epoch>) {
        let place = self.places.entry(rank).or_default();
        place.instance += 1;
        place.after = epoch;
        for segment in self.held.range_mut(epoch..).map(|(_, segment)| segment) {
            segment.void.insert(rank, place.instance);
        }
    }

    /// No rank rolls back behind this checkpoint any more: releases the output before it.
    pub fn commit(&mut self, epoch: Epoch) {
        self.settled = self.settled.max(Some(epoch));
        self.committed = Some(epoch);
        let later = self.held.split_off(&Some(epoch));
        let earlier = std::mem::replace(&mut self.held, later);
        self.released.extend(earlier.into_values());
    }

    /// A checkpoint was aborted, or no rank rolls back to it any more. Output after it belongs to
    /// the one before.
    ///
    /// # Errors
    /// There is no room to put it there.
    pub fn abort(&mut self, epoch: Epoch) -> Result<()> {
        self.settled = self.settled.max(Some(epoch));
        let before = self.held.range(..Some(epoch)).next_back();
        // Places must name a segment that is let out before the next commit's own.
        let before = before.and_then(|(before, _)| *before).max(self.committed);
        for place in self.places.values_mut() {
            if place.after == Some(epoch) {
                place.after = before;
            }
        }
        let Some(mut from) = self.held.remove(&Some(epoch)) else {
            return Ok(());
        };
        while let Some((piece, instance)) = from.log.take()? {
            if !is_void(&from.void, piece.rank, instance) {
                self.push_after(before, &piece, instance)?;
            }
        }
        Ok(())
    }

    /// The job has ended: no rank rolls back any more.
    pub fn release(&mut self) {
        let all = std::mem::take(&mut self.held);
        self.released.extend(all.into_values());
    }

    /// The next piece that may be shown.
    ///
    /// # Errors
    /// The piece can't be read back.
    pub fn take(&mut self) -> Result<Option<OutputPiece>> {
        while let Some(segment) = self.released.front_mut() {
            match segment.log.take() {
                Ok(Some((piece, instance))) => {
                    if !is_void(&segment.void, piece.rank, instance) {
                        return Ok(Some(piece));
                    }
                }
                Ok(None) => {
                    self.released.pop_front();
                }
                Err(error) => {
                    self.released.pop_front();
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Something waits to be taken.
    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }
}

fn is_void(void: &BTreeMap<Rank, u32>, rank: Rank, instance: u32) -> bool {
    void.get(&rank).is_some_and(|first| instance < *first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(rank: u32, text: &str) -> OutputPiece {
        OutputPiece::text(rank, text)
    }

    fn taken(hold: &mut OutputCommit) -> String {
        let mut out = String::new();
        while let Some(piece) = hold.take().unwrap() {
            out += std::str::from_utf8(&piece.bytes).unwrap();
        }
        out
    }

    #[test]
    fn what_was_written_before_a_checkpoint_is_shown_with_its_commit() {
        let mut hold = OutputCommit::new();
        hold.push(&piece(0, "a")).unwrap();
        hold.push(&piece(1, "b")).unwrap();
        hold.mark(Rank(0), Epoch(1));
        hold.push(&piece(0, "c")).unwrap();
        hold.push(&piece(1, "d")).unwrap();
        hold.mark(Rank(1), Epoch(1));
        assert_eq!(taken(&mut hold), "");
        hold.commit(Epoch(1));
        assert_eq!(taken(&mut hold), "abd");
        assert!(!hold.has_released());
        hold.release();
        assert_eq!(taken(&mut hold), "c");
    }

    #[test]
    fn what_is_lost_is_never_shown() {
        let mut hold = OutputCommit::new();
        hold.mark(Rank(0), Epoch(1));
        hold.commit(Epoch(1));
        hold.push(&piece(0, "lost")).unwrap();
        hold.mark(Rank(0), Epoch(2));
        hold.push(&piece(0, "lost too")).unwrap();
        hold.rewind(Rank(0), Some(Epoch(1)));
        hold.push(&piece(0, "new")).unwrap();
        hold.mark(Rank(0), Epoch(3));
        hold.commit(Epoch(3));
        assert_eq!(taken(&mut hold), "new");
    }

    #[test]
    fn stream_end_and_order_survive_the_file() {
        let mut hold = OutputCommit::with_memory(40);
        let mut all = Vec::new();
        for i in 0..100u32 {
            let piece = OutputPiece {
                rank: Rank(i % 3),
                stream: if i % 2 == 0 { Stream::Out } else { Stream::Err },
                bytes: vec![i as u8; i as usize],
                last: i % 5 == 0,
                mark: None,
            };
            hold.push(&piece).unwrap();
            all.push(piece);
            if i % 7 == 0 {
                for mark in [
                    OutputMark::Regions(Epoch(1000 + i)),
                    OutputMark::Image(Epoch(i)),
                ] {
                    let mark = OutputPiece::mark(Rank(i % 3), mark);
                    hold.push(&mark).unwrap();
                    all.push(mark);
                }
            }
        }
        hold.release();
        let mut back = Vec::new();
        while let Some(piece) = hold.take().unwrap() {
            back.push(piece);
        }
        assert_eq!(back, all);
    }

    #[test]
    fn what_was_written_before_the_image_stays_if_the_word_of_the_commit_comes_late() {
        let mut hold = OutputCommit::new();
        hold.push(&piece(0, "before")).unwrap();
        hold.mark(Rank(0), Epoch(1));
        hold.push(&piece(0, "again")).unwrap();
        hold.rewind(Rank(0), Some(Epoch(1)));
        hold.commit(Epoch(1));
        assert_eq!(hold.take().unwrap(), Some(piece(0, "before")));
        assert_eq!(hold.take().unwrap(), None);
        hold.push(&piece(0, "again")).unwrap();
        hold.release();
        assert_eq!(hold.take().unwrap(), Some(piece(0, "again")));
        assert_eq!(hold.take().unwrap(), None);
    }

    #[test]
    fn a_job_that_is_to_stop_holds_what_follows_its_last_images() {
        let mut hold = OutputCommit::while_stopping();
        hold.push(&piece(0, "a")).unwrap();
        // Of a checkpoint that was requested before.
        hold.mark(Rank(0), Epoch(4));
        hold.push(&piece(0, "b")).unwrap();
        assert_eq!(taken(&mut hold), "a");
        hold.hold_from(Epoch(5));
        hold.push(&piece(0, "c")).unwrap();
        assert_eq!(taken(&mut hold), "bc");
        // One that fails: what follows it is shown.
        hold.mark(Rank(0), Epoch(5));
        hold.push(&piece(0, "d")).unwrap();
        hold.push(&piece(1, "e")).unwrap();
        assert_eq!(taken(&mut hold), "e");
        hold.abort(Epoch(5)).unwrap();
        hold.push(&piece(0, "f")).unwrap();
        assert_eq!(taken(&mut hold), "df");
        for rank in [Rank(0), Rank(1)] {
            hold.mark(rank, Epoch(6));
            hold.push(&piece(rank.0, "void")).unwrap();
            hold.rewind(rank, Some(Epoch(6)));
            hold.push(&piece(rank.0, "written again after a restart"))
                .unwrap();
        }
        hold.stop(Epoch(6));
        assert_eq!(taken(&mut hold), "");
    }

    #[test]
    fn a_stop_that_is_given_up_shows_all() {
        let mut hold = OutputCommit::while_stopping();
        hold.hold_from(Epoch(1));
        hold.mark(Rank(0), Epoch(1));
        hold.push(&piece(0, "a")).unwrap();
        assert_eq!(taken(&mut hold), "");
        hold.hold_from(Epoch(u32::MAX));
        hold.push(&piece(0, "b")).unwrap();
        assert_eq!(taken(&mut hold), "ab");
    }

    const RANKS: u32 = 3;

    #[derive(Debug, Clone)]
    enum Act {
        Write(u32, usize),
        /// Of the order under way, or the next one.
        Image(u32),
        Abort,
        /// After it was aborted.
        LateImage(u32),
        Rollback,
        /// One rank alone.
        RollbackOne(u32),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            6 => (0..RANKS, 1usize..30).prop_map(|(rank, n)| Act::Write(rank, n)),
            6 => (0..RANKS).prop_map(Act::Image),
            1 => Just(Act::Abort),
            1 => (0..RANKS).prop_map(Act::LateImage),
            1 => Just(Act::Rollback),
            1 => (0..RANKS).prop_map(Act::RollbackOne),
        ];
        prop::collection::vec(act, 1..150)
    }

    /// A rank of which every instance writes something else.
    #[derive(Default)]
    struct Model {
        /// Its output that no rollback made void.
        history: Vec<u8>,
        /// Where it was at the image of the order under way, and at the committed one.
        image: Option<usize>,
        committed: usize,
    }

    proptest! {
        /// Shown is exactly what was written before the last commit, and in the end all that
        /// stayed.
        #[test]
        fn only_what_stays_is_shown(acts in acts(), memory in 0usize..200) {
            let mut hold = OutputCommit::with_memory(memory);
            let mut ranks: Vec<Model> = (0..RANKS).map(|_| Model::default()).collect();
            let mut shown: Vec<Vec<u8>> = vec![Vec::new(); RANKS as usize];
            let (mut next, mut committed, mut abandoned, mut seed) = (1, None, 0, 0u8);
            for act in acts {
                match act {
                    Act::Write(rank, n) => {
                        let bytes: Vec<u8> = (0..n).map(|_| { seed = seed.wrapping_mul(73).wrapping_add(29); seed }).collect();
                        ranks[rank as usize].history.extend_from_slice(&bytes);
                        let stream = if seed & 1 == 0 { Stream::Out } else { Stream::Err };
                        hold.push(&OutputPiece { rank: Rank(rank), stream, bytes, last: false, mark: None }).unwrap();
                    }
                    Act::Image(rank) => {
                        hold.mark(Rank(rank), Epoch(next));
                        let model = &mut ranks[rank as usize];
                        // Said twice, the first counts.
                        model.image = model.image.or(Some(model.history.len()));
                        if ranks.iter().all(|r| r.image.is_some()) {
                            for r in &mut ranks {
                                r.committed = r.image.take().unwrap();
                            }
                            hold.commit(Epoch(next));
                            committed = Some(Epoch(next));
                            next += 1;
                        }
                    }
                    Act::Abort => {
                        ranks.iter_mut().for_each(|r| r.image = None);
                        hold.abort(Epoch(next)).unwrap();
                        abandoned = next;
                        next += 1;
                    }
                    Act::LateImage(rank) => if abandoned > 0 {
                        hold.mark(Rank(rank), Epoch(abandoned));
                    },
                    Act::Rollback => {
                        for (rank, r) in (0..RANKS).zip(&mut ranks) {
                            r.image = None;
                            r.history.truncate(r.committed);
                            hold.rewind(Rank(rank), committed);
                        }
                        next += 1;
                    }
                    // As after MPI_Finalize, when no order is under way.
                    Act::RollbackOne(rank) => if ranks.iter().all(|r| r.image.is_none()) {
                        let r = &mut ranks[rank as usize];
                        r.history.truncate(r.committed);
                        hold.rewind(Rank(rank), committed);
                    },
                }
                while let Some(piece) = hold.take().unwrap() {
                    shown[piece.rank.0 as usize].extend(piece.bytes);
                }
                for (r, shown) in ranks.iter().zip(&shown) {
                    prop_assert_eq!(&shown[..], &r.history[..r.committed]);
                }
            }
            hold.release();
            while let Some(piece) = hold.take().unwrap() {
                shown[piece.rank.0 as usize].extend(piece.bytes);
            }
            for (r, shown) in ranks.iter().zip(&shown) {
                prop_assert_eq!(shown, &r.history);
            }
        }
    }
}
