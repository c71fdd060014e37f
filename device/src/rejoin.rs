//! The way back: a process that was restored, or has to change its place in the job, lets go of all
//! descriptors, takes a new channel to its local manager, and is where its card says from then on.

use std::os::fd::OwnedFd;

use rejoin_channel_table::ids::Rank;

use rejoin_wire::ToManager;

use crate::agent::{self, Agent};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::image;
use crate::io::Io;
use crate::limits;
use crate::pending_checkpoint::PendingCheckpoint;
use crate::spin::Spin;
use crate::startup;

/// What becomes of the descriptors that a device had before [`Device::reopen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// They are this process's: closed.
    Close,
    /// They were another process's, whose image this one is: their numbers may be anyone's by now,
    /// so they are let go of without a system call.
    Forget,
}

impl Device {
    /// Drops everything that is tied to descriptors and joins the job again over `socket`, a new
    /// channel to a local manager: hears the new identity and the key, listens, registers with a
    /// new card, and waits for the job's table. Messages are where they were: what was under way is
    /// resumed when the links stand again. Handles of [`Device::waker`] stay good.
    ///
    /// Nothing of the C library's heap is used on the way.
    ///
    /// # Errors
    /// A manager that cannot be understood or speaks to another rank or job, or no address to
    /// listen on. The device is of no use then.
    pub fn reopen(&mut self, socket: OwnedFd, old: Old) -> Result<()> {
        match old {
            Old::Close => self.waker.close(),
            Old::Forget => self.waker.forget(),
        }
        let (agent, welcome, key) = Agent::new(socket)?;
        let (was, now) = (self.identity, welcome.identity);
        if (now.job, now.rank, welcome.size) != (was.job, was.rank, self.size) {
            return Err(Error::Manager {
                rank: was.rank,
                problem: "it takes this process for another rank, or for one of another job"
                    .to_owned(),
            });
        }
        let io = Io::open(
            Some(agent),
            key,
            &self.waker,
            &self.options,
            &welcome.options,
            self.size,
        )?;
        let before = std::mem::replace(&mut self.io, io);
        match old {
            Old::Close => drop(before),
            Old::Forget => before.forget(),
        }
        self.card = startup::card(&self.io, &self.options, &welcome.options);
        self.identity = now;
        self.settings = welcome.options;
        image::hold(self.settings.images.as_ref());
        self.spin = Spin::new(startup::spin(&self.options, &self.settings));
        self.noise = agent::noise()?;
        self.all_finalized = false;
        let limits = limits::limits(self.engine.config(), &self.options);
        let Some(agent) = &mut self.io.agent else {
            return Ok(());
        };
        self.io.notes.tell_lacking(agent)?;
        let agent::Start { book, image } = agent.register(&now, self.size, &self.card, limits)?;
        if self.leaving {
            agent.tell(&ToManager::Finalizing)?;
        }
        self.checkpoint = PendingCheckpoint::new(image);
        self.table.rejoin(now, book);
        // Those that were not up as well: what waited for a link asks for a new one, since the dial
        // that was under way is gone with the rest.
        for rank in (0..self.size).map(Rank) {
            self.engine.link_down(rank);
        }
        // Whatever came right behind the start was read along with it and raises no edge.
        self.hear_manager()?;
        Ok(())
    }
}
