//! Addresses by which other hosts reach this one.

use rejoin_managers_host::network_interfaces;
use rejoin_wire::RankOptions;
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

/// Where a manager is reached by others on other hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagerReach {
    /// The addresses of its host.
    inside: Vec<SocketAddr>,
    /// The address at which its site is reached from others, if the user has named one.
    outside: Option<SocketAddr>,
}

impl ManagerReach {
    /// The addresses of a host, and the one for other sites.
    #[must_use]
    pub fn new(inside: Vec<SocketAddr>, outside: Option<SocketAddr>) -> ManagerReach {
        ManagerReach { inside, outside }
    }

    /// The addresses to dial from the same site, or from another one. There, the addresses of the
    /// host may be those of other machines.
    #[must_use]
    pub fn seen_from(&self, same_site: bool) -> Vec<SocketAddr> {
        match self.outside.filter(|_| !same_site) {
            Some(outside) => vec![outside],
            None => self.inside.clone(),
        }
    }

    /// With this address before the others of the host.
    #[must_use]
    pub fn with_first(mut self, first: Option<IpAddr>) -> ManagerReach {
        self.inside
            .sort_by_key(|address| Some(address.ip()) != first);
        self
    }

    /// Nobody reaches it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inside.is_empty() && self.outside.is_none()
    }
}

/// Where to listen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenAt {
    /// An interface or a network that the user chose.
    pub interface: Option<String>,
    /// The ports, and the address at which these are reached from other sites.
    pub advertised: Option<(IpAddr, (u16, u16))>,
}

impl ListenAt {
    /// What the options of ranks of a host say, for their manager.
    #[must_use]
    pub fn of(options: &RankOptions) -> ListenAt {
        ListenAt {
            interface: options.interface.clone(),
            advertised: options.advertised.zip(options.port_range),
        }
    }
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
