//! What a host does for its lease. Its ranks run only as long as the lease does, because central
//! may lose sight of the host.

use super::host_state::Local;
use super::inputs::LocalEffect;
use crate::lease::{Extension, LeaseDuty, Terms};
use crate::manager_messages::{HostMessage, Time};

impl Local {
    /// This host is reached over a network: nothing runs here without a lease.
    pub fn use_leases(&mut self, terms: Terms, now: Time) {
        self.lease.begin(terms, now);
    }

    /// Looks at the clock; before anything else that a step does.
    pub(super) fn lease_tick(&mut self, now: Time, effects: &mut Vec<LocalEffect>) {
        while let Some(duty) = self.lease.due(now) {
            match duty {
                LeaseDuty::Renew(number) => self.tell(HostMessage::Renew { number }, effects),
                LeaseDuty::Stop => effects.push(LocalEffect::StopAll),
                LeaseDuty::Orphaned => self.abandoned_by_central(effects),
            }
        }
    }

    /// Nothing may run here without a lease, and there is none.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.lease.is_suspended()
    }

    /// Central has granted a renewal: ranks that wait for it continue.
    pub(super) fn granted(&mut self, now: Time, number: u64, effects: &mut Vec<LocalEffect>) {
        let Some(Extension { until, is_new }) = self.lease.granted(now, number) else {
            return;
        };
        effects.push(LocalEffect::RunUntil(until));
        if !is_new {
            return;
        }
        self.take_over(effects);
        for order in self.lease.take_orders() {
            self.order(now, order, effects);
        }
        if let Some(signal) = self.held_signal.take() {
            self.pass_signal(signal, effects);
        }
    }
}
