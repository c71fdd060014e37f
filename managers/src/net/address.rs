//! Addresses by which other hosts reach this one.

use crate::host::network_interfaces;
use serde::{Deserialize, Serialize};
use socket2::SockAddr;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Where a manager listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManagerAddress {
    /// For other hosts.
    Net(SocketAddr),
    /// For its own host: a name of an abstract socket.
    Local(String),
}

impl From<SocketAddr> for ManagerAddress {
    fn from(address: SocketAddr) -> ManagerAddress {
        ManagerAddress::Net(address)
    }
}

impl fmt::Display for ManagerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManagerAddress::Net(address) => address.fmt(f),
            ManagerAddress::Local(name) => write!(f, "@{name}"),
        }
    }
}

/// The address of an abstract socket.
///
/// # Errors
/// The name is too long.
pub fn abstract_socket(name: &str) -> std::io::Result<SockAddr> {
    SockAddr::unix(format!("\0{name}"))
}

/// The addresses of this host's interfaces, IPv4 first, or of those that the user chose. Loopback
/// and link-local addresses mean nothing elsewhere and are left out, unless they were chosen.
#[must_use]
pub fn usable(choice: Option<&str>) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = network_interfaces::here()
        .into_iter()
        .flat_map(|(name, addresses)| {
            let chosen = move |a: &IpAddr| match choice {
                Some(choice) => network_interfaces::admits(choice, &name, *a),
                None => !a.is_loopback() && !is_link_local(*a),
            };
            addresses.into_iter().filter(chosen).collect::<Vec<_>>()
        })
        .collect();
    found.sort_by_key(IpAddr::is_ipv6);
    found
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    }
}

/// With a port.
#[must_use]
pub fn with_port(addresses: &[IpAddr], v6: bool, port: u16) -> Vec<SocketAddr> {
    let family = addresses.iter().filter(|a| a.is_ipv6() == v6);
    family.map(|a| SocketAddr::new(*a, port)).collect()
}
