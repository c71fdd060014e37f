//! Takes the plan.

use super::copies::ImageCopies;
use super::health_command::HealthCommand;
use super::images::ImageStore;
use super::links::{CentralLink, Peers};
use super::local_rank::LocalRank;
use super::manager_parts::{ManagerParts, handler, keys};
use super::start::ProcessStarter;
use crate::launch::launch_plan::{LaunchPlan, Program};
use crate::launch::local_messages::LocalToMpirun;
use rejoin_channel_table::{ImageId, Rank};
use rejoin_managers_host::error::{Error, Result};
use rejoin_managers_host::host_clocks;
use rejoin_managers_host::host_limits::{self, HostLimits};
use rejoin_managers_host::images_folder;
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::local::{Local, LocalInput};

handler! {
    /// Makes the parts ready for the plan.
    pub(super) PlanHandler of ManagerParts {
        changes {
            starter, ranks, images, copies, restores, requests, input, outputs, health,
            leave_deadline, mpirun, central, peers, inputs,
        }
        reads { open_files, reactor }
    }
}

impl PlanHandler<'_> {
    /// Takes the plan.
    pub fn take_plan(&mut self, core: &mut Local, mut plan: Box<LaunchPlan>) -> Result<()> {
        if self.starter.is_some() {
            return Err(Error::Usage("a second plan for one local manager".into()));
        }
        if let Some(key) = self.mpirun.key() {
            plan.key = key;
        }
        self.open_links(core, &plan);
        let come_back = plan.options.images.is_some();
        let here = |rank: &Rank| plan.ranks.iter().any(|(r, _)| r == rank);
        let mut reader = None;
        if let Some(rank) = plan.stdin.filter(here) {
            reader = Some(self.input.open(rank, come_back, self.reactor)?);
        }
        *self.leave_deadline = plan.leave_deadline;
        *self.health = plan.health.clone().map(HealthCommand::new);
        let (told, read_at_once) = (plan.binding.told, plan.read_at_once);
        plan.ranks.sort();
        self.ranks.launch(plan.ranks.iter().map(|&(rank, _)| rank));
        let ranks = self.ranks.iter().map(LocalRank::rank);
        self.outputs.serve(ranks, come_back, read_at_once);
        self.images.serve(self.ranks.len());
        self.open_store(&plan)?;
        self.restores.serve(self.ranks.len());
        self.requests.serve(self.ranks.len());
        self.load_images(&plan)?;
        let refusal = |plan: &LaunchPlan, program: &Program| self.refusal(plan, program);
        let starter = ProcessStarter::new(plan, reader, *self.open_files, refusal, self.reactor)?;
        *self.starter = Some(starter);
        self.report_places(told)
    }

    /// Has images get files, if the plan asks for that.
    fn open_store(&mut self, plan: &LaunchPlan) -> Result<()> {
        match ImageStore::of(plan) {
            Ok(None) => {}
            Ok(Some(store)) => {
                self.open_copies(plan, &store)?;
                self.images.use_store(store, self.reactor)?;
            }
            Err(why) => {
                let lines = vec![format!("images are in memory only, and in no file: {why}")];
                if let Some((rank, _)) = plan.ranks.first() {
                    let rank = *rank;
                    self.mpirun
                        .notify(&LocalToMpirun::Caveats { rank, lines })?;
                }
            }
        }
        Ok(())
    }

    /// Has other hosts copy this one's files, if the plan asks for that.
    fn open_copies(&mut self, plan: &LaunchPlan, store: &ImageStore) -> Result<()> {
        let claim = store.claim().unwrap_or_default();
        let copies = ImageCopies::open(plan, store.folder(), claim, self.reactor)?;
        if let (Some(copies), Some(central)) = (&copies, &mut self.central) {
            central.gives_images(copies.reach());
        }
        *self.copies = copies.map(Box::new);
        Ok(())
    }

    /// Takes the images of a job that is restarted. One that is of no use shows when its rank is to
    /// be restored.
    fn load_images(&mut self, plan: &LaunchPlan) -> Result<()> {
        let Some(epoch) = plan.from else {
            return Ok(());
        };
        for slot in 0..self.ranks.len() {
            let rank = self.ranks[slot].rank();
            if let Err(why) = self.images.load_one(slot, ImageId::Checkpoint(epoch)) {
                let lines = vec![why];
                self.mpirun
                    .notify(&LocalToMpirun::Caveats { rank, lines })?;
            }
        }
        self.images.commit(epoch);
        if let Some(rank) = self.input.rank()
            && let Some(slot) = self.ranks.slot(rank)
        {
            // A person does not type it again.
            let image = ImageId::Checkpoint(epoch);
            let is_given = !plan.interactive;
            self.input.begins_from(image, is_given);
            match self.images.has(slot, image) {
                true => {
                    let read = self.images.input_of(slot, image);
                    self.input.continue_from(rank, image, read);
                }
                // What the rank had read is not known.
                false => self.input.hold(),
            }
        }
        Ok(())
    }

    /// Opens the links that the plan asks for.
    fn open_links(&mut self, core: &mut Local, plan: &LaunchPlan) {
        if let Some(place) = &plan.central {
            let remote = self.mpirun.is_remote();
            *self.central = Some(CentralLink::new(plan.job, &plan.key, place, remote));
        }
        if let Some(terms) = plan.lease {
            self.use_leases(core, terms);
        }
        let probes = plan.probes.as_ref();
        if let Some((settings, _)) = probes {
            core.use_probes(*settings);
        }
        let place = plan.tree.as_ref().or(probes.map(|(_, place)| place));
        if let Some(place) = place {
            let peers = Peers::new(plan, place.clone(), self.reactor);
            if let Some(central) = &mut self.central {
                central.listens(peers.reach());
            }
            *self.peers = Some(Box::new(peers));
        }
        if plan.lookups {
            let position = (plan.tree.as_ref()).map_or(0, |place| place.position as usize);
            core.use_lookups(position, plan.size);
        }
    }

    /// This host is reached over a network.
    fn use_leases(&mut self, core: &mut Local, terms: Terms) {
        core.use_leases(terms, host_clocks::now());
        self.mpirun.use_leases(terms);
        if let Some(central) = &mut self.central {
            central.use_leases(terms);
        }
        // The first renewal is due.
        self.inputs.push_back(LocalInput::Tick);
    }

    /// Says where ranks run, if that is asked for, and that they share cores.
    fn report_places(&mut self, told: bool) -> Result<()> {
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
        self.mpirun.notify(&LocalToMpirun::Bound {
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
        HostLimits::here(ranks).allow(ranks, 1, come_back)?;
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
}
