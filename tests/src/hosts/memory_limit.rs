//! A limit on the memory of processes together, by a control group. The system kills one of them
//! when they use more.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A limit for a process and those that it starts from then on.
pub struct MemoryLimit {
    group: PathBuf,
    pid: u32,
    /// The group that the process was in.
    before: PathBuf,
}

/// Where groups are that limit memory, and the name of a file with the limit.
fn place() -> Option<(PathBuf, &'static str)> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mounts = mounts.lines().map(|line| line.split(' '));
    let mounts: Vec<Vec<&str>> = mounts.map(Iterator::collect).collect();
    let first = mounts.iter().find(|mount| {
        let limits = mount.get(3).map(|options| options.split(','));
        mount.get(2) == Some(&"cgroup") && limits.is_some_and(|mut all| all.any(|o| o == "memory"))
    });
    if let Some(mount) = first {
        return Some((mount[1].into(), "memory.limit_in_bytes"));
    }
    let second = mounts
        .iter()
        .find(|mount| mount.get(2) == Some(&"cgroup2"))?;
    let limits = fs::read_to_string(Path::new(second[1]).join("cgroup.subtree_control"));
    let has_memory = limits.ok()?.split_whitespace().any(|name| name == "memory");
    has_memory.then(|| (second[1].into(), "memory.max"))
}

impl MemoryLimit {
    /// `None`: this machine can't limit memory.
    #[must_use]
    pub fn set(pid: u32, bytes: u64) -> Option<MemoryLimit> {
        let (root, file) = place()?;
        let group = root.join(super::group_name("memory"));
        let before = Self::group_of(pid, &root)?;
        fs::create_dir(&group).ok()?;
        let limit = MemoryLimit { group, pid, before };
        fs::write(limit.group.join(file), bytes.to_string()).ok()?;
        fs::write(limit.group.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(limit)
    }

    /// The group below this root that a process is in.
    fn group_of(pid: u32, root: &Path) -> Option<PathBuf> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let is_first = root.ends_with("memory");
        let of_memory = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
            let is_it = match is_first {
                true => names.split(',').any(|name| name == "memory"),
                false => names.is_empty(),
            };
            is_it.then(|| path.trim_start_matches('/').to_owned())
        });
        Some(root.join(of_memory?))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let _ = fs::write(self.before.join("cgroup.procs"), self.pid.to_string());
        // It is empty when the last process has been reaped.
        let end = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir(&self.group).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
