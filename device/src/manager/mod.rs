//! The link to the local manager, and the data from it.

mod agent;
mod key;

pub(crate) use agent::{Agent, JobStart, die_with_manager, end, inherited, singleton, stop};
pub(crate) use key::KeyPage;

use std::os::fd::RawFd;
use std::time::Duration;

use rejoin_channel_table::BusinessCard;
use rejoin_channel_table::ids::{Identity, JobKey, Rank};
use rejoin_wire::{FromManager, Limits, ToManager};

use crate::descriptors::Old;
use crate::error::Result;

/// How long an aborting rank waits for its manager to end it.
const ABORT_PATIENCE: Duration = Duration::from_secs(5);

/// The channel to the local manager, which a rank that is alone in its job has none of.
pub(crate) struct ManagerChannel {
    agent: Option<Agent>,
    /// The job's key, which the manager told.
    key: KeyPage,
    /// Messages that may end a wait.
    messages: u64,
    /// This rank has come to its end, and leaves with all others.
    leaving: bool,
    /// All ranks have.
    all_finalized: bool,
    /// The user knows that shared memory with some rank has failed.
    told_fallback: bool,
}

impl ManagerChannel {
    /// The state when only the key is known.
    pub(crate) fn new(agent: Option<Agent>, key: KeyPage) -> Self {
        Self {
            agent,
            key,
            messages: 0,
            leaving: false,
            all_finalized: false,
            told_fallback: false,
        }
    }

    /// Continues over another channel.
    pub(crate) fn start_over(&mut self, agent: Agent, key: KeyPage, old: Old) {
        let before = self.agent.replace(agent);
        match old {
            Old::Close => drop(before),
            Old::Forget => before.into_iter().for_each(Agent::forget),
        }
        self.key = key;
        self.all_finalized = false;
        self.told_fallback = false;
    }

    /// The job's key.
    pub(crate) fn key(&self) -> &JobKey {
        self.key.get()
    }

    /// Whether there is a manager.
    pub(crate) fn is_there(&self) -> bool {
        self.agent.is_some()
    }

    /// Registers this process, and waits until every rank of the job has done so; `None` without a
    /// manager. A rank that was about to leave still is.
    ///
    /// # Errors
    /// The manager's answer does not fit the job.
    pub(crate) fn register(
        &mut self,
        identity: &Identity,
        size: u32,
        card: &BusinessCard,
        limits: Limits,
    ) -> Result<Option<JobStart>> {
        let Some(agent) = &mut self.agent else {
            return Ok(None);
        };
        let start = agent.register(identity, size, card, limits)?;
        if self.leaving {
            agent.tell(&ToManager::Finalizing)?;
        }
        Ok(Some(start))
    }

    /// Sends a message; nothing without a manager.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn tell(&mut self, message: &ToManager) -> Result<()> {
        match &mut self.agent {
            Some(agent) => agent.tell(message),
            None => Ok(()),
        }
    }

    /// Sends a message to which descriptors belong.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn tell_with(&mut self, message: &ToManager, descriptors: &[RawFd]) -> Result<()> {
        match &mut self.agent {
            Some(agent) => agent.tell_with(message, descriptors),
            None => Ok(()),
        }
    }

    /// Sends a message for the user. An `important` one is always shown, others on request.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn note(&mut self, important: bool, text: String) -> Result<()> {
        self.tell(&ToManager::Note { important, text })
    }

    /// Says that this rank has to do without shared memory, if there is a reason.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn tell_lacking(&mut self, why: Option<String>) -> Result<()> {
        let Some(why) = why else {
            return Ok(());
        };
        let text = format!("TCP instead of shared memory with the ranks of its host: {why}");
        self.note(true, text)
    }

    /// Says, once, that messages to `rank` go over TCP though both sides wanted shared memory.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn tell_fallback(&mut self, rank: Rank, why: &str) -> Result<()> {
        if std::mem::replace(&mut self.told_fallback, true) {
            return Ok(());
        }
        let text = format!("TCP instead of shared memory with rank {rank}: {why}");
        self.note(true, text)
    }

    /// The next message, when one has come.
    ///
    /// # Errors
    /// It cannot be understood.
    pub(crate) fn receive(&mut self) -> Result<Option<FromManager>> {
        match &mut self.agent {
            Some(agent) => agent.receive(),
            None => Ok(None),
        }
    }

    /// A message has come that may end a wait.
    pub(crate) fn count_message(&mut self) {
        self.messages += 1;
    }

    /// Messages that may end a wait, so far.
    #[inline(always)]
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// All that this rank has sent is acknowledged: it leaves when all others do.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
    }

    /// Whether this rank leaves when all others do.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// All ranks of this generation leave.
    pub(crate) fn finalized(&mut self) {
        self.all_finalized = true;
    }

    /// Whether all ranks leave; a rank that is alone need not wait.
    pub(crate) fn all_finalized(&self) -> bool {
        self.all_finalized || !self.is_there()
    }

    /// Tells the manager to end the job, and waits a while for it to do so.
    pub(crate) fn abort(&mut self, code: i32, why: String) {
        if let Some(agent) = &mut self.agent
            && agent.tell(&ToManager::Abort { code, why }).is_ok()
        {
            // Not to be taken for a rank that died before the manager has read why.
            agent.await_end(ABORT_PATIENCE);
        }
    }
}
