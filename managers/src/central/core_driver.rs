//! Drives the core of the central manager, in a process of its own or in mpirun's: feeds it, stores
//! what must outlive it, and says what comes of it in the same messages to both.

use super::central_messages::CentralToMpirun;
use super::journal::Journal;
use crate::clock::now;
use crate::fault;
use rejoin_managers_protocol::central::{Central, Course, Effect, Input, Record, View};
use rejoin_managers_protocol::control::Time;
use rejoin_managers_protocol::signals;

/// The core of a job that has begun or was taken up.
pub struct CoreDriver {
    core: Central,
    /// None where the job ends with this process, and when it can't be written any more: the job is
    /// not to end for that.
    journal: Option<Journal>,
    /// The last that was passed on.
    view: Option<View>,
    /// Numbers of inputs that wait until the hosts have reported: the next one must be told them
    /// again. With those of signals that ask programs to end, the signals.
    waiting: Vec<(u64, Option<i32>)>,
}

impl CoreDriver {
    /// A driver of this core, which stores what it must in this journal.
    #[must_use]
    pub fn new(core: Central, journal: Option<Journal>) -> CoreDriver {
        CoreDriver {
            core,
            journal,
            view: None,
            waiting: Vec::new(),
        }
    }

    /// When the core must see [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.core.deadline()
    }

    /// The job as it is now.
    #[must_use]
    pub fn view(&self) -> View {
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

    /// Feeds the core, and appends what it says to `out`. An input with a number is named there
    /// when it was taken and what came of it is stored.
    pub fn step(&mut self, number: Option<u64>, input: Input, out: &mut Vec<CentralToMpirun>) {
        tracing::debug!(?input, "central");
        if let Input::Local(_, news) = &input {
            fault::heard(news);
        }
        let ends = match input {
            Input::Signal(signal) if signals::ends(signal) => Some(signal),
            _ => None,
        };
        self.waiting.extend(number.map(|number| (number, ends)));
        let mut effects = Vec::new();
        self.core.step(now(), input, &mut effects);
        let mut others = Vec::new();
        for effect in effects {
            let point = fault::before_central(&effect, || self.core.view().course);
            match effect {
                Effect::Persist(record) => self.store(record, out),
                Effect::Send(host, order) => out.push(CentralToMpirun::Send(host, order)),
                Effect::SendAll(hosts, order) => out.push(CentralToMpirun::SendAll(hosts, order)),
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
            // Said before what comes of it.
            out.push(CentralToMpirun::JournalFailed(error.to_string()));
            self.journal = None;
        }
    }
}
