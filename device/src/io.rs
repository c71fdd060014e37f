//! All that is tied to descriptors: what a restored process must forget, and makes anew.
//!
//! An image of a rank keeps the rest of [`Device`](crate::Device): the engine, the table, what the
//! program asked for. The numbers in here mean nothing in the process that an image becomes: they
//! may be anyone's by then. So they are let go of without a system call ([`Io::forget`]).

use std::collections::VecDeque;
use std::time::Instant;

use rejoin_channel_table::ids::Rank;
use rejoin_wire::{RankOptions, Transport};

use crate::agent::Agent;
use crate::connect::Dial;
use crate::error::{Error, Result};
use crate::key::KeyPage;
use crate::notes::Notes;
use crate::options::Options;
use crate::poller::{Event, Poller, Token};
use crate::receive::STAGING;
use crate::slots::Slots;
use crate::spin_list::MOST_UNWATCHED;
use crate::transport::{InterfaceFilter, ListenOptions, Listeners};
use crate::waker::Waker;

/// Descriptors of one rank, and what is known about them.
pub(crate) struct Io {
    pub(crate) key: KeyPage,
    pub(crate) poller: Poller,
    pub(crate) listeners: Listeners,
    /// What the user learns of it.
    pub(crate) notes: Notes,
    pub(crate) agent: Option<Agent>,
    pub(crate) slots: Slots,
    pub(crate) dials: Vec<Option<Box<Dial>>>,
    /// Ranks to be dialed at a later time.
    pub(crate) redial: Vec<Rank>,
    /// Links that may hold bytes which no event will announce.
    pub(crate) readable: VecDeque<Token>,
    /// Links that are busy enough to be read without epoll.
    pub(crate) unwatched: Vec<Token>,
    /// Links that raise no event until they are armed.
    pub(crate) polled: Vec<Token>,
    /// They are armed.
    pub(crate) armed: bool,
    /// The clock's ticks at the last look at epoll.
    pub(crate) looked: u64,
    /// The link that brought something last: the first to be read when nothing hints at one.
    pub(crate) recent: Option<Token>,
    pub(crate) staging: Box<[u8]>,
    pub(crate) events: Vec<Event>,
    pub(crate) accept_again: bool,
    pub(crate) waiting_since: Option<Instant>,
    /// When the links were last asked whether their other ends answer.
    pub(crate) checked: Instant,
}

impl Io {
    /// Listens, and watches the listeners and the manager's channel; there are no links yet.
    ///
    /// # Errors
    /// No address to listen on, or no descriptors left.
    pub(crate) fn open(
        agent: Option<Agent>,
        key: KeyPage,
        waker: &Waker,
        options: &Options,
        settings: &RankOptions,
        size: u32,
    ) -> Result<Self> {
        let poller = Poller::new(waker)?;
        let (listeners, lacking) = listen(&poller, options, settings)?;
        if let Some(agent) = &agent {
            if options.single_copy {
                listeners.admit_readers(agent.descriptor());
            }
            poller.add(agent.descriptor(), Token::MANAGER, false)?;
        }
        Ok(Self {
            key,
            poller,
            listeners,
            notes: Notes {
                lacking,
                ..Notes::default()
            },
            agent,
            slots: Slots::default(),
            dials: (0..size).map(|_| None).collect(),
            redial: Vec::new(),
            readable: VecDeque::new(),
            unwatched: Vec::with_capacity(MOST_UNWATCHED),
            polled: Vec::new(),
            armed: false,
            looked: 0,
            recent: None,
            staging: vec![0; STAGING].into_boxed_slice(),
            events: Vec::with_capacity(64),
            accept_again: false,
            waiting_since: None,
            checked: Instant::now(),
        })
    }

    /// Lets go of every descriptor without closing it; only memory is freed.
    pub(crate) fn forget(self) {
        self.poller.forget();
        self.listeners.forget();
        if let Some(agent) = self.agent {
            agent.forget();
        }
        self.slots.forget();
    }
}

/// What the user wants between ranks of one host.
pub(crate) fn transport(options: &Options, settings: &RankOptions) -> Transport {
    options.transport.unwrap_or(settings.transport)
}

/// Opens the listeners that were asked for, and watches them. Beside them: why there is no shared
/// memory, where it was wanted.
fn listen(
    poller: &Poller,
    options: &Options,
    settings: &RankOptions,
) -> Result<(Listeners, Option<String>)> {
    let parsed = match (&options.interface, &settings.interface) {
        (None, Some(text)) => {
            let parsed = InterfaceFilter::parse(text);
            Some(parsed.map_err(|problem| Error::Environment {
                variable: "REJOIN_TCP_INTERFACE",
                value: text.clone(),
                problem,
            })?)
        }
        _ => None,
    };
    let (listeners, lacking) = Listeners::open(&ListenOptions {
        wanted: transport(options, settings),
        interfaces: options.interface.as_ref().or(parsed.as_ref()),
        ports: options.ports.or(settings.port_range),
        local_size: settings.local_size,
    })?;
    for (number, descriptor) in listeners.descriptors() {
        poller.add(descriptor, Token::listener(number), false)?;
    }
    Ok((listeners, lacking))
}
