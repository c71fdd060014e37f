//! Drives the core of the central manager, in a process of its own or in mpirun. Passes messages of
//! local managers and of mpirun to the core, stores its records, and sends its orders. Reports the
//! other effects to mpirun.

use super::central_messages::CentralToMpirun;
use super::host_links::{HostLinks, LinkKinds};
use super::journal::Journal;
use crate::clock::now;
use crate::error::Result;
use crate::fault;
use crate::net::reactor::{Reactor, Token};
use crate::report::verbose_log::VerboseLog;
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Course, HostIndex, JobView, Record,
};
use rejoin_managers_protocol::control::ToCentral;
use rejoin_managers_protocol::signals;
use std::time::Duration;

/// The core of a job that has begun or was taken up, and its links to the local managers.
pub struct CoreDriver {
    core: Central,
    /// None where the job ends with this process, and when it can't be written any more: the job is
    /// not to end for that.
    journal: Option<Journal>,
    hosts: HostLinks,
    kinds: LinkKinds,
    /// The hosts' names.
    names: Vec<String>,
    verbose_log: VerboseLog,
    /// The last that was passed on.
    view: Option<JobView>,
    /// Numbers of inputs that wait until the hosts have reported: the next one must be told them
    /// again. With those of signals that ask programs to end, the signals.
    waiting: Vec<(u64, Option<i32>)>,
}

impl CoreDriver {
    /// A driver of this core, which stores its records in this journal. The events of its links are
    /// of these kinds, and its hosts have these names.
    #[must_use]
    pub fn new(
        core: Central,
        journal: Option<Journal>,
        (hosts, kinds): (HostLinks, LinkKinds),
        names: Vec<String>,
        verbose_log: VerboseLog,
    ) -> CoreDriver {
        CoreDriver {
            core,
            journal,
            hosts,
            kinds,
            names,
            verbose_log,
            view: None,
            waiting: Vec::new(),
        }
    }

    /// How long until [`CoreDriver::tend`] is due.
    #[must_use]
    pub fn wait_limit(&self) -> Option<Duration> {
        let due = self.core.deadline();
        let due = due.map(|at| Duration::from_nanos(at.0.saturating_sub(now().0)));
        due.into_iter().chain(self.hosts.wait_limit()).min()
    }

    /// The job as it is now.
    #[must_use]
    pub fn view(&self) -> JobView {
        self.core.view()
    }

    /// How everything is, for a client.
    #[must_use]
    pub fn status(&self, client: u32) -> CentralToMpirun {
        CentralToMpirun::Status {
            client,
            view: self.core.view(),
            ranks: self.core.ranks().collect(),
            now: now(),
        }
    }

    /// Handles an event of a local manager's link or of a caller. Appends messages for mpirun to
    /// `out`, like all functions that pass inputs to the core.
    ///
    /// # Errors
    /// A malformed message, or an error of the system.
    pub fn event(
        &mut self,
        token: Token,
        reactor: &Reactor,
        out: &mut Vec<CentralToMpirun>,
    ) -> Result<()> {
        if token.kind == self.kinds.caller {
            return self.hosts.called(token.index, reactor);
        }
        self.read(token.index as HostIndex, reactor, out)
            .map(|_| ())
    }

    /// Reads once from a host. Whether there may be more.
    fn read(
        &mut self,
        host: HostIndex,
        reactor: &Reactor,
        out: &mut Vec<CentralToMpirun>,
    ) -> Result<bool> {
        let Some(news) = self.hosts.read(host, reactor)? else {
            return Ok(false);
        };
        for news in news {
            self.note(host, &news);
            self.feed(None, CentralInput::Local(host, news), reactor, out)?;
        }
        Ok(true)
    }

    fn note(&mut self, host: HostIndex, news: &ToCentral) {
        fault::heard(news);
        if let Some(name) = self.names.get(host) {
            self.verbose_log.heard(name, news);
        }
    }

    /// Passes an input of mpirun to the core. `out` names an input with a number when it was taken
    /// and its records are stored.
    ///
    /// # Errors
    /// An order is above the limit of messages, or the system refuses.
    pub fn step(
        &mut self,
        number: Option<u64>,
        input: CentralInput,
        reactor: &Reactor,
        out: &mut Vec<CentralToMpirun>,
    ) -> Result<()> {
        if let CentralInput::HostLost(host) | CentralInput::HostGone(host, _) = input {
            // Its earlier messages come first.
            while self.read(host, reactor, out)? {}
            self.hosts.close(host, reactor);
        }
        self.feed(number, input, reactor, out)
    }

    /// Does the due work.
    ///
    /// # Errors
    /// An order is above the limit of messages, or the system refuses.
    pub fn tend(&mut self, reactor: &Reactor, out: &mut Vec<CentralToMpirun>) -> Result<()> {
        self.hosts.tend(reactor)?;
        match self.core.deadline() {
            Some(at) if at <= now() => self.feed(None, CentralInput::Tick, reactor, out),
            _ => Ok(()),
        }
    }

    /// Writes as much as the links to the local managers take. Returns whether some host may not
    /// have everything.
    ///
    /// # Errors
    /// The system refuses to watch a socket.
    pub fn flush(&mut self, reactor: &Reactor) -> Result<bool> {
        self.hosts.flush(reactor)
    }

    fn feed(
        &mut self,
        number: Option<u64>,
        input: CentralInput,
        reactor: &Reactor,
        out: &mut Vec<CentralToMpirun>,
    ) -> Result<()> {
        tracing::debug!(?input, "central");
        let ends = match input {
            CentralInput::Signal(signal) if signals::ends(signal) => Some(signal),
            _ => None,
        };
        self.waiting.extend(number.map(|number| (number, ends)));
        let mut effects = Vec::new();
        self.core.step(now(), input, &mut effects);
        let mut others = Vec::new();
        for effect in effects {
            let point = fault::before_central(&effect, || self.core.view().course);
            match effect {
                CentralEffect::Persist(record) => self.store(record, out),
                CentralEffect::Send(host, order) => {
                    self.verbose_log.ordered(&order);
                    self.hosts.order(host, order)?;
                }
                CentralEffect::SendAll(hosts, order) => {
                    self.verbose_log.ordered(&order);
                    self.hosts.spread(&hosts, order)?;
                }
                CentralEffect::Drop(host) => {
                    self.hosts.close(host, reactor);
                    others.push(CentralEffect::Drop(host));
                }
                CentralEffect::Over(verdict) => {
                    self.verbose_log.over(&verdict);
                    others.push(CentralEffect::Over(verdict));
                }
                effect => others.push(effect),
            }
            fault::after_central(point);
        }
        let view = self.core.view();
        let took: Vec<u64> = match view.course {
            Course::Resuming => Vec::new(),
            _ => self.waiting.drain(..).map(|(number, _)| number).collect(),
        };
        let changed = self.view.as_ref() != Some(&view);
        if changed || !took.is_empty() || !others.is_empty() {
            self.view = Some(view.clone());
            out.push(CentralToMpirun::Step {
                took,
                view: changed.then_some(view),
                effects: others,
            });
        }
        Ok(())
    }

    fn store(&mut self, mut record: Record, out: &mut Vec<CentralToMpirun>) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        if let Record::Interrupted { signal, input } = &mut record {
            let mut waiting = self.waiting.iter();
            let it = waiting.find(|(_, other)| *other == Some(*signal));
            *input = it.map(|(number, _)| *number);
        }
        tracing::debug!(?record, "a point of no return");
        if let Err(error) = journal.append(&record) {
            // Reported before its effects.
            out.push(CentralToMpirun::JournalFailed(error.to_string()));
            self.journal = None;
        }
    }
}
