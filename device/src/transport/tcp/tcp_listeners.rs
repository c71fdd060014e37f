//! The listeners, and the addresses that the business card shows.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{IntoRawFd, OwnedFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::interface_address::Interface;
use super::interface_filter::{self, InterfaceFilter};
use super::socket::{prepare, raise};
use crate::error::{Error, Result, text_of};

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;

/// This rank's listeners.
#[derive(Debug)]
pub struct TcpListeners {
    sockets: Vec<Socket>,
    addresses: Vec<SocketAddr>,
    lan: String,
}

impl TcpListeners {
    /// Opens the listeners. With a filter there is one on each address that it admits, else one for
    /// IPv4 and one for IPv6 on all addresses. They are always reachable over loopback. Ports are
    /// taken from the range, or chosen by the kernel.
    ///
    /// # Errors
    /// When no address can be listened on, with the reason of the last one.
    pub fn open(filter: Option<&InterfaceFilter>, ports: Option<(u16, u16)>) -> Result<Self> {
        let interfaces = interface_filter::usable(filter)?;
        let lan = interfaces
            .first()
            .map_or_else(|| "none".to_owned(), Interface::network);
        let mut opened = Self {
            sockets: Vec::new(),
            addresses: Vec::new(),
            lan,
        };
        let mut last = io::Error::other("this machine has no address to listen on");
        if filter.is_some() {
            for interface in &interfaces {
                if let Err(error) = opened.listen(interface.address, ports) {
                    last = error;
                }
            }
            // Peers on this host come over loopback whatever was chosen for the others.
            if opened
                .addresses
                .iter()
                .all(|address| !address.ip().is_loopback())
            {
                for ip in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
                    if let Err(error) = opened.listen(SocketAddr::new(ip, 0), ports) {
                        last = error;
                    }
                }
            }
        } else {
            opened.listen_everywhere(&interfaces, ports, &mut last);
        }
        if opened.sockets.is_empty() {
            return Err(Error::system("listen for connections over TCP", last));
        }
        Ok(opened)
    }

    /// One socket per family on the unspecified address; the card lists the real addresses.
    fn listen_everywhere(
        &mut self,
        interfaces: &[Interface],
        ports: Option<(u16, u16)>,
        last: &mut io::Error,
    ) {
        for any in [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()] {
            match self.listen(SocketAddr::new(any, 0), ports) {
                Ok(port) => {
                    self.addresses.pop();
                    let loopback = if any.is_ipv4() {
                        Ipv4Addr::LOCALHOST.into()
                    } else {
                        Ipv6Addr::LOCALHOST.into()
                    };
                    self.addresses.push(SocketAddr::new(loopback, port));
                    let same_family = interfaces
                        .iter()
                        .filter(|interface| interface.address.is_ipv6() == any.is_ipv6());
                    self.addresses.extend(same_family.map(|interface| {
                        let mut address = interface.address;
                        address.set_port(port);
                        address
                    }));
                }
                Err(error) => *last = error,
            }
        }
    }

    /// Listens on one address, at the first free port of the range.
    fn listen(&mut self, at: SocketAddr, ports: Option<(u16, u16)>) -> io::Result<u16> {
        let (low, high) = ports.unwrap_or((0, 0));
        let mut last = io::Error::other("no port in the range");
        for port in low..=high {
            let mut at = at;
            at.set_port(port);
            match open_one(at) {
                Ok(socket) => {
                    let bound = socket.local_addr()?.as_socket().unwrap_or(at);
                    self.sockets.push(socket);
                    self.addresses.push(bound);
                    return Ok(bound.port());
                }
                Err(error) => last = error,
            }
        }
        let range = match low {
            0 => String::new(),
            _ => format!("ports {low}-{high}: "),
        };
        let why = text_of(&last);
        Err(io::Error::new(last.kind(), format!("{range}{why}")))
    }

    /// The addresses for the business card: loopback, which only peers on this host may use, and
    /// those of the interfaces.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The network of the first usable interface, as text.
    #[must_use]
    pub fn lan(&self) -> &str {
        &self.lan
    }

    /// The listening sockets, to be watched.
    #[must_use]
    pub fn sockets(&self) -> &[Socket] {
        &self.sockets
    }

    /// Drops numbers that are no longer this library's, without a system call.
    pub(crate) fn forget(self) {
        for socket in self.sockets {
            let _ = socket.into_raw_fd();
        }
    }

    /// Takes one waiting connection from listener `number`; `None` when there is none. A
    /// connection that broke before it was accepted counts as none taken, and `Some(Err)` is a lack
    /// of resources.
    pub fn accept(&self, number: usize) -> Option<io::Result<OwnedFd>> {
        let listener = self.sockets.get(number)?;
        loop {
            match listener.accept() {
                Ok((socket, from)) => return Some(settle(socket, &from)),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return None,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => return Some(Err(error)),
                },
            }
        }
    }
}

fn settle(socket: Socket, from: &SockAddr) -> io::Result<OwnedFd> {
    let from = from
        .as_socket()
        .ok_or_else(|| io::Error::other("not an internet address"))?;
    let socket = raise(socket)?;
    prepare(&socket, from.ip().to_canonical().is_loopback())?;
    Ok(socket.into())
}

fn open_one(at: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    let socket = raise(socket)?;
    if at.is_ipv6() {
        // IPv4 has a socket of its own, also where the system's default would mix them.
        socket.set_only_v6(true)?;
    }
    if at.port() != 0 {
        // A port of a given range may still have old connections in TIME_WAIT.
        socket.set_reuse_address(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(at))?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}
