//! The drivers of the cores. They carry out effects at once where the order makes no difference.

use super::System;
use super::{Process, ProcessStep, SimRestore};
use rejoin_channel_table::{Epoch, Incarnation, Rank};
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
    let all = [finalized, Record::HostDone(0)];
    if !all.iter().any(|r| discriminant(r) == discriminant(record)) {
        let other = |old: &Record| discriminant(old) != discriminant(record);
        records.retain(|old| other(old) || is_of_other_level(old, record));
    }
    records.push(record.clone());
}

/// Records of these two count apart.
fn is_of_other_level(one: &Record, other: &Record) -> bool {
    match (one, other) {
        (Record::Committed { level: a, .. }, Record::Committed { level: b, .. }) => a != b,
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
                    let forgotten = self.forgets && matches!(record, Record::Restoring { .. });
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
                        self.hosts[host].down.push_back(order);
                    }
                }
                central::CentralEffect::SendAll(hosts, order) => {
                    if !hosts.iter().all(|host| self.stored.covers(*host, &order)) {
                        self.complain(format!("{order:?} before it is stored"));
                    }
                    self.stored.promise(&order);
                    for host in hosts {
                        self.hosts[host].down.push_back(order.clone());
                    }
                }
                central::CentralEffect::Event(event) => self.note(event),
                central::CentralEffect::Decided(_) | central::CentralEffect::Resumed { .. } => {}
                central::CentralEffect::Over(verdict) => self.over = Some(verdict),
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
        self.central = Central::resume(self.job(), self.records.clone());
        self.central(central::CentralInput::Begin);
        for host in 0..self.hosts.len() {
            if self.hosts[host].done || self.is_noticed(host) {
                self.central(central::CentralInput::HostLost(host));
            }
        }
    }

    fn note(&mut self, event: Event) {
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
        let instance = *self.instances.get(&rank)?;
        if self.home_of(instance) != host {
            return None;
        }
        let mut processes = self.processes.iter_mut();
        processes.find(|p| p.instance == instance && p.acts())
    }

    fn perform(
        &mut self,
        host: usize,
        effect: local::LocalEffect,
        inputs: &mut VecDeque<local::LocalInput>,
    ) {
        match effect {
            local::LocalEffect::Spawn(instance) => {
                self.begins(host, instance);
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
            local::LocalEffect::Restore(instance, epoch) => self.restore(host, instance, epoch),
            local::LocalEffect::Retire(rank, incarnation) => self.retire(rank, incarnation, inputs),
            local::LocalEffect::Discard(rank, incarnation) => {
                let same =
                    |p: &Process| p.instance.rank == rank && p.instance.incarnation == incarnation;
                if self.processes.iter().any(|p| p.acts() && same(p)) {
                    self.complain("a discarded process still acts");
                }
                self.processes.retain(|p| p.exiting || !same(p));
            }
            local::LocalEffect::DropImage(rank, epoch) => {
                self.images.remove(&(rank, epoch));
            }
            local::LocalEffect::DropFromMemory(rank, epoch) => self.drop_from_memory(rank, epoch),
            local::LocalEffect::WriteImage(rank, epoch) => {
                inputs.extend(self.write_image(rank, epoch));
            }
            local::LocalEffect::CopyImage(members, epoch) => {
                inputs.extend(self.copy_image(host, &members, epoch));
            }
            local::LocalEffect::DropCopy(file) => {
                self.copies.remove(&(file.rank, file.epoch));
            }
            local::LocalEffect::Central(message) => {
                self.hosts[host].up.push_back(message);
            }
            local::LocalEffect::Ranks(ranks, message) => {
                for rank in ranks {
                    if let Some(process) = self.current(host, rank) {
                        process.hear(&message);
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
            local::LocalEffect::StopAll => self.suspends(host, true),
            local::LocalEffect::ContinueAll => self.suspends(host, false),
            other => panic!("{other:?} in this model"),
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

    /// Neither generations nor incarnations ever fall.
    fn begins(&mut self, host: usize, instance: ProcessInstance) {
        self.settles(host, instance);
        if let Some(last) = self.instances.insert(instance.rank, instance)
            && (instance.incarnation <= last.incarnation || instance.generation < last.generation)
        {
            self.complain(format!("{instance:?} after {last:?}"));
        }
    }

    fn restore(&mut self, host: usize, instance: ProcessInstance, epoch: Epoch) {
        self.begins(host, instance);
        if self
            .leased
            .as_ref()
            .is_some_and(|leased| !leased.has_committed(epoch))
        {
            self.complain(format!("{epoch:?} is restored and was not committed"));
        }
        self.restores.push(SimRestore {
            moves: false,
            instance,
            epoch,
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
    /// else comes between.
    pub fn settle(&mut self) {
        while let [host] = &mut self.hosts[..]
            && let Some(message) = host.up.pop_front()
        {
            self.central(central::CentralInput::Local(0, message));
        }
        self.processes
            .sort_by_key(|p| (p.instance.rank, p.instance.incarnation));
        self.restores.sort();
    }
}
