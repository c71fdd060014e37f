//! Host lists: the hosts that the user names, and the ranks of each.

use super::advertised_site::{self, AdvertisedSite};
use super::arguments::{Given, JobArguments, MapBy, ProgramArguments};
use super::segments;
use crate::launch::machines::{Machine, Machines};
use rejoin_channel_table::LanId;
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::detector::DetectorSettings;
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_report::query::NamedHost;
use std::ffi::OsString;
use std::path::Path;

/// A host's name, its site, and how many ranks it takes before the next one has its turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Slots {
    name: String,
    /// Empty: none is named.
    lan: LanId,
    slots: u32,
}

/// The default launch agent: no X11, no terminal.
const AGENT: &str = "ssh -x -T";

/// Most slots of a host.
const MOST_SLOTS: u32 = 1_000_000;

/// Works out the hosts of a job whose programs have so many ranks each.
pub(super) fn machines(
    job: &JobArguments,
    programs: &[ProgramArguments],
    counts: &[u32],
    given: Given<'_>,
) -> Result<Machines, String> {
    let own = nix::unistd::gethostname().unwrap_or_default();
    let own = own.to_string_lossy().into_owned();
    let from_file = job.hostfile.as_deref().map(hostfile).transpose()?;
    let mut found = Finder {
        own: own.clone(),
        hosts: Vec::new(),
        slots: Vec::new(),
        used: Vec::new(),
    };
    let mut placement = Vec::new();
    for (program, &count) in programs.iter().zip(counts) {
        let named = program.host.as_deref().map(list).transpose();
        let named = named.map_err(|why| format!("--host {why}"))?;
        let here = || {
            vec![Slots {
                name: "localhost".into(),
                slots: 1,
                ..Slots::default()
            }]
        };
        let slots = named.or_else(|| from_file.clone()).unwrap_or_else(here);
        let indices = found.add(&slots)?;
        placement.extend(found.place(&indices, count, job.map_by));
    }
    let total: usize = counts.iter().map(|&c| c as usize).sum();
    placement.truncate(total);
    if let Some(spare) = &job.spare {
        found.add(&list(spare).map_err(|why| format!("--spare {why}"))?)?;
    }
    found.share_site();
    let detection = DetectorSettings {
        detector: job.detector.into(),
        interval: job.probe_interval,
        timeout: job.probe_timeout,
    };
    for (host, slots) in found.hosts.iter_mut().zip(&found.slots) {
        host.slots = *slots;
    }
    for text in &job.site {
        AdvertisedSite::parse(text)?.divide(&mut found.hosts)?;
    }
    let agent = job.launch_agent.as_deref().unwrap_or(AGENT);
    let shown = || given("launch_agent", agent);
    let words = segments::words(agent).map_err(|e| format!("{}: {e}", shown()))?;
    if words.is_empty() {
        return Err(format!("{}: there is no command", shown()));
    }
    Ok(Machines {
        hosts: found.hosts,
        placement,
        agent: words,
        program: program_there(job.prefix.as_deref())?,
        terms: Terms::new(job.host_lease, job.host_patience).with_detector(detection),
    })
}

/// Where this program is on other hosts: where it is here, unless the user says another folder.
fn program_there(prefix: Option<&Path>) -> Result<OsString, String> {
    if let Some(prefix) = prefix {
        if !prefix.is_absolute() {
            let shown = prefix.display();
            return Err(format!("--prefix {shown}: an absolute path is needed"));
        }
        return Ok(prefix.join("bin/mpirun").into());
    }
    let own = std::env::current_exe().map_err(|e| {
        format!(
            "can't find this program: {}",
            rejoin_managers_host::error::system_text(&e)
        )
    })?;
    Ok(own.into())
}

/// Hosts, in the order in which they are found.
struct Finder {
    own: String,
    hosts: Vec<Machine>,
    slots: Vec<u32>,
    used: Vec<u32>,
}

impl Finder {
    fn is_here(&self, name: &str) -> bool {
        is_own(name, &self.own)
    }

    /// Adds hosts, each once. Returns their numbers, in order.
    fn add(&mut self, list: &[Slots]) -> Result<Vec<HostIndex>, String> {
        let mut indices = Vec::new();
        let mut fresh = Vec::new();
        for Slots { name, lan, slots } in list {
            let here = self.is_here(name);
            let same = |h: &Machine| h.name == *name || (h.here && here);
            let index = self.hosts.iter().position(same).unwrap_or_else(|| {
                self.hosts.push(Machine {
                    name: if here { self.own.clone() } else { name.clone() },
                    here,
                    lost: false,
                    slots: 0,
                    lan: LanId::default(),
                    advertised: None,
                });
                self.slots.push(0);
                self.used.push(0);
                fresh.push(self.hosts.len() - 1);
                self.hosts.len() - 1
            });
            let known = &mut self.hosts[index].lan;
            if known.0.is_empty() {
                known.clone_from(lan);
            } else if !lan.0.is_empty() && known != lan {
                return Err(format!("host {name} is at two sites: {known} and {lan}"));
            }
            if fresh.contains(&index) {
                // Named twice, it has both.
                self.slots[index] = self.slots[index].saturating_add(*slots);
            }
            if !indices.contains(&index) {
                indices.push(index);
            }
        }
        Ok(indices)
    }

    /// Hosts without a site are where this one is.
    fn share_site(&mut self) {
        let own = self.hosts.iter().find(|host| host.here);
        let own = own.map(|host| host.lan.clone()).unwrap_or_default();
        let nowhere = self.hosts.iter_mut().filter(|host| host.lan.0.is_empty());
        nowhere.for_each(|host| host.lan.clone_from(&own));
    }

    /// Places ranks: up to the slots, then round again.
    fn place(&mut self, hosts: &[HostIndex], count: u32, by: MapBy) -> Vec<HostIndex> {
        let mut placed = Vec::with_capacity(count as usize);
        let mut round = 1u32;
        while placed.len() < count as usize {
            let before = placed.len();
            for &host in hosts {
                let most = self.slots[host].max(1).saturating_mul(round);
                let free = most.saturating_sub(self.used[host]);
                let take = match by {
                    MapBy::Node => free.min(1),
                    _ => free,
                };
                let take = take.min(count - placed.len() as u32);
                self.used[host] += take;
                placed.extend((0..take).map(|_| host));
            }
            if placed.len() == before {
                round += 1;
            }
        }
        placed
    }
}

/// The hosts of `a:2,b@site`, for a running job whose mpirun is on this host.
pub(super) fn named(text: &str) -> Result<Vec<NamedHost>, String> {
    let own = nix::unistd::gethostname().unwrap_or_default();
    let own = own.to_string_lossy().into_owned();
    let host = |Slots { name, lan, slots }: Slots| {
        let is_here = is_own(&name, &own);
        NamedHost {
            name: if is_here { own.clone() } else { name },
            slots,
            is_here,
            lan,
        }
    };
    Ok(list(text)?.into_iter().map(host).collect())
}

fn is_own(name: &str, own: &str) -> bool {
    matches!(name, "localhost" | "127.0.0.1" | "::1") || name == own
}

/// Reads `a:2,b,c@site:4`. Hosts before one that names a site share it, up to the one before that
/// does.
fn list(text: &str) -> Result<Vec<Slots>, String> {
    let one = |entry: &str| {
        let (name, lan, slots) = match entry.split_once('@') {
            Some((name, rest)) => {
                let (site, slots) = rest.split_once(':').unzip();
                let site = site.unwrap_or(rest);
                if name.matches(':').count() == 1 {
                    return Err(format!("{entry}: slots follow the site (HOST@SITE:SLOTS)"));
                }
                (name, advertised_site::check(site).map(|()| site), slots)
            }
            None => match entry.rsplit_once(':') {
                // An IPv6 address has several colons and no slots.
                Some((name, slots)) if !name.contains(':') => (name, Ok(""), Some(slots)),
                _ => (entry, Ok(""), None),
            },
        };
        let slots = slots.map_or(Ok(1), number);
        let lan = lan.and_then(|lan| Ok((lan, check(name)?)));
        let (lan, ()) = lan.map_err(|e| format!("{text}: {e}"))?;
        Ok(Slots {
            name: name.into(),
            lan: LanId(lan.into()),
            slots: slots.map_err(|e| format!("{entry}: {e}"))?,
        })
    };
    let found: Result<Vec<Slots>, String> =
        text.split(',').map(|entry| one(entry.trim())).collect();
    let mut found = found?;
    let mut site = LanId::default();
    for host in found.iter_mut().rev() {
        match host.lan.0.is_empty() {
            true => host.lan.clone_from(&site),
            false => site.clone_from(&host.lan),
        }
    }
    Ok(found)
}

fn number(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|n| (1..=MOST_SLOTS).contains(n));
    number.ok_or_else(|| format!("'{text}' is no number of slots from 1 to {MOST_SLOTS}"))
}

/// Longest name of a host, in bytes, as in DNS.
const LONGEST_NAME: usize = 255;

/// A name that an agent can't take for an option, and that means nothing to a shell.
fn check(name: &str) -> Result<(), String> {
    let wrong = |c: char| !c.is_alphanumeric() && !"._:%[]-".contains(c);
    if name.is_empty() {
        Err("the name of a host is empty".into())
    } else if name.len() > LONGEST_NAME {
        Err(format!("a name of a host has at most {LONGEST_NAME} bytes"))
    } else if name.starts_with('-') || name.contains(wrong) {
        Err(format!("'{name}' is no name of a host"))
    } else {
        Ok(())
    }
}

/// Reads a host file: a host a line, `name`, `name@site:2`, `name slots=2 site=name`.
fn hostfile(path: &Path) -> Result<Vec<Slots>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| {
        format!(
            "--hostfile: can't read {shown}: {}",
            rejoin_managers_host::error::system_text(&e)
        )
    })?;
    let found = hostfile_lines(&text).map_err(|e| format!("--hostfile {shown}, {e}"))?;
    if found.is_empty() {
        return Err(format!("--hostfile {shown} names no host"));
    }
    Ok(found)
}

fn hostfile_lines(text: &str) -> Result<Vec<Slots>, String> {
    let mut found = Vec::new();
    for (line, at) in text.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or_default();
        // `slots = 2` is `slots=2`.
        let parts: Vec<&str> = line.split('=').map(str::trim).collect();
        let line = parts.join("=");
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else {
            continue;
        };
        let mut entry = list(first).map_err(|e| format!("line {at}: {e}"))?;
        for word in words {
            let set: Result<(), String> = match word.split_once('=') {
                Some(("slots", value)) => {
                    number(value).map(|slots| entry.iter_mut().for_each(|host| host.slots = slots))
                }
                Some(("site", value)) => advertised_site::check(value).map(|()| {
                    let site = LanId(value.into());
                    entry.iter_mut().for_each(|host| host.lan.clone_from(&site));
                }),
                // Words of other launchers that have no use here.
                Some(("max_slots" | "max-slots", _)) => continue,
                _ => Err(format!("'{word}' is neither slots=N nor site=NAME")),
            };
            set.map_err(|e| format!("line {at}: {e}"))?;
        }
        found.extend(entry);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder() -> Finder {
        Finder {
            own: "here".into(),
            hosts: Vec::new(),
            slots: Vec::new(),
            used: Vec::new(),
        }
    }

    fn placed(hosts: &str, count: u32, by: MapBy) -> Vec<HostIndex> {
        let mut finder = finder();
        let indices = finder.add(&list(hosts).unwrap()).unwrap();
        finder.place(&indices, count, by)
    }

    #[test]
    fn slots_are_filled_and_then_filled_again() {
        assert_eq!(placed("a:2,b:2", 4, MapBy::Slot), [0, 0, 1, 1]);
        assert_eq!(placed("a:2,b:2", 4, MapBy::Node), [0, 1, 0, 1]);
        assert_eq!(placed("a,b", 5, MapBy::Slot), [0, 1, 0, 1, 0]);
        assert_eq!(placed("a:3,b", 6, MapBy::Node), [0, 1, 0, 0, 0, 1]);
        assert_eq!(placed("a,b,a", 3, MapBy::Slot), [0, 0, 1]);
    }

    #[test]
    fn this_host_has_many_names() {
        let mut finder = finder();
        let hosts = list("localhost:2,b,here,127.0.0.1").unwrap();
        let indices = finder.add(&hosts).unwrap();
        assert_eq!((indices, &finder.slots[..]), (vec![0, 1], &[4, 1][..]));
        assert!(finder.hosts[0].here && !finder.hosts[1].here);
        assert_eq!(finder.hosts[0].name, "here");
    }

    #[test]
    fn host_files_are_those_of_other_launchers() {
        let text = "# all\na slots = 2 max_slots= 4\nb:3 # three\n\nc\n";
        let found = hostfile_lines(text).unwrap();
        let found: Vec<_> = found.iter().map(|s| (s.name.as_str(), s.slots)).collect();
        assert_eq!(found, [("a", 2), ("b", 3), ("c", 1)]);
        for (wrong, what) in [
            ("a slots=x", "line 1: 'x' is no number"),
            ("a\nb cpus=2", "line 2: 'cpus=2'"),
            ("a site=x/y", "line 1: 'x/y' is no name of a site"),
            ("a:0", "'0' is no number"),
            ("-oProxyCommand=x", "no name of a host"),
            ("$(reboot)", "no name of a host"),
            ("a/b", "no name of a host"),
            (&"a".repeat(256), "at most 255 bytes"),
        ] {
            let said = hostfile_lines(wrong).unwrap_err();
            assert!(said.contains(what), "{wrong}: {said}");
        }
    }

    #[test]
    fn hosts_have_the_site_that_the_list_names_next() {
        let sites = |text: &str| {
            let mut finder = finder();
            finder.add(&list(text)?)?;
            finder.share_site();
            let hosts = finder.hosts.iter().zip(&finder.slots);
            let shown = hosts.map(|(h, slots)| format!("{}@{}:{slots}", h.name, h.lan));
            Ok::<_, String>(shown.collect::<Vec<_>>().join(" "))
        };
        for (text, wanted) in [
            ("a,b:2", "a@:1 b@:2"),
            ("a,b@x,c:3,d@y:2", "a@x:1 b@x:1 c@y:3 d@y:2"),
            ("a@x,b", "a@x:1 b@:1"),
            // Without a site, it is where mpirun is.
            ("a@x,localhost@y,b", "a@x:1 here@y:1 b@y:1"),
            ("::1@x:4,fe80::2@y", "here@x:4 fe80::2@y:1"),
            ("a@x,a:3", "a@x:4"),
        ] {
            assert_eq!(sites(text).as_deref(), Ok(wanted), "{text}");
        }
        assert_eq!(
            sites("a@x,a@y").unwrap_err(),
            "host a is at two sites: x and y"
        );
        for wrong in ["a@", "a@:2", "a@x y", "a@x@y", "@x", "a:2@x"] {
            assert!(sites(wrong).is_err(), "{wrong}");
        }
        let found = hostfile_lines("a@x slots=2\nb slots=3 site=y\n").unwrap();
        let found: Vec<_> = found.iter().map(|h| (&h.lan.0[..], h.slots)).collect();
        assert_eq!(found, [("x", 2), ("y", 3)]);
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for wrong in ["", "a,", ",a", "-x", "a b", "a:", "a:-1"] {
            assert!(list(wrong).is_err(), "{wrong}");
        }
        assert_eq!(list("::1").unwrap()[0].name, "::1");
    }
}
