//! The constructors of datatypes (MPI-5.0 §5.1.13).

use super::named::Named;

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
