//! Folders as sysfs has them, made for tests.

use super::{Cpus, HostTopology};
use rejoin_tests::folder::Folder;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// The folder's data about each CPU.
pub(super) struct Shape {
    pub packages: Vec<i64>,
    pub nodes: Vec<usize>,
    pub cores: usize,
    pub threads: usize,
}

impl Shape {
    /// Two sockets with a node each, four cores with two threads.
    pub fn two_sockets() -> Shape {
        Shape {
            packages: vec![0, 1],
            nodes: vec![0, 1],
            cores: 4,
            threads: 2,
        }
    }

    /// As on ARM, where firmware has no table of processors.
    pub fn package_unknown(&mut self) {
        self.packages = vec![-1; self.packages.len()];
    }

    fn count(&self) -> usize {
        self.packages.len() * self.cores * self.threads
    }

    /// The CPUs of so many cores from `first` on.
    fn cpus(&self, first: usize, cores: usize) -> Cpus {
        let stride = self.packages.len() * self.cores;
        let of = |thread: usize| (first..first + cores).map(move |core| core + thread * stride);
        (0..self.threads).flat_map(of).collect()
    }
}

/// The folder; it goes with this.
pub(super) struct Tree(Folder);

impl Tree {
    pub fn new(shape: &Shape) -> Tree {
        // Tests run beside each other.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let tree = Tree(Folder::new(&format!("sysfs-{number}")));
        tree.write("cpu/online", &format!("0-{}\n", shape.count() - 1));
        // Entries beside those of CPUs.
        tree.write("cpu/cpufreq/policy0", "");
        tree.write("node/has_cpu", "");
        for (place, (package, node)) in shape.packages.iter().zip(&shape.nodes).enumerate() {
            let first = place * shape.cores;
            let all = shape.cpus(first, shape.cores);
            tree.write(&format!("node/node{node}/cpulist"), &format!("{all}\n"));
            for core in first..first + shape.cores {
                let own = shape.cpus(core, 1);
                for cpu in own.iter() {
                    let at = format!("cpu/cpu{cpu}");
                    let id = format!("{package}\n");
                    tree.write(&format!("{at}/topology/physical_package_id"), &id);
                    tree.write(
                        &format!("{at}/topology/thread_siblings_list"),
                        &format!("{own}\n"),
                    );
                    tree.cache(&at, 0, ("1", "Data", "32K"), &own);
                    tree.cache(&at, 1, ("1", "Instruction", "32K"), &own);
                    tree.cache(&at, 2, ("2", "Unified", "1024K"), &own);
                    tree.cache(&at, 3, ("3", "Unified", "32M"), &all);
                }
            }
        }
        tree
    }

    fn cache(&self, at: &str, index: usize, is: (&str, &str, &str), shared: &Cpus) {
        let write = |name: &str, text: &str| {
            self.write(&format!("{at}/cache/index{index}/{name}"), text);
        };
        write("level", is.0);
        write("type", is.1);
        write("size", is.2);
        write("shared_cpu_list", &shared.to_string());
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// CPUs that are off have no topology, and are in no list.
    pub fn switch_off(&self, list: &str) {
        let off = Cpus::parse(list);
        for cpu in off.iter() {
            self.remove(&format!("cpu/cpu{cpu}/topology"));
            self.remove(&format!("cpu/cpu{cpu}/cache"));
        }
        let all = Cpus::parse(&std::fs::read_to_string(self.path("cpu/online")).unwrap());
        let on: Cpus = all.iter().filter(|&c| !off.has(c)).collect();
        self.write("cpu/online", &format!("{on}\n"));
        for cpu in on.iter() {
            let path = format!("cpu/cpu{cpu}/topology/thread_siblings_list");
            let siblings = std::fs::read_to_string(self.path(&path)).unwrap();
            self.write(&path, &Cpus::parse(&siblings).and(&on).to_string());
        }
    }

    pub fn remove(&self, path: &str) {
        let path = self.path(path);
        match path.is_dir() {
            true => std::fs::remove_dir_all(path).unwrap(),
            false => std::fs::remove_file(path).unwrap(),
        }
    }

    /// Removes a folder of every CPU.
    pub fn remove_each(&self, name: &str) {
        for cpu in self.read().cpus().iter() {
            self.remove(&format!("cpu/cpu{cpu}/{name}"));
        }
    }

    pub fn read(&self) -> HostTopology {
        HostTopology::read(&self.path(""))
    }
}
