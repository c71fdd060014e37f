//! What libraries for programs of Fortran share, whichever MPI's binary interface they have: texts
//! that end with blanks, indices that count from 1, and entries for functions of the program.

mod blank_padded;
mod callback_entries;
mod indices;

pub use blank_padded::{OutText, in_text, in_trimmed_text};
pub use callback_entries::Entries;
pub use indices::{UNDEFINED, count_from_one};
