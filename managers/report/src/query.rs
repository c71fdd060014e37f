//! Questions of `rejoin` to a running `mpirun`, and their answers: frames of the managers' codec
//! over the job's socket in the run directory.

use rejoin_channel_table::LanId;
use rejoin_logging::determinants::LogFigures;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// Version of these messages: both ends must have the same.
pub const VERSION: u32 = 11;

/// Largest question, in bytes.
pub const QUESTION_LIMIT: usize = 64 * 1024;

/// The first and only message of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// [`VERSION`] of the client.
    pub version: u32,
    /// The subject of the question.
    pub what: What,
}

/// The subject of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// How the job is.
    Status,
    /// How the job is, without its ranks: there may be many.
    Moves,
    /// A checkpoint; the answer comes when it is committed or aborted.
    Checkpoint,
    /// The events so far.
    Events,
    /// Ranks are to move; the answer comes when that is over.
    Move(MoveOrder),
    /// Hosts are to be added.
    AddHosts(Vec<NamedHost>),
}

/// A host as the user names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedHost {
    /// Name of the host.
    pub name: String,
    /// How many ranks it takes before others get more.
    pub slots: u32,
    /// The host is that of mpirun.
    pub is_here: bool,
    /// Site of the host; empty: none is known.
    pub lan: LanId,
}

/// Which ranks are to move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamedMovers {
    /// These ranks.
    Ranks(Vec<u32>),
    /// All of this host.
    Host(String),
    /// All of this host, which gets no ranks any more.
    Drain(String),
    /// As few ranks as possible, so that all hosts have their shares.
    Balance,
    /// These two ranks, which exchange their hosts.
    Exchange(u32, u32),
}

/// Which ranks are to move, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveOrder {
    /// The ranks.
    pub movers: NamedMovers,
    /// The host that takes them in; `None`: the hosts with the fewest ranks.
    pub to: Option<String>,
}

/// The one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// How the job is.
    Status(Box<JobStatus>),
    /// The checkpoint is committed in memory.
    Committed {
        /// Number of the checkpoint.
        epoch: u32,
        /// Nanoseconds from its request.
        took_ns: u64,
    },
    /// The checkpoint was aborted; the one before still counts.
    Aborted {
        /// Number of the checkpoint.
        epoch: u32,
        /// Why it was aborted, one line.
        why: String,
    },
    /// Ranks have moved as far as that is possible.
    Moved {
        /// The ranks that have moved.
        ranks: Vec<u32>,
        /// Why others have not; `None`: all are where they are to be.
        why: Option<String>,
    },
    /// All hosts that were named are added.
    HostsAdded,
    /// The job does not do what was asked, for this reason.
    Refused(String),
    /// The events so far.
    Events {
        /// Lines of a file of events.
        lines: ByteBuf,
        /// How many lines after the first one are not held any more.
        dropped: u64,
    },
}

/// A job at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    /// The job's name: sixteen hexadecimal digits.
    pub job: String,
    /// Process id of mpirun.
    pub mpirun: u32,
    /// Process id of the central manager.
    pub central: u32,
    /// How often another one took over.
    pub central_restarts: u64,
    /// The first program.
    pub program: String,
    /// Nanoseconds since the job began.
    pub running_ns: u64,
    /// `coordinated`, `sender-log` or `none`.
    pub recovery: String,
    /// `starting`, `restoring`, `running`, `finalizing`, `ending`, or `resuming` when the central
    /// manager was started again and asks how everything is.
    pub course: String,
    /// How often the job has gone back.
    pub generation: u32,
    /// The checkpoint under way.
    pub pending: Option<u32>,
    /// The newest committed checkpoint; its images are in memory.
    pub checkpoint: Option<Checkpoint>,
    /// The newest checkpoint of which every rank has a file.
    pub in_files: Option<Checkpoint>,
    /// The newest checkpoint whose files are on partner hosts, in a job where they are copied.
    pub on_partners: Option<Checkpoint>,
    /// The newest committed checkpoint of registered memory.
    pub regions: Option<u32>,
    /// Checkpoints that were committed in memory.
    pub committed: u64,
    /// Checkpoints that were aborted.
    pub aborted: u64,
    /// Ranks that were lost.
    pub failures: u64,
    /// Times that the job came back.
    pub recoveries: u64,
    /// The last loss, in one line.
    pub last_failure: Option<String>,
    /// The cost of the last checkpoint, if it is known.
    pub cost: Option<LastCost>,
    /// Nanoseconds of the longest stall of a rank for a checkpoint so far.
    pub longest_stall_ns: u64,
    /// What the logs of all ranks hold together, with message logging.
    pub log: Option<LogFigures>,
    /// Hosts of the job, in their order.
    pub hosts: Vec<HostStatus>,
    /// Ranks that are on their way to other hosts.
    pub moves: Vec<MoveStatus>,
    /// Ranks of the job, in their order.
    pub ranks: Vec<RankStatus>,
}

/// A host at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Name of the host.
    pub host: String,
    /// Site of the host, if the user has named one.
    pub site: Option<String>,
    /// `active`, `spare`, `draining` or `inactive`.
    pub state: String,
    /// Why, one line; of a host that takes part as usual, nothing.
    pub cause: Option<String>,
    /// How many ranks are there.
    pub ranks: u32,
}

/// A rank on its way to another host, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveStatus {
    /// Number of the rank.
    pub rank: u32,
    /// The host that it is on.
    pub host: String,
    /// The host that it goes to.
    pub to: String,
    /// `writing`, `copying` or `waiting` while it runs, then `stopping` and `restoring`.
    pub phase: String,
    /// The number of the copy of its memory, from 1 on.
    pub copy: u32,
    /// Bytes of the file of this phase that are written or copied.
    pub done_bytes: u64,
    /// All of its bytes, if that is known.
    pub of_bytes: Option<u64>,
    /// Bytes a second in this phase.
    pub rate: u64,
    /// Nanoseconds since the order.
    pub since_ns: u64,
}

/// A committed checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Number of the checkpoint.
    pub epoch: u32,
    /// Nanoseconds since it was committed in memory.
    pub age_ns: u64,
    /// Nanoseconds from its request to its commit; in files and on partner hosts, from the order to
    /// write or to copy them.
    pub took_ns: u64,
}

/// The cost of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCost {
    /// Nanoseconds of the longest stall of a rank.
    pub stall_ns: u64,
    /// The rank with that stall.
    pub rank: u32,
    /// Bytes that all ranks have copied since their images before, at most.
    pub copied_bytes: u64,
}

/// A rank at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankStatus {
    /// Number of the rank.
    pub rank: u32,
    /// Name of its host.
    pub host: String,
    /// Process id of the rank on its host; 0 while it has none.
    pub pid: u32,
    /// How often it was replaced.
    pub incarnation: u32,
    /// `started`, `running`, `finalizing`, `finalized` or `ended`.
    pub state: String,
    /// The last checkpoint that it took an image of.
    pub epoch: Option<u32>,
    /// What its log holds, with message logging.
    pub log: Option<LogFigures>,
}
