//! The messages between a rank and its local manager.

use rejoin_channel_table::{
    BusinessCard, Epoch, Generation, ImageId, Incarnation, MoveNumber, Rank,
};
use serde::{Deserialize, Serialize};

use crate::{Holds, ImageCost, Limits, ProcessMap, Welcome};

/// Environment variable that holds the number of the inherited descriptor.
pub const MANAGER_FD: &str = "REJOIN_MANAGER_FD";

/// Version of the messages in this crate; both sides must have the same.
pub const VERSION: u32 = 31;

/// What the manager requests of a rank by signal, in the number that comes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRequest {
    /// Read the messages of the manager.
    ReadMessages,
    /// Take the image of this checkpoint. Checkpoints count from 1 on.
    Checkpoint(Epoch),
}

impl SignalRequest {
    /// The number that comes with the signal.
    #[must_use]
    pub fn encode(self) -> u32 {
        match self {
            SignalRequest::ReadMessages => 0,
            SignalRequest::Checkpoint(epoch) => epoch.0,
        }
    }

    /// The request of a signal with this number.
    #[must_use]
    pub fn decode(number: u32) -> SignalRequest {
        match number {
            0 => SignalRequest::ReadMessages,
            epoch => SignalRequest::Checkpoint(Epoch(epoch)),
        }
    }
}

/// Most milliseconds of [`ToManager::SignalLater`].
pub const MOST_SIGNAL_PAUSE: u32 = 1000;

/// Most counters that a rank may report.
pub const MOST_COUNTERS: usize = 64;

/// Most lines about what an image can't bring back.
pub const MOST_CAVEATS: usize = 16;

/// Most ranks that a wait names.
pub const MOST_AWAITED: usize = 16;

/// Most files that an image names.
pub const MOST_FILES: usize = 1024;

/// From a rank to its local manager, at most [`crate::codec::RANK_LIMIT`] bytes each.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToManager {
    /// The process has called `MPI_Init` (MPI-5.0 §11.2.1) and listens.
    Register {
        /// The rank that Welcome named.
        rank: Rank,
        /// The incarnation that Welcome named.
        incarnation: Incarnation,
        /// Process id of the rank as it sees it itself (informative: the kernel tells the manager).
        pid: u32,
        /// Where it listens.
        card: BusinessCard,
        /// [`VERSION`] of the library.
        version: u32,
        /// Sizes in force; a job whose ranks differ in them does not start.
        limits: Limits,
    },
    /// The rank has an image. Its descriptors come with the message: the image's own socket, then
    /// the reading ends of the pipes that `streams` names.
    Imaged {
        /// The generation that the rank is in.
        generation: Generation,
        /// The image.
        image: ImageId,
        /// Process id of the image.
        pid: u32,
        /// What it cost.
        cost: ImageCost,
        /// Whether standard output and standard error go through new pipes from here on.
        streams: [bool; 2],
        /// State that the image can't restore, a line each, at most [`MOST_CAVEATS`].
        caveats: Vec<String>,
        /// Files and input of the image, for the manager.
        holds: Holds,
    },
    /// The rank can't take an image.
    NotImaged {
        /// The generation that the rank is in.
        generation: Generation,
        /// The image. The rank has entered the epoch of a checkpoint without it.
        image: ImageId,
        /// One line for the user.
        why: String,
        /// The program has state that a rollback does not take back.
        outlives: bool,
    },
    /// The program asks for a checkpoint of the job; answered by [`FromManager::Committed`].
    Checkpoint {
        /// The epoch that the rank is in: only a later one has its state.
        after: Epoch,
    },
    /// The rank's log is full, and most of that is older than its last image: it has room when the
    /// files of that checkpoint, or of a later one, are there. Nothing answers.
    WantFiles {
        /// The epoch that the rank is in.
        of: Epoch,
    },
    /// The rank has come back with all messages that it retains: nothing is left out, as it may be
    /// of the file of an image. Nothing answers.
    LogIsWhole,
    /// The program stores its registered memory, with all other ranks: a number for it is needed.
    /// One rank asks. Answered by [`FromManager::RegionsNumber`].
    RequestRegionsNumber {
        /// The highest number that is in use in the folder.
        above: Epoch,
    },
    /// The program's registered memory is stored under this number, on all ranks. Answered by
    /// [`FromManager::RegionsCommitted`]. The program writes no output before that.
    RegionsStored {
        /// The number of the checkpoint.
        epoch: Epoch,
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
    /// The rank's counters, in the order in which they are shown. The message comes between
    /// [`FromManager::AllFinalized`] and [`ToManager::Leave`], if [`crate::RankOptions::stats`]
    /// asks for it.
    Counters {
        /// Names and values, at most [`MOST_COUNTERS`].
        counters: Vec<(String, u64)>,
    },
    /// `MPI_Finalize` is about to return: from here on the process may end as it likes.
    Leave,
    /// Asks for the card of a rank. Only after [`FromManager::Begin`]; answered by
    /// [`FromManager::Card`].
    LookUp {
        /// The rank whose card is wanted.
        rank: Rank,
        /// The oldest incarnation that is acceptable.
        least: Incarnation,
    },
    /// A call has been blocked for [`crate::RankOptions::probe_wait`]: are the hosts of the ranks
    /// there that it waits for?
    Waits {
        /// The ranks, at most [`MOST_AWAITED`].
        ranks: Vec<Rank>,
        /// Any other rank may end the wait, too.
        any: bool,
    },
    /// Everything in the memory of this rank's determinants is to be stored where it outlives the
    /// host. Only with [`crate::MessageLog::stable_node`]. Answered by
    /// [`FromManager::DeterminantsStored`].
    StoreDeterminants {
        /// How far the log is. It grows.
        mark: u64,
    },
    /// The rank's receive log up to here is to be stored where it outlives the host. Answered by
    /// [`FromManager::ReceivedStored`].
    StoreReceived {
        /// Words of the log. The number grows.
        position: u64,
    },
    /// The rank retains messages for ranks that have come back, and its program may compute for
    /// long: the manager is to interrupt it by signal after a pause (message logging).
    SignalLater {
        /// From 1 to [`MOST_SIGNAL_PAUSE`].
        milliseconds: u32,
    },
    /// The rank depends on messages that were lost with a host (optimistic logging): it is to
    /// return to its last image. It has cut its log, does nothing more, and waits for its end.
    Orphan {
        /// The rank that had sent the messages.
        on: Rank,
    },
    /// A line for the user, which changes nothing.
    Note {
        /// Shown, once, also without [`crate::RankOptions::verbose`].
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
    /// Every rank has registered. The table holds their addresses, indexed by world rank.
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
        /// No rollback goes back behind this checkpoint; 0 before the first commit.
        oldest: Epoch,
    },
    /// Take an image of this number at the next safe point without entering an epoch.
    Move {
        /// The job's generation.
        generation: Generation,
        /// The number of the image.
        number: MoveNumber,
        /// Wait there. The process that comes of the image continues on another host, or this one
        /// does after [`FromManager::Stay`]. Otherwise, the image is a copy ahead of that, and this
        /// process continues.
        stops: bool,
    },
    /// The rank continues here: no process comes of the image of this number.
    Stay {
        /// The job's generation.
        generation: Generation,
        /// The number that [`FromManager::Move`] gave.
        number: MoveNumber,
    },
    /// The result of the checkpoint that the rank asked for.
    Committed {
        /// The job's generation.
        generation: Generation,
        /// The checkpoint that the job would roll back to.
        epoch: Option<Epoch>,
        /// Checkpoints up to this number can no longer be committed, unless they already are.
        abandoned: Epoch,
    },
    /// The rank's recovery group has committed its checkpoint of this epoch.
    GroupCommitted {
        /// The job's generation.
        generation: Generation,
        /// The checkpoint.
        epoch: Epoch,
    },
    /// The answer to [`ToManager::StoreDeterminants`]. The manager sends it to the process that
    /// asked, and to no later one.
    DeterminantsStored {
        /// The log is stored up to here, or further.
        mark: u64,
    },
    /// The answer to [`ToManager::StoreReceived`], to the process that asked, and to no later one.
    ReceivedStored {
        /// The receive log is stored up to here, which may be less than was asked for.
        position: u64,
    },
    /// The answer to [`ToManager::RequestRegionsNumber`].
    RegionsNumber {
        /// The job's generation.
        generation: Generation,
        /// The number, which no other checkpoint has.
        epoch: Epoch,
    },
    /// Every rank has said [`ToManager::RegionsStored`], and the manager has stored that.
    RegionsCommitted {
        /// The job's generation.
        generation: Generation,
        /// The newest checkpoint of registered memory.
        newest: Epoch,
        /// The one before it, from which the job may still continue.
        before: Option<Epoch>,
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
        process_map: ProcessMap,
        /// Cards that the manager gives unasked: those of the ranks of this host.
        cards: Vec<(Rank, BusinessCard)>,
        /// The epoch of the image to be taken at the end of `MPI_Init`.
        image: Option<Epoch>,
    },
    /// The card of a rank: asked for, or that of a rank which has come back or moved.
    Card {
        /// The job's generation.
        generation: Generation,
        /// The rank whose card was looked up.
        rank: Rank,
        /// Incarnation of the rank; an older one than known is ignored.
        incarnation: Incarnation,
        /// Where it is.
        card: BusinessCard,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RankOptions;
    use crate::codec::{CodecError, FrameReader, MANAGER_LIMIT, RANK_LIMIT, encode};
    use rejoin_channel_table::{Address, Identity, JobId, JobKey, LanId, LocalHostId};

    fn card() -> BusinessCard {
        BusinessCard {
            addresses: vec![Address::Tcp("127.0.0.1:4000".parse().unwrap())],
            host: "a".into(),
            lan: LanId("lan".into()),
            local_host: LocalHostId("id".into()),
            pid: 7,
            log_ends: Vec::new(),
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
