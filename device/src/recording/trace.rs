//! What a recorded rank did and was answered, read as far as a replay needs it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::File;

use rejoin_engine::Completion;
use rejoin_wire::recording::{
    Located, MessageName, RankStart, RecordingEntry, RecordingError, RecordingReader,
};

/// A receive: who posted it, and its number.
pub(super) type ReceiveId = (Option<u64>, u64);

/// The answer to a receive, and where its body is.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedAnswer {
    pub(super) done: Completion,
    pub(super) body: u64,
}

/// The entries of a recording.
pub(super) struct Trace {
    reader: RecordingReader<File>,
    operations: Vec<String>,
    /// What each task did, as far as it was read and is not repeated yet.
    actions: HashMap<Option<u64>, VecDeque<RecordingEntry>>,
    answers: HashMap<ReceiveId, RecordedAnswer>,
    /// Messages that probes of the program found: after how many of its receives, and their bytes.
    found: BTreeMap<MessageName, VecDeque<(u64, u64)>>,
    /// Receives of each task among its actions so far.
    receives: HashMap<Option<u64>, u64>,
    is_finalized: bool,
}

impl Trace {
    /// Reads the beginning.
    ///
    /// # Errors
    /// The recording can't be read, or has no beginning.
    pub(super) fn open(file: File) -> Result<(Self, RankStart), RecordingError> {
        let mut reader = RecordingReader::new(file)?;
        let first = reader.next()?;
        let Some(Located {
            entry: RecordingEntry::Start(start),
            ..
        }) = first
        else {
            return Err(RecordingError::NoRecording);
        };
        let trace = Self {
            reader,
            operations: Vec::new(),
            actions: HashMap::new(),
            answers: HashMap::new(),
            found: BTreeMap::new(),
            receives: HashMap::new(),
            is_finalized: false,
        };
        Ok((trace, start))
    }

    /// Whether the rank continued without a recording.
    pub(super) fn is_stopped(&self) -> bool {
        self.reader.is_stopped()
    }

    /// Whether the rank has called `MPI_Finalize`, as far as was read.
    pub(super) fn is_finalized(&self) -> bool {
        self.is_finalized
    }

    /// The name of an MPI function.
    pub(super) fn operation(&self, number: u16) -> &str {
        let name = self.operations.get(usize::from(number));
        name.map_or("a call", String::as_str)
    }

    /// Reads an entry. False: there is none left.
    fn read(&mut self) -> Result<bool, RecordingError> {
        let Some(Located { entry, body }) = self.reader.next()? else {
            return Ok(false);
        };
        match entry {
            RecordingEntry::Operation(name) => self.operations.push(name),
            RecordingEntry::Send { task, .. }
            | RecordingEntry::Receive { task, .. }
            | RecordingEntry::Taken { task, .. }
            | RecordingEntry::ReceiveTaken { task, .. } => {
                self.actions.entry(task).or_default().push_back(entry);
            }
            RecordingEntry::Got {
                task,
                number,
                name,
                len,
                truncated,
                cancelled,
            } => {
                let done = Completion {
                    source: name.source,
                    tag: name.tag,
                    len,
                    truncated,
                    cancelled,
                };
                let receive = (task, number);
                self.answers.insert(receive, RecordedAnswer { done, body });
            }
            RecordingEntry::Found {
                receives,
                name,
                len,
            } => self
                .found
                .entry(name)
                .or_default()
                .push_back((receives, len)),
            RecordingEntry::Finalized => self.is_finalized = true,
            RecordingEntry::Start(_) | RecordingEntry::Determinants { .. } => {}
        }
        Ok(true)
    }

    /// What this task did next, and the receive that it was, if it was one; `None`: nothing more.
    /// `sends`: it sends now. The sends of a task wait until it is their turn, and it may post its
    /// receives meanwhile. So the order between both is not that of the recording.
    ///
    /// # Errors
    /// The recording can't be read.
    pub(super) fn next_action(
        &mut self,
        task: Option<u64>,
        sends: bool,
    ) -> Result<Option<(RecordingEntry, Option<ReceiveId>)>, RecordingError> {
        loop {
            let waiting = self.actions.entry(task).or_default();
            let same = waiting.iter().position(|entry| is_send(entry) == sends);
            let at = match task {
                None => 0,
                Some(_) => same.unwrap_or(waiting.len()),
            };
            if let Some(entry) = waiting.remove(at) {
                return Ok(Some(self.repeated(task, entry)));
            }
            if !self.read()? {
                let other = self.actions.get_mut(&task).and_then(VecDeque::pop_front);
                return Ok(other.map(|entry| self.repeated(task, entry)));
            }
        }
    }

    /// An action that is repeated, with its number if it is a receive.
    fn repeated(
        &mut self,
        task: Option<u64>,
        entry: RecordingEntry,
    ) -> (RecordingEntry, Option<ReceiveId>) {
        if !is_receive(&entry) {
            return (entry, None);
        }
        let next = self.receives.entry(task).or_default();
        let receive = (task, *next);
        *next += 1;
        (entry, Some(receive))
    }

    /// The context of the next action of this task, if it is a receive; else 0.
    ///
    /// # Errors
    /// The recording can't be read.
    pub(super) fn next_context(&mut self, task: Option<u64>) -> Result<u32, RecordingError> {
        loop {
            match self.actions.get(&task).and_then(VecDeque::front) {
                Some(RecordingEntry::Receive { context, .. }) => return Ok(*context),
                Some(_) => return Ok(0),
                None => {}
            }
            if !self.read()? {
                return Ok(0);
            }
        }
    }

    /// What any task did and has not repeated.
    pub(super) fn left_over(&mut self) -> Result<Option<RecordingEntry>, RecordingError> {
        while self.read()? {}
        // The program's come first.
        let tasks: BTreeSet<_> = self.actions.keys().copied().collect();
        let left = |task| self.actions.get_mut(&task).and_then(VecDeque::pop_front);
        Ok(tasks.into_iter().find_map(left))
    }

    /// The answer to a receive, once; `None`: it had none.
    ///
    /// # Errors
    /// The recording can't be read.
    pub(super) fn answer(
        &mut self,
        receive: ReceiveId,
    ) -> Result<Option<RecordedAnswer>, RecordingError> {
        loop {
            if let Some(answer) = self.answers.remove(&receive) {
                return Ok(Some(answer));
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    /// Reads the body of an answer.
    ///
    /// # Errors
    /// The recording can't be read.
    pub(super) fn read_body(&mut self, at: u64, into: &mut [u8]) -> Result<(), RecordingError> {
        self.reader.read_body(at, into)
    }

    /// The bytes of the message of this name that a probe of the program found since its last
    /// receive; `None`: no probe did.
    ///
    /// # Errors
    /// The recording can't be read.
    pub(super) fn message(&mut self, name: MessageName) -> Result<Option<u64>, RecordingError> {
        let receives = self.receives.get(&None).copied().unwrap_or(0);
        loop {
            if let Some(same) = self.found.get_mut(&name) {
                while same.front().is_some_and(|(before, _)| *before < receives) {
                    same.pop_front();
                }
                if let Some((_, len)) = same.front().filter(|(after, _)| *after == receives) {
                    return Ok(Some(*len));
                }
            }
            let next = self.actions.get(&None);
            let is_over = next.is_some_and(|actions| actions.iter().any(is_receive));
            if is_over || !self.read()? {
                return Ok(None);
            }
        }
    }
}

/// Whether an action sends a message.
fn is_send(action: &RecordingEntry) -> bool {
    matches!(action, RecordingEntry::Send { .. })
}

/// Whether an action takes a message out of matching.
fn is_receive(action: &RecordingEntry) -> bool {
    matches!(
        action,
        RecordingEntry::Receive { .. } | RecordingEntry::Taken { .. }
    )
}
