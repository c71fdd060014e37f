//! Messages between mpirun, the central manager and the local managers.
//!
//! Streams have windows. So neither side ever keeps more than a window of bytes that the other
//! can't take. A reader that stops also stops the writers, and memory stays bounded.

use super::launch_plan::LaunchPlan;
use super::tree::TreeOrder;
use rejoin_channel_table::{Epoch, ImageId, Incarnation, MoveNumber, Rank};
use rejoin_logging::determinants::{LogPart, StableMark};
use rejoin_logging::receive_log::ReceivedPart;
use rejoin_managers_net::address::ManagerReach;
use rejoin_managers_protocol::broadcast::BroadcastMessage;
use rejoin_managers_protocol::detector::ProbeMessage;
use rejoin_managers_protocol::lookup;
use rejoin_managers_protocol::manager_messages::{ToCentral, ToLocal};
use rejoin_managers_stdio::{Begun, Stream};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::net::SocketAddr;

/// Most records of a part: it fits in a message with room to spare.
pub const MOST_RECORDS: usize = 1 << 17;

/// Most words of a part of a receive log: it fits in a message with room to spare.
pub const MOST_RECEIVED_WORDS: usize = 1 << 19;

/// From mpirun to a local manager.
#[derive(Debug, Serialize, Deserialize)]
pub enum MpirunToLocal {
    /// The first message: the processes to start.
    Launch(Box<LaunchPlan>),
    /// Standard input for the rank that gets it; empty at its end.
    Input(ByteBuf),
    /// So many bytes of output were written out.
    OutputCredit(u32),
    /// This stream has no reader any more.
    SinkClosed(Stream),
    /// The copy of a rank's determinants is there.
    DeterminantsStored(StableMark),
    /// The answer to [`LocalToMpirun::RequestDeterminants`]: the copy of a rank's determinants, in
    /// parts.
    Determinants {
        /// The rank.
        rank: Rank,
        /// The incarnation for which they were asked.
        incarnation: Incarnation,
        /// The next part.
        part: LogPart,
        /// No other part follows.
        last: bool,
    },
    /// The copy of a rank's receive log is there, up to this mark.
    ReceivedStored(StableMark),
    /// Before the answer to [`LocalToMpirun::RequestDeterminants`]: the next part of the copy of
    /// the rank's receive log.
    Received {
        /// The rank.
        rank: Rank,
        /// The incarnation for which determinants were asked.
        incarnation: Incarnation,
        /// The next part.
        part: ReceivedPart,
    },
    /// The input that follows begins anew, for [`LocalToMpirun::StartsAgain`].
    InputAgain,
    /// Does it answer? It says [`LocalToMpirun::Alive`].
    Ping,
}

/// From a local manager to mpirun.
#[derive(Debug, Serialize, Deserialize)]
pub enum LocalToMpirun {
    /// Whole lines, or a piece of a very long one, or the unfinished last one.
    Output {
        /// The rank that wrote it.
        rank: Rank,
        /// The stream of the output.
        stream: Stream,
        /// The bytes.
        bytes: ByteBuf,
        /// Nothing follows on this stream.
        last: bool,
    },
    /// The rank took its image of this epoch: earlier output was written before the image.
    Mark {
        /// The rank that took the image.
        rank: Rank,
        /// The image.
        image: ImageId,
    },
    /// The rank rolls back to its image of this epoch, or to its start: it may have written the
    /// following output before.
    Rewound {
        /// The rank that rolls back.
        rank: Rank,
        /// The image's epoch.
        epoch: Option<Epoch>,
    },
    /// The rank starts anew with its registered memory of this checkpoint: what it has written
    /// since then is void. Its standard input is awaited again: [`MpirunToLocal::InputAgain`].
    StartsAgain {
        /// The rank.
        rank: Rank,
        /// The checkpoint of registered memory.
        regions: Epoch,
    },
    /// The rank has moved to this host with its image of this number: the following output comes
    /// after that which its former host passes on before its mark of this number.
    Arrives {
        /// The rank.
        rank: Rank,
        /// The number of its image.
        number: MoveNumber,
    },
    /// The rank has stored its registered memory at this checkpoint, as all other ranks do: earlier
    /// output was written before that.
    RegionsStored {
        /// The rank that stored its memory.
        rank: Rank,
        /// The number of the checkpoint.
        epoch: Epoch,
        /// The beginnings of the lines that it had not finished, of each stream.
        begun: Begun,
    },
    /// New determinants of a rank, to be kept where they outlive its host, in parts.
    Determinants {
        /// The rank.
        rank: Rank,
        /// The incarnation that has recorded them.
        incarnation: Incarnation,
        /// The next part.
        part: LogPart,
        /// With the last part: how far the log is. Answered by
        /// [`MpirunToLocal::DeterminantsStored`].
        mark: Option<StableMark>,
    },
    /// New words of a rank's receive log, to be kept where they outlive its host. Answered by
    /// [`MpirunToLocal::ReceivedStored`].
    Received {
        /// The rank.
        rank: Rank,
        /// The incarnation that has logged them.
        incarnation: Incarnation,
        /// The next part.
        part: ReceivedPart,
    },
    /// A process of this rank begins on this host from an image: it needs the determinants of those
    /// before it, which the host does not have.
    RequestDeterminants {
        /// The rank.
        rank: Rank,
        /// The incarnation of the process.
        incarnation: Incarnation,
        /// The rank moves, and may stay where it is: the process there continues then.
        moves: bool,
    },
    /// So many bytes of standard input were taken by the rank.
    InputCredit(u32),
    /// Standard input has no reader any more.
    InputClosed,
    /// State that an image of this rank can't restore.
    Caveats {
        /// The rank of the image.
        rank: Rank,
        /// A line each.
        lines: Vec<String>,
    },
    /// Processes of the job that did not end in time after SIGKILL, a line each.
    LeftBehind(Vec<String>),
    /// The recovery of this rank waits.
    Waits {
        /// The rank that does not come back yet.
        rank: Rank,
        /// For what, one line.
        text: String,
    },
    /// A message of the rank to the user.
    Note {
        /// The rank that sends the message.
        rank: Rank,
        /// Shown without `--verbose` too.
        important: bool,
        /// One line.
        text: String,
    },
    /// Where on this host its ranks run.
    Bound {
        /// A line each, when that is to be told.
        lines: Vec<(Rank, String)>,
        /// Of ranks that should have had a core each: how many they are, and how many cores.
        oversubscribed: Option<(u32, u32)>,
    },
    /// This rank could not be bound, for this error of the system.
    Unbound(Rank, i32),
    /// The answer to [`MpirunToLocal::Ping`].
    Alive,
}

/// From the central manager to a local manager.
#[derive(Debug, Serialize, Deserialize)]
pub enum CentralToLocal {
    /// An order.
    Order(ToLocal),
    /// Of what goes down the tree.
    Tree(BroadcastMessage<TreeOrder>),
    /// Of where ranks are.
    LookUp(lookup::LookupMessage),
    /// The answer to [`LocalToCentral::RequestImages`]: where the files of a host's images are
    /// copied.
    ImagesAt {
        /// Number of the host.
        host: u32,
        /// Addresses of the host's manager; none if it can't be reached.
        addresses: Vec<SocketAddr>,
    },
    /// The answer to [`LocalToCentral::RequestPeer`]: where another local manager is reached.
    PeerAt {
        /// Number of the peer among the local managers.
        peer: u32,
        /// Addresses of the peer; none if it can't be reached.
        addresses: Vec<SocketAddr>,
    },
}

/// From a local manager to the central manager.
#[derive(Debug, Serialize, Deserialize)]
pub enum LocalToCentral {
    /// News of its ranks.
    News(ToCentral),
    /// Where other local managers reach this one.
    Listens(ManagerReach),
    /// Where other local managers copy the files of this host's images.
    GivesImages(ManagerReach),
    /// Where are the files of this host's images copied? Central answers once it knows.
    RequestImages(u32),
    /// Where is the local manager of this number reached? Central answers once it knows.
    RequestPeer(u32),
    /// Of what goes down the tree.
    Tree(BroadcastMessage<TreeOrder>),
    /// Of where ranks are.
    LookUp(lookup::LookupMessage),
}

/// Messages between local managers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerMessage {
    /// Of what goes down the tree.
    Tree(BroadcastMessage<TreeOrder>),
    /// Of where ranks are.
    LookUp(lookup::LookupMessage),
    /// Is the other host there?
    Probe(ProbeMessage),
}
