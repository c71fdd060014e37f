//! The frozen clone of a process.
//!
//! [`take`] makes one with a raw `clone`: neither `fork` nor `_Fork`, whose own work takes locks
//! that the interrupted program may hold. The clone is a *zygote*: it never becomes the rank. It
//! closes the library's descriptors, blocks every signal and waits on a socket of its own. For each
//! restore it clones a *runner*, in which [`take`] returns the second time, and continues to wait.
//! When the manager's end of the socket is closed, it ends.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use crate::error::Refused;
use crate::manifest::{self, Manifest};
pub use crate::manifest::{InputPipe, Summary, WrittenFile};
use crate::sys;

mod clone;
mod clone_context;
mod image_checks;
mod imager;
pub mod manager;
mod renewed_streams;
mod runner;
mod taken;
mod wire;
mod zygote;

pub use clone::NAME;
use clone_context::CloneContext;
pub use imager::{Imager, Settings};
pub use taken::{Image, Restored, Taken, Timings};
pub use wire::{BODY_LIMIT, DESCRIPTOR_LIMIT};

/// Whether this process has one thread. An image holds no other thread.
#[must_use]
pub fn has_one_thread() -> bool {
    sys::thread_count().is_ok_and(|count| count <= 1)
}

/// Takes an image. Returns once in the calling process, and again in each process restored from the
/// image. A restored process is as it was, except for the [`Restored::caveats`]. On
/// [`Taken::Restored`] callers drop their connections without closing them, because the descriptors
/// no longer belong to them.
///
/// May be called in a signal handler, with this library's own allocator.
///
/// In a restored process the C library still has the old thread number. So `pthread_setaffinity_np`
/// and similar calls on the calling thread use a number that is gone, and robust or
/// priority-inheriting locks that it takes name a dead owner. A new number would break every lock
/// that the interrupted program holds.
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

/// Milliseconds for which a rank with file locks waits at most until its clone shares no open file.
const DETACHED_IN: i32 = 1000;

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
    // The last check: the twin compares its memory with the ranges read here.
    let streams = imager.check_mappings().and_then(|()| {
        renewed_streams::RenewedStreams::renew(&imager.pipes, &all, imager.settings.block)
            .map_err(|errno| Refused::system("make new pipes for the standard streams", errno))
    });
    let streams = streams.inspect_err(|_| [wait, manager_end].into_iter().for_each(sys::close))?;
    let state = clone::ThreadState::read();
    let context = CloneContext {
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
            let message = zygote::freeze(imager, &context);
            Ok(Taken::Restored(runner::begin(imager, &context, message)))
        }
        Ok(pid) => {
            if summary.has_locks {
                // Until the clone has opened its files anew, it shares the locks. A lock that the
                // rank releases by closing its file would stay.
                sys::wait_readable(manager_end, DETACHED_IN);
            }
            let timings = Timings {
                prepare: begin - start,
                clone: sys::now() - begin,
            };
            Ok(Taken::Continued(
                imager.continued(context, pid, is_direct, summary, timings),
            ))
        }
        Err(errno) => {
            context.streams.undo();
            [wait, manager_end].into_iter().for_each(sys::close);
            Err(Refused::system("clone the process", errno))
        }
    }
}

impl Imager {
    fn continued(
        &mut self,
        context: CloneContext,
        pid: i32,
        is_managers_child: bool,
        summary: Summary,
        timings: Timings,
    ) -> Image {
        if !is_managers_child {
            self.twins.push(pid);
        }
        sys::close(context.wait);
        context.streams.keep(&mut self.pipes);
        let [stdout, stderr] = context.streams.read_ends();
        // SAFETY: these descriptors were made here, and no other code has them.
        let own = |fd: RawFd| unsafe { OwnedFd::from_raw_fd(fd) };
        Image {
            pid,
            wait: own(context.manager_end),
            stdout: stdout.map(own),
            stderr: stderr.map(own),
            is_managers_child,
            summary,
            timings,
        }
    }
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
