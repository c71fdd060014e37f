//! The system's limits for a job: open files and processes. A job above the limits is refused
//! before any of its processes starts.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use procfs::process::Process;
use std::path::Path;

/// Questions that a job handles at a time.
pub const MOST_QUESTIONS: usize = 32;

/// Clients of `mpirun --metrics` that are answered at a time.
pub const MOST_SCRAPES: usize = 16;

/// Open files of a local manager beside those of its ranks, with room for the start of one rank.
const OWN_FILES: u64 = 40;

/// Open files of a local manager for each rank: the socket, two pipes, and the descriptors of two
/// processes. The process that called `MPI_Init` differs from the started one under a wrapper.
const FILES_PER_RANK: u64 = 5;

/// Open files of a local manager for each rank with images: also the ends of its images and of
/// processes made ahead. Its successor's ends are open, too, while the pipes of the old process are
/// read to their end.
const FILES_PER_IMAGED_RANK: u64 = 9;

/// Open files that each process of a job must be allowed to have.
pub const LEAST_FILES: u64 = 64;

/// Callers that a manager listens to at once, of which it knows only then whether they belong to
/// the job: at most, and at least.
const CALLERS: (u64, u64) = (512, 8);

/// The limit of a resource, and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Largest allowed number.
    pub most: u64,
    /// Name of the limit, for the user.
    pub name: String,
}

/// The limits on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLimits {
    /// Open files of one process.
    pub files: Limit,
    /// Processes, by whatever limits them most.
    pub processes: Option<Limit>,
}

impl HostLimits {
    /// The limits of this process and this system, after soft limits have been raised as far as
    /// `ranks` ranks need it.
    #[must_use]
    pub fn here(ranks: u64) -> HostLimits {
        let (soft, files) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        if soft < LEAST_FILES && soft < files {
            // Ranks inherit this one.
            let _ = setrlimit(Resource::RLIMIT_NOFILE, files.min(1024), files);
        }
        let files = Limit {
            most: files,
            name: "ulimit -Hn".into(),
        };
        HostLimits {
            files,
            processes: processes(ranks),
        }
    }

    /// Whether a local manager with so many ranks can be here, which may `come_back` from images or
    /// not. So many `managers` of the job are here: with the central one, two.
    ///
    /// # Errors
    /// One line that names the need and the limit.
    pub fn allow(&self, ranks: u64, managers: u64, come_back: bool) -> Result<(), String> {
        let files = &self.files;
        if files.most < LEAST_FILES {
            return Err(format!(
                "the limit of open files is {} ({}), and every process of a job needs {LEAST_FILES}",
                files.most, files.name
            ));
        }
        let need = local(ranks, come_back);
        if need > files.most {
            let fit = most_ranks(files.most, come_back);
            return Err(refusal(ranks, need, "open files", files, fit));
        }
        match &self.processes {
            Some(limit) if ranks + managers > limit.most => {
                let fit = limit.most.saturating_sub(managers);
                Err(refusal(ranks, ranks + managers, "processes", limit, fit))
            }
            _ => Ok(()),
        }
    }
}

/// Whether mpirun can have links to so many hosts.
///
/// # Errors
/// One line that names the need and the limit.
pub fn allow_hosts(hosts: usize) -> Result<(), String> {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    let need = launcher(hosts) + CALLERS.1;
    if need <= soft {
        return Ok(());
    }
    Err(format!(
        "{hosts} hosts need {need} open files, and the limit here is {soft} (ulimit -n)"
    ))
}

/// Open files of mpirun, or of the central manager, with so many links to hosts, beside those of
/// callers.
#[must_use]
pub fn launcher(links: usize) -> u64 {
    // Questions come over connections, too.
    OWN_FILES + MOST_QUESTIONS as u64 + MOST_SCRAPES as u64 + links as u64
}

/// Open files of a local manager with so many ranks, beside those of callers.
#[must_use]
pub fn local(ranks: u64, come_back: bool) -> u64 {
    OWN_FILES + per_rank(come_back) * ranks
}

/// Ranks that a local manager can have which may have so many files open.
#[must_use]
pub fn most_ranks(files: u64, come_back: bool) -> u64 {
    files.saturating_sub(OWN_FILES) / per_rank(come_back)
}

fn per_rank(come_back: bool) -> u64 {
    match come_back {
        true => FILES_PER_IMAGED_RANK,
        false => FILES_PER_RANK,
    }
}

/// Whether this system lets a manager notice ends of processes. Without that no rank can be
/// restored.
///
/// # Errors
/// One line that says why not, and what can be done.
pub fn allow_watching() -> Result<(), String> {
    match super::descendants::watch(std::process::id()) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "pidfd_open: {error}: ends of ranks can't be noticed here, so that none could come back; a sandbox may forbid \
             the call (--recovery none does without it)"
        )),
    }
}

/// How many callers a process can listen to at once that needs so many open files beside.
#[must_use]
pub fn callers(others: u64) -> usize {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    let (most, least) = CALLERS;
    soft.saturating_sub(others).clamp(least, most) as usize
}

fn refusal(ranks: u64, need: u64, what: &str, limit: &Limit, fit: u64) -> String {
    format!(
        "{ranks} ranks need {need} {what}, and the limit here is {} ({}): at most {fit} fit",
        limit.most, limit.name
    )
}

fn processes(ranks: u64) -> Option<Limit> {
    let limit = |most, name: &str| Limit {
        most,
        name: name.into(),
    };
    let read = |path: &Path| -> Option<u64> {
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().parse().ok()
    };
    let kernel = |name: &str| {
        let most = read(&Path::new("/proc/sys/kernel").join(name))?;
        Some(limit(most, &format!("kernel.{name}")))
    };
    [
        user_processes(ranks).map(|most| limit(most, "ulimit -Hu")),
        kernel("pid_max"),
        kernel("threads-max"),
        control_group(&read)
            .map(|most| limit(most, "pids.max of the control group, less what runs")),
    ]
    .into_iter()
    .flatten()
    .min_by_key(|limit| limit.most)
}

/// The user's limit; root may have any number.
fn user_processes(ranks: u64) -> Option<u64> {
    if nix::unistd::geteuid().is_root() {
        return None;
    }
    let (soft, hard) = getrlimit(Resource::RLIMIT_NPROC).ok()?;
    if soft < hard && soft < ranks.saturating_mul(2) {
        let _ = setrlimit(Resource::RLIMIT_NPROC, hard, hard);
    }
    Some(hard)
}

fn control_group(read: &dyn Fn(&Path) -> Option<u64>) -> Option<u64> {
    let groups = Process::myself().and_then(|own| own.cgroups()).ok()?;
    let own = groups
        .into_iter()
        .find(|group| group.hierarchy == 0)?
        .pathname;
    let own = own.strip_prefix('/')?;
    let mut folder = Path::new("/sys/fs/cgroup").join(own);
    let mut least = None;
    // Every group above has its say; without a limit the file holds a word.
    while folder.starts_with("/sys/fs/cgroup") {
        if let Some(most) = read(&folder.join("pids.max")) {
            let free = most.saturating_sub(read(&folder.join("pids.current")).unwrap_or(0));
            least = Some(least.map_or(free, |l: u64| l.min(free)));
        }
        folder.pop();
    }
    least
}

/// Raises this process's limit of open files as far as possible. Returns the old limit for the
/// ranks, because programs that use `select` break above 1,024.
#[must_use]
pub fn raise_open_files() -> Option<libc::rlimit> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok()?;
    Some(libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_numbers() {
        let limit = |most, name: &str| Limit {
            most,
            name: name.into(),
        };
        let limits = HostLimits {
            files: limit(1040, "ulimit -Hn"),
            processes: Some(limit(152, "kernel.pid_max")),
        };
        assert_eq!(limits.allow(150, 2, false), Ok(()));
        // Central is on another host.
        assert_eq!(limits.allow(151, 1, false), Ok(()));
        assert_eq!(
            limits.allow(151, 2, false).unwrap_err(),
            "151 ranks need 153 processes, and the limit here is 152 (kernel.pid_max): at most 150 fit"
        );
        assert_eq!(
            limits.allow(201, 2, false).unwrap_err(),
            "201 ranks need 1045 open files, and the limit here is 1040 (ulimit -Hn): at most 200 fit"
        );
        let refused = limits.allow(112, 2, true).unwrap_err();
        assert!(refused.contains("need 1048 open files") && refused.ends_with("at most 111 fit"));
        let small = HostLimits {
            files: limit(63, "ulimit -Hn"),
            ..limits
        };
        assert!(
            small
                .allow(1, 2, true)
                .unwrap_err()
                .contains("open files is 63")
        );
    }
}
