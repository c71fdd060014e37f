//! Errors of the device. Every message names its rank, host and operation.

use std::io;

use rejoin_channel_table::ids::Rank;

/// A failure of the device. A lost link is none: it is resumed below this level.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An environment variable holds something that cannot be used.
    #[error("{variable}={value}: {problem}")]
    Environment {
        /// The variable's name.
        variable: &'static str,
        /// The variable's value as found.
        value: String,
        /// The value's error, and the allowed values.
        problem: String,
    },
    /// A system call failed where no retry helps.
    #[error("{operation}: {}", text_of(.source))]
    System {
        /// The failed operation.
        operation: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The channel to the local manager is unusable or spoke out of turn.
    #[error("rank {rank}: the local manager's channel: {problem}")]
    Manager {
        /// The rank that speaks.
        rank: Rank,
        /// What is wrong.
        problem: String,
    },
    /// A connection could not be made within the time allowed.
    #[error(
        "{operation}: no connection to rank {rank} on host {host} ({address}) within {seconds:.0} s: {last}"
    )]
    Unreachable {
        /// The peer.
        rank: Rank,
        /// The peer's host name.
        host: String,
        /// The address or addresses tried.
        address: String,
        /// The operation that needs the connection.
        operation: &'static str,
        /// The bound that ran out, in seconds.
        seconds: f64,
        /// The last thing that went wrong.
        last: String,
    },
    /// The log of a recovery group is full, and no checkpoint makes room.
    #[error(
        "rank {rank}: the log has had no room for {seconds} s ({retained} bytes of messages are \
         retained for other recovery groups, or too many determinants), and no checkpoint was \
         committed: mpirun says why"
    )]
    LogFull {
        /// The rank.
        rank: Rank,
        /// Bytes of messages that it retains.
        retained: u64,
        /// How long it has waited.
        seconds: u64,
    },
    /// A world rank outside the job.
    #[error("{operation}: rank {rank} is not in this job of {size}")]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// The job's size.
        size: u32,
        /// The operation that named it.
        operation: &'static str,
    },
    /// The system cannot use the program's buffer.
    #[error(
        "{operation} with rank {rank} on host {host}: the buffer is not all in this process's \
         memory ({})",
        text_of(.problem)
    )]
    Buffer {
        /// The peer.
        rank: Rank,
        /// The peer's host name.
        host: String,
        /// `send` or `receive`.
        operation: &'static str,
        /// The system's answer.
        problem: io::Error,
    },
    /// Links to a rank are lost again and again without progress.
    #[error(
        "{links} links in a row to rank {rank} on host {host} were lost before anything was \
         received; the last one: {last}"
    )]
    LinkFlapping {
        /// The peer.
        rank: Rank,
        /// The peer's host name.
        host: String,
        /// Number of successive links without progress.
        links: u32,
        /// Why the last one was lost.
        last: String,
    },
    /// The recording of a rank can't be begun.
    #[error("rank {rank}: the recording {path}: {problem}")]
    Recording {
        /// The rank.
        rank: Rank,
        /// The file.
        path: String,
        /// The system's answer.
        problem: String,
    },
    /// The engine refused an operation.
    #[error("{operation} with rank {rank} on host {host}: {problem}")]
    Refused {
        /// The peer.
        rank: Rank,
        /// The peer's host name.
        host: String,
        /// The operation.
        operation: &'static str,
        /// The engine's reason.
        problem: String,
    },
}

/// The device's results.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failed system call, named by its purpose.
    pub(crate) fn system(operation: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System {
            operation: operation.into(),
            source: source.into(),
        }
    }
}

/// The system's text for an error, without `strerror_r`, which uses the C library's heap. The
/// handler of a checkpoint request may call this while it interrupts a function of that heap.
pub(crate) fn text_of(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => format!(
            "{} (os error {code})",
            nix::errno::Errno::from_raw(code).desc()
        ),
        None => error.to_string(),
    }
}
