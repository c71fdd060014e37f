//! The next writes to a peer, in order.

use std::collections::VecDeque;
use std::ops::Range;

use rejoin_channel_table::ids::Ssn;

use crate::bulk::BulkSource;
use crate::frame::{HEADER_LEN, Header};

/// A part of the next writes. Parts of one frame are neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PlannedPart {
    /// Whole frames in the retention, or the last of them up to its body.
    Ring(Range<u64>),
    /// The body behind a header in the retention, from `at` on.
    Body { ssn: Ssn, at: usize, len: usize },
    /// The next `count` headers, from byte `at` of the first on.
    Headers { count: usize, at: usize },
    /// The body of a data frame.
    Chunk {
        ssn: Ssn,
        source: BulkSource,
        range: Range<usize>,
    },
}

/// The writes of the device, in order. Without a link: control frames for the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct WritePlan {
    parts: VecDeque<PlannedPart>,
    /// Control frames and headers of data frames, in the order of the parts: a burst of them is one
    /// piece.
    headers: VecDeque<[u8; HEADER_LEN]>,
    /// Data frames among the parts.
    chunks: usize,
}

impl WritePlan {
    /// Whether there is nothing to write.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Drops all parts: the link is lost.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The parts in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &PlannedPart> {
        self.parts.iter()
    }

    /// Number of data frames.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks
    }

    /// Number of frames that are not retained, and of headers of data frames.
    pub(crate) fn headers(&self) -> usize {
        self.headers.len()
    }

    /// Adds frames of the retention, as one piece with those before them if they are neighbours.
    #[inline]
    pub(crate) fn push_frames(&mut self, range: Range<u64>) {
        match self.parts.back_mut() {
            Some(PlannedPart::Ring(last)) if last.end == range.start => last.end = range.end,
            _ => self.parts.push_back(PlannedPart::Ring(range)),
        }
    }

    /// Adds the body of the frame that was added last, which is not in the retention's ring.
    pub(crate) fn push_body(&mut self, ssn: Ssn, len: usize) {
        self.parts.push_back(PlannedPart::Body { ssn, at: 0, len });
    }

    /// Adds a frame that is not retained: behind others of its kind it is one piece with them.
    #[inline]
    pub(crate) fn push_header(&mut self, header: &Header) {
        self.headers.push_back(header.encode());
        match self.parts.back_mut() {
            Some(PlannedPart::Headers { count, .. }) => *count += 1,
            _ => self
                .parts
                .push_back(PlannedPart::Headers { count: 1, at: 0 }),
        }
    }

    /// Adds a data frame with this range of a body.
    pub(crate) fn push_chunk(&mut self, header: &Header, source: BulkSource, range: Range<usize>) {
        self.push_header(header);
        let ssn = header.ssn;
        self.parts
            .push_back(PlannedPart::Chunk { ssn, source, range });
        self.chunks += 1;
    }

    /// Planned headers, in two parts where they wrap around, without the first `at` bytes.
    pub(crate) fn header_bytes(&self, range: Range<usize>, at: usize) -> [&[u8]; 2] {
        let (a, b) = self.headers.as_slices();
        let (start, end) = (range.start.min(a.len()), range.end.min(a.len()));
        let first = a[start..end].as_flattened();
        let second = b[range.start - start..range.end - end].as_flattened();
        if first.is_empty() {
            [first, &second[at..]]
        } else {
            [&first[at..], second]
        }
    }

    /// Adds a frame before all that are not begun. `boundary` gives the end of the frame of the
    /// ring in which a position lies, or the position itself if a frame begins there.
    pub(crate) fn insert_header(&mut self, header: &Header, boundary: impl FnOnce(u64) -> u64) {
        let place = self.behind_begun_frame(boundary);
        let headers = self.parts.iter().take(place);
        let before: usize = headers
            .map(|part| match part {
                PlannedPart::Headers { count, .. } => *count,
                _ => 0,
            })
            .sum();
        self.headers.insert(before, header.encode());
        let part = PlannedPart::Headers { count: 1, at: 0 };
        self.parts.insert(place, part);
    }

    /// The place of the first part of a frame that is not begun. Splits the part in front if its
    /// first frame is begun and others follow.
    fn behind_begun_frame(&mut self, boundary: impl FnOnce(u64) -> u64) -> usize {
        let Some(front) = self.parts.front_mut() else {
            return 0;
        };
        let rest = match front {
            PlannedPart::Body { .. } | PlannedPart::Chunk { .. } => return 1,
            PlannedPart::Headers { at: 0, .. } => return 0,
            PlannedPart::Headers { count: 1, .. } => None,
            PlannedPart::Headers { count, .. } => {
                let count = std::mem::replace(count, 1) - 1;
                Some(PlannedPart::Headers { count, at: 0 })
            }
            PlannedPart::Ring(range) => {
                let at = boundary(range.start);
                if at == range.start {
                    return 0;
                }
                let rest = at..std::mem::replace(&mut range.end, at);
                (rest.start < rest.end).then_some(PlannedPart::Ring(rest))
            }
        };
        if let Some(rest) = rest {
            self.parts.insert(1, rest);
            return 1;
        }
        // The frame may end with a body.
        match self.parts.get(1) {
            Some(PlannedPart::Body { .. } | PlannedPart::Chunk { .. }) => 2,
            _ => 1,
        }
    }

    /// Drops the first `bytes`, which were written.
    pub(crate) fn advance(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let Some(part) = self.parts.front_mut() else {
                debug_assert!(false, "more was written than was planned");
                return;
            };
            let (left, chunk) = match part {
                PlannedPart::Ring(range) => ((range.end - range.start) as usize, false),
                PlannedPart::Headers { count, at } => (*count * HEADER_LEN - *at, false),
                PlannedPart::Body { at, len, .. } => (*len - *at, false),
                PlannedPart::Chunk { range, .. } => (range.len(), true),
            };
            if left <= bytes {
                bytes -= left;
                if let PlannedPart::Headers { count, .. } = part {
                    self.headers.drain(..*count);
                }
                self.parts.pop_front();
                self.chunks -= usize::from(chunk);
                continue;
            }
            match part {
                PlannedPart::Ring(range) => range.start += bytes as u64,
                PlannedPart::Headers { count, at } => {
                    let whole = (*at + bytes) / HEADER_LEN;
                    self.headers.drain(..whole);
                    *count -= whole;
                    *at = (*at + bytes) % HEADER_LEN;
                }
                PlannedPart::Body { at, .. } => *at += bytes,
                PlannedPart::Chunk { range, .. } => range.start += bytes,
            }
            return;
        }
    }
}
