//! What reductions share: the operation on blocks, and orders of combining.

mod halving;
mod order;
mod reducer;

pub use reducer::Reducer;

pub(in crate::coll) use halving::{ActiveSet, Halves, Membership};
pub(in crate::coll) use order::{ExchangeOrder, MOST};
pub(in crate::coll) use reducer::{
    Pair, combine_into, exchange_fold, fold, send_value, take_excluded,
};
