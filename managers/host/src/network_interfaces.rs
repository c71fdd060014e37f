//! Whether this machine has the interface that ranks are to listen on; the rule is that of
//! `REJOIN_TCP_INTERFACE`: a name, or a network.

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Refuses a choice that matches no interface of this machine.
///
/// # Errors
/// What is wrong with the choice, and the existing interfaces.
pub fn check(choice: &str) -> Result<(), String> {
    let here = here();
    if here.is_empty() || meets(choice, &here)? {
        return Ok(());
    }
    Err(format!(
        "no interface that is up has such a name or network; there are {}",
        shown(&here)
    ))
}

/// Interfaces as people read them: `eth0 (10.0.0.1), lo (127.0.0.1, ::1)`.
#[must_use]
pub fn shown(here: &Interfaces) -> String {
    let shown = here.iter().map(|(name, addresses)| {
        let list: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
        format!("{name} ({})", list.join(", "))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Names of interfaces, and their addresses.
pub type Interfaces = BTreeMap<String, Vec<IpAddr>>;

/// Interfaces that are up, with their addresses.
#[must_use]
pub fn here() -> Interfaces {
    let mut found = Interfaces::new();
    for one in getifaddrs().into_iter().flatten() {
        let address = one.address.and_then(|a| {
            let v4 = a.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
            v4.or_else(|| a.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
        });
        if let Some(address) = address
            && one.flags.contains(InterfaceFlags::IFF_UP)
        {
            found.entry(one.interface_name).or_default().push(address);
        }
    }
    found
}

/// Whether an interface's address is among those that the user chose.
#[must_use]
pub fn admits(choice: &str, name: &str, address: IpAddr) -> bool {
    let one = Interfaces::from([(name.to_string(), vec![address])]);
    meets(choice, &one).unwrap_or(false)
}

fn meets(choice: &str, here: &Interfaces) -> Result<bool, &'static str> {
    let Some((address, prefix)) = choice.split_once('/') else {
        return Ok(here.contains_key(choice));
    };
    let wrong = "a name, or a network as address/prefix, such as 10.0.0.0/8, is needed";
    let address: IpAddr = address.parse().map_err(|_| wrong)?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let prefix: u32 = prefix.parse().map_err(|_| wrong)?;
    if prefix > width {
        return Err(wrong);
    }
    let mut addresses = here.values().flatten();
    Ok(addresses.any(|a| network(*a, prefix) == network(address, prefix)))
}

/// The first `prefix` bits, and which family they are of.
fn network(address: IpAddr, prefix: u32) -> (bool, u128) {
    let (bits, width) = match address {
        IpAddr::V4(a) => (u128::from(u32::from(a)), 32),
        IpAddr::V6(a) => (u128::from(a), 128),
    };
    let kept = bits
        .checked_shr(u32::saturating_sub(width, prefix))
        .unwrap_or(0);
    (address.is_ipv4(), kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_or_a_network_is_met() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let here = Interfaces::from([
            ("lo".to_string(), vec![address("127.0.0.1"), address("::1")]),
            ("eth0".to_string(), vec![address("10.1.2.3")]),
        ]);
        for good in [
            "lo",
            "eth0",
            "10.0.0.0/8",
            "10.1.2.3/32",
            "::/0",
            "::1/128",
            "0.0.0.0/0",
        ] {
            assert_eq!(meets(good, &here), Ok(true), "{good}");
        }
        for absent in ["eth1", "", "10.1.2.3", "11.0.0.0/8", "fd00::/64"] {
            assert_eq!(meets(absent, &here), Ok(false), "{absent}");
        }
        for wrong in ["10.0.0.0/33", "lo/8", "10.0.0.0/x", "::/129"] {
            assert!(meets(wrong, &here).is_err(), "{wrong}");
        }
    }
}
