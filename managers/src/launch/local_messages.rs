//! What mpirun, the central manager and the local managers say to each other.
//!
//! Streams have windows, so that neither side ever keeps more than a window of what the other can't
//! take: a reader that stops stops the writers, and memory stays bounded.

use super::plan::Plan;
use super::tree::Word;
use crate::stdio::{Begun, Stream};
use rejoin_channel_table::{Epoch, Rank};
use rejoin_managers_protocol::broadcast::Message;
use rejoin_managers_protocol::control::{ToCentral, ToLocal};
use rejoin_managers_protocol::lookup;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::net::SocketAddr;

/// From mpirun to a local manager.
#[derive(Debug, Serialize, Deserialize)]
pub enum MpirunToLocal {
    /// First of all: what to start.
    Launch(Box<Plan>),
    /// Standard input for the rank that gets it; empty at its end.
    Input(ByteBuf),
    /// So many bytes of output were written out.
    OutputCredit(u32),
    /// Nobody reads this stream any more.
    SinkClosed(Stream),
    /// Does it answer? It says [`LocalToMpirun::Alive`].
    Ping,
}

/// From a local manager to mpirun.
#[derive(Debug, Serialize, Deserialize)]
pub enum LocalToMpirun {
    /// Whole lines, or a piece of a very long one, or the unfinished last one.
    Output {
        /// Who wrote it.
        rank: Rank,
        /// Where.
        stream: Stream,
        /// The bytes.
        bytes: ByteBuf,
        /// Nothing follows on this stream.
        last: bool,
    },
    /// The rank took its image of this epoch: what came before was written before it.
    Mark {
        /// Whose.
        rank: Rank,
        /// The image's epoch.
        epoch: Epoch,
    },
    /// The rank goes back to its image of this epoch, or to its start: what comes now it may have
    /// written before.
    Rewound {
        /// Which.
        rank: Rank,
        /// The image's epoch.
        epoch: Option<Epoch>,
    },
    /// The rank's program has stored its state, as the one of this number, with all others: what
    /// came before was written before that.
    Stored {
        /// Whose.
        rank: Rank,
        /// The number of the stored state.
        number: u32,
        /// The beginnings of the lines that it had not finished, of each stream.
        begun: Begun,
    },
    /// So many bytes of standard input were taken by the rank.
    InputCredit(u32),
    /// Nobody reads standard input any more.
    InputClosed,
    /// What an image of this rank can't bring back.
    Caveats {
        /// Whose.
        rank: Rank,
        /// A line each.
        lines: Vec<String>,
    },
    /// What the rank tells the user.
    Note {
        /// Which.
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
        crowded: Option<(u32, u32)>,
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
    Tree(Message<Word>),
    /// Of where ranks are.
    Look(lookup::Message),
}

/// From a local manager to the central manager.
#[derive(Debug, Serialize, Deserialize)]
pub enum LocalToCentral {
    /// News of its ranks.
    News(ToCentral),
    /// Where other local managers reach this one.
    Listens(Vec<SocketAddr>),
    /// Of what goes down the tree.
    Tree(Message<Word>),
    /// Of where ranks are.
    Look(lookup::Message),
}

/// What local managers say to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Across {
    /// Of what goes down the tree.
    Tree(Message<Word>),
    /// Of where ranks are.
    Look(lookup::Message),
}
