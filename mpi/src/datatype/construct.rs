//! Constructors of derived datatypes (MPI-5.0 §5.1.2, §5.1.7, §5.1.10).
//!
//! The `form` of a constructor says whether the `_c` function was called; it only decides how the
//! contents are given back.

use std::rc::Rc;

use super::body::TypeBody;
use super::combiner::{Combiner, Form};
use super::named::Named;
use super::{Contents, Datatype, check_count};
use crate::error::{Error, ErrorClass, Result};

/// Refuses a negative block length.
fn check_block(length: i64) -> Result<()> {
    if length < 0 {
        return Err(Error::new(
            ErrorClass::Arg,
            format!("the block length {length} is negative"),
        ));
    }
    Ok(())
}

/// Refuses arrays of different lengths.
fn check_lengths(a: usize, b: usize) -> Result<()> {
    if a != b {
        return Err(Error::new(
            ErrorClass::Arg,
            format!("arrays of {a} and {b} entries where as many are needed"),
        ));
    }
    Ok(())
}

/// A stride or displacement in units of an extent, in bytes.
fn in_bytes(units: i64, extent: i64) -> Result<i64> {
    units.checked_mul(extent).ok_or_else(|| {
        Error::new(
            ErrorClass::Arg,
            format!("a displacement of {units} extents of {extent} bytes does not fit in 64 bits"),
        )
    })
}

impl Datatype {
    /// A predefined type; committed. Each call makes a new object, equal in all but identity.
    pub fn named(named: Named) -> Rc<Self> {
        let body = TypeBody::of_named(named);
        Self::predefined(body, Combiner::Named(named), Contents::default())
    }

    /// `count` elements in a row (`MPI_TYPE_CONTIGUOUS`).
    ///
    /// # Errors
    /// `Count` for a negative count or a size above 64 bits, `Arg` for bounds above 64 bits (so do
    /// all constructors).
    pub fn contiguous(form: Form, count: i64, old: &Rc<Self>) -> Result<Rc<Self>> {
        check_count(count)?;
        let contents = Contents::of(&[old]).counts(form, &[count])?;
        Self::derived(old.body.row(count)?, Combiner::Contiguous, contents)
    }

    /// `count` blocks of `length` elements, `stride` extents apart (`MPI_TYPE_VECTOR`).
    ///
    /// # Errors
    /// Also `Arg` for a negative block length.
    pub fn vector(
        form: Form,
        count: i64,
        length: i64,
        stride: i64,
        old: &Rc<Self>,
    ) -> Result<Rc<Self>> {
        check_count(count)?;
        check_block(length)?;
        let contents = Contents::of(&[old]).counts(form, &[count, length, stride])?;
        let body = match count {
            0 | 1 => old.body.row(if count == 0 { 0 } else { length })?,
            _ => {
                let bytes = in_bytes(stride, old.extent())?;
                old.body.row(length)?.repeat(count, bytes)?
            }
        };
        Self::derived(body, Combiner::Vector, contents)
    }

    /// A `vector` with the stride in bytes (`MPI_TYPE_CREATE_HVECTOR`).
    ///
    /// # Errors
    /// The errors of `vector`.
    pub fn hvector(
        form: Form,
        count: i64,
        length: i64,
        stride: i64,
        old: &Rc<Self>,
    ) -> Result<Rc<Self>> {
        check_count(count)?;
        check_block(length)?;
        let contents = Contents::of(&[old])
            .counts(form, &[count, length])?
            .bytes(form, &[stride]);
        let body = old.body.row(length)?.repeat(count, stride)?;
        Self::derived(body, Combiner::Hvector, contents)
    }

    /// Blocks of different lengths, displacements in extents (`MPI_TYPE_INDEXED`).
    ///
    /// # Errors
    /// Also `Arg` for a negative block length or arrays of different lengths.
    pub fn indexed(
        form: Form,
        lengths: &[i64],
        displacements: &[i64],
        old: &Rc<Self>,
    ) -> Result<Rc<Self>> {
        let contents = Contents::of(&[old])
            .counts(form, &[lengths.len() as i64])?
            .counts(form, lengths)?
            .counts(form, displacements)?;
        let body = old.blocks(lengths, displacements, old.extent())?;
        Self::derived(body, Combiner::Indexed, contents)
    }

    /// An `indexed` datatype with displacements in bytes (`MPI_TYPE_CREATE_HINDEXED`).
    ///
    /// # Errors
    /// The errors of `indexed`.
    pub fn hindexed(
        form: Form,
        lengths: &[i64],
        displacements: &[i64],
        old: &Rc<Self>,
    ) -> Result<Rc<Self>> {
        let contents = Contents::of(&[old])
            .counts(form, &[lengths.len() as i64])?
            .counts(form, lengths)?
            .bytes(form, displacements);
        let body = old.blocks(lengths, displacements, 1)?;
        Self::derived(body, Combiner::Hindexed, contents)
    }

    /// Blocks of one length, displacements in extents (`MPI_TYPE_CREATE_INDEXED_BLOCK`).
    ///
    /// # Errors
    /// Also `Arg` for a negative block length.
    pub fn indexed_block(
        form: Form,
        length: i64,
        displacements: &[i64],
        old: &Rc<Self>,
    ) -> Result<Rc<Self>> {
        let contents = Contents::of(&[old])
            .counts(form, &[displacements.len() as i64, length])?
            .counts(form, displacements)?;
        let lengths = vec![length; displacements.len()];
        let body = old.blocks(&lengths, displacements, old.extent())?;
        Self::derived(body, Combiner::IndexedBlock, contents)
    }

    /// An `indexed_block` datatype with displacements in bytes (`MPI_TYPE_CREATE_HINDEXED_BLOCK`).
    ///
    /// # Errors
    /// The errors of `indexed_block`.
    pub fn hindexed_block(
        form: Form,
        length: i64,
        displacements: &[i64],
        old: &Rc<Self>,
    ) -> Result<Rc<Self>> {
        let contents = Contents::of(&[old])
            .counts(form, &[displacements.len() as i64, length])?
            .bytes(form, displacements);
        let lengths = vec![length; displacements.len()];
        let body = old.blocks(&lengths, displacements, 1)?;
        Self::derived(body, Combiner::HindexedBlock, contents)
    }

    /// Blocks of different types, displacements in bytes (`MPI_TYPE_CREATE_STRUCT`).
    ///
    /// # Errors
    /// Also `Arg` for a negative block length or arrays of different lengths.
    pub fn structure(
        form: Form,
        lengths: &[i64],
        displacements: &[i64],
        types: &[Rc<Self>],
    ) -> Result<Rc<Self>> {
        check_lengths(lengths.len(), displacements.len())?;
        check_lengths(lengths.len(), types.len())?;
        let contents = Contents {
            datatypes: types.to_vec(),
            ..Contents::default()
        }
        .counts(form, &[lengths.len() as i64])?
        .counts(form, lengths)?
        .bytes(form, displacements);
        let mut parts = Vec::with_capacity(types.len());
        for ((&length, &at), old) in lengths.iter().zip(displacements).zip(types) {
            check_block(length)?;
            if length > 0 {
                parts.push((at, old.body.row(length)?));
            }
        }
        Self::derived(TypeBody::concat(parts)?, Combiner::Struct, contents)
    }

    /// The same data with other bounds (`MPI_TYPE_CREATE_RESIZED`).
    ///
    /// # Errors
    /// `Arg` for bounds above 64 bits.
    pub fn resized(form: Form, old: &Rc<Self>, lb: i64, extent: i64) -> Result<Rc<Self>> {
        let contents = Contents::of(&[old]).bytes(form, &[lb, extent]);
        let body = old.body.resized(lb, extent)?;
        Self::derived(body, Combiner::Resized, contents)
    }

    /// A copy with the same committed state (`MPI_TYPE_DUP`). Attributes are the caller's task.
    pub fn dup(old: &Rc<Self>) -> Rc<Self> {
        let copy = Self::new(old.body.clone(), Combiner::Dup, Contents::of(&[old]));
        copy.committed.set(old.is_committed());
        Rc::new(copy)
    }

    /// The body of blocks whose displacements are in units of `unit` bytes.
    fn blocks(&self, lengths: &[i64], displacements: &[i64], unit: i64) -> Result<TypeBody> {
        check_lengths(lengths.len(), displacements.len())?;
        let mut blocks = Vec::with_capacity(lengths.len());
        for (&length, &at) in lengths.iter().zip(displacements) {
            check_block(length)?;
            if length > 0 {
                blocks.push((in_bytes(at, unit)?, length));
            }
        }
        self.body.blocks(&blocks)
    }
}
