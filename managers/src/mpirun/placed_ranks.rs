//! Ranks continue on other hosts, within the launch: those of lost hosts, and those that move.

use super::Launcher;
use super::central_notices::Placing;
use crate::launch::machines::Machine;
use rejoin_channel_table::Rank;
use rejoin_managers_host::error::Result;
use rejoin_managers_host::host_limits;
use rejoin_managers_protocol::central::{
    AddedHost, CentralInput, HostIndex, HostsRequest, MoveRequest, Movers, RankPlacement,
};
use rejoin_managers_report::query::{Answer, MoveOrder, NamedHost, NamedMovers};
use std::collections::BTreeSet;

impl Launcher {
    /// Central has placed ranks of lost hosts, or tells so again. Hosts that had no ranks before
    /// get local managers.
    pub(super) fn place_ranks(&mut self, placement: RankPlacement) -> Result<()> {
        let machines = &mut self.launch.machines;
        let loses = |host: &HostIndex| machines.hosts.get(*host).is_some_and(|m| !m.lost);
        let is_new = placement.lost.iter().any(loses);
        for (host, machine) in machines.hosts.iter_mut().enumerate() {
            machine.lost |= placement.lost.contains(&host);
        }
        let before = std::mem::replace(&mut machines.placement, placement.hosts);
        if is_new {
            let returned = self.are_groups().then(|| {
                let now = &self.launch.machines.placement;
                let ranks = (0u32..).map(Rank).zip(before.iter().zip(now));
                let changed = ranks.filter(|(_, (before, now))| before != now);
                let changed = changed.map(|(rank, _)| rank);
                let lost = placement.moved.iter().map(|moved| moved.rank);
                let returned: BTreeSet<Rank> = changed.chain(lost).collect();
                returned.into_iter().collect::<Vec<Rank>>()
            });
            let returned = returned.as_deref();
            self.state_folder
                .moved(&self.launch, placement.from, returned);
            self.streams.moved(placement.from);
        }
        let machines = &self.launch.machines;
        let used: Vec<HostIndex> = (0..machines.hosts.len())
            .filter(|&host| machines.ranks_on(host) > 0)
            .collect();
        for host in used {
            self.join(host);
        }
        Ok(())
    }

    /// Ranks come back in groups, while others stand.
    fn are_groups(&self) -> bool {
        self.launch.plan.options.recovery.log().is_some()
    }

    /// Ranks move, or are back where they were.
    pub(super) fn place(&mut self, placing: Placing) {
        match placing {
            Placing::Added(host, added) => self.add_host(host, added),
            Placing::Join(host) => self.join(host),
            Placing::Moved { number, rank, to } => {
                let place = self.launch.machines.placement.get_mut(rank.index());
                let Some(before) = place.map(|place| std::mem::replace(place, to)) else {
                    return;
                };
                if before != to {
                    self.state_folder.has_moved(number, rank, before);
                    self.streams.reader_moved(rank, to, &self.reactor);
                }
            }
            Placing::MovedBack(epoch, ranks) => {
                let returned = self.are_groups();
                let returned = returned.then(|| ranks.iter().map(|(rank, _)| *rank).collect());
                let returned: Option<Vec<Rank>> = returned;
                self.state_folder.rolled_back(epoch, returned.as_deref());
                for (rank, host) in ranks {
                    if let Some(place) = self.launch.machines.placement.get_mut(rank.index()) {
                        *place = host;
                    }
                }
            }
        }
    }

    /// The job has one more host, unless that is known.
    fn add_host(&mut self, host: HostIndex, added: AddedHost) {
        let machines = &mut self.launch.machines;
        if host == machines.hosts.len() {
            machines.hosts.push(Machine {
                name: added.name,
                here: !added.is_remote,
                lost: false,
                slots: added.slots,
                lan: added.lan,
                advertised: None,
            });
            self.hosts.add_host();
            self.streams.add_host();
        }
    }

    /// A client wants hosts to be added.
    pub(super) fn on_request_to_add(&mut self, client: u32, mut hosts: Vec<NamedHost>) {
        let machines = &self.launch.machines;
        // Hosts without a site are where mpirun is.
        let own = machines.sites()[0];
        let nowhere = hosts.iter_mut().filter(|host| host.lan.0.is_empty());
        nowhere.for_each(|host| host.lan.clone_from(own));
        let count = machines.hosts.len() + hosts.len();
        if let Err(why) = host_limits::allow_hosts(count) {
            return self.control.answer(client, &Answer::Refused(why));
        }
        let has_ports = |host: &&NamedHost| {
            let mut same = machines.hosts.iter().filter(|known| known.lan == host.lan);
            same.any(|known| known.advertised.is_some())
        };
        if let Some(host) = hosts.iter().find(has_ports) {
            let (name, lan) = (&host.name, &host.lan);
            let why = format!(
                "host {name} can't be added: the hosts of site {lan} share all its ports (--site)"
            );
            return self.control.answer(client, &Answer::Refused(why));
        }
        let added = |host: NamedHost| AddedHost {
            name: host.name,
            slots: host.slots,
            is_remote: !host.is_here,
            lan: host.lan,
        };
        self.central.notify(CentralInput::AddHosts(HostsRequest {
            id: u64::from(client),
            hosts: hosts.into_iter().map(added).collect(),
        }));
    }

    fn join(&mut self, host: HostIndex) {
        let (plan, machines) = (&self.launch.plan, &self.launch.machines);
        if let Err(error) = self.hosts.join(host, plan, machines, &self.reactor) {
            let why = error.to_string();
            self.central.notify(CentralInput::HostGone(host, why));
        }
    }

    /// A client wants ranks to move.
    pub(super) fn on_request_to_move(&mut self, client: u32, order: &MoveOrder) {
        match self.move_request(client, order) {
            Ok(request) => self.central.notify(CentralInput::Move(request)),
            Err(why) => self.control.answer(client, &Answer::Refused(why)),
        }
    }

    fn move_request(
        &self,
        client: u32,
        order: &MoveOrder,
    ) -> std::result::Result<MoveRequest, String> {
        let machines = &self.launch.machines;
        let position = |name: &String| {
            // A host that was drained may have come back as another one.
            let at = machines.hosts.iter().rposition(|host| &host.name == name);
            at.ok_or_else(|| format!("the job has no host {name}"))
        };
        let movers = match &order.movers {
            NamedMovers::Ranks(ranks) => Movers::Ranks(ranks.iter().copied().map(Rank).collect()),
            NamedMovers::Host(name) => Movers::Host(position(name)?),
            NamedMovers::Drain(name) => Movers::Drain(position(name)?),
            NamedMovers::Balance => Movers::Balance,
            NamedMovers::Exchange(one, other) => Movers::Exchange(Rank(*one), Rank(*other)),
        };
        Ok(MoveRequest {
            id: u64::from(client),
            movers,
            to: order.to.as_ref().map(position).transpose()?,
        })
    }
}
