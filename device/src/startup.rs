//! From a process to a rank: the manager's welcome, listeners, registration, the job's table.

use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rejoin_channel_table::card::MAX_ADDRESSES;
use rejoin_channel_table::{AddressBook, BusinessCard, LanId, LocalHostId, Table};
use rejoin_engine::{Engine, Sought};
use rejoin_wire::{RankOptions, Welcome};

use crate::agent::{self, Agent};
use crate::await_links::AwaitedLinks;
use crate::device::Device;
use crate::error::Result;
use crate::fault_injector::FaultInjector;
use crate::image;
use crate::io::Io;
use crate::key::KeyPage;
use crate::limits;
use crate::live::Meter;
use crate::options::Options;
use crate::pending_checkpoint::PendingCheckpoint;
use crate::spin::Spin;
use crate::stats::Stats;
use crate::waker::Waker;

/// How long a wait spins when every rank of the host has a core of its own: longer than any round
/// trip within a machine room, shorter than anyone notices.
const SPIN: Duration = Duration::from_millis(2);

impl Device {
    /// Makes this process a rank of its job: reads the environment, takes the inherited channel to
    /// the local manager, listens, registers, and waits until all ranks of the job have done so.
    /// Without a launcher it is the only rank of its own job. Once per process.
    ///
    /// # Errors
    /// A variable that cannot be understood, a manager that cannot, or no address to listen on.
    pub fn init() -> Result<Self> {
        let options = Options::from_environment()?;
        match agent::inherited()? {
            Some(socket) => {
                agent::die_with_manager(socket.as_fd());
                Self::with_manager(socket, options)
            }
            None => Self::alone(options),
        }
    }

    /// Joins the job of the manager at the other end of a local stream socket. There may be several
    /// devices in one process, one per thread: tests do that.
    ///
    /// # Errors
    /// As for [`Device::init`].
    pub fn with_manager(socket: OwnedFd, options: Options) -> Result<Self> {
        let (agent, welcome, key) = Agent::new(socket)?;
        Self::start(Some(agent), welcome, key, options)
    }

    /// The only rank of a job of its own.
    ///
    /// # Errors
    /// As for [`Device::init`].
    pub fn alone(options: Options) -> Result<Self> {
        let mut welcome = agent::singleton()?;
        let key = KeyPage::take(&mut welcome.key)?;
        Self::start(None, welcome, key, options)
    }

    fn start(
        agent: Option<Agent>,
        welcome: Welcome,
        key: KeyPage,
        options: Options,
    ) -> Result<Self> {
        let Welcome {
            identity,
            size,
            appnum,
            options: settings,
            ..
        } = welcome;
        let waker = Waker::default();
        image::hold(settings.images.as_ref());
        let settings_imager = settings.images.as_ref().map(image::imager);
        let mut io = Io::open(agent, key, &waker, &options, &settings, size)?;
        let card = card(&io, &options, &settings);
        let config = limits::config(&options, &settings, size)?;
        let agent::Start { book, image } = match &mut io.agent {
            Some(agent) => {
                io.notes.tell_lacking(agent)?;
                agent.register(&identity, size, &card, limits::limits(&config, &options))?
            }
            None => agent::Start {
                book: AddressBook::new(vec![(identity.incarnation, card.clone())]),
                image: None,
            },
        };
        let mut device = Self {
            spin: Spin::new(spin(&options, &settings)),
            meter: meter(&options, identity.rank.0),
            table: Table::new(identity, book),
            identity,
            size,
            appnum,
            settings,
            options,
            card,
            engine: Engine::new(config, identity.rank, size),
            io,
            waker,
            detaching: Vec::new(),
            awaited: AwaitedLinks::default(),
            probing: Sought::default(),
            words: 0,
            passes: 0,
            noise: agent::noise()?,
            breaches: 0,
            leaving: false,
            all_finalized: false,
            checkpoint: PendingCheckpoint::new(image),
            known: crate::asked::Known::default(),
            imager: settings_imager,
            copied: image::Copied::default(),
            finalizing: false,
            names: None,
            not_sync: PhantomData,
        };
        // Whatever came right behind the start was read along with it and raises no edge.
        device.hear_manager()?;
        Ok(device)
    }
}

/// Counts from nothing, and cuts links where a test asked for it.
fn meter(options: &Options, rank: u32) -> Meter {
    let injector = options
        .cut
        .map(|(seed, interval)| FaultInjector::new(seed, rank, interval));
    Meter {
        stats: Stats::default(),
        injector,
    }
}

/// This rank's card, as it is to be registered.
pub(crate) fn card(io: &Io, options: &Options, settings: &RankOptions) -> BusinessCard {
    let host = if settings.host.is_empty() {
        agent::host_name()
    } else {
        settings.host.clone()
    };
    BusinessCard {
        addresses: io.listeners.addresses().take(MAX_ADDRESSES).collect(),
        host,
        lan: LanId(
            options
                .lan
                .clone()
                .unwrap_or_else(|| io.listeners.lan().to_owned()),
        ),
        local_host: LocalHostId(agent::local_host_id()),
        pid: std::process::id(),
    }
}

/// Spins only where no rank takes another's core.
pub(crate) fn spin(options: &Options, settings: &RankOptions) -> Duration {
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
