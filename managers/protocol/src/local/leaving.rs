//! This host is to end soon: its ranks leave it, as long as there is time.
//!
//! Central moves them to other hosts. The wish is repeated: a move may have failed, and central may
//! be another one by then. Shortly before the deadline, or if there is nowhere to go, the manager
//! ends, and its ranks with it. For the job, that is a lost host.

use super::host_state::{Local, LocalPhase};
use super::inputs::LocalEffect;
use super::leave_time::LeaveTime;
use crate::manager_messages::{HostMessage, Time};

/// Milliseconds after which central is told again.
const AGAIN: u64 = 2000;

impl Local {
    /// This host ends within so many milliseconds. Whoever says so twice does not want to wait.
    pub(super) fn leave_within(&mut self, now: Time, millis: u64, effects: &mut Vec<LocalEffect>) {
        let is_second = self.leaving.is_some();
        if is_second || self.phase != LocalPhase::Running || !self.central {
            return self.abandon(effects);
        }
        // Some time is left to end what has not moved.
        self.leaving = Some(LeaveTime {
            until: now.plus_millis(millis - millis / 10),
            again: now.plus_millis(AGAIN),
        });
        self.tell(HostMessage::Ends, effects);
    }

    /// The ranks have nowhere to go.
    pub(super) fn can_not_leave(&mut self, effects: &mut Vec<LocalEffect>) {
        if self.leaving.is_some() && self.phase == LocalPhase::Running {
            self.abandon(effects);
        }
    }

    /// Tells central again, or ends what has not left in time.
    pub(super) fn leaving_tick(&mut self, now: Time, effects: &mut Vec<LocalEffect>) {
        if self.phase != LocalPhase::Running {
            self.leaving = None;
        }
        let Some(leaving) = &mut self.leaving else {
            return;
        };
        if leaving.until <= now {
            self.abandon(effects);
        } else if leaving.again <= now {
            leaving.again = now.plus_millis(AGAIN);
            self.tell(HostMessage::Ends, effects);
        }
    }

    fn abandon(&mut self, effects: &mut Vec<LocalEffect>) {
        self.leaving = None;
        effects.push(LocalEffect::Abandon);
    }
}
