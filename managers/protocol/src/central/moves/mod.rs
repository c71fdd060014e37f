//! Ranks that move to other hosts while the job runs.
//!
//! While a rank runs, the other host loads a copy of its memory, and then copies of what the rank
//! has written since, until little is left (*pre-copy*). Checkpoints come between these images: a
//! copy may take long, and work would be at risk. Then, when no file of a checkpoint is under way
//! on the host that the rank leaves, the rank stops at a safe point with a last image, and waits. A
//! process is made of the images on the other host, in the same generation with the next
//! incarnation. When it has registered, central stores the move, tells all ranks the new card (the
//! *update*), and ends the old process. Nothing rolls back: the image is the rank's present state,
//! and its links resume as after a cut. Until then the old process can go on, so whatever fails
//! before leaves the rank where it was.
//!
//! `move_request` says what is asked for and where the ranks go, `move_table` which requests wait
//! and which moves are under way, `rank_progress` how far each has come, and `move_view` what of
//! that is shown. `move_steps` begins and ends them, `move_messages` handles what hosts report
//! meanwhile, and `leaving_hosts` what they request for themselves. `former_hosts` knows which host
//! has a rank's image of a checkpoint that was taken before the rank moved.

mod balance;
mod departures;
mod former_hosts;
mod leaving_hosts;
mod move_messages;
mod move_request;
mod move_rules;
mod move_steps;
mod move_table;
mod move_view;
#[cfg(test)]
mod planning_cost;
mod rank_progress;

pub(super) use departures::Departures;
pub use former_hosts::FormerHosts;
pub use move_request::{MoveRequest, Movers, RequestPlan};
pub(super) use move_rules::MoveRules;
pub(super) use move_steps::MoveHandler;
pub(super) use move_table::MoveTable;
pub use move_view::{MovePhase, MoveView};
pub use rank_progress::RankMove;
