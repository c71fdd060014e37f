//! Jobs whose hosts go by leases: a clock, links that are cut, and hosts that are lost.

use super::{Host, SimFile, System};
use rejoin_channel_table::{Epoch, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Failover, HostCondition, Job, Leases, RankPlacement,
    StoredState,
};
use rejoin_managers_protocol::lease::{Fence, Terms};
use rejoin_managers_protocol::local::{Local, LocalInput};
use rejoin_managers_protocol::manager_messages::{ProcessInstance, Time};
use rejoin_managers_protocol::verdict::Verdict;
use std::collections::{BTreeMap, BTreeSet};

/// A host, as far as its lease matters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LeasedHost {
    /// Its ranks are suspended.
    pub still: bool,
    /// A process that is suspended here has a successor on another host.
    pub displaced: bool,
    /// Its supervisor, which suspends them.
    fence: Fence,
    /// Its manager is stopped: its ranks go on without it.
    pub stopped: bool,
    /// No message passes between it and central.
    pub cut: bool,
    /// Its local manager has ended with all processes.
    pub gone: bool,
    /// The launcher has noticed that, or will.
    pub noticed: bool,
    /// Central has given it up, and it does not know yet.
    pub dropped: bool,
    /// It was cut off, stopped, lost, or silent for longer than its lease.
    pub troubled: bool,
    /// When central last granted a renewal.
    granted: Option<Time>,
}

/// Whose clock it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Clock {
    Central,
    Manager(usize),
    Supervisor(usize),
}

/// What a job with leases adds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Leased {
    now: Time,
    pub terms: Terms,
    /// The launch as it began.
    pub job: Job,
    /// For each rank its host.
    pub placement: Vec<usize>,
    /// Hosts that this launch has lost.
    lost: Vec<usize>,
    /// The host of each process that was to be made.
    homes: BTreeMap<(Rank, Incarnation), usize>,
    pub hosts: Vec<LeasedHost>,
    /// There are no supervisors: managers suspend the ranks.
    pub is_unfenced: bool,
    /// Central has asked which states are stored, and has not been answered.
    pub is_asked: bool,
    /// The last answer said that every rank has stored a state.
    pub stored: bool,
    /// How often the job started with registered memory.
    pub region_starts: u32,
    /// How often it continued on other hosts.
    pub moves: u32,
    /// Ranks of this launch that have ended well.
    pub finished: BTreeSet<Rank>,
    committed: BTreeSet<Epoch>,
}

impl Leased {
    fn new(hosts: usize, terms: Terms, job: Job) -> Leased {
        Leased {
            now: Time(0),
            terms,
            placement: job.placement.clone(),
            lost: Vec::new(),
            homes: BTreeMap::new(),
            job,
            hosts: vec![LeasedHost::default(); hosts],
            is_unfenced: false,
            is_asked: false,
            stored: false,
            region_starts: 0,
            moves: 0,
            finished: BTreeSet::new(),
            committed: BTreeSet::new(),
        }
    }

    /// A job without leases, whose last host has no ranks at first, and can take some in.
    pub fn without_leases(hosts: usize, ranks: u32, job: Job) -> Leased {
        let job = Job {
            placement: (0..ranks as usize).map(|rank| rank % (hosts - 1)).collect(),
            failover: Some(Failover {
                takes_in: true,
                ..Failover::default()
            }),
            copies: None,
            ..job
        };
        Leased::new(hosts, Terms::new(1000, 3000), job)
    }

    /// The last incarnation of a rank that was to be made on a host.
    pub fn last_on(&self, host: usize, rank: Rank) -> Option<Incarnation> {
        let of_rank = (rank, Incarnation(0))..=(rank, Incarnation(u32::MAX));
        let mut homes = self.homes.range(of_rank).rev();
        let there = homes.find(|(_, home)| **home == host);
        there.map(|((_, incarnation), _)| *incarnation)
    }

    /// No process was ever to be made on this host.
    pub fn has_never_had(&self, host: usize) -> bool {
        !self.homes.values().any(|home| *home == host)
    }

    pub fn committed(&mut self, epoch: Epoch) {
        self.committed.insert(epoch);
    }

    pub fn has_committed(&self, epoch: Epoch) -> bool {
        self.committed.contains(&epoch)
    }

    pub fn granted(&mut self, host: usize) {
        self.hosts[host].granted = Some(self.now);
    }
}

fn host(terms: Option<Terms>, now: Time) -> Host {
    let mut local = Local::new();
    if let Some(terms) = terms {
        local.use_leases(terms, now);
    }
    Host {
        local,
        up: Default::default(),
        down: Default::default(),
        sweeping: false,
        done: false,
    }
}

impl System {
    /// A job whose hosts go by leases. `failover`: how it continues without a lost host. `files`:
    /// images also go to a folder of all hosts.
    pub fn leased(
        hosts: usize,
        ranks: u32,
        terms: Terms,
        failover: Option<Failover>,
        files: bool,
    ) -> System {
        let mut system = System::new(hosts, ranks, files);
        let job = Job {
            copies: None,
            leases: Some(Leases {
                terms,
                hosts: (0..hosts).collect(),
            }),
            failover,
            from: None,
            requested: Epoch(0),
            ..system.job()
        };
        system.central = Central::new(job.clone());
        system.hosts = (0..hosts).map(|_| host(Some(terms), Time(0))).collect();
        system.leased = Some(Box::new(Leased::new(hosts, terms, job)));
        system
    }

    pub fn now(&self) -> Time {
        self.leased.as_ref().map_or(Time(0), |leased| leased.now)
    }

    /// The additions of a job with leases.
    pub fn lease_state(&mut self) -> &mut Leased {
        self.leased.as_mut().expect("a job with leases")
    }

    pub fn is_gone(&self, host: usize) -> bool {
        self.leased.as_ref().is_some_and(|l| l.hosts[host].gone)
    }

    pub fn is_noticed(&self, host: usize) -> bool {
        self.leased.as_ref().is_some_and(|l| l.hosts[host].noticed)
    }

    /// The processes of a host can act.
    pub fn runs(&self, host: usize) -> bool {
        let runs = |l: &Leased| !l.hosts[host].still && !l.hosts[host].gone;
        self.leased.as_ref().is_none_or(|l| runs(l))
    }

    /// Messages pass between a host and central.
    pub fn is_reached(&self, host: usize) -> bool {
        let reached = |h: &LeasedHost| !h.cut && !h.gone && !h.dropped;
        self.leased.as_ref().is_none_or(|l| reached(&l.hosts[host]))
    }

    /// The manager of a host has had a lease in this launch.
    pub fn has_called(&self, host: usize) -> bool {
        let leased = self.leased.as_ref();
        leased.is_some_and(|l| l.hosts[host].granted.is_some())
    }

    /// The manager of a host is stopped.
    pub fn is_stopped(&self, host: usize) -> bool {
        self.leased.as_ref().is_some_and(|l| l.hosts[host].stopped)
    }

    /// A manager has its ranks suspended.
    pub fn suspends(&mut self, host: usize) {
        let state = &mut self.lease_state().hosts[host];
        state.fence.ended();
        state.still = true;
    }

    /// A manager has a longer lease.
    pub fn runs_until(&mut self, host: usize, until: Time) {
        let leased = self.lease_state();
        let (now, is_unfenced) = (leased.now, leased.is_unfenced);
        let state = &mut leased.hosts[host];
        state.still &= !(is_unfenced || state.fence.extended(now, until));
        if state.displaced && !state.still {
            self.complain(format!("host {host} continues ranks that others have"));
        }
    }

    /// Central counts a host as silent.
    pub fn is_silent(&mut self, host: usize) {
        self.lease_state().hosts[host].troubled = true;
        self.is_fenced(host);
    }

    /// No process acts on a host whose lease counts as run out.
    fn is_fenced(&mut self, host: usize) {
        let mut processes = self.processes.iter();
        let acts = processes.any(|p| p.acts() && self.home_of(p.instance) == host);
        if acts && self.runs(host) {
            self.complain(format!("a rank on host {host} acts without a lease"));
        }
        let leased = self.lease_state();
        let (now, lasts) = (leased.now, leased.terms.term);
        let granted = leased.hosts[host].granted.filter(|_| acts);
        if granted.is_some_and(|at| now < at.plus_millis(lasts)) {
            self.complain(format!("host {host} still has a lease"));
        }
    }

    /// The effects of central on hosts that are lost.
    pub fn of_lost_hosts(&mut self, effect: CentralEffect) {
        match effect {
            CentralEffect::Drop(host) => {
                let state = &mut self.lease_state().hosts[host];
                (state.dropped, state.troubled) = (true, true);
                self.faults.images += 1;
                self.hosts[host].up.clear();
                self.hosts[host].down.clear();
            }
            CentralEffect::RequestStored { .. } => self.lease_state().is_asked = true,
            CentralEffect::Placed(placement) => self.place(placement),
            other => panic!("{other:?} in this model"),
        }
    }

    /// Central gets the answer to its question.
    pub fn answer(&mut self, stored: bool) {
        let leased = self.lease_state();
        if !std::mem::take(&mut leased.is_asked) {
            return;
        }
        leased.stored = stored;
        let regions = StoredState::Regions(Epoch(1));
        let images = self.files_of_all().map(StoredState::Images);
        let states = images.into_iter().chain([regions]).filter(|_| stored);
        let states = states.collect();
        self.central(CentralInput::Stored(states));
    }

    /// The newest checkpoint in files that outlives a host, if every rank's file is there.
    fn files_of_all(&self) -> Option<Epoch> {
        let epoch = match self.job().copies.is_some() {
            true => self.stored.partner,
            false => self.stored.file,
        }?;
        let is_whole = |rank| {
            let image = self.images.get(&(Rank(rank), ImageId::Checkpoint(epoch)));
            image.is_some_and(|image| image.file == SimFile::Whole)
        };
        (0..self.ranks).all(is_whole).then_some(epoch)
    }

    /// The host on which a process is, or is to be.
    pub fn home_of(&self, instance: ProcessInstance) -> usize {
        let key = (instance.rank, instance.incarnation);
        let homes = self.leased.as_ref().map(|leased| &leased.homes);
        let home = homes.and_then(|homes| homes.get(&key).copied());
        home.unwrap_or_else(|| self.host_of(instance.rank))
    }

    /// This process is to be made on a host.
    pub fn settles(&mut self, host: usize, instance: ProcessInstance) {
        if let Some(leased) = &mut self.leased {
            let key = (instance.rank, instance.incarnation);
            if leased.homes.insert(key, host).is_some() {
                self.complain(format!("{instance:?} is made twice"));
            }
        }
    }

    /// Ranks of lost hosts are on others. Only their files are there.
    fn place(&mut self, placed: RankPlacement) {
        if placed.hosts.iter().any(|host| placed.lost.contains(host)) {
            self.complain("a rank is placed on a lost host");
        }
        let with_regions = placed.from.is_none() && self.stored.regions.is_some();
        let leased = self.lease_state();
        let before = std::mem::replace(&mut leased.placement, placed.hosts);
        let is_moved = |rank: Rank| before[rank.index()] != leased.placement[rank.index()];
        let moved: BTreeSet<Rank> = (0..before.len() as u32)
            .map(Rank)
            .filter(|rank| is_moved(*rank))
            .collect();
        leased.moves += u32::from(!moved.is_empty());
        leased.region_starts += u32::from(with_regions);
        leased.lost = placed.lost;
        self.images.retain(|(rank, _), image| {
            image.in_memory &= !moved.contains(rank);
            image.in_memory || image.file == SimFile::Whole
        });
    }

    /// The processes of a rank on lost hosts make no step any more when their successor begins.
    pub fn displace(&mut self, successor: ProcessInstance) {
        let home = self.home_of(successor);
        for index in 0..self.processes.len() {
            let process = &self.processes[index];
            let host = self.home_of(process.instance);
            let same = process.instance.rank == successor.rank && process.has_rank();
            if !same || host == home {
                continue;
            }
            if self.runs(host) {
                let text = format!("{:?} acts beside {successor:?}", process.instance);
                self.complain(text);
            }
            self.lease_state().hosts[host].displaced = true;
            self.processes[index].stopped = true;
        }
    }

    /// A local manager ends, and all processes and images of its host with it. `noticed`: the
    /// launcher learns that; else the host has lost its power. The launcher notices the loss of a
    /// host that has not called yet, too.
    pub fn lose_host(&mut self, host: usize, noticed: bool) {
        let state = &mut self.lease_state().hosts[host];
        let noticed = noticed || state.granted.is_none();
        (state.gone, state.noticed, state.troubled) = (true, noticed, true);
        self.faults.images += 1;
        let leased = self.lease_state();
        let (placement, homes) = (leased.placement.clone(), leased.homes.clone());
        let here = |instance: ProcessInstance| {
            homes.get(&(instance.rank, instance.incarnation)) == Some(&host)
        };
        self.processes.retain(|p| !here(p.instance));
        self.restores.retain(|restore| !here(restore.instance));
        self.images.retain(|(rank, _), image| {
            image.in_memory &= placement[rank.index()] != host;
            image.in_memory || image.file == SimFile::Whole
        });
        // Central reads what has arrived before it learns of the end.
        while let Some(message) = self.hosts[host].up.pop_front().filter(|_| noticed) {
            self.central(CentralInput::Local(host, message));
        }
        self.hosts[host].down.clear();
        self.hosts[host].sweeping = false;
        if noticed {
            self.central(CentralInput::HostLost(host));
        }
    }

    /// Time passes until the next clock rings: of central, of a local manager or of a supervisor.
    pub fn ring(&mut self) -> bool {
        let now = self.now();
        let mut clocks: Vec<(Time, Clock)> = Vec::new();
        clocks.extend(self.central.deadline().map(|at| (at, Clock::Central)));
        for host in (0..self.hosts.len()).filter(|host| !self.is_gone(*host)) {
            let manager = self.hosts[host].local.deadline();
            let manager = manager.filter(|_| !self.is_stopped(host));
            let fenced = self.leased.as_ref().filter(|leased| !leased.is_unfenced);
            let fence = fenced.and_then(|leased| leased.hosts[host].fence.deadline());
            clocks.extend(manager.map(|at| (at, Clock::Manager(host))));
            clocks.extend(fence.map(|at| (at, Clock::Supervisor(host))));
        }
        let Some((at, whose)) = clocks.into_iter().min() else {
            return false;
        };
        self.lease_state().now = now.max(at);
        match whose {
            Clock::Central => self.central(CentralInput::Tick),
            Clock::Manager(host) => self.local(host, LocalInput::Tick),
            Clock::Supervisor(host) => {
                let Leased { now, hosts, .. } = self.lease_state();
                hosts[host].still |= hosts[host].fence.due(*now);
            }
        }
        true
    }

    /// The end of the job is one that its faults allow.
    pub fn check_end(&mut self) {
        let Some(verdict) = self.over.clone() else {
            return;
        };
        let ranks = self.ranks as usize;
        let is_late = self.stored.finalized;
        let views = self.central.host_views();
        let is_last = views
            .iter()
            .all(|host| host.condition == HostCondition::Lost);
        let leased = self.lease_state();
        let right = match &verdict {
            Verdict::Success => leased.finished.len() == ranks,
            Verdict::HostLost { host, .. } => {
                let of_job = leased.job.hosts.iter().position(|name| name == host);
                let lost = of_job.is_some_and(|host| leased.hosts[host].troubled);
                let stays = leased.job.failover.is_none() || !leased.stored;
                lost && (stays || is_last || is_late)
            }
            // A rank was killed before it could be restored.
            Verdict::Failed { refusal, .. } => refusal.is_some() && self.faults.deaths > 0,
            _ => false,
        };
        if !right {
            self.complain(format!("the job ends so: {verdict}"));
        }
    }
}
