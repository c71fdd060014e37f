//! What a host does for its lease. Its ranks run only as long as the lease does, because central
//! may lose sight of the host.

use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use super::lifecycle::HostEndHandler;
use crate::handler_keys::handler;
use crate::lease::{Extension, LeaseDuty};
use crate::manager_messages::HostMessage;

handler! {
    /// The lease of this host.
    pub(super) LeaseHandler of HostParts {
        changes { course, processes, restore, lease, out }
    }
}

impl LeaseHandler<'_> {
    /// Looks at the clock; before anything else that a step does.
    pub fn lease_tick(&mut self) {
        while let Some(duty) = self.lease.due(self.out.now) {
            match duty {
                LeaseDuty::Renew(number) => self.out.report(HostMessage::Renew { number }),
                LeaseDuty::Stop => self.out.push(LocalEffect::StopAll),
                LeaseDuty::Orphaned => self.ends().abandoned_by_central(),
            }
        }
    }

    /// Central has granted a renewal. Returns whether ranks that wait for it continue.
    pub fn granted(&mut self, number: u64) -> bool {
        let Some(Extension { until, is_new }) = self.lease.granted(self.out.now, number) else {
            return false;
        };
        self.out.push(LocalEffect::RunUntil(until));
        is_new
    }

    fn ends(&mut self) -> HostEndHandler<'_> {
        HostEndHandler {
            course: self.course,
            processes: self.processes,
            restore: self.restore,
            lease: self.lease,
            out: self.out,
        }
    }
}
