//! Inputs and effects of the central manager's core.

use super::event::Event;
use super::hosts_request::{AddedHost, HostsRequest};
use super::losses::Losses;
use super::moves::{MoveRequest, RankMove, RequestPlan};
pub use super::placement::HostIndex;
use super::stop_request::{StopRequest, StopSignal};
use crate::checkpoint::{CopyInterval, Interval};
use crate::lease::Terms;
use crate::levels::{CommittedEpochs, Level};
use crate::manager_messages::{MovedRank, Time, ToCentral, ToLocal};
use crate::policy::{self, History};
use crate::region_commits::RegionEpochs;
use crate::signal_numbers;
use crate::verdict::Verdict;
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, LanId, MoveNumber, Rank};
use rejoin_wire::ImageCost;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An input of the driver to the core.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CentralInput {
    /// Start the job, or take it up again.
    Begin,
    /// A local manager said this.
    Local(HostIndex, ToCentral),
    /// A local manager has called the launcher. From now on its silence counts, also if it has said
    /// nothing to central yet.
    HostCalled(HostIndex),
    /// The link to a local manager is gone.
    HostLost(HostIndex),
    /// A host does not take part any more, for this reason. Its processes may still act.
    HostGone(HostIndex, String),
    /// A local manager has ended, for this reason, and every process below it.
    HostEnded(HostIndex, String),
    /// The launcher got this signal.
    Signal(i32),
    /// A client or the user requests a checkpoint.
    Checkpoint,
    /// The job is to stop with a last checkpoint in files: the launcher got this signal. Without
    /// one, the time for that has come.
    Stop(Option<StopSignal>),
    /// Ranks are to move to other hosts.
    Move(MoveRequest),
    /// Hosts are to be added.
    AddHosts(HostsRequest),
    /// The ranks' output can't be written, for this reason; without one, it has no reader.
    OutputLost(Option<String>),
    /// The answer to [`CentralEffect::RequestStored`]: the states, the newest one first; empty if
    /// there is none.
    Stored(Vec<StoredState>),
    /// The deadline may have come.
    Tick,
    /// Nothing has been passed on for a while, for no fault of the hosts: the launcher was
    /// suspended.
    Suspended,
}

impl CentralInput {
    /// The signal of a request to end the job, or its ranks.
    #[must_use]
    pub fn end_signal(&self) -> Option<i32> {
        match self {
            CentralInput::Signal(signal) => signal_numbers::ends(*signal).then_some(*signal),
            CentralInput::Stop(signal) => signal.map(|signal| signal.number),
            CentralInput::Begin
            | CentralInput::Local(..)
            | CentralInput::HostCalled(_)
            | CentralInput::HostLost(_)
            | CentralInput::HostGone(..)
            | CentralInput::HostEnded(..)
            | CentralInput::Checkpoint
            | CentralInput::Move(_)
            | CentralInput::AddHosts(_)
            | CentralInput::OutputLost(_)
            | CentralInput::Stored(_)
            | CentralInput::Tick
            | CentralInput::Suspended => None,
        }
    }
}

/// An effect for the driver, which carries out effects in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CentralEffect {
    /// Store this before doing anything that follows.
    Persist(Record),
    /// Tell a local manager.
    Send(HostIndex, ToLocal),
    /// Tell these local managers the same.
    SendAll(Vec<HostIndex>, ToLocal),
    /// Drop a local manager that does not answer: close its link, kill what is reachable.
    Drop(HostIndex),
    /// A rank reported its counters.
    Counters(Rank, Vec<(String, u64)>),
    /// For the user and the journal of events. After a resumption some events come a second time.
    Event(Event),
    /// A new central manager continues the job. Observers of checkpoints may have missed their
    /// results: these stand, and all others up to `abandoned` are abandoned.
    Resumed {
        /// The checkpoints that count.
        committed: CommittedEpochs,
        /// The highest number that was ever requested.
        abandoned: Epoch,
    },
    /// The job is decided: nothing later changes the verdict.
    Decided(Verdict),
    /// Say from which stored states the job can continue without the hosts that are lost:
    /// [`CentralInput::Stored`]. Of these hosts nothing more is taken by then.
    RequestStored {
        /// The checkpoints of registered memory that count.
        regions: RegionEpochs,
    },
    /// Ranks of lost hosts are on other hosts from now on. A host that has ranks now and no local
    /// manager gets one. It may come again.
    Placed(RankPlacement),
    /// The job has one more host, with this number. It may come again.
    HostAdded {
        /// Number of the host.
        host: HostIndex,
        /// The host.
        added: AddedHost,
    },
    /// A host may get ranks: it gets a local manager, unless it has one. It may come again.
    Join(HostIndex),
    /// A rank has moved to this host. It may come again.
    Moved {
        /// The number of its image.
        number: MoveNumber,
        /// The rank.
        rank: Rank,
        /// The number of its host.
        to: HostIndex,
    },
    /// The job rolls back to this checkpoint, and ranks are on these hosts, as they were then.
    MovedBack(Epoch, Vec<(Rank, HostIndex)>),
    /// The job is over, and every host has reported or was dropped.
    Over(Verdict),
}

/// A record that must outlive the central manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Record {
    /// Processes of these incarnations, in rank order, are about to be started.
    Began {
        /// The job's generation.
        generation: Generation,
        /// Incarnation of each rank.
        incarnations: Vec<Incarnation>,
        /// When: a time limit counts from here.
        at: Time,
    },
    /// All ranks have registered and are about to be released.
    Started {
        /// The job's generation.
        generation: Generation,
        /// Incarnation and card of each rank, in rank order.
        table: Vec<(Incarnation, Arc<BusinessCard>)>,
    },
    /// The number of a checkpoint that is about to be requested.
    Requested {
        /// Number of the checkpoint.
        epoch: Epoch,
    },
    /// Every rank's image of this epoch is there, on this level.
    Committed {
        /// Number of the checkpoint.
        epoch: Epoch,
        /// Where the images are.
        level: Level,
        /// When it was committed in memory.
        at: Time,
        /// The highest cost of it for a rank.
        cost: ImageCost,
    },
    /// The number of a checkpoint of registered memory that is about to be stored.
    RegionsNumbered {
        /// Number of the checkpoint.
        epoch: Epoch,
    },
    /// Every rank has stored its registered memory, or a rollback has made such checkpoints void.
    RegionsCommitted {
        /// The checkpoints that count from now on.
        epochs: RegionEpochs,
    },
    /// Ranks are about to come back.
    Return(Box<Return>),
    /// Every rank of a recovery group has its image of this epoch.
    GroupCommitted {
        /// The first of its ranks.
        rank: Rank,
        /// Number of the checkpoint.
        epoch: Epoch,
        /// When it was committed.
        at: Time,
    },
    /// Ranks are about to move. Until each has, it stays where it is.
    Moving {
        /// Where the ranks of the last requests of clients go.
        plans: Vec<RequestPlan>,
        /// Hosts that ranks have moved to or from, or were to.
        visited: Vec<HostIndex>,
        /// The highest incarnations of ranks that processes of moves which were given up had.
        spent: Vec<(Rank, Incarnation)>,
        /// The number of their first images.
        number: MoveNumber,
        /// The ranks, and their next incarnations.
        moves: Vec<RankMove>,
    },
    /// The number of a further image of a rank that is about to move.
    MoveNumbered(MoveNumber),
    /// A rank has moved.
    Moved {
        /// The number of its image.
        number: MoveNumber,
        /// From where, and where it is.
        moved: RankMove,
        /// Where it listens.
        card: Box<BusinessCard>,
    },
    /// All ranks are in `MPI_Finalize` and are about to be released: no rank needs another any
    /// more.
    Finalized {
        /// The job's generation.
        generation: Generation,
        /// The ranks' last checkpoint, from which one can come back alone.
        last: Option<Epoch>,
    },
    /// The job has one more host.
    HostAdded {
        /// The driver's number of the request.
        request: u64,
        /// The host.
        added: AddedHost,
    },
    /// This host gets no ranks any more.
    Draining(HostIndex),
    /// No process of the job is left on this host.
    HostDone(HostIndex),
    /// The verdict, which nothing changes any more: everything is about to be ended.
    Decided(Verdict),
    /// The verdict; ranks that have left `MPI_Finalize` end by themselves.
    Settled(Verdict),
    /// The history on which the next failure is judged.
    Memory(Box<FailureHistory>),
    /// A signal that asks programs to end is about to be passed on.
    Interrupted {
        /// Number of the signal.
        signal: i32,
        /// The driver's number of the input with the signal, for a driver that numbers inputs. So a
        /// repeated input does not count as another signal.
        input: Option<u64>,
    },
    /// The job is to stop with a last checkpoint; `None`: not any more.
    Stopping {
        /// The request.
        request: Option<StopRequest>,
        /// The driver's number of the input that asked for it, as for [`Record::Interrupted`].
        input: Option<u64>,
    },
    /// Another signal is about to be passed on. A process that ends by it has not failed.
    Passed {
        /// Number of the signal.
        signal: i32,
    },
}

/// What the other ranks do while some come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReturnScope {
    /// There are no others: all ranks come back, in a new generation.
    All,
    /// Whole recovery groups come back, and the others continue.
    Groups,
    /// One rank comes back after the release from `MPI_Finalize`: nobody waits for it.
    Finalized,
}

/// Ranks are about to come back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Return {
    /// What the others do.
    pub scope: ReturnScope,
    /// The generation of the processes: a new one if all ranks come back.
    pub generation: Generation,
    /// The ranks in their order, and their incarnations from now on.
    pub ranks: Vec<(Rank, Incarnation)>,
    /// The checkpoint from which they come back; `None`: the start.
    pub from: Option<Epoch>,
    /// The checkpoint of registered memory with which a rank starts, if that is known.
    pub regions: Option<Epoch>,
    /// Images of checkpoints up to this number count no more: ranks have started so since.
    pub since: Epoch,
    /// Where all ranks are, if this launch has lost hosts or ranks have moved.
    pub placement: Option<Box<RankPlacement>>,
    /// Why: the history of failures, on which the next one is judged.
    pub memory: Box<FailureHistory>,
}

/// Where ranks run in a launch that has lost hosts and continues on others, or in which ranks have
/// moved.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankPlacement {
    /// For each rank its host.
    pub hosts: Vec<HostIndex>,
    /// The hosts that this launch has lost.
    pub lost: Vec<HostIndex>,
    /// The ranks that were on lost hosts, in their order.
    pub moved: Vec<MovedRank>,
    /// The checkpoint to which the job rolled back when it lost the last of them. Of its files
    /// there may be one each. `None`: the job began anew, or has lost none.
    pub from: Option<Epoch>,
}

/// What all ranks of a job have stored where every host can read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StoredState {
    /// The memory that the program has registered, at this checkpoint.
    Regions(Epoch),
    /// The images of their processes at this checkpoint.
    Images(Epoch),
}

/// The history of failures, for the next decision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FailureHistory {
    /// Failures masked so far.
    pub history: History,
    /// Lost process instances that are not settled.
    pub losses: Losses,
}

/// The data with which central starts. By default there is no host and no rank, and a failure ends
/// the job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Job {
    /// Generation of the job's first processes.
    pub generation: Generation,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// For each host how many ranks it takes before others get more. A host without a number has
    /// room for all.
    pub slots: Vec<u32>,
    /// For each host its site. A host without one is at no site that is known.
    pub lans: Vec<LanId>,
    /// For each rank its host.
    pub placement: Vec<HostIndex>,
    /// Time limit in milliseconds.
    pub limit: Option<u64>,
    /// Milliseconds of it that were over before this launch of the job.
    pub spent: u64,
    /// How failures are masked; `None`: they end the job.
    pub recovery: Option<Recovery>,
    /// The hosts that are reached over a network.
    pub leases: Option<Leases>,
    /// The job may continue without a lost host.
    pub failover: Option<Failover>,
    /// The checkpoint from whose files a job that ended before continues.
    pub from: Option<Epoch>,
    /// The highest number of a checkpoint that earlier launches have requested. A host that was
    /// cut off may still write files with these numbers.
    pub requested: Epoch,
    /// Partner hosts copy files, or see them: the number of hosts in each group of which another
    /// host keeps the parity, 1 for copies. `None`: all hosts are to see all files.
    pub copies: Option<usize>,
    /// For each rank the number of its recovery group, from 0; empty: the job is one group.
    pub log_groups: Vec<u32>,
    /// Files of images lack messages that their receivers' images of the same checkpoint hold.
    pub files_lack: bool,
}

/// How the job continues if it loses a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Failover {
    /// Hosts that earlier launches have lost.
    pub lost: Vec<HostIndex>,
    /// Other hosts of this launch can take in the ranks of a lost one.
    pub takes_in: bool,
}

/// Hosts that may fall silent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Leases {
    /// For how long.
    pub terms: Terms,
    /// The hosts with leases.
    pub hosts: Vec<HostIndex>,
}

/// How failures are masked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Recovery {
    /// When checkpoints are taken.
    pub interval: Interval,
    /// When their images also go to files; `None`: never.
    pub files: Option<Interval>,
    /// When files are copied, in a job where that is done.
    pub copies: CopyInterval,
    /// How many recoveries are too many.
    pub limit: policy::RecoveryLimit,
    /// Roll back although a rank has state that this does not take back.
    pub accepts_outliving: bool,
}
