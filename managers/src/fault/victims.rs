//! The processes of a job by their role, as the system shows them, because the test may concern the
//! managers' own tables.

use rejoin_managers_host::descendants;
use std::fmt;

/// The process that a fault kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    Rank(u32),
    Twin(u32),
    Local,
    Central,
    Nobody,
    /// No process: the manager waits.
    Wait,
}

/// The kernel's names of the processes of a job.
const TWIN: &str = "rejoin-twin";
const LOCAL: &str = "rejoin-local";
const CENTRAL: &str = "rejoin-central";
const LAUNCHER: &str = "mpirun";

impl Victim {
    /// The victim of this name.
    pub(super) fn of(name: &str) -> Option<Victim> {
        let number = |prefix| name.strip_prefix(prefix)?.parse().ok();
        match name {
            "local" => Some(Victim::Local),
            "central" => Some(Victim::Central),
            "nobody" => Some(Victim::Nobody),
            "wait" => Some(Victim::Wait),
            _ => number("rank-")
                .map(Victim::Rank)
                .or_else(|| number("twin-").map(Victim::Twin)),
        }
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Victim::Rank(rank) => write!(f, "rank-{rank}"),
            Victim::Twin(rank) => write!(f, "twin-{rank}"),
            Victim::Local => write!(f, "local"),
            Victim::Central => write!(f, "central"),
            Victim::Nobody => write!(f, "nobody"),
            Victim::Wait => write!(f, "wait"),
        }
    }
}

struct Seen {
    pid: u32,
    name: String,
    state: char,
}

fn seen(pid: u32) -> Option<Seen> {
    let stat = descendants::stat(pid)?;
    Some(Seen {
        pid,
        name: stat.comm,
        state: stat.state,
    })
}

/// The process of the job from which all others come, as far as it runs on this host.
fn root() -> u32 {
    let own = std::process::id();
    let mut at = own;
    while at > 1 {
        if seen(at).is_some_and(|s| s.name == LAUNCHER) {
            return at;
        }
        match descendants::parent_of(at) {
            Some(parent) => at = parent,
            None => break,
        }
    }
    own
}

/// The processes of those that are there.
pub(super) fn find(victims: &[Victim]) -> Vec<(Victim, u32)> {
    if victims.iter().all(|victim| *victim == Victim::Nobody) {
        return Vec::new();
    }
    let root = root();
    let mut all = descendants::below(root);
    all.push(root);
    let all: Vec<Seen> = all.into_iter().filter_map(seen).collect();
    let there = |s: &&Seen| !"ZX".contains(s.state);
    let called = |name: &'static str| all.iter().filter(there).filter(move |s| s.name == name);
    let mut found = Vec::new();
    for &victim in victims {
        let pids: Vec<u32> = match victim {
            Victim::Nobody | Victim::Wait => Vec::new(),
            Victim::Local => called(LOCAL).map(|s| s.pid).take(1).collect(),
            Victim::Central => called(CENTRAL).map(|s| s.pid).take(1).collect(),
            Victim::Twin(rank) => {
                let of = |s: &&Seen| descendants::rank_of(s.pid) == Some(rank);
                called(TWIN).filter(of).map(|s| s.pid).collect()
            }
            Victim::Rank(rank) => {
                let managers = [TWIN, LOCAL, CENTRAL, LAUNCHER];
                let others = all.iter().filter(there);
                let mut ranks: Vec<_> = others
                    .filter(|s| !managers.contains(&s.name.as_str()))
                    .filter(|s| descendants::rank_of(s.pid) == Some(rank))
                    .collect();
                // A stopped one is about to go anyway, and counts only where there is no other.
                ranks.sort_by_key(|s| s.state == 'T');
                ranks.first().map(|s| s.pid).into_iter().collect()
            }
        };
        found.extend(pids.into_iter().map(|pid| (victim, pid)));
    }
    found
}

/// Sends SIGKILL; to this process last.
pub(super) fn kill(pids: &[u32]) {
    let own = std::process::id();
    let (us, others): (Vec<u32>, Vec<u32>) = pids.iter().partition(|pid| **pid == own);
    for pid in others.into_iter().chain(us) {
        descendants::send(pid, libc::SIGKILL);
    }
}
