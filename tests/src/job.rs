//! A job from outside: its processes, and numbers from a seed to choose among them.

use crate::limits::SOON;
use crate::processes::{
    children, eldest_of_each_rank, is_alive, is_stopped, kill, lives, rank_of, wait_for,
};
use std::path::Path;

/// Numbers from a seed (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub struct Numbers(pub u64);

impl Numbers {
    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// The name of a process that has not ended, stopped or not.
fn name_if_it_is_there(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, tail) = stat.rsplit_once(')')?;
    let there = !"ZX".contains(tail.split_whitespace().next()?);
    there.then(|| head.split_once('(').map(|(_, name)| name.to_owned()))?
}

/// The children of a process that have this name (as the kernel keeps it, 15 bytes) and live.
pub fn living_children(parent: u32, name: &str) -> Vec<u32> {
    let is = |pid: &u32| lives(*pid) && name_if_it_is_there(*pid).is_some_and(|n| n == name);
    children(parent).into_iter().filter(is).collect()
}

/// The job's local manager, its ranks that run, and their frozen images.
pub struct Job {
    mpirun: u32,
    local: u32,
    name: String,
}

impl Job {
    /// Waits for the local manager of an `mpirun` that runs the program `name`.
    ///
    /// # Panics
    /// When it does not come.
    pub fn of(mpirun: u32, name: &str) -> Job {
        Self::unless_over(mpirun, name).expect("a job that has not ended")
    }

    /// The same for one that may have ended before anybody looked.
    ///
    /// # Panics
    /// When the local manager does not come.
    pub fn unless_over(mpirun: u32, name: &str) -> Option<Job> {
        let mut local = None;
        wait_for(SOON, "the local manager", || {
            local = living_children(mpirun, "rejoin-local").first().copied();
            local.is_some() || !is_alive(mpirun)
        });
        Some(Job {
            mpirun,
            local: local?,
            // As the kernel keeps it.
            name: name.chars().take(15).collect(),
        })
    }

    /// Its local manager.
    pub fn local(&self) -> u32 {
        self.local
    }

    fn called(&self, name: &str) -> Vec<u32> {
        living_children(self.local, name)
    }

    /// Its ranks that run.
    pub fn ranks(&self) -> Vec<u32> {
        eldest_of_each_rank(self.called(&self.name))
    }

    /// Waits for as many ranks other than these, and counts them among these: a recovery replaces
    /// all of them.
    ///
    /// # Panics
    /// When they do not come.
    pub fn fresh_ranks(&self, count: usize, seen: &mut Vec<u32>) -> Vec<u32> {
        let mut now = Vec::new();
        wait_for(SOON, "ranks that are back", || {
            now = self.ranks();
            now.retain(|pid| !seen.contains(pid));
            now.len() == count || !self.goes_on()
        });
        seen.extend(&now);
        now
    }

    /// Its `mpirun` has not ended.
    pub fn goes_on(&self) -> bool {
        is_alive(self.mpirun)
    }

    /// Its central manager, if that lives.
    pub fn central(&self) -> Option<u32> {
        let all = children(self.mpirun);
        let is = |pid: &u32| name_if_it_is_there(*pid).is_some_and(|n| n == "rejoin-central");
        all.into_iter().find(is)
    }

    /// Whether the first checkpoint of so many ranks is committed. Only then further images and
    /// processes are made. Before that, at most one loss can be masked.
    pub fn has_checkpoint(&self, ranks: usize) -> bool {
        self.images().len() > ranks
    }

    /// Its frozen images, and processes made ahead.
    pub fn images(&self) -> Vec<u32> {
        self.called("rejoin-twin")
    }

    /// Kills ranks and their images, all at once.
    ///
    /// # Panics
    /// When a rank is not suspended in time.
    pub fn kill_with_images(&self, victims: &[usize]) {
        let of = |pids: Vec<u32>| {
            let is_victim = |pid: &u32| rank_of(*pid).is_some_and(|rank| victims.contains(&rank));
            pids.into_iter().filter(is_victim).collect::<Vec<_>>()
        };
        let ranks = of(self.ranks());
        // The loss of an image makes a new one within a millisecond, unless the rank is suspended.
        ranks.iter().for_each(|pid| kill(*pid, libc::SIGSTOP));
        for pid in &ranks {
            wait_for(SOON, "a rank that is suspended", || {
                is_stopped(*pid) || !is_alive(*pid)
            });
        }
        let images = of(self.images()).into_iter();
        images.chain(ranks).for_each(|pid| kill(pid, libc::SIGKILL));
    }
}

/// How often a file of events tells of something.
pub fn happened(events: impl AsRef<Path>, kind: &str) -> usize {
    let text = std::fs::read_to_string(events).unwrap_or_default();
    let wanted = format!("\"event\":\"{kind}\"");
    text.lines()
        .filter(|l| l.replace(": ", ":").contains(&wanted))
        .count()
}

/// How many ranks came back, by the messages of mpirun.
pub fn times_back(stderr: &str) -> u32 {
    let back = |line: &str| {
        let rest = line.strip_prefix("mpirun: rank")?.trim_start_matches('s');
        let (ranks, _) = rest
            .split_once(" is back after ")
            .or_else(|| rest.split_once(" are back after "))?;
        u32::try_from(
            ranks
                .split(',')
                .flat_map(|part| part.split(" and "))
                .count(),
        )
        .ok()
    };
    stderr.lines().filter_map(back).sum()
}

/// The lines of each rank of a run with `--tag-output`. They keep the rank's order if that is the
/// same in each run.
pub fn by_rank(text: &str, ordered: bool) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let tag = |line: &String| line.split('>').next().unwrap_or("").to_owned();
    if ordered {
        lines.sort_by_key(tag);
    } else {
        lines.sort();
    }
    lines
}
