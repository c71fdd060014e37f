//! Business cards: where a rank can be reached, and which of its addresses to try first.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::ids::Incarnation;

/// Most addresses on one card.
pub const MAX_ADDRESSES: usize = 16;
/// Most ends of former incarnations on one card.
pub const MAX_ENDS: usize = 64;
/// Longest host name, LAN id or local host id, in bytes (RFC 1035 allows 255 for a name).
pub const MAX_NAME: usize = 255;

/// Name of the local network that a host is on; equal names mean a direct path.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LanId(pub String);

/// Name of one running operating system; equal names mean that shared memory works.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LocalHostId(pub String);

impl fmt::Display for LanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for LocalHostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The random name of a local socket.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct LocalSocketName(pub [u8; 16]);

impl fmt::Display for LocalSocketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// One way to reach a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Address {
    /// A TCP listener.
    Tcp(SocketAddr),
    /// A local socket, over which ranks of one host pass shared memory to each other.
    Local(LocalSocketName),
    /// A TCP listener, as other sites reach it: a router passes the port on.
    Advertised(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(a) => write!(f, "tcp {a}"),
            Address::Local(name) => write!(f, "local {name}"),
            Address::Advertised(a) => write!(f, "tcp {a} from other sites"),
        }
    }
}

/// What is wrong with a card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// More than [`MAX_ADDRESSES`].
    #[error("a business card has {0} addresses, more than {MAX_ADDRESSES}")]
    TooManyAddresses(usize),
    /// More than [`MAX_ENDS`].
    #[error("a business card has the ends of {0} incarnations, more than {MAX_ENDS}")]
    TooManyEnds(usize),
    /// A name of more than [`MAX_NAME`] bytes.
    #[error("the {field} on a business card has {length} bytes, more than {MAX_NAME}")]
    NameTooLong {
        /// The field that holds the name.
        field: &'static str,
        /// Length of the name in bytes.
        length: usize,
    },
    /// A name with a control character, which could disturb a terminal or a log.
    #[error("the {0} on a business card holds a control character")]
    ControlCharacter(&'static str),
}

/// Where a rank can be reached. The rank sends its card to its manager, and the manager to all
/// ranks.
///
/// Decoding one checks its sizes: see [`BusinessCard::check`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "UncheckedCard")]
pub struct BusinessCard {
    /// Every address that the rank listens on.
    pub addresses: Vec<Address>,
    /// Host name, for messages to the user.
    pub host: String,
    /// The local network.
    pub lan: LanId,
    /// The running operating system.
    pub local_host: LocalHostId,
    /// Process id on that host.
    pub pid: u32,
    /// Of a rank that logs optimistically: incarnations that have ended, and up to which marks of
    /// their logs they can be repeated; at most [`MAX_ENDS`]. See `rejoin-logging`.
    pub log_ends: Vec<(Incarnation, u64)>,
}

#[derive(Deserialize)]
struct UncheckedCard {
    addresses: Vec<Address>,
    host: String,
    lan: LanId,
    local_host: LocalHostId,
    pid: u32,
    log_ends: Vec<(Incarnation, u64)>,
}

impl TryFrom<UncheckedCard> for BusinessCard {
    type Error = CardError;

    fn try_from(raw: UncheckedCard) -> Result<Self, CardError> {
        let card = BusinessCard {
            addresses: raw.addresses,
            host: raw.host,
            lan: raw.lan,
            local_host: raw.local_host,
            pid: raw.pid,
            log_ends: raw.log_ends,
        };
        card.check()?;
        Ok(card)
    }
}

/// How far apart two ranks are, as their cards tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proximity {
    /// The same running operating system.
    SameHost,
    /// The same local network.
    SameLan,
    /// Anything else.
    Remote,
}

impl BusinessCard {
    /// Checks the limits of the card, as decoding does.
    ///
    /// # Errors
    /// Too many addresses, a name that is too long or holds a control character.
    pub fn check(&self) -> Result<(), CardError> {
        if self.addresses.len() > MAX_ADDRESSES {
            return Err(CardError::TooManyAddresses(self.addresses.len()));
        }
        if self.log_ends.len() > MAX_ENDS {
            return Err(CardError::TooManyEnds(self.log_ends.len()));
        }
        let names = [
            ("host name", &self.host),
            ("LAN id", &self.lan.0),
            ("local host id", &self.local_host.0),
        ];
        for (field, name) in names {
            if name.len() > MAX_NAME {
                return Err(CardError::NameTooLong {
                    field,
                    length: name.len(),
                });
            }
            if name.chars().any(char::is_control) {
                return Err(CardError::ControlCharacter(field));
            }
        }
        Ok(())
    }

    /// How far `peer` is from here. An empty id equals nothing: it means "not known".
    pub fn proximity(&self, peer: &BusinessCard) -> Proximity {
        if !self.local_host.0.is_empty() && self.local_host == peer.local_host {
            Proximity::SameHost
        } else if !self.lan.0.is_empty() && self.lan == peer.lan {
            Proximity::SameLan
        } else {
            Proximity::Remote
        }
    }

    /// The addresses of `peer`, in the order in which to try them from here. Addresses that cannot
    /// work are left out: the loopback of another host, a link-local address from outside the link.
    /// From another site, an advertised address is the only one: at the others, other machines may
    /// answer.
    pub fn order(&self, peer: &BusinessCard) -> Vec<Address> {
        let proximity = self.proximity(peer);
        let advertised = peer.addresses.iter().filter_map(|address| match address {
            Address::Advertised(at) if proximity == Proximity::Remote => Some(Address::Tcp(*at)),
            _ => None,
        });
        let advertised: Vec<Address> = advertised.collect();
        if !advertised.is_empty() {
            return advertised;
        }
        let mut ranked: Vec<(u8, usize, Address)> = Vec::with_capacity(peer.addresses.len());
        for (position, &address) in peer.addresses.iter().enumerate() {
            let preference = match address {
                Address::Tcp(socket) => preference(proximity, socket.ip()),
                Address::Local(_) => (proximity == Proximity::SameHost).then_some(0),
                Address::Advertised(_) => None,
            };
            if let Some(preference) = preference {
                ranked.push((preference, position, address));
            }
        }
        ranked.sort_unstable_by_key(|&(preference, position, _)| (preference, position));
        ranked.into_iter().map(|(_, _, address)| address).collect()
    }
}

/// Reach of an address, from narrow to wide.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Loopback,
    Link,
    Private,
    Global,
}

fn scope(ip: IpAddr) -> Scope {
    let ip = ip.to_canonical();
    if ip.is_loopback() {
        return Scope::Loopback;
    }
    let (link, private) = match ip {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.is_private()),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.is_unique_local()),
    };
    match (link, private) {
        (true, _) => Scope::Link,
        (_, true) => Scope::Private,
        _ => Scope::Global,
    }
}

/// Smaller is tried first; `None`: of no use at that distance.
fn preference(proximity: Proximity, ip: IpAddr) -> Option<u8> {
    if ip.is_unspecified() || ip.is_multicast() {
        return None;
    }
    match (proximity, scope(ip)) {
        (Proximity::SameHost, Scope::Loopback) => Some(1),
        (Proximity::SameHost | Proximity::SameLan, Scope::Private) => Some(2),
        (Proximity::SameHost | Proximity::SameLan, Scope::Global) => Some(3),
        (Proximity::SameHost | Proximity::SameLan, Scope::Link) => Some(4),
        (Proximity::Remote, Scope::Global) => Some(2),
        (Proximity::Remote, Scope::Private) => Some(3),
        (Proximity::Remote, Scope::Link) | (_, Scope::Loopback) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(addresses: &[&str], lan: &str, local_host: &str) -> BusinessCard {
        BusinessCard {
            addresses: addresses
                .iter()
                .map(|a| Address::Tcp(a.parse().unwrap()))
                .collect(),
            host: "node1".into(),
            lan: LanId(lan.into()),
            local_host: LocalHostId(local_host.into()),
            pid: 7,
            log_ends: Vec::new(),
        }
    }

    fn order(me: &BusinessCard, peer: &BusinessCard) -> Vec<String> {
        me.order(peer)
            .iter()
            .map(|address| match address {
                Address::Tcp(a) => a.ip().to_string(),
                Address::Local(name) => name.to_string(),
                Address::Advertised(_) => panic!("no address to dial"),
            })
            .collect()
    }

    #[test]
    fn addresses_are_tried_from_near_to_far() {
        let peer = card(
            &[
                "9.9.9.9:1",
                "[fe80::1]:1",
                "10.0.0.2:1",
                "127.0.0.1:1",
                "[::1]:1",
                "0.0.0.0:1",
            ],
            "lan",
            "host",
        );
        let same_host = order(&card(&[], "lan", "host"), &peer);
        assert_eq!(
            same_host,
            ["127.0.0.1", "::1", "10.0.0.2", "9.9.9.9", "fe80::1"]
        );
        let same_lan = order(&card(&[], "lan", "other"), &peer);
        assert_eq!(same_lan, ["10.0.0.2", "9.9.9.9", "fe80::1"]);
        let remote = order(&card(&[], "far", "other"), &peer);
        assert_eq!(remote, ["9.9.9.9", "10.0.0.2"]);
    }

    #[test]
    fn a_local_address_is_for_the_same_host_and_comes_first() {
        let mut peer = card(&["127.0.0.1:1", "10.0.0.2:1"], "lan", "host");
        peer.addresses
            .push(Address::Local(LocalSocketName([0x0a; 16])));
        let same_host = order(&card(&[], "lan", "host"), &peer);
        assert_eq!(same_host, [&"0a".repeat(16), "127.0.0.1", "10.0.0.2"]);
        assert_eq!(order(&card(&[], "lan", "other"), &peer), ["10.0.0.2"]);
        assert_eq!(order(&card(&[], "far", "other"), &peer), ["10.0.0.2"]);
    }

    #[test]
    fn other_sites_dial_the_advertised_address_only() {
        let mut peer = card(&["127.0.0.1:1", "10.0.0.2:1"], "lan", "host");
        let outer = "203.0.113.1:5000".parse().unwrap();
        peer.addresses.insert(0, Address::Advertised(outer));
        assert_eq!(order(&card(&[], "lan", "other"), &peer), ["10.0.0.2"]);
        let same_host = order(&card(&[], "lan", "host"), &peer);
        assert_eq!(same_host, ["127.0.0.1", "10.0.0.2"]);
        for far in ["far", ""] {
            assert_eq!(order(&card(&[], far, "other"), &peer), ["203.0.113.1"]);
        }
    }

    #[test]
    fn unknown_ids_are_not_equal() {
        let a = card(&[], "", "");
        assert_eq!(a.proximity(&a), Proximity::Remote);
    }

    #[test]
    fn limits_are_checked() {
        let mut long = card(&[], "l", "h");
        long.host = "x".repeat(256);
        assert!(matches!(
            long.check(),
            Err(CardError::NameTooLong { length: 256, .. })
        ));
        let mut many = card(&[], "l", "h");
        many.addresses = vec![Address::Tcp("1.2.3.4:5".parse().unwrap()); 17];
        assert_eq!(many.check(), Err(CardError::TooManyAddresses(17)));
        let mut ends = card(&[], "l", "h");
        ends.log_ends = vec![(Incarnation(0), 1); 65];
        assert_eq!(ends.check(), Err(CardError::TooManyEnds(65)));
        let mut escape = card(&[], "l", "h");
        escape.lan.0 = "\x1b[2J".into();
        assert_eq!(escape.check(), Err(CardError::ControlCharacter("LAN id")));
        assert_eq!(card(&["1.2.3.4:5"], "l", "h").check(), Ok(()));
    }
}
