//! Probes between local managers, over links of their own.

use super::work::Work;
use super::{Event, JobWorld};
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::detector::ProbeMessage;
use rejoin_managers_protocol::local::LocalInput;

impl<W: Work> JobWorld<W> {
    /// A local manager tells another one.
    pub(super) fn send_probe(&mut self, from: HostIndex, to: HostIndex, message: ProbeMessage) {
        self.tally.probes += 1;
        let at = self.now + self.rng.between(20_000, 200_000);
        self.queue.at(at, Event::Probed(from, to, message));
    }

    /// A message of another local manager arrives, unless one of both hosts can't be reached. Then
    /// the connection delivers it later.
    pub(super) fn probed(
        &mut self,
        from: HostIndex,
        to: HostIndex,
        message: ProbeMessage,
    ) -> Result<(), String> {
        let of = |host: HostIndex| self.hosts[host].link.unreachable();
        let reachable = of(from).max(of(to));
        if reachable > self.now {
            self.queue.at(reachable, Event::Probed(from, to, message));
            return Ok(());
        }
        self.local(to, LocalInput::Probed(from, message))
    }
}
