//! What a rank and its local manager say to each other, over the stream socket that the rank
//! inherits. [`MANAGER_FD`] names it; frames are those of [`crate::codec`].
//!
//! The order of a rank's life: the manager puts [`FromManager::Welcome`] into the socket before the
//! rank is there, the rank answers with [`ToManager::Register`], all get [`FromManager::Start`]
//! once every rank has registered; [`ToManager::Finalizing`] is answered by
//! [`FromManager::AllFinalized`] once every rank has said it, [`ToManager::Counters`] may follow, and
//! [`ToManager::Leave`] is the rank's last word. In a large job [`FromManager::Begin`] stands for the start, and
//! [`ToManager::LookUp`] is answered by [`FromManager::Card`]. What concerns the job as a whole carries the
//! generation: a rank drops news of another one. End of file from the manager means that the job is over: the rank exits at once.

use crate::checkpoint::Cost;
use crate::roster::Roster;
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Identity, Incarnation, JobKey, Rank};
use serde::{Deserialize, Serialize};

/// Environment variable that holds the number of the inherited descriptor.
pub const MANAGER_FD: &str = "REJOIN_MANAGER_FD";

/// Version of the messages in this crate; both sides must have the same.
pub const VERSION: u32 = 10;

/// Most counters that a rank may report.
pub const MOST_COUNTERS: usize = 64;

/// Most lines about what an image can't bring back.
pub const MOST_CAVEATS: usize = 16;

/// Most files that an image names.
pub const MOST_FILES: usize = 1024;

/// From a rank to its local manager, at most [`crate::codec::RANK_LIMIT`] bytes each.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToManager {
    /// The process that called `MPI_Init` (MPI-5.0 §11.2.1) is there and listens.
    Register {
        /// The rank that Welcome named.
        rank: Rank,
        /// The incarnation that Welcome named.
        incarnation: Incarnation,
        /// Its process id as it sees it itself (informative: the kernel tells the manager).
        pid: u32,
        /// Where it listens.
        card: BusinessCard,
        /// [`VERSION`] of the library.
        version: u32,
        /// Sizes in force; a job whose ranks differ in them does not start.
        limits: Limits,
    },
    /// An image of the rank is there. The descriptors that belong to it came with the message: the
    /// image's own socket, then the reading ends of the pipes that `streams` names.
    Imaged {
        /// The generation that the rank is in.
        generation: Generation,
        /// The image's epoch.
        epoch: Epoch,
        /// Process id of the image.
        pid: u32,
        /// What it cost.
        cost: Cost,
        /// Whether standard output and standard error go through new pipes from here on.
        streams: [bool; 2],
        /// What the image can't bring back, a line each, at most [`MOST_CAVEATS`].
        caveats: Vec<String>,
        /// What the manager must know of its files and its input.
        holds: Holds,
    },
    /// The rank can't take an image.
    NotImaged {
        /// The generation that the rank is in.
        generation: Generation,
        /// The epoch, which the rank has entered all the same.
        epoch: Epoch,
        /// One line for the user.
        why: String,
    },
    /// The program asks for a checkpoint of the job; answered by [`FromManager::Kept`].
    Checkpoint {
        /// The epoch that the rank is in: only a later one has its state.
        after: Epoch,
    },
    /// The program has stored its state as the one of this number, and so has that of every other rank. It writes
    /// nothing before it has asked for a checkpoint, too.
    Stored {
        /// The number of the stored state.
        number: u32,
    },
    /// The rank is in `MPI_Finalize` (MPI-5.0 §11.2.2) and has nothing more to send.
    Finalizing,
    /// `MPI_Abort` (MPI-5.0 §9.5), or an error whose handler aborts the job.
    Abort {
        /// The error code that the program gave.
        code: i32,
        /// One line for the user; may be empty.
        why: String,
    },
    /// What the rank counted, in the order in which it is to be shown; between
    /// [`FromManager::AllFinalized`] and [`ToManager::Leave`], if [`RankOptions::stats`] asks for it.
    Counters {
        /// Names and values, at most [`MOST_COUNTERS`].
        counters: Vec<(String, u64)>,
    },
    /// `MPI_Finalize` is about to return: from here on the process may end as it likes.
    Leave,
    /// Where is this rank? Only after [`FromManager::Begin`]; answered by [`FromManager::Card`].
    LookUp {
        /// Which rank.
        rank: Rank,
        /// No older incarnation will do.
        least: Incarnation,
    },
    /// A line for the user, which changes nothing.
    Note {
        /// Shown, once, also to those who did not ask how things go ([`RankOptions::verbose`]).
        important: bool,
        /// The line.
        text: String,
    },
}

/// From the local manager to a rank, at most [`crate::codec::MANAGER_LIMIT`] bytes each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromManager {
    /// First message; waits in the socket when the process starts.
    Welcome(Box<Welcome>),
    /// Every rank has registered: where all of them are, indexed by world rank.
    Start {
        /// The job's generation.
        generation: Generation,
        /// Incarnation and business card of each rank, in rank order.
        table: Vec<(Incarnation, BusinessCard)>,
        /// The epoch of the image to be taken at the end of `MPI_Init`.
        image: Option<Epoch>,
    },
    /// Take an image of this epoch at the next safe point, unless the rank is in it already.
    Checkpoint {
        /// The job's generation.
        generation: Generation,
        /// The image's epoch.
        epoch: Epoch,
    },
    /// What became of the checkpoint that the rank asked for.
    Kept {
        /// The job's generation.
        generation: Generation,
        /// The checkpoint that the job goes back to.
        epoch: Option<Epoch>,
        /// The last number of which no checkpoint can come any more.
        burnt: Epoch,
    },
    /// A rank has a new incarnation.
    Update {
        /// The job's generation.
        generation: Generation,
        /// Which rank.
        rank: Rank,
        /// Its new incarnation; an older one than known is ignored.
        incarnation: Incarnation,
        /// Where it is now.
        card: BusinessCard,
    },
    /// Every rank has said [`ToManager::Finalizing`].
    AllFinalized {
        /// The job's generation.
        generation: Generation,
    },
    /// The job ends: exit at once.
    Stop {
        /// One line for the log.
        why: String,
    },
    /// Every rank has registered, in a job that is too large for each rank to have all cards.
    Begin {
        /// The job's generation.
        generation: Generation,
        /// Incarnation and host of each rank.
        roster: Roster,
        /// Cards that the manager gives unasked: those of the ranks of this host.
        cards: Vec<(Rank, BusinessCard)>,
        /// The epoch of the image to be taken at the end of `MPI_Init`.
        image: Option<Epoch>,
    },
    /// Where a rank is that was asked for.
    Card {
        /// The job's generation.
        generation: Generation,
        /// Which rank.
        rank: Rank,
        /// Its incarnation; an older one than known is ignored.
        incarnation: Incarnation,
        /// Where it is.
        card: BusinessCard,
    },
}

/// What a rank must know before `MPI_Init` can begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// [`VERSION`] of the manager.
    pub version: u32,
    /// Job, rank, generation and incarnation of the process.
    pub identity: Identity,
    /// Number of ranks in the job (size of `MPI_COMM_WORLD`).
    pub size: u32,
    /// The job's key; it travels through this socket only.
    #[serde(with = "rejoin_channel_table::ids::job_key")]
    pub key: JobKey,
    /// Number of the program on the command line, from 0 (`MPI_APPNUM`, MPI-5.0 §11.10.3).
    pub appnum: Option<u32>,
    /// Settings.
    pub options: RankOptions,
}

/// What all ranks of a job must share: sizes in bytes, since a sender reckons with its receiver's, and what decides who
/// sends to whom.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Limits {
    /// Largest message that is copied and complete at once (`REJOIN_EAGER_COPY`).
    pub eager_copy: u64,
    /// Largest message that is sent eagerly (`REJOIN_EAGER_MAX`).
    pub eager_max: u64,
    /// Window per channel (`REJOIN_WINDOW`).
    pub window: u64,
    /// Reductions may follow the hosts (`REJOIN_REDUCE_ORDER`).
    pub reduce_by_hosts: bool,
}

impl Limits {
    /// The first that differs: its variable's name, this side's value and the other's.
    /// The window comes first, since the other sizes follow from it.
    #[must_use]
    pub fn difference(&self, other: &Limits) -> Option<(&'static str, String, String)> {
        let order = |by_hosts| if by_hosts { "hosts" } else { "ranks" };
        let of = |limits: &Limits| {
            [
                ("REJOIN_WINDOW", limits.window.to_string()),
                ("REJOIN_EAGER_MAX", limits.eager_max.to_string()),
                ("REJOIN_EAGER_COPY", limits.eager_copy.to_string()),
                ("REJOIN_REDUCE_ORDER", order(limits.reduce_by_hosts).into()),
            ]
        };
        let pairs = of(self).into_iter().zip(of(other));
        let mut pairs = pairs.map(|((name, ours), (_, theirs))| (name, ours, theirs));
        pairs.find(|(_, ours, theirs)| ours != theirs)
    }
}

/// What an image has to do with the world around it, as far as its manager must know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holds {
    /// Device and inode of each file that is open for writing, at most [`MOST_FILES`]: one that several ranks
    /// name is not cut back. `None` when there are more.
    pub files: Option<Vec<(u64, u64)>>,
    /// The process holds file locks, which a successor gets only once it is dead.
    pub locks: bool,
    /// Standard input, when it is a pipe.
    pub input: Option<Unread>,
}

/// A pipe as standard input, at an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unread {
    /// Device and inode of the pipe.
    pub pipe: (u64, u64),
    /// Bytes in it that were not read.
    pub bytes: u64,
    /// When they were counted: not before this moment and not after the other, in nanoseconds of the host's
    /// monotonic clock.
    pub counted: (u64, u64),
}

/// What carries messages between ranks of one host (`--transport`). Between hosts it is TCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Transport {
    /// What is fastest and works.
    #[default]
    Auto,
    /// TCP.
    Tcp,
    /// Shared memory, or nothing.
    Shm,
}

/// Settings that a rank takes from the command line, through its manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankOptions {
    /// Name of the host, as messages and `MPI_Get_processor_name` show it.
    pub host: String,
    /// Number of this rank among those of its host, from 0.
    pub local_rank: u32,
    /// Number of the job's ranks on this host.
    pub local_size: u32,
    /// Cores that all ranks of this host may use together.
    pub cores: u32,
    /// Interface name or address to listen on (`--interface`); all usable ones when absent.
    pub interface: Option<String>,
    /// First and last TCP port to listen on (`--port-range`); any when absent.
    pub port_range: Option<(u16, u16)>,
    /// Microseconds to spin before blocking (`--spin`); the device chooses when absent.
    pub spin: Option<u32>,
    /// Largest message that is copied and complete at once, in bytes.
    pub eager_copy: Option<u32>,
    /// Largest message that is sent eagerly, in bytes.
    pub eager_max: Option<u32>,
    /// Window per channel, in bytes.
    pub window: Option<u32>,
    /// Report counters at the end (`--stats`).
    pub stats: bool,
    /// What is needed to take images of this rank; none are taken when absent.
    pub images: Option<Images>,
    /// Folder for what programs register as their state (`--images`), an absolute path.
    pub folder: Option<String>,
    /// The job goes on from what is stored there (`--restart`).
    pub restart: bool,
    /// The newest of that which it may go on from; any when absent. Newer ones are of a history that is no more.
    pub newest: Option<u32>,
    /// Between ranks of one host.
    pub transport: Transport,
    /// The user wants to know how things go (`--verbose`).
    pub verbose: bool,
}

/// What a rank must know to take images of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Images {
    /// Process id of the local manager: a rank that is its child has its images as siblings.
    pub manager: u32,
    /// Device and inode of the pipes that the manager made for standard output and standard error.
    pub pipes: [Option<(u64, u64)>; 2],
    /// The manager's descriptor of the memory by which it notices this rank's end at once, and the slot
    /// in it that is this process's.
    pub watch: Option<(u32, u32)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{CodecError, FrameReader, MANAGER_LIMIT, RANK_LIMIT, encode};
    use rejoin_channel_table::{Address, Generation, JobId, LanId, LocalHostId};

    fn card() -> BusinessCard {
        BusinessCard {
            addresses: vec![Address::Tcp("127.0.0.1:4000".parse().unwrap())],
            host: "a".into(),
            lan: LanId("lan".into()),
            local_host: LocalHostId("id".into()),
            pid: 7,
        }
    }

    #[test]
    fn a_welcome_crosses_the_socket_with_its_key_and_prints_without() {
        let sent = FromManager::Welcome(Box::new(Welcome {
            version: VERSION,
            identity: Identity {
                job: JobId(5),
                rank: Rank(1),
                generation: Generation(0),
                incarnation: Incarnation(0),
            },
            size: 2,
            key: JobKey::new([0xab; 32]),
            appnum: Some(1),
            options: RankOptions {
                host: "a".into(),
                local_size: 2,
                ..RankOptions::default()
            },
        }));
        let mut bytes = Vec::new();
        encode(&sent, MANAGER_LIMIT, &mut bytes).unwrap();
        let mut reader = FrameReader::new(MANAGER_LIMIT);
        reader.push(&bytes);
        assert_eq!(reader.next(), Ok(Some(sent.clone())));
        assert!(!format!("{sent:?}").contains("171"));
    }

    #[test]
    fn the_size_that_differs_is_named() {
        let some = Limits {
            eager_copy: 1,
            eager_max: 2,
            window: 3,
            reduce_by_hosts: false,
        };
        let named =
            |name, ours: &str, theirs: &str| Some((name, ours.to_owned(), theirs.to_owned()));
        assert_eq!(some.difference(&some), None);
        let other = Limits {
            eager_max: 5,
            window: 4,
            ..some
        };
        assert_eq!(some.difference(&other), named("REJOIN_WINDOW", "3", "4"));
        let other = Limits {
            eager_copy: 7,
            ..some
        };
        assert_eq!(
            other.difference(&some),
            named("REJOIN_EAGER_COPY", "7", "1")
        );
        let other = Limits {
            reduce_by_hosts: true,
            ..some
        };
        let said = named("REJOIN_REDUCE_ORDER", "ranks", "hosts");
        assert_eq!(some.difference(&other), said);
    }

    #[test]
    fn a_rank_can_not_send_more_than_its_limit() {
        let mut bytes = Vec::new();
        let why = "x".repeat(RANK_LIMIT);
        let abort = ToManager::Abort { code: 1, why };
        let error = encode(&abort, RANK_LIMIT, &mut bytes).unwrap_err();
        assert!(matches!(error, CodecError::TooLong { .. }));
        let register = ToManager::Register {
            rank: Rank(0),
            incarnation: Incarnation(0),
            pid: 7,
            card: card(),
            version: VERSION,
            limits: Limits::default(),
        };
        encode(&register, RANK_LIMIT, &mut bytes).unwrap();
    }
}
