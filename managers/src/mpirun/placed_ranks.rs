//! Ranks of lost hosts continue on other hosts, within the launch.

use super::Launcher;
use rejoin_managers_protocol::central::{CentralInput, HostIndex, RankPlacement};

impl Launcher {
    /// Central has placed ranks of lost hosts, or tells so again. Hosts that had no ranks before
    /// get local managers.
    pub(super) fn place_ranks(&mut self, placement: RankPlacement) {
        let machines = &mut self.launch.machines;
        let is_new = machines.placement != placement.hosts;
        for (host, machine) in machines.hosts.iter_mut().enumerate() {
            machine.lost |= placement.lost.contains(&host);
        }
        machines.placement = placement.hosts;
        if is_new {
            self.state_folder.moved(&self.launch, placement.from);
            self.streams.moved(placement.from);
        }
        let machines = &self.launch.machines;
        let used: Vec<HostIndex> = (0..machines.hosts.len())
            .filter(|&host| machines.ranks_on(host) > 0)
            .collect();
        for host in used {
            let plan = &self.launch.plan;
            if let Err(error) = self.hosts.join(host, plan, machines, &self.reactor) {
                let why = error.to_string();
                self.central.tell(CentralInput::HostGone(host, why));
            }
        }
    }
}
