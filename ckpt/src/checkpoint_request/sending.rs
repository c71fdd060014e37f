//! The manager's side: which thread of a rank takes a request by signal, and when.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::hint::Hint;
use crate::signals::{PARKING_SIGNAL, QueuedSignal};
use crate::{children, proc, sys};

/// Observations of a rank's processes by earlier tries of [`send`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pid: i32,
    /// The thread that the following is about; 0 for none.
    tid: i32,
    /// The thread takes the signal in its own code. No later try found the signal blocked.
    open: bool,
    /// Set when a try found the thread running with the signal unblocked: its processor time in
    /// nanoseconds, and how often it had gone to sleep. A try that finds the signal blocked clears
    /// it.
    ran: Option<(u64, u64)>,
    /// How many tries in a row found this.
    times: u8,
    /// Tries in a row that found no thread that takes the signal as it should.
    shut: u8,
    /// The epoch of the last request past the first thread's mask, when it was sent last, and how
    /// often.
    past_mask: Option<(u32, Instant, u8)>,
    /// The epoch of the last request that waited for a child of the program, plus one, and how
    /// often it did.
    child: (u64, u8),
}

/// Time on a processor, in nanoseconds, after which a thread that never slept is in no call.
const RAN: u64 = 1_000_000;

/// After so many tries in a row that found the thread running with the signal unblocked, it counts
/// as such. A thread on its way out of a wait for signals is not found there several times.
const TIMES: u8 = 4;

/// After so many tries in a row the first thread does not block the signal for a moment only.
const SHUT: u8 = 2;

/// After this time a request goes past the mask again: it may have come when nothing met it.
const PAST_MASK_AGAIN: Duration = Duration::from_secs(1);

/// So often a request goes past the mask. Each time threads stop, and a long write may be cut
/// short.
const PAST_MASK_TIMES: u8 = 3;

/// So often a request waits for a child of the program to end: for more than a second, at the
/// pauses of the caller.
const CHILD_WAITS: u8 = 24;

/// Threads that are looked at, at most, for one that takes the signal.
const MOST_THREADS: usize = 256;

/// Sends a request to the rank that `pidfd` and `pid` name, if a thread of it takes the signal at
/// once: the first one if possible. Otherwise it returns `false`: the request by socket stands, and
/// the caller may try again. The signal would kill a process that changed its disposition or runs
/// another program by now. A program that blocks the signal, or waits for all signals (`sigwait`),
/// would find a signal that is not its own.
///
/// If the first thread keeps the signal from coming, it also gets the signal that parks threads,
/// a few times. Its handler meets the request, unless the C library has replaced it when it
/// made the first further thread, and no image was taken since.
///
/// While the program has a child that is younger than a second, the request waits, because no image
/// holds a child.
///
/// # Errors
/// When the process is gone, or the system refuses.
pub fn send(
    pidfd: BorrowedFd<'_>,
    pid: i32,
    signal: i32,
    epoch: u32,
    seen: &mut Seen,
) -> io::Result<bool> {
    if seen.pid != pid {
        // A process restored from an image blocks the signals that the former process blocked.
        *seen = Seen {
            pid,
            ..Seen::default()
        };
    }
    if seen.waits_for_child(pid, epoch) {
        return Ok(false);
    }
    let first = SignalledThread { pid, tid: pid };
    if first.takes(signal)? {
        seen.shut = 0;
        return seen.send(first, pidfd, signal, epoch);
    }
    seen.shut = seen.shut.saturating_add(1);
    if seen.shut >= SHUT {
        seen.send_past_mask(first, pidfd, signal, epoch)?;
        if let Some(other) = first.another(signal, seen.tid) {
            return seen.send(other, pidfd, signal, epoch);
        }
    }
    seen.forget_thread();
    Ok(false)
}

impl Seen {
    /// Whether the program has a child that may end soon, and this request has not waited for long.
    fn waits_for_child(&mut self, pid: i32, epoch: u32) -> bool {
        let number = u64::from(epoch) + 1;
        let waits = match self.child {
            (known, waits) if known == number => waits,
            _ => 0,
        };
        let youngest = children::youngest(pid, &[]).ok().flatten();
        let is_young = youngest.is_some_and(|child| child.is_young());
        self.child = (number, waits.saturating_add(1));
        is_young && waits < CHILD_WAITS
    }

    fn forget_thread(&mut self) {
        (self.tid, self.open, self.ran, self.times) = (0, false, None, 0);
    }

    /// Sends the request to a thread that takes the signal, unless the thread may have begun to do
    /// so just now: while a thread waits for signals, the system shows them as not blocked.
    fn send(
        &mut self,
        thread: SignalledThread,
        pidfd: BorrowedFd<'_>,
        signal: i32,
        epoch: u32,
    ) -> io::Result<bool> {
        if self.tid != thread.tid {
            self.forget_thread();
            self.tid = thread.tid;
        }
        let before = std::mem::take(&mut self.open);
        let (hint, sleeps) = thread.call();
        let mut status = Vec::with_capacity(4096);
        thread.read("status", &mut status)?;
        if !is_open(&status, signal) {
            return Ok(false);
        }
        // For a runnable thread the system does not report the call that it returns from.
        if !before && !sleeps && !self.runs(thread, &status) {
            return Ok(false);
        }
        (self.open, self.ran, self.times) = (true, None, 0);
        thread.queue(pidfd, signal, hint.with(epoch)).map(|()| true)
    }

    /// Whether a thread has been running with the signal unblocked since the last try, and slept in
    /// no call. `status` is the text of its status file.
    fn runs(&mut self, thread: SignalledThread, status: &[u8]) -> bool {
        self.times += 1;
        if self.times >= TIMES {
            return true;
        }
        let mut text = Vec::with_capacity(64);
        let read = thread.read("schedstat", &mut text).ok();
        let time = read.and_then(|()| proc::words(text.trim_ascii()).next().and_then(proc::number));
        let slept = proc::field(status, "voluntary_ctxt_switches:").and_then(proc::number);
        let Some((ran, slept)) = time.zip(slept) else {
            return false;
        };
        match self.ran {
            Some((then, before)) if slept == before => ran >= then + RAN,
            _ => {
                self.ran = Some((ran, slept));
                false
            }
        }
    }

    /// Sends the request by the signal that parks threads, a few times for each epoch.
    fn send_past_mask(
        &mut self,
        first: SignalledThread,
        pidfd: BorrowedFd<'_>,
        signal: i32,
        epoch: u32,
    ) -> io::Result<()> {
        let mut status = Vec::with_capacity(4096);
        first.read("status", &mut status)?;
        // A process that handles both runs this library, and not another program.
        let is_served = has(&status, "SigCgt:", signal) && is_open(&status, PARKING_SIGNAL);
        if !is_served || first.waits_for(PARKING_SIGNAL) {
            return Ok(());
        }
        let of_epoch = self.past_mask.filter(|(sent, ..)| *sent == epoch);
        let times = of_epoch.map_or(0, |(_, _, times)| times);
        let is_soon = of_epoch.is_some_and(|(_, at, _)| at.elapsed() < PAST_MASK_AGAIN);
        if is_soon || times >= PAST_MASK_TIMES {
            return Ok(());
        }
        self.past_mask = Some((epoch, Instant::now(), times + 1));
        first.queue(pidfd, PARKING_SIGNAL, first.call().0.with(epoch))
    }
}

/// A thread that may take a request by signal.
#[derive(Clone, Copy)]
struct SignalledThread {
    pid: i32,
    tid: i32,
}

impl SignalledThread {
    fn path(self, name: &str) -> sys::ShortPath {
        sys::ShortPath::new(format_args!("/proc/{}/task/{}/{name}", self.pid, self.tid))
    }

    fn read(self, name: &str, text: &mut Vec<u8>) -> io::Result<()> {
        sys::read_file(self.path(name).as_c_str(), text).map_err(io::Error::from_raw_os_error)
    }

    /// Whether the thread handles a signal, does not block it, and does not wait for it.
    fn takes(self, signal: i32) -> io::Result<bool> {
        let mut status = Vec::with_capacity(4096);
        self.read("status", &mut status)?;
        Ok(is_open(&status, signal) && !self.waits_for(signal))
    }

    /// The call in which the thread sleeps, and whether it sleeps in one.
    fn call(self) -> (Hint, bool) {
        let mut text = Vec::with_capacity(256);
        match self.read("syscall", &mut text) {
            Ok(()) => (
                Hint::read(&text),
                text.first().is_some_and(u8::is_ascii_digit),
            ),
            Err(_) => (Hint::none(), false),
        }
    }

    /// Whether the thread is in a call that takes this signal as its result.
    fn waits_for(self, signal: i32) -> bool {
        let mut call = Vec::with_capacity(256);
        if self.read("syscall", &mut call).is_err() {
            return false;
        }
        let mut words = proc::words(call.trim_ascii());
        let number = words.next().and_then(proc::number);
        if number.and_then(|n| i64::try_from(n).ok()) != Some(libc::SYS_rt_sigtimedwait) {
            return false;
        }
        let Some(set) = words.next().and_then(proc::hex) else {
            return true;
        };
        let mut bytes = [0u8; 8];
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid));
        let read = memory.and_then(|memory| memory.read_exact_at(&mut bytes, set));
        // Without the set, assume that the call waits for the signal.
        read.is_err() || u64::from_ne_bytes(bytes) & sys::bit(signal) != 0
    }

    /// Another thread of the process that takes the signal: `last`, or else any other.
    fn another(self, signal: i32, last: i32) -> Option<Self> {
        let mut tids = vec![last];
        let list = sys::ShortPath::new(format_args!("/proc/{}/task", self.pid));
        let _ = sys::numbers_in(list.as_c_str(), |tid| {
            if tids.len() < MOST_THREADS {
                tids.push(tid);
            }
        });
        let others = tids.into_iter().filter(|tid| ![0, self.tid].contains(tid));
        let mut others = others.map(|tid| Self { tid, ..self });
        others.find(|thread| thread.takes(signal).unwrap_or(false))
    }

    /// Sends the signal to this thread. Kernels before Linux 6.9 choose the thread if it is the
    /// first one.
    fn queue(self, pidfd: BorrowedFd<'_>, signal: i32, value: u64) -> io::Result<()> {
        const PIDFD_SIGNAL_THREAD: u32 = 1;
        let info = QueuedSignal::request(signal, value);
        let info = &raw const info;
        let fd = pidfd.as_raw_fd();
        let (pid, tid) = (self.pid, self.tid);
        let send = |flags: u32| {
            // SAFETY: the pointer is to as many bytes as a siginfo has.
            let result =
                unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, info, flags) };
            sys::check(result).map(drop)
        };
        let sent = if tid != pid {
            // SAFETY: as above. The process is this one's child and not reaped yet, so its number
            // is not another's.
            let result =
                unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, info) };
            sys::check(result).map(drop)
        } else {
            match send(PIDFD_SIGNAL_THREAD) {
                Err(libc::EINVAL) => send(0),
                sent => sent,
            }
        };
        sent.map_err(io::Error::from_raw_os_error)
    }
}

/// Whether a thread handles a signal and does not block it, by its status. The first thread of a
/// process stays there as a zombie when it has ended before the others.
fn is_open(status: &[u8], signal: i32) -> bool {
    let state = proc::field(status, "State:").and_then(|state| state.first());
    let has_ended = matches!(state, None | Some(b'Z' | b'X'));
    !has_ended && has(status, "SigCgt:", signal) && !has(status, "SigBlk:", signal)
}

fn has(status: &[u8], name: &str, signal: i32) -> bool {
    let set = proc::field(status, name).and_then(proc::hex).unwrap_or(0);
    set & sys::bit(signal) != 0
}
