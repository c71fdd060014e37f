//! Ranks that share a host, and collectives in two levels.

pub(in crate::coll) mod aggregate;
mod locality;
pub(in crate::coll) mod two_level;

pub use locality::Locality;

pub(in crate::coll) use locality::{MAX_LINEAR_RANKS, Span};
