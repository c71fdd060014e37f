//! The central manager of a job that can go back: a process of its own around the core and its
//! journal. mpirun starts it, again and again if it must, and is its only link: it passes on what
//! the local managers say, and to them what is ordered here.

pub mod central_messages;
pub mod core_driver;
pub mod journal;

use crate::clock::now;
use crate::error::{Context, Result};
use crate::net::local_link::{Filled, LocalLink};
use crate::{fault, logs};
use central_messages::{Begin, CentralToMpirun, MpirunToCentral};
use core_driver::CoreDriver;
use journal::{Journal, JournalError, Keep};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rejoin_managers_protocol::central::{Central, Input, Record};
use rejoin_wire::codec::MANAGER_LIMIT;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Who wakes so much too late was suspended.
pub const OVERSLEPT: Duration = Duration::from_millis(1000);

/// How long a predecessor may take to let go of the journal.
const IN_USE_LIMIT: Duration = Duration::from_secs(5);

/// Runs a central manager whose link to mpirun is its standard input. Returns its exit code.
#[must_use]
pub fn run() -> i32 {
    logs::init("rejoin-central");
    // SAFETY: the name is a C string, the others are plain numbers. A process that is stopped sees
    // no end of its link, but goes with its parent all the same.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"rejoin-central".as_ptr(), 0, 0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
    }
    match Process::new().and_then(|mut process| process.run()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("rejoin: central manager: {error}");
            1
        }
    }
}

struct Process {
    link: LocalLink,
    driver: Option<CoreDriver>,
}

impl Process {
    fn new() -> Result<Process> {
        let stdin = std::io::stdin();
        let socket = stdin.as_fd().try_clone_to_owned();
        let socket = socket.context("take the link to mpirun")?;
        Ok(Process {
            link: LocalLink::new(socket, MANAGER_LIMIT, MANAGER_LIMIT),
            driver: None,
        })
    }

    fn run(&mut self) -> Result<()> {
        loop {
            let waits = self.link.flush();
            if !waits {
                fault::sent();
            }
            let late = self.wait(waits);
            // All that has come: one write then answers it.
            loop {
                match self.link.fill()? {
                    Filled::Nothing | Filled::Broken => break,
                    Filled::Closed => return Ok(()),
                    Filled::Some => {
                        while let Some(message) = self.link.next::<MpirunToCentral>()? {
                            if !self.hear(message)? {
                                return Ok(());
                            }
                        }
                    }
                }
            }
            // It was not the hosts that were silent.
            if late > OVERSLEPT {
                self.step(None, Input::Slept)?;
            }
            let due = self.driver.as_ref().and_then(CoreDriver::deadline);
            if due.is_some_and(|at| at <= now()) {
                self.step(None, Input::Tick)?;
            }
        }
    }

    /// Waits for something to do. Returns by how much longer that lasted than was meant: this
    /// process, or the whole machine, was suspended.
    fn wait(&self, writes: bool) -> Duration {
        let due = self.driver.as_ref().and_then(CoreDriver::deadline);
        let limit = due.map(|at| {
            let left = at.0.saturating_sub(now().0).div_ceil(1_000_000);
            Duration::from_millis(left.min(60_000))
        });
        let timeout = limit.map_or(PollTimeout::NONE, |limit| {
            PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO)
        });
        let mut flags = PollFlags::POLLIN;
        flags.set(PollFlags::POLLOUT, writes);
        let begun = Instant::now();
        // An interrupted wait is another turn.
        let _ = poll(&mut [PollFd::new(self.link.as_fd(), flags)], timeout);
        let late = limit.map(|limit| begun.elapsed().saturating_sub(limit));
        late.unwrap_or_default()
    }

    /// Does what mpirun says. Returns whether there is more to do.
    fn hear(&mut self, message: MpirunToCentral) -> Result<bool> {
        match message {
            MpirunToCentral::Begin(begin) => return self.begin(*begin),
            MpirunToCentral::Input(number, input) => self.step(number, input)?,
            MpirunToCentral::Ping => self.link.queue(&CentralToMpirun::Alive)?,
            MpirunToCentral::Status(client) => {
                if let Some(driver) = &self.driver {
                    self.link.queue(&driver.status(client))?;
                }
            }
        }
        Ok(true)
    }

    fn begin(&mut self, begin: Begin) -> Result<bool> {
        let (core, journal, again) = match taken_up(&begin) {
            Ok(all) => all,
            Err(error) => return self.unjournaled(&error),
        };
        self.driver = Some(CoreDriver::new(core, Some(journal)));
        self.step(None, Input::Begin)?;
        let mut inputs = begin.inputs;
        // It was stored, and only the word of that is missing.
        let stored = |(number, _): &(u64, Input)| again == Some(*number);
        if let Some(at) = inputs.iter().position(stored) {
            let (number, _) = inputs.remove(at);
            self.link.queue(&CentralToMpirun::Step {
                took: vec![number],
                view: None,
                effects: Vec::new(),
            })?;
        }
        for (number, input) in inputs {
            self.step(Some(number), input)?;
        }
        Ok(true)
    }

    /// Nothing may be done that is not stored: mpirun is told, and decides.
    fn unjournaled(&mut self, error: &JournalError) -> Result<bool> {
        self.link
            .queue(&CentralToMpirun::NoJournal(error.to_string()))?;
        let begun = Instant::now();
        while self.link.flush() && begun.elapsed() < IN_USE_LIMIT {
            self.wait(true);
        }
        Ok(false)
    }

    /// Feeds the core, and passes on what it says.
    fn step(&mut self, number: Option<u64>, input: Input) -> Result<()> {
        let Some(driver) = &mut self.driver else {
            return Ok(());
        };
        let mut out = Vec::new();
        driver.step(number, input, &mut out);
        Ok(out
            .iter()
            .try_for_each(|message| self.link.queue(message))?)
    }
}

/// The core of a job that begins, or of one that a predecessor began, its journal, and the number
/// of the input with which the predecessor stored that somebody wants the job to end.
fn taken_up(begin: &Begin) -> std::result::Result<(Central, Journal, Option<u64>), JournalError> {
    // The checkpoints themselves, processes of this machine, do not outlive it either.
    let keep = Keep::Process;
    if !begin.resume {
        // Of a predecessor that had not said a word, nothing counts.
        let _ = std::fs::remove_file(&begin.journal);
        let journal = Journal::create(&begin.journal, begin.id, keep)?;
        return Ok((Central::new(begin.job.clone()), journal, None));
    }
    let begun = Instant::now();
    loop {
        match Journal::resume(&begin.journal, keep) {
            Err(JournalError::InUse { .. }) if begun.elapsed() < IN_USE_LIMIT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok((_, id, _)) if id != begin.id => {
                return Err(JournalError::Torn {
                    path: begin.journal.clone(),
                    why: "it is another job's".into(),
                });
            }
            resumed => {
                let (journal, _, records) = resumed?;
                let interrupted = records.iter().rev().find_map(|record| match record {
                    Record::Interrupted { input, .. } => *input,
                    _ => None,
                });
                let core = Central::resume(begin.job.clone(), records);
                return Ok((core, journal, interrupted));
            }
        }
    }
}
