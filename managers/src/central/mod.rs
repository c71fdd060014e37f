//! The central manager: a process of its own around the core and its journal. mpirun starts it,
//! repeatedly if it must. mpirun also passes it the sockets that listen for local managers.
//! Messages between central and local managers do not pass through mpirun.

pub mod central_messages;
pub mod core_driver;
pub mod host_links;
pub mod journal;
mod requested_places;
mod tree_top;

use crate::{fault, logs};
use central_messages::{Begin, CentralToMpirun, MpirunToCentral};
use core_driver::{CoreDriver, ORDERS_LIMIT};
use host_links::{HostLinks, kind};
use journal::{Journal, JournalError};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use rejoin_managers_host::error::{Context, Result};
use rejoin_managers_net::local_link::{Filled, LocalLink};
use rejoin_managers_net::manager_listener::ListeningSockets;
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_protocol::central::{Central, CentralInput, Record};
use rejoin_managers_protocol::signal_numbers;
use rejoin_managers_report::verbose_log::VerboseLog;
use rejoin_wire::codec::MANAGER_LIMIT;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// A process whose wait returns so much too late was suspended.
const SUSPENDED_AFTER: Duration = Duration::from_millis(1000);

/// How long a predecessor may take to release the journal.
const IN_USE_LIMIT: Duration = Duration::from_secs(5);

/// The longest single wait.
const LONGEST: Duration = Duration::from_secs(60);

/// Runs a central manager whose link to mpirun is its standard input. Returns its exit code.
#[must_use]
pub fn run() -> i32 {
    logs::init("rejoin-central");
    // The name is for `ps`. A suspended process sees no end of its link, but ends with its parent.
    let _ = prctl::set_name(c"rejoin-central");
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    match Process::new().and_then(|mut process| process.run()) {
        Ok(()) => 0,
        Err(error) => {
            say_line!("rejoin: central manager: {error}");
            1
        }
    }
}

struct Process {
    link: LocalLink,
    reactor: Reactor,
    driver: Option<CoreDriver>,
}

impl Process {
    fn new() -> Result<Process> {
        let stdin = std::io::stdin();
        let socket = stdin.as_fd().try_clone_to_owned();
        let socket = socket.context("take the link to mpirun")?;
        let reactor = Reactor::new()?;
        let link = LocalLink::new(socket, MANAGER_LIMIT, MANAGER_LIMIT);
        reactor.add(&link, Token::single(kind::MPIRUN), Interest::READ)?;
        Ok(Process {
            link,
            reactor,
            driver: None,
        })
    }

    fn run(&mut self) -> Result<()> {
        let mut tokens = Vec::new();
        loop {
            self.flush()?;
            let limit = self.wait_limit();
            let begun = Instant::now();
            self.reactor.wait(limit, &mut tokens)?;
            // It was not the hosts that were silent.
            if limit.is_some_and(|limit| begun.elapsed() > limit + SUSPENDED_AFTER) {
                self.step(None, CentralInput::Suspended)?;
            }
            // Before messages of the hosts: a local manager may learn of the same event first.
            if !self.read_mpirun()? {
                return Ok(());
            }
            self.drive(|driver, reactor, out| {
                let of_hosts = tokens.iter().filter(|token| token.kind != kind::MPIRUN);
                for token in of_hosts {
                    driver.event(*token, reactor, out)?;
                }
                driver.run_timers(reactor, out)
            })?;
        }
    }

    /// Writes what the links take. Orders to hosts first: mpirun takes an acknowledged input as
    /// done.
    fn flush(&mut self) -> Result<()> {
        if let Some(driver) = &mut self.driver {
            driver.flush(&self.reactor)?;
        }
        let write = self.link.flush();
        let interest = Interest { read: true, write };
        let token = Token::single(kind::MPIRUN);
        self.reactor.change(&self.link, token, interest)?;
        if !write {
            fault::sent();
        }
        Ok(())
    }

    fn wait_limit(&self) -> Option<Duration> {
        let limit = self.driver.as_ref().and_then(CoreDriver::wait_limit);
        limit.map(|limit| limit.min(LONGEST))
    }

    /// Reads all messages of mpirun, so that one write answers them. Returns whether the job
    /// continues.
    fn read_mpirun(&mut self) -> Result<bool> {
        loop {
            match self.link.fill()? {
                Filled::Nothing | Filled::Broken => return Ok(true),
                Filled::Closed => return Ok(false),
                Filled::Some => {
                    while let Some(message) = self.link.next::<MpirunToCentral>()? {
                        if !self.on_message(message)? {
                            return Ok(false);
                        }
                    }
                }
            }
        }
    }

    /// Handles a message of mpirun. Returns whether there is more to do.
    fn on_message(&mut self, message: MpirunToCentral) -> Result<bool> {
        match message {
            MpirunToCentral::Begin(begin) => return self.begin(*begin),
            MpirunToCentral::Input(number, input) => {
                let suspends = input == CentralInput::Signal(signal_numbers::TSTP);
                self.step(number, input)?;
                if suspends {
                    // mpirun suspends this process as soon as it is answered.
                    self.drive(|driver, reactor, out| {
                        driver.await_orders(ORDERS_LIMIT, reactor, out)
                    })?;
                }
            }
            MpirunToCentral::Ping => self.link.queue(&CentralToMpirun::Alive)?,
            MpirunToCentral::Status(request) => {
                if let Some(driver) = &self.driver {
                    self.link.queue(&driver.status(request))?;
                }
            }
        }
        Ok(true)
    }

    fn begin(&mut self, begin: Begin) -> Result<bool> {
        // SAFETY: mpirun has left us these descriptors, and no other code here knows them.
        let sockets = unsafe { ListeningSockets::inherited(&begin.listening) };
        let (core, journal, again) = match taken_up(&begin) {
            Ok(Some(all)) => all,
            Ok(None) => {
                let core = Central::new(begin.job.clone());
                (core, self.new_journal(&begin)?, Vec::new())
            }
            // No effect may happen without its record: mpirun has the job ended.
            Err(error) => {
                let unread = CentralToMpirun::NoJournal(error.to_string());
                self.link.queue(&unread)?;
                self.link.flush();
                return Ok(false);
            }
        };
        let hosts = HostLinks::new(&begin.job, &begin.links, sockets, &self.reactor)?;
        let verbose_log = VerboseLog::new(begin.verbose);
        let names = begin.job.hosts;
        let driver = CoreDriver::new(core, journal, hosts, names, verbose_log);
        self.driver = Some(driver);
        self.step(None, CentralInput::Begin)?;
        let mut inputs = begin.inputs;
        // They were stored, and only the report of that is missing.
        let (took, rest) = inputs
            .into_iter()
            .partition(|(number, _)| again.contains(number));
        let took: Vec<(u64, CentralInput)> = took;
        if !took.is_empty() {
            self.link.queue(&CentralToMpirun::Step {
                took: took.iter().map(|(number, _)| *number).collect(),
                view: None,
                effects: Vec::new(),
            })?;
        }
        inputs = rest;
        for (number, input) in inputs {
            self.step(Some(number), input)?;
        }
        Ok(true)
    }

    /// Makes the journal of a new job. A job without one continues.
    fn new_journal(&mut self, begin: &Begin) -> Result<Option<Journal>> {
        let error = match &begin.journal {
            None => "no folder for the journal was found".to_string(),
            Some(path) => {
                // A journal without a job was never acted upon.
                let _ = std::fs::remove_file(path);
                match Journal::create(path, begin.links.id) {
                    Ok(journal) => return Ok(Some(journal)),
                    Err(error) => error.to_string(),
                }
            }
        };
        // Before any host hears of the job: no other process may begin it, too.
        self.link.queue(&CentralToMpirun::JournalFailed(error))?;
        self.link.flush();
        Ok(None)
    }

    fn step(&mut self, number: Option<u64>, input: CentralInput) -> Result<()> {
        self.drive(|driver, reactor, out| driver.step(number, input, reactor, out))
    }

    /// Drives the core, if there is one, and reports its effects to mpirun.
    fn drive(
        &mut self,
        act: impl FnOnce(&mut CoreDriver, &Reactor, &mut Vec<CentralToMpirun>) -> Result<()>,
    ) -> Result<()> {
        let mut out = Vec::new();
        if let Some(driver) = &mut self.driver {
            act(driver, &self.reactor, &mut out)?;
        }
        Ok(out
            .iter()
            .try_for_each(|message| self.link.queue(message))?)
    }
}

/// The core of a job that a predecessor has begun, its journal, and the numbers of the inputs with
/// which the predecessor stored requests to end the job.
type TakenUp = (Central, Option<Journal>, Vec<u64>);

/// Takes up the job of a predecessor. `None`: there was none, or it has stored nothing.
fn taken_up(begin: &Begin) -> std::result::Result<Option<TakenUp>, JournalError> {
    if let Some(verdict) = begin.verdict.clone() {
        let core = Central::resume(begin.job.clone(), vec![Record::Decided(verdict)]);
        return Ok(Some((core, None, Vec::new())));
    }
    let resumes = begin.links.restarts > 0;
    let Some(path) = begin.journal.as_ref().filter(|_| resumes) else {
        return Ok(None);
    };
    let begun = Instant::now();
    loop {
        match Journal::resume(path) {
            Err(JournalError::InUse { .. }) if begun.elapsed() < IN_USE_LIMIT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(JournalError::Empty { .. }) if !begin.began => return Ok(None),
            Ok((_, id, _)) if id != begin.links.id => {
                return Err(JournalError::Torn {
                    path: path.clone(),
                    why: "it is another job's".into(),
                });
            }
            resumed => {
                let (journal, _, records) = resumed?;
                let stored = records.iter().filter_map(|record| match record {
                    Record::Interrupted { input, .. } | Record::Stopping { input, .. } => *input,
                    _ => None,
                });
                let stored = stored.collect();
                let core = Central::resume(begin.job.clone(), records);
                return Ok(Some((core, Some(journal), stored)));
            }
        }
    }
}
