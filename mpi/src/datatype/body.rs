//! The description of a datatype: bounds, layout and signature, and the composition of larger ones.

use super::layout::{Layout, LayoutShape, MAX_DEPTH};
use super::named::{Element, Named};
use super::signature::Signature;
use crate::error::{Error, ErrorClass, Result};

/// A range of displacements `[low, high)` in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteRange {
    pub low: i64,
    pub high: i64,
}

/// Narrows a displacement to 64 bits.
fn displacement(value: i128) -> Result<i64> {
    i64::try_from(value).map_err(|_| {
        Error::new(
            ErrorClass::Arg,
            format!("a displacement of the datatype ({value} bytes) does not fit in 64 bits"),
        )
    })
}

/// Narrows a size to 64 bits.
fn size_of(value: i128) -> Result<i64> {
    i64::try_from(value).map_err(|_| {
        Error::new(
            ErrorClass::Count,
            format!("the size of the datatype ({value} bytes) does not fit in 64 bits"),
        )
    })
}

impl ByteRange {
    /// The range that covers `count > 0` copies, `stride` bytes apart.
    fn repeated(self, count: i64, stride: i64) -> Result<Self> {
        let last = i128::from(stride) * i128::from(count - 1);
        Ok(Self {
            low: displacement(i128::from(self.low) + last.min(0))?,
            high: displacement(i128::from(self.high) + last.max(0))?,
        })
    }

    /// The range `by` bytes further.
    fn shifted(self, by: i64) -> Result<Self> {
        Ok(Self {
            low: displacement(i128::from(self.low) + i128::from(by))?,
            high: displacement(i128::from(self.high) + i128::from(by))?,
        })
    }

    /// The upper bound, such that the extent is a multiple of `align` (MPI-5.0 §5.1.6).
    fn padded(self, align: i64) -> i128 {
        let (low, align) = (i128::from(self.low), i128::from(align));
        low + (i128::from(self.high) - low + align - 1) / align * align
    }

    /// The range that covers both.
    fn union(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(Self {
                low: a.low.min(b.low),
                high: a.high.max(b.high),
            }),
            (a, b) => a.or(b),
        }
    }
}

/// Bounds, layout and signature of a datatype.
#[derive(Clone, Debug)]
pub(super) struct TypeBody {
    /// Where the data lies; `None` without data.
    pub data: Option<ByteRange>,
    /// From the lowest lower to the highest upper bound of its parts, not yet padded; `None`
    /// without data. A padded part counts with its padding, as in other MPIs: programs lay it out
    /// like a struct in a struct.
    pub natural: Option<ByteRange>,
    /// Bounds that the user set; they hide the natural ones (MPI-5.0 §5.1.6).
    pub marks: Option<ByteRange>,
    /// The strictest alignment of the basic types.
    pub align: i64,
    pub layout: Layout,
    pub signature: Signature,
}

impl TypeBody {
    /// No bytes: a type of size 0.
    pub fn empty() -> Self {
        Self {
            data: None,
            natural: None,
            marks: None,
            align: 1,
            layout: Layout::empty(),
            signature: Signature::empty(),
        }
    }

    /// One element of a predefined type; pairs are C structs.
    pub fn of_named(named: Named) -> Self {
        match named.element() {
            Element::One(scalar) => {
                let size = scalar.size() as i64;
                let range = Some(ByteRange { low: 0, high: size });
                Self {
                    data: range,
                    natural: range,
                    marks: None,
                    align: scalar.align() as i64,
                    layout: Layout::bytes(size),
                    signature: Signature::one(named),
                }
            }
            Element::Pair { value, index } => Self::of_pair(value, index),
        }
    }

    /// The C struct of a value and an index.
    pub fn of_pair(value: Named, index: Named) -> Self {
        let (value, index) = (Self::of_named(value), Self::of_named(index));
        let at = (value.size() + index.align - 1) / index.align * index.align;
        let pair = Self::concat([(0, value), (at, index)]);
        pair.unwrap_or_else(|_| Self::empty()) // two basic types never overflow
    }

    /// Bytes of data.
    pub fn size(&self) -> i64 {
        self.layout.size
    }

    /// Lower and upper bound, in 128 bits as the padding of the upper one may overflow.
    fn wide_bounds(&self) -> (i64, i128) {
        match (self.marks, self.natural) {
            (Some(m), _) => (m.low, m.high.into()),
            (None, Some(n)) => (n.low, n.padded(self.align)),
            (None, None) => (0, 0),
        }
    }

    /// The natural bounds with the padding.
    fn padded(&self) -> Result<Option<ByteRange>> {
        let Some(natural) = self.natural else {
            return Ok(None);
        };
        let (low, high) = (natural.low, displacement(natural.padded(self.align))?);
        Ok(Some(ByteRange { low, high }))
    }

    /// Lower bound and extent in bytes (MPI-5.0 §5.1, §5.1.7). `check` has made sure they fit.
    pub fn bounds(&self) -> (i64, i64) {
        let (low, high) = self.wide_bounds();
        (low, (high - i128::from(low)) as i64)
    }

    /// Extent in bytes.
    pub fn extent(&self) -> i64 {
        self.bounds().1
    }

    /// Refuses bodies whose bounds do not fit in 64 bits, and those nested too deeply.
    pub fn check(self) -> Result<Self> {
        let (low, high) = self.wide_bounds();
        displacement(high)?;
        displacement(high - i128::from(low))?;
        if let Some(d) = self.data {
            displacement(i128::from(d.high) - i128::from(d.low))?;
        }
        if self.layout.depth.max(self.signature.depth) > MAX_DEPTH {
            return Err(Error::new(
                ErrorClass::Arg,
                format!("datatypes are nested more than {MAX_DEPTH} levels deep"),
            ));
        }
        Ok(self)
    }

    /// `count` copies, `stride` bytes apart.
    pub fn repeat(&self, count: i64, stride: i64) -> Result<Self> {
        if count <= 0 {
            return Ok(Self::empty());
        }
        size_of(i128::from(self.size()) * i128::from(count))?;
        Ok(Self {
            data: self.data.map(|d| d.repeated(count, stride)).transpose()?,
            natural: self
                .padded()?
                .map(|n| n.repeated(count, stride))
                .transpose()?,
            marks: self.marks.map(|m| m.repeated(count, stride)).transpose()?,
            align: self.align,
            layout: self.layout.clone().repeated(count, stride),
            signature: self.signature.repeated(count),
        })
    }

    /// `count` elements in a row.
    pub fn row(&self, count: i64) -> Result<Self> {
        self.repeat(count, self.extent())
    }

    /// The same body `by` bytes further.
    pub fn shift(self, by: i64) -> Result<Self> {
        Ok(Self {
            data: self.data.map(|d| d.shifted(by)).transpose()?,
            natural: self.natural.map(|n| n.shifted(by)).transpose()?,
            marks: self.marks.map(|m| m.shifted(by)).transpose()?,
            layout: self.layout.shifted(by),
            ..self
        })
    }

    /// Bodies at displacements, in this order.
    pub fn concat(parts: impl IntoIterator<Item = (i64, TypeBody)>) -> Result<Self> {
        let mut all = Self::empty();
        let mut layouts = Vec::new();
        let mut signatures = Vec::new();
        let mut size = 0i128;
        for (at, part) in parts {
            let part = part.shift(at)?;
            all.data = ByteRange::union(all.data, part.data);
            all.natural = ByteRange::union(all.natural, part.padded()?);
            all.marks = ByteRange::union(all.marks, part.marks);
            all.align = all.align.max(part.align);
            size += i128::from(part.size());
            layouts.push(part.layout);
            signatures.push(part.signature);
        }
        size_of(size)?;
        all.layout = Layout::sequence(layouts);
        all.signature = Signature::sequence(signatures);
        Ok(all)
    }

    /// Blocks `(displacement in bytes, number of elements)` of this body, in this order.
    pub fn blocks(&self, blocks: &[(i64, i64)]) -> Result<Self> {
        let extent = self.extent();
        let dense = matches!(self.layout.shape, LayoutShape::Bytes) && self.size() == extent;
        if !dense || self.marks.is_some() {
            let parts: Result<Vec<_>> = blocks
                .iter()
                .filter(|(_, n)| *n > 0)
                .map(|&(at, n)| Ok((at, self.row(n)?)))
                .collect();
            return Self::concat(parts?);
        }
        // Rows of a dense type: no body for each block, there may be millions.
        let (mut data, mut count) = (None, 0i128);
        for &(at, n) in blocks.iter().filter(|(_, n)| *n > 0) {
            let row = self.data.map(|d| d.repeated(n, extent)?.shifted(at));
            data = ByteRange::union(data, row.transpose()?);
            count += i128::from(n);
        }
        size_of(count * i128::from(self.size()))?;
        if data.is_none() {
            return Ok(Self::empty());
        }
        let offset = self.layout.offset;
        let spans = blocks
            .iter()
            .map(|&(at, n)| (offset.wrapping_add(at), n.max(0) * self.size()));
        Ok(Self {
            data,
            natural: data, // dense: nothing is padded
            marks: None,
            align: self.align,
            layout: Layout::from_blocks(spans),
            signature: self.signature.repeated(count as i64),
        })
    }

    /// The same data with other bounds.
    pub fn resized(&self, lb: i64, extent: i64) -> Result<Self> {
        let high = displacement(i128::from(lb) + i128::from(extent))?;
        Ok(Self {
            marks: Some(ByteRange { low: lb, high }),
            ..self.clone()
        })
    }
}
