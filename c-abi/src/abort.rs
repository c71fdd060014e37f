//! The end of the whole job by this process (MPI-5.0 §9.3, §11.4): `MPI_Abort` and fatal errors.
//!
//! Programs call `MPI_Abort` in signal handlers, which the standard does not allow and users need.
//! So this module waits for a lock of the C library only with a limit. If a handler has interrupted
//! this library itself, it touches no state of this library.

use std::ffi::c_int;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::state::AbiState;
use crate::{callback, library_state, state};

/// How long an abort waits until its line and the program's output are written.
const LAST_WORDS_MS: c_int = 500;

/// The parent sees the low byte, which must not look like success.
fn status_of(code: c_int) -> c_int {
    if code & 0xff == 0 { 1 } else { code & 0xff }
}

/// Ends the job: `why` is one line for the user. After the end of MPI, and in a forked child, there
/// is no job to end: this process alone ends, with the same status.
pub fn abort(mpi: &AbiState, code: c_int, why: &str) -> ! {
    let core = mpi.core.get();
    let line = match core {
        Some(core) => format!("rejoin: rank {}: {why}\n", core.rank()),
        None => format!("rejoin: {why}\n"),
    };
    say(line.as_bytes());
    // The streams of a forked child may hold output of the parent.
    if !library_state::is_forked() {
        flush_streams(code);
    }
    end(mpi, code)
}

/// `MPI_Abort` in a signal handler that has interrupted a call of this library.
pub fn abort_inside(mpi: &AbiState, code: c_int) -> ! {
    let mut line = Line::default();
    let rank = mpi.core.get().map_or(0, |core| core.rank().0);
    // A line that is too long is cut.
    let _ = writeln!(
        line,
        "rejoin: rank {rank}: called MPI_Abort with code {code} in a signal handler, inside another call of MPI"
    );
    say(&line.bytes[..line.len]);
    exit(code)
}

/// Whether this call of `MPI_Abort` has interrupted another call: not from a callback, where the
/// program runs.
pub fn is_nested() -> bool {
    callback::calls() > 1
}

fn end(mpi: &AbiState, code: c_int) -> ! {
    if library_state::is_running()
        && let Some(core) = mpi.core.get()
    {
        core.abort(code);
    }
    exit(code)
}

fn exit(code: c_int) -> ! {
    // SAFETY: ends the process without running the program's exit handlers, which may call MPI.
    unsafe { libc::_exit(status_of(code)) }
}

/// A line that needs no allocation.
struct Line {
    bytes: [u8; 160],
    len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            bytes: [0; 160],
            len: 0,
        }
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let n = room.len().min(text.len());
        room[..n].copy_from_slice(&text.as_bytes()[..n]);
        self.len += n;
        if n < text.len() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

/// One write, so that lines of several ranks do not mix, and without a lock of this process. A full
/// pipe does not delay the end of the job. A pipe with any room has room for a line.
fn say(line: &[u8]) {
    let mut stderr = libc::pollfd {
        fd: libc::STDERR_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: both look at memory that lives during the call. No receiver is left for an error.
    unsafe {
        if libc::poll(&raw mut stderr, 1, LAST_WORDS_MS) == 1 {
            libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        }
    }
}

/// The code of the abort, for when the streams take too long.
static CODE: AtomicI32 = AtomicI32::new(1);

/// Writes the program's buffered output, for a limited time: a thread that reads from a stream
/// holds its lock, and a pipe may be full. No helper thread: to make one takes the C library's
/// heap, whose lock the interrupted program may hold.
fn flush_streams(code: c_int) {
    CODE.store(code, Ordering::Relaxed);
    // Without the alarm, streams may take forever.
    if alarm().is_some() {
        // SAFETY: null means all of the program's streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
    }
}

/// Ends the job from where `fflush` hangs.
extern "C" fn give_up(_signal: c_int) {
    // SAFETY: this thread is in `flush_streams`, which uses nothing of the library; other threads
    // are kept out as they were when it was called.
    end(unsafe { state::mpi() }, CODE.load(Ordering::Relaxed))
}

/// A signal for this thread after [`LAST_WORDS_MS`]. The process ends, so its use of `SIGALRM` does
/// no harm.
fn alarm() -> Option<()> {
    let ok = |result: c_int| (result == 0).then_some(());
    // SAFETY: plain C structures, for which zeroes are values, and pointers to variables of ours.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = give_up as extern "C" fn(c_int) as usize;
        ok(libc::sigaction(
            libc::SIGALRM,
            &raw const action,
            std::ptr::null_mut(),
        ))?;
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = std::ptr::null_mut();
        ok(libc::timer_create(
            libc::CLOCK_MONOTONIC,
            &raw mut event,
            &raw mut timer,
        ))?;
        let mut when: libc::itimerspec = std::mem::zeroed();
        when.it_value.tv_nsec = libc::c_long::from(LAST_WORDS_MS) * 1_000_000;
        ok(libc::timer_settime(
            timer,
            0,
            &raw const when,
            std::ptr::null_mut(),
        ))?;
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGALRM);
        ok(libc::pthread_sigmask(
            libc::SIG_UNBLOCK,
            &raw const set,
            std::ptr::null_mut(),
        ))
    }
}
