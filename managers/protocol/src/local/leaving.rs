//! This host is to end soon: its ranks leave it, as long as there is time.
//!
//! Central moves them to other hosts. The wish is repeated: a move may have failed, and central may
//! be another one by then. Shortly before the deadline, or if there is nowhere to go, the manager
//! ends, and its ranks with it. For the job, that is a lost host.

use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use super::leave_time::LeaveTime;
use crate::handler_keys::handler;
use crate::manager_messages::HostMessage;

/// Milliseconds after which central is told again.
const AGAIN: u64 = 2000;

handler! {
    /// The end of this host, which its ranks leave.
    pub(super) LeavingHandler of HostParts {
        changes { leaving, out }
        reads { course }
    }
}

impl LeavingHandler<'_> {
    /// This host ends within so many milliseconds. Whoever says so twice does not want to wait.
    pub fn leave_within(&mut self, millis: u64) {
        let is_second = self.leaving.is_some();
        if is_second || !self.course.runs() || !self.out.has_central {
            return self.abandon();
        }
        // Some time is left to end what has not moved.
        *self.leaving = Some(LeaveTime {
            until: self.out.now.plus_millis(millis - millis / 10),
            again: self.out.now.plus_millis(AGAIN),
        });
        self.out.report(HostMessage::Ends);
    }

    /// The ranks have nowhere to go.
    pub fn can_not_leave(&mut self) {
        if self.leaving.is_some() && self.course.runs() {
            self.abandon();
        }
    }

    /// Tells central again, or ends what has not left in time.
    pub fn leaving_tick(&mut self) {
        if !self.course.runs() {
            *self.leaving = None;
        }
        let Some(leaving) = self.leaving.as_mut() else {
            return;
        };
        if leaving.until <= self.out.now {
            self.abandon();
        } else if leaving.again <= self.out.now {
            leaving.again = self.out.now.plus_millis(AGAIN);
            self.out.report(HostMessage::Ends);
        }
    }

    fn abandon(&mut self) {
        *self.leaving = None;
        self.out.push(LocalEffect::Abandon);
    }
}
