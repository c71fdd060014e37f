//! Probes and look-ups of cards between local managers, over links of their own. Look-ups also go
//! to central, as in a job down a tree: ranks begin without the table. It follows, but not to hosts
//! that the tree does not reach.

use super::work::Work;
use super::{Event, JobWorld};
use rejoin_managers_protocol::broadcast::Peer;
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::central_lookups::CentralLookups;
use rejoin_managers_protocol::detector::ProbeMessage;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::lookup::LookupMessage;
use rejoin_managers_protocol::manager_messages::{Time, ToLocal};
use std::collections::VecDeque;

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

    /// What this run of central tells hosts instead of an order: whoever looks cards up begins
    /// without the table. `follows`: the table is on its way to some of them.
    pub(super) fn without_table(&mut self, order: ToLocal, follows: bool) -> Vec<(ToLocal, u64)> {
        let Some(central) = self.central.as_ref().filter(|_| self.shape.lookups) else {
            return vec![(order, 100)];
        };
        let places = || central.ranks().map(|rank| rank.host).collect();
        let boots = self.boots;
        // Another run of central knows no card.
        if self.lookups.as_ref().is_none_or(|(run, _)| *run != boots) {
            self.lookups = Some((boots, CentralLookups::new(places())));
        }
        let Some((_, lookups)) = &mut self.lookups else {
            return vec![(order, 100)];
        };
        if let ToLocal::Update { instance, card } = &order {
            lookups.update(*instance, card);
        }
        if matches!(order, ToLocal::Start { .. }) {
            lookups.place(places());
        }
        match lookups.ahead(&order) {
            None => vec![(order, 100)],
            Some(begin) if follows => vec![(begin, 100), (order, 70)],
            Some(begin) => vec![(begin, 100)],
        }
    }

    /// A local manager asks another one or central (`None`), or answers.
    pub(super) fn send_lookup(
        &mut self,
        from: HostIndex,
        to: Peer,
        message: LookupMessage,
        inputs: &mut VecDeque<LocalInput>,
    ) {
        let is_there = to.is_none_or(|to| {
            let host = self.hosts.get(to).filter(|_| to != from);
            host.is_some_and(|host| host.local.is_some())
        });
        match message {
            // It can't be dialed.
            LookupMessage::Where {
                generation, rank, ..
            } if !is_there => {
                let unknown = LookupMessage::Unknown { generation, rank };
                inputs.push_back(LocalInput::LookedUp(to, unknown));
            }
            message => {
                let at = self.now + self.rng.between(20_000, 200_000);
                self.queue.at(at, Event::LookedUp(Some(from), to, message));
            }
        }
    }

    /// A question or an answer arrives, or is lost with a host or with central.
    pub(super) fn looked_up(
        &mut self,
        from: Peer,
        to: Peer,
        message: LookupMessage,
    ) -> Result<(), String> {
        let ends = from.into_iter().chain(to);
        let reachable = ends.map(|host| self.hosts[host].link.unreachable()).max();
        if reachable > Some(self.now) {
            return Ok(());
        }
        if let Some(host) = to {
            return self.local(host, LocalInput::LookedUp(from, message));
        }
        let boots = self.boots;
        let lookups = self.lookups.as_mut().filter(|(run, _)| *run == boots);
        let is_dropped = from.is_some_and(|host| self.hosts[host].link.is_dropped());
        let lookups = lookups.filter(|_| self.central.is_some() && !is_dropped);
        let answer = lookups.and_then(|(_, l)| l.answer(Time(self.now), from, message));
        if let Some(answer) = answer {
            let at = self.now + self.rng.between(20_000, 200_000);
            self.queue.at(at, Event::LookedUp(None, from, answer));
        }
        Ok(())
    }
}
