//! Why no image could be taken, and the parts of a process that an image does not restore.

use serde::{Deserialize, Serialize};

/// Why no image can be taken now. The process continues as if it had not been asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refused {
    /// A thread did not stop within a second.
    #[error(
        "thread {tid} ({name}, state {state}) of the program could not be stopped within a second"
    )]
    Unparkable {
        /// The thread's number.
        tid: i32,
        /// The name that the program gave the thread, or that of the program.
        name: String,
        /// The letter with which the system describes its state.
        state: char,
    },
    /// In a restored process the owner has another number, so the wait would fail.
    #[error("thread {tid} of the program waits for a mutex that inherits priority")]
    PriorityInheritance {
        /// The thread's number.
        tid: i32,
    },
    /// The system does not say whose clock it is, so a restored process could measure another's.
    #[error(
        "timer {id} of the program measures the processor time of the thread that made it, \
         and the system does not say which of the threads that is"
    )]
    ThreadClock {
        /// The kernel's number of the timer.
        id: i32,
    },
    /// Another thread parks this one, or is where no thread may be parked.
    #[error("another thread of the rank is taking an image, or kept the library's heap for long")]
    Busy,
    /// The twin's memory would continue to change, or could not be made again.
    #[error(
        "the program has writable shared memory ({name}, {bytes} bytes) that no image can hold: {why}"
    )]
    SharedMemory {
        /// Length of the first such mapping, in bytes.
        bytes: u64,
        /// File of the mapping, as the system names it.
        name: String,
        /// The reason.
        why: WhyShared,
    },
    /// Nobody knows what ranks of other hosts map.
    #[error(
        "the program writes to {name} through memory ({bytes} bytes); ranks of other hosts may do so, too, because the \
         file is on a file system that hosts may share"
    )]
    SharedWithHosts {
        /// Bytes that are mapped.
        bytes: u64,
        /// The file.
        name: String,
    },
    /// The contents of memory that ranks share are read while all of them are parked.
    #[error(
        "ranks of this host share memory, and rank {rank} (process {pid}) did not stop within the time for their images"
    )]
    OtherRankLate {
        /// The rank.
        rank: u32,
        /// The number of its process.
        pid: i32,
    },
    /// Ranks of this host share memory, and one of them did not take its image with the others.
    #[error(
        "ranks of this host share memory, and rank {rank} did not take its image together with them"
    )]
    OtherRankFailed {
        /// The rank.
        rank: u32,
    },
    /// The shared memory, which is copied into the image, is too large.
    #[error(
        "the program has {bytes} bytes of writable shared memory ({name}); an image holds at most 1 GiB of it"
    )]
    SharedTooLarge {
        /// Length of the memory, in bytes.
        bytes: u64,
        /// File of the memory, as the system names it.
        name: String,
        /// The memory is that of a file, and not of this process alone.
        is_file: bool,
    },
    /// The state of a descriptor could not be read.
    #[error("descriptor {fd} ({what}) can't be part of an image: {}", contents_reason(*.errno))]
    Contents {
        /// The descriptor's number.
        fd: i32,
        /// What it is, as the system names it.
        what: String,
        /// The system's number for the error.
        errno: i32,
    },
    /// A restored process could neither wait for them nor speak to them.
    #[error(
        "the program has a child process of its own ({name}, process {pid}), which a twin cannot bring back"
    )]
    Children {
        /// The number of the youngest one.
        pid: i32,
        /// The name of its program.
        name: String,
    },
    /// The system refused something on the way.
    #[error("{action}: {}", std::io::Error::from_raw_os_error(*.errno))]
    System {
        /// What was tried.
        action: String,
        /// The system's number for the error.
        errno: i32,
    },
}

impl Refused {
    /// The program has state that a rollback to an earlier image does not take back, so that it
    /// could give a wrong answer afterwards.
    #[must_use]
    pub fn outlives_rollback(&self) -> bool {
        match self {
            Self::SharedMemory { .. } | Self::SharedWithHosts { .. } => true,
            Self::SharedTooLarge { is_file, .. } => *is_file,
            _ => false,
        }
    }

    pub(crate) fn system(action: &str, errno: i32) -> Self {
        Self::System {
            action: action.to_owned(),
            errno,
        }
    }
}

/// Why no image holds shared memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum WhyShared {
    /// Another process writes to the memory, or reads it, and is not stopped for images.
    #[error("process {pid} ({name}), which is no rank of this host, maps it, too")]
    Process {
        /// The number of the process.
        pid: i32,
        /// The name of its program.
        name: String,
    },
    /// A restored rank would not find the memory of the others.
    #[error("ranks of this host map it together, and it has no name")]
    Nameless,
    /// A mapping of this kind can't be made again.
    #[error(
        "it is of System V (shmget), of asynchronous I/O (io_setup), of a device or of another service of the system"
    )]
    Kind,
    /// The contents of the memory could not be read.
    #[error("{}", std::io::Error::from_raw_os_error(*.errno))]
    Unread {
        /// The system's number for the error.
        errno: i32,
    },
}

/// What the errors mean that reading the contents of a descriptor gives.
fn contents_reason(errno: i32) -> String {
    match errno {
        libc::EBUSY => "a message with descriptors waits in it".to_owned(),
        libc::EBADF => "it watches a descriptor whose number the program has closed".to_owned(),
        libc::ENOLCK => "the program has a lease of it (F_SETLEASE)".to_owned(),
        libc::ENOTSUP => "no other process can continue what it does".to_owned(),
        libc::EFBIG => "more than 64 MiB wait in pipes and sockets".to_owned(),
        errno => std::io::Error::from_raw_os_error(errno).to_string(),
    }
}

/// Something that a process restored from an image does not get back as it was. The job continues;
/// the user gets one message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Caveat {
    /// An open file that is written before its end: writes of the lost run stay.
    #[error("{path} is written in place: what was written after the checkpoint stays in it")]
    WrittenInPlace {
        /// The file.
        path: String,
    },
    /// A file of which an image keeps nothing.
    #[error(
        "{path} is too large for the image, or can't be read: if it is overwritten after the checkpoint, \
         a loss of a rank ends the job"
    )]
    NotKept {
        /// The file.
        path: String,
    },
    /// A descriptor whose state lies in the kernel or with another process.
    #[error(
        "descriptor {fd} ({what}) stays as it is now: a restored rank finds it as the lost run left it"
    )]
    Shared {
        /// The descriptor's number.
        fd: i32,
        /// What it is, as the system names it.
        what: String,
    },
    /// A message queue or semaphores of System V.
    #[error(
        "{what} {id} of System V stays as it is now: a restored rank finds it as the lost run left it"
    )]
    SystemV {
        /// What it is.
        what: String,
        /// The system's number of the queue or the semaphores.
        id: u64,
    },
    /// The file could not be opened again, so its position is shared with the frozen image.
    #[error(
        "{path} could not be opened again (error {errno}): its position is shared with the image"
    )]
    NotReopened {
        /// The file.
        path: String,
        /// The system's number for the error.
        errno: i32,
    },
    /// The file is shorter than it was at the image.
    #[error("{path} has lost bytes since the checkpoint: {now} are left of {then}")]
    Shrunk {
        /// The file.
        path: String,
        /// Length of the file at the image, in bytes.
        then: u64,
        /// Length of the file at the restore, in bytes.
        now: u64,
    },
    /// A file lock that another process has by now.
    #[error("a lock on {path} could not be taken again (error {errno})")]
    LockLost {
        /// The file.
        path: String,
        /// The system's number for the error.
        errno: i32,
    },
    /// A timer that could not be set again.
    #[error("timer {id} could not be set again (error {errno})")]
    TimerLost {
        /// The kernel's number of the timer.
        id: i32,
        /// The system's number for the error.
        errno: i32,
    },
    /// A signal that waited at the image and could not be queued again.
    #[error("pending signal {signal} could not be queued again (error {errno})")]
    SignalLost {
        /// The signal.
        signal: i32,
        /// The system's number for the error.
        errno: i32,
    },
    /// Memory that was locked and is not any more.
    #[error("{bytes} bytes of memory could not be locked again (error {errno})")]
    Unlocked {
        /// How much, in bytes.
        bytes: u64,
        /// The system's number for the error.
        errno: i32,
    },
    /// A child process that had ended, and for which the program had not waited.
    #[error(
        "child process {pid} had ended, and can't have its number again (error {errno}): a wait for this number \
         fails, and one for any child gives its status with another number"
    )]
    ChildLost {
        /// The number of the child.
        pid: i32,
        /// The system's number for the error.
        errno: i32,
    },
    /// A standard stream for which the manager sent no pipe.
    #[error("no new pipe came for descriptor {fd}: what is written there is lost")]
    StreamLost {
        /// 1 or 2.
        fd: i32,
    },
}

/// Why a restored process does not get memory back that it shared with another rank.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotShared {
    /// The rank that makes the memory again is not on this host.
    #[error(
        "it shared memory ({name}) with rank {rank} at the checkpoint, which is on another host now; \
         place both ranks on one host"
    )]
    Apart {
        /// The file of the memory.
        name: String,
        /// The rank.
        rank: u32,
    },
    /// The memory that the other rank has is not this.
    #[error(
        "it shared memory ({name}) with rank {rank} at the checkpoint, which has other memory now"
    )]
    Other {
        /// The file of the memory.
        name: String,
        /// The rank.
        rank: u32,
    },
    /// Ranks that had files of one name on several hosts are on one host now.
    #[error(
        "it would share memory ({name}) with rank {rank}, which had other memory of this name at the checkpoint; \
         place them on different hosts"
    )]
    Met {
        /// The file of the memory.
        name: String,
        /// The rank.
        rank: u32,
    },
    /// The rank does not map the file, so its descriptor leads to the earlier one.
    #[error(
        "memory of the checkpoint ({name}) was removed since and is made anew, but rank {rank} has the earlier file open"
    )]
    Open {
        /// The file of the memory.
        name: String,
        /// The rank.
        rank: u32,
    },
    /// The path leads to another file.
    #[error("memory of the checkpoint can't be mapped again: {name} is another file now")]
    Replaced {
        /// The file of the memory.
        name: String,
    },
    /// The file is gone, or shorter, and parts of it were not mapped.
    #[error(
        "memory of the checkpoint can't be mapped again: only a part of {name} is in the images, and it is not there any more"
    )]
    Incomplete {
        /// The file of the memory.
        name: String,
    },
    /// The program would find another length.
    #[error(
        "memory that ranks share ({name}) had {then} bytes at the checkpoint, and has {now} bytes now"
    )]
    Length {
        /// The file of the memory.
        name: String,
        /// Bytes at the checkpoint.
        then: u64,
        /// Bytes now.
        now: u64,
    },
    /// A rank did not return.
    #[error("rank {rank} has not put its memory back in time")]
    Late {
        /// The rank.
        rank: u32,
    },
    /// The system refused it.
    #[error("memory that ranks share ({name}) can't be mapped again: {}", std::io::Error::from_raw_os_error(*.errno))]
    System {
        /// The file of the memory.
        name: String,
        /// The system's number for the error.
        errno: i32,
    },
}
