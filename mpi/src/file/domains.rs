//! Which ranks write and read for all in a collective access, each a part of the file at a time.

use std::ops::Range;

use super::agreement::FileCall;
use super::file_view::{FilePiece, FileView};
use super::hints::Switch;
use super::independent::FileAccess;
use crate::coll::Locality;
use crate::error::Result;

/// Parts of files begin at multiples of this, in bytes from the first byte that is accessed.
const ALIGNMENT: i64 = 4096;

/// Bytes of the file for each accessed one, from which on ranks access theirs themselves.
const SPARSE: i64 = 8;

/// Where all ranks share a host, they have one cache of the file, and a rank writes its own pieces
/// if they are this long on average: a call for each takes less than to send them to another rank.
const OWN_PIECE: usize = 1 << 10;

/// The same where what a write destroys is read and recorded first.
const OWN_UNDONE_PIECE: usize = 32 << 10;

/// So many bytes of an access show how long its pieces are.
const SAMPLE: usize = 1 << 20;

/// The parts of a file that aggregators access.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileDomains {
    /// Ranks of the file's communicator, ascending; each has a part.
    pub aggregators: Vec<usize>,
    /// All bytes that are accessed lie in this range.
    all: Range<i64>,
    /// Bytes of a part.
    each: i64,
    /// Bytes that an aggregator holds at a time.
    window: i64,
}

impl FileDomains {
    /// The parts for an access in which this rank has `len` bytes of its stream from `from` on.
    /// `None`: each rank accesses its bytes itself.
    pub async fn agree(
        call: &FileCall<'_>,
        access: &FileAccess<'_>,
        (from, len): (i64, usize),
        switch: Switch,
    ) -> Result<Option<Self>> {
        // The hints and the mode are those of all ranks.
        if call.size() == 1 || switch == Switch::Disable || access.is_atomic {
            return Ok(None);
        }
        // A view that is not in order has no part of its stream for a part of the file.
        let mine = match access.view.is_in_order() {
            true => access.view.range(from, len as i64),
            false => -1..-1,
        };
        let own_pays = i64::from(own_pieces_pay(access, (from, len)));
        let message = [mine.start, mine.end, len as i64, own_pays].map(i64::to_le_bytes);
        let told = call.notify_all(message.as_flattened()).await?;
        let (words, _) = told.as_chunks::<8>();
        let words: Vec<i64> = words.iter().map(|word| i64::from_le_bytes(*word)).collect();
        let ranges = words.chunks_exact(4).map(|told| told[0]..told[1]);
        if ranges.clone().any(|range| range.start < 0) {
            return Ok(None);
        }
        let ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
        let own_pays = words.iter().skip(3).step_by(4).all(|pays| *pays != 0);
        let each_its_own = own_pays || !are_interleaved(&ranges);
        if ranges.is_empty() || (switch == Switch::Automatic && each_its_own) {
            return Ok(None);
        }
        let lengths = words.iter().skip(2).step_by(4);
        let bytes = lengths.fold(0, |sum: i64, len| sum.saturating_add(*len));
        let aggregators = aggregators(access.locality, access.hints.cb_nodes as usize);
        let domains = Self::new(&ranges, aggregators, access.hints.cb_buffer_size as i64);
        Ok((!domains.are_sparse(bytes)).then_some(domains))
    }

    fn new(ranges: &[Range<i64>], aggregators: Vec<usize>, window: i64) -> Self {
        let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        let each = rounded_up(end - start, aggregators.len() as i64);
        Self {
            all: start..end,
            each: rounded_up(each, ALIGNMENT).saturating_mul(ALIGNMENT),
            window,
            aggregators,
        }
    }

    /// Whether the ranks access so few `bytes` in all that most windows would have none: there are
    /// no more windows than the bytes are worth, however far apart they lie.
    fn are_sparse(&self, bytes: i64) -> bool {
        let held = self.window.saturating_mul(self.aggregators.len() as i64);
        self.all.end - self.all.start > bytes.saturating_mul(SPARSE).saturating_add(held)
    }

    /// How often aggregators fill their buffers.
    pub fn rounds(&self) -> i64 {
        let longest = self.each.min(self.all.end - self.all.start);
        rounded_up(longest, self.window)
    }

    /// The range that an aggregator accesses in a round; it may be empty.
    pub fn window(&self, aggregator: usize, round: i64) -> Range<i64> {
        let part = self
            .all
            .start
            .saturating_add(self.each.saturating_mul(aggregator as i64));
        let part_end = part.saturating_add(self.each).min(self.all.end);
        let start = part
            .saturating_add(self.window.saturating_mul(round))
            .min(part_end);
        start..start.saturating_add(self.window).min(part_end)
    }
}

/// Whether this rank would rather access its pieces itself, wherever those of others lie.
fn own_pieces_pay(access: &FileAccess<'_>, range: (i64, usize)) -> bool {
    if access.locality.count() > 1 || access.storage.locks_always() {
        return false;
    }
    let least = match access.storage.is_undone() {
        true => OWN_UNDONE_PIECE,
        false => OWN_PIECE,
    };
    are_long(access.view, range, least)
}

/// Whether the first pieces of an access have so many bytes on average.
fn are_long(view: &FileView, (from, len): (i64, usize), least: usize) -> bool {
    let sample = len.min(SAMPLE);
    let mut pieces = 0;
    view.for_each_piece(from, sample as i64, |_| pieces += 1);
    sample >= pieces * least
}

/// The quotient of two positive numbers, rounded up.
fn rounded_up(number: i64, by: i64) -> i64 {
    number / by + i64::from(number % by != 0)
}

/// Whether a rank's range begins before that of a lower rank ends.
fn are_interleaved(ranges: &[Range<i64>]) -> bool {
    let mut end = i64::MIN;
    ranges.iter().any(|range| {
        let overlaps = range.start < end;
        end = end.max(range.end);
        overlaps
    })
}

/// The ranks that access the file for all: by default one of each host, with the hint as many as it
/// says, spread over the hosts.
fn aggregators(locality: &Locality, wanted: usize) -> Vec<usize> {
    let hosts = locality.count();
    let count = if wanted == 0 { hosts } else { wanted };
    let nth = |n: usize| (0..hosts).filter_map(move |host| locality.ranks(host).get(n));
    let spread = (0..locality.max_ranks()).flat_map(nth);
    let mut list: Vec<usize> = spread.take(count).map(|&rank| rank as usize).collect();
    list.sort_unstable();
    list
}

/// Pieces of the file, and where the bytes of each are among those of the access.
pub(super) type PieceList = Vec<(FilePiece, usize)>;

/// What this rank accesses, of a view that is in order.
pub(super) struct OwnPart<'a> {
    view: &'a FileView,
    /// The bytes in the stream of the view.
    stream: Range<i64>,
    /// Where they end in the file.
    file_end: i64,
}

impl<'a> OwnPart<'a> {
    /// `len` bytes of the stream from `from` on.
    pub fn new(view: &'a FileView, from: i64, len: usize) -> Self {
        Self {
            view,
            stream: from..from + len as i64,
            file_end: view.range(from, len as i64).end,
        }
    }

    /// The pieces that lie in a range of the file, and where the bytes of each are among those of
    /// the access.
    pub fn within(&self, range: Range<i64>) -> PieceList {
        let (mut at, mut list) = (self.before(range.start), Vec::new());
        let len = (self.before(range.end) - at) as i64;
        let from = self.stream.start + at as i64;
        self.view.for_each_piece(from, len, |piece| {
            list.push((piece, at));
            at += piece.len as usize;
        });
        list
    }

    /// How many bytes of the access come before `end` in the file.
    pub fn before(&self, end: i64) -> usize {
        let below = match end < self.file_end {
            true => self.view.bytes_below(end),
            false => self.stream.end,
        };
        (below.clamp(self.stream.start, self.stream.end) - self.stream.start) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::data_representation::DataRepresentation;
    use super::super::file_view::ViewArguments;
    use super::*;
    use crate::adi::LocalCost;
    use crate::datatype::{Datatype, Form, Named};

    #[test]
    fn parts_cover_all_that_is_accessed_once() {
        for (start, end, count, window) in [
            (0, 1, 1, 1),
            (100, 20_000, 3, 5000),
            (7, 8191, 4, 1 << 20),
            (0, 1 << 40, 2, 1 << 38),
        ] {
            let domains = FileDomains::new(
                std::slice::from_ref(&(start..end)),
                (0..count).collect(),
                window,
            );
            let windows = |a| (0..domains.rounds()).map(move |round| (a, round));
            let all = (0..count).flat_map(windows);
            let mut next = start;
            for (aggregator, round) in all {
                let range = domains.window(aggregator, round);
                if !range.is_empty() {
                    assert_eq!(range.start, next);
                    next = range.end;
                }
            }
            assert_eq!(next, end);
        }
    }

    #[test]
    fn long_pieces_are_long_on_average() {
        let int = Datatype::named(Named::Int);
        let blocks = Datatype::vector(Form::Int, 1, 256, 256, &int).unwrap();
        let tile = Datatype::resized(Form::Int, &blocks, 0, 4096).unwrap();
        tile.commit();
        let arguments = ViewArguments {
            disp: 0,
            etype: int,
            filetype: tile,
            datarep: DataRepresentation::Native,
        };
        let view = FileView::new(arguments, true).unwrap();
        assert!(are_long(&view, (0, 1 << 30), 1024));
        assert!(!are_long(&view, (0, 1 << 30), 1025));
        // A half of a block at each end.
        assert!(!are_long(&view, (512, 2048), 1024));
        assert!(are_long(&view, (0, 0), 1024));
    }

    #[test]
    fn few_bytes_far_apart_are_accessed_by_each_rank() {
        let domains = |end: i64| FileDomains::new(&[0..1, end - 1..end], vec![0, 1], 4096);
        assert!(!domains(2 * 4096 + 2 * SPARSE).are_sparse(2));
        assert!(domains(2 * 4096 + 2 * SPARSE + 1).are_sparse(2));
        assert!(domains(i64::MAX).are_sparse(1 << 40));
    }

    #[test]
    fn aggregators_are_spread_over_hosts() {
        let hosts = Locality::new([0, 0, 1, 1, 1, 2], LocalCost::Copy);
        assert_eq!(aggregators(&hosts, 0), [0, 2, 5]);
        assert_eq!(aggregators(&hosts, 2), [0, 2]);
        assert_eq!(aggregators(&hosts, 4), [0, 1, 2, 5]);
        assert_eq!(aggregators(&hosts, 100).len(), 6);
    }

    #[test]
    fn ranges_are_interleaved_if_one_begins_early() {
        assert!(!are_interleaved(&[0..10, 10..20, 30..40]));
        assert!(are_interleaved(&[0..100, 10..20]));
        assert!(are_interleaved(&[20..30, 0..10]));
    }
}
