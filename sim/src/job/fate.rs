//! The faults of a job.

use super::shape::{MILLI, Shape};
use crate::rng::Rng;
use rejoin_channel_table::Rank;

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFault {
    /// The rank's process is killed.
    Kill(Rank),
    /// Several at once, from this rank on.
    KillMany(Rank, u32),
    /// One of the rank's images ends.
    Image(Rank),
    /// The next image can't be taken.
    Refuse,
    /// The next file can't be written.
    NoRoom,
    /// The rank's process is killed, and the processes of its images.
    KillWithImages(Rank),
    /// Nothing reaches this host, or comes from it, for so many nanoseconds.
    Part(usize, u64),
    /// The connection between this host and central is cut, and made anew after so many
    /// nanoseconds.
    Cut(usize, u64),
    /// A local manager dies, and with it all that is on its host.
    Local(usize),
    /// Central dies, and is started again after so many nanoseconds.
    Central(u64),
    /// Ranks are to move, to this host or where there is room.
    Move(SimMovers, Option<usize>),
    /// A host of so many slots is added.
    AddHost(u32),
    /// The health command of this host answers.
    Health(usize, SimHealth),
    /// This host ends within so many milliseconds.
    Leave(usize, u64),
    /// A client requests a checkpoint.
    Ask,
    /// The launcher gets a signal.
    Signal,
    /// The job is to stop with a last checkpoint: by a signal with a grace time of so many
    /// milliseconds, or without.
    Stop(Option<u64>),
}

/// Which ranks are to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimMovers {
    /// So many, from this one on.
    Ranks(Rank, u32),
    /// All of this host.
    Host(usize),
    /// The same, for good.
    Drain(usize),
    /// As few as possible, for an even spread.
    Balance,
    /// These two, which exchange their hosts.
    Exchange(Rank, Rank),
}

/// What a health command says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimHealth {
    /// The host is fine.
    Fine,
    /// The host is suspect.
    Suspect,
    /// Its ranks are to leave.
    Leave,
}

/// How many faults of each kind, and in which span of time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fate {
    /// The journal loses the last checkpoint number that central assigned. Checkers must find that.
    pub forgets: bool,
    /// They begin at this time, in nanoseconds …
    pub from: u64,
    /// … and are over by this one.
    pub until: u64,
    /// Killed processes.
    pub kills: u32,
    /// Kills of many at once.
    pub crowds: u32,
    /// Lost images.
    pub images: u32,
    /// Images that can't be taken.
    pub refusals: u32,
    /// Files that can't be written.
    pub files: u32,
    /// Ranks that are killed together with their images in memory.
    pub pairs: u32,
    /// Parted hosts.
    pub parts: u32,
    /// Cut connections between hosts and central.
    pub cuts: u32,
    /// Dead local managers.
    pub locals: u32,
    /// Deaths of central.
    pub centrals: u32,
    /// Requests to move ranks.
    pub moves: u32,
    /// Hosts that are added.
    pub added: u32,
    /// Answers of health commands.
    pub healths: u32,
    /// Hosts that end soon.
    pub leaves: u32,
    /// Asked checkpoints.
    pub asks: u32,
    /// Signals.
    pub signals: u32,
    /// Requests to stop with a last checkpoint.
    pub stops: u32,
}

impl Fate {
    pub(super) fn draw(&self, rng: &mut Rng, shape: &Shape) -> Vec<(u64, JobFault)> {
        let mut faults = Vec::new();
        let ranks = u64::from(shape.ranks());
        let hosts = shape.hosts as u64;
        let mut strike = |count: u32, make: &dyn Fn(&mut Rng) -> JobFault| {
            for _ in 0..count {
                let fault = make(rng);
                // Half of the faults follow soon after another, while the managers still handle
                // that one.
                let close = faults.last().filter(|_| rng.chance(50));
                let at = match close {
                    Some((last, _)) => last + rng.below(20 * MILLI),
                    None => rng.between(self.from, self.until),
                };
                faults.push((at, fault));
            }
        };
        let rank = |rng: &mut Rng| Rank(rng.below(ranks) as u32);
        let host = |rng: &mut Rng| rng.below(hosts) as usize;
        strike(self.kills, &|rng| JobFault::Kill(rank(rng)));
        strike(self.crowds, &|rng| {
            JobFault::KillMany(rank(rng), rng.between(2, 40) as u32)
        });
        strike(self.images, &|rng| JobFault::Image(rank(rng)));
        strike(self.refusals, &|_| JobFault::Refuse);
        strike(self.files, &|_| JobFault::NoRoom);
        strike(self.pairs, &|rng| JobFault::KillWithImages(rank(rng)));
        strike(self.parts, &|rng| {
            JobFault::Part(host(rng), rng.between(1, 2500) * MILLI)
        });
        strike(self.cuts, &|rng| {
            JobFault::Cut(host(rng), rng.between(1, 1000) * MILLI)
        });
        strike(self.locals, &|rng| JobFault::Local(host(rng)));
        strike(self.centrals, &|rng| {
            JobFault::Central(rng.between(1, 300) * MILLI)
        });
        strike(self.moves, &|rng| {
            let movers = match rng.below(10) {
                0 => SimMovers::Drain(host(rng)),
                1 => SimMovers::Host(host(rng)),
                2 => SimMovers::Balance,
                3 => SimMovers::Exchange(rank(rng), rank(rng)),
                _ => SimMovers::Ranks(rank(rng), rng.between(1, 4) as u32),
            };
            let hosts = hosts + u64::from(self.added);
            let to = rng.chance(50).then(|| rng.below(hosts) as usize);
            JobFault::Move(movers, to)
        });
        strike(self.added, &|rng| {
            JobFault::AddHost(rng.between(1, 4) as u32)
        });
        strike(self.healths, &|rng| {
            let health = match rng.below(4) {
                0 => SimHealth::Fine,
                1 => SimHealth::Leave,
                _ => SimHealth::Suspect,
            };
            JobFault::Health(host(rng), health)
        });
        strike(self.leaves, &|rng| {
            JobFault::Leave(host(rng), rng.between(1, 20_000))
        });
        strike(self.asks, &|_| JobFault::Ask);
        strike(self.signals, &|_| JobFault::Signal);
        strike(self.stops, &|rng| {
            JobFault::Stop(rng.chance(50).then(|| rng.between(1, 2000)))
        });
        faults
    }
}
