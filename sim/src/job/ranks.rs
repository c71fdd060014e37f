//! Steps and ends of processes.

use super::process_model::{Process, ProcessStep, SimFile, SimImage};
use super::work::{Work, WorkRequest};
use super::{Event, JobWorld, Key, MILLI};
use rejoin_channel_table::{BusinessCard, Epoch, ImageId, Incarnation, MoveNumber, Rank};
use rejoin_managers_protocol::local;
use rejoin_managers_protocol::manager_messages::{End, ProcessInstance};
use rejoin_wire::{FromManager, Limits, ToManager, VERSION};
use std::rc::Rc;

impl<W: Work> JobWorld<W> {
    /// Adds a new process. No other process of its rank may act.
    pub(super) fn add_process(&mut self, process: Process) -> Result<(), String> {
        let (rank, incarnation) = (process.instance.rank, process.instance.incarnation);
        let of_rank = (rank, rejoin_channel_table::Incarnation(0))..=(rank, incarnation);
        if let Some((key, _)) = self.processes.range(of_rank).find(|(_, p)| p.has_rank()) {
            return Err(format!("{key:?} acts beside {:?}", process.instance));
        }
        self.processes.insert((rank, incarnation), process);
        self.schedule_step((rank, incarnation), MILLI);
        Ok(())
    }

    fn schedule_step(&mut self, key: Key, most: u64) {
        let delay = self.rng.between(most / 10, most);
        self.after(delay, Event::Act(key));
    }

    fn send_to_local(&mut self, key: Key, message: ToManager) -> Result<(), String> {
        let Some(process) = self.processes.get(&key) else {
            return Ok(());
        };
        let said = local::LocalInput::FromRank(key.0, key.1, process.pid(), message);
        self.local(self.home_of(key), said)
    }

    /// A step of the process's own.
    pub(super) fn advance(&mut self, key: Key) -> Result<(), String> {
        let Some(process) = self.processes.get_mut(&key).filter(|p| p.moves()) else {
            return Ok(());
        };
        let instance = process.instance;
        match process.step {
            ProcessStep::BeforeInit | ProcessStep::Back => {
                process.step = ProcessStep::WaitsForStart;
                let register = ToManager::Register {
                    rank: instance.rank,
                    incarnation: instance.incarnation,
                    pid: process.pid(),
                    card: BusinessCard::default(),
                    version: VERSION,
                    limits: Limits::default(),
                };
                let is_whole = process.has_all && self.groups.are_several();
                self.send_to_local(key, register)?;
                match is_whole {
                    true => self.send_to_local(key, ToManager::LogIsWhole),
                    false => Ok(()),
                }
            }
            ProcessStep::MayLeave => {
                process.step = ProcessStep::MayExit;
                self.tally.alone += u64::from(process.alone);
                self.work.answer(instance.rank)?;
                self.schedule_step(key, 30 * MILLI);
                self.send_to_local(key, ToManager::Leave)
            }
            ProcessStep::MayExit => self.ended(key, End::Exited(0)),
            ProcessStep::WaitsForAll => {
                process.then = ProcessStep::Computes;
                self.groups.finishes(key.0);
                self.send_to_local(key, ToManager::Finalizing)
            }
            ProcessStep::WaitsForStart | ProcessStep::Computes => Ok(()),
        }
    }

    pub(super) fn receive(&mut self, key: Key, message: &Rc<FromManager>) -> Result<(), String> {
        let Some(process) = self.processes.get_mut(&key).filter(|p| p.acts()) else {
            return Ok(());
        };
        let before = (process.step, process.asked);
        let leaves = matches!(process.step, ProcessStep::MayLeave | ProcessStep::MayExit);
        match &**message {
            FromManager::Committed { .. } => return Ok(()),
            FromManager::GroupCommitted { epoch, .. } => {
                if process.has_work && process.step > ProcessStep::WaitsForStart {
                    let mut requests = Vec::new();
                    self.work
                        .group_committed(key.0, *epoch, &mut self.rng, &mut requests);
                    return self.grant(requests);
                }
                return Ok(());
            }
            FromManager::Card { .. } => return self.check_card(key, message),
            // The message crosses the rank's exit.
            FromManager::Checkpoint { .. } if leaves => return Ok(()),
            message => process.on_message(message),
        }
        if matches!(**message, FromManager::Stay { .. }) && process.waits.is_none() {
            self.paused.remove(&key.0);
        }
        let Some(process) = self.processes.get_mut(&key) else {
            return Ok(());
        };
        let (step, asked, order) = (process.step, process.asked, process.order);
        let instance = process.instance;
        let is_asked = order.is_some() || self.processes[&key].moving.is_some();
        if is_asked {
            let delay = self.rng.between(5_000, 3 * MILLI);
            self.after(delay, Event::Safe(key));
        }
        if asked != before.1
            && let Some(signal) = asked
        {
            let delay = self.rng.between(10_000, MILLI);
            self.after(delay, Event::Ends(key, End::Signaled(signal)));
        }
        if before.0 == ProcessStep::WaitsForStart && step != before.0 {
            self.check_history(key)?;
            self.takes_over(key)?;
            let mut requests = Vec::new();
            self.work.start(instance, &mut self.rng, &mut requests);
            self.learn_table(key, message, &mut requests)?;
            self.grant(requests)?;
        }
        if step != before.0 {
            self.schedule_step(key, 5 * MILLI);
        }
        if let FromManager::Begin { .. } = **message {
            let rank = Rank((key.0.0 + self.shape.per_host) % self.shape.ranks());
            // It does no work until it has this card.
            if let Some(process) = self.processes.get_mut(&key) {
                process.needs = Some(rank);
            }
            let least = rejoin_channel_table::Incarnation(0);
            return self.send_to_local(key, ToManager::LookUp { rank, least });
        }
        Ok(())
    }

    /// Checks a card: it has the generation of the asking rank, and no future incarnation, with one
    /// exception.
    fn check_card(&mut self, key: Key, message: &FromManager) -> Result<(), String> {
        let FromManager::Card {
            generation,
            rank,
            incarnation,
            ..
        } = message
        else {
            return Ok(());
        };
        let asker = &self.processes[&key];
        let last = self.last_known(*rank);
        // Whoever comes back alone gets a table in which another one that does may have the
        // incarnation that was ordered, and its former place: nothing is sent to it any more.
        let last = match asker.alone {
            true => last.map(Incarnation::next),
            false => last,
        };
        let right = *generation == asker.instance.generation && Some(*incarnation) <= last;
        // A rank that comes back alone may get what the process before it has asked for.
        if right && (asker.alone || asker.step > ProcessStep::WaitsForStart) {
            self.tally.cards += 1;
            let (other, incarnation) = (*rank, *incarnation);
            if let Some(process) = self.processes.get_mut(&key) {
                process.needs.take_if(|needed| *needed == other);
            }
            let asker = &self.processes[&key];
            if asker.has_work && asker.step > ProcessStep::WaitsForStart {
                let mut requests = Vec::new();
                self.work
                    .update(key.0, other, incarnation, &mut self.rng, &mut requests);
                return self.grant(requests);
            }
            return Ok(());
        }
        Err(format!("{message:?} for {asker:?}"))
    }

    /// Checks the image of a process: one that started in a generation comes from the checkpoint
    /// that the generation began from. One that was restored alone comes from the last checkpoint.
    /// One of a recovery group that came back comes from that group's last one, and one that has
    /// moved from where its predecessor came from.
    fn check_history(&mut self, key: Key) -> Result<(), String> {
        let process = &self.processes[&key];
        let origin = if process.alone {
            Some(&self.stored.committed)
        } else {
            self.stored.origins.get(&process.instance.generation)
        };
        let ProcessInstance {
            generation, rank, ..
        } = process.instance;
        let of_group = self.stored.group_commit(generation, rank, self.shape.group);
        let is_back = of_group.is_some() && process.from == of_group;
        // It hears the table, and its group has been ordered back to another one meanwhile.
        let is_past = self.groups.is_past(&process.instance);
        let has_moved = process.arrives.is_some() && self.origins.get(&rank) == Some(&process.from);
        if origin == Some(&process.from) || is_back || has_moved {
            self.origins.insert(rank, process.from);
            Ok(())
        } else if is_past {
            Ok(())
        } else {
            Err(format!("{process:?} is of another history than {origin:?}"))
        }
    }

    /// A pending checkpoint request is met at a place where an image can be taken.
    pub(super) fn safe(&mut self, key: Key) -> Result<(), String> {
        let process = self.processes.get(&key);
        let order = process.filter(|p| p.inside() && p.asked.is_none());
        if let Some(epoch) = order.and_then(|p| p.order.filter(|order| *order > p.epoch)) {
            self.work.enter(key.0, epoch);
            self.entered(key, epoch)?;
        }
        let process = self.processes.get(&key);
        let moves = process.filter(|p| p.inside() && p.asked.is_none());
        match moves.and_then(|process| process.moving) {
            Some((number, stops)) => self.takes_image_of_move(key, number, stops),
            None => Ok(()),
        }
    }

    /// A rank that is to move takes its image of this number, or can't. It may wait at it.
    fn takes_image_of_move(
        &mut self,
        key: Key,
        number: MoveNumber,
        stops: bool,
    ) -> Result<(), String> {
        let refuse = self.tally.refuse();
        let home = self.home_of(key);
        let Some(process) = self.processes.get_mut(&key) else {
            return Ok(());
        };
        process.moving = None;
        let id = ImageId::Move(number);
        let message = process.image_report(id, refuse);
        if !refuse {
            let image = SimImage::of(process, home);
            self.images.insert((key.0, id), image);
            if stops {
                process.waits = Some(number);
                self.paused.insert(key.0);
                self.work.save(key.0, number);
            }
        }
        self.send_to_local(key, message)
    }

    /// A rank that moves learns from the table what others were told before. So does each rank of a
    /// recovery group, which may come back while others stand.
    fn learn_table(
        &mut self,
        key: Key,
        start: &Rc<FromManager>,
        requests: &mut Vec<WorkRequest<W::Event>>,
    ) -> Result<(), String> {
        if self.processes[&key].arrives.is_none() && self.shape.group.is_none() {
            return Ok(());
        }
        let incarnations = self.incarnations(key, start)?;
        for peer in self.work.peers(key.0, self.shape.ranks()) {
            if let Some(incarnation) = incarnations.get(peer.index()).copied().flatten() {
                self.work
                    .update(key.0, peer, incarnation, &mut self.rng, requests);
            }
        }
        Ok(())
    }

    /// The incarnations in a table, which are checked once for all ranks of a host that get it:
    /// what has begun then has begun later.
    fn incarnations(
        &mut self,
        key: Key,
        start: &Rc<FromManager>,
    ) -> Result<Rc<[Option<Incarnation>]>, String> {
        let host = self.home_of(key);
        let known = self.hosts[host].table.as_ref();
        if let Some((_, known)) = known.filter(|(table, _)| Rc::ptr_eq(table, start)) {
            return Ok(Rc::clone(known));
        }
        let size = self.shape.ranks();
        let incarnations: Rc<[Option<Incarnation>]> = match &**start {
            FromManager::Start { table, .. } => table.iter().map(|(i, _)| Some(*i)).collect(),
            FromManager::Begin { process_map, .. } => {
                let book = process_map.clone().book(size).ok();
                let of = |rank| book.as_ref()?.incarnation(Rank(rank));
                (0..size).map(of).collect()
            }
            _ => return Ok(Rc::new([])),
        };
        let mut holds_for_all = !self.processes[&key].alone;
        for (rank, incarnation) in (0u32..).map(Rank).zip(incarnations.iter()) {
            if let Some(incarnation) = *incarnation {
                match self.has_begun(key, rank, incarnation) {
                    // A rank may get its own next place.
                    Err(_) if rank == key.0 => holds_for_all = false,
                    checked => checked?,
                }
            }
        }
        if holds_for_all {
            let known = (Rc::clone(start), Rc::clone(&incarnations));
            self.hosts[host].table = Some(known);
        }
        Ok(incarnations)
    }

    /// A rank that is on its way is in a table as it was before: where its new process is to be is
    /// not known. Whoever comes back alone speaks to nobody.
    fn has_begun(&self, key: Key, rank: Rank, incarnation: Incarnation) -> Result<(), String> {
        let last = self.last_known(rank);
        match Some(incarnation) > last && !self.processes[&key].alone {
            true => Err(format!(
                "{key:?} gets a table with {incarnation} of rank {rank}, whose last is {last:?}"
            )),
            false => Ok(()),
        }
    }

    /// The last incarnation of a rank that has begun. One that was ordered, and never will begin
    /// because its rank was lost again before, counts as well: it is no later one's place.
    fn last_known(&self, rank: Rank) -> Option<Incarnation> {
        let last = self.instances.get(&rank).map(|one| one.incarnation);
        last.max(self.groups.superseded(rank))
    }

    /// A process whose rank has moved begins: its predecessor waits, or has ended.
    fn takes_over(&mut self, key: Key) -> Result<(), String> {
        let process = &self.processes[&key];
        let Some(number) = process.arrives.filter(|_| !process.has_work) else {
            return Ok(());
        };
        let instance = process.instance;
        let before = (key.0, Incarnation(0))..key;
        for (other, process) in self.processes.range_mut(before) {
            if process.acts() && process.has_work && process.waits != Some(number) {
                return Err(format!("{other:?} acts beside {key:?}"));
            }
            (process.has_work, process.arrives) = (false, None);
        }
        self.paused.remove(&key.0);
        self.work.ended(key.0);
        self.work.restore(instance, ImageId::Move(number), false)?;
        if let Some(process) = self.processes.get_mut(&key) {
            process.has_work = true;
        }
        Ok(())
    }

    fn entered(&mut self, key: Key, epoch: Epoch) -> Result<(), String> {
        let refuse = self.tally.refuse();
        let home = self.home_of(key);
        let Some(process) = self.processes.get_mut(&key) else {
            return Ok(());
        };
        process.epoch = epoch;
        process.order = process.order.filter(|order| *order > epoch);
        let image = SimImage::of(process, home);
        let id = ImageId::Checkpoint(epoch);
        let message = process.image_report(id, refuse);
        match refuse {
            true => self.work.forget(key.0, id),
            false => {
                self.images.insert((key.0, id), image);
            }
        }
        self.send_to_local(key, message)
    }

    pub(super) fn working(&mut self, event: W::Event) -> Result<(), String> {
        let mut requests = Vec::new();
        self.work.event(event, &mut self.rng, &mut requests)?;
        self.grant(requests)
    }

    fn grant(&mut self, requests: Vec<WorkRequest<W::Event>>) -> Result<(), String> {
        for request in requests {
            match request {
                WorkRequest::After(delay, event) => self.after(delay, Event::Work(event)),
                WorkRequest::Entered(rank, epoch) => {
                    if let Some(process) = self.worker(rank).filter(|p| p.epoch < epoch) {
                        let key = (rank, process.instance.incarnation);
                        self.entered(key, epoch)?;
                    }
                }
                WorkRequest::Finished(rank) => {
                    let Some(process) = self.worker(rank) else {
                        continue;
                    };
                    let key = (rank, process.instance.incarnation);
                    if process.step != ProcessStep::Computes {
                        return Err(format!("{process:?} has finished"));
                    }
                    if let Some(process) = self.processes.get_mut(&key) {
                        process.step = ProcessStep::WaitsForAll;
                    }
                    self.groups.finishes(rank);
                    self.send_to_local(key, ToManager::Finalizing)?;
                }
            }
        }
        Ok(())
    }

    /// The exit of a process is detected: it makes no further step. Its exit status is not known
    /// yet.
    pub(super) fn detect_exit(&mut self, key: Key, end: End) -> Result<(), String> {
        let Some(process) = self.processes.get_mut(&key) else {
            return Ok(());
        };
        let works = process.has_work && process.waits.is_none();
        let stopping = process.stopping;
        *process = Process {
            exiting: true,
            ..process.without_requests()
        };
        if works {
            self.work.ended(key.0);
        }
        let host = self.home_of(key);
        let delay = self.rng.between(MILLI / 10, 40 * MILLI);
        self.after(delay, Event::Ends(key, end));
        self.local(host, local::LocalInput::ExitDetected(key.0, key.1))?;
        if stopping {
            self.local(host, local::LocalInput::Retired(key.0, key.1))?;
        }
        Ok(())
    }

    pub(super) fn ended(&mut self, key: Key, end: End) -> Result<(), String> {
        let Some(process) = self.processes.remove(&key) else {
            return Ok(());
        };
        if process.has_rank() {
            self.work.ended(key.0);
        }
        let host = self.home_of(key);
        self.local(host, local::LocalInput::ChildEnded(key.0, key.1, end))?;
        if process.stopping {
            self.local(host, local::LocalInput::Retired(key.0, key.1))?;
        }
        Ok(())
    }

    pub(super) fn stopped(&mut self, key: Key) -> Result<(), String> {
        let Some(process) = self.processes.get_mut(&key).filter(|p| p.acts()) else {
            return Ok(());
        };
        let works = process.has_work && process.waits.is_none();
        *process = Process {
            step: ProcessStep::BeforeInit,
            stopped: true,
            ..process.without_requests()
        };
        if works {
            self.work.ended(key.0);
        }
        let host = self.home_of(key);
        self.local(host, local::LocalInput::Retired(key.0, key.1))
    }

    pub(super) fn restored(&mut self, key: Key) -> Result<(), String> {
        let Some(restore) = self.restores.remove(&key) else {
            return Ok(());
        };
        let host = self.home_of(key);
        if host != self.host_of(key.0) && !restore.moves() {
            return self.not_restored(key, restore.stop, "it is on another host by now");
        }
        if !restore.moves() {
            self.displace(key)?;
        }
        let is_here = |image: &&mut SimImage| image.home == host || restore.moves();
        if let Some(image) = self.images.get_mut(&(key.0, restore.image)).filter(is_here) {
            // What is in memory from now on lacks what the file lacks.
            image.is_of_file |= !image.in_memory && !restore.moves();
            let is_file = image.is_of_file;
            image.in_memory = true;
            image.home = host;
            let image = *image;
            self.interrupt_writing(key.0, restore.image)?;
            if restore.alone && image.step != ProcessStep::WaitsForAll {
                return Err("alone back to before MPI_Finalize".into());
            }
            let from = restore.image.checkpoint();
            let mut process = Process::new(restore.instance, ProcessStep::Back, image.step, from);
            process.alone = restore.alone;
            if restore.moves() {
                self.loading.remove(&(host, key.0));
                (process.from, process.epoch) = (image.from, image.epoch);
                process.has_work = false;
            }
            if let ImageId::Move(number) = restore.image {
                process.arrives = Some(number);
            }
            let pid = process.pid();
            if process.has_work {
                self.paused.remove(&key.0);
                self.work
                    .restore(restore.instance, restore.image, is_file)?;
                process.has_all = !self.work.lacks(key.0);
            }
            self.add_process(process)?;
            self.local(host, local::LocalInput::Spawned(key.0, key.1, pid))?;
            return match restore.stop {
                true => self.stopped(key),
                false => Ok(()),
            };
        }
        self.not_restored(key, restore.stop, "its image is gone")
    }

    /// No process comes of an image. `stop`: it was told to retire meanwhile.
    fn not_restored(&mut self, key: Key, stop: bool, why: &str) -> Result<(), String> {
        let host = self.home_of(key);
        let not_started = local::LocalInput::NotStarted(key.0, key.1, why.into());
        self.local(host, not_started)?;
        match stop {
            true => self.local(host, local::LocalInput::Retired(key.0, key.1)),
            false => Ok(()),
        }
    }

    /// The process of an image ends. The image outlives it in a whole file.
    pub(super) fn lose_image(&mut self, rank: Rank, id: ImageId) -> Result<(), String> {
        let home = self.image_home(rank, id);
        let image = self.images.get_mut(&(rank, id));
        let Some(image) = image.filter(|image| image.in_memory) else {
            return Ok(());
        };
        if image.file == SimFile::Whole {
            image.in_memory = false;
            self.tally.outlived += 1;
            return Ok(());
        }
        self.images.remove(&(rank, id));
        self.tally.images += 1;
        self.groups.fails(rank);
        self.work.forget(rank, id);
        self.local(home, local::LocalInput::ImageEnded(rank, id, None))
    }
}
