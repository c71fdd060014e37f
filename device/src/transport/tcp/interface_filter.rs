//! Which of this machine's addresses go into the business card.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

use super::interface_address::{Interface, network_of};
use super::system;
use crate::error::{Error, Result};

/// The user's choice of interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceFilter {
    /// An interface's name, such as `eth0`.
    Name(String),
    /// A network, such as `10.0.0.0/8` or `fd00::/64`.
    Network {
        /// The network's address.
        address: IpAddr,
        /// The prefix's length in bits.
        prefix: u8,
    },
}

impl InterfaceFilter {
    /// Reads a name or a network in CIDR form.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let Some((address, prefix)) = text.split_once('/') else {
            // IFNAMSIZ counts the terminating zero.
            return if text.is_empty() || text.len() > 15 {
                Err("an interface's name has 1 to 15 characters".to_owned())
            } else {
                Ok(Self::Name(text.to_owned()))
            };
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| "a network is written address/prefix, such as 10.0.0.0/8".to_owned())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        match prefix.parse::<u8>() {
            Ok(prefix) if prefix <= longest => Ok(Self::Network { address, prefix }),
            _ => Err(format!("the prefix's length is between 0 and {longest}")),
        }
    }

    fn admits(&self, interface: &Interface) -> bool {
        match self {
            Self::Name(name) => *name == interface.name,
            Self::Network { address, prefix } => {
                network_of(*address, *prefix) == network_of(interface.address.ip(), *prefix)
            }
        }
    }
}

/// The filter as the user wrote it.
impl Display for InterfaceFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Network { address, prefix } => write!(f, "{address}/{prefix}"),
        }
    }
}

/// The addresses that other hosts may use, in the system's order; IPv4 first. Link-local IPv6
/// addresses mean nothing on another host (the scope is local), so they are left out. With no
/// filter, loopback is left out too. Empty on a machine without a network.
///
/// # Errors
/// When the system does not list its interfaces, or a filter admits none of them.
pub fn usable(filter: Option<&InterfaceFilter>) -> Result<Vec<Interface>> {
    let mut found = system::list()?;
    found.retain(|interface| {
        let ip = interface.address.ip();
        let link_local = matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        !link_local && filter.map_or(!ip.is_loopback(), |filter| filter.admits(interface))
    });
    if let (Some(filter), true) = (filter, found.is_empty()) {
        return Err(Error::Environment {
            variable: "REJOIN_TCP_INTERFACE",
            value: filter.to_string(),
            problem: "no interface that is up has such a name or network".to_owned(),
        });
    }
    found.sort_by_key(|interface| interface.address.is_ipv6());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn filters_are_names_or_networks() {
        assert_eq!(
            InterfaceFilter::parse("lo"),
            Ok(InterfaceFilter::Name("lo".to_owned()))
        );
        assert!(InterfaceFilter::parse("10.0.0.0/8").is_ok());
        assert!(InterfaceFilter::parse("fd00::/64").is_ok());
        for bad in [
            "",
            "10.0.0.0/33",
            "x/8",
            "fd00::/129",
            "a-very-long-interface-name",
        ] {
            assert!(InterfaceFilter::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_network_admits_its_addresses_only() {
        let filter = InterfaceFilter::parse("10.1.0.0/16").expect("valid");
        let at = |text: &str| Interface {
            name: "x".to_owned(),
            address: SocketAddr::new(text.parse().expect("address"), 0),
            prefix: 24,
        };
        assert!(filter.admits(&at("10.1.2.3")));
        assert!(!filter.admits(&at("10.2.2.3")));
        assert!(!filter.admits(&at("fd00::1")));
        assert_eq!(at("10.1.2.3").network(), "10.1.2.0/24");
        assert!(
            InterfaceFilter::parse("0.0.0.0/0")
                .expect("valid")
                .admits(&at("9.9.9.9"))
        );
    }

    #[test]
    fn loopback_only_on_request() {
        let lo = usable(Some(&InterfaceFilter::Name("lo".to_owned()))).expect("lo is up");
        assert!(
            lo.iter()
                .all(|interface| interface.address.ip().is_loopback())
        );
        let rest = usable(None).expect("listed");
        assert!(
            rest.iter()
                .all(|interface| !interface.address.ip().is_loopback())
        );
        for text in ["nosuchdev0", "203.0.113.77/32"] {
            let none = InterfaceFilter::parse(text).expect("valid");
            let error = usable(Some(&none)).expect_err("refused").to_string();
            assert!(error.contains(&format!("={text}:")), "{error}");
        }
    }
}
