//! Where the ranks of a host run.
//!
//! An order of the cores gives each rank one: neighbours in turn, or the sockets or NUMA nodes in
//! turn as long as they have cores left. Binding then holds the rank to that core, or to the socket
//! or node around it. More ranks than cores begin again with the first, so a job that is relaunched
//! on fewer hosts still starts.

use super::{Cpus, HostTopology, MachinePart};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The unit to which a rank is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bind {
    /// Nothing: it runs where the kernel puts it.
    None,
    /// All hardware threads of a core.
    Core,
    /// All of a socket that may be used.
    Socket,
    /// All of a NUMA node that may be used.
    Numa,
}

/// In which order cores get ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MappingPolicy {
    /// Neighbours get neighbours.
    Packed,
    /// A core of each socket in turn.
    Sockets,
    /// A core of each NUMA node in turn.
    Nodes,
}

/// How the ranks of each host are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The unit to which a rank is bound.
    pub to: Bind,
    /// The order in which cores get ranks.
    pub by: MappingPolicy,
    /// Whether mpirun tells of it.
    pub told: bool,
}

impl Binding {
    /// No binding, and no report.
    pub const NONE: Binding = Binding {
        to: Bind::None,
        by: MappingPolicy::Packed,
        told: false,
    };
}

/// A host's places, in the order of its ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    to: Bind,
    /// The CPUs to which each rank is bound; empty without a binding.
    list: Vec<Cpus>,
    topology: HostTopology,
}

impl Places {
    /// The places that a topology gives.
    #[must_use]
    pub fn new(topology: HostTopology, binding: Binding) -> Places {
        let around = match binding.to {
            Bind::None => Vec::new(),
            Bind::Core => topology.parts(MachinePart::Core),
            Bind::Socket => topology.parts(MachinePart::Package),
            Bind::Numa => topology.parts(MachinePart::Node),
        };
        let place = |core: Cpus| {
            let first = core.first()?;
            around.iter().find(|part| part.has(first)).cloned()
        };
        let cores = order(&topology, binding.by);
        Places {
            to: binding.to,
            list: cores.into_iter().filter_map(place).collect(),
            topology,
        }
    }

    /// The places of this host. Looks at the machine only when something is to be bound or told.
    #[must_use]
    pub fn here(binding: Binding) -> Places {
        let topology = if binding.to == Bind::None && !binding.told {
            HostTopology::new(Vec::new(), Vec::new())
        } else {
            HostTopology::usable()
        };
        Places::new(topology, binding)
    }

    /// The CPUs to which the local rank of this number is bound.
    #[must_use]
    pub fn of(&self, slot: usize) -> Option<&Cpus> {
        self.list.get(slot % self.list.len().max(1))
    }

    /// How many cores so many ranks share, when each should have had one of its own.
    #[must_use]
    pub fn oversubscribed(&self, ranks: usize) -> Option<usize> {
        let cores = self.list.len();
        (self.to == Bind::Core && ranks > cores).then_some(cores)
    }

    /// Where a rank runs, in words.
    #[must_use]
    pub fn describe(&self, slot: usize) -> String {
        let all = self.topology.cpus();
        let (how, cpus) = match (self.to, self.of(slot)) {
            (Bind::Core, Some(cpus)) => ("bound to a core", cpus),
            (Bind::Socket, Some(cpus)) => ("bound to a socket", cpus),
            (Bind::Numa, Some(cpus)) => ("bound to a NUMA node", cpus),
            _ => ("not bound", &all),
        };
        let packages = self.topology.numbers(cpus, |t| t.package);
        let nodes = self.topology.numbers(cpus, |t| t.node);
        let many = |set: &Cpus| if set.len() == 1 { "" } else { "s" };
        format!(
            "{how}: CPU{} {cpus} of socket{} {packages}, NUMA node{} {nodes}",
            many(cpus),
            many(&packages),
            many(&nodes)
        )
    }
}

/// The cores in the order in which ranks get them.
fn order(topology: &HostTopology, by: MappingPolicy) -> Vec<Cpus> {
    let cores = topology.parts(MachinePart::Core);
    let groups = match by {
        MappingPolicy::Packed => return cores,
        MappingPolicy::Sockets => topology.parts(MachinePart::Package),
        MappingPolicy::Nodes => topology.parts(MachinePart::Node),
    };
    let of = |group: &Cpus| {
        let own = |core: &&Cpus| core.first().is_some_and(|first| group.has(first));
        cores.iter().filter(own).cloned().collect::<VecDeque<_>>()
    };
    let mut left: Vec<VecDeque<Cpus>> = groups.iter().map(of).collect();
    let mut order = Vec::with_capacity(cores.len());
    while order.len() < cores.len() {
        order.extend(left.iter_mut().filter_map(VecDeque::pop_front));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::super::trees::{Shape, Tree};
    use super::*;

    fn places(topology: &HostTopology, to: Bind, by: MappingPolicy, ranks: usize) -> Vec<String> {
        let binding = Binding {
            to,
            by,
            told: false,
        };
        let places = Places::new(topology.clone(), binding);
        let of = |slot| places.of(slot).map_or("-".into(), ToString::to_string);
        (0..ranks).map(of).collect()
    }

    #[test]
    fn ranks_get_cores_side_by_side_or_sockets_in_turn() {
        let machine = Tree::new(&Shape::two_sockets()).read();
        let cores = places(&machine, Bind::Core, MappingPolicy::Packed, 5);
        assert_eq!(cores, ["0,8", "1,9", "2,10", "3,11", "4,12"]);
        let spread = places(&machine, Bind::Core, MappingPolicy::Sockets, 5);
        assert_eq!(spread, ["0,8", "4,12", "1,9", "5,13", "2,10"]);
        assert_eq!(
            places(&machine, Bind::Core, MappingPolicy::Nodes, 5),
            spread
        );
        let (one, two) = ("0-3,8-11", "4-7,12-15");
        let sockets = places(&machine, Bind::Socket, MappingPolicy::Packed, 6);
        assert_eq!(sockets, [one, one, one, one, two, two]);
        let sockets = places(&machine, Bind::Socket, MappingPolicy::Sockets, 4);
        assert_eq!(sockets, [one, two, one, two]);
        assert_eq!(
            places(&machine, Bind::Numa, MappingPolicy::Nodes, 3),
            [one, two, one]
        );
        assert_eq!(
            places(&machine, Bind::None, MappingPolicy::Sockets, 2),
            ["-", "-"]
        );
    }

    #[test]
    fn more_ranks_than_cores_begin_again() {
        let machine = Tree::new(&Shape::two_sockets()).read();
        let usable = machine.restricted(&Cpus::parse("0,8,1"));
        assert_eq!(
            places(&usable, Bind::Core, MappingPolicy::Packed, 4),
            ["0,8", "1", "0,8", "1"]
        );
        let binding = Binding {
            to: Bind::Core,
            ..Binding::NONE
        };
        let places = Places::new(usable.clone(), binding);
        assert_eq!(
            (places.oversubscribed(2), places.oversubscribed(3)),
            (None, Some(2))
        );
        let socket = Binding {
            to: Bind::Socket,
            ..Binding::NONE
        };
        assert_eq!(Places::new(usable, socket).oversubscribed(9), None);
    }

    #[test]
    fn a_socket_with_fewer_cores_has_fewer_ranks() {
        let machine = Tree::new(&Shape::two_sockets()).read();
        let usable = machine.restricted(&Cpus::parse("3,4-7"));
        let cores = places(&usable, Bind::Core, MappingPolicy::Sockets, 6);
        assert_eq!(cores, ["3", "4", "5", "6", "7", "3"]);
    }

    #[test]
    fn what_is_told_names_cpus_sockets_and_nodes() {
        let mut shape = Shape::two_sockets();
        shape.nodes = vec![1, 7];
        let machine = Tree::new(&shape).read();
        let told = |to, slot| {
            let binding = Binding {
                to,
                by: MappingPolicy::Sockets,
                told: true,
            };
            Places::new(machine.clone(), binding).describe(slot)
        };
        assert_eq!(
            told(Bind::Core, 1),
            "bound to a core: CPUs 4,12 of socket 1, NUMA node 7"
        );
        assert_eq!(
            told(Bind::Socket, 0),
            "bound to a socket: CPUs 0-3,8-11 of socket 0, NUMA node 1"
        );
        assert_eq!(
            told(Bind::None, 3),
            "not bound: CPUs 0-15 of sockets 0-1, NUMA nodes 1,7"
        );
    }
}
