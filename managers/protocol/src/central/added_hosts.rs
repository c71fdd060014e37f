//! Hosts that are added to the running job.
//!
//! A host that is added is a spare one: it gets a local manager as soon as ranks come to it.
//! Central stores it before anyone knows its number. A host that was drained comes back as another
//! one of the same name. One that was lost does not: processes of it may be there still.

use super::event::Event;
use super::hosts_request::{AddedHost, HostsRequest};
use super::interface::{CentralEffect, HostIndex, Record};
use super::job_state::Central;
use super::phase::CentralPhase;

impl Central {
    /// Hosts are to be added. The request may come a second time, if another central manager has
    /// carried it out.
    pub(super) fn hosts_asked(&mut self, request: HostsRequest, effects: &mut Vec<CentralEffect>) {
        let HostsRequest { id, mut hosts } = request;
        hosts.retain(|added| !self.hosts.is_added_by(id, &added.name));
        let why = self.refuses_hosts(&hosts);
        if why.is_none() {
            for added in hosts {
                self.add_host(id, added, effects);
            }
        }
        effects.push(CentralEffect::Event(Event::HostsAdded { request: id, why }));
    }

    fn add_host(&mut self, request: u64, added: AddedHost, effects: &mut Vec<CentralEffect>) {
        effects.push(CentralEffect::Persist(Record::HostAdded {
            request,
            added: added.clone(),
        }));
        let name = added.name.clone();
        let host = self.hosts.add(request, added.clone());
        effects.push(CentralEffect::HostAdded { host, added });
        effects.push(CentralEffect::Event(Event::HostAdded { name }));
    }

    /// Central was started again: its predecessor has added this host.
    pub(super) fn recall_added(&mut self, request: u64, added: AddedHost) {
        self.hosts.add(request, added);
    }

    /// The driver may not know which hosts were added.
    pub(super) fn tell_added(&self, effects: &mut Vec<CentralEffect>) {
        let added = self.hosts.added();
        let tell = |(host, added): (HostIndex, AddedHost)| CentralEffect::HostAdded { host, added };
        effects.extend(added.map(tell));
    }

    /// Why these hosts can't be added.
    fn refuses_hosts(&self, hosts: &[AddedHost]) -> Option<String> {
        let ends = matches!(
            self.phase,
            CentralPhase::Finalized
                | CentralPhase::Ending
                | CentralPhase::Relaunching(_)
                | CentralPhase::Over
        );
        if ends || self.end.verdict().is_some() {
            return Some("the job is ending".into());
        }
        if !self.mode.recovers() {
            return Some("the job runs with --recovery none".into());
        }
        if !self.failover.as_ref().is_some_and(|f| f.takes_in) {
            let why = "the job can't use other hosts: it has no files of images, or so many \
                       ranks that they have fixed places";
            return Some(why.into());
        }
        if !self.hosts.has_leases() && hosts.iter().any(|added| added.is_remote) {
            let why = "the job was started on its own host only, where no other host reaches it: \
                       start it with two hosts (--host)";
            return Some(why.into());
        }
        let mut names: Vec<&str> = hosts.iter().map(|added| &added.name[..]).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
            return Some(format!("host {} is named twice", twice[0]));
        }
        let known = hosts
            .iter()
            .find(|added| self.hosts.takes_name(&added.name))?;
        let name = &known.name;
        Some(format!(
            "the job has a host {name}, or has lost it; a drained one can come back when its local \
             manager has ended"
        ))
    }
}
