//! Before the first checkpoint there is only the start for a rollback. Nothing but `MPI_Init` is
//! lost by that, so the job starts anew as often as `--max-restarts` allows.

use super::response::{JobProgress, Situation};
use crate::control::Cause;
use crate::policy::{self, History, Refusal};
use rejoin_channel_table::Rank;

/// Whether the job starts anew because of this failure. `ordered`: a checkpoint is under way.
pub(super) fn judge(
    history: &mut History,
    situation: &Situation,
    ordered: bool,
    rank: Rank,
    cause: &Cause,
) -> Result<(), Refusal> {
    let in_init = situation.progress == JobProgress::InInit;
    if policy::is_killed_before_init(cause) {
        // A program may not use MPI at all if one of its ranks ended without MPI_Init. A restart
        // would then repeat its effects.
        return match in_init && !situation.absent {
            true => history.admit(situation.now),
            false => Err(Refusal::Meant),
        };
    }
    // While the first checkpoint is under way, ranks have hardly left MPI_Init. One that was
    // aborted leaves the job without any: too much would be done again.
    let running = situation.progress == JobProgress::Running;
    if policy::is_failure(cause) && !in_init && !(running && ordered) {
        return Err(Refusal::NoCheckpoint);
    }
    history.judge(situation.now, rank, cause, None)
}
