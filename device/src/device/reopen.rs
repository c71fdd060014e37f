//! Rejoins the job, after a restore or for a new place in the job. The process drops all
//! descriptors, takes a new channel to its local manager, and gets a new business card.
//!
//! An image keeps the rest of a [`Device`]: the engine, the table, the program's requests. The
//! numbers of descriptors have no meaning in a process restored from an image.

use std::os::fd::OwnedFd;

use rejoin_channel_table::ids::Rank;

use super::{Device, startup};
use crate::descriptors::OldDescriptors;
use crate::error::{Error, Result};
use crate::events::Poller;
use crate::links::RankListeners;
use crate::manager::{Agent, JobStart};
use crate::progress::Spin;
use crate::{os, size_limits};

impl Device {
    /// Drops everything that is tied to descriptors and joins the job again over `socket`, a new
    /// channel to a local manager. The device receives the new identity and the key, listens,
    /// registers with a new card, and waits for the job's table. Messages keep their state.
    /// Messages under way resume when the links are established again. Handles of [`Device::waker`]
    /// stay valid.
    ///
    /// This does not use the C library's heap.
    ///
    /// # Errors
    /// A manager that cannot be understood or speaks to another rank or job, or no address to
    /// listen on. The device is of no use then.
    pub fn reopen(&mut self, socket: OwnedFd, old: OldDescriptors) -> Result<()> {
        match old {
            OldDescriptors::Close => self.waker.close(),
            OldDescriptors::Forget => self.waker.forget(),
        }
        let (agent, welcome, key) = Agent::new(socket)?;
        let (was, now) = (self.member.identity(), welcome.identity);
        let size = self.member.size();
        if (now.job, now.rank, welcome.size) != (was.job, was.rank, size) {
            return Err(Error::Manager {
                rank: was.rank,
                problem: "it takes this process for another rank, or for one of another job"
                    .to_owned(),
            });
        }
        let settings = welcome.options;
        let options = self.member.options();
        let poller = Poller::new(&self.waker)?;
        let (listeners, no_shared_memory) = RankListeners::open(&poller, options, &settings)?;
        startup::watch_manager(&poller, &listeners, options, agent.descriptor())?;
        self.links.start_over(poller, os::noise()?, old);
        self.listeners.start_over(listeners, old);
        self.manager.start_over(agent, key, old);
        self.recovery.start_over(settings.images.as_ref());
        self.progress
            .start_over(Spin::new(startup::spin(options, &settings)));
        let card = self.listeners.card(options, &settings);
        let limits = size_limits::limits(self.engine.config(), options);
        self.member.change(now, settings, card);
        let ends = self.reopen_determinants()?;
        self.member.set_log_ends(ends);
        self.manager.report_no_shared_memory(no_shared_memory)?;
        let card = self.member.card();
        let Some(JobStart { book, image }) = self.manager.register(&now, size, card, limits)?
        else {
            return Ok(());
        };
        self.recovery.begin_with(image);
        // With the incarnations that were there then.
        self.record_dependencies();
        self.note_all_ends(&book);
        self.links.rejoin(now, book);
        // Also links that were not up: a message that waited for a link needs a new dial, since the
        // dial under way is gone.
        for rank in (0..size).map(Rank) {
            self.engine.link_down(rank);
        }
        // Other recovery groups may have gone on since the image.
        self.engine.returned();
        self.reopen_bodies()?;
        self.repeat_matches();
        self.restore_received()?;
        self.return_if_orphan()?;
        // Others may wait until what this rank repeats is stored.
        self.are_determinants_stable()?;
        // Whatever came right behind the start was read along with it and raises no edge.
        self.read_manager_messages()?;
        Ok(())
    }
}
