//! What a recorded rank did and was answered, read as far as a replay needs it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs::File;

use rejoin_engine::Completion;
use rejoin_logging::determinants::{DeterminantError, LogMemory, LogPart};
use rejoin_wire::recording::{
    DETERMINANT_WORDS, Located, MessageName, RankStart, RecordingEntry, RecordingError,
    RecordingReader,
};

use crate::rank_log::Determinants;

/// Records that a replay's log takes beyond those of the recording.
const ROOM: usize = 1 << 16;
/// Words of a log's header, and of a record.
const HEADER: usize = 16;
const RECORD: usize = 4;

/// A receive: who posted it, and its number.
pub(super) type ReceiveId = (Option<u64>, u64);

/// The answer to a receive, and where its body is.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedAnswer {
    pub(super) name: MessageName,
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
    /// Messages that were read, in the order of their receives, while these are not posted.
    to_come: BTreeMap<MessageName, VecDeque<(ReceiveId, u64)>>,
    /// Messages that probes found: they may never be received.
    found: BTreeMap<MessageName, u64>,
    posted: HashSet<ReceiveId>,
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
            to_come: BTreeMap::new(),
            found: BTreeMap::new(),
            posted: HashSet::new(),
            receives: HashMap::new(),
            is_finalized: false,
        };
        Ok((trace, start))
    }

    /// Whether the rank went on without a recording.
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
            | RecordingEntry::Taken { task, .. } => {
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
                if !cancelled && !self.posted.contains(&receive) {
                    let bytes = truncated.unwrap_or(len);
                    let same = self.to_come.entry(name).or_default();
                    let at = same.partition_point(|(other, _)| *other < receive);
                    same.insert(at, (receive, bytes));
                }
                self.answers
                    .insert(receive, RecordedAnswer { name, done, body });
            }
            RecordingEntry::Found { name, len } => {
                self.found.insert(name, len);
            }
            RecordingEntry::Finalized => self.is_finalized = true,
            RecordingEntry::Start(_) | RecordingEntry::Determinants { .. } => {}
        }
        Ok(true)
    }

    /// What this task did next, and the receive that it was, if it was one; `None`: nothing more.
    ///
    /// # Errors
    /// The recording can't be read.
    pub(super) fn next_action(
        &mut self,
        task: Option<u64>,
    ) -> Result<Option<(RecordingEntry, Option<ReceiveId>)>, RecordingError> {
        loop {
            let waiting = self.actions.get_mut(&task);
            let Some(entry) = waiting.and_then(VecDeque::pop_front) else {
                match self.read()? {
                    true => continue,
                    false => return Ok(None),
                }
            };
            if matches!(entry, RecordingEntry::Send { .. }) {
                return Ok(Some((entry, None)));
            }
            let next = self.receives.entry(task).or_default();
            let receive = (task, *next);
            *next += 1;
            self.posted(receive);
            return Ok(Some((entry, Some(receive))));
        }
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
        let tasks: Vec<_> = self.actions.keys().copied().collect();
        for task in tasks {
            if let Some((entry, _)) = self.next_action(task)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// This receive is posted.
    fn posted(&mut self, receive: ReceiveId) {
        if let Some(answer) = self.answers.get(&receive)
            && let Some(same) = self.to_come.get_mut(&answer.name)
        {
            same.retain(|(other, _)| *other != receive);
        }
        self.posted.insert(receive);
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
                self.posted.remove(&receive);
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

    /// The length of the first message of this name that no receive has taken, if one was sent.
    ///
    /// # Errors
    /// The recording can't be read.
    pub(super) fn message(&mut self, name: MessageName) -> Result<Option<u64>, RecordingError> {
        loop {
            let same = self.to_come.get(&name);
            if let Some((_, len)) = same.and_then(VecDeque::front) {
                return Ok(Some(*len));
            }
            if !self.read()? {
                return Ok(self.found.get(&name).copied());
            }
        }
    }
}

/// The log of determinants of a recording, from which all is to be repeated.
///
/// # Errors
/// The recording can't be read, or its determinants contradict each other.
pub(super) fn log_of(file: File) -> Result<Determinants, String> {
    let mut reader = RecordingReader::new(file).map_err(|error| error.to_string())?;
    let mut records = Vec::new();
    while let Some(located) = reader.next().map_err(|error| error.to_string())? {
        if let RecordingEntry::Determinants { from, records: new } = located.entry {
            add(&mut records, from, new)?;
        }
    }
    let words = reader.words()[..DETERMINANT_WORDS].to_vec();
    let text = |error: DeterminantError| error.to_string();
    let newest = LogPart::read(&words, records.len() as u64).map_err(text)?;
    add(&mut records, newest.from, newest.records)?;
    let capacity = HEADER + RECORD * (records.len() + ROOM);
    let empty = || Box::new(vec![0_u64; capacity]) as Box<dyn LogMemory + Send>;
    let mut memory = empty();
    let all = LogPart {
        first: 0,
        from: 0,
        answers: newest.answers,
        sends: newest.sends,
        records,
    };
    all.write(&mut memory).map_err(text)?;
    let mut log = Determinants::new(empty()).map_err(text)?;
    log.replay_from(memory).map_err(text)?;
    Ok(log)
}

/// Adds records, of which some may be there already.
fn add(records: &mut Vec<[u64; 4]>, from: u64, new: Vec<[u64; 4]>) -> Result<(), String> {
    let known = (records.len() as u64).checked_sub(from);
    let known = known.ok_or("determinants are missing")?;
    records.extend(new.into_iter().skip(known as usize));
    Ok(())
}
