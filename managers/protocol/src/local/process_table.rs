//! The processes of one host's ranks.

use super::process_exit::{ExitNumber, UnacknowledgedExit};
use super::rank_process::RankProcess;
use crate::manager_messages::{End, ProcessExit, ProcessInstance, Stage, Time, ToCentral};
use rejoin_channel_table::{Generation, Incarnation, Rank};

/// The job's generation as this host knows it, and the processes of the ranks of this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ProcessTable {
    generation: Generation,
    /// In rank order.
    processes: Vec<RankProcess>,
    /// Detected exits of instances that have a successor.
    former: Vec<UnacknowledgedExit>,
}

impl ProcessTable {
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Ranks of this host were rolled back; a new generation may have begun by that.
    pub fn enter(&mut self, generation: Generation) {
        self.generation = generation;
    }

    /// The job begins with these ranks, of programs or (`from_images`) of images.
    pub fn begin(
        &mut self,
        generation: Generation,
        ranks: Vec<(Rank, Incarnation)>,
        from_images: bool,
    ) {
        self.generation = generation;
        let instances = ranks
            .into_iter()
            .map(|(rank, incarnation)| self.instance(rank, incarnation));
        let processes = instances.map(|instance| RankProcess::new(instance, from_images));
        let mut processes: Vec<_> = processes.collect();
        processes.sort_by_key(|p| p.instance().rank);
        self.processes = processes;
    }

    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &RankProcess> {
        self.processes.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut RankProcess> {
        self.processes.iter_mut()
    }

    /// Names an instance of the present generation.
    pub fn instance(&self, rank: Rank, incarnation: Incarnation) -> ProcessInstance {
        ProcessInstance {
            generation: self.generation,
            rank,
            incarnation,
        }
    }

    /// The process of a rank of this host.
    pub fn of(&self, rank: Rank) -> Option<&RankProcess> {
        let at = self.position(rank)?;
        self.processes.get(at)
    }

    /// The process of a rank of this host, to be changed.
    pub fn of_mut(&mut self, rank: Rank) -> Option<&mut RankProcess> {
        let at = self.position(rank)?;
        self.processes.get_mut(at)
    }

    /// The process of a rank, if it is of this incarnation.
    pub fn find(&mut self, rank: Rank, incarnation: Incarnation) -> Option<&mut RankProcess> {
        self.of_mut(rank)
            .filter(|p| p.instance().incarnation == incarnation)
    }

    /// The successor of a rank's process begins, here or (`from_image`) from its image.
    pub fn renew(&mut self, instance: ProcessInstance, from_image: bool) {
        let Some(process) = self.of_mut(instance.rank) else {
            return;
        };
        let before = std::mem::replace(process, RankProcess::new(instance, from_image));
        self.former.extend(before.state().exit().cloned());
    }

    /// A rank that was on another host begins here, anew or (`from_image`) from its image.
    pub fn add(&mut self, instance: ProcessInstance, from_image: bool) {
        self.processes.push(RankProcess::new(instance, from_image));
        self.processes.sort_by_key(|p| p.instance().rank);
    }

    /// The rank is not on this host any more.
    pub fn remove(&mut self, rank: Rank) {
        if let Some(at) = self.position(rank) {
            let before = self.processes.remove(at);
            self.former.extend(before.state().exit().cloned());
        }
    }

    /// The number of the next exit.
    pub fn next_exit(&self) -> ExitNumber {
        let last = self.unacknowledged().map(UnacknowledgedExit::number).max();
        last.unwrap_or_default().next()
    }

    /// Exits that central may not know, in the order of their detection.
    pub fn exits(&self) -> Vec<ProcessExit> {
        let mut exits: Vec<_> = self.unacknowledged().collect();
        exits.sort_by_key(|exit| exit.number());
        exits.into_iter().map(|e| e.exit().clone()).collect()
    }

    /// Central has acknowledged all exits.
    pub fn are_exits_acknowledged(&self) -> bool {
        self.unacknowledged().next().is_none()
    }

    fn unacknowledged(&self) -> impl Iterator<Item = &UnacknowledgedExit> {
        let present = self.processes.iter().filter_map(|p| p.state().exit());
        self.former.iter().chain(present)
    }

    /// The process that was started for an instance ended. Returns the news for central.
    pub fn child_ended(
        &mut self,
        now: Time,
        rank: Rank,
        incarnation: Incarnation,
        end: End,
    ) -> Option<ToCentral> {
        let number = self.next_exit();
        if let Some(process) = self.find(rank, incarnation) {
            return process.child_ended(now, end, number);
        }
        let same = |exit: &&mut UnacknowledgedExit| {
            let instance = exit.exit().instance();
            instance.rank == rank && instance.incarnation == incarnation
        };
        let exit = self.former.iter_mut().find(same)?;
        exit.status_known(end)
    }

    /// Central has stored how this instance exited.
    pub fn acknowledged(&mut self, instance: ProcessInstance) {
        self.forget_former(instance);
        let process = self.find(instance.rank, instance.incarnation);
        if let Some(process) = process.filter(|p| p.instance() == instance) {
            process.state_mut().acknowledged();
        }
    }

    /// This instance failed and does not come back.
    pub fn release(&mut self, instance: ProcessInstance) {
        self.forget_former(instance);
        if let Some(process) = self.find(instance.rank, instance.incarnation) {
            process.state_mut().release();
        }
    }

    fn forget_former(&mut self, instance: ProcessInstance) {
        self.former
            .retain(|exit| exit.exit().instance() != instance);
    }

    fn position(&self, rank: Rank) -> Option<usize> {
        let processes = &self.processes;
        processes
            .binary_search_by_key(&rank, |p| p.instance().rank)
            .ok()
    }

    /// The ranks at one of these stages that read messages of their manager.
    pub fn listening(&self, stages: &[Stage]) -> Vec<Rank> {
        let listening = self.processes.iter().filter(|p| p.listens(stages));
        listening.map(|p| p.instance().rank).collect()
    }
}
