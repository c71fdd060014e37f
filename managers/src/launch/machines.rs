//! The hosts of a job, and which ranks are placed where.

use rejoin_channel_table::LanId;
use rejoin_managers_net::address::ListenAt;
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::central::{Failover, Leases};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_report::history::PlacedRanks;
use rejoin_wire::RankOptions;
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;

/// One host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Name of the host, as the user gave it.
    pub name: String,
    /// The host is this one.
    pub here: bool,
    /// The host was lost, and is not used again.
    pub lost: bool,
    /// How many ranks it takes before others get more.
    pub slots: u32,
    /// Site of the host; empty: none is known.
    pub lan: LanId,
    /// Where other sites reach its part of the ports of its site, if the user has named that.
    pub advertised: Option<(IpAddr, (u16, u16))>,
}

/// All hosts of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machines {
    /// In the order in which they were named; spare hosts come last.
    pub hosts: Vec<Machine>,
    /// For each rank its host.
    pub placement: Vec<HostIndex>,
    /// The command that starts local managers on other hosts. The host and a command line follow
    /// it.
    pub agent: Vec<OsString>,
    /// This program's path there.
    pub program: OsString,
    /// By what hosts go that are reached over a network.
    pub terms: Terms,
}

impl Machines {
    /// A job of so many ranks on this host, whose name is given.
    #[must_use]
    pub fn only(name: String, ranks: usize) -> Machines {
        let here = true;
        Machines {
            hosts: vec![Machine {
                name,
                here,
                lost: false,
                slots: 1,
                lan: LanId::default(),
                advertised: None,
            }],
            placement: vec![0; ranks],
            agent: Vec::new(),
            program: OsString::new(),
            terms: Terms::new(5000, 30_000),
        }
    }

    /// A host is at the site of this one.
    #[must_use]
    pub fn is_near(&self, host: HostIndex) -> bool {
        let own = self.sites()[0];
        self.hosts.get(host).is_some_and(|host| host.lan == *own)
    }

    /// Where managers of this host listen for others.
    #[must_use]
    pub fn listen_at(&self, options: &RankOptions) -> ListenAt {
        let own = self.hosts.iter().find(|host| host.here);
        ListenAt {
            interface: options.interface.clone(),
            advertised: own.and_then(|host| host.advertised),
        }
    }

    /// The sites, each once: that of this host, and then the others in the order of the hosts.
    #[must_use]
    pub fn sites(&self) -> Vec<&LanId> {
        const NOWHERE: &LanId = &LanId(String::new());
        let own = self.hosts.iter().find(|host| host.here);
        let mut sites = vec![own.map_or(NOWHERE, |host| &host.lan)];
        for host in &self.hosts {
            if !sites.contains(&&host.lan) {
                sites.push(&host.lan);
            }
        }
        sites
    }

    /// The hosts' names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.hosts.iter().map(|h| h.name.clone()).collect()
    }

    /// Data with which central places the ranks of a lost host. `takes_in`: other hosts can take
    /// them in within this launch.
    #[must_use]
    pub fn failover(&self, takes_in: bool) -> Failover {
        let hosts = self.hosts.iter().enumerate();
        let lost = hosts.filter(|(_, host)| host.lost);
        Failover {
            lost: lost.map(|(host, _)| host).collect(),
            takes_in,
        }
    }

    /// How many ranks a host has.
    #[must_use]
    pub fn ranks_on(&self, host: HostIndex) -> usize {
        self.placement.iter().filter(|h| **h == host).count()
    }

    /// The hosts that have ranks, and these ranks.
    #[must_use]
    pub fn placed_ranks(&self) -> Vec<PlacedRanks> {
        let hosts = self.hosts.iter().map(|host| PlacedRanks {
            host: Some(host.name.clone()),
            site: (!host.lan.0.is_empty()).then(|| host.lan.0.clone()),
            ranks: Vec::new(),
        });
        let mut hosts: Vec<_> = hosts.collect();
        for (rank, host) in (0u32..).zip(&self.placement) {
            let Some(placed) = hosts.get_mut(*host) else {
                continue;
            };
            match placed.ranks.last_mut() {
                Some((_, last)) if *last + 1 == rank => *last = rank,
                _ => placed.ranks.push((rank, rank)),
            }
        }
        hosts.retain(|host| !host.ranks.is_empty());
        hosts
    }

    /// Some ranks run on other hosts than this one.
    #[must_use]
    pub fn is_networked(&self) -> bool {
        self.placement.iter().any(|&host| self.is_remote(host))
    }

    /// A host is not this one.
    #[must_use]
    pub fn is_remote(&self, host: HostIndex) -> bool {
        self.hosts.get(host).is_some_and(|h| !h.here)
    }

    /// The hosts that may fall silent.
    #[must_use]
    pub fn leases(&self) -> Option<Leases> {
        let hosts = (0..self.hosts.len()).filter(|&host| self.is_remote(host));
        self.is_networked().then(|| Leases {
            terms: self.terms,
            hosts: hosts.collect(),
        })
    }

    /// The command that starts a local manager on another host.
    #[must_use]
    pub fn command(&self, host: HostIndex) -> Vec<OsString> {
        let name = self.hosts.get(host).map_or("", |h| h.name.as_str());
        let mut command = self.agent.clone();
        command.push(name.into());
        command.push(quoted(&self.program));
        command.push(crate::REMOTE_MANAGER.into());
        command
    }
}

/// A path as a word for a shell. ssh hands its words to one.
pub(crate) fn quoted(path: &OsStr) -> OsString {
    let unquoted = |c: char| c.is_ascii_alphanumeric() || "/._-+@%".contains(c);
    match path.to_str() {
        Some(text) if !text.chars().all(unquoted) => {
            format!("'{}'", text.replace('\'', "'\\''")).into()
        }
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_gets_host_and_program() {
        let mut machines = Machines::only("here".into(), 1);
        machines.hosts.push(Machine {
            name: "there".into(),
            here: false,
            lost: false,
            slots: 1,
            lan: LanId::default(),
            advertised: None,
        });
        machines.placement.push(1);
        machines.agent = vec!["ssh".into(), "-x".into()];
        machines.program = "/a/b c/mpirun".into();
        let shown: Vec<_> = machines.command(1).into_iter().collect();
        let wanted = ["ssh", "-x", "there", "'/a/b c/mpirun'", "__remote-manager"];
        assert_eq!(shown, wanted);
        assert!(machines.is_networked() && !machines.is_remote(0));
    }

    #[test]
    fn ranks_are_placed_in_runs() {
        let mut machines = Machines::only("a".into(), 0);
        let other = |name: &str| Machine {
            name: name.into(),
            here: false,
            lost: false,
            slots: 1,
            lan: LanId::default(),
            advertised: None,
        };
        machines.hosts.extend([other("b"), other("spare")]);
        machines.placement = vec![0, 0, 1, 1, 0];
        let placed = machines.placed_ranks();
        let shown: Vec<_> = placed
            .iter()
            .map(|p| (p.host.as_deref(), p.ranks.clone()))
            .collect();
        assert_eq!(
            shown,
            [(Some("a"), vec![(0, 1), (4, 4)]), (Some("b"), vec![(2, 3)])]
        );
    }
}
