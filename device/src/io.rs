//! All that is tied to descriptors: what a restored process must forget, and makes anew.
//!
//! An image of a rank keeps the rest of [`Device`](crate::Device): the engine, the table, what the
//! program asked for. The numbers in here mean nothing in the process that an image becomes: they may
//! be anyone's by then. So they are let go of without a system call ([`Io::forget`]).

use std::collections::VecDeque;
use std::os::fd::AsFd;
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
use crate::transport::shm::{self, Door};
use crate::transport::tcp::Listeners;
use crate::transport::tcp::interfaces::InterfaceFilter;
use crate::waker::Waker;

/// Descriptors of one rank, and what is known about them.
pub(crate) struct Io {
    pub(crate) key: KeyPage,
    pub(crate) poller: Poller,
    pub(crate) listeners: Listeners,
    /// Where ranks of the same host knock for shared memory.
    pub(crate) door: Option<Door>,
    /// What the user is told of it.
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
        let listeners = listen(&poller, options, settings)?;
        let (door, lacking) = open_door(transport(options, settings), settings)?;
        if let Some(door) = &door {
            if let (true, Some(agent)) = (options.single_copy, &agent) {
                shm::be_readable(agent.descriptor());
            }
            poller.add(door.descriptor(), Token::listener(Token::DOOR), false)?;
        }
        if let Some(agent) = &agent {
            poller.add(agent.descriptor(), Token::MANAGER, false)?;
        }
        Ok(Self {
            key,
            poller,
            listeners,
            door,
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
        if let Some(door) = self.door {
            door.forget();
        }
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

/// Opens the door for ranks of the same host, having tried whether shared memory can be had. Where it need
/// not be: why there is none.
fn open_door(wanted: Transport, settings: &RankOptions) -> Result<(Option<Door>, Option<String>)> {
    if wanted == Transport::Tcp || settings.local_size < 2 {
        return Ok((None, None));
    }
    let tried = shm::try_memory(settings.local_size);
    match tried.and_then(|()| Door::open()) {
        Ok(door) => Ok((Some(door), None)),
        Err(error) if wanted == Transport::Auto => Ok((None, Some(error.to_string()))),
        Err(error) => {
            let what = "have shared memory with ranks of this host";
            Err(Error::system(what, error))
        }
    }
}

/// Opens the listeners on the interfaces and ports that were asked for, and watches them.
fn listen(poller: &Poller, options: &Options, settings: &RankOptions) -> Result<Listeners> {
    let interface = match (&options.interface, &settings.interface) {
        (Some(filter), _) => Some(filter.clone()),
        (None, Some(text)) => {
            let parsed = InterfaceFilter::parse(text);
            Some(parsed.map_err(|problem| Error::Environment {
                variable: "REJOIN_TCP_INTERFACE",
                value: text.clone(),
                problem,
            })?)
        }
        (None, None) => None,
    };
    let ports = options.ports.or(settings.port_range);
    let listeners = Listeners::open(interface.as_ref(), ports)?;
    for (number, socket) in listeners.sockets().iter().enumerate() {
        let number = u32::try_from(number).unwrap_or(0);
        poller.add(socket.as_fd(), Token::listener(number), false)?;
    }
    Ok(listeners)
}
