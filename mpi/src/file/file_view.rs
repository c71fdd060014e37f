//! Views: which bytes of a file a rank accesses, in which order (MPI-5.0 §14.3).
//!
//! The bytes of a view are a stream. The filetype is laid out again and again from the
//! displacement on, and byte `k` of the stream is byte `k` of its data.

use std::ops::Range;
use std::rc::Rc;

use super::data_representation::DataRepresentation;
use crate::datatype::{Datatype, Named};
use crate::error::{Error, ErrorClass, Result};

/// The arguments of `MPI_File_set_view` beside the file.
#[derive(Clone, Debug)]
pub struct ViewArguments {
    /// Where the view begins, in bytes.
    pub disp: i64,
    /// The unit of offsets.
    pub etype: Rc<Datatype>,
    /// Where the data of the view lies.
    pub filetype: Rc<Datatype>,
    /// How elements are represented.
    pub datarep: DataRepresentation,
}

/// A contiguous piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FilePiece {
    /// Where it begins in the file, in bytes.
    pub offset: i64,
    /// Its length in bytes.
    pub len: i64,
}

impl FilePiece {
    /// Where it ends in the file.
    pub fn end(self) -> i64 {
        self.offset + self.len
    }
}

/// A view that was checked.
#[derive(Debug)]
pub(super) struct FileView {
    arguments: ViewArguments,
    /// Bytes of an etype in the file, positive.
    etype_bytes: i64,
    /// Bytes of data of a filetype; 0: the view has no data.
    tile_bytes: i64,
    /// Where the stream begins, if all of it is contiguous.
    dense: Option<i64>,
    /// Each byte of the stream lies behind those before it. A filetype for reading may have a byte
    /// twice, and tiles may lie in one another.
    is_in_order: bool,
}

fn wrong(text: impl Into<String>) -> Error {
    Error::new(ErrorClass::Arg, text.into())
}

impl FileView {
    /// The bytes of the file, in order: the view of a file that was just opened.
    pub fn of_bytes() -> Self {
        let byte = Datatype::named(Named::Byte);
        Self {
            arguments: ViewArguments {
                disp: 0,
                etype: byte.clone(),
                filetype: byte,
                datarep: DataRepresentation::Native,
            },
            etype_bytes: 1,
            tile_bytes: 1,
            dense: Some(0),
            is_in_order: true,
        }
    }

    /// The view of these arguments. A file that `writes` has no byte twice in its filetype.
    ///
    /// # Errors
    /// `Arg` for arguments that are no view, `UnsupportedDatarep` for a filetype whose layout in
    /// the representation is not known.
    pub fn new(arguments: ViewArguments, writes: bool) -> Result<Self> {
        let ViewArguments {
            disp,
            etype,
            filetype,
            datarep,
        } = &arguments;
        if *disp < 0 {
            return Err(wrong(format!("the displacement {disp} is negative")));
        }
        etype.check_committed()?;
        filetype.check_committed()?;
        let etype_bytes = datarep.bytes(etype, 1)?;
        let tile_bytes = datarep.bytes(filetype, 1)?;
        if etype_bytes <= 0 {
            return Err(wrong("the etype has no data"));
        }
        if tile_bytes % etype_bytes != 0 {
            let text = format!(
                "the filetype has {tile_bytes} bytes of data, not a multiple of the etype's \
                 {etype_bytes}"
            );
            return Err(wrong(text));
        }
        // Refuses layouts that are not known.
        datarep.extent(filetype)?;
        let high = filetype.true_lb().checked_add(filetype.true_extent());
        if high.and_then(|high| disp.checked_add(high)).is_none() {
            return Err(wrong("no file reaches to the end of the first filetype"));
        }
        let dense = filetype.contiguous_offset(2).map(|first| disp + first);
        let has_each_once = check_order(filetype, writes)?;
        let tiles_apart = filetype.extent() >= filetype.true_extent();
        Ok(Self {
            etype_bytes,
            tile_bytes,
            dense,
            is_in_order: dense.is_some() || (has_each_once && tiles_apart),
            arguments,
        })
    }

    /// What it was made of.
    pub fn arguments(&self) -> &ViewArguments {
        &self.arguments
    }

    /// How elements are represented.
    pub fn datarep(&self) -> DataRepresentation {
        self.arguments.datarep
    }

    /// Whether all of the stream is contiguous in the file.
    pub fn is_dense(&self) -> bool {
        self.dense.is_some()
    }

    /// Whether each byte of the stream lies behind those before it in the file.
    pub fn is_in_order(&self) -> bool {
        self.is_in_order
    }

    /// Bytes of an etype in the file.
    pub fn etype_bytes(&self) -> i64 {
        self.etype_bytes
    }

    /// # Errors
    /// `Io` if the view has no data.
    pub fn check_data(&self) -> Result<()> {
        if self.tile_bytes > 0 {
            return Ok(());
        }
        let text = "the filetype of the view has no data";
        Err(Error::new(ErrorClass::Io, text))
    }

    /// Where in the stream `len` bytes begin that are at an offset in etypes.
    ///
    /// # Errors
    /// `Arg` for bytes that no file has.
    pub fn stream_offset(&self, etypes: i64, len: i64) -> Result<i64> {
        let at = etypes.checked_mul(self.etype_bytes);
        let at = at.filter(|&at| at >= 0 && (len == 0 || self.reaches(at, len)));
        at.ok_or_else(|| {
            let text = format!("the offset {etypes} is negative, or beyond the end of any file");
            wrong(text)
        })
    }

    /// Whether a file may have these bytes of the stream.
    fn reaches(&self, from: i64, len: i64) -> bool {
        let end = i128::from(from) + i128::from(len);
        let filetype = &self.arguments.filetype;
        let end_in_file = match self.dense {
            Some(first) => i128::from(first) + end,
            None => {
                let tiles = (end - 1) / i128::from(self.tile_bytes);
                let high = self.arguments.disp + filetype.true_lb() + filetype.true_extent();
                tiles * i128::from(filetype.extent().abs()) + i128::from(high)
            }
        };
        end.max(end_in_file) <= i128::from(i64::MAX)
    }

    /// Calls `visit` with the pieces of bytes `[from, from + len)` of the stream, in order. Pieces
    /// that touch are one. A view without data has none.
    pub fn for_each_piece(&self, from: i64, len: i64, mut visit: impl FnMut(FilePiece)) {
        if len == 0 || self.tile_bytes == 0 {
            return;
        }
        if let Some(first) = self.dense {
            let offset = first + from;
            return visit(FilePiece { offset, len });
        }
        let filetype = &self.arguments.filetype;
        let tiles = i64::MAX / filetype.size().max(2);
        let mut last: Option<FilePiece> = None;
        let base = self.arguments.disp as usize;
        filetype.for_each_block(tiles, base, from, len as usize, |at, len| {
            let next = FilePiece {
                offset: at as i64,
                len: len as i64,
            };
            match &mut last {
                Some(piece) if piece.end() == next.offset => piece.len += next.len,
                Some(piece) => visit(std::mem::replace(piece, next)),
                None => last = Some(next),
            }
        });
        last.into_iter().for_each(visit);
    }

    /// A range of the file that has all of these bytes of the stream. In order, it begins with the
    /// first and ends with the last of them.
    pub fn range(&self, from: i64, len: i64) -> Range<i64> {
        if len == 0 {
            return 0..0;
        }
        let last = from + len - 1;
        if self.is_in_order {
            return self.place(from)..self.place(last) + 1;
        }
        let ViewArguments { disp, filetype, .. } = &self.arguments;
        let tile = |at: i64| disp + filetype.true_lb() + at / self.tile_bytes * filetype.extent();
        let (first, last) = (tile(from), tile(last));
        first.min(last).max(0)..(first.max(last) + filetype.true_extent()).max(0)
    }

    /// Where a byte of the stream is in the file. Without data: where the view begins.
    pub fn place(&self, at: i64) -> i64 {
        let mut place = self.arguments.disp;
        self.for_each_piece(at, 1, |piece| place = piece.offset);
        place
    }

    /// How many bytes of the stream are below this position of the file: the first ones. If the
    /// view is not in order: all bytes of the tiles that begin below.
    pub fn bytes_below(&self, position: i64) -> i64 {
        let filetype = &self.arguments.filetype;
        let below = position
            - self
                .dense
                .unwrap_or(self.arguments.disp + filetype.true_lb());
        if self.tile_bytes == 0 || below <= 0 {
            return 0;
        }
        if self.is_dense() {
            return below;
        }
        let tile = match filetype.extent() {
            extent @ 1.. => (below - 1) / extent,
            _ => 0,
        };
        let before = tile.saturating_mul(self.tile_bytes);
        if !self.is_in_order {
            return before.saturating_add(self.tile_bytes);
        }
        let (mut low, mut high) = (0, self.tile_bytes);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.place(before + middle) < position {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        before.saturating_add(low)
    }

    /// The first offset in etypes at or behind this position of the file.
    pub fn etypes_below(&self, position: i64) -> i64 {
        let bytes = self.bytes_below(position);
        bytes / self.etype_bytes + i64::from(bytes % self.etype_bytes != 0)
    }
}

/// The displacements of a filetype are not negative and never decrease (MPI-5.0 §14.1.1). Returns
/// whether it has each byte once.
fn check_order(filetype: &Datatype, writes: bool) -> Result<bool> {
    let (mut start, mut end) = (0i64, 0i64);
    let (mut decreases, mut overlaps) = (false, false);
    filetype.for_each_block(1, 0, 0, filetype.size() as usize, |at, len| {
        let at = at as i64;
        decreases |= at < start;
        overlaps |= at < end;
        (start, end) = (at, end.max(at.saturating_add(len as i64)));
    });
    if decreases {
        return Err(wrong(
            "the displacements of the filetype decrease or are negative",
        ));
    }
    if overlaps && writes {
        return Err(wrong(
            "the filetype has a byte twice, and the file is open for writing",
        ));
    }
    Ok(!overlaps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Form;

    fn view(disp: i64, filetype: &Rc<Datatype>) -> FileView {
        filetype.commit();
        let arguments = ViewArguments {
            disp,
            etype: Datatype::named(Named::Int),
            filetype: filetype.clone(),
            datarep: DataRepresentation::Native,
        };
        FileView::new(arguments, true).unwrap()
    }

    fn pieces(view: &FileView, from: i64, len: i64) -> Vec<(i64, i64)> {
        let mut list = Vec::new();
        let add = |piece: FilePiece| list.push((piece.offset, piece.len));
        view.for_each_piece(from, len, add);
        list
    }

    fn int() -> Rc<Datatype> {
        Datatype::named(Named::Int)
    }

    #[test]
    fn pieces_go_on_from_tile_to_tile() {
        // Two of each three ints; the tile ends with its gap.
        let vector = Datatype::vector(Form::Int, 2, 2, 3, &int()).unwrap();
        let tile = Datatype::resized(Form::Int, &vector, 0, 24).unwrap();
        let view = view(100, &tile);
        assert_eq!(
            pieces(&view, 0, 32),
            [(100, 8), (112, 8), (124, 8), (136, 8)]
        );
        assert_eq!(pieces(&view, 6, 4), [(106, 2), (112, 2)]);
        assert_eq!(pieces(&view, 16 * 1000, 8), [(100 + 24_000, 8)]);
        assert_eq!(view.range(6, 4), 106..114);
        // A vector without the last gap touches its successor.
        let touching = self::view(0, &vector);
        assert_eq!(pieces(&touching, 0, 24), [(0, 8), (12, 16)]);
    }

    #[test]
    fn dense_views_are_one_piece_of_any_length() {
        let row = Datatype::contiguous(Form::Int, 5, &int()).unwrap();
        let view = view(7, &row);
        assert_eq!(pieces(&view, 3, 1 << 40), [(10, 1 << 40)]);
        assert_eq!((view.bytes_below(5), view.bytes_below(17)), (0, 10));
        assert_eq!(view.etypes_below(17), 3);
    }

    #[test]
    fn bytes_below_a_position_are_counted() {
        let vector = Datatype::vector(Form::Int, 2, 1, 2, &int()).unwrap();
        let tile = Datatype::resized(Form::Int, &vector, 0, 20).unwrap();
        let view = view(10, &tile);
        let count = |position: i64| {
            let mut below = 0;
            let add = |p: FilePiece| below += (position - p.offset).clamp(0, p.len);
            view.for_each_piece(0, 400, add);
            below
        };
        for position in 0..300 {
            assert_eq!(view.bytes_below(position), count(position), "{position}");
        }
    }
}
