//! Where a rank is reached: the listeners of all transports.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rejoin_channel_table::Address;
use rejoin_wire::Transport;

use super::shm::{self, HostListener};
use super::tcp::TcpListeners;
use crate::error::{Error, Result};

pub use super::tcp::interface_filter::InterfaceFilter;

/// Number of the listener for ranks of the same host.
const LOCAL: u32 = u32::MAX;

/// The addresses on which a rank listens.
pub(crate) struct ListenOptions<'a> {
    /// The transports that the user admits between ranks of one host.
    pub(crate) wanted: Transport,
    /// The interfaces to listen on; `None` means all.
    pub(crate) interfaces: Option<&'a InterfaceFilter>,
    /// First and last port to choose from; `None` leaves that to the system.
    pub(crate) ports: Option<(u16, u16)>,
    /// Number of ranks on this host.
    pub(crate) local_size: u32,
}

/// A connection just accepted.
pub(crate) struct Accepted {
    /// The connected socket, non-blocking, in the block of descriptors of the library.
    pub(crate) socket: OwnedFd,
    /// Whether it is a local socket, over which the link's memory comes.
    pub(crate) local: bool,
}

/// The listeners of one rank.
pub(crate) struct Listeners {
    tcp: TcpListeners,
    local: Option<HostListener>,
}

impl Listeners {
    /// Listens. Beside the listeners: why there is no shared memory where it was wanted, but need
    /// not be had.
    ///
    /// # Errors
    /// No address to listen on, or no shared memory where it must be had.
    pub(crate) fn open(options: &ListenOptions<'_>) -> Result<(Self, Option<String>)> {
        let tcp = TcpListeners::open(options.interfaces, options.ports)?;
        let (local, no_shared_memory) = open_local(options)?;
        Ok((Self { tcp, local }, no_shared_memory))
    }

    /// Number and descriptor of each listener, to be watched.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        let local = self.local.iter().map(|local| (LOCAL, local.descriptor()));
        let sockets = (0..).zip(self.tcp.sockets());
        sockets
            .map(|(number, socket)| (number, socket.as_fd()))
            .chain(local)
    }

    /// The numbers of all listeners.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        let tcp = u32::try_from(self.tcp.sockets().len()).unwrap_or(0);
        (0..tcp).chain(self.local.is_some().then_some(LOCAL))
    }

    /// Takes one connection that waits at a listener; `None` when there is none. An error is a lack
    /// of resources.
    pub(crate) fn accept(&self, number: u32) -> Option<io::Result<Accepted>> {
        let local = number == LOCAL;
        let accepted = if local {
            self.local.as_ref()?.accept()?
        } else {
            self.tcp.accept(number as usize)?
        };
        Some(accepted.map(|socket| Accepted { socket, local }))
    }

    /// The addresses for the business card, the nearest first.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        let local = self.local.iter().map(|local| Address::Local(local.name()));
        local.chain(self.tcp.addresses().iter().copied().map(Address::Tcp))
    }

    /// The network of the first usable interface, as text.
    pub(crate) fn lan(&self) -> &str {
        self.tcp.lan()
    }

    /// Whether links to ranks of this host can have shared memory.
    pub(crate) fn has_local(&self) -> bool {
        self.local.is_some()
    }

    /// Lets the ranks that the process behind `manager` has started read this process's memory,
    /// where links share memory.
    pub(crate) fn admit_readers(&self, manager: BorrowedFd<'_>) {
        if self.has_local() {
            shm::be_readable(manager);
        }
    }

    /// Drops descriptors that are no longer this process's, without a system call.
    pub(crate) fn forget(self) {
        self.tcp.forget();
        if let Some(local) = self.local {
            local.forget();
        }
    }
}

/// Opens the listener for ranks of the same host, having tried whether shared memory is available.
fn open_local(options: &ListenOptions<'_>) -> Result<(Option<HostListener>, Option<String>)> {
    if options.wanted == Transport::Tcp || options.local_size < 2 {
        return Ok((None, None));
    }
    let tried = shm::try_memory(options.local_size);
    match tried.and_then(|()| HostListener::open()) {
        Ok(listener) => Ok((Some(listener), None)),
        Err(error) if options.wanted == Transport::Auto => {
            Ok((None, Some(crate::error::text_of(&error))))
        }
        Err(error) => {
            let what = "have shared memory with ranks of this host";
            Err(Error::system(what, error))
        }
    }
}
