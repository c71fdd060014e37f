//! The log of determinants of this rank's device, and the sends that it counts.

use super::device_interface::Adi;
use super::{Caller, Dev, Envelope, Inner, Rank, SendAttempt};
use crate::error::{Error, ErrorClass, Result};
use rejoin_device::Determinants;
use rejoin_device::determinants::{DeterminantError, SendTurn};

impl Dev {
    /// Whether the device has a log of determinants: then each send needs a check from now on.
    pub fn check_log(&mut self) -> bool {
        let logs = self.determinants().is_some();
        self.guarded |= logs;
        logs
    }

    /// The log of determinants; `None` outside logging modes.
    pub fn determinants(&mut self) -> Option<&mut Determinants> {
        if let Some(recorder) = &mut self.recorder {
            return Some(recorder.log());
        }
        on!(self.determinants())
    }

    /// Records and repeats determinants by this log from now on.
    #[cfg(test)]
    pub fn set_determinants(&mut self, log: Determinants) {
        on!(self.set_determinants(log));
    }

    /// A replay can't go on, for this reason: closes the device.
    #[cold]
    pub fn replay_failed(&mut self, error: &DeterminantError) -> Error {
        self.differs_in_replay(&error.to_string());
        let text = format!("rank {}: determinants: {error}", self.rank());
        self.fail(Error::new(ErrorClass::Intern, text))
    }

    /// In the replay of a recording this ends the process: the program does something else.
    pub fn differs_in_replay(&mut self, problem: &str) {
        on!(self.differs(problem));
    }

    /// The task that is polled from here on; returns the one before.
    pub fn set_task(&mut self, task: Option<u64>) -> Option<u64> {
        on!(self.set_task(task));
        std::mem::replace(&mut self.task, task)
    }

    /// The task that is being polled, in logging modes.
    pub fn task(&self) -> Option<u64> {
        self.task
    }

    /// Who may issue the next send.
    pub fn send_turn(&mut self) -> SendTurn {
        self.determinants()
            .map_or(SendTurn::Anyone, |log| log.send_turn())
    }

    /// Before a message is given to the device. In logging modes it is counted, because the order
    /// of sends is a nondeterministic answer.
    ///
    /// # Errors
    /// The interface is closed. In a replay: it is another one's turn.
    #[inline]
    pub(super) fn begin_send(&mut self) -> Result<()> {
        match self.guarded {
            false => Ok(()),
            true => self.count_send(),
        }
    }

    /// Sends as [`Dev::try_send`], where each send is counted. The send of a task is not tried.
    ///
    /// # Safety
    /// The conditions of [`Dev::try_send`].
    #[inline]
    pub unsafe fn try_counted_send(
        &mut self,
        to: Rank,
        env: &Envelope,
        body: (*const u8, usize),
        caller: Caller,
    ) -> SendAttempt {
        if self.failed.is_some() || self.task.is_some() || self.recorder.is_some() {
            return SendAttempt::Untried;
        }
        // SAFETY: the caller's promise.
        let tried = unsafe { on!(self.try_counted_send(to, env, body, caller)) };
        self.attempted(to, tried)
    }

    #[cold]
    fn count_send(&mut self) -> Result<()> {
        self.alive()?;
        let task = self.task;
        let Some(log) = self.determinants() else {
            return Ok(());
        };
        let counted = log.sent(task);
        counted.map_err(|e| self.replay_failed(&e))
    }
}
