//! Copies files of images from other hosts, one after the other, in a thread: its connections and
//! disks may take their time.

use super::copy_protocol::{self as protocol, CHUNK, CopyRequest};
use super::copy_rate::CopyRate;
use super::copy_server::prepare;
use crate::error::system_text;
use crate::host::random::random;
use crate::net::auth::{self, CHALLENGE, HELLO, WELCOME, Whose, image_key};
use nix::sys::eventfd::EventFd;
use rejoin_channel_table::{Epoch, JobKey, Rank};
use rejoin_ckpt::store::{ImageFolder, PartialImage};
use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Limit of an attempt to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// A copy that makes no progress for so long is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two attempts, and longest pause before an order is looked at again.
const PAUSE: Duration = Duration::from_millis(200);

/// A copy that is to be made.
#[derive(Debug, Clone)]
pub(super) struct CopyOrder {
    /// The rank of the image.
    pub rank: Rank,
    /// The checkpoint of the image.
    pub epoch: Epoch,
    /// The number of the host that has the file.
    pub host: u32,
    /// Where its manager listens.
    pub addresses: Vec<SocketAddr>,
    /// A process waits for it, so that no limit holds.
    pub is_awaited: bool,
}

/// How an order ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyResult {
    /// There is a file.
    File,
    /// None is needed: this host sees the folder of the other one.
    SharedFolder,
}

/// The end of a copy: the reason if there is none.
pub type CopyEnd = (Rank, Epoch, Result<CopyResult, String>);

/// What the thread knows of the job.
#[derive(Clone)]
pub(super) struct CopyMember {
    /// The job's key.
    pub key: JobKey,
    /// The job, the launch and the number of this host.
    pub whose: Whose,
    /// The folder of images on this host.
    pub folder: ImageFolder,
    /// Bytes a second at most.
    pub rate: Option<u64>,
}

/// Images whose copies are not wanted any more.
type Cancelled = Arc<Mutex<BTreeSet<(Rank, Epoch)>>>;

/// The thread, which ends with this value.
pub(super) struct CopyMaker {
    orders: Sender<CopyOrder>,
    ends: Receiver<CopyEnd>,
    wake: Arc<EventFd>,
    cancelled: Cancelled,
    is_over: Arc<AtomicBool>,
}

impl CopyMaker {
    /// Starts the thread.
    pub fn start(member: CopyMember) -> io::Result<CopyMaker> {
        let (orders, to_do) = channel::<CopyOrder>();
        let (done, ends) = channel();
        let wake = Arc::new(EventFd::from_flags(
            nix::sys::eventfd::EfdFlags::EFD_CLOEXEC | nix::sys::eventfd::EfdFlags::EFD_NONBLOCK,
        )?);
        let cancelled = Cancelled::default();
        let is_over = Arc::new(AtomicBool::new(false));
        let (waker, void) = (Arc::clone(&wake), Arc::clone(&cancelled));
        let over = Arc::clone(&is_over);
        thread::Builder::new()
            .name("rejoin-copy".into())
            .spawn(move || {
                let mut copier = Copier {
                    rate: CopyRate::new(member.rate, Instant::now()),
                    member,
                    cancelled: void,
                    is_over: over,
                    shared: BTreeSet::new(),
                };
                for order in to_do {
                    let end = copier.copy(&order);
                    if done.send((order.rank, order.epoch, end)).is_err() {
                        return;
                    }
                    // A full counter wakes as well.
                    let _ = waker.write(1);
                }
            })?;
        Ok(CopyMaker {
            orders,
            ends,
            wake,
            cancelled,
            is_over,
        })
    }

    /// Has a copy made.
    pub fn order(&self, order: CopyOrder) {
        // The thread lives as long as this value.
        let _ = self.orders.send(order);
    }

    /// No copy is wanted any more.
    pub fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// A copy that is under way is not wanted any more.
    pub fn cancel(&self, rank: Rank, epoch: Epoch) {
        self.void().insert((rank, epoch));
    }

    fn void(&self) -> std::sync::MutexGuard<'_, BTreeSet<(Rank, Epoch)>> {
        self.cancelled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The next copy that has come to its end.
    pub fn next(&self) -> Option<CopyEnd> {
        // An empty counter says so.
        let _ = self.wake.read();
        let end = self.ends.try_recv().ok()?;
        self.void().remove(&(end.0, end.1));
        Some(end)
    }
}

impl AsFd for CopyMaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Why an attempt failed.
enum Failure {
    /// The connection failed for this reason: another one may not.
    Connection(String),
    /// Every further attempt would fail for this reason.
    Final(String),
}

fn lost(error: io::Error) -> Failure {
    Failure::Connection(system_text(&error))
}

fn refused(error: io::Error) -> Failure {
    Failure::Final(system_text(&error))
}

/// A file that is being copied, and its bytes so far.
struct Draft {
    file: PartialImage,
    done: u64,
}

/// The state of the thread.
struct Copier {
    member: CopyMember,
    cancelled: Cancelled,
    is_over: Arc<AtomicBool>,
    /// Hosts that see the same folder.
    shared: BTreeSet<u32>,
    rate: CopyRate,
}

impl Copier {
    fn is_void(&self, order: &CopyOrder) -> bool {
        let void = self.cancelled.lock();
        let void = void.unwrap_or_else(PoisonError::into_inner);
        self.is_over.load(Ordering::Relaxed) || void.contains(&(order.rank, order.epoch))
    }

    /// Makes one copy, in as many attempts as make progress.
    fn copy(&mut self, order: &CopyOrder) -> Result<CopyResult, String> {
        if self.is_void(order) {
            return Err("it is not wanted any more".into());
        }
        if self.shared.contains(&order.host) {
            return Ok(CopyResult::SharedFolder);
        }
        let begun = self.member.folder.begin_copy(order.rank.0, order.epoch.0);
        let file = begun.map_err(|error| system_text(&error))?;
        let mut draft = Some(Draft { file, done: 0 });
        let (mut progress, mut since) = (0, Instant::now());
        loop {
            if self.is_void(order) {
                return Err("it is not wanted any more".into());
            }
            let why = match self.attempt(order, &mut draft) {
                Ok(copied) => return Ok(copied),
                Err(Failure::Final(why)) => return Err(why),
                Err(Failure::Connection(why)) => why,
            };
            let done = draft.as_ref().map_or(0, |draft| draft.done);
            if done > progress {
                (progress, since) = (done, Instant::now());
            } else if since.elapsed() > PATIENCE || order.addresses.is_empty() {
                return Err(format!(
                    "the manager that has the file can't be reached: {why}"
                ));
            }
            thread::sleep(PAUSE);
        }
    }

    fn attempt(
        &mut self,
        order: &CopyOrder,
        draft: &mut Option<Draft>,
    ) -> Result<CopyResult, Failure> {
        let mut stream = self.connect(order)?;
        let claim = protocol::read_text(&mut stream).map_err(lost)?;
        if self.member.folder.has_claim(&claim) {
            self.shared.insert(order.host);
            return Ok(CopyResult::SharedFolder);
        }
        let Some(Draft { file, done }) = draft else {
            return Err(Failure::Final("its file is gone".into()));
        };
        let (rank, epoch, from) = (order.rank, order.epoch, *done);
        protocol::write_request(&mut stream, CopyRequest { rank, epoch, from }).map_err(lost)?;
        let problem = protocol::read_text(&mut stream).map_err(lost)?;
        if !problem.is_empty() {
            return Err(Failure::Final(problem));
        }
        let (bytes, note) = protocol::read_head(&mut stream).map_err(lost)?;
        let mut buffer = vec![0; CHUNK];
        while *done < bytes {
            if self.is_void(order) {
                return Err(Failure::Final("it is not wanted any more".into()));
            }
            let length = protocol::read_chunk(&mut stream, &mut buffer).map_err(lost)?;
            file.file()
                .write_all_at(&buffer[..length], *done)
                .map_err(refused)?;
            *done += length as u64;
            if !order.is_awaited {
                self.keep_to_rate(order, length);
            }
        }
        file.file().sync_data().map_err(refused)?;
        if let Some(Draft { file, .. }) = draft.take() {
            file.complete(&note).map_err(refused)?;
        }
        Ok(CopyResult::File)
    }

    /// Waits until the next bytes may come.
    fn keep_to_rate(&mut self, order: &CopyOrder, length: usize) {
        let mut left = self.rate.pause_after(length, Instant::now());
        while !left.is_zero() && !self.is_void(order) {
            let step = left.min(PAUSE);
            thread::sleep(step);
            left -= step;
        }
    }

    /// A connection to the manager, with proofs of both sides.
    fn connect(&self, order: &CopyOrder) -> Result<TcpStream, Failure> {
        let mut last = Failure::Connection("it has no address".into());
        for address in &order.addresses {
            let connected = TcpStream::connect_timeout(address, CONNECT_LIMIT);
            match connected.and_then(|stream| self.prove(order.host, stream)) {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    last = Failure::Connection(format!("{address}: {}", system_text(&error)));
                }
            }
        }
        Err(last)
    }

    fn prove(&self, host: u32, mut stream: TcpStream) -> io::Result<TcpStream> {
        prepare(&stream)?;
        let key = image_key(&self.member.key, self.member.whose.launch, host);
        let nonce = random().map_err(io::Error::other)?;
        let hello: [u8; HELLO] = auth::hello(self.member.whose, &nonce);
        stream.write_all(&hello)?;
        let mut challenge = [0; CHALLENGE];
        stream.read_exact(&mut challenge)?;
        let (nonce, _) =
            auth::read_challenge(&key, &hello, &challenge).map_err(io::Error::other)?;
        stream.write_all(&auth::proof(&key, &hello, &nonce, 0))?;
        let mut welcome = [0; WELCOME];
        stream.read_exact(&mut welcome)?;
        let welcome = auth::read_welcome(&key, &hello, &nonce, &welcome);
        match welcome.map_err(io::Error::other)? {
            Some(_) => Ok(stream),
            None => Err(io::Error::other("it has no place for another caller now")),
        }
    }
}
