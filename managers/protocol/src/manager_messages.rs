//! Messages about ranks between the central manager and the local managers.
//!
//! A message that depends on the state of the job carries the generation, and a message about one
//! process its incarnation. So a report about a replaced process never counts for its successor.
//! Messages about the host (its lease, its end) and about the whole job (signals, the verdict) hold
//! for every generation.

use crate::detector::{WatchOrder, WatchReport};
use crate::host_health::HostHealth;
use crate::levels::CommittedEpochs;
use crate::region_commits::{RegionEpochs, RegionWait};
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, Rank};
use rejoin_wire::ImageCost;
use rejoin_wire::Limits;
use rejoin_wire::ProcessMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A moment, in nanoseconds by a clock that all drivers of one machine share (CLOCK_BOOTTIME), so
/// that a core that was started again continues with it. Cores only compare and add.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(pub u64);

impl Time {
    /// This moment and some milliseconds.
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Time {
        Time(self.0.saturating_add(millis.saturating_mul(1_000_000)))
    }
}

/// One process of the job: a rank in one of its instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessInstance {
    /// The job's generation.
    pub generation: Generation,
    /// The rank.
    pub rank: Rank,
    /// Incarnation of the rank.
    pub incarnation: Incarnation,
}

/// A rank that was on another host: it moves while the job runs, or that host was lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MovedRank {
    /// The rank.
    pub rank: Rank,
    /// It moves while the job runs: its image is its present state, and of no checkpoint.
    pub moves: bool,
    /// The number of the host that has the file of its image, a copy of it, or the parity with the
    /// files of other ranks; `None`: all hosts see one folder, or there is no such host.
    pub holder: Option<usize>,
    /// These ranks, and the numbers of the hosts that have their files.
    pub others: Vec<(Rank, usize)>,
}

/// What a host keeps for the files of images of other hosts' ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeptFile {
    /// The rank; of several, the first.
    pub rank: Rank,
    /// The checkpoint.
    pub epoch: Epoch,
    /// It is the parity of the files of several ranks, and not a copy of one.
    pub is_parity: bool,
}

/// How far a rank has come in its use of MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// Its process was started and has not called `MPI_Init`.
    Spawned,
    /// It registered: it waits in `MPI_Init` or computes.
    Registered,
    /// It waits in `MPI_Finalize` for the others.
    Finalizing,
    /// It knows that all ranks have arrived.
    Finalized,
    /// It left `MPI_Finalize`.
    Left,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum End {
    /// It exited with this code.
    Exited(i32),
    /// This signal killed it.
    Signaled(i32),
    /// It is gone; its parent, which is not ours, knows how.
    Unknown,
}

/// Why a rank counts as failed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// Its process ended when or how it should not have.
    Ended {
        /// Exit code or signal of the process.
        end: End,
        /// How far it had come.
        stage: Stage,
    },
    /// It called `MPI_Abort`.
    Aborted {
        /// The program's error code.
        code: i32,
        /// One line, may be empty.
        why: String,
    },
    /// It could not be started.
    NotStarted {
        /// The system's reason.
        why: String,
    },
    /// It broke the rules of the manager's socket.
    Misbehaved {
        /// The broken rule, one line.
        why: String,
    },
    /// Its rank is on another host, and it does not stop.
    NotStopped {
        /// For how long, one line.
        why: String,
    },
    /// It depends on messages that were lost with a host, and waits for its end.
    Orphaned {
        /// The rank that had sent them.
        on: Rank,
    },
}

/// From central to a local manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToLocal {
    /// Start these ranks.
    Spawn {
        /// The job's generation.
        generation: Generation,
        /// Which ranks, in which incarnation.
        ranks: Vec<(Rank, Incarnation)>,
        /// A rank that failed may come back: its place is held until central has said how to
        /// continue.
        hold: bool,
        /// The checkpoint from whose files they begin, in a job that is restarted; `None`: their
        /// programs are started.
        from: Option<Epoch>,
        /// Those of them that come from hosts which this launch has lost.
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
    /// Every rank takes its image of this epoch.
    Checkpoint {
        /// The job's generation.
        generation: Generation,
        /// Number of the checkpoint.
        epoch: Epoch,
    },
    /// This process takes an image of this number at a safe point, which goes to a file.
    Move {
        /// The process instance.
        instance: ProcessInstance,
        /// The number of the image, which no checkpoint has.
        number: Epoch,
        /// The number of an earlier image of the same move, to which the file refers for what has
        /// not changed.
        base: Option<Epoch>,
        /// The process waits at its image. Otherwise it continues, and the image is a copy ahead.
        stops: bool,
    },
    /// Load this image of a rank that is to move here, which refers to the one before. A process of
    /// the rank begins with [`ToLocal::Restore`]. Answered by [`ToCentral::Loaded`] or
    /// [`ToCentral::NotLoaded`].
    Load {
        /// The job's generation.
        generation: Generation,
        /// The rank.
        rank: Rank,
        /// The number of the image.
        number: Epoch,
        /// The number of the host that has the file; `None`: all hosts see one folder.
        holder: Option<usize>,
    },
    /// The rank does not move here: what was loaded of it is dropped.
    Unload {
        /// The rank.
        rank: Rank,
    },
    /// This process continues where it is, after [`ToLocal::Move`].
    Stay {
        /// The process instance.
        instance: ProcessInstance,
        /// The number of its image, which is dropped.
        number: Epoch,
    },
    /// The rank of this instance is not on this host any more: this instance ends here, and earlier
    /// ones do. Images of the rank stay as long as their checkpoints count. Answered by
    /// [`ToCentral::Vacated`] as soon as none of them acts.
    Vacate {
        /// The latest instance that may be here.
        instance: ProcessInstance,
    },
    /// A rank has come back or moved: where it is now. Ranks null the link to its earlier
    /// incarnation.
    Update {
        /// Its present instance.
        instance: ProcessInstance,
        /// Where it listens.
        card: BusinessCard,
    },
    /// The answer to [`ToCentral::AskRegionsNumber`].
    RegionsNumber {
        /// The job's generation.
        generation: Generation,
        /// The rank that has asked.
        rank: Rank,
        /// The number.
        epoch: Epoch,
    },
    /// Every rank has stored its registered memory.
    RegionsCommitted {
        /// The job's generation.
        generation: Generation,
        /// The checkpoints of registered memory that count.
        epochs: RegionEpochs,
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
    /// These ranks take their images of this checkpoint.
    CheckpointRanks {
        /// The job's generation.
        generation: Generation,
        /// The checkpoint.
        epoch: Epoch,
        /// Ranks of a recovery group that are on the host.
        ranks: Vec<Rank>,
    },
    /// The images of these ranks are written to files. Without recovery groups, a [`Self::Commit`]
    /// says that of all ranks.
    WriteImages {
        /// Ranks of a recovery group that are on the host.
        ranks: Vec<Rank>,
        /// The checkpoint.
        epoch: Epoch,
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
    /// These ranks roll back: their present processes are stopped, and when all of this host's are,
    /// their images of the checkpoint take over.
    Restore {
        /// The job's generation from now on.
        generation: Generation,
        /// The checkpoint; `None`: the program starts anew.
        epoch: Option<Epoch>,
        /// Which ranks, in which incarnation from now on.
        ranks: Vec<(Rank, Incarnation)>,
        /// Those of them that come from hosts which this launch has lost. They may be here already.
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
    /// The ranks can't leave this host as [`ToCentral::HostEnds`] asks: there is nowhere to go.
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
    /// It is stored that no process of the job is left on this host: its local manager is no longer
    /// needed.
    Leave {
        /// The job may be launched again from the files of images that this host has.
        keeps_files: bool,
    },
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

/// The state of one host, for a restarted central manager. Messages to its predecessor may not have
/// arrived.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Report {
    /// The job's generation as this host knows it; `None` as long as no rank was to be started.
    pub generation: Option<Generation>,
    /// The last signal of those that ask programs to end that was passed on to the ranks.
    pub signalled: Option<i32>,
    /// Its ranks have begun without the table, which has not come.
    pub lacks_table: bool,
    /// Its ranks, in their order.
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
    /// Its process id, 0 while it has none.
    pub pid: u32,
    /// Where it listens.
    pub card: Option<BusinessCard>,
    /// The sizes it goes by.
    pub limits: Option<Limits>,
    /// It has registered and waits for the others.
    pub waits: bool,
    /// It ended as it should.
    pub ended: bool,
    /// Its program waits for a checkpoint later than this epoch.
    pub asked: Option<Epoch>,
    /// What its program waits for while it stores its registered memory.
    pub regions: RegionWait,
    /// The number of its latest image for a move, of which this host does not know the end.
    pub moves: Option<Epoch>,
    /// The epochs from which it can be restored.
    pub images: Vec<Epoch>,
}

/// The exit of a process instance, from its detection until central has acknowledged it.
///
/// A running instance has none. Its exit is either detected first, and its status follows, or both
/// are known at once. An acknowledged exit is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessExit {
    instance: ProcessInstance,
    /// The process id, 0 when there never was one.
    pid: u32,
    state: ExitState,
}

/// How much is known of an exit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum ExitState {
    /// The process does nothing more; it had come so far.
    Detected(Stage),
    /// The status of an exit that was detected first.
    StatusKnown(Cause),
    /// Everything at once.
    Failed(Cause),
}

impl ProcessExit {
    /// An exit that is detected before its status is known.
    #[must_use]
    pub fn detected(instance: ProcessInstance, pid: u32, stage: Stage) -> ProcessExit {
        let state = ExitState::Detected(stage);
        ProcessExit {
            instance,
            pid,
            state,
        }
    }

    /// A failure of which everything is known at once.
    #[must_use]
    pub fn failed(instance: ProcessInstance, pid: u32, cause: Cause) -> ProcessExit {
        let state = ExitState::Failed(cause);
        ProcessExit {
            instance,
            pid,
            state,
        }
    }

    /// The process instance that exits.
    #[must_use]
    pub fn instance(&self) -> ProcessInstance {
        self.instance
    }

    /// The exit status has come; whether this exit waited for it.
    pub fn status_known(&mut self, end: End) -> bool {
        let ExitState::Detected(stage) = self.state else {
            return false;
        };
        self.state = ExitState::StatusKnown(Cause::Ended { end, stage });
        true
    }

    /// Central acknowledges such an exit with a message. For a failure that was known at once,
    /// central's next order is the acknowledgement.
    #[must_use]
    pub fn was_detected(&self) -> bool {
        !matches!(self.state, ExitState::Failed(_))
    }

    /// The message that reports it to central.
    #[must_use]
    pub fn news(&self) -> ToCentral {
        let (instance, pid) = (self.instance, self.pid);
        match self.state.clone() {
            ExitState::Detected(_) => ToCentral::ExitDetected { instance, pid },
            ExitState::StatusKnown(cause) => ToCentral::ExitStatus {
                instance,
                pid,
                cause,
            },
            ExitState::Failed(cause) => ToCentral::Failed {
                instance,
                pid,
                cause,
            },
        }
    }
}

/// How far the file of an image is with which a rank moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MoveBytes {
    /// The rank.
    pub rank: Rank,
    /// The number of the image.
    pub number: Epoch,
    /// Bytes that are written on the rank's host, or copied to the other one.
    pub done: u64,
    /// All bytes, if that is known.
    pub of: Option<u64>,
}

/// What the log of a rank holds, with message logging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankLogUse {
    /// The rank.
    pub rank: Rank,
    /// Bytes of messages that it retains for other recovery groups.
    pub retained: u64,
    /// The most of these bytes that there were at any time.
    pub most_retained: u64,
    /// Bytes of the log's memory that are in use.
    pub memory: u64,
    /// The same bytes of the file into which it spills.
    pub file: u64,
    /// Determinants that it has recorded so far.
    pub determinants: u64,
    /// Those that it has recorded in the last second or so.
    pub determinants_per_second: u64,
    /// The receiver for which it retains most bytes, and how many.
    pub most_for: Option<(Rank, u64)>,
    /// For each peer with retained messages, there is a time since it released some last, or since
    /// the first was retained after none was. The longest of these, in nanoseconds; `None`: no
    /// message is retained.
    pub lag: Option<u64>,
}

/// From a local manager to central.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToCentral {
    /// A rank's process is there.
    Spawned {
        /// The process instance that was started.
        instance: ProcessInstance,
        /// Its process id on its host.
        pid: u32,
    },
    /// A rank called `MPI_Init`.
    Registered {
        /// The process instance that registered.
        instance: ProcessInstance,
        /// Process id of the caller on its host.
        pid: u32,
        /// Where it listens.
        card: BusinessCard,
        /// The sizes it goes by.
        limits: Limits,
    },
    /// A rank's image is there and can take over.
    Imaged {
        /// The process instance that took the image.
        instance: ProcessInstance,
        /// Of which epoch.
        epoch: Epoch,
        /// The cost of the image.
        cost: ImageCost,
    },
    /// A rank can't take its image.
    NotImaged {
        /// The process instance without an image.
        instance: ProcessInstance,
        /// Of which epoch.
        epoch: Epoch,
        /// One line for the user.
        why: String,
        /// The program has state that a rollback does not take back.
        outlives: bool,
    },
    /// The image of a rank of this host is in a file, too.
    ImageStored {
        /// The rank.
        rank: Rank,
        /// Of which epoch.
        epoch: Epoch,
    },
    /// The image of a rank of this host can't be written to a file.
    ImageNotStored {
        /// The rank.
        rank: Rank,
        /// Of which epoch.
        epoch: Epoch,
        /// One line for the user; `None`: it can be tried again at once.
        why: Option<String>,
    },
    /// This host has a copy of the file of an image, or the parity of several, as
    /// [`ToLocal::Copy`] has ordered.
    ImageCopied {
        /// The rank, of another host; of several, the first.
        rank: Rank,
        /// Of which epoch.
        epoch: Epoch,
    },
    /// This host can't make what [`ToLocal::Copy`] has ordered.
    ImageNotCopied {
        /// The rank, of another host; of several, the first.
        rank: Rank,
        /// Of which epoch.
        epoch: Epoch,
        /// One line for the user.
        why: String,
    },
    /// The image that [`ToLocal::Load`] has named is loaded.
    Loaded {
        /// The rank.
        rank: Rank,
        /// The number of the image.
        number: Epoch,
        /// The length of its file in bytes.
        bytes: u64,
    },
    /// The image that [`ToLocal::Load`] has named can't be loaded.
    NotLoaded {
        /// The rank.
        rank: Rank,
        /// The number of the image.
        number: Epoch,
        /// One line for the user.
        why: String,
    },
    /// How far the file of a move's image is, for those who look on. Said twice a second at most,
    /// and only of ranks that are on their way.
    MoveBytes(MoveBytes),
    /// What the logs of ranks hold, for those who look on. Said once a second at most, and only of
    /// ranks for which it has changed.
    LogsUsed(Vec<RankLogUse>),
    /// An image that was there is gone, in memory and in a file.
    ImageLost {
        /// Whose, in the incarnation that it has now.
        instance: ProcessInstance,
        /// Of which epoch.
        epoch: Epoch,
        /// Why the host has given it up; `None`: another process ended it.
        why: Option<String>,
    },
    /// A rank's program asks for a checkpoint.
    Checkpoint {
        /// The process instance that asks.
        instance: ProcessInstance,
        /// Later than this epoch.
        after: Epoch,
    },
    /// A rank's log has room when files of this checkpoint, or of a later one, are there.
    WantFiles {
        /// The process instance that waits.
        instance: ProcessInstance,
        /// The epoch that it is in.
        of: Epoch,
    },
    /// A rank has come back with all messages that it retains for other groups.
    LogIsWhole {
        /// The process instance.
        instance: ProcessInstance,
    },
    /// A rank's program stores its registered memory, with all other ranks. It asks for a number.
    AskRegionsNumber {
        /// The process instance that asks.
        instance: ProcessInstance,
        /// The highest number that is in use in the folder.
        above: Epoch,
    },
    /// A rank has stored its registered memory.
    RegionsStored {
        /// The process instance that stored it.
        instance: ProcessInstance,
        /// Under which number.
        epoch: Epoch,
    },
    /// The counters of a rank, at its end.
    Counters {
        /// The process instance that counted.
        instance: ProcessInstance,
        /// Names and values.
        counters: Vec<(String, u64)>,
    },
    /// A rank is in `MPI_Finalize`.
    Finalizing {
        /// The process instance that is in `MPI_Finalize`.
        instance: ProcessInstance,
    },
    /// A rank ended as it should.
    Ended {
        /// The process instance that ended.
        instance: ProcessInstance,
        /// How far it had come: [`Stage::Spawned`] for a program that never used MPI.
        stage: Stage,
    },
    /// A rank's process has begun to end, how is not known yet; [`ToCentral::ExitStatus`] follows.
    ExitDetected {
        /// The process instance whose exit was detected.
        instance: ProcessInstance,
        /// Its process id.
        pid: u32,
    },
    /// How a process ended whose exit was detected.
    ExitStatus {
        /// Which, in the generation that it was said in.
        instance: ProcessInstance,
        /// Its process id.
        pid: u32,
        /// Exit status as a cause.
        cause: Cause,
    },
    /// A rank failed.
    Failed {
        /// The process instance that failed.
        instance: ProcessInstance,
        /// Its process id, 0 when it never had one.
        pid: u32,
        /// The cause of the failure.
        cause: Cause,
    },
    /// Nothing of this instance, or of an earlier one of its rank, acts on this host any more:
    /// [`ToLocal::Vacate`] is carried out.
    Vacated {
        /// The rank, and the latest of its instances that may have been here.
        instance: ProcessInstance,
    },
    /// This host ends soon: its ranks are to move to others. It says so again until they have.
    HostEnds,
    /// The health command of this host has answered. Answers but [`HostHealth::Fine`] are
    /// repeated.
    Health(HostHealth),
    /// No process of the job is left on this host; [`ToLocal::Leave`] is awaited.
    Done,
    /// A local manager on another host than central's renews its lease.
    Renew {
        /// Its number among the host's.
        number: u64,
    },
    /// Of the watch over other hosts.
    Watch(WatchReport),
    /// How everything is.
    Report(Box<Report>),
}
