//! Sites: their names, and the addresses at which other sites reach them.

use crate::launch::machines::Machine;
use rejoin_channel_table::LanId;
use rejoin_channel_table::card::MAX_NAME;
use rejoin_wire::parse_port_range;
use std::net::IpAddr;

/// Ports that a host needs beside those of its ranks: for other local managers, and for copies of
/// images.
const MANAGER_PORTS: u32 = 2;

/// Ports that mpirun and the central manager need on their host.
const LAUNCHER_PORTS: u32 = 2;

/// A name of a site: a word.
pub(super) fn check(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(fits) {
        true => Ok(()),
        false => Err(format!(
            "'{name}' is no name of a site (HOST@SITE:SLOTS): letters, digits, '.', '_' and '-'"
        )),
    }
}

/// A site whose hosts other sites reach at one address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AdvertisedSite {
    lan: LanId,
    address: IpAddr,
    ports: (u16, u16),
}

impl AdvertisedSite {
    /// Reads `north=203.0.113.1:5000-5099`.
    pub fn parse(text: &str) -> Result<AdvertisedSite, String> {
        let wrong = |why: &str| format!("--site {text}: {why}");
        let form = || wrong("NAME=ADDRESS:FIRST-LAST is needed");
        let (name, rest) = text.split_once('=').ok_or_else(form)?;
        check(name).map_err(|why| wrong(&why))?;
        let (address, ports) = rest.rsplit_once(':').ok_or_else(form)?;
        let bare = address.strip_prefix('[').and_then(|a| a.strip_suffix(']'));
        let parsed: IpAddr = bare.unwrap_or(address).parse().map_err(|_| {
            wrong(&format!(
                "'{address}' is no IP address (an IPv6 one goes in brackets)"
            ))
        })?;
        let ports = parse_port_range(ports).map_err(|why| wrong(&why.to_string()))?;
        Ok(AdvertisedSite {
            lan: LanId(name.into()),
            address: parsed,
            ports,
        })
    }

    /// Gives each host of the site its part of the ports: equal ones, in the order of the hosts.
    pub fn divide(&self, hosts: &mut [Machine]) -> Result<(), String> {
        let (lan, (first, last)) = (&self.lan, self.ports);
        let here: Vec<&mut Machine> = hosts.iter_mut().filter(|h| h.lan == *lan).collect();
        if here.is_empty() {
            return Err(format!(
                "--site {lan}: no host is at this site (HOST@{lan})"
            ));
        }
        let count = u32::from(last - first) + 1;
        let hosts = u32::try_from(here.len()).unwrap_or(u32::MAX);
        let each = count / hosts;
        for (number, host) in (0..).zip(here) {
            if host.advertised.is_some() {
                return Err(format!("--site {lan} is given twice"));
            }
            let own = if host.here { LAUNCHER_PORTS } else { 0 };
            let needs = MANAGER_PORTS + own + host.slots;
            if each < needs {
                return Err(format!(
                    "--site {lan}: host {} needs {needs} ports, and its part of {first}-{last} has \
                     {each}: one for each of its slots, {} for managers. For ranks that come back \
                     while old ones end, give each slot two",
                    host.name,
                    MANAGER_PORTS + own
                ));
            }
            let port = |offset: u32| u16::try_from(u32::from(first) + offset).unwrap_or(last);
            let ports = (port(number * each), port((number + 1) * each - 1));
            host.advertised = Some((self.address, ports));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, site: &str, here: bool) -> Machine {
        Machine {
            name: name.into(),
            here,
            lost: false,
            slots: 2,
            lan: LanId(site.into()),
            advertised: None,
        }
    }

    #[test]
    fn the_hosts_of_a_site_share_its_ports() {
        let mut hosts = [
            host("a", "north", false),
            host("b", "south", false),
            host("c", "north", true),
        ];
        let site = AdvertisedSite::parse("north=203.0.113.1:5000-5012").unwrap();
        site.divide(&mut hosts).unwrap();
        let address: IpAddr = "203.0.113.1".parse().unwrap();
        let parts = hosts.each_ref().map(|host| host.advertised);
        let of = |first, last| Some((address, (first, last)));
        assert_eq!(parts, [of(5000, 5005), None, of(5006, 5011)]);
        assert_eq!(
            site.divide(&mut hosts).unwrap_err(),
            "--site north is given twice"
        );
        let site = AdvertisedSite::parse("south=[2001:db8::1]:9000-9003").unwrap();
        site.divide(&mut hosts).unwrap();
        assert_eq!(hosts[1].advertised.unwrap().1, (9000, 9003));
    }

    #[test]
    fn sites_that_can_not_be_are_refused() {
        for (wrong, what) in [
            ("north", "NAME=ADDRESS:FIRST-LAST"),
            ("north=1.2.3.4", "NAME=ADDRESS:FIRST-LAST"),
            ("north=gate:5000-5001", "'gate' is no IP address"),
            ("north=1.2.3.4:5001-5000", "5001"),
            ("a b=1.2.3.4:5000", "'a b' is no name of a site"),
        ] {
            let said = AdvertisedSite::parse(wrong).unwrap_err();
            assert!(said.contains(what), "{wrong}: {said}");
        }
        let divided = |text: &str| {
            let mut hosts = [host("a", "north", false), host("c", "north", true)];
            let site = AdvertisedSite::parse(text).unwrap();
            site.divide(&mut hosts).unwrap_err()
        };
        assert!(divided("south=1.2.3.4:5000-5009").contains("no host is at this site"));
        assert!(divided("north=1.2.3.4:5000-5009").contains("host c needs 6 ports"));
    }
}
