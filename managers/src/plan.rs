//! What travels between mpirun and a local manager: the control messages of the protocol cores, the
//! launch plan and the streams.
//!
//! Streams have windows, so that neither side ever keeps more than a window of what the other can't
//! take: a reader that stops stops the writers, and memory stays bounded.

use crate::topology::places::Binding;
use crate::tree::{Place, Word};
use rejoin_channel_table::{Epoch, JobId, JobKey, Rank};
use rejoin_managers_protocol::broadcast::Message;
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::control::{ToCentral, ToLocal};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::lookup;
use rejoin_wire::RankOptions;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::net::SocketAddr;

/// Bytes of output that a local manager sends ahead of mpirun's acknowledgement.
pub const OUTPUT_WINDOW: usize = 1 << 20;

/// Bytes of standard input that mpirun sends ahead of the local manager's acknowledgement.
pub const INPUT_WINDOW: usize = 1 << 16;

/// Which of a rank's output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// From mpirun to a local manager.
#[derive(Debug, Serialize, Deserialize)]
pub enum Down {
    /// First of all: what to start.
    Launch(Box<Plan>),
    /// An order of central.
    Control(ToLocal),
    /// Standard input for the rank that gets it; empty at its end.
    Input(ByteBuf),
    /// So many bytes of output were written out.
    OutputCredit(u32),
    /// Nobody reads this stream any more.
    SinkClosed(Stream),
    /// Of what goes down the tree.
    Tree(Message<Word>),
    /// Is it there? It answers [`Up::Here`].
    Ping,
    /// Of where ranks are.
    Look(lookup::Message),
}

/// From a local manager to mpirun.
#[derive(Debug, Serialize, Deserialize)]
pub enum Up {
    /// News for central.
    Control(ToCentral),
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
    /// So many bytes of standard input were taken by the rank.
    InputCredit(u32),
    /// Nobody reads standard input any more.
    InputClosed,
    /// Where other local managers reach this one.
    Listens(Vec<SocketAddr>),
    /// Of what goes down the tree.
    Tree(Message<Word>),
    /// The answer to [`Down::Ping`].
    Here,
    /// The rank's program has stored its state, as the one of this number, with all others: what came before was
    /// written before that.
    Stored {
        /// Whose.
        rank: Rank,
        /// The number of the stored state.
        number: u32,
        /// The beginnings of the lines that it had not finished, of each stream.
        begun: Begun,
    },
    /// Of where ranks are.
    Look(lookup::Message),
    /// Where on this host its ranks run.
    Bound {
        /// A line each, when that is to be told.
        lines: Vec<(Rank, String)>,
        /// Of ranks that should have had a core each: how many they are, and how many cores.
        crowded: Option<(u32, u32)>,
    },
    /// This rank could not be bound, for this error of the system.
    Unbound(Rank, i32),
}

/// The beginnings of unfinished lines: of standard output and of standard error.
pub type Begun = [ByteBuf; 2];

/// What local managers say to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Across {
    /// Of what goes down the tree.
    Tree(Message<Word>),
    /// Of where ranks are.
    Look(lookup::Message),
}

/// One program of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Program and arguments.
    pub argv: Vec<ByteBuf>,
    /// Variables to set, beside those of the local manager itself.
    pub set: Vec<(ByteBuf, ByteBuf)>,
    /// Working directory; the local manager's own when absent.
    pub wdir: Option<ByteBuf>,
}

/// What local managers must know to start ranks. Holds the job's key. mpirun has the plan of the whole
/// job, each local manager its host's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The job.
    pub job: JobId,
    /// Its key.
    #[serde(with = "rejoin_channel_table::ids::job_key")]
    pub key: JobKey,
    /// Number of ranks of the job.
    pub size: u32,
    /// Programs of the job, in the order of the command line.
    pub programs: Vec<Program>,
    /// The ranks (in a part, those of one host), each with the number of its program.
    pub ranks: Vec<(Rank, u32)>,
    /// Settings for all ranks; host and local numbers are the local manager's to fill in.
    pub options: RankOptions,
    /// How the ranks of each host are bound.
    pub binding: Binding,
    /// Ranks whose earlier processes had begun lines that these end.
    pub begun: Vec<(Rank, Begun)>,
    /// The rank that reads mpirun's standard input.
    pub stdin: Option<Rank>,
    /// A person sits at the terminal: pass unfinished lines on after a moment.
    pub interactive: bool,
    /// Ranks begin with SIGXFSZ ignored, as mpirun did.
    pub file_limit_ignored: bool,
    /// By what this host goes when it is reached over a network.
    pub lease: Option<Terms>,
    /// Where this host stands in the tree, if there is one.
    pub tree: Option<Place>,
    /// Ranks get no table, but look cards up.
    pub lookups: bool,
}

impl Plan {
    /// The part of one host, where `placement` has the host of each rank.
    #[must_use]
    pub fn part(&self, placement: &[HostIndex], host: HostIndex) -> Plan {
        let here = |rank: &Rank| placement.get(rank.0 as usize) == Some(&host);
        Plan {
            ranks: self
                .ranks
                .iter()
                .filter(|(rank, _)| here(rank))
                .copied()
                .collect(),
            begun: self
                .begun
                .iter()
                .filter(|(r, _)| here(r))
                .cloned()
                .collect(),
            stdin: self.stdin.filter(here),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_gets_its_own_ranks() {
        let plan = Plan {
            job: JobId(1),
            key: JobKey::new([0; 32]),
            size: 3,
            programs: Vec::new(),
            ranks: vec![(Rank(0), 0), (Rank(1), 0), (Rank(2), 1)],
            options: RankOptions::default(),
            binding: Binding::NONE,
            begun: vec![(Rank(1), Begun::default())],
            stdin: Some(Rank(1)),
            interactive: false,
            file_limit_ignored: false,
            lease: None,
            tree: None,
            lookups: false,
        };
        let placement = [0, 1, 0];
        let first = plan.part(&placement, 0);
        assert_eq!(first.ranks, [(Rank(0), 0), (Rank(2), 1)]);
        assert_eq!((first.stdin, first.size), (None, 3));
        let second = plan.part(&placement, 1);
        assert_eq!(second.ranks, [(Rank(1), 0)]);
        assert_eq!(second.stdin, Some(Rank(1)));
        assert_eq!((first.begun.len(), second.begun.len()), (0, 1));
        assert!(plan.part(&placement, 2).ranks.is_empty());
    }
}
