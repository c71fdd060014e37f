//! The state of a host, for a restarted central manager.

use super::instances::Stage;
use super::process_messages::ProcessExit;
use crate::region_commits::RegionWait;
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, MoveNumber, Rank};
use rejoin_wire::Limits;
use serde::{Deserialize, Serialize};

/// The state of one host, for a restarted central manager. Messages to its predecessor may not have
/// arrived.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Report {
    /// The job's generation as this host knows it; `None` as long as no rank was to be started.
    pub generation: Option<Generation>,
    /// The last signal of those that ask programs to end that was passed on to the ranks.
    pub signalled: Option<i32>,
    /// The host's ranks have begun without the table, which has not come.
    pub lacks_table: bool,
    /// The host's ranks, in their order.
    pub ranks: Vec<RankReport>,
    /// Ranks of other hosts of which it has loaded images, or is to: they were to move here.
    pub loads: Vec<Rank>,
    /// Exits, some of them unexpected, of which central may not know.
    pub exits: Vec<ProcessExit>,
}

/// How a rank is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankReport {
    /// The reported rank.
    pub rank: Rank,
    /// The incarnation that was last ordered.
    pub incarnation: Incarnation,
    /// How far it has come.
    pub stage: Stage,
    /// Process id of the rank, 0 while it has none.
    pub pid: u32,
    /// Where it listens.
    pub card: Option<BusinessCard>,
    /// The sizes it goes by.
    pub limits: Option<Limits>,
    /// The rank has registered and waits for the others.
    pub waits: bool,
    /// The rank ended as it should.
    pub ended: bool,
    /// The rank's program waits for a checkpoint later than this epoch.
    pub asked: Option<Epoch>,
    /// What its program waits for while it stores its registered memory.
    pub regions: RegionWait,
    /// The number of its latest image for a move, of which this host does not know the end.
    pub moves: Option<MoveNumber>,
    /// The checkpoints from which it can be restored.
    pub images: Vec<Epoch>,
}
