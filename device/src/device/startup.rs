//! From a process to a rank: the manager's welcome, listeners, registration, the job's table.

use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rejoin_channel_table::{AddressBook, Epoch, Generation};
use rejoin_engine::Engine;
use rejoin_wire::{MessageLog, RankOptions, Welcome};

use super::Device;
use super::log_handler::begin_log;
use super::receives_logged::begin_receive_log;
use crate::error::{Error, Result};
use crate::events::{PollToken, Poller, Waker};
use crate::job_member::JobMember;
use crate::links::{Links, RankListeners};
use crate::log::DeviceLogs;
use crate::manager::{Agent, JobStart, KeyPage, ManagerChannel};
use crate::meter::Meter;
use crate::options::Options;
use crate::progress::{ProgressState, Spin};
use crate::recovery::RankRecovery;
use crate::{os, size_limits};

/// How long a wait spins when every rank of the host has a core of its own. This is longer than any
/// round trip within a machine room, and too short to be noticed.
const SPIN: Duration = Duration::from_millis(2);

/// The device of a process that `welcome` has made a rank.
///
/// # Errors
/// The errors are those of [`Device::init`].
pub(super) fn start(
    agent: Option<Agent>,
    welcome: Welcome,
    key: KeyPage,
    options: Options,
) -> Result<Device> {
    let Welcome {
        identity,
        size,
        appnum,
        options: settings,
        ..
    } = welcome;
    let waker = Waker::default();
    let mut recovery = RankRecovery::new(settings.images.as_ref());
    let poller = Poller::new(&waker)?;
    let (listeners, no_shared_memory) = RankListeners::open(&poller, &options, &settings)?;
    if let Some(agent) = &agent {
        watch_manager(&poller, &listeners, &options, agent.descriptor())?;
    }
    let mut manager = ManagerChannel::new(agent, key);
    let card = listeners.card(&options, &settings);
    let config = size_limits::config(&options, &settings, size)?;
    manager.report_no_shared_memory(no_shared_memory)?;
    let limits = size_limits::limits(&config, &options);
    let JobStart { book, image } = match manager.register(&identity, size, &card, limits)? {
        Some(start) => start,
        None => JobStart {
            book: AddressBook::new(vec![(identity.incarnation, card.clone())]),
            image: None,
        },
    };
    recovery.begin_with(image);
    let mut engine = Engine::new(config, identity.rank, size);
    if let Some(MessageLog { groups, .. }) = settings.recovery.log() {
        if groups.len() != size as usize {
            return Err(Error::Manager {
                rank: identity.rank,
                problem: format!("it names groups of {} ranks, not of {size}", groups.len()),
            });
        }
        engine.set_groups(groups);
    }
    let logs = DeviceLogs {
        determinants: begin_log(identity.rank, &settings, &mut engine)?,
        received: begin_receive_log(identity.incarnation, &settings, &mut engine),
    };
    let mut device = Device {
        engine,
        meter: Meter::new(options.cut, identity.rank.0),
        links: Links::new(identity, book, poller, os::noise()?),
        listeners,
        manager,
        recovery,
        progress: ProgressState::new(Spin::new(spin(&options, &settings))),
        logs,
        member: JobMember::new(identity, size, appnum, settings, options, card),
        served: Default::default(),
        waker,
        not_sync: PhantomData,
    };
    // A program that loads registered memory continues where it stored that, not at its start.
    if identity.generation > Generation(0) && !device.settings().restart {
        device.member.roll_back(Epoch(0));
    }
    // Whatever came right behind the start was read along with it and raises no edge.
    device.orders().read()?;
    Ok(device)
}

/// Watches the manager's channel, and lets the ranks that the manager has started read this
/// process's memory where messages may go in a single copy.
pub(super) fn watch_manager(
    poller: &Poller,
    listeners: &RankListeners,
    options: &Options,
    manager: BorrowedFd<'_>,
) -> Result<()> {
    if options.single_copy {
        listeners.admit_readers(manager);
    }
    poller.add(manager, PollToken::MANAGER, false)
}

/// Spins only where no rank takes another's core.
pub(super) fn spin(options: &Options, settings: &RankOptions) -> Duration {
    if let Some(spin) = options.spin {
        return spin;
    }
    if let Some(us) = settings.spin {
        return Duration::from_micros(u64::from(us));
    }
    let cores = match settings.cores {
        0 => std::thread::available_parallelism()
            .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)),
        cores => cores,
    };
    if settings.local_size > cores {
        Duration::ZERO
    } else {
        SPIN
    }
}
