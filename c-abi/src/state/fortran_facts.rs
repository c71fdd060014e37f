//! What a library for Fortran has said of its compiler (MPI-5.0 §20.4), once for a process.

use std::cell::OnceCell;

use rejoin_mpi::Info;

/// Bytes of the largest LOGICAL.
const LARGEST: usize = 16;

/// Facts of a compiler.
pub struct FortranFacts {
    /// Sizes of types, and which optional types there are.
    pub info: OnceCell<Info>,
    /// The values of LOGICAL.
    pub booleans: OnceCell<LogicalValues>,
}

impl Default for FortranFacts {
    fn default() -> Self {
        Self::new()
    }
}

impl FortranFacts {
    /// Nobody has said anything.
    pub const fn new() -> Self {
        Self {
            info: OnceCell::new(),
            booleans: OnceCell::new(),
        }
    }
}

/// The values of a LOGICAL of one size.
pub struct LogicalValues {
    /// Its bytes, up to 16.
    pub bytes: usize,
    /// `.true.`, in the first of these bytes.
    pub yes: [u8; LARGEST],
    /// `.false.`, in the first of these bytes.
    pub no: [u8; LARGEST],
}

impl LogicalValues {
    /// Values of this size that nobody has said yet.
    pub const fn of(bytes: usize) -> Self {
        Self {
            bytes,
            yes: [0; LARGEST],
            no: [0; LARGEST],
        }
    }
}
