//! Limits of memory that control groups set for this process, as batch systems use them.

use std::fs;
use std::path::{Path, PathBuf};

/// Names of the files with a limit and with what is used of it, and the line of `memory.stat` for
/// what the system can take back at once.
struct Names {
    limit: &'static str,
    used: &'static str,
    file_cache: &'static str,
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    file_cache: "total_inactive_file",
};
const VERSION_2: Names = Names {
    limit: "memory.max",
    used: "memory.current",
    file_cache: "inactive_file",
};

/// The limit of each group of this process that has one, and what is left of it, in bytes.
pub fn limits() -> Vec<(u64, u64)> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let places = groups.lines().filter_map(|line| place(root, line));
    places
        .flat_map(|(top, group, names)| {
            let groups = group.ancestors().take_while(|path| path.starts_with(&top));
            let limits = groups.filter_map(|group| limit(group, &names));
            limits.collect::<Vec<_>>()
        })
        .collect()
}

/// The top of the hierarchy for memory and this process's group in it, from a line of
/// `/proc/self/cgroup`.
fn place(root: &Path, line: &str) -> Option<(PathBuf, PathBuf, Names)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    let (top, names) = match controllers {
        "" => (root.to_owned(), VERSION_2),
        some if some.split(',').any(|one| one == "memory") => (root.join("memory"), VERSION_1),
        _ => return None,
    };
    let group = top.join(group.trim_start_matches('/'));
    Some((top, group, names))
}

/// The limit of a group, and what is left of it. `None`: it has none, or none that this process can
/// see.
fn limit(group: &Path, names: &Names) -> Option<(u64, u64)> {
    let number = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(group.join(name)).ok()?;
        text.trim().parse().ok()
    };
    let (total, used) = (number(names.limit)?, number(names.used)?);
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cache = stat.lines().filter_map(|line| line.split_once(' '));
    let mut cache = cache.filter(|(name, _)| *name == names.file_cache);
    let cache = cache.next().and_then(|(_, bytes)| bytes.parse().ok());
    let used = used.saturating_sub(cache.unwrap_or(0));
    Some((total, total.saturating_sub(used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_with_a_limit_counts_whatever_the_version() {
        let root = std::env::temp_dir().join(format!("rejoin-groups-{}", std::process::id()));
        for (line, folder, names) in [
            ("4:cpu,memory:/batch/job", "memory/batch/job", VERSION_1),
            ("0::/batch/job", "batch/job", VERSION_2),
        ] {
            let (top, group, _) = place(&root, line).expect("a place");
            assert_eq!(group, root.join(folder));
            assert!(group.starts_with(&top));
            fs::create_dir_all(&group).expect("a group");
            assert_eq!(limit(&group, &names), None, "no files");
            let stat = format!("cache 7\n{} 100\n", names.file_cache);
            for (name, text) in [
                (names.limit, "1000\n"),
                (names.used, "800\n"),
                ("memory.stat", &stat[..]),
            ] {
                fs::write(group.join(name), text).expect("a file");
            }
            assert_eq!(limit(&group, &names), Some((1000, 300)));
            fs::write(group.join(names.limit), "max\n").expect("a file");
            assert_eq!(limit(&group, &names), None, "no limit");
        }
        assert!(place(&root, "9:name=systemd:/").is_none());
        fs::remove_dir_all(&root).expect("removed");
    }
}
