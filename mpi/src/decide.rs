//! The one hook that every nondeterministic answer passes.
//!
//! The answer of an MPI call may depend on timing: the result of a test, the first of several
//! requests, the message that a probe found. In logging modes the answer is recorded, and after a
//! restore it is repeated. [`DeterminantLog`](rejoin_device::determinants::DeterminantLog) has the
//! records. Outside logging modes the hook is one branch.
//!
//! The order is always: **find a candidate, ask, then take.** No message is consumed before the
//! answer is known, so a replay may answer "not yet" for a message that has arrived. The steps
//! after an answer follow the answer and wait for its message, so a replay may answer "yes" for a
//! message that has not arrived yet. A call that blocks asks in its wait, too
//! (`Mpi::recorded`): so it waits for what the record names, and for nothing else. It asks again
//! at each step of the wait, because the process may be restored from an image of this wait.
//!
//! The engine itself records which messages receives with a wildcard were matched with. A replay
//! narrows the pattern to that source and tag.
//!
//! Which sends of tasks precede which sends of the program is an answer, too (`send_order`).

mod answers;
mod decider;
pub(crate) mod send_order;
mod task_sends;
mod wall_clock;

pub(crate) use decider::Decider;
pub use decider::is_logging;
pub use wall_clock::TIME_RESOLUTION;

#[cfg(test)]
mod tests;
