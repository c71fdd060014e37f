//! The relaunch of a job that has lost a host: the steps of mpirun.

use super::host_link::SimLink;
use super::stored::Stored;
use super::work::Work;
use super::{Event, Host, JobWorld, MILLI, Shape};
use rejoin_channel_table::Rank;
use rejoin_managers_protocol::central::{self, Central, HostIndex, Relaunch};
use rejoin_managers_protocol::local::Local;
use rejoin_managers_protocol::manager_messages::Time;

impl Host {
    /// A host whose local manager begins now, with this link to central.
    pub(super) fn new(shape: &Shape, drift: i64, now: Time, link: SimLink) -> Host {
        let mut local = Local::new();
        if let Some(terms) = shape.leases {
            local.use_leases(terms, now);
        }
        if shape.lookups {
            // There is no tree: each host gets the table.
            local.use_lookups(0, shape.ranks());
        }
        Host {
            drift,
            still: false,
            told: 0,
            local: Some(local),
            link,
            tick: None,
        }
    }
}

impl<W: Work> JobWorld<W> {
    /// Central asks which state is stored. The answer is known when the last output has arrived.
    pub(super) fn ask_stored(&mut self) {
        // The job has no verdict any more.
        self.tally.verdict = None;
        let delay = self.rng.between(100_000, 5 * MILLI);
        self.after(delay, Event::Stored(self.boots));
    }

    /// The answer, to this run of central.
    pub(super) fn stored(&mut self, boot: u32) -> Result<(), String> {
        if boot != self.boots || self.central.is_none() {
            return Ok(());
        }
        let state = self
            .rng
            .chance(90)
            .then_some(central::StoredState::Regions(1));
        self.central(central::CentralInput::Stored(state))
    }

    /// Whether there is a stored state, to this run of central.
    pub(super) fn relaunchable(&mut self, boot: u32) -> Result<(), String> {
        let asked = boot == self.boots && self.central.is_some();
        match asked && self.rng.chance(50) {
            true => self.central(central::CentralInput::Relaunchable),
            false => Ok(()),
        }
    }

    /// All ranks are launched again. No process of the former launch acts any more, on any host.
    pub(super) fn relaunch(&mut self, next: Relaunch) -> Result<(), String> {
        for host in 0..self.hosts.len() {
            self.is_fenced(host)?;
        }
        self.allows(&next)?;
        self.tally.relaunches += 1;
        for rank in (0..self.shape.ranks()).map(Rank) {
            self.work.ended(rank);
        }
        for (rank, epoch) in std::mem::take(&mut self.images).into_keys() {
            self.work.forget(rank, epoch);
        }
        self.processes.clear();
        self.instances.clear();
        self.restores.clear();
        self.records.clear();
        self.queue.retain(|event| matches!(event, Event::Fault(_)));
        (self.tick, self.crashes, self.signalled) = (None, None, None);
        self.tally.verdict = None;
        self.stored = Stored::begin(next.generation);
        let (shape, boots) = (self.shape, self.boots);
        for host in &mut self.hosts {
            let now = Time(super::drive::clock(self.now, host.drift));
            *host = Host::new(&shape, host.drift, now, host.link.relaunched(boots));
        }
        if let Some(failover) = &mut self.job.failover {
            failover.lost.push(next.lost);
        }
        self.job.placement = next.placement;
        self.job.generation = next.generation;
        self.last_fault = self.last_fault.max(self.now);
        self.central = Some(Central::new(self.job.clone()));
        self.central(central::CentralInput::Begin)
    }

    /// It was stored, its generation is new, and no rank is placed on a host that was lost.
    fn allows(&self, next: &Relaunch) -> Result<(), String> {
        let stored = self.stored.relaunching.as_ref() == Some(next);
        let mut instances = self.instances.values();
        let new = instances.all(|i| i.generation < next.generation);
        let lost = |host: &HostIndex| {
            let before = self.job.failover.iter().flat_map(|f| &f.lost);
            before.chain([&next.lost]).any(|lost| lost == host)
        };
        let placed = !next.placement.iter().any(lost);
        match stored && new && placed {
            true => Ok(()),
            false => Err(format!(
                "{next:?}: stored {stored}, new {new}, placed {placed}"
            )),
        }
    }
}
