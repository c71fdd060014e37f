//! Inputs and effects of the local manager's core.

use crate::broadcast::Peer;
use crate::detector::{ProbeFailure, ProbeMessage};
use crate::host_health::HostHealth;
use crate::lookup;
use crate::manager_messages::{
    End, KeptFile, MoveBytes, MovedRank, ProcessInstance, Time, ToCentral, ToLocal,
};
use rejoin_channel_table::{Epoch, ImageId, Incarnation, MoveNumber, Rank};
use rejoin_logging::determinants::LogUsage;
use rejoin_wire::{FromManager, ToManager};

/// An input of the driver to the core.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LocalInput {
    /// Central said this.
    Central(ToLocal),
    /// The link to central is gone: the job is over.
    CentralLost,
    /// A process was started.
    Spawned(Rank, Incarnation, u32),
    /// A process could not be started.
    NotStarted(Rank, Incarnation, String),
    /// A rank said this; the kernel says that this process did.
    FromRank(Rank, Incarnation, u32, ToManager),
    /// Malformed bytes came from a rank.
    Malformed(Rank, Incarnation, String),
    /// A rank closed its socket (or all that held it ended).
    Closed(Rank, Incarnation),
    /// The process that the driver started has begun to end and does nothing more.
    ExitDetected(Rank, Incarnation),
    /// The process that the driver started ended.
    ChildEnded(Rank, Incarnation, End),
    /// The process that registered, another one, ended.
    CallerEnded(Rank, Incarnation, End),
    /// A process that was to retire can do nothing any more, and all that it wrote has been taken.
    Retired(Rank, Incarnation),
    /// An image of a rank ended, and has no file. With a reason, this host has given it up.
    ImageEnded(Rank, ImageId, Option<String>),
    /// An image of a rank is in a file.
    ImageStored(Rank, ImageId),
    /// An image of a rank can't be written to a file, for this reason; without one, it can be tried
    /// again at once.
    ImageNotStored(Rank, ImageId, Option<String>),
    /// This host has a copy or the parity of files of images, of ranks of other hosts.
    ImageCopied(KeptFile),
    /// A copy or a parity can't be made, for this reason.
    ImageNotCopied(KeptFile, String),
    /// The image of this number of a rank that is to move here is loaded; its file has so many
    /// bytes.
    Loaded(Rank, MoveNumber, u64),
    /// The image of this number of a rank that is to move here can't be loaded, for this reason.
    NotLoaded(Rank, MoveNumber, String),
    /// The file of an image with which a rank moves is so far.
    MoveBytes(MoveBytes),
    /// The logs of these ranks hold this.
    LogsUsed(Vec<(Rank, LogUsage)>),
    /// Another manager, or central, says this of where ranks are.
    LookedUp(Peer, lookup::LookupMessage),
    /// The manager of this host says this.
    Probed(usize, ProbeMessage),
    /// There is no connection to the manager of this host, for this reason.
    NoConnection(usize, ProbeFailure),
    /// The health command of this host has answered.
    Health(HostHealth),
    /// This host ends within so many milliseconds: its ranks are to leave.
    Leave(u64),
    /// The deadline may have come.
    Tick,
    /// The sweep is over: no process is left.
    Swept,
}

/// An effect for the driver, which carries out effects in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalEffect {
    /// Nothing waits for central any more: end what is left of the job here. Answer with
    /// `CentralLost`.
    Abandon,
    /// Start this process instance; answer with `Spawned` or `NotStarted`.
    Spawn(ProcessInstance),
    /// Stop the processes of this instance, and take all that it has written; answer with
    /// `Retired`. Other processes that it has forked continue.
    Retire(Rank, Incarnation),
    /// Have this image of the rank make this process instance; answer with `Spawned` or
    /// `NotStarted`.
    Restore(ProcessInstance, ImageId),
    /// A rank of another host is on this one from now on, and comes from the file of this image.
    /// The order may come twice.
    TakeIn(MovedRank, Option<ImageId>),
    /// End a retired process, and drop all that belongs to it.
    Discard(Rank, Incarnation),
    /// This rank is on another host from now on. It may come back.
    HasLeft(Rank),
    /// Drop an image, wherever it is.
    DropImage(Rank, ImageId),
    /// End the process of an image that is also in a file.
    DropFromMemory(Rank, ImageId),
    /// Have the image of a checkpoint write its file; answer with `ImageStored` or
    /// `ImageNotStored`.
    WriteImage(Rank, Epoch),
    /// Have the image with which the rank moves write its file; answer as to `WriteImage`. The file
    /// refers to the image of the other number.
    WriteImageOfMove(Rank, MoveNumber, Option<MoveNumber>),
    /// Load the image of this number, of a rank that is to move here, from the host of this number
    /// or from the folder of all hosts; answer with `Loaded` or `NotLoaded`.
    Load(Rank, MoveNumber, Option<usize>),
    /// Drop what was loaded of a rank, if anything was.
    Unload(Rank),
    /// Copy the file of this checkpoint that this rank has stored on the host of this number, or
    /// store the parity of several; answer with `ImageCopied` or `ImageNotCopied`.
    CopyImage(Vec<(Rank, usize)>, Epoch),
    /// Remove a copy or a parity, or end its making.
    DropCopy(KeptFile),
    /// Tell the user once which state an image of this rank can't restore.
    Caveats(Rank, Vec<String>),
    /// Show the user this message of a rank: in any case, or only who wants to know how things go.
    Note(Rank, bool, String),
    /// Tell the user that the recovery of this rank waits, and for what.
    Waits(Rank, String),
    /// Tell central.
    Central(ToCentral),
    /// Tell these ranks.
    Ranks(Vec<Rank>, FromManager),
    /// Tell another manager, or central, of where ranks are.
    LookUp(Peer, lookup::LookupMessage),
    /// Tell the manager of this host.
    Probe(usize, ProbeMessage),
    /// Watch this process, which registered and is not the one that was started.
    Watch(Rank, Incarnation, u32),
    /// Suspend all processes of ranks; nothing of them acts any more.
    StopAll,
    /// Ranks may run until then, whatever becomes of the manager, and are suspended from then on.
    /// Processes that were suspended for a lease continue.
    RunUntil(Time),
    /// Send this signal to the process group of this rank.
    SignalGroup(Rank, i32),
    /// Send this signal to the process of this rank that registered and is not the one that was
    /// started.
    SignalCaller(Rank, i32),
    /// Send this signal to every process below this one.
    SignalAll(i32),
    /// End the remaining processes below this one, answer with `Swept`.
    Sweep,
    /// Nothing is left to do.
    Exit {
        /// The job may go on elsewhere: the files of images stay, those of this host and copies.
        keeps_files: bool,
    },
}
