//! The relaunch of a job that has lost a host: the steps of mpirun. All hosts share the folder of
//! images, or keep copies for each other. The program has also stored registered memory, from which
//! its ranks begin anew.

use super::group_watch::GroupWatch;
use super::host_link::SimLink;
use super::process_model::SimImage;
use super::work::Work;
use super::{Event, Host, JobWorld, MILLI, Shape};
use rejoin_channel_table::{Epoch, ImageId, Rank};
use rejoin_managers_protocol::central::{self, Central, HostIndex, Relaunch, StoredState};
use rejoin_managers_protocol::local::{Local, LocalInput};
use rejoin_managers_protocol::manager_messages::Time;

impl Host {
    /// A host whose local manager begins now, with this link to central.
    pub(super) fn new(
        shape: &Shape,
        (number, drift): (HostIndex, i64),
        now: Time,
        link: SimLink,
    ) -> Host {
        let mut local = Local::new();
        if let Some(terms) = shape.leases {
            local.use_leases(terms, now);
            if terms.detection.probes() {
                local.use_probes(terms.detection);
            }
        }
        if shape.lookups {
            local.use_lookups(number, shape.ranks());
        }
        Host {
            drift,
            still: false,
            displaced: false,
            told: 0,
            local: Some(local),
            link,
            tick: None,
            joined: true,
            table: None,
        }
    }

    /// A host that has no local manager yet.
    pub(super) fn spare(drift: i64) -> Host {
        Host {
            drift,
            still: false,
            displaced: false,
            told: 0,
            local: None,
            link: SimLink::undialed(),
            tick: None,
            joined: false,
            table: None,
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
        let regions = self
            .rng
            .chance(90)
            .then_some(StoredState::Regions(Epoch(1)));
        let images = self.stored_images().map(StoredState::Images);
        let states = images.into_iter().chain(regions).collect();
        self.central(central::CentralInput::Stored(states))
    }

    /// The newest checkpoint in files that outlives a host, if they are all there for the next
    /// launch or other hosts.
    fn stored_images(&self) -> Option<Epoch> {
        let epoch = match self.copy_groups().stripes().is_empty() {
            true => self.stored.file,
            false => self.stored.partner,
        }?;
        let mut ranks = (0..self.shape.ranks()).map(Rank);
        ranks
            .all(|rank| self.outlives_hosts(rank, epoch))
            .then_some(epoch)
    }

    /// Which stored states there are, for this run of central.
    pub(super) fn relaunchable(&mut self, boot: u32) -> Result<(), String> {
        if boot != self.boots || self.central.is_none() {
            return Ok(());
        }
        let images = self.stored_images().map(StoredState::Images);
        let states = images.into_iter().chain([StoredState::Regions(Epoch(1))]);
        let states = match self.rng.chance(75) {
            true => states.collect(),
            false => Vec::new(),
        };
        self.central(central::CentralInput::Relaunchable(states))
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
        let from = match next.state {
            StoredState::Images(epoch) => Some(epoch),
            StoredState::Regions(_) => None,
        };
        self.keep_files(from);
        let copies = self.copies.keep(from);
        self.processes.clear();
        self.homes.clear();
        self.instances.clear();
        self.restores.clear();
        self.loading.clear();
        self.records.clear();
        self.queue.retain(|event| matches!(event, Event::Fault(_)));
        (self.tick, self.crashes, self.signalled) = (None, None, None);
        self.tally.verdict = None;
        self.tally.continued += u64::from(from.is_some());
        self.stored = self.stored.next_launch(next.generation, from);
        let (shape, boots) = (self.shape, self.boots);
        for (number, host) in self.hosts.iter_mut().enumerate() {
            let now = Time(super::drive::clock(self.now, host.drift));
            *host = match next.placement.contains(&number) {
                true => {
                    let link = host.link.relaunched(boots);
                    Host::new(&shape, (number, host.drift), now, link)
                }
                false => Host::spare(host.drift),
            };
        }
        if let Some(failover) = &mut self.job.failover {
            failover.lost.append(&mut self.lost);
            failover.lost.push(next.lost);
            failover.drained.clone_from(&next.drained);
        }
        (self.placement, self.from) = (next.placement.clone(), from);
        (self.job.from, self.job.requested) = (from, next.requested);
        for ((rank, _), image) in &mut self.images {
            image.home = next.placement[rank.index()];
        }
        for added in std::mem::take(&mut self.added) {
            if let Some(leases) = &mut self.job.leases {
                leases.hosts.push(self.job.hosts.len());
            }
            self.job.hosts.push(added.name);
            self.job.slots.push(added.slots);
        }
        self.job.placement = next.placement;
        self.job.generation = next.generation;
        self.last_fault = self.last_fault.max(self.now);
        for (host, found) in copies {
            self.local(host, LocalInput::CopiesFound(found))?;
        }
        self.lookups = None;
        self.central = Some(Central::new(self.job.clone()));
        self.prepare_central();
        self.groups = GroupWatch::new(&self.shape);
        self.central(central::CentralInput::Begin)
    }

    /// What outlives the processes of a launch: the files of this checkpoint.
    fn keep_files(&mut self, epoch: Option<Epoch>) {
        for ((rank, other), image) in std::mem::take(&mut self.images) {
            if Some(other) == epoch.map(ImageId::Checkpoint) {
                let in_memory = false;
                let image = SimImage { in_memory, ..image };
                self.images.insert((rank, other), image);
            } else {
                self.work.forget(rank, other);
            }
        }
    }

    /// It was stored, its generation is new, and no rank is placed on a host that was lost.
    fn allows(&self, next: &Relaunch) -> Result<(), String> {
        let numbered = next.requested == self.stored.ordered;
        let stored = self.stored.relaunching.as_ref() == Some(next) && numbered;
        let mut instances = self.instances.values();
        let new = instances.all(|i| i.generation < next.generation);
        let lost = |host: &HostIndex| {
            let before = self.job.failover.iter().flat_map(|f| &f.lost);
            let before = before.chain(&self.lost);
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
