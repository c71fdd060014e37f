//! What a local manager and the supervisor of its host say to each other about the host's lease.
//!
//! The manager sends each new deadline. At the deadline the supervisor first reads what was sent,
//! and then suspends all processes below the manager. So the manager need not wait for an answer
//! if the old deadline had not come when it had sent the new one.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use rejoin_managers_host::error::{Context, Error, Result};
use rejoin_managers_host::host_clocks;
use rejoin_managers_protocol::manager_messages::Time;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The deadline of a message that ends the lease.
const ENDED: Time = Time(0);

/// Milliseconds that an answer may take, before the manager suspends its ranks itself.
const SUSPENDED: u16 = 50;

/// Seconds that an answer may take, while ranks wait to continue.
const CONTINUED: u32 = 10;

/// Processes that a message names, at most: retired ones whose memory is still to be freed.
const MOST_EXCEPTED: usize = 1 << 14;

/// Length of a message with so many processes.
const fn length(processes: usize) -> usize {
    size_of::<u64>() + processes * size_of::<u32>()
}

/// Both ends.
///
/// # Errors
/// The system refuses.
pub fn pair() -> Result<(LeaseSender, LeaseReceiver)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)
        .context("make the link to the supervisor")?;
    let ours = LeaseSender {
        socket: ours,
        until: ENDED,
    };
    Ok((ours, LeaseReceiver { socket: theirs }))
}

/// The local manager's end.
#[derive(Debug)]
pub struct LeaseSender {
    socket: OwnedFd,
    /// The last deadline that was sent.
    until: Time,
}

impl LeaseSender {
    /// Has processes run until then, and those continue that are suspended, except these. When this
    /// returns, they have continued.
    ///
    /// # Errors
    /// The supervisor has ended, or does not answer.
    pub fn extend(&mut self, until: Time, except: &[u32]) -> Result<()> {
        let before = std::mem::replace(&mut self.until, until);
        self.send(until, except)?;
        if host_clocks::now() < before {
            return Ok(());
        }
        // In steps: a host that was frozen meanwhile has missed one.
        for _ in 0..CONTINUED {
            if self.is_answered(1000)? {
                return Ok(());
            }
        }
        Err(Error::Usage("the supervisor does not answer".into()))
    }

    /// Has processes suspended. Returns whether they are.
    pub fn suspend(&mut self) -> bool {
        self.until = ENDED;
        let sent = self.send(ENDED, &[]);
        sent.is_ok_and(|()| self.is_answered(SUSPENDED).unwrap_or(false))
    }

    /// Reads answers that nobody waits for. Returns whether the supervisor is still there.
    pub fn is_open(&mut self) -> bool {
        loop {
            match self.answer() {
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn send(&self, until: Time, except: &[u32]) -> Result<()> {
        let mut message = Vec::with_capacity(length(except.len()));
        message.extend(until.0.to_ne_bytes());
        message.extend(except.iter().flat_map(|pid| pid.to_ne_bytes()));
        let flags = MsgFlags::MSG_NOSIGNAL;
        send(self.socket.as_raw_fd(), &message, flags).context("tell the supervisor")?;
        Ok(())
    }

    /// Waits for the answer to the last message.
    fn is_answered(&self, millis: u16) -> Result<bool> {
        loop {
            let mut waits = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waits, PollTimeout::from(millis)) {
                Ok(0) => return Ok(false),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("wait for the supervisor"),
            }
            if self.answer()? == Some(self.until) {
                return Ok(true);
            }
        }
    }

    /// The next answer, if there is one.
    fn answer(&self) -> Result<Option<Time>> {
        let mut answer = [0; size_of::<u64>()];
        let got = received(&self.socket, &mut answer)?;
        Ok(got.map(|_| Time(u64::from_ne_bytes(answer))))
    }
}

impl AsFd for LeaseSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A message of the local manager.
#[derive(Debug, PartialEq, Eq)]
pub struct LeaseMessage {
    /// The deadline; `None`: there is no lease.
    pub until: Option<Time>,
    /// The processes that do not continue.
    pub except: Vec<u32>,
}

/// The supervisor's end.
#[derive(Debug)]
pub struct LeaseReceiver {
    socket: OwnedFd,
}

impl LeaseReceiver {
    /// The next message, if there is one.
    ///
    /// # Errors
    /// The manager has closed its end.
    pub fn next(&self) -> Result<Option<LeaseMessage>> {
        let mut message = vec![0; length(MOST_EXCEPTED)];
        let Some(got) = received(&self.socket, &mut message)? else {
            return Ok(None);
        };
        let (until, except) = message[..got].split_at(size_of::<u64>());
        let mut word = [0; size_of::<u64>()];
        word.copy_from_slice(until);
        let until = Some(Time(u64::from_ne_bytes(word))).filter(|until| *until != ENDED);
        let pids = except.chunks_exact(size_of::<u32>());
        let pid = |bytes: &[u8]| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        Ok(Some(LeaseMessage {
            until,
            except: pids.map(pid).collect(),
        }))
    }

    /// What the message asks for is done.
    pub fn answer(&self, message: &LeaseMessage) {
        let until = message.until.unwrap_or(ENDED);
        // If the manager reads no answers, it waits for none.
        let flags = MsgFlags::MSG_NOSIGNAL;
        let _ = send(self.socket.as_raw_fd(), &until.0.to_ne_bytes(), flags);
    }
}

impl AsFd for LeaseReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Length of the next message in a socket; `None`: there is none yet.
fn received(socket: &OwnedFd, message: &mut [u8]) -> Result<Option<usize>> {
    match recv(socket.as_raw_fd(), message, MsgFlags::empty()) {
        Ok(0..8) => Err(Errno::EPIPE).context("read the supervisor's link"),
        Ok(got) => Ok(Some(got)),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
        Err(error) => Err(error).context("read the supervisor's link"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(seconds: u64) -> Time {
        host_clocks::now().plus_millis(seconds * 1000)
    }

    fn next(supervisor: &LeaseReceiver) -> LeaseMessage {
        loop {
            if let Some(message) = supervisor.next().expect("an open link") {
                return message;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_manager_waits_for_an_answer_only_if_its_ranks_may_be_suspended() {
        let (mut manager, supervisor) = pair().expect("both ends");
        let (first, second) = (later(1000), later(2000));
        std::thread::scope(|scope| {
            // Nothing has run before, so nothing may begin before the supervisor knows.
            let waits = scope.spawn(|| manager.extend(first, &[7, 9]));
            let message = next(&supervisor);
            assert_eq!(
                (message.until, &message.except[..]),
                (Some(first), &[7, 9][..])
            );
            assert!(!waits.is_finished());
            supervisor.answer(&message);
            waits.join().expect("its thread").expect("an answer");
        });
        manager.extend(second, &[]).expect("no wait");
        assert_eq!(next(&supervisor).until, Some(second));
        // Nobody answers.
        assert!(!manager.suspend());
        assert_eq!(next(&supervisor).until, None);
    }

    #[test]
    fn each_end_notices_that_the_other_is_gone() {
        let (mut manager, supervisor) = pair().expect("both ends");
        assert!(manager.is_open());
        let message = LeaseMessage {
            until: None,
            except: Vec::new(),
        };
        supervisor.answer(&message);
        assert!(manager.is_open(), "an answer that nobody waits for");
        drop(supervisor);
        assert!(!manager.is_open() && manager.extend(later(1), &[]).is_err());
        let (manager, supervisor) = pair().expect("both ends");
        drop(manager);
        assert!(supervisor.next().is_err());
    }
}
