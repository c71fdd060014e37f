//! The processes of one host's ranks.

use super::process::RankProcess;
use crate::control::{ProcessInstance, Stage};
use rejoin_channel_table::{Generation, Incarnation, Rank};

/// The job's generation as this host knows it, and the processes of the ranks of this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ProcessTable {
    generation: Generation,
    /// In rank order.
    processes: Vec<RankProcess>,
}

impl ProcessTable {
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Ranks of this host were rolled back; a new generation may have begun by that.
    pub fn enter(&mut self, generation: Generation) {
        self.generation = generation;
    }

    /// The job begins with these ranks.
    pub fn begin(&mut self, generation: Generation, ranks: Vec<(Rank, Incarnation)>) {
        self.generation = generation;
        let instances = ranks
            .into_iter()
            .map(|(rank, incarnation)| self.instance(rank, incarnation));
        let mut processes: Vec<_> = instances.map(RankProcess::new).collect();
        processes.sort_by_key(|p| p.instance.rank);
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

    /// The same, to be changed.
    pub fn of_mut(&mut self, rank: Rank) -> Option<&mut RankProcess> {
        let at = self.position(rank)?;
        self.processes.get_mut(at)
    }

    /// The process of a rank, if it is of this incarnation.
    pub fn find(&mut self, rank: Rank, incarnation: Incarnation) -> Option<&mut RankProcess> {
        self.of_mut(rank)
            .filter(|p| p.instance.incarnation == incarnation)
    }

    fn position(&self, rank: Rank) -> Option<usize> {
        let processes = &self.processes;
        processes
            .binary_search_by_key(&rank, |p| p.instance.rank)
            .ok()
    }

    /// The ranks at one of these stages that read messages of their manager.
    pub fn listening(&self, stages: &[Stage]) -> Vec<Rank> {
        let open = |p: &&RankProcess| !p.closed && stages.contains(&p.stage);
        let listening = self.processes.iter().filter(open);
        listening.map(|p| p.instance.rank).collect()
    }
}
