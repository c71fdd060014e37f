//! Types found by precision, range, size or by their parts (MPI-5.0 §19.1.9, §6.9.4).

use std::rc::Rc;

use super::Contents;
use super::body::TypeBody;
use super::combiner::Combiner;
use super::{Class, Datatype, Named};
use crate::error::{Error, ErrorClass, Result};

/// `MPI_UNDEFINED` of the standard ABI: a precision or range that was not asked for.
const UNDEFINED: i32 = -32766;

/// The class of types for `MPI_TYPE_MATCH_SIZE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeClass {
    /// `MPIX_TYPECLASS_LOGICAL`.
    Logical,
    /// `MPI_TYPECLASS_INTEGER`.
    Integer,
    /// `MPI_TYPECLASS_REAL`.
    Real,
    /// `MPI_TYPECLASS_COMPLEX`.
    Complex,
}

fn bad(message: String) -> Error {
    Error::new(ErrorClass::Arg, message)
}

/// Bytes of the smallest real of at least this precision and range (both decimal).
fn real_bytes(precision: i32, range: i32) -> Result<i32> {
    if precision == UNDEFINED && range == UNDEFINED {
        return Err(bad("neither a precision nor a range is given".to_owned()));
    }
    let wanted = |v: i32| if v == UNDEFINED { 0 } else { v };
    match (wanted(precision), wanted(range)) {
        (p, r) if p < 0 || r < 0 => Err(bad(format!("precision {p} and range {r}"))),
        (..=6, ..=37) => Ok(4),
        (..=15, ..=307) => Ok(8),
        (..=33, ..=4931) => Ok(16),
        (p, r) => Err(bad(format!("no real has precision {p} and range {r}"))),
    }
}

impl Datatype {
    /// The predefined type of this class and size in bytes (`MPI_TYPE_MATCH_SIZE`).
    ///
    /// # Errors
    /// `Arg` if there is none.
    pub fn match_size(class: TypeClass, size: i32) -> Result<Named> {
        use Named::*;
        Ok(match (class, size) {
            (TypeClass::Logical, 1) => Logical1,
            (TypeClass::Logical, 2) => Logical2,
            (TypeClass::Logical, 4) => Logical4,
            (TypeClass::Logical, 8) => Logical8,
            (TypeClass::Logical, 16) => Logical16,
            (TypeClass::Integer, 1) => Integer1,
            (TypeClass::Integer, 2) => Integer2,
            (TypeClass::Integer, 4) => Integer4,
            (TypeClass::Integer, 8) => Integer8,
            (TypeClass::Integer, 16) => Integer16,
            (TypeClass::Real, 2) => Real2,
            (TypeClass::Real, 4) => Real4,
            (TypeClass::Real, 8) => Real8,
            (TypeClass::Real, 16) => Real16,
            (TypeClass::Complex, 4) => Complex4,
            (TypeClass::Complex, 8) => Complex8,
            (TypeClass::Complex, 16) => Complex16,
            (TypeClass::Complex, 32) => Complex32,
            _ => return Err(bad(format!("no {class:?} type has {size} bytes"))),
        })
    }

    /// `MPI_TYPE_CREATE_F90_REAL`. The caller keeps the types it made and gives the same one for
    /// the same arguments (so for the other two).
    ///
    /// # Errors
    /// `Arg` if no type is precise or wide enough.
    pub fn f90_real(precision: i32, range: i32) -> Result<Rc<Self>> {
        let named = Self::match_size(TypeClass::Real, real_bytes(precision, range)?)?;
        let contents = Contents::default().ints(&[precision, range]);
        let body = TypeBody::of_named(named);
        Ok(Self::predefined(body, Combiner::F90Real, contents))
    }

    /// `MPI_TYPE_CREATE_F90_COMPLEX`.
    ///
    /// # Errors
    /// `Arg` if no type is precise or wide enough.
    pub fn f90_complex(precision: i32, range: i32) -> Result<Rc<Self>> {
        let named = Self::match_size(TypeClass::Complex, 2 * real_bytes(precision, range)?)?;
        let contents = Contents::default().ints(&[precision, range]);
        let body = TypeBody::of_named(named);
        Ok(Self::predefined(body, Combiner::F90Complex, contents))
    }

    /// `MPI_TYPE_CREATE_F90_INTEGER`.
    ///
    /// # Errors
    /// `Arg` if no type is wide enough.
    pub fn f90_integer(range: i32) -> Result<Rc<Self>> {
        let bytes = match range {
            ..0 => return Err(bad(format!("the range {range} is negative"))),
            0..=2 => 1,
            3..=4 => 2,
            5..=9 => 4,
            10..=18 => 8,
            19..=38 => 16,
            _ => return Err(bad(format!("no integer has the range {range}"))),
        };
        let named = Self::match_size(TypeClass::Integer, bytes)?;
        let contents = Contents::default().ints(&[range]);
        let body = TypeBody::of_named(named);
        Ok(Self::predefined(body, Combiner::F90Integer, contents))
    }

    /// The sized type that is equivalent to a type made by precision or range.
    pub(super) fn f90_equivalent(&self) -> Option<Named> {
        let class = match self.combiner() {
            Combiner::F90Real => TypeClass::Real,
            Combiner::F90Complex => TypeClass::Complex,
            Combiner::F90Integer => TypeClass::Integer,
            _ => return None,
        };
        Self::match_size(class, i32::try_from(self.size()).ok()?).ok()
    }

    /// The pair type of a value and an index (`MPI_TYPE_GET_VALUE_INDEX`): one with a name where
    /// there is one, else without. `None` (`MPI_DATATYPE_NULL`) if the parts are no numbers.
    pub fn value_index(value: &Rc<Self>, index: &Rc<Self>) -> Option<Rc<Self>> {
        let (v, i) = (value.as_named()?, index.as_named()?);
        if let Some(pair) = Named::pair_of(v, i) {
            return Some(Self::named(pair));
        }
        let integer = |c| {
            matches!(
                c,
                Class::CInteger | Class::FortranInteger | Class::MultiLanguage
            )
        };
        let number = integer(v.class()) || v.class() == Class::Floating;
        if !number || !integer(i.class()) {
            return None;
        }
        let contents = Contents::of(&[value, index]);
        Some(Self::predefined(
            TypeBody::of_pair(v, i),
            Combiner::ValueIndex,
            contents,
        ))
    }
}
