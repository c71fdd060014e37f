//! The rank's side of the channel to its local manager.
//!
//! The descriptor is inherited and named by `REJOIN_MANAGER_FD`. The job's key comes through it and
//! through nothing else. When the manager is gone the job is over, so the process ends at once.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockType, SockaddrLike, getsockname, getsockopt,
    sendmsg, sockopt,
};
use rejoin_channel_table::{
    AddressBook, BusinessCard, Epoch, Generation, Identity, Incarnation, JobId, JobKey, Rank,
};
use rejoin_wire::ProcessMap;
use rejoin_wire::codec::{self, FrameReader, MANAGER_LIMIT, RANK_LIMIT};
use rejoin_wire::{FromManager, Limits, MANAGER_FD, RankOptions, ToManager, VERSION, Welcome};

use super::key::{self, KeyPage};
use crate::descriptors;
use crate::error::{Error, Result};
use crate::os::{host_name, random};

/// The manager's Welcome waits in the socket before the process starts, so this is generous.
const WELCOME_LIMIT: Duration = Duration::from_secs(60);
/// How long the manager may leave a message of ours unread.
const WRITE_LIMIT: Duration = Duration::from_secs(60);

/// The channel to the local manager.
pub struct Agent {
    socket: UnixStream,
    reader: FrameReader,
    rank: Rank,
}

/// Takes the descriptor that the launcher left; `None` for a process started alone.
///
/// # Errors
/// [`Error::Environment`] when the variable names no open stream socket of the local kind.
pub fn inherited() -> Result<Option<OwnedFd>> {
    let Some(value) = std::env::var_os(MANAGER_FD) else {
        return Ok(None);
    };
    let value = value.to_string_lossy().into_owned();
    let refuse = |problem: String| Error::Environment {
        variable: "REJOIN_MANAGER_FD",
        value: value.clone(),
        problem,
    };
    let number: i32 = value
        .parse()
        .ok()
        .filter(|number| *number > 2)
        .ok_or_else(|| refuse("the number of an inherited descriptor is needed".to_owned()))?;
    // SAFETY: F_GETFD touches no memory and is defined for any number.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(refuse(
            "no such descriptor is open; is this a child of a rank?".to_owned(),
        ));
    }
    // SAFETY: the descriptor is open, and the launcher made it for this library alone.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    if let Err(problem) = check_local_stream(descriptor.as_fd()) {
        // It belongs to someone else: leave it open.
        std::mem::forget(descriptor);
        return Err(refuse(problem));
    }
    Ok(Some(descriptor))
}

fn check_local_stream(descriptor: BorrowedFd<'_>) -> std::result::Result<(), String> {
    let kind = getsockopt(&descriptor, sockopt::SockType)
        .map_err(|errno| format!("it is no socket ({errno})"))?;
    let raw = descriptor.as_raw_fd();
    let family = getsockname::<nix::sys::socket::SockaddrStorage>(raw)
        .ok()
        .and_then(|address| address.family());
    if kind != SockType::Stream || family != Some(AddressFamily::Unix) {
        return Err("it is no stream socket of the local kind".to_owned());
    }
    Ok(())
}

/// Has the kernel kill this process when the local manager ends, if that is its parent. The end of
/// a wrapper that started this process is no reason to end: `setsid` and shells leave ranks behind.
pub fn die_with_manager(channel: BorrowedFd<'_>) {
    let manager = getsockopt(&channel, sockopt::PeerCredentials).map(|peer| peer.pid());
    if manager == Ok(nix::unistd::getppid().as_raw()) {
        // A kernel that refuses leaves the end of the manager's channel as the notice.
        let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    }
}

/// The manager's data when all ranks have registered.
pub(crate) struct JobStart {
    /// Incarnation of each rank, and the cards that are known.
    pub book: AddressBook,
    /// The epoch of the image to be taken once `MPI_Init` is through.
    pub image: Option<Epoch>,
}

impl Agent {
    /// Takes over the manager's socket and waits for its Welcome.
    ///
    /// # Errors
    /// [`Error::Manager`] when it does not speak, or speaks another version.
    pub(crate) fn new(socket: OwnedFd) -> Result<(Self, Welcome, KeyPage)> {
        let socket = UnixStream::from(descriptors::raise(socket)?);
        socket
            .set_nonblocking(true)
            .map_err(|error| Error::system("prepare the manager's socket", error))?;
        let reader = FrameReader::new(MANAGER_LIMIT);
        let mut agent = Self {
            socket,
            reader,
            rank: Rank(0),
        };
        let mut welcome = match agent.wait_for(Some(WELCOME_LIMIT))? {
            Some(FromManager::Welcome(welcome)) => welcome,
            Some(_) => return Err(agent.problem("it did not begin with a welcome")),
            None => return Err(agent.problem("no welcome within 60 s")),
        };
        // Out of sight before anything else: no copy of the key may stay behind.
        let key = KeyPage::take(&mut welcome.key)?;
        agent.reader.wipe_taken();
        key::wipe_stack();
        agent.rank = welcome.identity.rank;
        if welcome.version != VERSION {
            return Err(agent.problem(format!(
                "it speaks version {}, this library version {VERSION}: mpirun and libmpi_abi.so \
                 are of different installations",
                welcome.version
            )));
        }
        if welcome.identity.rank.0 >= welcome.size {
            return Err(agent.problem(format!("a rank beyond the job's size {}", welcome.size)));
        }
        Ok((agent, *welcome, key))
    }

    /// Drops a number that is no longer this library's, without a system call.
    pub(crate) fn forget(self) {
        let _ = self.socket.into_raw_fd();
    }

    /// Reports this process and the sizes it goes by, and waits until every rank of the job has
    /// done so. There is no bound: a rank may begin MPI hours after another, and the manager's end
    /// ends the wait. With the table comes the epoch of the image to be taken once `MPI_Init` is
    /// through.
    ///
    /// # Errors
    /// [`Error::Manager`] when the table does not fit the job.
    pub(crate) fn register(
        &mut self,
        identity: &Identity,
        size: u32,
        card: &BusinessCard,
        limits: Limits,
    ) -> Result<JobStart> {
        self.send(&ToManager::Register {
            rank: identity.rank,
            incarnation: identity.incarnation,
            pid: std::process::id(),
            card: card.clone(),
            version: VERSION,
            limits,
        })?;
        loop {
            match self.wait_for(None)? {
                Some(
                    FromManager::Start { generation, .. } | FromManager::Begin { generation, .. },
                ) if generation != identity.generation => {
                    let (theirs, ours) = (generation.0, identity.generation.0);
                    let problem = format!("a start of generation {theirs}, not {ours}");
                    return Err(self.problem(problem));
                }
                Some(FromManager::Start { table, image, .. }) if table.len() == size as usize => {
                    let book = AddressBook::new(table);
                    return Ok(JobStart { book, image });
                }
                Some(FromManager::Start { table, .. }) => {
                    let count = table.len();
                    return Err(self.problem(format!("a table of {count} ranks, not {size}")));
                }
                Some(FromManager::Begin {
                    process_map,
                    cards,
                    image,
                    ..
                }) => {
                    let book = self.book(process_map, cards, size)?;
                    return Ok(JobStart { book, image });
                }
                Some(FromManager::Stop { .. }) => stop(),
                Some(_) => return Err(self.problem("it spoke out of turn before the start")),
                None => {}
            }
        }
    }

    /// The address book at the start of a job whose ranks look cards up.
    fn book(
        &self,
        process_map: ProcessMap,
        cards: Vec<(Rank, BusinessCard)>,
        size: u32,
    ) -> Result<AddressBook> {
        let book = process_map.book(size);
        let mut book = book.map_err(|error| self.problem(error.to_string()))?;
        for (rank, card) in cards {
            let incarnation = book.incarnation(rank).unwrap_or_default();
            book.update(rank, incarnation, card)
                .map_err(|error| self.problem(error.to_string()))?;
        }
        Ok(book)
    }

    /// Sends a message; waits, within bounds, while the socket is full.
    ///
    /// # Errors
    /// [`Error::Manager`] when the manager does not read.
    pub fn send(&mut self, message: &ToManager) -> Result<()> {
        self.send_with_descriptors(message, &[])
    }

    /// Sends a message to which descriptors belong; they leave with its first byte.
    ///
    /// # Errors
    /// The errors are those of [`Agent::send`].
    pub(crate) fn send_with_descriptors(
        &mut self,
        message: &ToManager,
        descriptors: &[RawFd],
    ) -> Result<()> {
        let mut bytes = Vec::new();
        codec::encode(message, RANK_LIMIT, &mut bytes)
            .map_err(|error| self.problem(error.to_string()))?;
        let start = Instant::now();
        let rights = [ControlMessage::ScmRights(descriptors)];
        let mut rights = &rights[..usize::from(!descriptors.is_empty())];
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let fd = self.socket.as_raw_fd();
            let pieces = [IoSlice::new(rest)];
            match sendmsg::<()>(fd, &pieces, rights, MsgFlags::MSG_NOSIGNAL, None) {
                Ok(count) => {
                    rest = &rest[count..];
                    rights = &[];
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    if start.elapsed() > WRITE_LIMIT {
                        return Err(self.problem("it takes no messages"));
                    }
                    self.poll(PollFlags::POLLOUT, Some(Duration::from_millis(100)));
                }
                Err(_) => self.gone(),
            }
        }
        Ok(())
    }

    /// The next message, when one has come. Ends the process when the manager is gone.
    ///
    /// # Errors
    /// [`Error::Manager`] for a malformed message.
    pub fn receive(&mut self) -> Result<Option<FromManager>> {
        let mut bytes = [0; 4096];
        loop {
            match self.reader.next::<FromManager>() {
                Ok(Some(message)) => return Ok(Some(message)),
                Ok(None) => {}
                Err(error) => return Err(self.problem(error.to_string())),
            }
            match self.socket.read(&mut bytes) {
                Ok(0) => self.gone(),
                Ok(count) => self.reader.push(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(_) => self.gone(),
            }
        }
    }

    /// Waits, at most for `limit`, for the manager's stop or its end.
    pub fn await_end(&mut self, limit: Duration) {
        let start = Instant::now();
        let mut bytes = [0; 4096];
        while start.elapsed() < limit {
            match self.reader.next::<FromManager>() {
                Ok(Some(FromManager::Stop { .. })) | Err(_) => return,
                Ok(Some(_)) => continue,
                Ok(None) => {}
            }
            match self.socket.read(&mut bytes) {
                Ok(0) => return,
                Ok(count) => self.reader.push(&bytes[..count]),
                Err(_) => self.poll(PollFlags::POLLIN, Some(Duration::from_millis(100))),
            }
        }
    }

    /// Waits until there is something to read, for this time at most.
    pub(crate) fn await_message(&self, limit: Duration) {
        self.poll(PollFlags::POLLIN, Some(limit));
    }

    /// The socket, to be watched.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn wait_for(&mut self, limit: Option<Duration>) -> Result<Option<FromManager>> {
        let start = Instant::now();
        loop {
            if let Some(message) = self.receive()? {
                return Ok(Some(message));
            }
            let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            self.poll(PollFlags::POLLIN, left);
        }
    }

    fn poll(&self, flags: PollFlags, limit: Option<Duration>) {
        let timeout = limit.map_or(PollTimeout::NONE, |limit| {
            PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX)
        });
        // Interrupted or not, the caller looks again.
        let _ = poll(&mut [PollFd::new(self.descriptor(), flags)], timeout);
    }

    fn problem(&self, problem: impl Into<String>) -> Error {
        Error::Manager {
            rank: self.rank,
            problem: problem.into(),
        }
    }

    /// The manager is gone, and with it the job.
    fn gone(&self) -> ! {
        let line = format!(
            "rejoin: rank {}: the local manager is gone; ending\n",
            self.rank.0
        );
        let _ = io::stderr().write_all(line.as_bytes());
        end(1)
    }
}

/// Ends the process on the manager's order; the manager has told the user why.
pub fn stop() -> ! {
    end(1)
}

/// Ends the process after `MPI_Abort` with this code; one whose low byte is 0 becomes 1.
pub fn end_aborted(code: i32) -> ! {
    let low = code & 0xff;
    end(if low == 0 { 1 } else { low })
}

/// Ends the process without running anything of the program's.
pub fn end(code: i32) -> ! {
    // SAFETY: _exit is always sound; nothing runs after it.
    unsafe { libc::_exit(code) }
}

/// The Welcome that a process started alone gives itself: the only rank of its own job.
///
/// # Errors
/// When the system gives no random bytes.
pub fn singleton() -> Result<Welcome> {
    let mut key = [0; 32];
    random(&mut key)?;
    let mut job = [0; 8];
    random(&mut job)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Welcome {
        version: VERSION,
        identity: Identity {
            job: JobId(u64::from_le_bytes(job)),
            rank: Rank(0),
            generation: Generation(0),
            incarnation: Incarnation(0),
        },
        size: 1,
        key: JobKey::new(key),
        appnum: None,
        options: RankOptions {
            host: host_name(),
            local_size: 1,
            cores: u32::try_from(cores).unwrap_or(1),
            ..RankOptions::default()
        },
    })
}
