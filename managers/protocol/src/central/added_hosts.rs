//! Hosts that are added to the running job.
//!
//! A host that is added is a spare one: it gets a local manager as soon as ranks come to it.
//! Central stores it before anyone knows its number. A host that was drained comes back as another
//! one of the same name. One that was lost does not: processes of it may be there still.

use super::event::Event;
use super::hosts_request::{AddedHost, HostsRequest};
use super::interface::{CentralEffect, HostIndex, Record};
use super::job_parts::{JobParts, keys};
use super::phase::CentralPhase;
use crate::handler_keys::handler;

handler! {
    /// Adds hosts to the running job.
    pub(in crate::central) AddedHostsHandler of JobParts {
        changes { cluster, out }
        reads { course, commits, terms }
    }
}

impl AddedHostsHandler<'_> {
    /// Hosts are to be added. The request may come a second time, if another central manager has
    /// carried it out.
    pub(super) fn on_hosts_request(&mut self, request: HostsRequest) {
        let HostsRequest { id, mut hosts } = request;
        hosts.retain(|added| !self.cluster.hosts.is_added_by(id, &added.name));
        let why = self.refuses_hosts(&hosts);
        if why.is_none() {
            for added in hosts {
                self.add_host(id, added);
            }
        }
        self.out.event(Event::HostsAdded { request: id, why });
    }

    fn add_host(&mut self, request: u64, added: AddedHost) {
        self.out.persist(Record::HostAdded {
            request,
            added: added.clone(),
        });
        let name = added.name.clone();
        let host = self.cluster.hosts.add(request, added.clone());
        self.out.push(CentralEffect::HostAdded { host, added });
        self.out.event(Event::HostAdded { name });
    }

    /// The driver may not know which hosts were added.
    pub(super) fn notify_added(&mut self) {
        let added = self.cluster.hosts.added();
        let tell = |(host, added): (HostIndex, AddedHost)| CentralEffect::HostAdded { host, added };
        self.out.effects.extend(added.map(tell));
    }

    /// Why these hosts can't be added.
    fn refuses_hosts(&self, hosts: &[AddedHost]) -> Option<String> {
        let ends = matches!(
            self.course.phase,
            CentralPhase::Finalized | CentralPhase::Ending | CentralPhase::Over
        );
        if ends || self.course.end.verdict().is_some() {
            return Some("the job is ending".into());
        }
        if !self.commits.mode.recovers() {
            return Some("the job runs with --recovery none".into());
        }
        if !self.terms.takes_in() {
            let why = "the job can't use other hosts: it has no files of images, or logs that do \
                       not outlive a host (--stable node)";
            return Some(why.into());
        }
        if !self.cluster.hosts.has_leases() && hosts.iter().any(|added| added.is_remote) {
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
            .find(|added| self.cluster.hosts.takes_name(&added.name))?;
        let name = &known.name;
        Some(format!(
            "the job has a host {name}, or has lost it; a drained one can come back when its local \
             manager has ended"
        ))
    }
}
