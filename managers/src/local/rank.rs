//! One rank's descriptors: socket, pipes, pidfds.

use super::images::RankImage;
use super::rank_output::RankOutput;
use super::restore_process::Waking;
use super::{LocalManager, kind};
use crate::error::Result;
use crate::host::descendants;
use crate::net::local_link::LocalLink;
use crate::net::reactor::{Interest, Reactor, Token};
use crate::stdio::Stream;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg};
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use rejoin_ckpt::checkpoint_request;
use rejoin_managers_protocol::control::End;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_wire::ToManager;
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// The driver's state of one rank.
pub(super) struct RankIo {
    pub rank: Rank,
    pub incarnation: Incarnation,
    /// Number of its program.
    pub program: u32,
    /// The process that was started, until it is reaped.
    pub child: Option<(u32, OwnedFd)>,
    /// The process that registered, when it is another one, until it ends.
    pub caller: Option<(u32, OwnedFd)>,
    /// That process ended, and we wait for its parent to reap it, after which the kernel tells how.
    pub caller_unreaped: bool,
    pub socket: Option<LocalLink>,
    pub outputs: [Option<RankOutput>; 2],
    /// Descriptors that came over the socket and whose message is still to come.
    pub handed: VecDeque<OwnedFd>,
    /// The images from which it can be restored.
    pub images: Vec<RankImage>,
    /// A process that is being made from an image.
    pub waking: Option<Waking>,
    /// The present process has begun to end, and does nothing more.
    pub dying: bool,
    /// The present process has ended by its own will.
    pub exited: bool,
    /// The present process is to retire.
    pub retiring: bool,
    /// Before that counts as done it must have ended: it has file locks.
    pub must_end: bool,
    /// Those that have, until they are reaped.
    pub retired: Vec<(Incarnation, u32, OwnedFd)>,
    /// The process group of its first process.
    pub group: Option<u32>,
    /// An order that the present process does not take by signal now.
    unsent: Option<(Epoch, Incarnation)>,
    /// Observations of earlier tries to request a checkpoint by signal.
    seen: checkpoint_request::Seen,
}

/// Orders that could not be sent by signal are tried again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Again {
    at: Instant,
    pause: Duration,
}

/// From the first try to the second, and the longest time between two: a program blocks signals for
/// a moment, or for good.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(64)];

pub(super) fn token(kind: u8, incarnation: Incarnation, slot: usize) -> Token {
    Token {
        kind,
        incarnation: incarnation.0 & 0x00ff_ffff,
        index: slot as u32,
    }
}

impl RankIo {
    pub fn new(rank: Rank, program: u32) -> Self {
        RankIo {
            rank,
            incarnation: Incarnation(0),
            program,
            child: None,
            caller: None,
            caller_unreaped: false,
            socket: None,
            outputs: [None, None],
            handed: VecDeque::new(),
            images: Vec::new(),
            waking: None,
            dying: false,
            exited: false,
            retiring: false,
            must_end: false,
            retired: Vec::new(),
            group: None,
            unsent: None,
            seen: checkpoint_request::Seen::default(),
        }
    }

    pub fn child_pid(&self) -> Option<u32> {
        self.child.as_ref().map(|(pid, _)| *pid)
    }

    /// The event was queued for an earlier process of this rank.
    pub fn is_stale(&self, token: Token) -> bool {
        token.incarnation != self.incarnation.0 & 0x00ff_ffff
    }

    /// Queues a frame and writes as much as the socket takes.
    pub fn send(&mut self, frame: &[u8], slot: usize, reactor: &Reactor) -> Result<()> {
        let token = token(kind::SOCKET, self.incarnation, slot);
        if let Some(socket) = &mut self.socket {
            socket.queue_frame(frame);
            if socket.flush() {
                reactor.change(
                    socket,
                    token,
                    Interest {
                        read: true,
                        write: true,
                    },
                )?;
            }
        }
        Ok(())
    }

    /// Requests an image by signal too, because a rank that computes reads no message.
    pub fn order(&mut self, epoch: Epoch) {
        self.unsent = None;
        // Behind a wrapper it takes none, and a debugger would stop it at the signal.
        if self.caller.is_none()
            && let Some((pid, pidfd)) = &self.child
        {
            let signal = checkpoint_request::usual_signal();
            match checkpoint_request::send(
                pidfd.as_fd(),
                *pid as i32,
                signal,
                epoch.0,
                &mut self.seen,
            ) {
                Ok(true) => {}
                Ok(false) => self.unsent = Some((epoch, self.incarnation)),
                Err(error) => tracing::debug!(rank = self.rank.0, %error, "no order by signal"),
            }
        }
    }

    /// The same for an order that could not be sent, if it still counts.
    fn order_again(&mut self, kept: Option<Epoch>) {
        if let Some((epoch, of)) = self.unsent.take()
            && of == self.incarnation
            && !self.retiring
            && kept < Some(epoch)
            && self.images.iter().all(|image| image.epoch < epoch)
        {
            self.order(epoch);
        }
    }

    pub fn close_output(&mut self, stream: Stream, reactor: &Reactor) {
        if let Some(output) = self.outputs[stream as usize].take() {
            output.unwatch(reactor);
        }
    }
}

impl LocalManager {
    /// Until orders are tried again.
    pub(super) fn order_limit(&self) -> Option<Duration> {
        let again = self.orders?;
        Some(again.at.saturating_duration_since(Instant::now()))
    }

    /// Orders were given, of which some may have to be tried again.
    pub(super) fn ordered(&mut self) {
        if self.ranks.iter().any(|rank| rank.unsent.is_some()) {
            self.orders = Some(Again {
                at: Instant::now() + PAUSES[0],
                pause: PAUSES[0],
            });
        }
    }

    /// Tries orders again that could not be sent by signal.
    pub(super) fn order_again(&mut self) {
        let now = Instant::now();
        let Some(Again { pause, .. }) = self.orders.take_if(|again| again.at <= now) else {
            return;
        };
        let kept = self.kept;
        for rank in &mut self.ranks {
            rank.order_again(kept);
        }
        if self.ranks.iter().any(|rank| rank.unsent.is_some()) {
            let pause = (pause * 2).min(PAUSES[1]);
            self.orders = Some(Again {
                at: now + pause,
                pause,
            });
        }
    }

    /// Reads all messages of a rank that have arrived.
    pub(super) fn read_socket(&mut self, slot: usize) {
        let rank = &mut self.ranks[slot];
        let token = token(kind::SOCKET, rank.incarnation, slot);
        let Some(socket) = &mut rank.socket else {
            return;
        };
        if socket.backlog() > 0 && !socket.flush() {
            // Failing to change leaves a wake-up too many.
            let _ = self.reactor.change(&*socket, token, Interest::READ);
        }
        let mut open = true;
        let mut said = Vec::new();
        while open {
            match receive(socket) {
                Ok(Some((pid, handed))) => {
                    rank.handed.extend(handed);
                    while let Some(message) = socket.next::<ToManager>().transpose() {
                        open &= message.is_ok();
                        said.push((pid, message));
                        if !open {
                            break;
                        }
                    }
                }
                Ok(None) => break,
                Err(()) => open = false,
            }
        }
        for (pid, message) in said {
            let message = match message {
                Ok(message @ ToManager::Imaged { .. }) => {
                    self.take_image(slot, pid, message);
                    continue;
                }
                Ok(ToManager::Stored { number }) => {
                    self.has_stored(slot, number);
                    continue;
                }
                other => other,
            };
            self.told(slot, |rank, incarnation| match message {
                Ok(message) => LocalInput::Said(rank, incarnation, pid, message),
                Err(error) => LocalInput::Malformed(rank, incarnation, error.to_string()),
            });
        }
        if !open {
            if let Some(socket) = self.ranks[slot].socket.take() {
                self.reactor.remove(&socket);
            }
            self.told(slot, LocalInput::Closed);
        }
    }

    /// The started process ended: reads its last messages, then reaps it.
    pub(super) fn child_ended(&mut self, slot: usize) {
        self.read_failures();
        self.read_socket(slot);
        let Some(pid) = self.ranks[slot].child_pid() else {
            return;
        };
        let Some(status) = descendants::reap(pid) else {
            return;
        };
        if let Some((_, pidfd)) = self.ranks[slot].child.take() {
            self.reactor.remove(&pidfd);
        }
        let end = end_of(status);
        let rank = &mut self.ranks[slot];
        if rank.retiring && !rank.must_end && !std::mem::replace(&mut rank.dying, true) {
            // Killed together with the one for which the job rolls back.
            self.told(slot, LocalInput::ExitDetected);
        }
        if matches!(end, End::Exited(_)) {
            self.ranks[slot].exited = true;
            self.finish_ended(slot);
        }
        self.told(slot, |rank, incarnation| {
            LocalInput::ChildEnded(rank, incarnation, end)
        });
    }

    /// The process that called MPI_Init under a wrapper ended.
    pub(super) fn caller_ended(&mut self, slot: usize) {
        self.read_socket(slot);
        let rank = &mut self.ranks[slot];
        let token = token(kind::CALLER, rank.incarnation, slot);
        let Some((pid, pidfd)) = &rank.caller else {
            return;
        };
        // Its wrapper has ended before it, and this manager is its parent now.
        let end = exit_info(pidfd).or_else(|| descendants::reap(*pid).map(end_of));
        if end.is_none() && !rank.caller_unreaped {
            rank.caller_unreaped = true;
            // No interest: the next event is the hang-up when its parent has reaped it.
            let none = Interest {
                read: false,
                write: false,
            };
            let _ = self.reactor.change(pidfd, token, none);
        } else {
            self.reactor.remove(pidfd);
            rank.caller = None;
        }
        let end = end.unwrap_or(End::Unknown);
        self.told(slot, |rank, incarnation| {
            LocalInput::CallerEnded(rank, incarnation, end)
        });
    }
}

/// Most descriptors that come with one message.
const MOST_HANDED: usize = 3;

/// Receives once, with the sender's process id from the kernel and the descriptors that it sent.
/// `None`: nothing has arrived; `Err`: the end.
fn receive(socket: &mut LocalLink) -> std::result::Result<Option<(u32, Vec<OwnedFd>)>, ()> {
    use std::os::fd::AsFd;
    let fd = socket.as_fd().as_raw_fd();
    let mut bytes = [0u8; 4096];
    let mut control = nix::cmsg_space!(UnixCredentials, [RawFd; MOST_HANDED]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let (count, pid, handed) = match recvmsg::<()>(fd, &mut parts, Some(&mut control), flags) {
            Ok(message) => {
                let (mut pid, mut handed) = (0, Vec::new());
                for part in message.cmsgs().into_iter().flatten() {
                    match part {
                        ControlMessageOwned::ScmCredentials(who) => {
                            pid = u32::try_from(who.pid()).unwrap_or(0);
                        }
                        ControlMessageOwned::ScmRights(numbers) => {
                            // SAFETY: the kernel has just made these for us.
                            let own = |fd| unsafe { OwnedFd::from_raw_fd(fd) };
                            handed.extend(numbers.into_iter().map(own));
                        }
                        _ => {}
                    }
                }
                (message.bytes, pid, handed)
            }
            Err(Errno::EINTR) => continue,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(_) => return Err(()),
        };
        if count == 0 {
            return Err(());
        }
        socket.reader().push(&bytes[..count]);
        return Ok(Some((pid, handed)));
    }
}

/// A wait status, as the core knows ends.
pub(super) fn end_of(status: i32) -> End {
    match status {
        s if libc::WIFEXITED(s) => End::Exited(libc::WEXITSTATUS(s)),
        s if libc::WIFSIGNALED(s) => End::Signaled(libc::WTERMSIG(s)),
        _ => End::Unknown,
    }
}

/// How a process that is no child of ours ended, where the kernel tells (Linux 6.15 and later,
/// `PIDFD_GET_INFO` with `PIDFD_INFO_EXIT`).
fn exit_info(pidfd: &OwnedFd) -> Option<End> {
    const INFO_EXIT: u64 = 1 << 3;
    const EXIT_CODE_AT: usize = 60;
    const SIZE: usize = 64;
    let mut info = [0u8; SIZE];
    info[..8].copy_from_slice(&INFO_EXIT.to_ne_bytes());
    let request = nix::request_code_readwrite!(0xff, 11, SIZE);
    // SAFETY: the request's size is the buffer's, so the kernel writes within it.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), request, info.as_mut_ptr()) };
    let mask = u64::from_ne_bytes(info[..8].try_into().ok()?);
    if result != 0 || mask & INFO_EXIT == 0 {
        return None;
    }
    let status = i32::from_ne_bytes(info[EXIT_CODE_AT..].try_into().ok()?);
    if libc::WIFEXITED(status) {
        Some(End::Exited(libc::WEXITSTATUS(status)))
    } else {
        Some(End::Signaled(libc::WTERMSIG(status)))
    }
}
