//! Hosts that take no part any more.

use super::{Central, Effect, HostIndex};
use crate::control::Time;
use crate::verdict::Verdict;

impl Central {
    /// A host is lost, with everything that ran there.
    pub(super) fn host_gone(
        &mut self,
        now: Time,
        host: HostIndex,
        why: String,
        effects: &mut Vec<Effect>,
    ) {
        let Some(state) = self.hosts.get_mut(host) else {
            return;
        };
        if !state.done {
            state.done = true;
            let host = state.name.clone();
            self.decide(now, Verdict::HostLost { host, why }, effects);
        }
    }
}
