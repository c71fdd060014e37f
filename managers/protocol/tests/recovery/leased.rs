//! Jobs whose hosts go by leases: a clock, links that are cut, hosts that are lost, and the next
//! launch without them.

use super::{Host, Stored, System};
use rejoin_channel_table::{Epoch, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Failover, Job, Leases, Relaunch, StoredState,
};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::local::{Local, LocalInput};
use rejoin_managers_protocol::manager_messages::Time;
use rejoin_managers_protocol::verdict::Verdict;
use std::collections::BTreeSet;

/// A host, as far as its lease matters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LeasedHost {
    /// Its ranks are suspended.
    pub still: bool,
    /// No message passes between it and central.
    pub cut: bool,
    /// Its local manager has ended with all processes.
    pub gone: bool,
    /// The launcher has noticed that, or will.
    pub noticed: bool,
    /// Central has given it up, and it does not know yet.
    pub dropped: bool,
    /// It was cut off, lost, or silent for longer than its lease.
    pub troubled: bool,
    /// When central last granted a renewal.
    granted: Option<Time>,
}

/// A question of central.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Question {
    Stored,
    Relaunchable,
}

/// What a job with leases adds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Leased {
    now: Time,
    pub terms: Terms,
    pub job: Job,
    pub hosts: Vec<LeasedHost>,
    /// What central has asked and not been answered.
    pub question: Option<Question>,
    /// The last answer said that every rank has stored a state.
    pub stored: bool,
    /// How often the job was launched again.
    pub relaunches: u32,
    /// Ranks of this launch that have ended well.
    pub finished: BTreeSet<Rank>,
    committed: BTreeSet<Epoch>,
}

impl Leased {
    pub fn committed(&mut self, epoch: Epoch) {
        self.committed.insert(epoch);
    }

    pub fn has_committed(&self, epoch: Epoch) -> bool {
        self.committed.contains(&epoch)
    }

    pub fn granted(&mut self, host: usize) {
        self.hosts[host].granted = Some(self.now);
    }

    /// Hosts that were not lost before.
    pub fn usable(&self) -> usize {
        let lost = self.job.failover.as_ref().map_or(0, |f| f.lost.len());
        self.hosts.len() - lost
    }
}

fn host(terms: Terms, now: Time) -> Host {
    let mut local = Local::new();
    local.use_leases(terms, now);
    Host {
        local,
        up: Default::default(),
        down: Default::default(),
        sweeping: false,
        done: false,
    }
}

impl System {
    /// A job whose hosts go by leases. `failover`: it may be launched again without a lost host.
    pub fn leased(hosts: usize, ranks: u32, terms: Terms, failover: bool) -> System {
        let mut system = System::new(hosts, ranks, false);
        let job = Job {
            leases: Some(Leases {
                terms,
                hosts: (0..hosts).collect(),
            }),
            failover: failover.then(Failover::default),
            from: None,
            requested: Epoch(0),
            ..system.job()
        };
        system.central = Central::new(job.clone());
        system.hosts = (0..hosts).map(|_| host(terms, Time(0))).collect();
        system.leased = Some(Box::new(Leased {
            now: Time(0),
            terms,
            job,
            hosts: vec![LeasedHost::default(); hosts],
            question: None,
            stored: false,
            relaunches: 0,
            finished: BTreeSet::new(),
            committed: BTreeSet::new(),
        }));
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

    pub fn suspends(&mut self, host: usize, still: bool) {
        self.lease_state().hosts[host].still = still;
    }

    /// Central counts a host as silent.
    pub fn is_silent(&mut self, host: usize) {
        self.lease_state().hosts[host].troubled = true;
        self.is_fenced(host);
    }

    /// No process acts on a host whose lease counts as run out.
    fn is_fenced(&mut self, host: usize) {
        let of_host = |rank: Rank| self.host_of(rank) == host;
        let mut processes = self.processes.iter();
        let acts = processes.any(|p| p.acts() && of_host(p.instance.rank));
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
                self.hosts[host].up.clear();
                self.hosts[host].down.clear();
            }
            CentralEffect::AskStored => self.lease_state().question = Some(Question::Stored),
            CentralEffect::AskRelaunchable => {
                self.lease_state().question = Some(Question::Relaunchable);
            }
            CentralEffect::Relaunch(next) => self.relaunch(next),
            other => panic!("{other:?} in this model"),
        }
    }

    /// Central gets the answer to its question.
    pub fn answer(&mut self, stored: bool) {
        let leased = self.lease_state();
        let Some(question) = leased.question.take() else {
            return;
        };
        match question {
            Question::Stored => {
                leased.stored = stored;
                self.central(CentralInput::Stored(
                    stored
                        .then_some(StoredState::Regions(1))
                        .into_iter()
                        .collect(),
                ));
            }
            Question::Relaunchable if stored => {
                self.central(CentralInput::Relaunchable(vec![StoredState::Regions(1)]))
            }
            Question::Relaunchable => {}
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
        let placement = self.job().placement;
        let here = |rank: Rank| placement[rank.index()] == host;
        self.processes.retain(|p| !here(p.instance.rank));
        self.restores.retain(|restore| !here(restore.instance.rank));
        self.images.retain(|(rank, _), _| !here(*rank));
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

    /// Time passes until the next clock rings: of central, or of a local manager.
    pub fn ring(&mut self) -> bool {
        let now = self.now();
        let mut clocks: Vec<(Time, Option<usize>)> = Vec::new();
        clocks.extend(self.central.deadline().map(|at| (at, None)));
        for host in (0..self.hosts.len()).filter(|host| !self.is_gone(*host)) {
            let deadline = self.hosts[host].local.deadline();
            clocks.extend(deadline.map(|at| (at, Some(host))));
        }
        let Some((at, whose)) = clocks.into_iter().min() else {
            return false;
        };
        self.lease_state().now = now.max(at);
        match whose {
            None => self.central(CentralInput::Tick),
            Some(host) => self.local(host, LocalInput::Tick),
        }
        true
    }

    /// The next launch of the job, in which nothing of the last one may act.
    fn relaunch(&mut self, next: Relaunch) {
        for host in 0..self.hosts.len() {
            self.is_fenced(host);
        }
        if self.stored.relaunching.as_ref() != Some(&next) {
            self.complain("a relaunch that is not stored");
        }
        let newest = self.instances.values().map(|i| i.generation).max();
        if newest >= Some(next.generation) {
            self.complain("a relaunch in an old generation");
        }
        self.processes.clear();
        self.restores.clear();
        self.images.clear();
        self.instances.clear();
        self.records.clear();
        self.away.clear();
        self.stored = Stored::begin(next.generation);
        let leased = self.lease_state();
        leased.relaunches += 1;
        leased.finished.clear();
        leased.committed.clear();
        leased.question = None;
        leased.job.generation = next.generation;
        leased.job.placement = next.placement;
        leased
            .job
            .failover
            .get_or_insert_default()
            .lost
            .push(next.lost);
        let lost = leased.job.failover.iter().flat_map(|f| &f.lost);
        if lost
            .into_iter()
            .any(|lost| leased.job.placement.contains(lost))
        {
            self.complain("a rank on a host that was lost");
        }
        let leased = self.lease_state();
        for state in &mut leased.hosts {
            (state.still, state.dropped, state.granted) = (false, false, None);
        }
        let (terms, now, job) = (leased.terms, leased.now, leased.job.clone());
        self.hosts.iter_mut().for_each(|h| *h = host(terms, now));
        self.central = Central::new(job);
        self.central(CentralInput::Begin);
        for host in 0..self.hosts.len() {
            if self.is_gone(host) {
                self.lease_state().hosts[host].noticed = true;
                let why = "it can't be reached".to_string();
                self.central(CentralInput::HostGone(host, why));
            }
        }
    }

    /// The end of the job is one that its faults allow.
    pub fn check_end(&mut self) {
        let Some(verdict) = self.over.clone() else {
            return;
        };
        let ranks = self.ranks as usize;
        let leased = self.lease_state();
        let right = match &verdict {
            Verdict::Success => leased.finished.len() == ranks,
            Verdict::HostLost { host, .. } => {
                let of_job = leased.job.hosts.iter().position(|name| name == host);
                let lost = of_job.is_some_and(|host| leased.hosts[host].troubled);
                let stays = leased.job.failover.is_none() || !leased.stored || leased.usable() < 2;
                lost && stays
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
