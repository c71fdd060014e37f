//! The listeners of a rank, to which peers connect.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use rejoin_channel_table::card::MAX_ADDRESSES;
use rejoin_channel_table::{Address, BusinessCard, LanId, LocalHostId};
use rejoin_wire::{RankOptions, Transport};

use crate::descriptors::OldDescriptors;
use crate::error::{Error, Result};
use crate::events::{PollToken, Poller};
use crate::options::Options;
use crate::os;
use crate::transport::{Accepted, InterfaceFilter, ListenOptions, Listeners};

/// The listeners of one rank.
pub(crate) struct RankListeners {
    listeners: Listeners,
    /// Connections may wait at them that no event will announce.
    accept_again: bool,
}

impl RankListeners {
    /// Listens, and watches the listeners. Beside them: why there is no shared memory, where it was
    /// wanted.
    ///
    /// # Errors
    /// No address to listen on, or no descriptors left.
    pub(crate) fn open(
        poller: &Poller,
        options: &Options,
        settings: &RankOptions,
    ) -> Result<(Self, Option<String>)> {
        let (listeners, no_shared_memory) = listen(options, settings)?;
        for (number, descriptor) in listeners.descriptors() {
            poller.add(descriptor, PollToken::listener(number), false)?;
        }
        let listeners = Self {
            listeners,
            accept_again: false,
        };
        Ok((listeners, no_shared_memory))
    }

    /// This rank's card, as it is to be registered.
    pub(crate) fn card(&self, options: &Options, settings: &RankOptions) -> BusinessCard {
        let host = if settings.host.is_empty() {
            os::host_name()
        } else {
            settings.host.clone()
        };
        let lan = options.lan.clone().map(LanId);
        let lan = lan.or_else(|| Some(settings.lan.clone()).filter(|lan| !lan.0.is_empty()));
        let own = self.listeners.addresses();
        let advertised = settings.advertised.and_then(|to| self.advertised(to));
        BusinessCard {
            addresses: advertised
                .into_iter()
                .chain(own)
                .take(MAX_ADDRESSES)
                .collect(),
            host,
            lan: lan.unwrap_or_else(|| LanId(self.listeners.lan().to_owned())),
            local_host: LocalHostId(os::local_host_id()),
            pid: std::process::id(),
            log_ends: Vec::new(),
        }
    }

    /// The address at which other sites reach a listener.
    fn advertised(&self, to: IpAddr) -> Option<Address> {
        let ports = self
            .listeners
            .addresses()
            .filter_map(|address| match address {
                Address::Tcp(at) if at.is_ipv6() == to.is_ipv6() => Some((at.ip(), at.port())),
                _ => None,
            });
        // With a choice of interfaces, loopback has a listener of its own, which no router reaches.
        let (_, port) = ports.min_by_key(|(ip, _)| ip.is_loopback())?;
        Some(Address::Advertised(SocketAddr::new(to, port)))
    }

    /// Takes one connection that waits at a listener; `None` when there is none. An error is a lack
    /// of resources.
    pub(crate) fn accept(&self, number: u32) -> Option<io::Result<Accepted>> {
        self.listeners.accept(number)
    }

    /// Connections are to be taken in a while: the event that announced them has passed.
    pub(crate) fn accept_later(&mut self) {
        self.accept_again = true;
    }

    /// Whether connections are to be taken in a while.
    pub(crate) fn accepts_later(&self) -> bool {
        self.accept_again
    }

    /// The listeners at which connections may wait that no event will announce, once.
    pub(crate) fn left_waiting(&mut self) -> impl Iterator<Item = u32> + use<> {
        let again = std::mem::take(&mut self.accept_again);
        again
            .then(|| self.listeners.numbers())
            .into_iter()
            .flatten()
    }

    /// Whether links to ranks of this host can have shared memory.
    pub(crate) fn has_local(&self) -> bool {
        self.listeners.has_local()
    }

    /// Lets the ranks that the process behind `manager` has started read this process's memory,
    /// where links share memory.
    pub(crate) fn admit_readers(&self, manager: BorrowedFd<'_>) {
        self.listeners.admit_readers(manager);
    }

    /// Takes the place of the listeners with others.
    pub(crate) fn start_over(&mut self, listeners: Self, old: OldDescriptors) {
        let before = std::mem::replace(self, listeners);
        match old {
            OldDescriptors::Close => drop(before),
            OldDescriptors::Forget => before.listeners.forget(),
        }
    }
}

/// The transport that the user wants between ranks of one host.
pub(crate) fn wanted_transport(options: &Options, settings: &RankOptions) -> Transport {
    options.transport.unwrap_or(settings.transport)
}

/// Opens the listeners that were asked for. Beside them: why there is no shared memory, where it
/// was wanted.
fn listen(options: &Options, settings: &RankOptions) -> Result<(Listeners, Option<String>)> {
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
    Listeners::open(&ListenOptions {
        wanted: wanted_transport(options, settings),
        interfaces: options.interface.as_ref().or(parsed.as_ref()),
        ports: options.ports.or(settings.port_range),
        local_size: settings.local_size,
    })
}
