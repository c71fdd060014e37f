//! The state of phases in which the job recovers.

use crate::central::interface::{HostIndex, Relaunch};
use crate::manager_messages::Time;
use rejoin_channel_table::Epoch;
use std::collections::BTreeSet;

/// Ranks are being rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::central) struct GlobalRestore {
    /// To which checkpoint; `None`: to the start.
    pub epoch: Option<Epoch>,
    /// When the first failure was reported: others may follow before all ranks are restored.
    pub since: Time,
    /// Hosts that take in ranks of a lost one have no order yet.
    pub held: Option<HeldOrders>,
    /// Hosts without an order to which ranks return that have moved: these still act elsewhere.
    pub awaiting: BTreeSet<HostIndex>,
}

impl GlobalRestore {
    /// The order for this host waits until this time at least, if it has none yet: ranks return
    /// there from a host that is lost now.
    pub fn hold(&mut self, home: HostIndex, until: Time) {
        if !self.awaiting.contains(&home) {
            return;
        }
        let held = self.held.get_or_insert(HeldOrders {
            until,
            hosts: Vec::new(),
        });
        held.until = until.max(held.until);
        if !held.hosts.contains(&home) {
            held.hosts.push(home);
        }
    }
}

/// Orders that wait until no process of a lost host can act.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::central) struct HeldOrders {
    /// When that is.
    pub until: Time,
    /// The hosts that take in its ranks.
    pub hosts: Vec<HostIndex>,
}

/// How far the decision to launch the job again has come.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::central) enum Relaunching {
    /// The driver is asked for the newest stored state.
    Asked,
    /// It is decided; before this moment, ranks of the lost host may still act. `None`: it was
    /// decided by a central manager that has ended.
    Decided(Box<Relaunch>, Option<Time>),
}

impl Relaunching {
    /// When the relaunch may begin.
    pub fn due(&self) -> Option<Time> {
        match self {
            Relaunching::Asked => None,
            Relaunching::Decided(_, at) => *at,
        }
    }
}
