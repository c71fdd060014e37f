//! The state of lost process instances until it is reported and stored.

use super::event::Event;
use super::failure::Failure;
use super::interface::HostIndex;
use crate::manager_messages::{ProcessInstance, Time};
use rejoin_channel_table::Epoch;
use serde::{Deserialize, Serialize};

/// The exit of an instance was detected, and the job rolls back. The exit status is not known yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Detected {
    instance: ProcessInstance,
    /// Host of the instance, which will say how it ended.
    host: HostIndex,
    /// To which checkpoint the job rolls back.
    from: Option<Epoch>,
    /// The job rolls back for it; otherwise for another, with which it is named.
    decisive: bool,
}

/// A rank could not be restored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NotRestored {
    pub failure: Failure,
    /// When the exits that are not known yet are waited for no longer.
    pub due: Time,
}

/// Lost process instances: detected exits, and events that are reported once their status is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Losses {
    detected: Vec<Detected>,
    /// Reported once every exit status is known.
    unreported: Vec<Event>,
    /// The loss for which the job rolls back, or last did.
    reason: Option<Event>,
    /// When the first failure of the last rollback was reported.
    since: Time,
    /// The first rank that could not be restored.
    #[serde(skip)]
    not_restored: Option<NotRestored>,
}

impl Losses {
    /// When the first failure of the last rollback was reported.
    pub(super) fn since(&self) -> Time {
        self.since
    }

    /// The job rolls back for a failure that was reported at this time. Ranks that could not be
    /// restored are tried again.
    pub(super) fn rolls_back(&mut self, since: Time) {
        self.since = since;
    }

    /// An exit is detected. One that is known already stays as it is.
    pub(super) fn detect(
        &mut self,
        (instance, host): (ProcessInstance, HostIndex),
        from: Option<Epoch>,
        decisive: bool,
    ) {
        if self.detected.iter().all(|d| d.instance != instance) {
            self.detected.push(Detected {
                instance,
                host,
                from,
                decisive,
            });
        }
    }

    /// The exit status of a detected exit is known: to where the job rolls back, and whether that
    /// is because of this one.
    pub(super) fn status_known(
        &mut self,
        instance: ProcessInstance,
    ) -> Option<(Option<Epoch>, bool)> {
        let at = self.detected.iter().position(|d| d.instance == instance)?;
        let Detected { from, decisive, .. } = self.detected.swap_remove(at);
        Some((from, decisive))
    }

    /// This host is lost: how processes that were there exited stays unknown.
    pub(super) fn forget_exits_on(&mut self, host: HostIndex) {
        self.detected.retain(|detected| detected.host != host);
    }

    /// The status of an exit for which the job rolls back is not known.
    pub(super) fn awaits_status(&self) -> bool {
        self.detected.iter().any(|d| d.decisive)
    }

    /// The next loss is the reason why the job rolls back.
    pub(super) fn begin(&mut self) {
        self.reason = None;
    }

    /// The loss for which the job rolls back.
    pub(super) fn reason(&self) -> Option<&Event> {
        self.reason.as_ref()
    }

    /// Records the event of a masked loss, which is reported before the recovery.
    pub(super) fn lost(&mut self, event: Event) {
        self.reason.get_or_insert(event.clone());
        self.unreported.insert(0, event);
    }

    /// Reports this after all losses.
    pub(super) fn report(&mut self, event: Event) {
        self.unreported.push(event);
    }

    /// A recovery is to be reported.
    pub(super) fn reports_recovery(&self) -> bool {
        let recovered = |event: &Event| matches!(event, Event::Recovered { .. });
        self.unreported.iter().any(recovered)
    }

    /// The events that may be reported now: none, until every exit status is known.
    pub(super) fn take_reports(&mut self) -> Vec<Event> {
        match self.detected.is_empty() {
            true => std::mem::take(&mut self.unreported),
            false => Vec::new(),
        }
    }

    /// A rank could not be restored; the first one counts.
    pub(super) fn cannot_be_restored(&mut self, rank: NotRestored) {
        self.not_restored.get_or_insert(rank);
    }

    /// All ranks are to be restored once more.
    pub(super) fn try_again(&mut self) {
        self.not_restored = None;
    }

    /// The rank that could not be restored, if no exit status is waited for.
    pub(super) fn settled_not_restored(&mut self) -> Option<Failure> {
        let awaits = self.awaits_status();
        Some(self.not_restored.take_if(|_| !awaits)?.failure)
    }

    /// The rank that could not be restored, if exit statuses have been waited for long enough.
    pub(super) fn overdue(&mut self, now: Time) -> Option<Failure> {
        Some(self.not_restored.take_if(|rank| rank.due <= now)?.failure)
    }

    /// When [`Losses::overdue`] has something.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.not_restored.as_ref().map(|rank| rank.due)
    }

    /// The losses that a restarted central manager must know. Hosts report the others again.
    pub(super) fn stored(&self) -> Losses {
        let mut stored = self.clone();
        stored.not_restored = None;
        stored.detected.retain(|d| d.decisive);
        stored
    }
}
