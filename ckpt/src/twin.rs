//! The frozen clone of a process.
//!
//! [`take`] makes one with a raw `clone`: neither `fork` nor `_Fork`, whose own work takes locks
//! that the interrupted program may hold. The clone is a *zygote*: it never becomes the rank. It
//! closes the library's descriptors, blocks every signal and waits on a socket of its own. For each
//! restore it clones a *runner*, in which [`take`] returns the second time, and continues to wait.
//! When the manager's end of the socket is closed, it ends.

use std::ops::Range;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use serde::{Deserialize, Serialize};

use crate::error::{Caveat, Refused};
use crate::manifest::{self, Manifest};
pub use crate::manifest::{Input, Summary, WrittenFile};
use crate::{checkpoint_request, sys};

mod checks;
mod clone;
pub mod manager;
mod runner;
mod streams;
mod wire;
mod zygote;

pub(crate) use streams::pipe;
pub use wire::{BODY_LIMIT, DESCRIPTOR_LIMIT};

/// What a twin's name is in `ps` and `/proc/PID/comm`.
pub const NAME: &str = "rejoin-twin";

/// What the library knows of its process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The local manager's process number, as this process sees it; 0 when there is none. A process
    /// that is its direct child has its twins as siblings, where the program's own `wait` does not
    /// meet them.
    pub manager: i32,
    /// The first number of the library's block of descriptors: the twin closes all from there on.
    pub block: RawFd,
    /// Whether descriptors 1 and 2 are pipes that the manager made.
    pub streams: [bool; 2],
    /// The signal of orders ([`crate::checkpoint_request`]), which is never carried over.
    pub signal: i32,
}

/// Takes images of this process, one after another.
#[derive(Debug)]
pub struct Imager {
    settings: Settings,
    /// Shared mappings of the library's own.
    shared: Vec<Range<usize>>,
    /// Which pipes the standard streams are now.
    pipes: [Option<(u64, u64)>; 2],
    /// Descriptors that the manager has open under the same numbers, device and inode each: they
    /// came down from whoever started the job, and the program knows nothing of them.
    inherited: Vec<(RawFd, (u64, u64))>,
    /// Twins that are this process's own children.
    twins: Vec<i32>,
    /// The text of `maps`, whose memory is used again.
    maps: Vec<u8>,
}

/// An image, seen from the rank that continues.
#[derive(Debug)]
pub struct Image {
    /// The zygote's process number.
    pub pid: i32,
    /// The manager's end of the zygote's socket: hand it over, then close it here at once.
    pub wait: OwnedFd,
    /// What is read from descriptor 1 from now on. The former pipe ends at the image.
    pub stdout: Option<OwnedFd>,
    /// The same for descriptor 2.
    pub stderr: Option<OwnedFd>,
    /// The zygote is a child of the manager, not of this process.
    pub is_managers_child: bool,
    /// What the manager should know.
    pub summary: Summary,
    /// How long it took.
    pub timings: Timings,
}

/// How long an image held the rank up, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// Before the clone: checks, manifest, new pipes.
    pub prepare: u64,
    /// The clone itself: it copies the page tables.
    pub clone: u64,
}

/// What a restored process is given.
#[derive(Debug)]
pub struct Restored {
    /// The manager's message, at most [`BODY_LIMIT`] bytes.
    pub body: Vec<u8>,
    /// Descriptors that came along beside the standard streams, all in the library's block.
    pub fds: Vec<OwnedFd>,
    /// What could not be set again.
    pub caveats: Vec<Caveat>,
}

/// From which side [`take`] returns.
#[derive(Debug)]
pub enum Taken {
    /// The rank continues.
    Continued(Image),
    /// A new process: what the image holds of connections and descriptors of the library is gone.
    Restored(Restored),
}

impl Imager {
    /// Made once, when the library starts.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let pipes = [1, 2].map(|fd| {
            settings.streams[fd as usize - 1]
                .then(|| streams::pipe(fd))
                .flatten()
        });
        let (shared, twins) = (Vec::new(), Vec::new());
        let inherited = inherited(&settings);
        Self {
            settings,
            shared,
            pipes,
            inherited,
            twins,
            maps: Vec::with_capacity(64 * 1024),
        }
    }

    /// Says that a shared mapping is the library's own and no reason to refuse an image. It is made
    /// anew, or still right, in a restored process.
    pub fn allow_shared(&mut self, range: Range<usize>) {
        self.shared.push(range);
    }

    /// Takes that back before the mapping is removed.
    pub fn forget_shared(&mut self, start: usize) {
        self.shared.retain(|r| r.start != start);
    }
}

/// Takes an image. Returns once in the process that asked, and again in each process restored from
/// the image, with everything as it was but for what [`Restored::caveats`] lists. Callers drop what
/// they hold of connections when it is [`Taken::Restored`], without closing: those numbers are not
/// theirs any more.
///
/// May be called in a signal handler, with this library's own allocator.
///
/// In a restored process the C library takes its thread for the old one: `pthread_setaffinity_np`
/// and the like on the calling thread meet a number that is gone, and robust or priority-inheriting
/// locks that it takes name a dead owner. Setting the number anew would break every lock that the
/// interrupted program holds.
///
/// # Errors
/// [`Refused`], with the process and its streams as they were.
pub fn take(imager: &mut Imager) -> Result<Taken, Refused> {
    let start = sys::now();
    let mask = sys::set_mask(sys::ALL_SIGNALS);
    let taken = masked(imager, start);
    sys::set_mask(mask);
    taken
}

/// Milliseconds for which a rank that holds locks of files waits at most for its clone to be apart.
const DETACHED_IN: i32 = 1000;

/// What a clone is to know beside its memory.
struct Plan {
    wait: RawFd,
    manager_end: RawFd,
    streams: streams::Streams,
    manifest: Manifest,
    state: clone::ThreadState,
    name: [u8; 16],
}

fn masked(imager: &mut Imager, start: u64) -> Result<Taken, Refused> {
    imager.reap();
    let is_direct = imager.is_direct();
    imager.check_threads()?;
    imager.check_children(is_direct)?;
    let all = manifest::descriptors(imager.settings.block)
        .map_err(|errno| Refused::system("list the open files", errno))?;
    let manifest = Manifest::capture(&all, imager.settings.signal, &imager.inherited);
    let summary = manifest.summary();
    let (wait, manager_end) = socket_pair(imager.settings.block)?;
    // The last check: what it read of the memory's ranges is compared in the twin.
    let streams = imager.check_mappings().and_then(|()| {
        streams::Streams::renew(&imager.pipes, &all, imager.settings.block)
            .map_err(|errno| Refused::system("make new pipes for the standard streams", errno))
    });
    let streams = streams.inspect_err(|_| [wait, manager_end].into_iter().for_each(sys::close))?;
    let state = clone::ThreadState::read();
    let plan = Plan {
        wait,
        manager_end,
        streams,
        manifest,
        state,
        name: clone::name(),
    };

    let begin = sys::now();
    match clone::clone(is_direct) {
        Ok(0) => {
            let message = zygote::freeze(imager, &plan);
            Ok(Taken::Restored(runner::begin(imager, &plan, message)))
        }
        Ok(pid) => {
            if summary.has_locks {
                // Until the clone has opened its files anew it has part in the locks: one that the
                // rank gives up by closing its file would stay.
                sys::wait_readable(manager_end, DETACHED_IN);
            }
            let timings = Timings {
                prepare: begin - start,
                clone: sys::now() - begin,
            };
            Ok(Taken::Continued(
                imager.continued(plan, pid, is_direct, summary, timings),
            ))
        }
        Err(errno) => {
            plan.streams.undo();
            [wait, manager_end].into_iter().for_each(sys::close);
            Err(Refused::system("clone the process", errno))
        }
    }
}

impl Imager {
    /// Whether this process is a child of the manager.
    fn is_direct(&self) -> bool {
        self.settings.manager > 0 && sys::parent() == self.settings.manager
    }

    fn continued(
        &mut self,
        plan: Plan,
        pid: i32,
        is_managers_child: bool,
        summary: Summary,
        timings: Timings,
    ) -> Image {
        if !is_managers_child {
            self.twins.push(pid);
        }
        sys::close(plan.wait);
        plan.streams.keep(&mut self.pipes);
        let [stdout, stderr] = plan.streams.read_ends();
        // SAFETY: these descriptors were made here, and nobody else has them.
        let own = |fd: RawFd| unsafe { OwnedFd::from_raw_fd(fd) };
        Image {
            pid,
            wait: own(plan.manager_end),
            stdout: stdout.map(own),
            stderr: stderr.map(own),
            is_managers_child,
            summary,
            timings,
        }
    }

    /// Takes away dead twins that are this process's own children; the manager cannot.
    fn reap(&mut self) {
        self.twins.retain(|&pid| {
            let flags = libc::WNOHANG | libc::__WALL;
            // SAFETY: no status is asked for.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), flags) == 0 }
        });
    }
}

/// What this process and its manager have in common.
fn inherited(settings: &Settings) -> Vec<(RawFd, (u64, u64))> {
    let all = manifest::descriptors(settings.block).unwrap_or_default();
    let is_common = |d: &&manifest::Descriptor| {
        let path = sys::Path::new(format_args!("/proc/{}/fd/{}", settings.manager, d.fd));
        settings.manager > 0 && sys::status_of(path.as_c_str()) == Ok(d.file)
    };
    all.iter()
        .filter(is_common)
        .map(|d| (d.fd, d.file))
        .collect()
}

/// The zygote's end and the manager's end, both in the block.
fn socket_pair(block: RawFd) -> Result<(RawFd, RawFd), Refused> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: the pointer is to two numbers.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    let raised = sys::check(made.into()).and_then(|_| {
        let first = sys::raise(ends[0], block);
        let second = first.and_then(|_| sys::raise(ends[1], block));
        ends.into_iter().for_each(sys::close);
        match (first, second) {
            (Ok(first), Err(errno)) => {
                sys::close(first);
                Err(errno)
            }
            (first, second) => Ok((first?, second?)),
        }
    });
    raised.map_err(|errno| Refused::system("make the twin's socket", errno))
}

/// Tells the rest of this crate that the process is another one now.
fn became_another() {
    checkpoint_request::rebind();
}
