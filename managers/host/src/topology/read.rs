//! Reads hardware threads and caches from sysfs.

use super::cpus::Cpus;
use super::hardware::{Cache, CacheContent, Thread};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Threads that are switched on, and their caches.
pub(super) fn all(root: &Path) -> (Vec<Thread>, Vec<Cache>) {
    let cpu = root.join("cpu");
    let nodes = nodes(&root.join("node"));
    let mut caches = BTreeSet::new();
    let mut threads = Vec::new();
    for number in online(&cpu).iter() {
        let folder = cpu.join(format!("cpu{number}"));
        let topology = folder.join("topology");
        let own = shared_caches(&folder.join("cache"));
        let largest = own
            .iter()
            .filter(|c| c.holds != CacheContent::Instructions)
            .max();
        threads.push(Thread {
            number,
            core: core(&topology).unwrap_or(number),
            cache: largest.and_then(|c| c.cpus.first()).unwrap_or(0),
            node: nodes.get(&number).copied(),
            package: package(&topology),
        });
        caches.extend(own);
    }
    (threads, caches.into_iter().collect())
}

fn text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The numbers that follow `prefix` in the names of a folder.
fn numbered(folder: &Path, prefix: &str) -> Cpus {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
        .collect()
}

fn online(cpu: &Path) -> Cpus {
    if let Some(list) = text(&cpu.join("online")) {
        return Cpus::parse(&list);
    }
    let is_on = |number: &usize| {
        let said = text(&cpu.join(format!("cpu{number}/online")));
        said.is_none_or(|said| said.trim() != "0")
    };
    numbered(cpu, "cpu").iter().filter(is_on).collect()
}

/// The NUMA node of each CPU.
fn nodes(folder: &Path) -> BTreeMap<usize, usize> {
    let mut of = BTreeMap::new();
    for node in numbered(folder, "node").iter() {
        let list = text(&folder.join(format!("node{node}/cpulist"))).unwrap_or_default();
        of.extend(Cpus::parse(&list).iter().map(|cpu| (cpu, node)));
    }
    of
}

/// The lowest CPU of the core. The second name is that of kernels before 5.3.
fn core(topology: &Path) -> Option<usize> {
    let list = ["core_cpus_list", "thread_siblings_list"].map(|name| topology.join(name));
    let list = list.iter().find_map(|path| text(path))?;
    Cpus::parse(&list).first()
}

/// Firmware that does not tell of packages makes it -1.
fn package(topology: &Path) -> Option<usize> {
    let number = text(&topology.join("physical_package_id"))?;
    number.trim().parse().ok()
}

fn shared_caches(folder: &Path) -> Vec<Cache> {
    let one = |index: usize| {
        let folder = folder.join(format!("index{index}"));
        let level = text(&folder.join("level"))?.trim().parse().ok()?;
        let holds = match text(&folder.join("type"))?.trim() {
            "Unified" => CacheContent::Unified,
            "Data" => CacheContent::Data,
            _ => CacheContent::Instructions,
        };
        Some(Cache {
            level,
            holds,
            bytes: text(&folder.join("size")).and_then(|size| bytes(&size)),
            cpus: Cpus::parse(&text(&folder.join("shared_cpu_list"))?),
        })
    };
    numbered(folder, "index").iter().filter_map(one).collect()
}

/// `32K`, `8M`, `512`.
fn bytes(size: &str) -> Option<u64> {
    let size = size.trim();
    let digits = size.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &size[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("32K\n"), Some(32 << 10));
        assert_eq!(bytes("8M"), Some(8 << 20));
        assert_eq!(bytes("512"), Some(512));
        for wrong in ["", "K", "12Q", "18446744073709551615G", "-1K"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
