//! The local manager's state of one rank's processes, and its reactions to their messages and
//! exits.

use crate::control::{End, ProcessInstance, Stage, Time};
use rejoin_channel_table::{BusinessCard, Epoch, Incarnation, Rank};
use rejoin_wire::{Limits, MOST_COUNTERS, VERSION};
use std::collections::BTreeMap;

/// The report to central of the end of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ReportedEnd {
    Nothing,
    /// It ended as it should, or does not come back.
    Ended,
    /// It failed, and central has not said how to continue.
    Lost,
}

/// How far a process has come on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Retire {
    /// It is the present one.
    No,
    /// It got the order.
    Asked,
    /// It can do nothing any more.
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RankProcess {
    /// In the generation in which it began.
    pub instance: ProcessInstance,
    pub stage: Stage,
    /// The process that was started.
    pub child: Option<u32>,
    pub child_end: Option<End>,
    /// The process that registered, when it is another one.
    pub caller: Option<u32>,
    pub caller_end: Option<End>,
    /// The socket is closed.
    pub closed: bool,
    /// Central's knowledge of this rank's end.
    reported: ReportedEnd,
    /// When to report a caller's end or a closed socket without waiting further.
    pub suspect: Option<Time>,
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
    /// The images from which it can be restored, with their process ids.
    pub images: BTreeMap<Epoch, u32>,
}

impl RankProcess {
    pub fn new(instance: ProcessInstance) -> Self {
        RankProcess {
            instance,
            stage: Stage::Spawned,
            child: None,
            child_end: None,
            caller: None,
            caller_end: None,
            closed: false,
            reported: ReportedEnd::Nothing,
            suspect: None,
            from_image: false,
            waits: false,
            asked: None,
            card: None,
            limits: None,
            retire: Retire::No,
            images: BTreeMap::new(),
        }
    }

    /// The successor takes this place; the images stay.
    pub fn renew(&mut self, instance: ProcessInstance, from_image: bool) {
        let images = std::mem::take(&mut self.images);
        *self = RankProcess {
            images,
            from_image,
            ..RankProcess::new(instance)
        };
    }

    /// Central knows how this rank ended.
    pub fn is_reported(&self) -> bool {
        self.reported != ReportedEnd::Nothing
    }

    /// It failed, and central has not said how to continue.
    pub fn is_lost(&self) -> bool {
        self.reported == ReportedEnd::Lost
    }

    /// It is to make room for its successor, or has done so.
    pub fn is_retiring(&self) -> bool {
        self.retire != Retire::No
    }

    /// It is reported to central that it ended as it should.
    pub fn end_well(&mut self) {
        self.reported = ReportedEnd::Ended;
    }

    /// Its failure is reported to central, which says how to continue.
    pub fn lose(&mut self) {
        self.reported = ReportedEnd::Lost;
    }

    /// It failed and does not come back.
    pub fn release(&mut self) {
        if self.reported == ReportedEnd::Lost {
            self.reported = ReportedEnd::Ended;
        }
    }

    /// Its exit is worth telling before its status is known: it uses MPI and has not finished.
    pub fn may_be_detected(&self) -> bool {
        self.caller.is_none() && self.is_unfinished() && !self.is_reported()
    }

    /// The process that was started ended well, but another one still holds the rank's socket and
    /// may call `MPI_Init`.
    pub fn may_have_forked(&self) -> bool {
        let plain = self.stage == Stage::Spawned && !self.from_image && !self.closed;
        let present = !self.is_retiring() && !self.is_reported();
        plain && present && self.child_end == Some(End::Exited(0))
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
