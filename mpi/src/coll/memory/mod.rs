//! Regions of memory, and temporary memory.

mod mem;
mod scratch;

pub use mem::{Blocks, Mem, Split};
pub use scratch::Scratch;

pub(in crate::coll) use mem::{check_equal, stride};
pub(in crate::coll) use scratch::Loan;
