//! The one way in which ranks come back.
//!
//! Whatever takes ranks away (a failure, a lost host, an image that is gone), the recovery mode
//! plans a [`ReturnPlan`]: which ranks, from which checkpoint, without which hosts. From there on
//! all is the same:
//!
//! 1. `begin_return` gives the ranks new incarnations and their places, and stores one
//!    [`Return`](super::interface::Return).
//! 2. `order_return` orders their hosts to restore them. An order waits in [`HeldOrders`] until
//!    nothing of the ranks acts elsewhere: until the lease of a lost host has ended, and each host
//!    that a rank has left has said so.
//! 3. `returned` lets them start when they have registered, and reports that.
//!
//! A restarted central manager reads the records, and orders what is missing by the same step 2.

mod begin_return;
mod held_orders;
mod order_return;
mod return_plan;
mod returned;

pub(super) use begin_return::ReturnHandler;
pub(super) use held_orders::{HeldOrders, RankPlaces};
pub(super) use order_return::OrderHandler;
pub(super) use return_plan::{LostPlaces, ReplacedHost, ReturnPlan, Returning};
