//! Linear collectives: every rank sends all its messages before it waits.

mod linear_exchange;
mod linear_reduction;
mod linear_scan;

pub(in crate::coll) use linear_exchange::{exchange_all, gather, scatter, send_to_all};
pub(in crate::coll) use linear_reduction::{Combiners, Linear, plan, plan_of_parts};
pub(in crate::coll) use linear_scan::linear_scan;
