//! The hosts of the job: their leases, and which of them take part no more.

use super::event::Event;
use super::host_condition::HostCondition;
use super::hosts_request::AddedHost;
use super::interface::{CentralEffect, HostIndex, Job, Record};
use super::out::Out;
use super::placement::UsableHost;
use crate::lease::{Grantor, LeaseStatus, Terms};
use crate::manager_messages::{Time, ToLocal};
use rejoin_channel_table::{Incarnation, LanId, Rank};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct HostState {
    name: String,
    /// The site that the user has named for it; empty: none.
    lan: LanId,
    /// No more is expected from it.
    done: bool,
    /// The host has reported that no process of the job is left on it, and that is stored.
    left: bool,
    /// The host is lost, and does not come back in this launch.
    lost: bool,
    /// Why it is lost, where that is known.
    why_lost: Option<String>,
    /// The host gets no ranks any more.
    drains: bool,
    /// The host's health command says that it is suspect, for this reason.
    suspect: Option<String>,
    /// Why its ranks are to leave it, if it has said so itself.
    leaves: Option<String>,
    /// The host's local manager was told to end.
    ends: bool,
    /// Why that can't be, as far as the user knows.
    refusal: Option<String>,
    /// How many ranks it takes before others get more.
    slots: usize,
    /// The host has got the order to start ranks.
    begun: bool,
    /// The host is reached over a network: it had a lease at first.
    is_remote: bool,
    /// Of a host that may fall silent.
    lease: Option<Grantor>,
    /// The number of the request that has added it.
    added_by: Option<u64>,
    /// The condition that the user knows; `None`: an earlier central manager may have told one.
    told: Option<HostCondition>,
}

/// The hosts whose leases ran out, as far as that is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Silence {
    /// A host that has been silent for longer than the user's patience.
    pub lost: Option<HostIndex>,
    /// Some host has fallen silent.
    pub begins: bool,
}

/// The hosts of the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HostTable {
    hosts: Vec<HostState>,
    /// The condition of some host may be another one than the user knows.
    changed: bool,
    /// Hosts of which no more is expected, and which may still be probed.
    ended: Vec<HostIndex>,
    /// Of hosts that may fall silent.
    terms: Option<Terms>,
}

impl HostTable {
    /// The hosts of a job, of which some have leases.
    pub fn new(job: &Job) -> HostTable {
        let leases = job.leases.as_ref();
        let lease = |host| {
            let leases = leases.filter(|l| l.hosts.contains(&host))?;
            Some(Grantor::new(leases.terms))
        };
        let host = |(host, name): (HostIndex, &String)| HostState {
            name: name.clone(),
            lan: job.lans.get(host).cloned().unwrap_or_default(),
            slots: job
                .slots
                .get(host)
                .map_or(usize::MAX, |slots| *slots as usize),
            is_remote: lease(host).is_some(),
            lease: lease(host),
            ..HostState::default()
        };
        HostTable {
            hosts: job.hosts.iter().enumerate().map(host).collect(),
            changed: false,
            ended: Vec::new(),
            terms: leases.map(|leases| leases.terms),
        }
    }

    /// Adds a host, which takes no part until it gets ranks. Returns its number.
    pub fn add(&mut self, request: u64, added: AddedHost) -> HostIndex {
        let lease = self.terms.filter(|_| added.is_remote).map(Grantor::new);
        self.hosts.push(HostState {
            name: added.name,
            lan: added.lan,
            done: true,
            slots: added.slots as usize,
            is_remote: added.is_remote,
            lease,
            added_by: Some(request),
            ..HostState::default()
        });
        self.changed = true;
        self.hosts.len() - 1
    }

    /// The hosts that were added.
    pub fn added(&self) -> impl Iterator<Item = (HostIndex, AddedHost)> {
        let hosts = self.hosts.iter().enumerate();
        let added = hosts.filter(|(_, state)| state.added_by.is_some());
        added.map(|(host, state)| {
            let added = AddedHost {
                name: state.name.clone(),
                slots: u32::try_from(state.slots).unwrap_or(u32::MAX),
                is_remote: state.is_remote,
                lan: state.lan.clone(),
            };
            (host, added)
        })
    }

    /// This request has added a host of this name.
    pub fn is_added_by(&self, request: u64, name: &str) -> bool {
        let is_it = |state: &HostState| state.added_by == Some(request) && state.name == name;
        self.hosts.iter().any(is_it)
    }

    /// Hosts that are reached over a network can take part.
    pub fn has_leases(&self) -> bool {
        self.terms.is_some()
    }

    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    pub fn name(&self, host: HostIndex) -> String {
        self.hosts[host].name.clone()
    }

    /// The site of a host; empty: none is known.
    pub fn lan(&self, host: HostIndex) -> LanId {
        self.hosts[host].lan.clone()
    }

    /// A host of this name is or was there. One whose local manager has ended can come back, as
    /// another host.
    pub fn takes_name(&self, name: &str) -> bool {
        let is_gone = |h: &HostState| h.left || (h.drains && h.done && !h.lost);
        self.hosts.iter().any(|h| h.name == name && !is_gone(h))
    }

    /// No more is expected from this host.
    pub fn is_done(&self, host: HostIndex) -> bool {
        self.hosts[host].done
    }

    /// The hosts of which no more is expected since the last call.
    pub fn take_ended(&mut self) -> Vec<HostIndex> {
        std::mem::take(&mut self.ended)
    }

    /// No more is expected from any host.
    pub fn all_done(&self) -> bool {
        self.hosts.iter().all(|h| h.done)
    }

    /// Sends a message to each host that takes part.
    pub fn send_all(&self, message: impl Fn() -> ToLocal, out: &mut Out) {
        let open = self.open().map(|(host, _)| host);
        out.effects
            .extend(open.map(|host| CentralEffect::Send(host, message())));
    }

    /// Sends a message to each host that takes part, where the driver may send it once to many.
    pub fn spread(&self, message: ToLocal, out: &mut Out) {
        let hosts = self.open().map(|(host, _)| host).collect();
        out.push(CentralEffect::SendAll(hosts, message));
    }

    fn open(&self) -> impl Iterator<Item = (HostIndex, &HostState)> {
        self.hosts.iter().enumerate().filter(|(_, h)| !h.done)
    }

    /// Nothing is expected from hosts without ranks. The others take part, also those that were
    /// added. `by_host`: the ranks of each host.
    pub fn with_ranks_take_part(&mut self, by_host: &[Vec<(Rank, Incarnation)>]) {
        for (host, ranks) in by_host.iter().enumerate() {
            if !ranks.is_empty() {
                self.join(host);
            } else if let Some(state) = self.hosts.get_mut(host) {
                state.done = true;
                self.ended.push(host);
            }
        }
    }

    /// A host is lost for this reason: its name, if it took part until now.
    pub fn lose(&mut self, host: HostIndex, why: &str) -> Option<String> {
        let state = self.hosts.get_mut(host).filter(|state| !state.done)?;
        (state.done, state.lost) = (true, true);
        state.why_lost = Some(why.to_owned());
        self.changed = true;
        self.ended.push(host);
        Some(state.name.clone())
    }

    /// How a host takes part, and why. `has_ranks`: some rank is there.
    pub fn condition(&self, host: HostIndex, has_ranks: bool) -> (HostCondition, Option<String>) {
        let state = &self.hosts[host];
        let why_lost = || match &state.why_lost {
            Some(why) => format!("it is lost: {why}"),
            None => "it is lost".into(),
        };
        let left = |why: &str| (HostCondition::Left, Some(why.to_owned()));
        match state {
            HostState { lost: true, .. } => (HostCondition::Lost, Some(why_lost())),
            HostState { left: true, .. } => left("its local manager has ended"),
            HostState { drains: true, .. } if !state.done => {
                (HostCondition::Draining, state.leaves.clone())
            }
            HostState { drains: true, .. } => left("it is drained and has no local manager"),
            HostState {
                suspect: Some(why), ..
            } => (HostCondition::Suspect, Some(why.clone())),
            _ if has_ranks => (HostCondition::Active, None),
            _ => (HostCondition::Spare, None),
        }
    }

    /// Ranks are on other hosts than before.
    pub fn set_changed(&mut self) {
        self.changed = true;
    }

    /// Whether conditions may have changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The user gets to know this condition of a host. Returns whether it is another one.
    pub fn report_condition(&mut self, host: HostIndex, condition: HostCondition) -> bool {
        let state = self.hosts.get_mut(host);
        state.is_some_and(|state| state.told.replace(condition) != Some(condition))
    }

    /// Central was started again: what the user knows of this host is not known.
    pub fn forget_notified(&mut self, host: HostIndex) {
        if let Some(state) = self.hosts.get_mut(host) {
            state.told = None;
        }
        self.changed = true;
    }

    /// This launch has lost the host.
    pub fn is_lost(&self, host: HostIndex) -> bool {
        self.hosts.get(host).is_some_and(|state| state.lost)
    }

    /// The host's lease has run out.
    pub fn is_silent(&self, host: HostIndex) -> bool {
        let state = self.hosts.get(host);
        let lease = state.and_then(|state| state.lease.as_ref());
        lease.is_some_and(Grantor::is_silent)
    }

    /// The host is reached over a network.
    pub fn is_remote(&self, host: HostIndex) -> bool {
        self.hosts.get(host).is_some_and(|state| state.is_remote)
    }

    /// Hosts that can have ranks: those that take part, and those that had none so far.
    pub fn usable(&self) -> impl Iterator<Item = UsableHost> {
        let usable = |(_, h): &(HostIndex, &HostState)| !h.lost && !h.left && !h.drains;
        let hosts = self.hosts.iter().enumerate().filter(usable);
        hosts.map(|(host, state)| UsableHost {
            host,
            slots: state.slots,
            is_suspect: state.suspect.is_some(),
        })
    }

    /// The health command of a host says whether the host is suspect, and why.
    pub fn set_suspect(&mut self, host: HostIndex, why: Option<String>) {
        if let Some(state) = self.hosts.get_mut(host) {
            self.changed |= state.suspect.is_some() != why.is_some();
            state.suspect = why;
            state.leaves.take_if(|_| !state.drains);
        }
    }

    /// The ranks of a host are to leave it, for this reason.
    pub fn set_leave_reason(&mut self, host: HostIndex, why: String) {
        if let Some(state) = self.hosts.get_mut(host) {
            state.leaves = Some(why);
        }
    }

    /// The local manager of a host was told to end.
    pub fn set_ends(&mut self, host: HostIndex) {
        if let Some(state) = self.hosts.get_mut(host) {
            state.ends = true;
        }
    }

    /// Ranks can move to a host: it is not silent, and its own do not have to leave it.
    pub fn takes_in(&self, host: HostIndex) -> bool {
        let stays = |state: &HostState| !state.ends && state.leaves.is_none();
        self.hosts.get(host).is_some_and(stays) && !self.is_silent(host)
    }

    /// Why the ranks of a host are to leave it, if it has said so itself.
    pub fn leave_reason(&self, host: HostIndex) -> Option<String> {
        self.hosts.get(host)?.leaves.clone()
    }

    /// The ranks of a host can't leave it, for this reason. Returns whether the user does not know.
    pub fn note_refusal(&mut self, host: HostIndex, why: &str) -> bool {
        let state = self.hosts.get_mut(host);
        state.is_some_and(|state| state.refusal.replace(why.to_owned()).as_deref() != Some(why))
    }

    /// The host gets no ranks any more.
    pub fn drains(&self, host: HostIndex) -> bool {
        self.hosts.get(host).is_some_and(|state| state.drains)
    }

    /// The host gets no ranks any more. Returns whether that is new.
    pub fn drain(&mut self, host: HostIndex) -> bool {
        self.changed = true;
        let state = self.hosts.get_mut(host);
        state.is_some_and(|state| !std::mem::replace(&mut state.drains, true))
    }

    /// Hosts that get no ranks any more, and still take part.
    pub fn draining(&self) -> impl Iterator<Item = HostIndex> {
        let draining = self.open().filter(|(_, state)| state.drains);
        draining.map(|(host, _)| host)
    }

    /// The hosts that this launch has lost.
    pub fn lost(&self) -> impl Iterator<Item = HostIndex> {
        let hosts = self.hosts.iter().enumerate();
        hosts.filter(|(_, h)| h.lost).map(|(host, _)| host)
    }

    /// Central was started again: its predecessor had lost this host.
    pub fn recall_lost(&mut self, host: HostIndex) {
        if let Some(state) = self.hosts.get_mut(host) {
            (state.done, state.lost) = (true, true);
            self.changed = true;
            self.ended.push(host);
        }
    }

    /// The host has ranks from now on, and takes part.
    pub fn join(&mut self, host: HostIndex) {
        let can_join = |state: &&mut HostState| !state.lost && !state.left;
        let Some(state) = self.hosts.get_mut(host).filter(can_join) else {
            return;
        };
        let was_done = std::mem::replace(&mut state.done, false);
        // One whose orders wait may have a lease since.
        if let Some(lease) = state.lease.as_mut().filter(|_| was_done && !state.begun) {
            lease.begin_anew();
        }
    }

    /// The host gets an order to start ranks, or has had one. Returns whether it had one before.
    pub fn begins(&mut self, host: HostIndex) -> bool {
        let state = self.hosts.get_mut(host);
        state.is_some_and(|state| std::mem::replace(&mut state.begun, true))
    }

    /// Drops every host that is not done.
    pub fn drop_open(&mut self, out: &mut Out) {
        self.drop_if(|_, _| true, out);
    }

    /// Drops the hosts without leases that have not answered. Returns the name of the first one.
    pub fn drop_unanswered(
        &mut self,
        answered: impl Fn(HostIndex) -> bool,
        out: &mut Out,
    ) -> Option<String> {
        self.drop_if(|host, h| h.lease.is_none() && !answered(host), out)
    }

    fn drop_if(
        &mut self,
        condition: impl Fn(HostIndex, &HostState) -> bool,
        out: &mut Out,
    ) -> Option<String> {
        let mut first = None;
        for (host, state) in self.hosts.iter_mut().enumerate() {
            if !state.done && condition(host, state) {
                state.done = true;
                self.ended.push(host);
                out.push(CentralEffect::Drop(host));
                first.get_or_insert_with(|| state.name.clone());
            }
        }
        first
    }

    /// No process of the job is left on a host. Its local manager may leave once that is stored:
    /// the next central manager could not ask it any more.
    pub fn done(&mut self, host: HostIndex, out: &mut Out) {
        self.drop_lease(host);
        if let Some(state) = self.hosts.get_mut(host) {
            state.done = true;
            self.changed |= state.drains;
            self.ended.push(host);
            if !std::mem::replace(&mut state.left, true) {
                out.persist(Record::HostDone(host));
            }
            out.send(host, ToLocal::Leave);
        }
    }

    /// Central was started again: this host had reported that it is done.
    pub fn recall_done(&mut self, host: HostIndex) {
        if let Some(state) = self.hosts.get_mut(host) {
            (state.done, state.left) = (true, true);
            self.ended.push(host);
        }
    }

    /// Central was started again: local managers may not have received the permission to leave.
    pub fn repeat_leave(&self, out: &mut Out) {
        let left = self.hosts.iter().enumerate().filter(|(_, h)| h.left);
        let leave = |host| CentralEffect::Send(host, ToLocal::Leave);
        out.effects.extend(left.map(|(host, _)| leave(host)));
    }

    /// A host renews its lease. One that has a successor, or that the job has no use for any more,
    /// gets nothing and runs out.
    pub fn renewed(&mut self, now: Time, host: HostIndex, number: u64, out: &mut Out) {
        let Some(state) = self.hosts.get_mut(host).filter(|state| !state.done) else {
            return;
        };
        if let Some(lease) = &mut state.lease {
            if lease.renewed(now) {
                let name = state.name.clone();
                out.event(Event::HostHeard { name });
            }
            out.send(host, ToLocal::Granted { number });
        }
    }

    /// The host's local manager has called the launcher: it is to renew its lease from now on.
    pub fn called(&mut self, now: Time, host: HostIndex) {
        let state = self.hosts.get_mut(host).filter(|state| !state.done);
        if let Some(lease) = state.and_then(|state| state.lease.as_mut()) {
            lease.called(now);
        }
    }

    /// A local manager has ended, and every process below it: no process uses its lease any more.
    pub fn drop_lease(&mut self, host: HostIndex) {
        if let Some(state) = self.hosts.get_mut(host) {
            state.lease = None;
        }
    }

    /// When a lease runs out, or patience does.
    pub fn silence_due(&self) -> Option<Time> {
        let leases = self.open().filter_map(|(_, h)| h.lease.as_ref());
        leases.filter_map(Grantor::deadline).min()
    }

    /// Looks for hosts whose leases have run out.
    pub fn silence_tick(&mut self, now: Time, out: &mut Out) -> Silence {
        let (mut lost, mut begins) = (None, false);
        for (host, state) in self.hosts.iter_mut().enumerate() {
            let Some(lease) = state.lease.as_mut().filter(|_| !state.done) else {
                continue;
            };
            let name = state.name.clone();
            match lease.tick(now) {
                LeaseStatus::Same => {}
                LeaseStatus::Silent => {
                    out.event(Event::HostSilent { host, name });
                    begins = true;
                }
                LeaseStatus::Lost => lost = lost.or(Some(host)),
            }
        }
        Silence { lost, begins }
    }

    /// A host whose lease has run out.
    pub fn silent(&self) -> Option<HostIndex> {
        let mut open = self.open().map(|(host, _)| host);
        open.find(|host| self.is_silent(*host))
    }

    /// Nothing is known of the leases that were given: they are counted from now.
    pub fn count_leases_from(&mut self, now: Time) {
        let leases = self.hosts.iter_mut().filter_map(|h| h.lease.as_mut());
        leases.for_each(|lease| lease.count_from(now));
    }

    /// Central was suspended and could receive no message meanwhile.
    pub fn was_suspended(&mut self, now: Time) {
        let leases = self.hosts.iter_mut().filter_map(|h| h.lease.as_mut());
        leases.for_each(|lease| lease.was_suspended(now));
    }

    /// When the last lease of a lost host runs out, if some process there may still use it.
    pub fn fence_of_lost(&self, now: Time) -> Option<Time> {
        let lost = self.hosts.iter().filter(|h| h.lost);
        let leases = lost.filter_map(|h| h.lease.as_ref());
        leases
            .filter_map(Grantor::expires)
            .max()
            .filter(|at| *at > now)
    }
}
