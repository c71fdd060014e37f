//! Losses, and ranks that are to come back for them.

use super::cluster::Cluster;
use super::interface::{CentralEffect, FailureHistory, Record};
use super::losses::Losses;
use super::out::Out;
use super::phase::CentralPhase;
use super::recovery::{LostHosts, RecoveryPlanner};
use super::returns::HeldOrders;
use crate::manager_messages::Time;

/// What is lost, and the orders that wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ReturnState {
    pub losses: Losses,
    /// Hosts that are lost, until it is decided how the job continues.
    pub lost_hosts: LostHosts,
    /// Orders to restore ranks that wait until nothing of these acts elsewhere.
    pub held: HeldOrders,
}

impl ReturnState {
    /// Central is about to decide how the job continues without a host. A central manager that was
    /// started again asks all hosts first.
    pub fn decides_on_loss(&self, phase: &CentralPhase) -> bool {
        self.lost_hosts.is_pending() && !matches!(phase, CentralPhase::Resuming(_))
    }

    /// When an order is due that waits for a time only.
    pub fn held_due(&self, cluster: &Cluster) -> Option<Time> {
        self.held.due(cluster)
    }

    /// The history on which the next failure is judged.
    pub fn memory(&self, mode: &RecoveryPlanner) -> FailureHistory {
        FailureHistory {
            history: mode.history(),
            losses: self.losses.stored(),
        }
    }

    /// Stores that history.
    pub fn store_history(&self, mode: &RecoveryPlanner, out: &mut Out) {
        out.persist(Record::Memory(Box::new(self.memory(mode))));
    }

    /// Reports the events that were held back until every exit status was known.
    pub fn report_losses(&mut self, out: &mut Out) {
        let reports = self.losses.take_reports().into_iter();
        out.effects.extend(reports.map(CentralEffect::Event));
    }
}
