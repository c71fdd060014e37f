//! How a datatype was made: envelope and contents (MPI-5.0 §5.1.13).

use std::rc::Rc;

use super::Datatype;
use super::named::Named;
use crate::error::{Error, ErrorClass, Result};

/// The constructor of a datatype. Numbers of the constants belong to the ABI and live there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combiner {
    /// A predefined type.
    Named(Named),
    /// `MPI_TYPE_DUP`.
    Dup,
    /// `MPI_TYPE_CONTIGUOUS`.
    Contiguous,
    /// `MPI_TYPE_VECTOR`.
    Vector,
    /// `MPI_TYPE_CREATE_HVECTOR`.
    Hvector,
    /// `MPI_TYPE_INDEXED`.
    Indexed,
    /// `MPI_TYPE_CREATE_HINDEXED`.
    Hindexed,
    /// `MPI_TYPE_CREATE_INDEXED_BLOCK`.
    IndexedBlock,
    /// `MPI_TYPE_CREATE_HINDEXED_BLOCK`.
    HindexedBlock,
    /// `MPI_TYPE_CREATE_STRUCT`.
    Struct,
    /// `MPI_TYPE_CREATE_SUBARRAY`.
    Subarray,
    /// `MPI_TYPE_CREATE_DARRAY`.
    Darray,
    /// `MPI_TYPE_CREATE_F90_REAL`.
    F90Real,
    /// `MPI_TYPE_CREATE_F90_COMPLEX`.
    F90Complex,
    /// `MPI_TYPE_CREATE_F90_INTEGER`.
    F90Integer,
    /// `MPI_TYPE_CREATE_RESIZED`.
    Resized,
    /// `MPI_TYPE_GET_VALUE_INDEX`, for pairs without a name.
    ValueIndex,
}

/// Which form of a constructor was called: it decides where the arguments are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Counts of type `int`, displacements of type `MPI_Aint`.
    Int,
    /// The `_c` form: counts and displacements of type `MPI_Count`.
    Large,
}

/// The arguments a datatype was made with, in the order `MPI_TYPE_GET_CONTENTS` gives them.
///
/// The lengths of the four lists are the envelope.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// `array_of_integers`.
    pub integers: Vec<i32>,
    /// `array_of_addresses`.
    pub addresses: Vec<i64>,
    /// `array_of_large_counts`.
    pub large_counts: Vec<i64>,
    /// `array_of_datatypes`.
    pub datatypes: Vec<Rc<Datatype>>,
}

impl Contents {
    /// No arguments but datatypes.
    pub(super) fn of(datatypes: &[&Rc<Datatype>]) -> Self {
        Self {
            datatypes: datatypes.iter().map(|d| Rc::clone(d)).collect(),
            ..Self::default()
        }
    }

    /// Adds arguments that are `int` in both forms.
    pub(super) fn ints(mut self, values: &[i32]) -> Self {
        self.integers.extend_from_slice(values);
        self
    }

    /// Adds arguments that are counts: integers or large counts.
    pub(super) fn counts(mut self, form: Form, values: &[i64]) -> Result<Self> {
        match form {
            Form::Large => self.large_counts.extend_from_slice(values),
            Form::Int => {
                self.integers.reserve(values.len());
                for v in values {
                    self.integers.push(i32::try_from(*v).map_err(|_| {
                        Error::new(ErrorClass::Arg, format!("{v} does not fit in an int"))
                    })?);
                }
            }
        }
        Ok(self)
    }

    /// Adds arguments that are addresses: `MPI_Aint` or large counts.
    pub(super) fn bytes(mut self, form: Form, values: &[i64]) -> Self {
        match form {
            Form::Large => self.large_counts.extend_from_slice(values),
            Form::Int => self.addresses.extend_from_slice(values),
        }
        self
    }
}
