//! The main loop of the frozen clone: it waits, and makes runners.

use std::os::fd::RawFd;

use super::clone;
use super::clone_context::{CloneContext, FirstThread};
use super::imager::Imager;
use super::wire::{self, RestoreMessage, ZygoteAnswer};
use crate::children::NAME;
use crate::image::{self, ImageIdentity};
use crate::manifest::Overwritten;
use crate::sys;
use crate::threads::kernel_state::set_name;

/// Added to a twin's OOM score: when memory is short, the twin must end before the rank.
const OOM_RAISE: i32 = 300;
const OOM_MAX: i32 = 1000;

/// Becomes a zygote. Returns in a runner only.
pub(super) fn freeze(
    imager: &mut Imager,
    context: &CloneContext,
    thread: &FirstThread,
) -> RestoreMessage {
    thread.addresses.restore();
    close_block(imager.settings.block, context);
    context.streams.release(context.wait);
    let shared = context.manifest.detach(context.wait);
    set_name(&twin_name());
    let score = OomScore::raise();
    answer(
        context.wait,
        ZygoteAnswer::Frozen {
            missing: imager.missing_bytes(),
            shared,
        },
    );
    let mut ahead = None;
    loop {
        // The manager is gone, and with it the job.
        let Some(message) = wire::receive(context.wait) else {
            sys::exit(0)
        };
        if message.head.flags & wire::PREPARE != 0 {
            if ahead.is_none() {
                match prepare_runner(imager, context, thread) {
                    Side::Zygote(made) => ahead = made,
                    Side::Runner(message) => {
                        score.restore();
                        return message;
                    }
                }
            }
            continue;
        }
        if message.head.flags & wire::SAVE != 0 {
            // A process made from the file has no such runner, and other descriptors.
            if let Some(runner) = ahead.take() {
                sys::close(runner.socket);
            }
            save(imager, (context, thread), &score, &message);
            continue;
        }
        if let Err(overwritten) = check_files(context, &message) {
            answer(context.wait, ZygoteAnswer::Overwritten(overwritten));
            message.descriptors.iter().copied().for_each(sys::close);
            continue;
        }
        drop_signals();
        let taken = ahead.take().and_then(|ahead| ahead.take(&message));
        // The runner becomes a child of the current parent, because this process ends with the next
        // image.
        match taken.map_or_else(|| clone::clone(true), Ok) {
            Ok(0) => {
                thread.addresses.restore();
                sys::close(context.wait);
                set_name(&thread.name);
                score.restore();
                return message;
            }
            Ok(pid) => answer(context.wait, ZygoteAnswer::Running { pid }),
            Err(errno) => answer(context.wait, ZygoteAnswer::Failed { errno }),
        }
        message.descriptors.iter().copied().for_each(sys::close);
    }
}

/// Whether the files that the process writes can be as they were at the image.
fn check_files(context: &CloneContext, message: &RestoreMessage) -> Result<(), Overwritten> {
    match message.accepts_overwritten() {
        true => Ok(()),
        false => context.manifest.check_contents(&message.cut()),
    }
}

/// Saves this process into the file of a request. Returns again in a process that is made from the
/// file, which then waits for restore requests as this one does.
fn save(
    imager: &mut Imager,
    (context, thread): (&CloneContext, &FirstThread),
    score: &OomScore,
    message: &RestoreMessage,
) {
    let parts = message.body.split_first_chunk();
    let (Some((identity, name)), [file, base @ ..]) = (parts, &message.descriptors[..]) else {
        return;
    };
    let (identity, file) = (ImageIdentity::decode(identity), *file);
    let base = base.first().map(|base| (*base, name));
    let program = image::SavedProcess {
        block: imager.settings.block,
        inherited: &imager.inherited,
        manager: imager.settings.manager,
        socket: context.wait,
        file,
        base,
        compression: message.compression(),
        lasts: message.lasts(),
        log_bodies: &imager.log_bodies,
        manifest: &context.manifest,
    };
    match image::save(identity, &program) {
        Ok(image::Saved::Written { bytes }) => {
            message.descriptors.iter().copied().for_each(sys::close);
            answer(context.wait, ZygoteAnswer::Saved { bytes });
        }
        Ok(image::Saved::Restored { socket }) => {
            imager.renew_manager();
            imager.log_is_private = true;
            thread.addresses.restore();
            context.streams.release(socket);
            context.manifest.reserve(socket, &mut imager.remembered);
            set_name(&twin_name());
            thread.scheduling.restore();
            score.raise_again();
            let (missing, shared) = (0, 0);
            answer(socket, ZygoteAnswer::Frozen { missing, shared });
        }
        Ok(image::Saved::Broken(why)) => {
            answer(context.wait, ZygoteAnswer::NotSaved(why));
            sys::exit(1)
        }
        Err(why) => {
            message.descriptors.iter().copied().for_each(sys::close);
            answer(context.wait, ZygoteAnswer::NotSaved(why));
        }
    }
}

/// A runner that was made ahead of time: copying the page tables takes most of a restore.
struct PreparedRunner {
    pid: i32,
    /// This side of its socket; it ends with it.
    socket: RawFd,
}

/// [`NAME`] with zero bytes at its end.
fn twin_name() -> [u8; 16] {
    let mut name = [0; 16];
    name[..NAME.len()].copy_from_slice(NAME.as_bytes());
    name
}

/// The two processes after a clone.
enum Side {
    /// This process, and the runner that it has made.
    Zygote(Option<PreparedRunner>),
    /// The runner, with its request.
    Runner(RestoreMessage),
}

/// Makes a runner ahead of time, which waits for its restore request from this process. This
/// process keeps the request until the runner has it. So the rank is restored even if the runner is
/// killed.
fn prepare_runner(imager: &Imager, context: &CloneContext, thread: &FirstThread) -> Side {
    let mut ends = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: the pointer is to two numbers.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Side::Zygote(None);
    }
    let [socket, theirs] = ends;
    bound_sends(socket);
    // While the rank is this process's parent, a sibling would be a child of the program's.
    match clone::clone(imager.is_direct()) {
        Ok(0) => {
            thread.addresses.restore();
            [socket, context.wait].into_iter().for_each(sys::close);
            let Some(message) = wire::receive(theirs) else {
                sys::exit(0)
            };
            // Signals from before were not meant for a running process; signals after the answer
            // are.
            drop_signals();
            if sys::send(theirs, &[0]) != Ok(1) {
                sys::exit(0)
            }
            sys::close(theirs);
            set_name(&thread.name);
            Side::Runner(message)
        }
        Ok(pid) => {
            sys::close(theirs);
            Side::Zygote(Some(PreparedRunner { pid, socket }))
        }
        Err(_) => {
            ends.into_iter().for_each(sys::close);
            Side::Zygote(None)
        }
    }
}

/// Milliseconds within which a prepared runner reads its request, and again acknowledges it.
const RUNNER_PATIENCE: i32 = 2_000;

impl PreparedRunner {
    /// Passes the request to the runner. Returns the runner's number once it has the request. If
    /// the runner ends before that, or is stopped, another runner can take the request.
    fn take(self, message: &RestoreMessage) -> Option<i32> {
        let taken = wire::pass(self.socket, message) && is_taken(self.socket, RUNNER_PATIENCE);
        sys::close(self.socket);
        taken.then_some(self.pid)
    }
}

/// Whether the runner acknowledges the request within so many milliseconds. If not, it can't do so
/// later: its send fails, and it ends. So there are never two runners of one request.
fn is_taken(socket: RawFd, most: i32) -> bool {
    sys::wait_readable(socket, most);
    if received(socket) {
        return true;
    }
    // SAFETY: touches no memory.
    unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
    // What the runner sent just before is still there.
    received(socket)
}

fn received(socket: RawFd) -> bool {
    let mut byte = 0u8;
    let (at, flags) = ((&raw mut byte).cast(), libc::MSG_DONTWAIT);
    // SAFETY: the pointer is to one byte.
    unsafe { libc::recv(socket, at, 1, flags) == 1 }
}

/// Limits the time for which a send blocks: a runner that is stopped reads nothing.
fn bound_sends(socket: RawFd) {
    let limit = libc::timeval {
        tv_sec: i64::from(RUNNER_PATIENCE / 1000),
        tv_usec: 0,
    };
    let (at, len) = ((&raw const limit).cast(), size_of_val(&limit) as u32);
    // SAFETY: pointer and length describe the limit. A refusal leaves the sends without a limit.
    unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_SNDTIMEO, at, len) };
}

/// Closes the library's descriptors, so that peers see the rank's end though its clone lives.
fn close_block(block: RawFd, context: &CloneContext) {
    sys::close(context.manager_end);
    sys::close_between(block, context.wait);
    sys::close_between(block.max(context.wait + 1), RawFd::MAX);
}

fn answer(socket: RawFd, answer: ZygoteAnswer) {
    // The manager may be gone.
    let _ = sys::send(socket, &answer.encode());
}

/// Drops signals that came while this process was frozen. A runner does not inherit them; here they
/// would take room that the user's other processes share.
fn drop_signals() {
    let set = sys::pending();
    if set == 0 {
        return;
    }
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let none = std::ptr::null_mut::<libc::siginfo_t>();
    for _ in 0..4096 {
        let (set, time) = (&raw const set, &raw const at_once);
        // SAFETY: the pointers are to a set of the size given and to a timespec; no details are
        // asked for.
        if unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, set, none, time, 8) } <= 0 {
            return;
        }
    }
}

/// The OOM score adjustment of the process, as it was.
struct OomScore {
    before: Option<i32>,
}

const OOM_FILE: &std::ffi::CStr = c"/proc/thread-self/oom_score_adj";

impl OomScore {
    fn raise() -> Self {
        let mut text = Vec::new();
        let before = sys::read_file(OOM_FILE, &mut text)
            .ok()
            .and_then(|()| std::str::from_utf8(&text).ok()?.trim().parse::<i32>().ok());
        if let Some(before) = before {
            set_oom_score((before + OOM_RAISE).min(OOM_MAX));
        }
        Self { before }
    }

    /// Raises it once more, in a process that did not inherit it.
    fn raise_again(&self) {
        if let Some(before) = self.before {
            set_oom_score((before + OOM_RAISE).min(OOM_MAX));
        }
    }

    fn restore(&self) {
        self.before.into_iter().for_each(set_oom_score);
    }
}

fn set_oom_score(value: i32) {
    let text = sys::ShortPath::new(format_args!("{value}"));
    if let Ok(fd) = sys::open(OOM_FILE, libc::O_WRONLY) {
        let _ = sys::write_all(fd, text.as_c_str().to_bytes());
        sys::close(fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_runner_that_answers_too_late_does_not_run() {
        let (zygote, runner) = UnixStream::pair().unwrap();
        assert!(!is_taken(zygote.as_raw_fd(), 1));
        assert_eq!(sys::send(runner.as_raw_fd(), &[0]), Err(libc::EPIPE));
    }

    #[test]
    fn a_runner_that_does_not_read_its_request_holds_the_zygote_up_for_a_bounded_time() {
        let (zygote, _runner) = UnixStream::pair().unwrap();
        bound_sends(zygote.as_raw_fd());
        let body = vec![7; wire::BODY_LIMIT];
        let message = RestoreMessage {
            head: wire::RestoreHead {
                flags: 0,
                body: body.len() as u32,
                spared: 0,
                descriptors: 0,
            },
            spared: Vec::new(),
            body,
            descriptors: Vec::new(),
        };
        let start = std::time::Instant::now();
        assert!(!wire::pass(zygote.as_raw_fd(), &message));
        assert!(start.elapsed().as_millis() >= RUNNER_PATIENCE as u128);
    }

    #[test]
    fn a_runner_that_answers_has_the_request() {
        let (zygote, runner) = UnixStream::pair().unwrap();
        assert_eq!(sys::send(runner.as_raw_fd(), &[0]), Ok(1));
        assert!(is_taken(zygote.as_raw_fd(), 1_000));
        // A byte that came between the last poll and the end of the wait counts.
        let (zygote, runner) = UnixStream::pair().unwrap();
        assert_eq!(sys::send(runner.as_raw_fd(), &[0]), Ok(1));
        zygote.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(received(zygote.as_raw_fd()));
    }
}
