//! The frozen clone of a process.
//!
//! [`take`] makes one with a raw `clone`: neither `fork` nor `_Fork`, whose own work takes locks
//! that the interrupted program may hold. The clone is a *zygote*: it never becomes the rank. It
//! closes the library's descriptors, blocks every signal and waits on a socket of its own. For each
//! restore it clones a *runner*, in which [`take`] returns the second time, and continues to wait.
//! When the manager's end of the socket is closed, it ends.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use rejoin_image_format::ImageNumber;

pub use crate::children::NAME;
use crate::error::Refused;
use crate::host_barrier::BarrierPass;
use crate::manifest::{self, Manifest};
pub use crate::manifest::{
    InputPipe, LateMemory, Overwritten, Summary, WrittenFile, keep_out_of_images,
};
use crate::sys;
use crate::threads::kernel_state::{self, RegisteredAddresses, Scheduling};
use crate::threads::{CloneSide, Parked};

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

use clone_context::{CloneContext, FirstThread};
pub use imager::{Imager, Settings};
use renewed_streams::RenewedStreams;
pub use taken::{Image, Restored, Taken, Timings};
pub use wire::{BODY_LIMIT, DESCRIPTOR_LIMIT};

/// Takes an image. Returns once in the calling process, and again in each process restored from the
/// image. A restored process is as it was, except for the [`Restored::caveats`]. On
/// [`Taken::Restored`] callers drop their connections without closing them, because the descriptors
/// no longer belong to them.
///
/// All ranks of the host give the images which they take together one `number`, higher than all
/// before. Ranks that share memory wait for each other. If one of them takes no image, it
/// calls [`crate::host_barrier::fail`].
///
/// May be called in a signal handler, with this library's own allocator ([`crate::Arena`]). The
/// other threads of a restored process begin to run when its copy of `parked` is dropped.
///
/// In a restored process the C library still has the old thread numbers. So calls such as
/// `pthread_setaffinity_np` use numbers that are gone, and robust or priority-inheriting locks name
/// dead owners. New numbers would break every lock that the program holds.
///
/// # Errors
/// [`Refused`], with the process and its streams as they were.
pub fn take(imager: &mut Imager, parked: &Parked, number: ImageNumber) -> Result<Taken, Refused> {
    let mut pass = BarrierPass::begin(number)?;
    imager.reap();
    let is_direct = imager.is_direct();
    imager.check_children(is_direct)?;
    imager.read_mappings()?;
    manifest::await_sharers(&imager.mappings(), imager.files_read(), &mut pass)?;
    // Now that no rank changes what they share.
    let all = manifest::descriptors(imager.settings.block)
        .map_err(|errno| Refused::system("list the open files", errno))?;
    let signal = imager.settings.signal;
    let mut remembered = std::mem::take(&mut imager.remembered);
    let is_other = |d: &manifest::Descriptor| imager.is_other(d);
    let manifest = Manifest::capture(
        &all,
        &imager.mappings(),
        signal,
        is_other,
        (&mut remembered, pass.is_together()),
    );
    imager.remembered = remembered;
    let manifest = manifest?;
    pass.end()?;
    imager.note_shared_files(number);
    let (wait, manager_end) = socket_pair(imager.settings.block)?;
    // The last look: the twin compares its memory with the ranges read here.
    let streams = imager
        .read_mappings()
        .and_then(|()| renew_streams(imager, &manifest, &all));
    imager.find_wiped(number);
    let streams = streams.inspect_err(|_| [wait, manager_end].into_iter().for_each(sys::close))?;
    let context = CloneContext {
        wait,
        manager_end,
        streams,
        manifest,
    };
    clone_with(imager, context, parked, is_direct)
}

/// Gives the standard streams new pipes, also in the epoll sets that watch them.
fn renew_streams(
    imager: &Imager,
    manifest: &Manifest,
    all: &[manifest::Descriptor],
) -> Result<RenewedStreams, Refused> {
    let is_stream = |d: &&manifest::Descriptor| imager.pipes.contains(&Some(d.file));
    let numbers: Vec<RawFd> = all.iter().filter(is_stream).map(|d| d.fd).collect();
    manifest.watch(&numbers, false);
    let renewed = RenewedStreams::renew(&imager.pipes, all, imager.settings.block);
    manifest.watch(&numbers, true);
    renewed.map_err(|errno| Refused::system("make new pipes for the standard streams", errno))
}

/// Milliseconds for which a rank with file locks waits at most until its clone shares no open file.
const DETACHED_IN: i32 = 1000;

/// Clones the process, in its first thread.
fn clone_with(
    imager: &mut Imager,
    context: CloneContext,
    parked: &Parked,
    is_direct: bool,
) -> Result<Taken, Refused> {
    let summary = context.manifest.summary();
    let begin = sys::now();
    let mut made = Err(0);
    let mut restored = None;
    parked.in_first_thread(&mut || {
        let thread = FirstThread {
            addresses: RegisteredAddresses::read(),
            name: kernel_state::name(),
            scheduling: Scheduling::read(),
        };
        imager.wiped.mark(false);
        made = clone::clone(is_direct);
        if made != Ok(0) {
            imager.wiped.mark(true);
            return CloneSide::Same;
        }
        let message = zygote::freeze(imager, &context, &thread);
        let cut = message.cut();
        restored = Some((runner::begin(imager, &context, message), cut));
        CloneSide::Clone
    });
    if let Some((mut restored, cut)) = restored {
        restored.late = context.manifest.into_late_memory(cut);
        return Ok(Taken::Restored(restored));
    }
    let pid = made.map_err(|errno| {
        let numbers = context.streams.numbers();
        context.manifest.watch(&numbers, false);
        context.streams.undo();
        context.manifest.watch(&numbers, true);
        [context.wait, context.manager_end]
            .into_iter()
            .for_each(sys::close);
        Refused::system("clone the process", errno)
    })?;
    if summary.has_locks {
        // Until the clone has opened its files anew, it shares the locks. A lock that the rank
        // releases by closing its file would stay.
        sys::wait_readable(context.manager_end, DETACHED_IN);
    }
    let timings = Timings {
        prepare: begin.saturating_sub(parked.since()),
        clone: sys::now() - begin,
    };
    Ok(Taken::Continued(
        imager.continued(context, pid, is_direct, summary, timings),
    ))
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
