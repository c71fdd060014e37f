//! The machine that ranks run on, and the conditions for reading another rank's memory.

use super::finding::Finding;
use rejoin_managers_host::topology::places::{Bind, Binding, MappingPolicy, Places};
use rejoin_managers_host::topology::{
    Cache, CacheContent, Cpus, HostTopology, MachinePart, parallelism,
};

/// The lines of the machine, of binding, and of the obstacles between ranks.
pub(super) fn all() -> Vec<Finding> {
    let machine = HostTopology::machine();
    let usable = machine.restricted(&Cpus::allowed());
    vec![
        parts(&machine),
        cores(&machine, &usable, parallelism()),
        binding(&usable),
        namespaces(),
        seccomp(&read("/proc/self/status")),
        super::reading::single_copy(),
    ]
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn count(number: usize, what: &str) -> String {
    let many = if number == 1 { "" } else { "s" };
    format!("{number} {what}{many}")
}

/// The parts of the machine.
fn parts(machine: &HostTopology) -> Finding {
    let what = "topology";
    let of = |part| machine.parts(part).len();
    if machine.cpus().is_empty() {
        let cost = "ranks are bound to CPUs as if each were a core of one socket";
        return Finding::warning(what, "not shown in /sys/devices/system/cpu", cost);
    }
    let mut found = vec![
        count(of(MachinePart::Package), "socket"),
        count(of(MachinePart::Node), "NUMA node"),
        count(of(MachinePart::Core), "core"),
        count(machine.cpus().len(), "hardware thread"),
    ];
    let data = |cache: &&Cache| cache.holds != CacheContent::Instructions;
    let caches: Vec<&Cache> = machine.caches().iter().filter(data).collect();
    let largest = caches.iter().map(|cache| cache.level).max().unwrap_or(0);
    for level in 1..=largest {
        let own = || caches.iter().filter(|cache| cache.level == level);
        if let Some(cache) = own().next() {
            let size = cache
                .bytes
                .map_or("?".into(), |b| format!("{} KiB", b >> 10));
            let shared = count(cache.cpus.len(), "thread");
            found.push(format!(
                "{} x L{level} of {size} for {shared}",
                own().count()
            ));
        }
    }
    Finding::good(what, found.join(", "))
}

/// The part of it that this process may use.
fn cores(machine: &HostTopology, usable: &HostTopology, time: usize) -> Finding {
    let what = "cores";
    let cpus = usable.cpus();
    let mut found = format!(
        "{} usable of {}, on CPU {cpus}",
        usable.parts(MachinePart::Core).len(),
        machine.parts(MachinePart::Core).len()
    );
    if time < cpus.len() {
        found += &format!(", time of {time} by the quota of the cgroup");
        if time > 1 {
            let cost = format!("more than {time} ranks block at once instead of spinning");
            return Finding::warning(what, found, cost);
        }
    }
    if time < 2 {
        let cost = "ranks take turns on one core: they block at once instead of spinning";
        return Finding::warning(what, found, cost);
    }
    Finding::good(what, found)
}

/// The effect of `mpirun --bind-to`.
fn binding(usable: &HostTopology) -> Finding {
    /// Places that are shown of each kind.
    const SHOWN: usize = 4;
    let of = |name: &str, to, by, part| {
        let binding = Binding {
            to,
            by,
            told: false,
        };
        let places = Places::new(usable.clone(), binding, 1);
        let number = usable.parts(part).len();
        let first = (0..number.min(SHOWN)).filter_map(|slot| places.of(slot));
        let first: Vec<String> = first.map(ToString::to_string).collect();
        let more = if number > SHOWN { " | ..." } else { "" };
        format!("{name}: {}{more}", first.join(" | "))
    };
    let found = [
        of("core", Bind::Core, MappingPolicy::Packed, MachinePart::Core),
        of(
            "socket",
            Bind::Socket,
            MappingPolicy::Sockets,
            MachinePart::Package,
        ),
        of("numa", Bind::Numa, MappingPolicy::Nodes, MachinePart::Node),
    ];
    Finding::good("--bind-to", found.join("; "))
}

/// The kernel's numbers of the first namespaces (`PROC_USER_INIT_INO`, `PROC_PID_INIT_INO`).
const FIRST: [(&str, u64); 2] = [("user", 0xEFFF_FFFD), ("pid", 0xEFFF_FFFC)];

/// Ranks that are in other ones than their peers can't read these' memory.
fn namespaces() -> Finding {
    let link = |of: &str, kind: &str| {
        let path = std::fs::read_link(format!("/proc/{of}/ns/{kind}")).ok()?;
        let name = path.to_str()?;
        let number = name.split(['[', ']']).nth(1)?;
        number.parse::<u64>().ok()
    };
    let mut found = Vec::new();
    for (kind, first) in FIRST {
        found.push(match link("self", kind) {
            Some(number) if number == first => format!("{kind}: the machine's"),
            Some(_) => format!("{kind}: one of its own"),
            None => format!("{kind}: unknown"),
        });
    }
    // Its number is not fixed, so it is compared with that of the first process, where that may be
    // seen.
    found.push(match (link("self", "net"), link("1", "net")) {
        (Some(own), Some(first)) if own == first => "net: that of process 1".into(),
        (Some(_), Some(_)) => "net: another than that of process 1".into(),
        _ => "net: unknown".to_owned(),
    });
    Finding::good("namespaces", found.join(", "))
}

/// Filters on system calls, by the status of a process.
fn seccomp(status: &str) -> Finding {
    let what = "seccomp";
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    match of("Seccomp:") {
        Some("0") => Finding::good(what, "no filter"),
        // The other lines say whether it forbids a needed access: they try it.
        Some("2") => {
            let filters = of("Seccomp_filters:").and_then(|n| n.parse().ok());
            Finding::good(what, count(filters.unwrap_or(1), "filter"))
        }
        Some(mode) => Finding::good(what, format!("mode {mode}")),
        None => Finding::good(what, "not in this kernel"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Grade;
    use super::*;

    #[test]
    fn filters_are_counted() {
        let said = |text: &str| seccomp(text).found;
        assert_eq!(
            said("Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n"),
            "no filter"
        );
        assert_eq!(said("Seccomp:\t2\nSeccomp_filters:\t3\n"), "3 filters");
        assert_eq!(said("Seccomp:\t2\n"), "1 filter");
        assert_eq!(said(""), "not in this kernel");
    }

    #[test]
    fn a_quota_is_told_with_what_it_costs() {
        let machine = HostTopology::usable().restricted(&Cpus::parse("0-7"));
        let usable = machine.restricted(&Cpus::parse("2-5"));
        let finding = cores(&machine, &usable, 4);
        assert_eq!(
            (finding.grade, finding.found.as_str()),
            (Grade::Good, "4 usable of 8, on CPU 2-5")
        );
        let finding = cores(&machine, &usable, 2);
        assert_eq!(finding.grade, Grade::Warning);
        assert!(
            finding
                .found
                .ends_with("time of 2 by the quota of the cgroup"),
            "{finding:?}"
        );
        assert_eq!(
            cores(&machine, &usable.restricted(&Cpus::parse("3")), 1).grade,
            Grade::Warning
        );
    }

    #[test]
    fn binding_shows_the_first_places() {
        let none = HostTopology::machine().restricted(&Cpus::default());
        let found = binding(&none.restricted(&Cpus::parse("3,7,9-11"))).found;
        assert_eq!(
            found,
            "core: 3 | 7 | 9 | 10 | ...; socket: 3,7,9-11; numa: 3,7,9-11"
        );
    }
}
