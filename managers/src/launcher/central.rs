//! The driver of the central manager's core: its clock, its inputs, and what its effects do to the
//! local managers. Streams are none of its business.

use super::board::Board;
use super::hosts::Hosts;
use super::narrator::Narrator;
use crate::ask::Status;
use crate::error::Result;
use crate::fault;
use crate::journal::Journal;
use crate::plan::Down;
use crate::reactor::Reactor;
use rejoin_channel_table::Rank;
use rejoin_managers_protocol::central::{Central, Effect, Event, Input, Job, Record, View};
use rejoin_managers_protocol::control::Time;
use rejoin_managers_protocol::verdict::Verdict;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Names and values.
type Counters = Vec<(String, u64)>;

/// The core and what drives it.
pub(super) struct Driver {
    core: Central,
    narrator: Narrator,
    board: Board,
    /// Names of the hosts.
    hosts: Vec<String>,
    begun: Instant,
    queue: VecDeque<Input>,
    /// What ranks reported.
    counters: BTreeMap<Rank, Counters>,
    /// The verdict of a job that is over, and since when it is.
    over: Option<(Verdict, Instant)>,
    /// What is to be told.
    events: Vec<Event>,
    /// The verdict, until it is told.
    decided: Option<Verdict>,
    /// What would outlive us; of jobs that can go back.
    journal: Option<Journal>,
}

impl Driver {
    /// A driver whose first step begins the job, and which says what happens if that is wanted.
    pub fn new(job: Job, board: Board, journal: Option<Journal>, verbose: bool) -> Driver {
        let narrator = Narrator::new(verbose);
        narrator.job(job.placement.len(), &job.hosts);
        Driver {
            narrator,
            board,
            hosts: job.hosts.clone(),
            core: Central::new(job),
            begun: Instant::now(),
            queue: VecDeque::from([Input::Begin]),
            counters: BTreeMap::new(),
            over: None,
            events: Vec::new(),
            decided: None,
            journal,
        }
    }

    /// Queues an input for [`Driver::steps`].
    pub fn tell(&mut self, input: Input) {
        self.queue.push_back(input);
    }

    /// Queues a tick if it is time.
    pub fn tick_if_due(&mut self) {
        if self.core.deadline().is_some_and(|at| at <= self.now()) {
            self.tell(Input::Tick);
        }
    }

    /// How long until the core must see a tick.
    pub fn wait_limit(&self) -> Option<Duration> {
        if !self.queue.is_empty() {
            return Some(Duration::ZERO);
        }
        let at = self.core.deadline()?;
        Some(Duration::from_nanos(at.0.saturating_sub(self.now().0)))
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Feeds the core all there is, and does what it says.
    pub fn steps(&mut self, hosts: &mut Hosts, reactor: &Reactor) -> Result<()> {
        while let Some(input) = self.queue.pop_front() {
            tracing::debug!(?input, "central");
            if let Input::Local(host, news) = &input
                && let Some(name) = self.hosts.get(*host)
            {
                fault::heard(news);
                self.narrator.heard(name, news);
                self.board.heard(news);
            }
            let mut effects = Vec::new();
            self.core.step(self.now(), input, &mut effects);
            for effect in effects {
                let point = fault::before_central(&effect, || self.core.view().course);
                match effect {
                    Effect::Persist(record) => self.store(&record),
                    Effect::Send(host, order) => {
                        self.narrator.ordered(&order);
                        hosts.queue(host, &Down::Control(order))?;
                    }
                    Effect::Drop(host) => {
                        tracing::warn!(host, "the local manager does not end: it is killed");
                        hosts.kill(host, reactor);
                    }
                    Effect::Counters(rank, counters) => {
                        self.counters.insert(rank, counters);
                    }
                    Effect::Event(event) => {
                        self.board.event(&event);
                        self.events.push(event);
                    }
                    // Nobody was started again here.
                    Effect::Resumed { .. } => {}
                    Effect::Decided(verdict) => {
                        tracing::info!(%verdict, "decided");
                        self.decided = Some(verdict);
                    }
                    Effect::Over(verdict) => {
                        self.narrator.over(&verdict);
                        self.over = Some((verdict, Instant::now()));
                    }
                }
                fault::after_central(point);
            }
        }
        Ok(())
    }

    /// Stores what may not be forgotten. A job whose journal fails goes on without: nobody takes it up
    /// when we die, which is so anyway as yet.
    fn store(&mut self, record: &Record) {
        tracing::debug!(?record, "a point of no return");
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.append(record)
        {
            tracing::warn!(%error, "the job goes on without a journal");
            self.forget();
        }
    }

    /// The job needs no journal any more.
    pub fn forget(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.remove();
        }
    }

    /// What happened since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The verdict, once.
    pub fn decided(&mut self) -> Option<Verdict> {
        self.decided.take()
    }

    /// The job as it is now, for the launcher.
    pub fn view(&self) -> View {
        self.core.view()
    }

    /// The job as it is now, for people.
    pub fn status(&self) -> Status {
        self.board.status(&self.core, &self.hosts, self.now())
    }

    /// The verdict and since when the job is over.
    pub fn over(&self) -> Option<(&Verdict, Instant)> {
        self.over.as_ref().map(|(verdict, since)| (verdict, *since))
    }

    /// Something went wrong after the job's end, when only its output kept us: that is the verdict now.
    pub fn overrule(&mut self, verdict: Verdict) {
        self.over = Some((verdict, self.begun));
    }

    /// One line per rank of a job of `size` ranks: what it counted.
    pub fn report(&self, size: u32) -> String {
        let mut text = String::new();
        for rank in (0..size).map(Rank) {
            text += &format!("mpirun: stats: rank {}:", rank.0);
            match self.counters.get(&rank) {
                Some(counters) => {
                    for (name, value) in counters {
                        text += &format!(" {name}={value}");
                    }
                }
                None => text += " nothing reported, it did not come to the end of MPI_Finalize",
            }
            text.push('\n');
        }
        text
    }
}
