//! Where the ranks of a host run.
//!
//! An order of the cores gives each rank one: neighbours in turn, or the sockets or NUMA nodes in
//! turn as long as they have cores left. Binding then holds the rank to that core, or to the socket
//! or node around it. More ranks than cores begin again with the first, so a job that goes
//! on with fewer hosts still starts.

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
    /// A core, if ranks share the host's cores and each core gets as many of them; else nothing.
    Shared,
}

impl Bind {
    /// What so many ranks are bound to on a host. Where ranks share cores, they block and wake all
    /// the time, and the kernel moves them to another core. A collective then takes up to twice as
    /// long. Ranks with a core each stay where they are.
    fn on(self, topology: &HostTopology, ranks: usize) -> Self {
        if self != Self::Shared {
            return self;
        }
        let cores = topology.parts(MachinePart::Core).len().max(1);
        if ranks > topology.cpus().len() && ranks.is_multiple_of(cores) {
            Self::Core
        } else {
            Self::None
        }
    }
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
    /// Each rank was to have a core of its own.
    alone: bool,
    /// The CPUs to which each rank is bound; empty without a binding.
    list: Vec<Cpus>,
    topology: HostTopology,
}

impl Places {
    /// The places that a topology gives to so many ranks.
    #[must_use]
    pub fn new(topology: HostTopology, binding: Binding, ranks: usize) -> Places {
        let to = binding.to.on(&topology, ranks);
        let around = match to {
            Bind::None | Bind::Shared => Vec::new(),
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
            to,
            alone: binding.to == Bind::Core,
            list: cores.into_iter().filter_map(place).collect(),
            topology,
        }
    }

    /// The places of so many ranks on this host. Looks at the machine only when something is to be
    /// bound or told.
    #[must_use]
    pub fn here(binding: Binding, ranks: usize) -> Places {
        let is_bound = match binding.to {
            Bind::None => false,
            Bind::Shared => ranks > Cpus::allowed().len(),
            Bind::Core | Bind::Socket | Bind::Numa => true,
        };
        let topology = if !is_bound && !binding.told {
            HostTopology::new(Vec::new(), Vec::new())
        } else {
            HostTopology::usable()
        };
        Places::new(topology, binding, ranks)
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
        (self.alone && ranks > cores).then_some(cores)
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
        let places = Places::new(topology.clone(), binding, ranks);
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
        let places = Places::new(usable.clone(), binding, 3);
        assert_eq!(
            (places.oversubscribed(2), places.oversubscribed(3)),
            (None, Some(2))
        );
        let socket = Binding {
            to: Bind::Socket,
            ..Binding::NONE
        };
        assert_eq!(Places::new(usable, socket, 9).oversubscribed(9), None);
    }

    #[test]
    fn ranks_that_share_cores_are_bound_where_each_core_gets_as_many() {
        let machine = Tree::new(&Shape::two_sockets()).read();
        // Two cores, one of them with two hardware threads.
        let usable = machine.restricted(&Cpus::parse("0,8,1"));
        let places = |ranks| places(&usable, Bind::Shared, MappingPolicy::Packed, ranks);
        assert_eq!(places(4), ["0,8", "1", "0,8", "1"]);
        for free in [1, 2, 3, 5] {
            assert!(places(free).iter().all(|place| place == "-"), "{free}");
        }
        let binding = Binding {
            to: Bind::Shared,
            ..Binding::NONE
        };
        // Nobody asked for a core for each rank.
        assert_eq!(Places::new(usable, binding, 4).oversubscribed(4), None);
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
            Places::new(machine.clone(), binding, 4).describe(slot)
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
