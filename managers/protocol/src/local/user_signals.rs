//! Signals of the user, which ranks get.

use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use crate::handler_keys::handler;
use crate::signal_numbers::{self, CONT, TSTP};

handler! {
    /// Signals to the ranks.
    pub(super) SignalHandler of HostParts {
        changes { course, out }
        reads { processes, lease }
    }
}

impl SignalHandler<'_> {
    /// Sends a signal on to the ranks' process groups.
    pub fn pass_signal(&mut self, signal: i32) {
        match signal {
            TSTP => self.course.halted = true,
            CONT => self.course.halted = false,
            _ => {}
        }
        if self.lease.is_suspended() {
            // It must not resume a suspended process.
            self.course.held_signal = Some(signal)
                .filter(|s| signal_numbers::ends(*s))
                .or(self.course.held_signal);
            return;
        }
        if signal_numbers::ends(signal) {
            self.course.signalled = Some(signal);
        }
        for process in self.processes.iter().filter(|r| !r.has_ended()) {
            // A process that has left the process group of the started process gets the signal
            // separately.
            let to = match process.child_has_ended() {
                false => LocalEffect::SignalGroup,
                true => LocalEffect::SignalCaller,
            };
            let rank = process.instance().rank;
            self.out.push(to(rank, signal));
            if signal_numbers::ends(signal) {
                // A stopped process would keep it pending.
                self.out.push(to(rank, CONT));
            }
        }
    }

    /// Passes the signal on that came while ranks were suspended.
    pub fn pass_held_signal(&mut self) {
        if let Some(signal) = self.course.held_signal.take() {
            self.pass_signal(signal);
        }
    }
}
