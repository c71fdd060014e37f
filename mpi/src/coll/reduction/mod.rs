//! What reductions share: the operation on blocks, and orders of combining.

mod exchange_order;
mod halving;
mod reducer;

pub use reducer::Reducer;

pub(in crate::coll) use exchange_order::{ExchangeOrder, MAX_PLACES};
pub(in crate::coll) use halving::{ActiveSet, Halves, Membership};
pub(in crate::coll) use reducer::{
    Pair, combine_into, exchange_fold, fold, send_value, take_excluded,
};
