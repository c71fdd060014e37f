//! The effects of faults on a running job.

use super::fate::{SimHealth, SimMovers};
use super::process_model::{Process, ProcessStep, SimFile};
use super::work::Work;
use super::{Event, Host, JobFault, JobWorld, Key, MILLI};
use rejoin_channel_table::{ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{self, Central, StopSignal};
use rejoin_managers_protocol::host_health::HostHealth;
use rejoin_managers_protocol::local::{Local, LocalInput};
use rejoin_managers_protocol::manager_messages::End;
use std::collections::BTreeSet;

impl<W: Work> JobWorld<W> {
    pub(super) fn inject(&mut self, fault: JobFault) -> Result<(), String> {
        if self.over.is_some() {
            return Ok(());
        }
        match fault {
            JobFault::Kill(rank) => self.kill(rank),
            JobFault::KillMany(from, count) => {
                let size = self.shape.ranks();
                for n in 0..count {
                    self.kill(Rank((from.0 + n * 7) % size))?;
                }
                Ok(())
            }
            JobFault::Image(rank) => self.lose_some_image(rank),
            JobFault::Refuse => {
                self.tally.refuses += 1;
                Ok(())
            }
            JobFault::NoRoom => {
                self.tally.unwritable += 1;
                Ok(())
            }
            JobFault::KillWithImages(rank) => self.kill_with_images(rank),
            JobFault::Part(host, time) => {
                self.hosts[host].link.make_unreachable(self.now + time);
                self.last_fault = self.last_fault.max(self.now + time);
                self.tally.parts += 1;
                Ok(())
            }
            JobFault::Cut(host, time) => {
                self.hosts[host].link.cut(self.now + time);
                self.last_fault = self.last_fault.max(self.now + time);
                self.tally.cuts += 1;
                Ok(())
            }
            JobFault::Local(host) => {
                self.crash_local(host);
                Ok(())
            }
            JobFault::Central(time) => {
                self.down_for(time);
                Ok(())
            }
            JobFault::Move(..)
            | JobFault::AddHost(_)
            | JobFault::Health(..)
            | JobFault::Leave(..) => self.change_hosts(fault),
            JobFault::Ask => self.central(central::CentralInput::Checkpoint),
            // The launcher keeps it until central is there.
            JobFault::Signal | JobFault::Stop(_) if self.central.is_none() => {
                self.after(10 * MILLI, Event::Fault(fault));
                Ok(())
            }
            JobFault::Stop(grace) => self.stop_job(grace),
            JobFault::Signal => {
                let counts = !self.stored.finalized;
                self.tally.signals += 1;
                self.central(central::CentralInput::Signal(2))?;
                let there = self.central.is_some();
                self.signalled = Some(self.boots).filter(|_| counts && there);
                Ok(())
            }
        }
    }

    fn lose_some_image(&mut self, rank: Rank) -> Result<(), String> {
        let images = self.images_of(rank);
        if images.is_empty() {
            return Ok(());
        }
        let image = *self.rng.pick(&images);
        self.lose_image(rank, image)
    }

    /// Ranks are to move, or hosts change.
    fn change_hosts(&mut self, fault: JobFault) -> Result<(), String> {
        match fault {
            JobFault::Move(movers, to) => self.move_ranks(movers, to),
            JobFault::AddHost(slots) => self.ask_for_host(slots),
            JobFault::Health(host, health) => {
                let health = match health {
                    SimHealth::Fine => HostHealth::Fine,
                    SimHealth::Suspect => HostHealth::Suspect("it is hot".into()),
                    SimHealth::Leave => HostHealth::Leave("it is broken".into()),
                };
                self.local(host, LocalInput::Health(health))
            }
            JobFault::Leave(host, millis) => {
                self.tally.leaves += 1;
                self.last_fault = self.last_fault.max(self.now + millis * MILLI);
                self.local(host, LocalInput::Leave(millis))
            }
            _ => Ok(()),
        }
    }

    fn move_ranks(&mut self, movers: SimMovers, to: Option<usize>) -> Result<(), String> {
        let movers = match movers {
            SimMovers::Ranks(first, count) => {
                let size = self.shape.ranks();
                let ranks = (0..count).map(|n| Rank((first.0 + n * 3) % size));
                central::Movers::Ranks(ranks.collect())
            }
            SimMovers::Host(host) => central::Movers::Host(host),
            SimMovers::Drain(host) => central::Movers::Drain(host),
            SimMovers::Balance => central::Movers::Balance,
            SimMovers::Exchange(one, other) => central::Movers::Exchange(one, other),
        };
        self.tally.move_requests += 1;
        let id = self.tally.move_requests;
        self.central(central::CentralInput::Move(central::MoveRequest {
            id,
            movers,
            to,
        }))
    }

    fn ask_for_host(&mut self, slots: u32) -> Result<(), String> {
        self.tally.added += 1;
        let id = self.tally.added;
        let added = central::AddedHost {
            name: format!("added{id}"),
            slots,
            is_remote: self.shape.leases.is_some(),
            lan: rejoin_channel_table::LanId::default(),
        };
        let hosts = vec![added];
        self.central(central::CentralInput::AddHosts(central::HostsRequest {
            id,
            hosts,
        }))
    }

    /// The job has one more host, unless that is known. Requests to move name it like any other.
    pub(super) fn add_host(&mut self, host: usize, added: central::AddedHost) {
        if host == self.hosts.len() {
            self.hosts.push(Host::spare(0));
            self.added.push(added);
        }
    }

    fn stop_job(&mut self, grace: Option<u64>) -> Result<(), String> {
        self.tally.stop_requests += 1;
        let signal = grace.map(|grace| StopSignal { number: 15, grace });
        self.central(central::CentralInput::Stop(signal))
    }

    pub(super) fn kill(&mut self, rank: Rank) -> Result<(), String> {
        let of_rank = (rank, Incarnation(0))..=(rank, Incarnation(u32::MAX));
        let acts = |p: &&Process| p.acts() && p.asked.is_none();
        let there = self.processes.range(of_rank).map(|(_, process)| process);
        let there: Vec<Process> = there.filter(acts).cloned().collect();
        if there.is_empty() {
            return Ok(());
        }
        // Of a rank that moves there are two.
        let process = match &there[..] {
            [one] => one.clone(),
            several => self.rng.pick(several).clone(),
        };
        let watched = process.step != ProcessStep::BeforeInit;
        let key = (rank, process.instance.incarnation);
        self.tally.kills += 1;
        self.groups.fails(rank);
        if self.stored.committed.is_none() {
            self.tally.early += 1;
        }
        self.tally.unreleased += u64::from(!self.stored.finalized);
        // The end of a process that has not called MPI_Init is not noticed early.
        let early = watched && self.rng.chance(50);
        match early {
            true => self.detect_exit(key, End::Signaled(9)),
            false => self.ended(key, End::Signaled(9)),
        }
    }

    /// With a local manager, everything on its host ends.
    pub(super) fn crash_local(&mut self, host: usize) {
        if self.hosts[host].local.take().is_none() {
            return;
        }
        self.tally.locals += 1;
        self.fails_with_host(host);
        // One that was displaced has a successor elsewhere, which works on.
        let works =
            |(key, p): &(&Key, &Process)| p.has_work && !p.stopped && self.home_of(**key) == host;
        let workers = self.processes.iter().filter(works);
        let ranks: BTreeSet<Rank> = workers.map(|(key, _)| key.0).collect();
        for rank in &ranks {
            self.paused.remove(rank);
            self.work.ended(*rank);
        }
        let homes = &self.homes;
        let here = |key: &Key| homes.get(key) == Some(&host);
        self.processes.retain(|key, _| !here(key));
        self.restores.retain(|key, _| !here(key));
        self.loading.retain(|(loads, _), _| *loads != host);
        self.copies.lose_host(host);
        let is_there = |host: usize| self.hosts[host].local.is_some();
        let of_host = self.images.iter().filter(|(_, image)| image.home == host);
        let found = of_host
            .map(|(key, _)| key)
            .filter(|(rank, id)| self.is_replaceable(*rank, *id, is_there));
        let found: BTreeSet<(Rank, ImageId)> = found.copied().collect();
        let (work, has_files) = (&mut self.work, self.shape.files.is_some());
        let is_shared = self.shape.copies.is_none();
        self.images.retain(|(rank, id), image| {
            let of_host = image.home == host;
            let elsewhere = is_shared || found.contains(&(*rank, *id));
            let stays = !of_host || (has_files && image.file == SimFile::Whole && elsewhere);
            image.in_memory &= !of_host;
            if !stays {
                work.forget(*rank, *id);
            }
            stays
        });
        let at = self.hosts[host].link.unreachable().max(self.now) + MILLI;
        self.queue.at(at, Event::LocalEnded(host));
    }

    /// Central dies: now, or in the middle of its next step.
    fn down_for(&mut self, time: u64) {
        if self.central.is_none() || self.crashes.is_some() {
            return;
        }
        self.tally.centrals += 1;
        self.outage = time;
        match self.rng.chance(50) {
            true => self.crash_central(),
            false => self.crashes = Some(self.rng.below(8)),
        }
    }

    pub(super) fn crash_central(&mut self) {
        self.crashes = None;
        self.central = None;
        self.tally.moving = 0;
        self.tick = None;
        for host in &mut self.hosts {
            host.link.central_died(self.boots, &mut self.rng);
        }
        self.boots += 1;
        self.groups.central_died();
        self.last_fault = self.last_fault.max(self.now + self.outage);
        self.after(self.outage, Event::Resume);
    }

    /// Central begins again from its journal. The launcher reports the local managers that have
    /// ended.
    pub(super) fn resume(&mut self) -> Result<(), String> {
        let mut records = self.records.clone();
        let ordered = |r: &central::Record| matches!(r, central::Record::Requested { .. });
        if let Some(last) = records.iter().rposition(ordered).filter(|_| self.forgets) {
            records.remove(last);
        }
        self.central = Some(Central::resume(self.job.clone(), records));
        self.prepare_central();
        self.dialed_soon();
        self.central(central::CentralInput::Begin)?;
        for host in 0..self.hosts.len() {
            let Host { local, joined, .. } = &self.hosts[host];
            if *joined && local.as_ref().is_none_or(Local::is_over) {
                self.central(central::CentralInput::HostLost(host))?;
            }
        }
        Ok(())
    }
}
