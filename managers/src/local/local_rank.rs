//! The processes of one rank: the present one, with its socket, and those that have retired.

use super::images::SignalTarget;
use super::kind;
use super::rank_socket::{MOST_WAITING, receive};
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::Result;
use rejoin_managers_net::local_link::LocalLink;
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_protocol::manager_messages::End;
use rejoin_wire::ToManager;
use rejoin_wire::codec::CodecError;
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// A process with its pidfd.
type Process = (u32, OwnedFd);

/// A process that registered and is not the one that was started.
struct Caller {
    process: Process,
    /// The process ended, and its parent has to reap it. Then the kernel tells how it ended.
    is_unreaped: bool,
}

/// A message of a rank, or why it can't be understood, with the process that sent it.
pub type RankMessage = (u32, std::result::Result<ToManager, CodecError>);

/// How far the present process of a rank is on its way out, as far as this host can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessState {
    /// There is none, or it has retired.
    Absent,
    /// The process runs, or has ended and is about to be reaped.
    Running,
    /// The process has begun to end, and does nothing more.
    Exiting,
    /// The process is to retire: it gets SIGSTOP. `exiting`: it has begun to end, too.
    Stopping { exiting: bool },
    /// The process is to retire, and must have ended before that counts as done: it has file locks.
    Killed,
}

/// The processes of one rank.
pub struct LocalRank {
    rank: Rank,
    incarnation: Incarnation,
    /// The process that was started, until it is reaped.
    child: Option<Process>,
    /// The process that registered, when it is another one, until it ends.
    caller: Option<Caller>,
    socket: Option<LocalLink>,
    /// Descriptors that came over the socket and whose message is still to come.
    handed: VecDeque<OwnedFd>,
    state: ProcessState,
    /// Processes that have retired, until they are reaped.
    retired: Vec<(Incarnation, Process)>,
    /// The process group of its process.
    group: Option<u32>,
}

impl LocalRank {
    /// A rank without processes.
    pub fn new(rank: Rank) -> Self {
        LocalRank {
            rank,
            incarnation: Incarnation(0),
            child: None,
            caller: None,
            socket: None,
            handed: VecDeque::new(),
            state: ProcessState::Absent,
            retired: Vec::new(),
            group: None,
        }
    }

    /// The rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The incarnation of the present process, or of the last that failed to come.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The process of this incarnation does not come.
    pub fn failed_to_come(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
    }

    /// The rank has a new process, or (without one) one that has ended before it was known.
    pub fn begin(
        &mut self,
        slot: usize,
        incarnation: Incarnation,
        child: Option<Process>,
        socket: LocalLink,
        reactor: &Reactor,
    ) -> Result<()> {
        self.incarnation = incarnation;
        self.handed.clear();
        self.state = ProcessState::Running;
        let token = |kind| kind::of_process(kind, incarnation, slot);
        self.child = child;
        let socket = self.socket.insert(socket);
        if let Some((pid, pidfd)) = &self.child {
            // A process that is made of an image has the group of the image's process.
            self.group = Some(descendants::group_of(*pid).unwrap_or(*pid));
            reactor.add(pidfd, token(kind::CHILD), Interest::READ)?;
        }
        reactor.add(socket, token(kind::SOCKET), Interest::READ)?;
        Ok(())
    }

    /// Another process than the started one has called `MPI_Init`.
    pub fn registered(
        &mut self,
        slot: usize,
        incarnation: Incarnation,
        caller: Process,
        reactor: &Reactor,
    ) -> Result<()> {
        let token = kind::of_process(kind::CALLER, incarnation, slot);
        reactor.add(&caller.1, token, Interest::READ)?;
        self.caller = Some(Caller {
            process: caller,
            is_unreaped: false,
        });
        Ok(())
    }

    /// The process that was started, until it is reaped.
    pub fn child_pid(&self) -> Option<u32> {
        self.child.as_ref().map(|(pid, _)| *pid)
    }

    /// The process that registered, when it is another one, until it ends.
    pub fn caller_pid(&self) -> Option<u32> {
        self.caller.as_ref().map(|caller| caller.process.0)
    }

    /// The present processes.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.child_pid().into_iter().chain(self.caller_pid())
    }

    /// The process group of the rank, while its started process lives.
    pub fn group(&self) -> Option<u32> {
        self.group.filter(|_| self.child.is_some())
    }

    /// The event was queued for an earlier process of this rank.
    pub fn is_stale(&self, token: Token) -> bool {
        token.incarnation != self.incarnation.0
    }

    /// Queues a frame and writes as much as the socket takes.
    pub fn send(&mut self, frame: &[u8], slot: usize, reactor: &Reactor) -> Result<()> {
        let token = kind::of_process(kind::SOCKET, self.incarnation, slot);
        if let Some(socket) = &mut self.socket {
            socket.queue_frame(frame);
            if socket.flush() {
                reactor.change(socket, token, Interest::READ_AND_WRITE)?;
            }
        }
        Ok(())
    }

    /// The process that takes a checkpoint request by signal. Behind a wrapper there is none, and a
    /// debugger would stop it at the signal.
    pub fn signal_target(&self) -> Option<SignalTarget<'_>> {
        let (pid, pidfd) = self.child.as_ref().filter(|_| self.caller.is_none())?;
        Some(SignalTarget {
            pid: *pid,
            pidfd: pidfd.as_fd(),
            incarnation: self.incarnation,
        })
    }

    /// Reads all messages of the rank that have arrived. Returns them, and whether more can come.
    pub fn read(&mut self, slot: usize, reactor: &Reactor) -> Option<(Vec<RankMessage>, bool)> {
        let token = kind::of_process(kind::SOCKET, self.incarnation, slot);
        let socket = self.socket.as_mut()?;
        if socket.backlog() > 0 && !socket.flush() {
            // Failing to change leaves a wake-up too many.
            let _ = reactor.change(&*socket, token, Interest::READ);
        }
        let mut open = true;
        let mut said = Vec::new();
        while open {
            match receive(socket) {
                Ok(Some((pid, handed))) => {
                    self.handed.extend(handed);
                    if self.handed.len() > MOST_WAITING {
                        tracing::warn!(pid, "a rank handed over descriptors without messages");
                        open = false;
                        break;
                    }
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
        Some((said, open))
    }

    /// The next descriptor that came with a message.
    pub fn take_handed(&mut self) -> Option<OwnedFd> {
        self.handed.pop_front()
    }

    /// Closes the socket.
    pub fn close_socket(&mut self, reactor: &Reactor) {
        if let Some(socket) = self.socket.take() {
            reactor.remove(&socket);
        }
    }

    /// The present process has begun to end; whether that is news for the core: it is not of a
    /// process that was killed for its locks.
    pub fn exit_begins(&mut self) -> bool {
        self.state = match self.state {
            ProcessState::Absent | ProcessState::Killed => return false,
            ProcessState::Running | ProcessState::Exiting => ProcessState::Exiting,
            ProcessState::Stopping { .. } => ProcessState::Stopping { exiting: true },
        };
        true
    }

    /// The started process was reaped. Returns whether it was killed together with the one for
    /// which the job rolls back, and not noticed yet.
    pub fn child_reaped(&mut self, reactor: &Reactor) -> bool {
        if let Some((_, pidfd)) = self.child.take() {
            reactor.remove(&pidfd);
        }
        let unnoticed = self.state == ProcessState::Stopping { exiting: false };
        if unnoticed {
            self.state = ProcessState::Stopping { exiting: true };
        }
        unnoticed
    }

    /// The process that registered has ended. Returns how, as far as that is known.
    pub fn caller_ended(&mut self, slot: usize, reactor: &Reactor) -> Option<End> {
        let token = kind::of_process(kind::CALLER, self.incarnation, slot);
        let caller = self.caller.as_mut()?;
        let (pid, pidfd) = &caller.process;
        // Its wrapper has ended before it, and this manager is its parent now.
        let end = exit_info(pidfd).or_else(|| descendants::reap(*pid).map(end_of));
        if end.is_none() && !caller.is_unreaped {
            caller.is_unreaped = true;
            // No interest: the next event is the hang-up when its parent has reaped it.
            let _ = reactor.change(pidfd, token, Interest::NONE);
        } else {
            reactor.remove(pidfd);
            self.caller = None;
        }
        Some(end.unwrap_or(End::Unknown))
    }

    /// Whether the present process is to retire.
    pub fn is_retiring(&self) -> bool {
        matches!(
            self.state,
            ProcessState::Stopping { .. } | ProcessState::Killed
        )
    }

    /// Whether it is to retire, and must end before its successor begins.
    pub fn must_end(&self) -> bool {
        self.state == ProcessState::Killed
    }

    /// Has the present process stop, so that it can do nothing more, or (`must_end`) end.
    pub fn retire(&mut self, must_end: bool) {
        let exiting = matches!(
            self.state,
            ProcessState::Exiting | ProcessState::Stopping { exiting: true }
        );
        // Nothing can catch these signals or put them off. A stopped process keeps its memory,
        // which takes long to take down, and its file locks.
        let signal;
        (self.state, signal) = match must_end {
            true => (ProcessState::Killed, libc::SIGKILL),
            false => (ProcessState::Stopping { exiting }, libc::SIGSTOP),
        };
        self.pids().for_each(|pid| descendants::send(pid, signal));
    }

    /// Whether the retiring process has stopped, or ended if it must. One that has file locks is
    /// killed for them.
    pub fn is_suspended(&mut self) -> bool {
        let exiting = match self.state {
            ProcessState::Killed => return self.pids().all(descendants::has_ended),
            ProcessState::Stopping { exiting } => exiting,
            ProcessState::Absent | ProcessState::Running | ProcessState::Exiting => return false,
        };
        if !self.pids().all(|pid| exiting || descendants::is_still(pid)) {
            return false;
        }
        // Even one that has begun to end keeps its locks until its memory is gone.
        let locked = self.pids().any(descendants::has_locks);
        if locked {
            self.retire(true);
        }
        !locked
    }

    /// The retiring process has retired: its messages do not count any more. Returns whether it was
    /// killed together with the one for which the job rolls back, and not noticed yet.
    pub fn retired(&mut self, reactor: &Reactor) -> bool {
        let before = std::mem::replace(&mut self.state, ProcessState::Absent);
        let unnoticed = before == ProcessState::Stopping { exiting: false }
            && self.child_pid().is_some_and(descendants::has_ended);
        self.close_socket(reactor);
        self.handed.clear();
        let caller = self.caller.take().map(|caller| caller.process);
        for process in self.child.take().into_iter().chain(caller) {
            reactor.remove(&process.1);
            self.retired.push((self.incarnation, process));
        }
        unnoticed
    }

    /// Processes that have retired or are to.
    pub fn retired_pids(&self) -> impl Iterator<Item = u32> {
        let retiring = self.is_retiring();
        let retired = self.retired.iter().map(|(_, (pid, _))| *pid);
        retired.chain(self.pids().filter(move |_| retiring))
    }

    /// Ends processes that have retired: of this incarnation, or (`None`) all.
    pub fn discard(&self, incarnation: Option<Incarnation>) {
        for (of, (pid, _)) in &self.retired {
            if incarnation.is_none_or(|incarnation| incarnation == *of) {
                descendants::send(*pid, libc::SIGKILL);
            }
        }
    }

    /// A process was reaped. Returns its incarnation, if it was one that had retired.
    pub fn reaped(&mut self, pid: u32) -> Option<Incarnation> {
        let at = self.retired.iter().position(|(_, (of, _))| *of == pid)?;
        Some(self.retired.swap_remove(at).0)
    }
}

/// A wait status, as the core knows ends.
pub fn end_of(status: i32) -> End {
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

#[cfg(test)]
mod tests;
