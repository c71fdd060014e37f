//! The machine as sysfs shows it: sockets, NUMA nodes, caches, cores and hardware threads; and
//! where on it ranks are bound.
//!
//! The reader accepts the data of all kernels, virtual machines and containers: numbers with holes,
//! CPUs that are off, ARM machines without packages, missing folders. A CPU that this process may
//! use and that sysfs does not describe counts as a core of its own.

mod cpus;
mod hardware;
pub mod places;
mod read;
#[cfg(test)]
mod trees;

pub use cpus::Cpus;
pub use hardware::{Cache, CacheContent};

use hardware::Thread;
use std::path::Path;

/// Where the kernel shows it.
const SYSFS: &str = "/sys/devices/system";

/// Parts of a machine, from small to large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachinePart {
    /// A core with its hardware threads.
    Core,
    /// The CPUs that share the largest cache.
    Cache,
    /// A NUMA node.
    Node,
    /// A socket, which the kernel calls package.
    Package,
}

/// The topology of a machine, or of the part that a process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostTopology {
    /// In the order of packages, nodes, caches, cores.
    threads: Vec<Thread>,
    caches: Vec<Cache>,
}

impl HostTopology {
    /// All of this machine that is switched on.
    #[must_use]
    pub fn machine() -> HostTopology {
        HostTopology::read(Path::new(SYSFS))
    }

    /// The part of this machine that this process may use.
    #[must_use]
    pub fn usable() -> HostTopology {
        HostTopology::machine().restricted(&Cpus::allowed())
    }

    /// Reads a folder as `/sys/devices/system`.
    #[must_use]
    pub fn read(root: &Path) -> HostTopology {
        let (threads, caches) = read::all(root);
        HostTopology::new(threads, caches)
    }

    fn new(mut threads: Vec<Thread>, caches: Vec<Cache>) -> HostTopology {
        threads.sort_by_key(|t| (t.package, t.node, t.cache, t.core, t.number));
        HostTopology { threads, caches }
    }

    /// The part with these CPUs only. CPUs that the topology lacks are cores of their own in its
    /// first package.
    #[must_use]
    pub fn restricted(&self, allowed: &Cpus) -> HostTopology {
        let kept = self.threads.iter().copied();
        let mut threads: Vec<Thread> = kept.filter(|t| allowed.has(t.number)).collect();
        let known = self.cpus();
        let like = self.threads.first().copied();
        threads.extend(allowed.iter().filter(|&c| !known.has(c)).map(|c| Thread {
            number: c,
            core: c,
            cache: like.map_or(0, |t| t.cache),
            node: like.and_then(|t| t.node),
            package: like.and_then(|t| t.package),
        }));
        let left = |cache: &Cache| Cache {
            cpus: cache.cpus.and(allowed),
            ..cache.clone()
        };
        let caches = self.caches.iter().map(left);
        let caches = caches.filter(|c| !c.cpus.is_empty()).collect();
        HostTopology::new(threads, caches)
    }

    /// All CPUs.
    #[must_use]
    pub fn cpus(&self) -> Cpus {
        self.threads.iter().map(|t| t.number).collect()
    }

    /// The caches, the smallest level first.
    #[must_use]
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The parts of a kind, neighbours beside each other.
    #[must_use]
    pub fn parts(&self, kind: MachinePart) -> Vec<Cpus> {
        let mut keys = Vec::new();
        let mut parts: Vec<Cpus> = Vec::new();
        for thread in &self.threads {
            let key = match kind {
                MachinePart::Core => Some(thread.core),
                MachinePart::Cache => Some(thread.cache),
                MachinePart::Node => thread.node,
                MachinePart::Package => thread.package,
            };
            let at = keys.iter().position(|&k| k == key).unwrap_or_else(|| {
                keys.push(key);
                parts.push(Cpus::default());
                parts.len() - 1
            });
            parts[at].add(thread.number);
        }
        parts
    }

    /// The kernel's numbers of the packages or nodes that these CPUs belong to.
    fn numbers(&self, cpus: &Cpus, of: impl Fn(&Thread) -> Option<usize>) -> Cpus {
        let those = self.threads.iter().filter(|t| cpus.has(t.number));
        those.map(|t| of(t).unwrap_or(0)).collect()
    }
}

/// CPUs' worth of time that this process may use at once: CPUs it may run on, or less by a quota of
/// its cgroup.
#[must_use]
pub fn parallelism() -> usize {
    let allowed = Cpus::allowed().len().max(1);
    std::thread::available_parallelism().map_or(allowed, |quota| allowed.min(quota.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trees::{Shape, Tree};

    fn texts(parts: &[Cpus]) -> Vec<String> {
        parts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_sockets_of_four_cores_with_two_threads_each() {
        // Numbered as Linux does on x86: the second threads after all first ones.
        let topology = Tree::new(&Shape::two_sockets()).read();
        assert_eq!(
            texts(&topology.parts(MachinePart::Package)),
            ["0-3,8-11", "4-7,12-15"]
        );
        assert_eq!(
            topology.parts(MachinePart::Node),
            topology.parts(MachinePart::Package)
        );
        let cores = ["0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"];
        assert_eq!(texts(&topology.parts(MachinePart::Core)), cores);
        assert_eq!(
            texts(&topology.parts(MachinePart::Cache)),
            ["0-3,8-11", "4-7,12-15"]
        );
        let levels = topology.caches().iter().map(|c| (c.level, c.bytes));
        let large = (3, Some(32 << 20));
        assert_eq!(levels.filter(|&l| l == large).count(), 2);
        assert_eq!(
            topology.caches().iter().filter(|c| c.level == 1).count(),
            16
        );
        assert_eq!(topology.caches()[0].level, 1);
    }

    #[test]
    fn numbers_may_have_holes_and_cpus_may_be_off() {
        let mut shape = Shape::two_sockets();
        // Sockets 0 and 3, nodes 1 and 7.
        shape.packages = vec![0, 3];
        shape.nodes = vec![1, 7];
        let tree = Tree::new(&shape);
        tree.switch_off("2,5-7,13-15");
        let topology = tree.read();
        assert_eq!(topology.cpus().to_string(), "0-1,3-4,8-12");
        assert_eq!(
            texts(&topology.parts(MachinePart::Package)),
            ["0-1,3,8-11", "4,12"]
        );
        // A core whose first thread is off is a core still.
        let cores = ["0,8", "1,9", "3,11", "10", "4,12"];
        assert_eq!(texts(&topology.parts(MachinePart::Core)), cores);
        assert_eq!(
            topology
                .numbers(&Cpus::parse("3-4"), |t| t.package)
                .to_string(),
            "0,3"
        );
        assert_eq!(
            topology.numbers(&Cpus::parse("4"), |t| t.node).to_string(),
            "7"
        );
    }

    #[test]
    fn machines_without_packages_are_one() {
        let mut shape = Shape::two_sockets();
        shape.package_unknown();
        let tree = Tree::new(&shape);
        let topology = tree.read();
        assert_eq!(topology.parts(MachinePart::Package).len(), 1);
        assert_eq!(
            (
                topology.parts(MachinePart::Node).len(),
                topology.parts(MachinePart::Core).len()
            ),
            (2, 8)
        );
        // Nor nodes, nor caches: kernels without NUMA have no such folder.
        tree.remove("node");
        tree.remove_each("cache");
        let topology = tree.read();
        assert_eq!(
            (
                topology.parts(MachinePart::Node).len(),
                topology.parts(MachinePart::Core).len()
            ),
            (1, 8)
        );
        assert!(topology.caches().is_empty());
        // Nor anything of cores.
        tree.remove_each("topology");
        assert_eq!(tree.read().parts(MachinePart::Core).len(), 16);
    }

    #[test]
    fn a_container_sees_the_machine_and_may_use_a_part() {
        let machine = Tree::new(&Shape::two_sockets()).read();
        let usable = machine.restricted(&Cpus::parse("3,11,12"));
        assert_eq!(texts(&usable.parts(MachinePart::Core)), ["3,11", "12"]);
        assert_eq!(texts(&usable.parts(MachinePart::Package)), ["3,11", "12"]);
        let shared = usable.caches().iter().filter(|c| c.level == 3);
        assert_eq!(
            shared.map(|c| c.cpus.to_string()).collect::<Vec<_>>(),
            ["3,11", "12"]
        );
        // It may also use CPUs that it does not know.
        let usable = machine.restricted(&Cpus::parse("4,40"));
        assert_eq!(usable.cpus().to_string(), "4,40");
        assert_eq!(usable.parts(MachinePart::Core).len(), 2);
    }

    #[test]
    fn a_folder_with_nothing_in_it_leaves_what_is_allowed() {
        let tree = Tree::new(&Shape::two_sockets());
        tree.remove("cpu");
        let topology = tree.read();
        assert!(topology.cpus().is_empty() && topology.parts(MachinePart::Package).is_empty());
        let usable = topology.restricted(&Cpus::parse("0-3"));
        assert_eq!(
            (
                usable.parts(MachinePart::Core).len(),
                usable.parts(MachinePart::Package).len()
            ),
            (4, 1)
        );
    }

    #[test]
    fn without_a_list_the_folders_say_what_is_on() {
        let tree = Tree::new(&Shape::two_sockets());
        tree.remove("cpu/online");
        tree.write("cpu/cpu9/online", "0");
        assert_eq!(tree.read().cpus().to_string(), "0-8,10-15");
    }

    #[test]
    fn this_machine_has_what_is_allowed() {
        let usable = HostTopology::usable();
        assert_eq!(usable.cpus(), Cpus::allowed());
        for kind in [
            MachinePart::Core,
            MachinePart::Cache,
            MachinePart::Node,
            MachinePart::Package,
        ] {
            let parts = usable.parts(kind);
            let all = parts.iter().flat_map(Cpus::iter);
            assert_eq!(all.count(), usable.cpus().len(), "{kind:?}");
        }
        assert!((1..=usable.cpus().len()).contains(&parallelism()));
    }
}
