//! A rank that runs alone: its recording answers in place of a device.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use rejoin_channel_table::ids::{Generation, Identity, Incarnation, JobId, Rank};
use rejoin_engine::{Completion, Envelope, MsgId, Pattern, Probe, ReqId};
use rejoin_wire::recording::{MessageName, RankStart, RecordingEntry};

use super::action::{is_same_name, operation_of, shown, without_operation};
use super::replay_outcome::ReplayOutcome;
use super::trace::{ReceiveId, Trace, log_of};
use super::{digest, name_of};
use crate::error::{Error, Result};
use crate::job_locality::{JobLocality, LocalCost};
use crate::rank_log::Determinants;

/// Names the recording of a process that is to be replayed.
const VARIABLE: &str = "REJOIN_REPLAY";
/// Waits in a row in which nothing happens: the recorded rank waited there at its end.
const MOST_WAITS: u32 = 100_000;

struct OpenReceive {
    receive: ReceiveId,
    addr: usize,
    capacity: usize,
}

/// A rank that does again what its recording says, or stops where it does something else.
pub struct Replayer {
    start: RankStart,
    trace: Trace,
    log: Determinants,
    outcome: ReplayOutcome,
    /// The task that acts now.
    task: Option<u64>,
    operation: Option<fn() -> &'static str>,
    open: HashMap<ReqId, OpenReceive>,
    taken: HashMap<MsgId, ReceiveId>,
    /// Number of the last request or message.
    last: u64,
    waits: u32,
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
        let Some(path) = std::env::var_os(VARIABLE) else {
            return Ok(None);
        };
        let path = PathBuf::from(path);
        let replayer = Self::open(&path).map_err(|problem| Error::Environment {
            variable: VARIABLE,
            value: path.display().to_string(),
            problem,
        })?;
        Ok(Some(replayer))
    }

    fn open(path: &Path) -> std::result::Result<Self, String> {
        let open = || File::open(path).map_err(|error| error.to_string());
        let outcome = ReplayOutcome::from_environment()?;
        let (trace, start) = Trace::open(open()?).map_err(|error| error.to_string())?;
        if start.rank >= start.size || start.hosts.len() != start.size as usize {
            return Err("its first entry is damaged".into());
        }
        let log = log_of(open()?)?;
        Ok(Self {
            start,
            trace,
            log,
            outcome,
            task: None,
            operation: None,
            open: HashMap::new(),
            taken: HashMap::new(),
            last: 0,
            waits: 0,
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
        let cost = match self.start.copies_locally {
            true => LocalCost::Copy,
            false => LocalCost::SystemCall,
        };
        JobLocality::new(self.start.hosts.iter().copied(), cost)
    }

    /// The log, which has all answers of the recording.
    pub fn log(&mut self) -> &mut Determinants {
        if self.log.is_replaying() {
            self.waits = 0;
        }
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

    /// The program sends a message, which must be the recorded one. It is complete at once.
    ///
    /// # Safety
    /// `buf` is readable for `len` bytes.
    ///
    /// # Errors
    /// It is another one, or the recording ends.
    pub unsafe fn send(
        &mut self,
        to: Rank,
        envelope: &Envelope,
        (buf, len): (*const u8, usize),
    ) -> Result<ReqId> {
        self.waits = 0;
        let body = match len {
            // It may have any address.
            0 => &[][..],
            // SAFETY: the caller's promise.
            _ => unsafe { std::slice::from_raw_parts(buf, len) },
        };
        let now = RecordingEntry::Send {
            operation: 0,
            task: self.task,
            to: to.0,
            name: name_of(envelope),
            len: len as u64,
            digest: digest(body),
        };
        self.compare(now)?;
        self.sent += 1;
        Ok(ReqId::DONE)
    }

    /// The program posts a receive, which must be the recorded one. `is_withheld`: it was
    /// cancelled, and the pattern has a context that no message has.
    ///
    /// # Safety
    /// `buf` is writable for `len` bytes until [`Replayer::poll`] returns the completion.
    ///
    /// # Errors
    /// As [`Replayer::send`].
    pub unsafe fn receive(
        &mut self,
        pattern: &Pattern,
        (buf, len): (*mut u8, usize),
        is_withheld: bool,
    ) -> Result<ReqId> {
        self.waits = 0;
        let context = match is_withheld {
            true => self.trace.next_context(self.task),
            false => Ok(pattern.context),
        };
        let context = context.map_err(|error| self.ended(&error.to_string()))?;
        let receive = self.compare(RecordingEntry::Receive {
            operation: 0,
            task: self.task,
            context,
            source: pattern.source,
            tag: pattern.tag,
            capacity: len as u64,
        })?;
        let receive = receive.ok_or_else(|| self.ended("a receive has no number"))?;
        Ok(self.open_receive(receive, (buf, len)))
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
    ///
    /// # Errors
    /// The recording can't be read.
    pub fn poll(&mut self, request: ReqId) -> Result<Option<Completion>> {
        if request == ReqId::DONE {
            return Ok(Some(Completion::default()));
        }
        let Some(open) = self.open.get(&request) else {
            return Ok(None);
        };
        let answer = match self.trace.answer(open.receive) {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.ended(&error.to_string())),
        };
        let (addr, len) = (open.addr, answer.done.len as usize);
        if len > open.capacity {
            return Err(self.ended("the recording is damaged: a message is too long"));
        }
        if len > 0 {
            // SAFETY: the caller of `receive` keeps the buffer until this completion.
            let into = unsafe { std::slice::from_raw_parts_mut(addr as *mut u8, len) };
            let read = self.trace.read_body(answer.body, into);
            read.map_err(|error| self.ended(&error.to_string()))?;
        }
        self.open.remove(&request);
        self.waits = 0;
        self.received += u64::from(!answer.done.cancelled);
        Ok(Some(answer.done))
    }

    /// The first message that a pattern without a wildcard finds: it counts as arrived as soon as
    /// it was sent at any time, because the log of determinants decides when probes find it.
    ///
    /// # Errors
    /// The recording can't be read.
    pub fn probe(&mut self, pattern: &Pattern) -> Result<Option<Probe>> {
        let (Some(source), Some(tag)) = (pattern.source, pattern.tag) else {
            return Ok(None);
        };
        let context = pattern.context;
        let found = self.trace.message(MessageName {
            context,
            source,
            tag,
        });
        let found = found.map_err(|error| self.ended(&error.to_string()))?;
        Ok(found.map(|len| Probe { source, tag, len }))
    }

    /// As [`Replayer::probe`], and takes the message, which must be the recorded one.
    ///
    /// # Errors
    /// As [`Replayer::send`].
    pub fn take(&mut self, pattern: &Pattern) -> Result<Option<(MsgId, Probe)>> {
        let Some(found) = self.probe(pattern)? else {
            return Ok(None);
        };
        self.waits = 0;
        let name = MessageName {
            context: pattern.context,
            source: found.source,
            tag: found.tag,
        };
        let receive = self.compare(RecordingEntry::Taken {
            operation: 0,
            task: self.task,
            name,
            len: found.len,
        })?;
        let receive = receive.ok_or_else(|| self.ended("a receive has no number"))?;
        let message = MsgId(self.next());
        self.taken.insert(message, receive);
        Ok(Some((message, found)))
    }

    /// Receives a message that a matched probe took.
    ///
    /// # Safety
    /// As [`Replayer::receive`].
    ///
    /// # Errors
    /// There is no such message.
    pub unsafe fn receive_taken(
        &mut self,
        message: MsgId,
        (buf, len): (*mut u8, usize),
    ) -> Result<ReqId> {
        let receive = self.taken.remove(&message);
        let receive = receive.ok_or_else(|| self.ended("there is no such message"))?;
        Ok(self.open_receive(receive, (buf, len)))
    }

    /// The program waits, and there is nothing to wait for.
    ///
    /// # Errors
    /// Nothing will come: the recording has no answer.
    pub fn wait(&mut self) -> Result<()> {
        self.waits += 1;
        match self.waits < MOST_WAITS {
            true => Ok(()),
            false => {
                let call = self.operation.map_or("a call", |name| name());
                let text = format!("{call} waits for a message that had not come");
                Err(self.ended(&text))
            }
        }
    }

    /// The program has called `MPI_Finalize`.
    ///
    /// # Errors
    /// The recorded rank did more before that.
    pub fn finalize(&mut self) -> Result<()> {
        let left = self.trace.left_over();
        match left.map_err(|error| self.ended(&error.to_string()))? {
            Some(entry) => {
                let did = shown(&entry, self.trace.operation(operation_of(&entry)));
                Err(self.differs(format!("MPI_Finalize, and the recording has: {did}")))
            }
            None => {
                let text = format!("{} {}", self.sent, self.received);
                self.outcome.say("same", &text);
                Ok(())
            }
        }
    }

    /// Compares what the program does with what its recording says. Returns the receive that it is.
    fn compare(&mut self, now: RecordingEntry) -> Result<Option<ReceiveId>> {
        let recorded = self.trace.next_action(self.task);
        let recorded = recorded.map_err(|error| self.ended(&error.to_string()))?;
        let operation = self.operation.map_or("a call", |name| name());
        let Some((recorded, receive)) = recorded else {
            let now = shown(&now, operation);
            return Err(match self.trace.is_finalized() {
                true => self.differs(format!("{now}, and the recording has MPI_Finalize")),
                false => self.ended(&format!("{now}, which has no record")),
            });
        };
        let then = self.trace.operation(operation_of(&recorded));
        // A task acts in whatever call makes progress.
        let is_same_call = self.task.is_some() || then == operation;
        if is_same_call && without_operation(&recorded) == now {
            return Ok(receive);
        }
        let (now_is, then_was) = (shown(&now, operation), shown(&recorded, then));
        let text = match (now_is == then_was, is_same_name(&now, &recorded)) {
            (false, _) => format!("{now_is}, and the recording has: {then_was}"),
            (true, true) => format!("{now_is}, and its bytes are not those of the recording"),
            (true, false) => format!("{now_is}, in another communicator than in the recording"),
        };
        Err(self.differs(text))
    }

    /// The program does something else than the recorded rank. A debugger stops here.
    #[cold]
    fn differs(&mut self, problem: String) -> Error {
        let (sent, received) = (self.sent, self.received);
        let problem = format!("after {sent} messages sent and {received} received: {problem}");
        self.outcome.say("differs", &problem);
        if is_traced() {
            // The debugger shows the call that differs. Without it, the signal would end the
            // process; a failure leaves only this stop out.
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGTRAP);
        }
        Error::Replay {
            rank: self.rank(),
            problem,
        }
    }

    #[cold]
    fn ended(&mut self, why: &str) -> Error {
        let reason = match self.trace.is_stopped() {
            true => "the recording ends, because it could not be continued",
            false => "the recording ends: the rank had ended there",
        };
        let problem = format!("{reason} ({why})");
        self.outcome.say("ended", &problem);
        Error::Replay {
            rank: self.rank(),
            problem,
        }
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
