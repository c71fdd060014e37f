//! Events for the user as they happen.

use super::host_condition::HostView;
use super::stop_request::StopSignal;
use crate::checkpoint::CheckpointCost;
use crate::detector::ProbeFailure;
use crate::levels::{CommittedEpochs, Level};
use crate::manager_messages::Cause;
use crate::region_commits::RegionEpochs;
use rejoin_channel_table::{Epoch, Generation, Incarnation, Rank};
use serde::{Deserialize, Serialize};

/// An event for the user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// A checkpoint was requested.
    Requested(Epoch),
    /// A checkpoint was committed on a level.
    Committed {
        /// Number of the checkpoint.
        epoch: Epoch,
        /// Where its images are.
        level: Level,
        /// Nanoseconds from the request; for files and on partner hosts, from the order to write
        /// or to copy them.
        took: u64,
        /// Cost of the checkpoint; `None`: the central manager that knew it has ended.
        cost: Option<CheckpointCost>,
        /// The checkpoints that count from now on.
        counted: CommittedEpochs,
    },
    /// Every rank has stored its registered memory.
    RegionsCommitted {
        /// The checkpoints of registered memory that count from now on.
        epochs: RegionEpochs,
    },
    /// The images of a checkpoint can't be written to files. It stays committed in memory.
    NotStored {
        /// Number of the checkpoint.
        epoch: Epoch,
        /// The rank whose image can't be written, or the first of several.
        rank: Rank,
        /// Name of its host.
        host: String,
        /// Why the image can't be written, one line.
        why: String,
        /// The newest checkpoint of which every rank has a file.
        file: Option<Epoch>,
    },
    /// The files of a checkpoint can't be copied to partner hosts. It stays committed in files.
    NotCopied {
        /// Number of the checkpoint.
        epoch: Epoch,
        /// The rank whose file can't be copied, or the first of several.
        rank: Rank,
        /// Name of the host that was to copy it.
        host: String,
        /// Why the file can't be copied, one line.
        why: String,
        /// The newest checkpoint that is on partner hosts.
        partner: Option<Epoch>,
    },
    /// A checkpoint was aborted; the last committed one still counts.
    Aborted {
        /// Number of the checkpoint.
        epoch: Epoch,
        /// The rank that took no image, or the first of several.
        rank: Rank,
        /// Why the rank took no image, one line.
        why: String,
        /// Another checkpoint is requested soon.
        again: bool,
    },
    /// Another process killed a rank's image, or its host has given it up. The image belongs to the
    /// newest committed checkpoint, or to the next one.
    ImageLost {
        /// The image's checkpoint.
        epoch: Epoch,
        /// The newest committed checkpoint.
        committed: Option<Epoch>,
        /// The checkpoint that the job rolls back to if a rank is lost now; `None`: there is none
        /// of which every rank has an image.
        target: Option<Epoch>,
        /// The rank.
        rank: Rank,
        /// Name of its host.
        host: String,
        /// Why the host has given it up; `None`: another process killed it.
        why: Option<String>,
    },
    /// Checkpoints cost too much for the interval that was asked for, which is lengthened.
    Stretched {
        /// The interval that was asked for, in milliseconds.
        asked: u64,
        /// The interval from now on, in milliseconds.
        interval: u64,
        /// The cost of a checkpoint for a rank, in microseconds.
        cost: u64,
    },
    /// The job is to stop with a last checkpoint in files.
    Stopping {
        /// The checkpoint has this number or a higher one.
        from: Epoch,
        /// The signal that asked for it; `None`: its time has come.
        signal: Option<StopSignal>,
    },
    /// The grace time of a stop was over before a checkpoint was in files. The job ends without.
    StopGivenUp {
        /// The signal and its grace time.
        signal: StopSignal,
        /// The newest checkpoint in files.
        file: Option<Epoch>,
    },
    /// A rank failed, and the job rolls back.
    Lost {
        /// The rank that failed.
        rank: Rank,
        /// Name of its host.
        host: String,
        /// Process id of the rank.
        pid: u32,
        /// How it failed.
        cause: Cause,
        /// The generation that begins; the job's own when the rank comes back alone.
        generation: Generation,
        /// All ranks are behind `MPI_Finalize`: only this one comes back.
        alone: bool,
    },
    /// A rank can't be restored from the checkpoint that the job rolls back to. So the job rolls
    /// back to an earlier one.
    FallsBack {
        /// The rank that can't be restored.
        rank: Rank,
        /// Name of its host.
        host: String,
        /// The checkpoint that lacks its image.
        from: Epoch,
        /// Why the rank can't be restored, one line.
        why: String,
        /// The checkpoint to which the job rolls back instead.
        to: Epoch,
    },
    /// A host is silent, and its ranks are suspended if they live.
    HostSilent {
        /// Number of the host.
        host: usize,
        /// Name of the host.
        name: String,
    },
    /// A host answers neither another host nor central. It is lost when its lease has run out.
    HostSuspected {
        /// Name of the host.
        name: String,
        /// Name of the host that has probed it.
        by: String,
        /// What became of the probe.
        failure: ProbeFailure,
    },
    /// A host that was suspected answers.
    HostAnswers {
        /// Name of the host.
        name: String,
    },
    /// A host can't reach another one, which central reaches. Both continue.
    HostLinkLost {
        /// Name of the host that has probed.
        from: String,
        /// Name of the host that it can't reach.
        to: String,
        /// What became of the probe.
        failure: ProbeFailure,
    },
    /// A host that was silent is reachable again.
    HostHeard {
        /// Name of the host.
        name: String,
    },
    /// A host is lost, and its ranks continue on another one: the job rolls back.
    HostReplaced {
        /// Name of the lost host.
        name: String,
        /// Why it counts as lost, one line.
        why: String,
        /// Name of the host that its ranks are on now.
        to: String,
        /// The generation that begins.
        generation: Generation,
        /// The checkpoint in files to which the job rolls back; `None`: it begins anew.
        epoch: Option<Epoch>,
        /// The checkpoint of registered memory with which it begins anew, if there is one.
        regions: Option<Epoch>,
    },
    /// A rank is to move to another host.
    Moving {
        /// The rank.
        rank: Rank,
        /// Name of its host.
        from: String,
        /// Name of the host that takes it in.
        to: String,
    },
    /// A rank has moved to another host, and continues there.
    Moved {
        /// The rank.
        rank: Rank,
        /// Name of the host that it has left.
        from: String,
        /// Name of its host.
        to: String,
        /// Present incarnation of the rank.
        incarnation: Incarnation,
        /// Nanoseconds since the order.
        took: u64,
        /// Nanoseconds of these since the rank was to stop.
        pause: u64,
        /// How often its memory was copied while it ran.
        copies: u32,
        /// Bytes of the files of these copies.
        copied: u64,
    },
    /// A rank can't move, and continues where it is.
    NotMoved {
        /// The rank.
        rank: Rank,
        /// Name of its host.
        host: String,
        /// Name of the host that was to take it in.
        to: String,
        /// Why it can't move, one line.
        why: String,
    },
    /// A request to move ranks is carried out as far as that is possible.
    MovesOver {
        /// The number of the request.
        request: u64,
        /// The ranks that have moved.
        moved: Vec<Rank>,
        /// Why others have not, or why none had to; `None`: all that were asked for are there.
        why: Option<String>,
    },
    /// A host gets no ranks any more, and those that it has move to others.
    HostDrains {
        /// Name of the host.
        name: String,
        /// Why, one line; `None`: the user wants it.
        why: Option<String>,
    },
    /// The ranks of a host are to leave it, and can't now. The host gets no other ranks, and it is
    /// tried again.
    HostStays {
        /// Name of the host.
        name: String,
        /// Why ranks are to leave it, one line.
        why: String,
        /// Why they can't, one line.
        refusal: String,
    },
    /// The health command of a host gives no answer.
    NoHealth {
        /// Name of the host.
        name: String,
        /// Why, one line.
        why: String,
    },
    /// A host was added: it has no ranks, and may get some.
    HostAdded {
        /// Name of the host.
        name: String,
    },
    /// A request to add hosts is carried out, or can't be.
    HostsAdded {
        /// The number of the request.
        request: u64,
        /// Why no host was added; `None`: all were.
        why: Option<String>,
    },
    /// A host takes part in another way than before.
    HostChanged(HostView),
    /// A host without ranks is lost. The job does not need it.
    EmptyHostLost {
        /// Name of the host.
        name: String,
        /// Why it counts as lost, one line.
        why: String,
    },
    /// All ranks are back, or one is that came back alone.
    Recovered {
        /// The generation that has begun; the job's own for one that came back alone.
        generation: Generation,
        /// Which one that is, in which incarnation; `None`: all.
        alone: Option<(Rank, Incarnation)>,
        /// The checkpoint that they are back from; `None`: from the start.
        epoch: Option<Epoch>,
        /// Nanoseconds since the report of the first failure.
        took: u64,
        /// Nanoseconds from that checkpoint to that failure: the work that is repeated.
        repeated: u64,
    },
}
