//! What the machine is like while a case runs: how its cores reach each other's memory, and what
//! else it does.

use super::contestants::Medium;
use super::intervals::median;
use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::{SysconfVar, sysconf};
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Cores share a cache if plain copies through a ring move so many MB/s: where they share none,
/// 2,000 to 9,000 were seen.
const SHARED: f64 = 12_000.0;
/// Most of the machine's time that other processes may take while a case runs.
const BUSY: f64 = 0.05;

/// How the cores of a machine reach what the other has written. On a virtual machine it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Character {
    /// They share a cache.
    Shared,
    /// They share none, or one that is far.
    Apart,
}

impl Character {
    /// Both, in the order of their tables.
    pub const ALL: [Self; 2] = [Self::Shared, Self::Apart];

    /// Heading of the table of its figures.
    pub fn title(self) -> &'static str {
        match self {
            Self::Shared => "Cores that share a cache",
            Self::Apart => "Cores apart",
        }
    }

    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Apart => "apart",
        }
    }
}

/// The conditions of one case: medians of its rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// MB/s of plain copies through a ring, by two processes.
    pub ring: f64,
    /// MB/s of `process_vm_readv`; 0: it is not allowed.
    pub read: f64,
    /// Part of the machine's processor time that other processes took.
    pub others: f64,
}

impl Conditions {
    /// The character of the machine during the case.
    pub fn character(&self) -> Character {
        match self.ring >= SHARED {
            true => Character::Shared,
            false => Character::Apart,
        }
    }

    /// Whether other processes took so much that the figures say nothing of a goal.
    pub fn is_busy(&self) -> bool {
        self.others > BUSY
    }

    /// The conditions that [`Display`] has written.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ').skip(1);
        let mut next = || words.next()?.split_once('=')?.1.parse().ok();
        Some(Self {
            ring: next()?,
            read: next()?,
            others: next()?,
        })
    }
}

impl Display for Conditions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.character().name();
        let Self { ring, read, others } = self;
        write!(f, "{name} ring={ring:.0} read={read:.0} others={others:.3}")
    }
}

/// Measures the conditions round by round.
pub struct Observer<'a> {
    program: &'a Path,
    ring: Vec<f64>,
    read: Vec<f64>,
    others: Vec<f64>,
}

impl<'a> Observer<'a> {
    /// `program`: `benches/c/conditions.c`, compiled.
    pub fn new(program: &'a Path) -> Self {
        Self {
            program,
            ring: Vec::new(),
            read: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Takes the time that other processes had during a round.
    pub fn round<T>(&mut self, round: impl FnOnce() -> T) -> Result<T> {
        self.ring.push(measured(self.program, "ring")?);
        self.read.push(measured(self.program, "read")?);
        let before = (Instant::now(), busy_seconds()?, own_seconds()?);
        let result = round();
        let wall = before.0.elapsed().as_secs_f64();
        let cores = std::thread::available_parallelism()?.get() as f64;
        let others = (busy_seconds()? - before.1) - (own_seconds()? - before.2);
        self.others.push((others / (wall * cores)).max(0.0));
        Ok(result)
    }

    /// The medians.
    pub fn conditions(&self) -> Option<Conditions> {
        Some(Conditions {
            ring: median(&self.ring)?,
            read: median(&self.read)?,
            others: median(&self.others)?,
        })
    }
}

fn measured(program: &Path, what: &str) -> Result<f64> {
    let output = Command::new(program).arg(what).output();
    let output = output.with_context(|| format!("starting {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "{} {what} failed",
        program.display()
    );
    let value = text.split('\t').nth(2).context("no figure printed")?;
    Ok(value.trim().parse()?)
}

/// Processor seconds of all processes of the machine (`/proc/stat`, proc(5)).
fn busy_seconds() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let ticks: Vec<f64> = text
        .split_whitespace()
        .skip(1)
        .take(7)
        .flat_map(str::parse)
        .collect();
    // Without the fourth and fifth, which are idle and waiting for devices; what follows the seven
    // is of other machines.
    let busy = ticks.iter().sum::<f64>() - ticks.iter().skip(3).take(2).sum::<f64>();
    let per_second = sysconf(SysconfVar::CLK_TCK)?.context("no length of a tick")?;
    Ok(busy / per_second as f64)
}

/// Processor seconds of this process and of all its children that ended.
fn own_seconds() -> Result<f64> {
    let mut all = 0.0;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who)?;
        let time = usage.user_time() + usage.system_time();
        all += time.num_microseconds() as f64 / 1e6;
    }
    Ok(all)
}

/// What the page says of the conditions.
pub fn text(medium: Medium) -> String {
    let shared = SHARED / 1000.0;
    let busy = BUSY * 100.0;
    let tables = match medium {
        Medium::Shm => format!(
            "Each round also measures the machine: plain copies through a ring of two processes \
             (`ring`) and `process_vm_readv` (`read`), in GB/s. From {shared} GB/s of the ring on, \
             the cores share a cache; figures of either kind have a table of their own. "
        ),
        Medium::Tcp => String::new(),
    };
    format!(
        "{tables}`others` is the part of the processor time that other processes took; beyond \
         {busy} % no goal is called met or missed (busy)."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let conditions = Conditions {
            ring: 2143.0,
            read: 11264.0,
            others: 0.125,
        };
        assert_eq!(
            conditions.to_string(),
            "apart ring=2143 read=11264 others=0.125"
        );
        assert_eq!(Conditions::parse(&conditions.to_string()), Some(conditions));
        assert_eq!(Conditions::parse("0.31 0.32"), None);
        assert_eq!(conditions.character(), Character::Apart);
        assert!(conditions.is_busy());
    }

    #[test]
    fn the_time_of_this_process_is_in_that_of_all() {
        let now = || (busy_seconds().expect("all"), own_seconds().expect("own"));
        let (busy, own) = now();
        while now().1 < own + 0.2 {}
        // What this process takes is in both, within the ticks of the system's count.
        assert!(now().0 - busy > 0.1, "{} after {busy}", now().0);
    }
}
