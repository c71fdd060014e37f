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

/// [`Device::reopen`].
pub(super) fn reopen(device: &mut Device, socket: OwnedFd, old: OldDescriptors) -> Result<()> {
    match old {
        OldDescriptors::Close => device.waker.close(),
        OldDescriptors::Forget => device.waker.forget(),
    }
    let (agent, welcome, key) = Agent::new(socket)?;
    let (was, now) = (device.member.identity(), welcome.identity);
    let size = device.member.size();
    if (now.job, now.rank, welcome.size) != (was.job, was.rank, size) {
        return Err(Error::Manager {
            rank: was.rank,
            problem: "it takes this process for another rank, or for one of another job".to_owned(),
        });
    }
    let settings = welcome.options;
    let options = device.member.options();
    let poller = Poller::new(&device.waker)?;
    let (listeners, no_shared_memory) = RankListeners::open(&poller, options, &settings)?;
    startup::watch_manager(&poller, &listeners, options, agent.descriptor())?;
    device.links.start_over(poller, os::noise()?, old);
    device.listeners.start_over(listeners, old);
    device.manager.start_over(agent, key, old);
    device.recovery.start_over(settings.images.as_ref());
    device
        .progress
        .start_over(Spin::new(startup::spin(options, &settings)));
    let card = device.listeners.card(options, &settings);
    let limits = size_limits::limits(device.engine.config(), options);
    device.member.change(now, settings, card);
    if now.generation != was.generation {
        device.member.roll_back(device.engine.epoch());
    }
    let ends = device.logs().reopen_determinants()?;
    device.member.set_log_ends(ends);
    device.manager.report_no_shared_memory(no_shared_memory)?;
    let card = device.member.card();
    let Some(JobStart { book, image }) = device.manager.register(&now, size, card, limits)? else {
        return Ok(());
    };
    device.recovery.begin_with(image);
    // With the incarnations that were there then.
    device.logs().record_dependencies();
    device.logs.note_all_ends(&book);
    device.links.rejoin(now, book);
    // Also links that were not up: a message that waited for a link needs a new dial, since the
    // dial under way is gone.
    for rank in (0..size).map(Rank) {
        device.engine.link_down(rank);
    }
    // Other recovery groups may have gone on since the image.
    device.engine.returned();
    let bodies = device.recovery.take_private_bodies();
    let mut logs = device.logs();
    if let Some(bodies) = bodies {
        logs.reopen_bodies(&bodies)?;
    }
    logs.repeat_matches();
    logs.restore_received()?;
    logs.return_if_orphan()?;
    // Others may wait until what this rank repeats is stored.
    logs.are_determinants_stable()?;
    // Whatever came right behind the start was read along with it and raises no edge.
    device.orders().read()?;
    Ok(())
}
