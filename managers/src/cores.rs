//! The cores that ranks may use.

use std::collections::BTreeSet;

/// Cores that this process may run on, in the order in which ranks should be bound to them: one
/// hardware thread of each core first, then the second ones.
#[must_use]
pub fn usable() -> Vec<usize> {
    let allowed = allowed();
    let mut order = Vec::with_capacity(allowed.len());
    let mut rest: BTreeSet<usize> = allowed.iter().copied().collect();
    while !rest.is_empty() {
        let mut taken = BTreeSet::new();
        for core in rest.clone() {
            let siblings = siblings(core);
            if !siblings.iter().any(|s| taken.contains(s)) {
                taken.insert(core);
                order.push(core);
            }
        }
        rest.retain(|core| !taken.contains(core));
    }
    order
}

fn allowed() -> Vec<usize> {
    let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0));
    let Ok(set) = set else {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        return (0..count).collect();
    };
    (0..nix::sched::CpuSet::count())
        .filter(|&core| set.is_set(core) == Ok(true))
        .collect()
}

/// Hardware threads of the same core, the core itself too.
fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let list = parse_list(&text);
    if list.is_empty() { vec![core] } else { list }
}

/// Parses the kernel's lists of numbers: `0-3,8,10-11`.
#[must_use]
pub fn parse_list(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let mut ends = part.splitn(2, '-').map(|n| n.trim().parse::<usize>());
        match (ends.next(), ends.next()) {
            (Some(Ok(only)), None) => numbers.push(only),
            (Some(Ok(first)), Some(Ok(last))) if last - first.min(last) < 1 << 16 => {
                numbers.extend(first..=last);
            }
            _ => {}
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_are_understood() {
        assert_eq!(parse_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_list(""), Vec::<usize>::new());
        assert_eq!(parse_list("3-1,x,5"), [5]);
        assert_eq!(parse_list("0-18446744073709551615"), Vec::<usize>::new());
    }

    #[test]
    fn every_allowed_core_comes_once() {
        let mut cores = usable();
        cores.sort_unstable();
        assert_eq!(cores, allowed());
        assert!(!cores.is_empty());
    }
}
