//! Writes the recording of a rank.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rejoin_engine::{Completion, Envelope, MsgId, Pattern, Probe, ReqId};
use rejoin_logging::determinants::LogPart;
use rejoin_wire::RecordOptions;
use rejoin_wire::recording::{MessageName, RecordingEntry, append_entry, file_name};

use super::recording_file::RecordingFile;
use super::{digest, name_of, start_of};
use crate::device::Device;
use crate::error::{Error, Result, text_of};
use crate::log::Determinants;
use rejoin_channel_table::Rank;

/// A receive whose message has not come.
struct OpenReceive {
    task: Option<u64>,
    number: u64,
    context: u32,
    addr: usize,
}

/// Records what a device answers, and what it is asked.
pub struct Recorder {
    log: Determinants,
    /// Records of the log that are in the file.
    written: u64,
    /// None: the file could not be continued.
    file: Option<RecordingFile>,
    path: String,
    /// The function that the program has called.
    operation: Option<fn() -> &'static str>,
    operations: Vec<&'static str>,
    /// Receives that each task has posted.
    receives: HashMap<Option<u64>, u64>,
    open: HashMap<ReqId, OpenReceive>,
    /// Messages that matched probes have taken.
    taken: HashMap<MsgId, (Option<u64>, u64, u32)>,
    /// Messages that probes have found since the last receive of the program.
    found: BTreeSet<MessageName>,
    scratch: Vec<u8>,
}

impl Recorder {
    /// Begins the recording of this device's rank. Its folder is made if need be.
    ///
    /// # Errors
    /// There is a recording of this rank, or the system's reason.
    pub fn begin(wanted: &RecordOptions, device: &Device) -> Result<Self> {
        let folder = Path::new(&wanted.folder);
        let start = start_of(wanted, device);
        let path = folder.join(file_name(start.rank));
        let shown = path.display().to_string();
        let refused = |problem: String| Error::Recording {
            rank: device.rank(),
            path: shown.clone(),
            problem,
        };
        // It has all messages and variables of the program.
        let mut builder = std::fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(folder);
        let made = made.and_then(|()| RecordingFile::create(&path));
        let (file, memory) = made.map_err(|error| refused(text_of(&error)))?;
        let log = Determinants::new(Box::new(memory)).map_err(|e| refused(e.to_string()))?;
        let mut recorder = Self {
            log,
            written: 0,
            file: Some(file),
            path: shown.clone(),
            operation: None,
            operations: Vec::new(),
            receives: HashMap::new(),
            open: HashMap::new(),
            taken: HashMap::new(),
            found: BTreeSet::new(),
            scratch: Vec::new(),
        };
        recorder.append(&RecordingEntry::Start(start), &[]);
        match recorder.file {
            Some(_) => Ok(recorder),
            None => Err(refused("its first entry can't be written".into())),
        }
    }

    /// How to ask which function the program has called.
    pub fn set_operation(&mut self, operation: fn() -> &'static str) {
        self.operation = Some(operation);
    }

    /// The log of determinants, with room for the next ones.
    pub fn log(&mut self) -> &mut Determinants {
        if self.log.is_half_full() {
            self.write_determinants();
        }
        &mut self.log
    }

    #[cold]
    fn write_determinants(&mut self) {
        match LogPart::read(self.log.memory(), self.written) {
            Ok(part) => {
                self.written = part.end();
                let (from, records) = (part.from, part.records);
                self.append(&RecordingEntry::Determinants { from, records }, &[]);
                // It holds all of them, so there is no error.
                let _ = self.log.release(self.written);
            }
            Err(error) => self.stop(&error.to_string()),
        }
    }

    /// A message is sent.
    ///
    /// # Safety
    /// `buf` is readable for `len` bytes.
    #[cold]
    pub unsafe fn sent(
        &mut self,
        task: Option<u64>,
        to: Rank,
        envelope: &Envelope,
        (buf, len): (*const u8, usize),
    ) {
        if self.file.is_none() {
            return;
        }
        let body = match len {
            // It may have any address.
            0 => &[][..],
            // SAFETY: the caller's promise.
            _ => unsafe { std::slice::from_raw_parts(buf, len) },
        };
        let operation = self.operation();
        self.append(
            &RecordingEntry::Send {
                operation,
                task,
                to: to.0,
                name: name_of(envelope),
                len: len as u64,
                digest: digest(body),
            },
            &[],
        );
    }

    /// A receive is posted.
    #[cold]
    pub fn posted(
        &mut self,
        task: Option<u64>,
        pattern: &Pattern,
        request: ReqId,
        (buf, len): (*mut u8, usize),
    ) {
        let operation = self.operation();
        let context = pattern.context;
        self.append(
            &RecordingEntry::Receive {
                operation,
                task,
                context,
                source: pattern.source,
                tag: pattern.tag,
                capacity: len as u64,
            },
            &[],
        );
        let number = self.next_receive(task);
        self.open(request, (task, number, context), buf);
        self.found.clear();
    }

    /// A matched probe has taken a message.
    #[cold]
    pub fn taken(&mut self, task: Option<u64>, context: u32, message: MsgId, probe: &Probe) {
        let operation = self.operation();
        let name = named(context, probe);
        let len = probe.len;
        self.append(
            &RecordingEntry::Taken {
                operation,
                task,
                name,
                len,
            },
            &[],
        );
        let number = self.next_receive(task);
        self.taken.insert(message, (task, number, context));
        self.found.clear();
    }

    /// A message that a matched probe has taken is received.
    #[cold]
    pub fn receives(
        &mut self,
        by: Option<u64>,
        message: MsgId,
        request: ReqId,
        (buf, len): (*mut u8, usize),
    ) {
        let operation = self.operation();
        self.append(
            &RecordingEntry::ReceiveTaken {
                operation,
                task: by,
                capacity: len as u64,
            },
            &[],
        );
        if let Some(receive) = self.taken.remove(&message) {
            self.open(request, receive, buf);
        }
    }

    /// This request is the receive of a task, of this number and context.
    fn open(
        &mut self,
        request: ReqId,
        (task, number, context): (Option<u64>, u64, u32),
        buf: *mut u8,
    ) {
        let receive = OpenReceive {
            task,
            number,
            context,
            addr: buf.addr(),
        };
        self.open.insert(request, receive);
    }

    /// A request is complete.
    ///
    /// # Safety
    /// The buffer of the receive is readable as far as its message reaches.
    #[cold]
    pub unsafe fn completed(&mut self, request: ReqId, completion: &Completion) {
        let Some(receive) = self.open.remove(&request) else {
            return;
        };
        let Completion {
            source,
            tag,
            cancelled,
            truncated,
            ..
        } = *completion;
        let len = if cancelled { 0 } else { completion.len };
        let body = match len {
            0 => &[][..],
            // SAFETY: the caller's promise.
            len => unsafe { std::slice::from_raw_parts(receive.addr as *const u8, len as usize) },
        };
        let context = receive.context;
        let name = MessageName {
            context,
            source,
            tag,
        };
        let got = RecordingEntry::Got {
            task: receive.task,
            number: receive.number,
            name,
            len,
            truncated,
            cancelled,
        };
        self.append(&got, body);
    }

    /// A probe has found a message.
    #[cold]
    pub fn found(&mut self, context: u32, probe: &Probe) {
        let name = named(context, probe);
        if self.found.insert(name) {
            let (len, receives) = (probe.len, self.receives.get(&None).copied().unwrap_or(0));
            let found = RecordingEntry::Found {
                receives,
                name,
                len,
            };
            self.append(&found, &[]);
        }
    }

    /// The program has called `MPI_Finalize`.
    #[cold]
    pub fn finalized(&mut self) {
        self.append(&RecordingEntry::Finalized, &[]);
    }

    fn next_receive(&mut self, task: Option<u64>) -> u64 {
        let next = self.receives.entry(task).or_default();
        *next += 1;
        *next - 1
    }

    /// The number of the function that the program has called.
    fn operation(&mut self) -> u16 {
        let name = self.operation.map_or("", |name| name());
        let same = |other: &&str| std::ptr::eq(*other, name);
        if let Some(number) = self.operations.iter().position(same) {
            return number as u16;
        }
        self.append(&RecordingEntry::Operation(name.to_owned()), &[]);
        self.operations.push(name);
        (self.operations.len() - 1) as u16
    }

    fn append(&mut self, entry: &RecordingEntry, body: &[u8]) {
        let Some(file) = &mut self.file else {
            return;
        };
        self.scratch.clear();
        let made = append_entry(entry, &mut self.scratch).map_err(io::Error::other);
        if let Err(error) = made.and_then(|()| file.append(&self.scratch, body)) {
            self.stop(&text_of(&error));
        }
    }

    /// The program does not end because its recording can't be continued.
    #[cold]
    fn stop(&mut self, why: &str) {
        if let Some(file) = self.file.take() {
            file.stop();
            eprintln!(
                "rejoin: the recording {} ends here, and the program continues: {why}",
                self.path
            );
        }
    }
}

fn named(context: u32, probe: &Probe) -> MessageName {
    MessageName {
        context,
        source: probe.source,
        tag: probe.tag,
    }
}
