//! The frozen clone's own life: it waits, and makes runners.

use std::os::fd::RawFd;

use super::wire::{self, Answer, Message};
use super::{Imager, NAME, Plan, clone};
use crate::sys;

/// How much more willing a twin is to be ended when memory is short: it must go before the rank does.
const MORE_WILLING: i32 = 300;
const MOST_WILLING: i32 = 1000;

/// Becomes a zygote. Returns in a runner only.
pub(super) fn freeze(imager: &Imager, plan: &Plan) -> Message {
    plan.state.restore();
    close_block(imager.settings.block, plan);
    plan.streams.release(plan.wait);
    let shared = plan.manifest.detach();
    let mut name = [0; 16];
    name[..NAME.len()].copy_from_slice(NAME.as_bytes());
    clone::set_name(&name);
    let willing = Willingness::raise();
    answer(
        plan.wait,
        Answer::Frozen {
            missing: imager.missing_bytes(),
            shared,
        },
    );
    loop {
        // The manager is gone, and with it the job.
        let Some(message) = wire::receive(plan.wait) else {
            sys::exit(0)
        };
        if message.head.flags & wire::PREPARE != 0 {
            if let Some(message) = stand_by(imager, plan) {
                willing.restore();
                return message;
            }
            continue;
        }
        drop_signals();
        // Whoever the parent is by now, the runner is to be its child: this process ends with the next image.
        match clone::clone(true) {
            Ok(0) => {
                plan.state.restore();
                awake(plan);
                willing.restore();
                return message;
            }
            Ok(pid) => answer(plan.wait, Answer::Running { pid }),
            Err(errno) => answer(plan.wait, Answer::Failed { errno }),
        }
        message.descriptors.iter().copied().for_each(sys::close);
    }
}

/// What makes a runner of a clone.
fn awake(plan: &Plan) {
    sys::close(plan.wait);
    clone::set_name(&plan.name);
}

/// Makes a runner ahead of time, which waits in the zygote's place: copying the page tables takes most of a wake. Returns
/// the wake in the runner, and nothing in the zygote, once the runner has gone or ended.
fn stand_by(imager: &Imager, plan: &Plan) -> Option<Message> {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return None;
    }
    let [from, to] = ends;
    // While the rank is this process's parent, a sibling would be a child of the program's.
    if clone::clone(imager.is_direct()) == Ok(0) {
        plan.state.restore();
        sys::close(from);
        let Some(message) = wire::receive(plan.wait) else {
            sys::exit(0)
        };
        // What came while this process waited was meant for nobody that runs; what comes after the answer is.
        drop_signals();
        // The zygote listens again. Before the answer: upon that the manager may stop this process, and the next wake must not
        // wait for one that is stopped.
        sys::close(to);
        answer(plan.wait, Answer::Running { pid: sys::pid() });
        awake(plan);
        return Some(message);
    }
    sys::close(to);
    let mut byte = 0u8;
    // Nothing is ever written: this returns at the end. Signals are blocked.
    // SAFETY: the pointer is to one byte.
    unsafe { libc::read(from, (&raw mut byte).cast(), 1) };
    sys::close(from);
    None
}

/// Closes the library's descriptors, so that peers see the rank's end though its clone lives.
fn close_block(block: RawFd, plan: &Plan) {
    sys::close(plan.manager_end);
    sys::close_between(block, plan.wait);
    sys::close_between(block.max(plan.wait + 1), RawFd::MAX);
}

fn answer(socket: RawFd, answer: Answer) {
    let bytes = answer.encode();
    // SAFETY: pointer and length describe `bytes`.
    unsafe {
        libc::send(
            socket,
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
        );
    }
}

/// Drops signals that came while this process was frozen. A runner does not inherit them; here they would take
/// room that the user's other processes share.
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
        // SAFETY: the pointers are to a set of the size given and to a timespec; no details are asked for.
        if unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, set, none, time, 8) } <= 0 {
            return;
        }
    }
}

/// The process's willingness to be ended when memory is short, as it was.
struct Willingness {
    before: Option<i32>,
}

const WILLINGNESS: &std::ffi::CStr = c"/proc/self/oom_score_adj";

impl Willingness {
    fn raise() -> Self {
        let mut text = Vec::new();
        let before = sys::read_file(WILLINGNESS, &mut text)
            .ok()
            .and_then(|()| std::str::from_utf8(&text).ok()?.trim().parse::<i32>().ok());
        if let Some(before) = before {
            set((before + MORE_WILLING).min(MOST_WILLING));
        }
        Self { before }
    }

    fn restore(&self) {
        self.before.into_iter().for_each(set);
    }
}

fn set(value: i32) {
    let text = sys::Path::new(format_args!("{value}"));
    if let Ok(fd) = sys::open(WILLINGNESS, libc::O_WRONLY) {
        let _ = sys::write_all(fd, text.as_c_str().to_bytes());
        sys::close(fd);
    }
}
