//! The drivers of the cores, and the links between them.

use super::process_model::{Process, ProcessStep, SimRestore};
use super::work::Work;
use super::{Event, JobWorld, Key, MILLI, STOPPING};
use rejoin_channel_table::{Epoch, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{self, Central, HostIndex};
use rejoin_managers_protocol::levels::{CommittedEpochs, Level};
use rejoin_managers_protocol::local;
use rejoin_managers_protocol::manager_messages::{ProcessInstance, Time};
use std::collections::VecDeque;
use std::rc::Rc;

const KILL: i32 = 9;
const CONT: i32 = 18;

/// The time that a clock shows which is `drift` parts per million too fast.
pub(super) fn clock(now: u64, drift: i64) -> u64 {
    let wrong = i128::from(now) * i128::from(drift) / 1_000_000;
    u64::try_from(i128::from(now) + wrong).unwrap_or(now)
}

/// The time at which such a clock shows `shown`.
fn when(shown: u64, drift: i64) -> u64 {
    let true_time = i128::from(shown) * 1_000_000 / i128::from(1_000_000 + drift);
    u64::try_from(true_time).unwrap_or(shown)
}

impl<W: Work> JobWorld<W> {
    /// Gives central an input and carries out its effects, unless central crashes in the middle.
    pub(super) fn central(&mut self, input: central::CentralInput) -> Result<(), String> {
        let Some(core) = &mut self.central else {
            return Ok(());
        };
        let mut effects = Vec::new();
        core.step(Time(self.now), input, &mut effects);
        for effect in effects {
            if let Some(left) = self.crashes.as_mut().filter(|_| self.over.is_none()) {
                if *left == 0 {
                    self.crash_central();
                    return Ok(());
                }
                *left -= 1;
            }
            self.carry_out(effect)?;
        }
        let deadline = self.central.as_ref().and_then(Central::deadline);
        if let Some(at) = deadline.map(|at| at.0.max(self.now))
            && self.tick.is_none_or(|tick| at < tick)
        {
            self.tick = Some(at);
            self.queue.at(at, Event::TickCentral);
        }
        Ok(())
    }

    fn carry_out(&mut self, effect: central::CentralEffect) -> Result<(), String> {
        match effect {
            central::CentralEffect::Persist(record) => self.persist(record)?,
            central::CentralEffect::Send(host, order) => {
                if !self.stored.covers(host, &order) {
                    return Err(format!("{order:?} before it is stored"));
                }
                self.stored.promise(&order);
                self.takes_turns(&order)?;
                for (order, _) in self.without_table(order, false) {
                    self.send_down(host, order);
                }
            }
            central::CentralEffect::SendAll(hosts, order) => {
                if !hosts.iter().all(|host| self.stored.covers(*host, &order)) {
                    return Err(format!("{order:?} before it is stored"));
                }
                self.stored.promise(&order);
                self.takes_turns(&order)?;
                for (order, percent) in self.without_table(order, true) {
                    for &host in &hosts {
                        if percent == 100 || self.rng.chance(percent) {
                            self.send_down(host, order.clone());
                        }
                    }
                }
            }
            central::CentralEffect::Drop(host) => {
                self.hosts[host].link.drop_host();
                self.tally.dropped += 1;
                self.fails_with_host(host);
                let at = self.now.max(self.hosts[host].link.unreachable()) + MILLI;
                self.queue.at(at, Event::CentralLost(host));
            }
            central::CentralEffect::Event(event) => {
                if let central::Event::HostSilent { host, .. } = event {
                    self.is_fenced(host)?;
                }
                self.tally.event(&event);
            }
            central::CentralEffect::Decided(verdict) => self.tally.decided(&verdict)?,
            central::CentralEffect::Over(verdict) => {
                self.tally.decided(&verdict)?;
                self.tally.ended = self.now;
                if self.over.replace(verdict).is_some() && self.boots == 0 {
                    return Err("the job is over twice".into());
                }
            }
            central::CentralEffect::Counters(..) => {}
            central::CentralEffect::RequestStored { .. } => self.ask_stored(),
            central::CentralEffect::Placed(placement) => self.place(placement)?,
            central::CentralEffect::HostAdded { host, added } => self.add_host(host, added),
            central::CentralEffect::Join(host) => self.join_once(host),
            central::CentralEffect::Moved { rank, to, .. } => self.placed(&[(rank, to)]),
            central::CentralEffect::MovedBack(_, ranks) => self.placed(&ranks),
            central::CentralEffect::Resumed {
                committed,
                abandoned,
            } => self.resumed_with(committed, abandoned)?,
            #[allow(unreachable_patterns, reason = "cores may learn more")]
            other => return Err(format!("{other:?} in this world")),
        }
        Ok(())
    }

    /// Another run of central continues from these checkpoints.
    fn resumed_with(&self, committed: CommittedEpochs, abandoned: Epoch) -> Result<(), String> {
        let stored = (self.stored.committed, self.stored.file, self.stored.ordered);
        // Without copies, files count as copied.
        let partner = match self.copy_groups().stripes().is_empty() {
            true => self.stored.file,
            false => self.stored.partner,
        };
        // Copies begin anew with a rank's new host, or end.
        let is_known = self.stored.has_unsaid_places || partner == committed.partner;
        if !is_known || (committed.memory, committed.file, abandoned) != stored {
            return Err(format!(
                "resumed with {committed:?}, {abandoned}, not {stored:?}"
            ));
        }
        Ok(())
    }

    fn persist(&mut self, record: central::Record) -> Result<(), String> {
        match record {
            central::Record::Committed {
                epoch,
                level: Level::Memory,
                ..
            } => {
                self.tally.commits += 1;
                self.work.committed(epoch)?;
            }
            central::Record::Committed {
                level: Level::File, ..
            } => self.tally.file_commits += 1,
            central::Record::Committed {
                epoch,
                level: Level::Partner,
                ..
            } if self.from != Some(epoch) => {
                // A launch that continues from files stores that they count.
                self.are_copied(epoch)?;
            }
            central::Record::Return(ref back) => self.return_begins(back)?,
            central::Record::GroupCommitted { .. } => self.tally.group_commits += 1,
            _ => {}
        }
        let ranks = self.shape.ranks();
        let lost = self.tally.images + self.tally.locals + self.tally.dropped > 0;
        self.records.push(record.clone());
        self.stored.store(record, ranks, &self.images, lost)
    }

    /// No rank of a host that counts as silent acts.
    pub(super) fn is_fenced(&self, host: HostIndex) -> Result<(), String> {
        let state = &self.hosts[host];
        let acts = |(key, p): (&Key, &Process)| p.acts() && self.home_of(*key) == host;
        if state.still || state.local.is_none() || !self.processes.iter().any(acts) {
            return Ok(());
        }
        Err(format!("host {host} counts as silent, and its ranks act"))
    }

    /// Gives a local manager an input and carries out its effects.
    pub(super) fn local(
        &mut self,
        host: HostIndex,
        input: local::LocalInput,
    ) -> Result<(), String> {
        let mut inputs = VecDeque::from([input]);
        let drift = self.hosts[host].drift;
        while let Some(input) = inputs.pop_front() {
            let mut effects = Vec::new();
            let Some(core) = &mut self.hosts[host].local else {
                return Ok(());
            };
            core.step(Time(clock(self.now, drift)), input, &mut effects);
            for effect in effects {
                self.perform(host, effect, &mut inputs)?;
            }
        }
        let link = &mut self.hosts[host];
        let deadline = link.local.as_ref().and_then(local::Local::deadline);
        // Rounded up, its own clock may still be a little behind.
        if let Some(at) = deadline.map(|at| (when(at.0, drift) + 1_000).max(self.now))
            && link.tick.is_none_or(|tick| at < tick)
        {
            link.tick = Some(at);
            self.queue.at(at, Event::TickLocal(host));
        }
        Ok(())
    }

    fn perform(
        &mut self,
        host: HostIndex,
        effect: local::LocalEffect,
        inputs: &mut VecDeque<local::LocalInput>,
    ) -> Result<(), String> {
        match effect {
            local::LocalEffect::Spawn(instance) => {
                self.begins(host, instance, false)?;
                // The job may begin anew without a lost host.
                self.displace((instance.rank, instance.incarnation))?;
                let process = Process::new(
                    instance,
                    ProcessStep::BeforeInit,
                    ProcessStep::Computes,
                    None,
                );
                let pid = process.pid();
                self.paused.remove(&instance.rank);
                self.work.begin(instance);
                self.add_process(process)?;
                let spawned = local::LocalInput::Spawned(instance.rank, instance.incarnation, pid);
                inputs.push_back(spawned);
            }
            local::LocalEffect::Restore(instance, image) => self.restore(host, instance, image)?,
            local::LocalEffect::Retire(rank, incarnation) => {
                self.retire((rank, incarnation), inputs);
            }
            local::LocalEffect::Discard(rank, incarnation) => {
                self.discard(rank, incarnation)?;
            }
            local::LocalEffect::DropImage(rank, image) => {
                // The host to which a rank has moved has the file now.
                if self.image_home(rank, image) == host {
                    self.images.remove(&(rank, image));
                    if !self.is_arriving(rank, image) {
                        self.work.forget(rank, image);
                    }
                }
            }
            local::LocalEffect::DropFromMemory(rank, image) => {
                self.drop_from_memory(rank, image)?;
            }
            local::LocalEffect::WriteImage(rank, epoch) => {
                self.write_image(rank, ImageId::Checkpoint(epoch))?;
            }
            local::LocalEffect::WriteImageOfMove(rank, number, base) => {
                self.refers_to(rank, base)?;
                self.write_image(rank, ImageId::Move(number))?;
            }
            local::LocalEffect::Central(message) => self.send_up(host, message),
            local::LocalEffect::LookUp(to, message) => self.send_lookup(host, to, message, inputs),
            local::LocalEffect::Ranks(ranks, message) => {
                let message = Rc::new(message);
                let at = self.now + self.rng.between(10_000, 100_000);
                for rank in ranks {
                    if let Some(process) = self.current_on(host, rank) {
                        let key = (rank, process.instance.incarnation);
                        // A socket keeps their order.
                        let last = self.heard.entry(key).or_default();
                        *last = at.max(*last);
                        let at = *last;
                        self.queue.at(at, Event::Hear(key, Rc::clone(&message)));
                    }
                }
            }
            effect => self.of_host(host, effect)?,
        }
        Ok(())
    }

    /// An effect of a local manager on several ranks or on its host.
    fn of_host(&mut self, host: HostIndex, effect: local::LocalEffect) -> Result<(), String> {
        match effect {
            local::LocalEffect::SignalGroup(_, CONT) | local::LocalEffect::SignalAll(CONT) => {}
            local::LocalEffect::SignalGroup(rank, signal) => {
                if let Some(process) = self.current_on(host, rank) {
                    let key = (rank, process.instance.incarnation);
                    self.signal(key, signal);
                }
            }
            local::LocalEffect::SignalAll(signal) => {
                let of_host = |key: &&Key| self.home_of(**key) == host;
                let keys: Vec<Key> = self.processes.keys().filter(of_host).copied().collect();
                for key in keys {
                    self.signal(key, signal);
                }
            }
            local::LocalEffect::StopAll => {
                let link = &mut self.hosts[host];
                link.told += 1;
                let told = link.told;
                let delay = self.rng.below(STOPPING * MILLI * 9 / 10);
                self.tally.stops += 1;
                self.after(delay, Event::Still(host, told));
            }
            local::LocalEffect::RunUntil(_) => {
                let state = &mut self.hosts[host];
                if state.displaced && state.local.is_some() {
                    return Err(format!("host {host} continues ranks that others have"));
                }
                state.told += 1;
                state.still = false;
            }
            local::LocalEffect::Sweep => {
                let delay = self.rng.between(100_000, 3 * MILLI);
                self.after(delay, Event::Swept(host));
            }
            local::LocalEffect::Abandon => self.crash_local(host),
            local::LocalEffect::CopyImage(members, epoch) => {
                self.copy_image(host, members, epoch)?;
            }
            local::LocalEffect::DropCopy(file) => self.copies.drop(file),
            local::LocalEffect::Probe(to, message) => self.send_probe(host, to, message),
            local::LocalEffect::TakeIn(moved, from) => self.takes_in(host, moved, from)?,
            local::LocalEffect::Load(rank, number, _) => {
                // Some take longer than several checkpoints.
                let most = if self.rng.chance(20) { 100 } else { 5 };
                let delay = self.rng.between(100_000, most * MILLI);
                self.loading.insert((host, rank), number);
                self.after(delay, Event::Loaded(host, rank, number));
            }
            local::LocalEffect::Unload(rank) => {
                self.loading.remove(&(host, rank));
            }
            local::LocalEffect::Exit { .. }
            | local::LocalEffect::HasLeft(_)
            | local::LocalEffect::Caveats(..)
            | local::LocalEffect::Note(..)
            | local::LocalEffect::Waits(..)
            | local::LocalEffect::Watch(..) => {}
            #[allow(unreachable_patterns, reason = "cores may learn more")]
            other => return Err(format!("{other:?} in this world")),
        }
        Ok(())
    }

    fn signal(&mut self, key: Key, signal: i32) {
        let delay = self.rng.between(10_000, 2 * MILLI);
        if let Some(process) = self.processes.get_mut(&key)
            && (process.asked.is_none() || signal == KILL)
        {
            process.asked = Some(signal);
            let end = rejoin_managers_protocol::manager_messages::End::Signaled(signal);
            self.after(delay, Event::Ends(key, end));
        }
    }

    /// Neither generations nor incarnations ever fall, except those of a move that was given up:
    /// its process never starts.
    fn begins(
        &mut self,
        host: HostIndex,
        instance: ProcessInstance,
        moves: bool,
    ) -> Result<(), String> {
        let key = (instance.rank, instance.incarnation);
        self.homes.insert(key, host);
        let last = self.instances.get(&instance.rank);
        let falls = |last: &&ProcessInstance| {
            instance.incarnation <= last.incarnation || instance.generation < last.generation
        };
        match last.filter(falls) {
            Some(_) if moves => Ok(()),
            Some(last) => Err(format!("{instance:?} after {last:?}")),
            None => {
                let before = last.filter(|_| !moves).map(|last| last.generation);
                if before == Some(instance.generation) {
                    self.tally.returned += 1;
                    self.groups.returns(instance.rank)?;
                }
                self.instances.insert(instance.rank, instance);
                Ok(())
            }
        }
    }

    fn restore(
        &mut self,
        host: HostIndex,
        instance: ProcessInstance,
        image: ImageId,
    ) -> Result<(), String> {
        let moves = image.checkpoint().is_none();
        self.begins(host, instance, moves)?;
        let restore = SimRestore {
            instance,
            image,
            alone: self.stored.finalized && instance.generation == self.stored.generation,
            stop: false,
        };
        let key = (instance.rank, instance.incarnation);
        self.restores.insert(key, restore);
        let delay = self.rng.between(200_000, 5 * MILLI);
        self.after(delay, Event::Restored(key));
        Ok(())
    }

    fn retire(&mut self, key: Key, inputs: &mut VecDeque<local::LocalInput>) {
        if let Some(restore) = self.restores.get_mut(&key) {
            restore.stop = true;
            return;
        }
        let there = self.processes.get_mut(&key);
        match there.filter(|process| process.acts()) {
            Some(process) => {
                process.stopping = true;
                let delay = self.rng.between(10_000, MILLI);
                self.after(delay, Event::Stopped(key));
            }
            None => inputs.push_back(local::LocalInput::Retired(key.0, key.1)),
        }
    }

    fn discard(&mut self, rank: Rank, incarnation: Incarnation) -> Result<(), String> {
        let key = (rank, incarnation);
        if let Some(process) = self.processes.get(&key) {
            if process.acts() {
                return Err(format!("a discarded process still acts: {process:?}"));
            }
            if !process.exiting {
                self.processes.remove(&key);
            }
        }
        Ok(())
    }
}
