//! A rank that runs alone: its recording answers in place of a device.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use rejoin_channel_table::ids::{Generation, Identity, Incarnation, JobId, Rank};
use rejoin_engine::{Completion, Envelope, MsgId, Pattern, Probe, ReqId};
use rejoin_wire::recording::{
    MessageName, RECORDING_VARIABLE, RankStart, RecordingEntry, RecordingError, ReplayOutcome,
};

use super::action::{is_same_message, operation_of, shown, without_operation};
use super::outcome_file::OutcomeFile;
use super::recorded_log::log_of;
use super::trace::{ReceiveId, Trace};
use super::{digest, name_of, raised};
use crate::error::{Error, Result};
use crate::job_locality::{JobLocality, LocalCost};
use crate::log::Determinants;
use crate::manager;

/// Waits in a row in which nothing happens: the recorded rank waited there at its end.
const MOST_WAITS: u32 = 100_000;

struct OpenReceive {
    receive: ReceiveId,
    addr: usize,
    capacity: usize,
}

/// A rank that does again what its recording says. Where it does something else, or the recording
/// ends, it says so and ends the process.
pub struct Replayer {
    start: RankStart,
    trace: Trace,
    log: Determinants,
    /// Answers that the recorded rank was given.
    recorded_answers: u64,
    outcome: OutcomeFile,
    /// The task that acts now.
    task: Option<u64>,
    operation: Option<fn() -> &'static str>,
    open: HashMap<ReqId, OpenReceive>,
    /// Sends that were not polled, and whether they are cancelled.
    sends: HashMap<ReqId, bool>,
    taken: HashMap<MsgId, ReceiveId>,
    /// Number of the last request or message.
    last: u64,
    waits: u32,
    /// Answers, sends and records that were repeated at the last wait.
    repeated: [u64; 3],
    /// Messages that were sent, and that were received.
    sent: u64,
    received: u64,
}

impl Replayer {
    /// The replay for which this process was started; `None`: it is a rank of a job.
    ///
    /// # Errors
    /// The recording can't be used.
    pub fn from_environment() -> Result<Option<Self>> {
        let Some(path) = std::env::var_os(RECORDING_VARIABLE) else {
            return Ok(None);
        };
        let path = PathBuf::from(path);
        let replayer = Self::open(&path).map_err(|problem| Error::Environment {
            variable: RECORDING_VARIABLE,
            value: path.display().to_string(),
            problem,
        })?;
        Ok(Some(replayer))
    }

    fn open(path: &Path) -> std::result::Result<Self, String> {
        let open = || {
            let opened = File::open(path).and_then(raised);
            opened.map_err(|error| error.to_string())
        };
        let outcome = OutcomeFile::from_environment()?;
        let (trace, start) = Trace::open(open()?).map_err(|error| error.to_string())?;
        if start.rank >= start.size || start.hosts.len() != start.size as usize {
            return Err("its first entry is damaged".into());
        }
        let (log, recorded_answers) = log_of(open()?)?;
        Ok(Self {
            start,
            trace,
            log,
            recorded_answers,
            outcome,
            task: None,
            operation: None,
            open: HashMap::new(),
            sends: HashMap::new(),
            taken: HashMap::new(),
            last: 0,
            waits: 0,
            repeated: [0; 3],
            sent: 0,
            received: 0,
        })
    }

    /// Rank in the job of the recording.
    #[must_use]
    pub fn rank(&self) -> Rank {
        Rank(self.start.rank)
    }

    /// Ranks of that job.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.start.size
    }

    /// How the rank began.
    #[must_use]
    pub fn start(&self) -> &RankStart {
        &self.start
    }

    /// The rank in its first generation and incarnation, of no job.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity {
            job: JobId(0),
            rank: self.rank(),
            generation: Generation(0),
            incarnation: Incarnation(0),
        }
    }

    /// Which ranks shared a host.
    #[must_use]
    pub fn locality(&self) -> JobLocality {
        let cost = if self.start.copies_locally {
            LocalCost::Copy
        } else {
            LocalCost::SystemCall
        };
        JobLocality::new(self.start.hosts.iter().copied(), cost)
    }

    /// The log, which has all answers of the recording.
    pub fn log(&mut self) -> &mut Determinants {
        &mut self.log
    }

    /// Sends and receives from here on are those of this task.
    pub fn set_task(&mut self, task: Option<u64>) {
        self.task = task;
    }

    /// How to ask which function the program has called.
    pub fn set_operation(&mut self, operation: fn() -> &'static str) {
        self.operation = Some(operation);
    }

    fn call(&self) -> &'static str {
        self.operation.map_or("a call", |name| name())
    }

    /// The program sends a message, which must be the recorded one. It is complete at once.
    ///
    /// # Safety
    /// `buf` is readable for `len` bytes.
    pub unsafe fn send(
        &mut self,
        to: Rank,
        envelope: &Envelope,
        (buf, len): (*const u8, usize),
    ) -> ReqId {
        let body = match len {
            // It may have any address.
            0 => &[][..],
            // SAFETY: the caller's promise.
            _ => unsafe { std::slice::from_raw_parts(buf, len) },
        };
        self.compare(&RecordingEntry::Send {
            operation: 0,
            task: self.task,
            to: to.0,
            name: name_of(envelope),
            len: len as u64,
            digest: digest(body),
        });
        self.sent += 1;
        let request = ReqId(self.next());
        self.sends.insert(request, false);
        request
    }

    /// The program posts a receive, which must be the recorded one. `is_withheld`: it was
    /// cancelled, and the pattern has a context that no message has.
    ///
    /// # Safety
    /// `buf` is writable for `len` bytes until [`Replayer::poll`] returns the completion.
    pub unsafe fn receive(
        &mut self,
        pattern: &Pattern,
        buffer: (*mut u8, usize),
        is_withheld: bool,
    ) -> ReqId {
        let context = if is_withheld {
            self.trace.next_context(self.task)
        } else {
            Ok(pattern.context)
        };
        let context = self.readable(context);
        let receive = self.compare(&RecordingEntry::Receive {
            operation: 0,
            task: self.task,
            context,
            source: pattern.source,
            tag: pattern.tag,
            capacity: buffer.1 as u64,
        });
        match receive {
            Some(receive) => self.open_receive(receive, buffer),
            None => self.damaged("a receive has no number"),
        }
    }

    fn open_receive(&mut self, receive: ReceiveId, (buf, len): (*mut u8, usize)) -> ReqId {
        let request = ReqId(self.next());
        let (addr, capacity) = (buf.addr(), len);
        let open = OpenReceive {
            receive,
            addr,
            capacity,
        };
        self.open.insert(request, open);
        request
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The completion of a request; `None`: it has none in the recording.
    pub fn poll(&mut self, request: ReqId) -> Option<Completion> {
        if let Some(cancelled) = self.sends.remove(&request) {
            return Some(Completion {
                cancelled,
                ..Completion::default()
            });
        }
        let open = self.open.get(&request)?;
        let (addr, capacity) = (open.addr, open.capacity);
        let answer = self.trace.answer(open.receive);
        let answer = self.readable(answer)?;
        let len = answer.done.len as usize;
        if len > capacity {
            self.damaged("a message is longer than its buffer");
        }
        if len > 0 {
            // SAFETY: the caller of `receive` keeps the buffer until this completion.
            let into = unsafe { std::slice::from_raw_parts_mut(addr as *mut u8, len) };
            let read = self.trace.read_body(answer.body, into);
            self.readable(read);
        }
        self.open.remove(&request);
        self.waits = 0;
        self.received += u64::from(!answer.done.cancelled);
        Some(answer.done)
    }

    /// The program cancels a request. For a send the log of determinants says that this worked, for
    /// a receive the recording.
    pub fn cancel(&mut self, request: ReqId) {
        if let Some(cancelled) = self.sends.get_mut(&request) {
            *cancelled = true;
        }
    }

    /// The message that a pattern without a wildcard finds, as it did then. The log of determinants
    /// decides when the program is told.
    pub fn probe(&mut self, pattern: &Pattern) -> Option<Probe> {
        let (source, tag) = (pattern.source?, pattern.tag?);
        let found = self.trace.message(MessageName {
            context: pattern.context,
            source,
            tag,
        });
        let len = self.readable(found)?;
        Some(Probe { source, tag, len })
    }

    /// Finds a message like [`Replayer::probe`], and takes it; it must be the recorded one.
    pub fn take(&mut self, pattern: &Pattern) -> Option<(MsgId, Probe)> {
        let found = self.probe(pattern)?;
        let receive = self.compare(&RecordingEntry::Taken {
            operation: 0,
            task: self.task,
            name: MessageName {
                context: pattern.context,
                source: found.source,
                tag: found.tag,
            },
            len: found.len,
        });
        let message = MsgId(self.next());
        self.taken.extend(receive.map(|receive| (message, receive)));
        Some((message, found))
    }

    /// Receives a message that a matched probe took. `None`: there is no such message.
    ///
    /// # Safety
    /// The conditions are those of [`Replayer::receive`].
    pub unsafe fn receive_taken(
        &mut self,
        message: MsgId,
        buffer: (*mut u8, usize),
    ) -> Option<ReqId> {
        self.compare(&RecordingEntry::ReceiveTaken {
            operation: 0,
            task: self.task,
            capacity: buffer.1 as u64,
        });
        let receive = self.taken.remove(&message)?;
        Some(self.open_receive(receive, buffer))
    }

    /// The program waits, and there is nothing to wait for, unless it continues with
    /// recorded answers.
    pub fn wait(&mut self) {
        let log = &self.log;
        let repeated = [log.answers(), log.sends(), log.position()];
        let continues = repeated != self.repeated && log.is_replaying();
        self.repeated = repeated;
        self.waits = if continues { 0 } else { self.waits + 1 };
        if self.waits == MOST_WAITS {
            self.waits_in_vain();
        }
    }

    #[cold]
    fn waits_in_vain(&mut self) -> ! {
        let text = format!("{} waits for a message that had not come", self.call());
        let left = self.trace.left_over();
        let left = self.readable(left);
        if !self.trace.is_finalized() {
            self.ended(&text);
        }
        let then = left.map_or("MPI_Finalize".to_owned(), |entry| {
            shown(&entry, self.trace.operation(operation_of(&entry)))
        });
        self.differs(&format!("{text}, and the recording has: {then}"))
    }

    /// The program has called `MPI_Finalize`, as the recorded rank must have done.
    pub fn finalize(&mut self) {
        let left = self.trace.left_over();
        if let Some(entry) = self.readable(left) {
            let did = shown(&entry, self.trace.operation(operation_of(&entry)));
            self.differs(&format!("MPI_Finalize, and the recording has: {did}"));
        }
        if !self.trace.is_finalized() {
            self.ended("MPI_Finalize, which has no record");
        }
        let (now, then) = (self.log.answers(), self.recorded_answers);
        if now != then || self.log.is_replaying() {
            self.differs(&format!(
                "MPI_Finalize after {now} nondeterministic answers, and the recording has {then}"
            ));
        }
        self.outcome.say(&ReplayOutcome::Same {
            sent: self.sent,
            received: self.received,
        });
    }

    /// Compares what the program does with what its recording says. Returns the receive that it is.
    fn compare(&mut self, now: &RecordingEntry) -> Option<ReceiveId> {
        self.waits = 0;
        let sends = matches!(now, RecordingEntry::Send { .. });
        let recorded = self.trace.next_action(self.task, sends);
        let operation = self.call();
        let Some((recorded, receive)) = self.readable(recorded) else {
            let now = shown(now, operation);
            if self.trace.is_finalized() {
                self.differs(&format!("{now}, and the recording has MPI_Finalize"))
            } else {
                self.ended(&format!("{now}, which has no record"))
            }
        };
        let then = self.trace.operation(operation_of(&recorded));
        // A task acts in whatever call makes progress.
        let is_same_call = self.task.is_some() || then == operation;
        if is_same_call && without_operation(&recorded) == *now {
            return receive;
        }
        let (now_is, then_was) = (shown(now, operation), shown(&recorded, then));
        let text = match (now_is == then_was, is_same_message(now, &recorded)) {
            (false, _) => format!("{now_is}, and the recording has: {then_was}"),
            (true, true) => format!("{now_is}, and its bytes are not those of the recording"),
            (true, false) => format!("{now_is}, in another communicator than in the recording"),
        };
        self.differs(&text)
    }

    /// The program does something else than the recorded rank: ends the process. A debugger stops
    /// here.
    #[cold]
    pub fn differs(&mut self, problem: &str) -> ! {
        let (sent, received) = (self.sent, self.received);
        let text = format!("after {sent} messages sent and {received} received: {problem}");
        self.tell(ReplayOutcome::Differs(text));
        if is_traced() {
            // The debugger shows the call that differs. A failure leaves only this stop out.
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGTRAP);
        }
        manager::end(1)
    }

    #[cold]
    fn ended(&mut self, why: &str) -> ! {
        let reason = if self.trace.is_stopped() {
            "the recording ends, because it could not be continued"
        } else {
            "the recording ends: the rank had ended there"
        };
        self.tell(ReplayOutcome::Ended(format!("{reason} ({why})")));
        manager::end(1)
    }

    #[cold]
    fn damaged(&mut self, why: &str) -> ! {
        let text = format!("the recording is of no use: {why}");
        self.tell(ReplayOutcome::Ended(text));
        manager::end(1)
    }

    fn readable<T>(&mut self, read: std::result::Result<T, RecordingError>) -> T {
        read.unwrap_or_else(|error| self.damaged(&error.to_string()))
    }

    /// Tells the starter, or the user.
    fn tell(&mut self, outcome: ReplayOutcome) {
        if !self.outcome.say(&outcome)
            && let ReplayOutcome::Differs(text) | ReplayOutcome::Ended(text) = outcome
        {
            eprintln!("rejoin: replay of rank {}: {text}", self.rank());
        }
    }

    /// The program calls `MPI_Abort`: ends the process with the code that mpirun would see.
    pub fn abort(&mut self, code: i32) -> ! {
        eprintln!(
            "rejoin: replay of rank {}: called MPI_Abort with code {code}",
            self.rank()
        );
        manager::end_aborted(code)
    }
}

/// Whether a debugger watches this process.
fn is_traced() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|pid| pid.trim() != "0")
}
