//! Where central's core is: in this process, or in one of its own.

use super::remote_central::{CentralSetup, RemoteCentral};
use crate::central::core_driver::CoreDriver;
use crate::central::host_links::{HostLinks, LinkKinds, LinkPlan};
use crate::error::Result;
use crate::net::reactor::Reactor;
use crate::report::verbose_log::VerboseLog;
use rejoin_managers_protocol::central::{Central, JobView, Record};
use rejoin_managers_protocol::verdict::Verdict;
use std::path::PathBuf;
use std::time::Duration;

/// The core, or the link to the process that drives it.
pub(super) enum CentralCore {
    InProcess(Box<CoreDriver>),
    Remote(Box<RemoteCentral>),
}

impl CentralCore {
    /// The core of a new job. With a place for a journal, it is in a process of its own, whose
    /// events are of `kind`. Otherwise the events of its links to local managers are of `kinds`.
    pub fn start(
        setup: CentralSetup,
        journal: Option<PathBuf>,
        (kind, kinds): (u8, LinkKinds),
        reactor: &Reactor,
    ) -> Result<CentralCore> {
        let central = Central::new(setup.job.clone());
        let Some(journal) = journal else {
            return CentralCore::here(central, &setup, kinds, reactor);
        };
        let view = central.view();
        let remote = RemoteCentral::start(setup, journal, view, kind, reactor)?;
        Ok(CentralCore::Remote(Box::new(remote)))
    }

    /// A core that this process drives.
    fn here(
        core: Central,
        setup: &CentralSetup,
        kinds: LinkKinds,
        reactor: &Reactor,
    ) -> Result<CentralCore> {
        let sockets = setup.sockets.try_clone()?;
        let hosts = HostLinks::new(&setup.job, &setup.links, sockets, kinds, reactor)?;
        let names = setup.job.hosts.clone();
        let verbose_log = VerboseLog::new(setup.verbose);
        let links = (hosts, kinds);
        let driver = CoreDriver::new(core, None, links, names, verbose_log);
        Ok(CentralCore::InProcess(Box::new(driver)))
    }

    /// The core that continues here after its process has gone. A job that has begun ends with the
    /// verdict.
    pub fn after(
        remote: &RemoteCentral,
        verdict: Option<Verdict>,
        kinds: LinkKinds,
        reactor: &Reactor,
    ) -> Result<CentralCore> {
        let setup = remote.setup();
        let mut job = setup.job.clone();
        // Which generations have begun is not known here, so none can be begun.
        job.failover = None;
        let links = LinkPlan {
            restarts: setup.links.restarts + 1,
            ..setup.links.clone()
        };
        let setup = CentralSetup {
            job,
            links,
            sockets: setup.sockets.try_clone()?,
            verbose: setup.verbose,
        };
        let records = verdict.map(Record::Decided).into_iter().collect();
        let central = Central::resume(setup.job.clone(), records);
        CentralCore::here(central, &setup, kinds, reactor)
    }

    /// This process drives the core.
    pub fn is_here(&self) -> bool {
        matches!(self, CentralCore::InProcess(_))
    }

    /// The process that drives the core of a remote central manager.
    pub fn remote(&self) -> Option<&RemoteCentral> {
        match self {
            CentralCore::InProcess(_) => None,
            CentralCore::Remote(remote) => Some(remote),
        }
    }

    /// The process that drives the core of a remote central manager, to change it.
    pub fn remote_mut(&mut self) -> Option<&mut RemoteCentral> {
        match self {
            CentralCore::InProcess(_) => None,
            CentralCore::Remote(remote) => Some(remote),
        }
    }

    /// How long until the core, or the watch over its process, has something to do.
    pub fn wait_limit(&self) -> Option<Duration> {
        match self {
            CentralCore::InProcess(driver) => driver.wait_limit(),
            CentralCore::Remote(remote) => remote.wait_limit(),
        }
    }

    /// Writes as much as the links take.
    pub fn flush(&mut self, reactor: &Reactor) -> Result<()> {
        match self {
            CentralCore::InProcess(driver) => driver.flush(reactor),
            CentralCore::Remote(remote) => remote.flush(reactor),
        }
    }

    /// The job as it is now, or at the last report.
    pub fn view(&self) -> JobView {
        match self {
            CentralCore::InProcess(driver) => driver.view(),
            CentralCore::Remote(remote) => remote.view.clone(),
        }
    }

    /// Process id of the central manager, and how often it was started again.
    pub fn process(&self) -> (u32, u64) {
        let remote = self.remote();
        remote.map_or((std::process::id(), 0), |r| (r.pid(), r.restarts()))
    }

    /// Removes the journal: its records are of no use any more.
    pub fn remove_journal(&self) {
        if let Some(remote) = self.remote() {
            // It may be removed already, which is just as good.
            let _ = std::fs::remove_file(remote.journal());
        }
    }
}
