//! Calls whose time-out is that of their socket (`SO_RCVTIMEO`, `SO_SNDTIMEO`).
//!
//! No argument holds that time, so the handler can't give the call its rest. A restarted call gets
//! its whole time again. When the call's time is already over, the handler ends it as the system
//! would. Otherwise frequent requests would keep it waiting forever.

use std::mem::size_of;

use libc::{c_void, greg_t, timeval};

use super::restarts::{
    HandlerStart, RAX, RDI, RIP, RSP, Registers, RestartedCall, Restarts, marked,
};
use crate::sys;

/// The socket option that limits the time of a call, if there is one.
fn option(number: i64) -> Option<libc::c_int> {
    match number {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => Some(libc::SO_RCVTIMEO),
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_connect => Some(libc::SO_SNDTIMEO),
        _ => None,
    }
}

/// Counts the time of such a call. The mark in its descriptor's register tells it from the next
/// call that the program makes at that place. Returns whether it is over. Then the registers hold
/// the call's result, and the call must not be restarted.
pub(super) fn is_over(
    registers: &mut Registers,
    number: i64,
    begin: HandlerStart,
    restarts: &Restarts,
) -> bool {
    let Some(length) = option(number).and_then(|option| time_of(registers[RDI] as i32, option))
    else {
        return false;
    };
    // SAFETY: see `Restarts`.
    let call = unsafe { &mut *restarts.call.get() };
    let marked = marked(registers[RDI]);
    let place = (registers[RSP], registers[RIP], registers[RDI]);
    let now = sys::now();
    if registers[RDI] != marked || (call.stack, call.code, call.argument) != place {
        registers[RDI] = marked;
        *call = RestartedCall {
            stack: registers[RSP],
            code: registers[RIP],
            argument: marked,
            deadline: now.saturating_add(length),
        };
        return false;
    }
    let left = call.deadline.saturating_sub(begin.counted());
    call.deadline = now.saturating_add(left);
    if left == 0 {
        registers[RAX] = match number {
            libc::SYS_connect => -greg_t::from(libc::EINPROGRESS),
            _ => -greg_t::from(libc::EAGAIN),
        };
    }
    left == 0
}

/// A socket's time-out in nanoseconds; `None` without one, and for a descriptor that is no socket.
fn time_of(fd: i32, option: libc::c_int) -> Option<u64> {
    let mut time = timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let mut size = size_of::<timeval>() as libc::socklen_t;
    let place = (&raw mut time).cast::<c_void>();
    // SAFETY: pointer and size describe `time`.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, place, &mut size) };
    let length = time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (result == 0 && length > 0).then_some(length)
}
