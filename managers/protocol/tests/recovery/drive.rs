//! The drivers of the cores. They carry out effects at once where the order makes no difference.

use super::System;
use super::{Process, ProcessStep, SimRestore};
use rejoin_channel_table::{Epoch, ImageId, Incarnation, MoveNumber, Rank};
use rejoin_managers_protocol::central::{self, Central, Event, Record};
use rejoin_managers_protocol::local;
use rejoin_managers_protocol::manager_messages::{Cause, End, ProcessInstance, Time, ToLocal};
use std::collections::VecDeque;

/// SIGSEGV: a fault of the program's own.
pub const FAULT: i32 = 11;
const CONT: i32 = 18;

/// As the journal does: of most kinds, only the last counts.
fn remember(records: &mut Vec<Record>, record: &Record) {
    use std::mem::discriminant;
    let finalized = Record::Finalized {
        generation: Default::default(),
        last: None,
    };
    let moving = Record::Moving {
        plans: Vec::new(),
        visited: Vec::new(),
        spent: Vec::new(),
        number: MoveNumber::next(None, Epoch(0)),
        moves: Vec::new(),
    };
    let all = [finalized, Record::HostDone(0), moving];
    if let Record::Moved { .. } = record {
        return records.push(record.clone());
    }
    if !all.iter().any(|r| discriminant(r) == discriminant(record)) {
        let other = |old: &Record| discriminant(old) != discriminant(record);
        records.retain(|old| other(old) || counts_beside(old, record));
    }
    records.push(record.clone());
}

/// An earlier record counts beside a later one: it is of another level, or of ranks that the later
/// return does not bring back.
fn counts_beside(earlier: &Record, later: &Record) -> bool {
    match (earlier, later) {
        (Record::Committed { level: a, .. }, Record::Committed { level: b, .. }) => a != b,
        (Record::Return(earlier), Record::Return(later)) => {
            let mut ranks = earlier.ranks.iter();
            ranks.any(|(rank, _)| later.ranks.iter().all(|(other, _)| other != rank))
        }
        _ => false,
    }
}

impl System {
    /// The job is to stop with a last checkpoint.
    pub fn stop_job(&mut self) {
        self.faults.stops += 1;
        self.central(central::CentralInput::Stop(None));
    }

    pub fn central(&mut self, input: central::CentralInput) {
        let mut effects = Vec::new();
        let now = self.now();
        self.central.step(now, input, &mut effects);
        let doomed = self.doomed.take();
        let mut stored = 0;
        for effect in effects {
            match effect {
                central::CentralEffect::Persist(record) => {
                    // Records that no central manager reads would only separate equal states.
                    let forgotten = self.forgets && matches!(record, Record::Return(_));
                    let moving = self.moving.as_ref();
                    let forgotten = forgotten || moving.is_some_and(|m| m.forgets(&record));
                    if let (Some(leased), Record::Committed { epoch, .. }) =
                        (&mut self.leased, &record)
                    {
                        leased.committed(*epoch);
                    }
                    self.check_copies(&record);
                    if !self.prompt && !forgotten {
                        remember(&mut self.records, &record);
                    }
                    let lost = self.faults.images > 0;
                    let right = self.stored.store(record, self.ranks, &self.images, lost);
                    right.unwrap_or_else(|wrong| self.complain(wrong));
                    stored += 1;
                    if doomed == Some(stored) {
                        break;
                    }
                }
                central::CentralEffect::Send(host, order) => {
                    if !self.stored.covers(host, &order) {
                        self.complain(format!("{order:?} before it is stored"));
                    }
                    self.stored.promise(&order);
                    if let (Some(leased), ToLocal::Granted { .. }) = (&mut self.leased, &order) {
                        leased.granted(host);
                    }
                    if self.prompt && matches!(order, ToLocal::Acknowledged { .. }) {
                        self.local(host, local::LocalInput::Central(order));
                    } else {
                        self.carry(host, order);
                    }
                }
                central::CentralEffect::SendAll(hosts, order) => {
                    if !hosts.iter().all(|host| self.stored.covers(*host, &order)) {
                        self.complain(format!("{order:?} before it is stored"));
                    }
                    self.stored.promise(&order);
                    for host in hosts {
                        self.carry(host, order.clone());
                    }
                }
                central::CentralEffect::Event(event) => self.note(event),
                central::CentralEffect::Decided(_) | central::CentralEffect::Resumed { .. } => {}
                central::CentralEffect::Over(verdict) => self.over = Some(verdict),
                central::CentralEffect::Moved { rank, to, .. } => self.placed(rank, to),
                central::CentralEffect::MovedBack(_, ranks) => {
                    ranks
                        .into_iter()
                        .for_each(|(rank, to)| self.placed(rank, to));
                }
                central::CentralEffect::Join(_) => {}
                other => self.of_lost_hosts(other),
            }
        }
        if doomed.is_some() && self.over.is_none() {
            self.central_dies(false);
        }
    }

    /// A new central manager replaces it and knows the stored records. Messages on their way from
    /// the hosts are lost. Messages on their way to the hosts are lost too, or arrive late.
    pub fn central_dies(&mut self, late: bool) {
        for host in &mut self.hosts {
            host.up.clear();
            if !late {
                host.down.clear();
            }
        }
        if let Some(leased) = &mut self.leased {
            leased.is_asked = false;
        }
        self.central = Central::resume(self.job(), self.records.clone());
        self.central(central::CentralInput::Begin);
        for host in 0..self.hosts.len() {
            if self.hosts[host].done || self.is_noticed(host) {
                self.central(central::CentralInput::HostLost(host));
            }
        }
    }

    fn note(&mut self, event: Event) {
        self.note_move(&event);
        match event {
            Event::Recovered { alone: None, .. } => self.recovered = true,
            Event::HostSilent { host, .. } => self.is_silent(host),
            Event::Recovered {
                alone: Some((rank, _)),
                ..
            } => {
                self.away.remove(&rank);
            }
            Event::Lost {
                rank,
                cause,
                generation,
                pid,
                alone,
                ..
            } => {
                if alone {
                    self.away.insert(rank);
                }
                if !self.prompt && !self.told.insert((rank, generation, pid)) {
                    return;
                }
                let Cause::Ended { end, .. } = cause else {
                    return self.complain(format!("{cause:?} is masked"));
                };
                match end {
                    End::Signaled(FAULT) => {
                        let origins = &self.stored.origins;
                        let origin = origins.get(&generation).filter(|_| !alone).copied();
                        let from = origin.unwrap_or(self.stored.committed);
                        let fault = (rank, FAULT, from);
                        if from.is_some() && self.masked.contains(&fault) {
                            self.complain("the same fault is masked again");
                        }
                        self.masked.push(fault);
                        self.masked.sort();
                    }
                    End::Signaled(_) => {}
                    end => self.complain(format!("{end:?} is masked")),
                }
            }
            _ => {}
        }
    }

    pub fn local(&mut self, host: usize, input: local::LocalInput) {
        self.local_at(host, self.now(), input);
    }

    /// Its clock rings.
    pub fn tick(&mut self, host: usize) {
        if let Some(at) = self.hosts[host].local.deadline() {
            self.local_at(host, at, local::LocalInput::Tick);
        }
    }

    fn local_at(&mut self, host: usize, at: Time, input: local::LocalInput) {
        if self.is_gone(host) {
            return;
        }
        if self.is_stopped(host) {
            self.complain(format!("the stopped manager of host {host} makes a step"));
        }
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut effects = Vec::new();
            self.hosts[host].local.step(at, input, &mut effects);
            for effect in effects {
                self.perform(host, effect, &mut inputs);
            }
        }
    }

    /// The process that the manager of this host means.
    fn current(&mut self, host: usize, rank: Rank) -> Option<&mut Process> {
        let incarnation = match &self.leased {
            Some(leased) => leased.last_on(host, rank)?,
            None => self.instances.get(&rank)?.incarnation,
        };
        let mut processes = self.processes.iter_mut();
        let is_it = |p: &Process| p.instance.rank == rank && p.instance.incarnation == incarnation;
        processes.find(|p| is_it(p) && p.acts())
    }

    fn perform(
        &mut self,
        host: usize,
        effect: local::LocalEffect,
        inputs: &mut VecDeque<local::LocalInput>,
    ) {
        match effect {
            local::LocalEffect::Spawn(instance) => {
                self.begins(host, instance, false);
                let process = Process::new(
                    instance,
                    ProcessStep::BeforeInit,
                    ProcessStep::Computes,
                    None,
                );
                let pid = process.pid();
                let spawned = local::LocalInput::Spawned(instance.rank, instance.incarnation, pid);
                inputs.push_back(spawned);
                self.processes.push(process);
            }
            local::LocalEffect::TakeIn(..) => {}
            local::LocalEffect::Restore(instance, id) => self.restore(host, instance, id),
            local::LocalEffect::Retire(rank, incarnation) => self.retire(rank, incarnation, inputs),
            local::LocalEffect::Discard(rank, incarnation) => {
                let same =
                    |p: &Process| p.instance.rank == rank && p.instance.incarnation == incarnation;
                if self.processes.iter().any(|p| p.acts() && same(p)) {
                    self.complain("a discarded process still acts");
                }
                self.processes.retain(|p| p.exiting || !same(p));
            }
            local::LocalEffect::DropImage(rank, id) => self.drop_image(host, rank, id),
            local::LocalEffect::DropFromMemory(rank, id) => self.drop_from_memory(rank, id),
            local::LocalEffect::Central(message) => {
                self.hosts[host].up.push_back(message);
            }
            local::LocalEffect::Ranks(ranks, message) => {
                for rank in ranks {
                    if let Some(instance) = self.current(host, rank).map(|p| p.instance) {
                        self.hears(instance, &message);
                    }
                }
            }
            local::LocalEffect::SignalGroup(_, CONT) | local::LocalEffect::SignalAll(CONT) => {}
            local::LocalEffect::SignalGroup(rank, signal) => {
                if let Some(process) = self.current(host, rank) {
                    process.asked = process.asked.or(Some(signal));
                }
            }
            local::LocalEffect::SignalAll(signal) => self.signal_all(host, signal),
            local::LocalEffect::Sweep => self.hosts[host].sweeping = true,
            local::LocalEffect::Exit { .. } => self.hosts[host].done = true,
            local::LocalEffect::HasLeft(_) => {}
            local::LocalEffect::StopAll => self.suspends(host),
            local::LocalEffect::RunUntil(until) => self.runs_until(host, until),
            other => inputs.extend(self.perform_on_files(host, other)),
        }
    }

    /// An effect on files of images. Returns what the host says of it.
    fn perform_on_files(
        &mut self,
        host: usize,
        effect: local::LocalEffect,
    ) -> Option<local::LocalInput> {
        match effect {
            local::LocalEffect::WriteImage(rank, epoch) => {
                self.write_image(rank, ImageId::Checkpoint(epoch))
            }
            local::LocalEffect::WriteImageOfMove(rank, number, _) => {
                self.write_image(rank, ImageId::Move(number))
            }
            local::LocalEffect::Load(rank, number, _) => Some(self.load(rank, number)),
            local::LocalEffect::Unload(_) => None,
            local::LocalEffect::CopyImage(members, epoch) => self.copy_image(host, &members, epoch),
            local::LocalEffect::DropCopy(file) => {
                if let Some(epoch) = file.image.checkpoint() {
                    self.copies.remove(&(file.rank, epoch));
                }
                None
            }
            other => panic!("{other:?} in this model"),
        }
    }

    /// A host drops an image, unless its rank has moved: then another host has the file now.
    fn drop_image(&mut self, host: usize, rank: Rank, id: ImageId) {
        if self.image_home(rank, id) == host || self.moving.is_none() {
            self.images.remove(&(rank, id));
        }
    }

    fn signal_all(&mut self, host: usize, signal: i32) {
        for index in 0..self.processes.len() {
            if self.home_of(self.processes[index].instance) == host {
                let asked = &mut self.processes[index].asked;
                *asked = asked.or(Some(signal));
            }
        }
    }

    /// Neither generations nor incarnations ever fall, except those of a move that was given up:
    /// its process never starts. None is used twice.
    fn begins(&mut self, host: usize, instance: ProcessInstance, moves: bool) {
        self.settles(host, instance);
        let last = self.instances.get(&instance.rank);
        if moves && last.is_some_and(|last| instance.incarnation < last.incarnation) {
            return;
        }
        if let Some(last) = self.instances.insert(instance.rank, instance)
            && (instance.incarnation <= last.incarnation || instance.generation < last.generation)
        {
            self.complain(format!("{instance:?} after {last:?}"));
        }
    }

    fn restore(&mut self, host: usize, instance: ProcessInstance, image: ImageId) {
        self.begins(host, instance, image.checkpoint().is_none());
        let leased = self.leased.as_ref();
        let is_early = |epoch| leased.is_some_and(|leased| !leased.has_committed(epoch));
        if image.checkpoint().is_some_and(is_early) {
            self.complain(format!("{image} is restored and was not committed"));
        }
        self.restores.push(SimRestore {
            instance,
            image,
            // As the host knows it: one generation, and not the first instance in it.
            alone: self.stored.finalized && instance.generation == self.stored.generation,
            stop: false,
        });
    }

    fn retire(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        inputs: &mut VecDeque<local::LocalInput>,
    ) {
        let same = |instance: ProcessInstance| {
            instance.rank == rank && instance.incarnation == incarnation
        };
        if let Some(restore) = self.restores.iter_mut().find(|w| same(w.instance)) {
            restore.stop = true;
            return;
        }
        let there = self.processes.iter_mut().find(|p| same(p.instance));
        match there.filter(|process| process.acts()) {
            Some(process) => process.stopping = true,
            None => inputs.push_back(local::LocalInput::Retired(rank, incarnation)),
        }
    }

    /// One host's word reaches central at once: only the order of words counts there, and nothing
    /// else comes between. That of several hosts does in a model that is made smaller so.
    pub fn settle(&mut self) {
        let is_quick = self.hosts.len() == 1 || self.is_quick();
        while is_quick
            && let Some(host) = self.hosts.iter().position(|host| !host.up.is_empty())
            && let Some(message) = self.hosts[host].up.pop_front()
        {
            self.central(central::CentralInput::Local(host, message));
        }
        self.processes
            .sort_by_key(|p| (p.instance.rank, p.instance.incarnation));
        self.restores.sort();
    }
}
