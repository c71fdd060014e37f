//! Takes the plan, and starts its ranks.

use super::LocalManager;
use super::copies::ImageCopies;
use super::health_command::HealthCommand;
use super::images::ImageStore;
use super::links::{CentralLink, Peers};
use super::local_rank::LocalRank;
use super::start::ProcessStarter;
use super::streams::RankInput;
use crate::error::{Error, Result};
use crate::host::host_limits::{self, HostLimits};
use crate::host::images_folder;
use crate::launch::launch_plan::{LaunchPlan, Program};
use crate::launch::local_messages::LocalToMpirun;
use rejoin_channel_table::{ImageId, Incarnation, Rank};
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::{End, ProcessInstance};
use rejoin_managers_protocol::signal_numbers;
use std::os::fd::OwnedFd;

/// Processes that are started before signals and orders are looked at again.
const BATCH: usize = 16;

impl LocalManager {
    pub(super) fn take_plan(&mut self, mut plan: Box<LaunchPlan>) -> Result<()> {
        if self.starter.is_some() {
            return Err(Error::Usage("a second plan for one local manager".into()));
        }
        if let Some(key) = self.mpirun.key() {
            plan.key = key;
        }
        self.open_links(&plan);
        let come_back = plan.options.images.is_some();
        let here = |rank: &Rank| plan.ranks.iter().any(|(r, _)| r == rank);
        let mut reader = None;
        if let Some(rank) = plan.stdin.filter(here) {
            let (input, end) = RankInput::open(rank, come_back, &self.reactor)?;
            (self.input, reader) = (Some(input), Some(end));
        }
        self.leave_deadline = plan.leave_deadline;
        self.health = plan.health.clone().map(HealthCommand::new);
        let (told, read_at_once) = (plan.binding.told, plan.read_at_once);
        plan.ranks.sort();
        self.ranks = plan
            .ranks
            .iter()
            .map(|&(rank, _)| LocalRank::new(rank))
            .collect();
        self.launched = self.ranks.len();
        let ranks = self.ranks.iter().map(LocalRank::rank);
        self.outputs.serve(ranks, come_back, read_at_once);
        self.images.serve(self.ranks.len());
        self.open_store(&plan)?;
        self.restores.serve(self.ranks.len());
        self.requests.serve(self.ranks.len());
        self.load_images(&plan)?;
        let refusal = |plan: &LaunchPlan, program: &Program| self.refusal(plan, program);
        let starter = ProcessStarter::new(plan, reader, self.open_files, refusal, &self.reactor)?;
        self.starter = Some(starter);
        self.tell_places(told)
    }

    /// Has images get files, if the plan asks for that.
    fn open_store(&mut self, plan: &LaunchPlan) -> Result<()> {
        match ImageStore::of(plan) {
            Ok(None) => {}
            Ok(Some(store)) => {
                self.open_copies(plan, &store)?;
                self.images.use_store(store, &self.reactor)?;
            }
            Err(why) => {
                let lines = vec![format!("images are in memory only, and in no file: {why}")];
                if let Some((rank, _)) = plan.ranks.first() {
                    let rank = *rank;
                    self.mpirun.tell(&LocalToMpirun::Caveats { rank, lines })?;
                }
            }
        }
        Ok(())
    }

    /// Has other hosts copy this one's files, if the plan asks for that.
    fn open_copies(&mut self, plan: &LaunchPlan, store: &ImageStore) -> Result<()> {
        let claim = store.claim().unwrap_or_default();
        let copies = ImageCopies::open(plan, store.folder(), claim, &self.reactor)?;
        if let (Some(copies), Some(central)) = (&copies, &mut self.central) {
            central.gives_images(copies.reach());
        }
        self.copies = copies.map(Box::new);
        Ok(())
    }

    /// Takes the images of a job that is restarted. One that is of no use shows when its rank is to
    /// be restored.
    fn load_images(&mut self, plan: &LaunchPlan) -> Result<()> {
        let Some(epoch) = plan.from else {
            return Ok(());
        };
        let moved = plan.copies.as_ref().map(|copies| &copies.moved[..]);
        let is_held = |rank| moved.into_iter().flatten().any(|one| one.rank == rank);
        for slot in 0..self.ranks.len() {
            let rank = self.ranks[slot].rank();
            match self.images.load_one(slot, ImageId::Checkpoint(epoch)) {
                Err(why) if !is_held(rank) => {
                    let lines = vec![why];
                    self.mpirun.tell(&LocalToMpirun::Caveats { rank, lines })?;
                }
                _ => {}
            }
        }
        self.images.commit(epoch);
        if let Some(copies) = &mut self.copies {
            let found = self.images.find_copies(epoch);
            copies.adopt(&found);
            self.queue.push_back(LocalInput::CopiesFound(found));
        }
        if let (Some(slot), Some(input)) =
            (plan.stdin.and_then(|rank| self.slot(rank)), &mut self.input)
        {
            // A person does not type it again. mpirun gives it again if it still runs.
            let image = ImageId::Checkpoint(epoch);
            self.input_from = Some((Some(image), plan.input_again || !plan.interactive));
            match self.images.has(slot, image) {
                true => self.continue_input(slot, image),
                // What the rank had read is in the file, which is still to be copied.
                false => input.hold(),
            }
        }
        Ok(())
    }

    /// The position of the rank that reads standard input and begins from a file is known.
    pub(super) fn continue_input(&mut self, slot: usize, image: ImageId) {
        let is_reader = self.input.as_ref().map(RankInput::rank) == Some(self.ranks[slot].rank());
        let first = self
            .input_from
            .take_if(|(from, _)| is_reader && from.is_none_or(|from| from == image));
        if let (Some((_, is_given)), Some(input)) = (first, &mut self.input) {
            let read = self.images.input_of(slot, image).unwrap_or(0);
            input.continue_from(image, if is_given { read } else { 0 });
        }
    }

    /// Opens the links that the plan asks for.
    fn open_links(&mut self, plan: &LaunchPlan) {
        if let Some(place) = &plan.central {
            let remote = self.mpirun.is_remote();
            self.central = Some(CentralLink::new(plan.job, &plan.key, place, remote));
        }
        if let Some(terms) = plan.lease {
            self.use_leases(terms);
        }
        let probes = plan.probes.as_ref();
        if let Some((settings, _)) = probes {
            self.core.use_probes(*settings);
        }
        let place = plan.tree.as_ref().or(probes.map(|(_, place)| place));
        if let Some(place) = place {
            let peers = Peers::new(plan, place.clone(), &self.reactor);
            if let Some(central) = &mut self.central {
                central.listens(peers.reach());
            }
            self.peers = Some(Box::new(peers));
        }
        if plan.lookups {
            let position = (plan.tree.as_ref()).map_or(0, |place| place.position as usize);
            self.core.use_lookups(position, plan.size);
        }
    }

    /// Says where ranks run, if that is asked for, and that they share cores.
    fn tell_places(&mut self, told: bool) -> Result<()> {
        let Some(starter) = &self.starter else {
            return Ok(());
        };
        let places = starter.places();
        let ranks = self.ranks.iter().enumerate();
        let line = |(slot, rank): (usize, &LocalRank)| (rank.rank(), places.describe(slot));
        let lines: Vec<_> = ranks.filter(|_| told).map(line).collect();
        let count = self.ranks.len();
        let oversubscribed = places.oversubscribed(count);
        let oversubscribed = oversubscribed.map(|cores| (count as u32, cores as u32));
        if lines.is_empty() && oversubscribed.is_none() {
            return Ok(());
        }
        self.mpirun.tell(&LocalToMpirun::Bound {
            lines,
            oversubscribed,
        })
    }

    /// Why a program can't run on this host. mpirun has checked its own host.
    fn refusal(&self, plan: &LaunchPlan, program: &Program) -> std::result::Result<(), String> {
        if !self.mpirun.is_remote() {
            return Ok(());
        }
        let ranks = plan.ranks.len() as u64;
        let come_back = plan.options.images.is_some();
        HostLimits::here(ranks).allow(ranks, come_back)?;
        if come_back {
            host_limits::allow_watching()?;
        }
        if let Some(folder) = &plan.options.folder {
            images_folder::try_to_write(folder)?;
        }
        match (&program.wdir, self.mpirun.missing()) {
            (None, Some(missing)) => {
                let shown = String::from_utf8_lossy(missing);
                Err(format!("the working directory {shown} is not there"))
            }
            _ => Ok(()),
        }
    }

    /// Notes a process to be started.
    pub(super) fn order_process(&mut self, instance: ProcessInstance) -> Result<()> {
        if instance.incarnation > Incarnation(0) {
            let rewound = LocalToMpirun::Rewound {
                rank: instance.rank,
                epoch: None,
            };
            self.mpirun.tell(&rewound)?;
        }
        match &mut self.starter {
            Some(starter) => starter.order(instance),
            None => self.not_started(instance, "there is no plan"),
        }
        Ok(())
    }

    fn not_started(&mut self, instance: ProcessInstance, why: impl Into<String>) {
        let ProcessInstance {
            rank, incarnation, ..
        } = instance;
        let input = LocalInput::NotStarted(rank, incarnation, why.into());
        self.queue.push_back(input);
    }

    pub(super) fn is_starting(&self) -> bool {
        self.starter.as_ref().is_some_and(|s| s.is_starting())
    }

    /// Starts the next few processes.
    pub(super) fn start_some(&mut self) {
        for _ in 0..BATCH {
            let starter = self.starter.as_mut();
            let Some(instance) = starter.and_then(ProcessStarter::take_next) else {
                return;
            };
            let result = match self.slot(instance.rank) {
                Some(slot) => self.start_process(slot, instance),
                None => Err("the plan does not name this rank".to_string()),
            };
            match result {
                Ok(pid) => self.queue.push_back(LocalInput::Spawned(
                    instance.rank,
                    instance.incarnation,
                    pid,
                )),
                Err(why) => self.not_started(instance, why),
            }
        }
    }

    fn start_process(
        &mut self,
        slot: usize,
        instance: ProcessInstance,
    ) -> std::result::Result<u32, String> {
        let again = match instance.incarnation {
            Incarnation(0) => None,
            _ => self
                .input_again(instance.rank, None)
                .map_err(|e| e.to_string())?,
        };
        let starter = self.starter.as_mut().ok_or("there is no plan")?;
        let new = starter.spawn(slot, instance, again)?;
        let (pid, incarnation) = (new.child.pid, instance.incarnation);
        let child = Some((pid, new.child.pidfd));
        self.ranks[slot]
            .begin(slot, incarnation, child, new.socket, &self.reactor)
            .and_then(|()| {
                self.outputs
                    .begin(slot, incarnation, new.pipes, new.begun, &self.reactor)
            })
            .map_err(|e| e.to_string())?;
        Ok(pid)
    }

    /// A new pipe of standard input for a process of a rank that comes back from an image, or
    /// (`None`) from the start. `None` when it keeps the one that it has.
    pub(super) fn input_again(
        &mut self,
        rank: Rank,
        from: Option<ImageId>,
    ) -> Result<Option<OwnedFd>> {
        let Some(input) = &mut self.input else {
            return Ok(None);
        };
        let reader = input.again(rank, from, &self.reactor)?;
        self.write_input()?;
        Ok(reader)
    }

    /// Writes as much of the standard input as its rank takes.
    pub(super) fn write_input(&mut self) -> Result<()> {
        if let Some(input) = &mut self.input
            && !input.write_all(&mut self.mpirun, &self.reactor)?
        {
            self.input = None;
        }
        Ok(())
    }

    /// A signal comes for the processes of a rank. One that ends also ends a rank that waits to be
    /// started.
    pub(super) fn signal_group(&mut self, rank: Rank, signal: i32) {
        if let Some(starter) = &mut self.starter
            && starter.is_waiting(rank)
        {
            if signal_numbers::ends(signal)
                && let Some(instance) = starter.cancel(rank)
            {
                let end = End::Signaled(signal);
                self.queue.push_back(LocalInput::ChildEnded(
                    instance.rank,
                    instance.incarnation,
                    end,
                ));
            }
        } else if let Some(slot) = self.slot(rank)
            && let Some(group) = self.ranks[slot].group()
        {
            crate::host::descendants::send_group(group, signal);
        }
    }

    /// The job ends: drops all pending starts.
    pub(super) fn start_no_more(&mut self) {
        let copies = self.copies.as_mut();
        let awaited = copies.map(|copies| copies.take_all_awaited());
        let waiting = self.starter.as_mut().map(ProcessStarter::cancel_all);
        for instance in awaited.into_iter().flatten() {
            self.not_started(instance, "the job ended before");
        }
        for instance in waiting.into_iter().flatten() {
            self.not_started(instance, "the job ended before");
        }
    }
}
