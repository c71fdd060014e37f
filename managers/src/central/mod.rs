//! The central manager of a job that can go back: a process of its own around the core and its journal.
//! mpirun starts it, again and again if it must, and is its only link: it passes on what the local
//! managers say, and to them what is ordered here.

pub mod central_messages;
pub mod journal;

use crate::clock::now;
use crate::error::{Context, Result};
use crate::net::local_link::{Filled, LocalLink};
use crate::{fault, logs};
use central_messages::{Begin, Say, Told};
use journal::{Journal, JournalError, Keep};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rejoin_managers_protocol::central::{Central, Course, Effect, Input, Record, View};
use rejoin_managers_protocol::signals;
use rejoin_wire::codec::MANAGER_LIMIT;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Who wakes so much too late has stood still.
pub const OVERSLEPT: Duration = Duration::from_millis(1000);

/// How long a predecessor may take to let go of the journal.
const IN_USE_LIMIT: Duration = Duration::from_secs(5);

/// Runs a central manager whose link to mpirun is its standard input. Returns its exit code.
#[must_use]
pub fn run() -> i32 {
    logs::init("rejoin-central");
    // SAFETY: the name is a C string, the others are plain numbers. A process that is stopped sees no end of
    // its link, but goes with its parent all the same.
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
    work: Option<Work>,
}

/// A job that has been begun or taken up.
struct Work {
    core: Central,
    /// None any more when it can't be written: the job is not to end for that.
    journal: Option<Journal>,
    view: Option<View>,
    /// Numbers of inputs that wait until the hosts have reported: the next one must be told them again. With those
    /// of signals that ask programs to end, the signals.
    waiting: Vec<(u64, Option<i32>)>,
}

impl Process {
    fn new() -> Result<Process> {
        let stdin = std::io::stdin();
        let socket = stdin.as_fd().try_clone_to_owned();
        let socket = socket.context("take the link to mpirun")?;
        Ok(Process {
            link: LocalLink::new(socket, MANAGER_LIMIT, MANAGER_LIMIT),
            work: None,
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
                        while let Some(said) = self.link.next::<Say>()? {
                            if !self.hear(said)? {
                                return Ok(());
                            }
                        }
                    }
                }
            }
            // It was not the hosts that were silent.
            if late > OVERSLEPT && !self.step(None, Input::Slept)? {
                return Ok(());
            }
            let due = self.work.as_ref().and_then(|work| work.core.deadline());
            if due.is_some_and(|at| at <= now()) && !self.step(None, Input::Tick)? {
                return Ok(());
            }
        }
    }

    /// Waits for something to do. Returns by how much longer that lasted than was meant: this process, or the whole
    /// machine, stood still.
    fn wait(&self, writes: bool) -> Duration {
        let due = self.work.as_ref().and_then(|work| work.core.deadline());
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
    fn hear(&mut self, said: Say) -> Result<bool> {
        match said {
            Say::Begin(begin) => self.begin(*begin),
            Say::Input(number, input) => self.step(number, input),
            Say::Ping => {
                self.link.queue(&Told::Here)?;
                Ok(true)
            }
            Say::Look(client) => {
                if let Some(work) = &self.work {
                    self.link.queue(&Told::Look {
                        client,
                        view: work.core.view(),
                        ranks: work.core.ranks().collect(),
                        now: now(),
                    })?;
                }
                Ok(true)
            }
        }
    }

    fn begin(&mut self, begin: Begin) -> Result<bool> {
        let (core, journal, again) = match taken_up(&begin) {
            Ok(all) => all,
            Err(error) => return self.unjournaled(&error),
        };
        self.work = Some(Work {
            core,
            journal: Some(journal),
            view: None,
            waiting: Vec::new(),
        });
        if !self.step(None, Input::Begin)? {
            return Ok(false);
        }
        let mut inputs = begin.inputs;
        // It was stored, and only the word of that is missing.
        let stored = |(number, _): &(u64, Input)| again == Some(*number);
        if let Some(at) = inputs.iter().position(stored) {
            let (number, _) = inputs.remove(at);
            self.link.queue(&Told::Step {
                took: vec![number],
                view: None,
                effects: Vec::new(),
            })?;
        }
        for (number, input) in inputs {
            if !self.step(Some(number), input)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Nothing may be done that is not stored: mpirun is told, and decides.
    fn unjournaled(&mut self, error: &JournalError) -> Result<bool> {
        self.link.queue(&Told::Unjournaled(error.to_string()))?;
        let begun = Instant::now();
        while self.link.flush() && begun.elapsed() < IN_USE_LIMIT {
            self.wait(true);
        }
        Ok(false)
    }

    /// Feeds the core, and passes on what it says.
    fn step(&mut self, number: Option<u64>, input: Input) -> Result<bool> {
        let Some(work) = &mut self.work else {
            return Ok(true);
        };
        tracing::debug!(?input, "central");
        if let Input::Local(_, news) = &input {
            fault::heard(news);
        }
        let mut effects = Vec::new();
        let ends = match input {
            Input::Signal(signal) if signals::ends(signal) => Some(signal),
            _ => None,
        };
        work.waiting.extend(number.map(|number| (number, ends)));
        work.core.step(now(), input, &mut effects);
        let mut others = Vec::new();
        for effect in effects {
            let point = fault::before_central(&effect, || work.core.view().course);
            match effect {
                Effect::Persist(mut record) => {
                    if let Record::Interrupted { signal, input } = &mut record {
                        let mut waiting = work.waiting.iter();
                        let it = waiting.find(|(_, other)| *other == Some(*signal));
                        *input = it.map(|(number, _)| *number);
                    }
                    tracing::debug!(?record, "a point of no return");
                    let stored = work.journal.as_mut().map(|journal| journal.append(&record));
                    if let Some(Err(error)) = stored {
                        // Said before what comes of it.
                        self.link.queue(&Told::Unkept(error.to_string()))?;
                        work.journal = None;
                    }
                }
                Effect::Send(host, order) => self.link.queue(&Told::Send(host, order))?,
                Effect::SendAll(hosts, order) => {
                    self.link.queue(&Told::SendAll(hosts, order))?;
                }
                effect => others.push(effect),
            }
            fault::after_central(point);
        }
        let view = work.core.view();
        let taken: Vec<u64> = match view.course {
            Course::Resuming => Vec::new(),
            _ => work.waiting.drain(..).map(|(number, _)| number).collect(),
        };
        let changed = work.view.as_ref() != Some(&view);
        if changed || !taken.is_empty() || !others.is_empty() {
            work.view = Some(view.clone());
            self.link.queue(&Told::Step {
                took: taken,
                view: changed.then_some(view),
                effects: others,
            })?;
        }
        Ok(true)
    }
}

/// The core of a job that begins, or of one that a predecessor began, its journal, and the number of the input with
/// which the predecessor stored that somebody wants the job to end.
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
