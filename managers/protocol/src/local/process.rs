//! What the local manager knows of one rank's processes, and what it makes of their words and ends.

use super::restore::Retire;
use crate::control::{End, ProcessInstance, Stage, Time};
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, Rank};
use rejoin_wire::{Limits, MOST_COUNTERS, VERSION};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub rank: Rank,
    pub incarnation: Incarnation,
    pub stage: Stage,
    /// The process that was started.
    pub child: Option<u32>,
    pub child_end: Option<End>,
    /// The process that registered, when it is another one.
    pub caller: Option<u32>,
    pub caller_end: Option<End>,
    /// The socket is closed.
    pub closed: bool,
    /// Central knows how this rank ended.
    pub reported: bool,
    /// When to report a caller's end or a closed socket without waiting further.
    pub suspect: Option<Time>,
    /// It failed, and central has not said how to go on.
    pub failed: bool,
    /// It comes from an image: it uses MPI, whether or not it has registered again.
    pub from_image: bool,
    /// It has registered and waits for the others.
    pub waits: bool,
    /// Its program waits for a checkpoint later than this epoch.
    pub asked: Option<Epoch>,
    /// Where it listens.
    pub card: Option<BusinessCard>,
    /// The sizes it goes by.
    pub limits: Option<Limits>,
    /// It is to make room for its successor.
    pub retire: Retire,
    /// The generation that it is of, when the job has gone on to another without it.
    pub of: Option<Generation>,
    /// What it can come back from: the images' process ids.
    pub images: BTreeMap<Epoch, u32>,
}

impl Process {
    pub fn new(rank: Rank, incarnation: Incarnation) -> Self {
        Process {
            rank,
            incarnation,
            stage: Stage::Spawned,
            child: None,
            child_end: None,
            caller: None,
            caller_end: None,
            closed: false,
            reported: false,
            suspect: None,
            failed: false,
            from_image: false,
            waits: false,
            asked: None,
            card: None,
            limits: None,
            retire: Retire::No,
            of: None,
            images: BTreeMap::new(),
        }
    }

    /// The end that makes this rank a failed one, if there is such.
    pub fn failure(&self) -> Option<End> {
        let bad = |end: &End| !matches!(end, End::Exited(0) | End::Unknown);
        // How the rank ended tells more than how its wrapper did; after MPI_Finalize the rank's
        // own end is its wrapper's business.
        let caller = self
            .caller_end
            .filter(|end| self.stage < Stage::Finalized && bad(end));
        if let Some(end) = caller.or(self.child_end.filter(bad)) {
            return Some(end);
        }
        let unfinished = self.is_unfinished();
        let gone = self.caller.is_none() || self.caller_end.is_some();
        if unfinished && gone {
            self.caller_end.or(self.child_end)
        } else {
            None
        }
    }

    /// It uses MPI and has not come to the end of that.
    pub fn is_unfinished(&self) -> bool {
        matches!(self.stage, Stage::Registered | Stage::Finalizing)
            || (self.from_image && self.stage == Stage::Spawned)
    }

    /// The process that counts: 0 while there is none.
    pub fn pid(&self) -> u32 {
        self.caller.or(self.child).unwrap_or(0)
    }

    pub fn ended(&self) -> bool {
        self.child_end.is_some() && (self.caller.is_none() || self.caller_end.is_some())
    }
}

/// Why a process that registers can't be this rank.
pub(super) fn unfit(
    rank: Rank,
    incarnation: Incarnation,
    version: u32,
    instance: ProcessInstance,
) -> Option<String> {
    if version != VERSION {
        return Some(format!(
            "its library speaks version {version} of the managers' protocol, mpirun {VERSION}"
        ));
    }
    (rank != instance.rank || incarnation != instance.incarnation)
        .then(|| format!("it registered as rank {}", rank.0))
}

/// Keeps the last line on the terminal one line, whatever a program says.
pub(super) fn one_line(text: &str) -> String {
    text.chars()
        .take(400)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Few counters with short names of one line, whatever a program's process says.
pub(super) fn presentable(counters: Vec<(String, u64)>) -> Vec<(String, u64)> {
    let shorten = |(name, value): (String, u64)| {
        let name = one_line(&name).chars().take(40).collect();
        (name, value)
    };
    counters
        .into_iter()
        .take(MOST_COUNTERS)
        .map(shorten)
        .collect()
}
