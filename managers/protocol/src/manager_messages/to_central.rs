//! Messages of a local manager to the central manager.

use super::host_report::Report;
use super::instances::ProcessInstance;
use super::process_messages::ProcessMessage;
use crate::detector::WatchReport;
use crate::host_health::HostHealth;
use rejoin_channel_table::{Epoch, ImageId, MoveNumber, Rank};
use rejoin_logging::determinants::LogUsage;
use rejoin_wire::ImageCost;
use serde::{Deserialize, Serialize};

/// From a local manager to central. Each kind has its handlers there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToCentral {
    /// The process of a rank: from its start to its end.
    Process(ProcessMessage),
    /// Images of ranks.
    Image(ImageMessage),
    /// Files of images, and copies of those.
    File(FileMessage),
    /// What ranks log.
    Log(LogMessage),
    /// A rank that moves here or away.
    Move(MoveMessage),
    /// Checkpoints of registered memory.
    Regions(RegionMessage),
    /// The host itself.
    Host(HostMessage),
    /// How everything is.
    Report(Box<Report>),
}

/// Makes a message of one of its kind.
macro_rules! from_kinds {
    ($($kind:ident($message:ty)),* $(,)?) => {$(
        impl From<$message> for ToCentral {
            fn from(message: $message) -> ToCentral {
                ToCentral::$kind(message)
            }
        }
    )*};
}

from_kinds!(
    Process(ProcessMessage),
    Image(ImageMessage),
    File(FileMessage),
    Log(LogMessage),
    Move(MoveMessage),
    Regions(RegionMessage),
    Host(HostMessage),
);

/// Images of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ImageMessage {
    /// A rank's image is there and can take over.
    Taken {
        /// The process instance that took the image.
        instance: ProcessInstance,
        /// The image.
        image: ImageId,
        /// The cost of the image.
        cost: ImageCost,
    },
    /// A rank can't take its image.
    NotTaken {
        /// The process instance without an image.
        instance: ProcessInstance,
        /// The image.
        image: ImageId,
        /// One line for the user.
        why: String,
        /// The program has state that a rollback does not take back.
        outlives: bool,
    },
    /// An image that was there is gone, in memory and in a file.
    Lost {
        /// Whose, in the incarnation that it has now.
        instance: ProcessInstance,
        /// The image.
        image: ImageId,
        /// Why the host has given it up; `None`: another process ended it.
        why: Option<String>,
    },
    /// A rank's program asks for a checkpoint.
    Wanted {
        /// The process instance that asks.
        instance: ProcessInstance,
        /// Later than this epoch.
        after: Epoch,
    },
    /// A rank's log has room when files of this checkpoint, or of a later one, are there.
    FilesWanted {
        /// The process instance that waits.
        instance: ProcessInstance,
        /// The epoch that it is in.
        of: Epoch,
    },
}

/// Files of images, and copies of those.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileMessage {
    /// The image of a rank of this host is in a file, too.
    Stored {
        /// The rank.
        rank: Rank,
        /// The image.
        image: ImageId,
    },
    /// The image of a rank of this host can't be written to a file.
    NotStored {
        /// The rank.
        rank: Rank,
        /// The image.
        image: ImageId,
        /// One line for the user; `None`: it can be tried again at once.
        why: Option<String>,
    },
    /// This host has a copy of the file of an image, or the parity of several, as
    /// [`ToLocal::Copy`](super::ToLocal::Copy) has ordered.
    Copied {
        /// The rank, of another host; of several, the first.
        rank: Rank,
        /// Of which epoch.
        epoch: Epoch,
    },
    /// This host can't make what [`ToLocal::Copy`](super::ToLocal::Copy) has ordered.
    NotCopied {
        /// The rank, of another host; of several, the first.
        rank: Rank,
        /// Of which epoch.
        epoch: Epoch,
        /// One line for the user.
        why: String,
    },
}

/// A rank that moves here or away.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MoveMessage {
    /// The image that [`RankMoveOrder::Load`](super::RankMoveOrder::Load) has named is loaded.
    Loaded {
        /// The rank.
        rank: Rank,
        /// The number of the image.
        number: MoveNumber,
        /// The length of its file in bytes.
        bytes: u64,
    },
    /// The image that [`RankMoveOrder::Load`](super::RankMoveOrder::Load) has named can't be
    /// loaded.
    NotLoaded {
        /// The rank.
        rank: Rank,
        /// The number of the image.
        number: MoveNumber,
        /// One line for the user.
        why: String,
    },
    /// How far the file of a move's image is, for those who look on. Said twice a second at most,
    /// and only of ranks that are on their way.
    Bytes(MoveBytes),
}

/// What ranks log.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogMessage {
    /// What the logs of ranks hold, for those who look on. Said once a second at most, and only of
    /// ranks for which it has changed.
    Used(Vec<(Rank, LogUsage)>),
    /// A rank has come back with all messages that it retains for other groups.
    Whole {
        /// The process instance.
        instance: ProcessInstance,
    },
}

/// Checkpoints of registered memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegionMessage {
    /// A rank's program stores its registered memory, with all other ranks. It asks for a number.
    NumberWanted {
        /// The process instance that asks.
        instance: ProcessInstance,
        /// The highest number that is in use in the folder.
        above: Epoch,
    },
    /// A rank has stored its registered memory.
    Stored {
        /// The process instance that stored it.
        instance: ProcessInstance,
        /// Under which number.
        epoch: Epoch,
    },
}

/// The host itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HostMessage {
    /// This host ends soon: its ranks are to move to others. It says so again until they have.
    Ends,
    /// The health command of this host has answered. Answers but [`HostHealth::Fine`] are
    /// repeated.
    Health(HostHealth),
    /// No process of the job is left on this host; [`ToLocal::Leave`](super::ToLocal::Leave) is
    /// awaited.
    Done,
    /// A local manager on another host than central's renews its lease.
    Renew {
        /// Number of the request among the host's.
        number: u64,
    },
    /// Of the watch over other hosts.
    Watch(WatchReport),
}

/// How far the file of an image is with which a rank moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MoveBytes {
    /// The rank.
    pub rank: Rank,
    /// The number of the image.
    pub number: MoveNumber,
    /// Bytes that are written on the rank's host, or copied to the other one.
    pub done: u64,
    /// All bytes, if that is known.
    pub of: Option<u64>,
}
