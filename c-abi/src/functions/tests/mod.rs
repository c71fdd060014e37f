//! The functions that the program calls, called on a state without a runtime.

mod datatypes;
mod objects;
