//! Messages of the central manager to a local manager.

use super::instances::{MovedRank, ProcessInstance};
use crate::detector::WatchOrder;
use crate::levels::CommittedEpochs;
use crate::region_commits::RegionEpochs;
use rejoin_channel_table::{
    BusinessCard, Epoch, Generation, ImageId, Incarnation, MoveNumber, Rank,
};
use rejoin_wire::ProcessMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// From central to a local manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToLocal {
    /// Start these ranks.
    Spawn {
        /// The job's generation.
        generation: Generation,
        /// Which ranks, in which incarnation.
        ranks: Vec<(Rank, Incarnation)>,
        /// The checkpoint from whose files they begin, in a job that is restarted; `None`: their
        /// programs are started.
        from: Option<Epoch>,
        /// The checkpoint of registered memory with which programs start that are started anew, or
        /// come back to a place before that; `None`: as the launch began.
        regions: Option<Epoch>,
        /// Ranks among these that come from hosts which this launch has lost.
        moved: Vec<MovedRank>,
    },
    /// A rank that failed does not come back.
    Release {
        /// Which process it was.
        instance: ProcessInstance,
    },
    /// Every rank has registered.
    Start {
        /// The job's generation.
        generation: Generation,
        /// Incarnation and card of each rank, in rank order.
        table: Vec<(Incarnation, Arc<BusinessCard>)>,
        /// The epoch of the image that each rank takes at the end of `MPI_Init`.
        image: Option<Epoch>,
    },
    /// About images of ranks.
    Image(ImageOrder),
    /// About a rank that moves away from this host, or to it.
    Move(RankMoveOrder),
    /// A rank has come back or moved: where it is now. Ranks null the link to its earlier
    /// incarnation.
    Update {
        /// Present instance of the rank.
        instance: ProcessInstance,
        /// Where it listens.
        card: BusinessCard,
    },
    /// About checkpoints of registered memory.
    Regions(RegionOrder),
    /// These ranks return or arrive: their present processes are stopped, and when all of this
    /// host's are, their images take over.
    Restore {
        /// The job's generation from now on.
        generation: Generation,
        /// Which image of each; `None`: the program starts anew.
        from: Option<ImageId>,
        /// The checkpoint of registered memory with which programs start that are started anew, or
        /// come back to a place before that; `None`: as the launch began.
        regions: Option<Epoch>,
        /// Which ranks, in which incarnation from now on.
        ranks: Vec<(Rank, Incarnation)>,
        /// Ranks among these that come from hosts which this launch has lost. They may be here
        /// already.
        moved: Vec<MovedRank>,
    },
    /// Keep a copy of the file of an image that a rank of another host has stored; of the files of
    /// several ranks, their parity.
    Copy {
        /// The ranks in their order, and the numbers of the hosts that have the files.
        members: Vec<(Rank, usize)>,
        /// Of which epoch.
        epoch: Epoch,
    },
    /// Every rank is in `MPI_Finalize`.
    AllFinalized {
        /// The job's generation.
        generation: Generation,
    },
    /// Send this signal to the ranks' process groups.
    Signal {
        /// Number of the signal.
        signal: i32,
    },
    /// The job is over: end every process of it, politely first.
    End {
        /// One line for the ranks' logs.
        why: String,
    },
    /// The job is over: kill every process of it at once.
    Kill,
    /// The ranks can't leave this host as [`HostMessage::Ends`](super::HostMessage::Ends) asks:
    /// there is nowhere to go.
    CanNotLeave,
    /// A renewal of the host's lease is granted.
    Granted {
        /// Number of the granted request.
        number: u64,
    },
    /// Of the watch over other hosts.
    Watch(WatchOrder),
    /// Central was started again: say how everything is.
    Report,
    /// How this process ended is stored.
    Acknowledged {
        /// Which one's exit status was reported.
        instance: ProcessInstance,
    },
    /// Central has stored that no process of the job is left on this host: its local manager is no
    /// longer needed.
    Leave,
    /// Every rank has registered; the table is under way, and cards are asked for until it is
    /// there.
    Begin {
        /// The job's generation.
        generation: Generation,
        /// Incarnation and host of each rank.
        process_map: ProcessMap,
        /// The epoch of the image that each rank takes at the end of `MPI_Init`.
        image: Option<Epoch>,
    },
}

/// Of which ranks take images, and which images count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ImageOrder {
    /// Every rank takes its image of this epoch.
    Checkpoint {
        /// The job's generation.
        generation: Generation,
        /// Number of the checkpoint.
        epoch: Epoch,
    },
    /// These ranks take their images of this checkpoint.
    CheckpointRanks {
        /// The job's generation.
        generation: Generation,
        /// The checkpoint.
        epoch: Epoch,
        /// Ranks of a recovery group that are on the host.
        ranks: Vec<Rank>,
    },
    /// From now on the images of these checkpoints count. The host writes the images of
    /// [`CommittedEpochs::writing`] to files. It drops images of other epochs up to `abandoned`,
    /// also images that are still to come.
    Commit {
        /// The job's generation.
        generation: Generation,
        /// The checkpoints; none as long as there is none.
        epochs: CommittedEpochs,
        /// The highest number that was abandoned; no committed one is higher.
        abandoned: Epoch,
    },
    /// The recovery group of these ranks has committed this checkpoint: the host drops their
    /// earlier images, and tells them.
    CommitGroup {
        /// The job's generation.
        generation: Generation,
        /// The ranks of the group that are on the host, or more.
        ranks: Vec<Rank>,
        /// The checkpoint.
        epoch: Epoch,
        /// The checkpoint from which on peers of the group need retain nothing for it: this one,
        /// or an earlier one in files. None yet when absent.
        released: Option<Epoch>,
    },
    /// The images of these ranks are written to files. Without recovery groups, a [`Self::Commit`]
    /// says that of all ranks.
    WriteImages {
        /// Ranks of a recovery group that are on the host.
        ranks: Vec<Rank>,
        /// The checkpoint.
        epoch: Epoch,
    },
}

/// About a rank that moves away from a host, or to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RankMoveOrder {
    /// This process takes an image of this number at a safe point, which goes to a file.
    Move {
        /// The process instance.
        instance: ProcessInstance,
        /// The number of the image.
        number: MoveNumber,
        /// The number of an earlier image of the same move, to which the file refers for what has
        /// not changed.
        base: Option<MoveNumber>,
        /// The process waits at its image. Otherwise it continues, and the image is a copy ahead.
        stops: bool,
    },
    /// Load this image of a rank that is to move here, which refers to the one before. A process of
    /// the rank begins with [`ToLocal::Restore`]. Answered by
    /// [`MoveMessage::Loaded`](super::MoveMessage::Loaded) or
    /// [`MoveMessage::NotLoaded`](super::MoveMessage::NotLoaded).
    Load {
        /// The job's generation.
        generation: Generation,
        /// The rank.
        rank: Rank,
        /// The number of the image.
        number: MoveNumber,
        /// The number of the host that has the file; `None`: all hosts see one folder.
        holder: Option<usize>,
    },
    /// The rank does not move here: what was loaded of it is dropped.
    Unload {
        /// The rank.
        rank: Rank,
    },
    /// This process continues where it is, after [`RankMoveOrder::Move`].
    Stay {
        /// The process instance.
        instance: ProcessInstance,
        /// The number of its image, which is dropped.
        number: MoveNumber,
    },
    /// The rank of this instance is not on this host any more: this instance ends here, and earlier
    /// ones do. Images of the rank stay as long as their checkpoints count. Answered by
    /// [`ProcessMessage::Vacated`](super::ProcessMessage::Vacated) as soon as none of them acts.
    Vacate {
        /// The latest instance that may be here.
        instance: ProcessInstance,
    },
}

/// About checkpoints of registered memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegionOrder {
    /// The answer to [`RegionMessage::NumberWanted`](super::RegionMessage::NumberWanted).
    Number {
        /// The job's generation.
        generation: Generation,
        /// The rank that has asked.
        rank: Rank,
        /// The number.
        epoch: Epoch,
    },
    /// Every rank has stored its registered memory.
    Committed {
        /// The job's generation.
        generation: Generation,
        /// The checkpoints of registered memory that count.
        epochs: RegionEpochs,
    },
}
