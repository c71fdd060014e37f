//! What the ways of a long body cost, as its receiver measures it.
//!
//! Between ranks of a host a long body goes through memory of the link, which both sides copy, or
//! the receiver reads it out of the sender's memory. Which takes less time depends on the cores, on
//! what else runs, and on whether more bodies are under way. All of that changes while a program
//! runs, on a virtual machine within minutes. So the receiver takes the time of long bodies that
//! meet their receive, has the sender try the other way now and then ([`contest`]), and tells the
//! sender which bodies to offer for reading ([`body_costs`]).

mod body_costs;
mod contest;

pub(crate) use body_costs::{BodyCosts, BodyUse, gets_of_word};
pub(crate) use contest::BodyWay;
