//! One address of a network interface, and its network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One address of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The address, port 0; a link-local IPv6 one has its scope.
    pub address: SocketAddr,
    /// Length of the network's prefix in bits.
    pub prefix: u8,
}

impl Interface {
    /// The network of the address, as text, which distinguishes one LAN from another.
    #[must_use]
    pub fn network(&self) -> String {
        format!(
            "{}/{}",
            network_of(self.address.ip(), self.prefix),
            self.prefix
        )
    }
}

/// The address with everything behind the prefix cleared.
pub(super) fn network_of(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX
                .checked_shl(32 - u32::from(prefix.min(32)))
                .unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX
                .checked_shl(128 - u32::from(prefix.min(128)))
                .unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}
