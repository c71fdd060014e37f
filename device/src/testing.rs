//! A job inside this process: a manager in one thread, and a device in each of several others.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Completion, Device, Envelope, Mode, Options, Pattern, ReqId};
use rejoin_channel_table::card::LocalSocketName;
use rejoin_channel_table::{
    Address, BusinessCard, Generation, Identity, Incarnation, JobId, JobKey, Rank,
};
use rejoin_wire::codec::{self, FrameReader, MANAGER_LIMIT, RANK_LIMIT};
use rejoin_wire::{FromManager, RankOptions, ToManager, Transport, VERSION, Welcome};

/// A test that takes longer hangs.
const WATCHDOG: Duration = Duration::from_secs(100);

/// The manager's end of one rank's channel.
pub struct ManagerEnd {
    /// The manager's socket.
    pub socket: UnixStream,
    /// Puts messages together.
    pub reader: FrameReader,
}

impl ManagerEnd {
    /// Sends a message.
    pub fn send(&mut self, message: &FromManager) {
        let mut bytes = Vec::new();
        codec::encode(message, MANAGER_LIMIT, &mut bytes).expect("encodes");
        self.socket.write_all(&bytes).expect("the rank reads");
    }

    /// Receives the next message that is no note; `None` at the end of the stream.
    pub fn receive(&mut self) -> Option<ToManager> {
        loop {
            match self.receive_any() {
                Some(ToManager::Note { .. }) => {}
                said => return said,
            }
        }
    }

    /// Receives the next message; `None` at the end of the stream.
    pub fn receive_any(&mut self) -> Option<ToManager> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(message) = self.reader.next().expect("a message") {
                return Some(message);
            }
            match self.socket.read(&mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.reader.push(&bytes[..count]),
            }
        }
    }
}

/// Identity of a rank in every job here.
pub fn identity(rank: u32) -> Identity {
    Identity {
        job: JobId(7),
        rank: Rank(rank),
        generation: Generation(0),
        incarnation: Incarnation(0),
    }
}

/// The job's key.
pub const KEY: [u8; 32] = *b"the key of all these tests' jobs";

/// The first message to a rank.
pub fn welcome(rank: u32, size: u32, cores: u32) -> FromManager {
    welcome_as(rank, size, cores, 0)
}

/// The first message to an incarnation of a rank.
pub fn welcome_as(rank: u32, size: u32, cores: u32, incarnation: u32) -> FromManager {
    FromManager::Welcome(Box::new(Welcome {
        version: VERSION,
        identity: Identity {
            incarnation: Incarnation(incarnation),
            ..identity(rank)
        },
        size,
        key: JobKey::new(KEY),
        appnum: None,
        options: RankOptions {
            host: format!("host{rank}"),
            local_rank: rank,
            local_size: size,
            cores,
            ..RankOptions::default()
        },
    }))
}

/// Serves a job from the registrations to the last word. `edit` may change the table that the
/// ranks get.
fn manage(mut lines: Vec<ManagerEnd>, edit: impl Fn(&mut Vec<(Incarnation, BusinessCard)>)) {
    let mut table = Vec::new();
    for line in &mut lines {
        match line.receive() {
            Some(ToManager::Register {
                card,
                version: VERSION,
                ..
            }) => {
                table.push((Incarnation(0), card));
            }
            other => panic!("a registration, not {other:?}"),
        }
    }
    edit(&mut table);
    for line in &mut lines {
        line.send(&FromManager::Start {
            generation: Generation(0),
            table: table.clone(),
            image: None,
        });
    }
    // A rank whose test has failed leaves silently.
    let all = lines
        .iter_mut()
        .map(ManagerEnd::receive)
        .all(|said| said == Some(ToManager::Finalizing));
    if all {
        for line in &mut lines {
            line.send(&FromManager::AllFinalized {
                generation: Generation(0),
            });
        }
        for line in &mut lines {
            assert_eq!(line.receive(), Some(ToManager::Leave));
        }
    }
    for line in &mut lines {
        while line.receive().is_some() {}
    }
}

/// A change to the table that all ranks get.
pub type Edit = Arc<dyn Fn(&mut Vec<(Incarnation, BusinessCard)>) + Send + Sync>;

/// A job to be run.
pub struct TestJob {
    /// Number of ranks.
    pub size: u32,
    /// Cores that the manager says the host has.
    pub cores: u32,
    /// Options of each rank.
    pub options: Arc<dyn Fn(u32) -> Options + Send + Sync>,
    /// A change to the ranks' table.
    pub edit: Edit,
    /// The transport; the device's choice when there is none.
    pub transport: Option<Transport>,
    /// The shortest body of a single copy. A fixed one, so that what a test sees does not depend on
    /// the cores that run it; `None`: as the device finds out.
    pub single_copy_min: Option<usize>,
}

/// All that there is between ranks of one host.
pub const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Shm];

/// Replaces the names of the local listeners on all cards.
pub fn misdirect_local(table: &mut [(Incarnation, BusinessCard)], local: LocalSocketName) {
    for address in table.iter_mut().flat_map(|(_, card)| &mut card.addresses) {
        if matches!(address, Address::Local(_)) {
            *address = Address::Local(local);
        }
    }
}

/// The address of a TCP listener.
pub fn tcp(address: &Address) -> Option<SocketAddr> {
    match address {
        Address::Tcp(at) => Some(*at),
        Address::Local(_) | Address::Advertised(_) => None,
    }
}

impl TestJob {
    /// A job with the default options, and as many cores as ranks.
    pub fn new(size: u32) -> Self {
        Self {
            size,
            cores: size,
            options: Arc::new(|_| Options::default()),
            edit: Arc::new(|_| ()),
            transport: None,
            single_copy_min: Some(128 << 10),
        }
    }

    /// The job over this transport, unless a rank's options name another one.
    pub fn over(mut self, transport: Transport) -> Self {
        self.transport = Some(transport);
        self
    }

    /// A job with these options, and as many cores as ranks.
    pub fn with(size: u32, options: impl Fn(u32) -> Options + Send + Sync + 'static) -> Self {
        Self {
            options: Arc::new(options),
            ..Self::new(size)
        }
    }

    /// Runs `body` as every rank's program, finalizes, and returns what each has returned.
    pub fn run<T: Send + 'static>(
        self,
        body: impl Fn(&mut Device) -> T + Send + Sync + 'static,
    ) -> Vec<T> {
        self.run_to(true, body)
    }

    /// Runs `body` like [`TestJob::run`], for programs that an error ends: no rank finalizes.
    pub fn run_unfinished<T: Send + 'static>(
        self,
        body: impl Fn(&mut Device) -> T + Send + Sync + 'static,
    ) -> Vec<T> {
        self.run_to(false, body)
    }

    fn run_to<T: Send + 'static>(
        self,
        finalize: bool,
        body: impl Fn(&mut Device) -> T + Send + Sync + 'static,
    ) -> Vec<T> {
        let body = Arc::new(body);
        let (done, results) = mpsc::channel();
        let mut lines = Vec::new();
        let mut threads = Vec::new();
        for rank in 0..self.size {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            let mut line = ManagerEnd {
                socket: ours,
                reader: FrameReader::new(RANK_LIMIT),
            };
            line.send(&welcome(rank, self.size, self.cores));
            lines.push(line);
            let (body, done, mut options) = (Arc::clone(&body), done.clone(), (self.options)(rank));
            options.transport = options.transport.or(self.transport);
            options.single_copy_min = options.single_copy_min.or(self.single_copy_min);
            threads.push(thread::spawn(move || {
                let mut device = Device::with_manager(theirs.into(), options).expect("a device");
                let result = body(&mut device);
                if finalize {
                    end(&mut device).expect("finalized");
                }
                let _ = done.send((rank, result));
            }));
        }
        drop(done);
        let edit = Arc::clone(&self.edit);
        let manager = thread::spawn(move || manage(lines, |table| edit(table)));
        let start = Instant::now();
        let mut collected: Vec<_> = (0..self.size).map(|_| None).collect();
        for _ in 0..self.size {
            match results.recv_timeout(WATCHDOG.saturating_sub(start.elapsed())) {
                Ok((rank, result)) => collected[rank as usize] = Some(result),
                Err(error) => panic!("the job does not end: {error}"),
            }
        }
        for thread in threads {
            thread.join().expect("a rank");
        }
        manager.join().expect("the manager");
        collected
            .into_iter()
            .map(|result| result.expect("a result"))
            .collect()
    }
}

/// The envelope of a message from a rank, in the only context used here.
pub fn envelope(device: &Device, tag: i32) -> Envelope {
    Envelope {
        context: 1,
        source: device.rank().0.cast_signed(),
        tag,
    }
}

/// The pattern that a message of a rank with a tag matches.
pub fn from(rank: u32, tag: i32) -> Pattern {
    Pattern {
        context: 1,
        source: Some(rank.cast_signed()),
        tag: Some(tag),
        from: Some(Rank(rank)),
    }
}

/// The pattern that matches every message.
pub fn anything() -> Pattern {
    Pattern {
        context: 1,
        source: None,
        tag: None,
        from: None,
    }
}

/// Waits for a request.
pub fn finish(device: &mut Device, request: ReqId) -> Completion {
    loop {
        if let Some(completion) = device.poll(request) {
            return completion;
        }
        device.wait(Some(request), None).expect("progress");
    }
}

/// A blocking send.
pub fn send(device: &mut Device, to: u32, tag: i32, bytes: &[u8]) {
    let env = envelope(device, tag);
    // SAFETY: the bytes outlive the wait for the request.
    let request = unsafe { device.send(Rank(to), env, bytes.as_ptr(), bytes.len()) };
    if let Some(request) = request.expect("sent") {
        finish(device, request);
    }
}

/// A nonblocking send; the bytes must outlive the request.
pub fn isend(device: &mut Device, to: u32, tag: i32, bytes: &[u8], mode: Mode) -> ReqId {
    let env = envelope(device, tag);
    // SAFETY: the callers here keep the bytes until they have waited.
    unsafe { device.isend(Rank(to), env, bytes.as_ptr(), bytes.len(), mode) }.expect("sent")
}

/// A nonblocking receive; the bytes must outlive the request.
pub fn irecv(device: &mut Device, pattern: Pattern, bytes: &mut [u8]) -> ReqId {
    // SAFETY: the callers here keep the bytes until they have waited.
    unsafe { device.irecv(pattern, bytes.as_mut_ptr(), bytes.len()) }.expect("posted")
}

/// A blocking receive.
pub fn recv(device: &mut Device, pattern: Pattern, bytes: &mut [u8]) -> Completion {
    let request = irecv(device, pattern, bytes);
    finish(device, request)
}

/// A reproducible sequence of numbers.
pub struct Random(pub u64);

impl Random {
    /// The next number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }
}

/// Bytes that tell which message they belong to.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// Rounds of a message to and fro between ranks 0 and 1.
pub fn ping_pong(device: &mut Device, rounds: usize, len: usize) {
    let me = device.rank().0;
    let body = vec![1; len];
    let mut buffer = vec![0; len];
    for _ in 0..rounds {
        if me == 0 {
            send(device, 1, 1, &body);
            recv(device, from(1, 1), &mut buffer);
        } else {
            recv(device, from(0, 1), &mut buffer);
            send(device, 0, 1, &body);
        }
    }
}

/// The end of a rank, as the layer above makes it.
///
/// # Errors
/// The errors are those of the device.
pub fn end(device: &mut Device) -> crate::error::Result<()> {
    device.begin_finalize();
    device.begin_flush()?;
    while !device.is_flushed() {
        device.wait(None, None)?;
    }
    let counters = device.announce_finalize()?;
    while !device.all_finalized() {
        device.wait(None, None)?;
    }
    device.leave_job(counters)
}
