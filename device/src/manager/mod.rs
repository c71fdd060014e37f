//! The link to the local manager, and the data from it.

mod key;
mod rank_agent;

pub(crate) use key::KeyPage;
pub(crate) use rank_agent::{
    Agent, JobStart, die_with_manager, end, end_aborted, inherited, singleton, stop,
};

use std::os::fd::RawFd;
use std::time::Duration;

use rejoin_channel_table::BusinessCard;
use rejoin_channel_table::ids::{Identity, JobKey, Rank};
use rejoin_wire::{FromManager, Limits, ToManager};

use crate::descriptors::OldDescriptors;
use crate::error::Result;

/// How long a rank waits that has asked its manager for its end.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// The channel to the local manager, which a rank that is alone in its job has none of.
pub(crate) struct ManagerChannel {
    agent: Option<Agent>,
    /// The job's key, which came from the manager.
    key: KeyPage,
    /// Messages that may end a wait.
    messages: u64,
    /// This rank has flushed its messages, and leaves with all others.
    leaving: bool,
    /// All ranks have flushed theirs.
    all_finalized: bool,
    /// The user got the message that shared memory with some rank has failed.
    reported_fallback: bool,
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
            reported_fallback: false,
        }
    }

    /// Continues over another channel.
    pub(crate) fn start_over(&mut self, agent: Agent, key: KeyPage, old: OldDescriptors) {
        let before = self.agent.replace(agent);
        match old {
            OldDescriptors::Close => drop(before),
            OldDescriptors::Forget => before.into_iter().for_each(Agent::forget),
        }
        self.key = key;
        self.all_finalized = false;
        self.reported_fallback = false;
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
            agent.send(&ToManager::Finalizing)?;
        }
        Ok(Some(start))
    }

    /// Sends a message; nothing without a manager.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn send(&mut self, message: &ToManager) -> Result<()> {
        self.send_with_descriptors(message, &[])
    }

    /// Sends a message to which descriptors belong.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn send_with_descriptors(
        &mut self,
        message: &ToManager,
        descriptors: &[RawFd],
    ) -> Result<()> {
        match &mut self.agent {
            Some(agent) => agent.send_with_descriptors(message, descriptors),
            None => Ok(()),
        }
    }

    /// Sends a message for the user. An `important` one is always shown, others on request.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn note(&mut self, important: bool, text: String) -> Result<()> {
        self.send(&ToManager::Note { important, text })
    }

    /// Reports that this rank has no shared memory, if there is a reason.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn report_no_shared_memory(&mut self, why: Option<String>) -> Result<()> {
        let Some(why) = why else {
            return Ok(());
        };
        let text = format!("TCP instead of shared memory with the ranks of its host: {why}");
        self.note(true, text)
    }

    /// Reports, once, that messages to `rank` go over TCP though both sides wanted shared memory.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn report_fallback(&mut self, rank: Rank, why: &str) -> Result<()> {
        if std::mem::replace(&mut self.reported_fallback, true) {
            return Ok(());
        }
        let text = format!("TCP instead of shared memory with rank {rank}: {why}");
        self.note(true, text)
    }

    /// The next message, when one has come.
    ///
    /// # Errors
    /// The message cannot be understood.
    pub(crate) fn receive(&mut self) -> Result<Option<FromManager>> {
        match &mut self.agent {
            Some(agent) => agent.receive(),
            None => Ok(None),
        }
    }

    /// Waits until there is a message, for this time at most.
    pub(crate) fn await_message(&self, limit: Duration) {
        if let Some(agent) = &self.agent {
            agent.await_message(limit);
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

    /// Has the manager return this rank, which depends on lost messages of the rank `on`, and waits
    /// up to five seconds for the end of this process.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn return_orphan(&mut self, on: Rank) -> Result<()> {
        self.send(&ToManager::Orphan { on })?;
        if let Some(agent) = &mut self.agent {
            agent.await_end(END_PATIENCE);
        }
        Ok(())
    }

    /// Has the manager end the job, and waits up to five seconds for that.
    pub(crate) fn abort(&mut self, code: i32, why: String) {
        if let Some(agent) = &mut self.agent
            && agent.send(&ToManager::Abort { code, why }).is_ok()
        {
            // Not to be taken for a rank that died before the manager has read why.
            agent.await_end(END_PATIENCE);
        }
    }
}

#[cfg(test)]
impl ManagerChannel {
    /// Of a rank without a manager.
    pub(crate) fn none() -> Self {
        let key = KeyPage::take(&mut JobKey::new([0; 32])).expect("a page");
        Self::new(None, key)
    }
}
