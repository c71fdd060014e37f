//! Makes an interruption invisible: the saved registers are changed so that the interrupted call
//! starts again.
//!
//! This also works in a restored process, whose registers were saved at the image.

use libc::{greg_t, timespec};

use crate::hint::{CallSite, Hint};
use crate::signals::SignalAction;
use crate::sys;

mod restarts;
mod sockets;

pub(crate) use restarts::{HandlerStart, Restarts};
use restarts::{R8, R9, R10, RAX, RDI, RDX, RIP, RSI, RSP, Registers, RestartedCall, marked};

const SYSCALL: [u8; 2] = [0x0f, 0x05];
const EINTR: greg_t = -(libc::EINTR as greg_t);
const PAGE: usize = 4096;

/// Calls that may block for long and that the kernel restarts for a handler with SA_RESTART.
/// Another signal may still interrupt them.
const RESTARTED: [i64; 13] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_flock,
];

/// How late a call may return after its time is over, in nanoseconds.
const LATE: u64 = 1_000_000_000;

/// Changes the saved registers as if the signal had not arrived.
///
/// # Safety
/// `context` is what the kernel gave the handler that is running, and `restarts` are this thread's.
pub(crate) unsafe fn settle(
    context: &mut libc::ucontext_t,
    hint: Hint,
    begin: HandlerStart,
    restarts: &Restarts,
) {
    let registers = &mut context.uc_mcontext.gregs;
    let (result, after) = (registers[RAX], registers[RIP] as usize);
    // Its first eight bytes are the kernel's set.
    // SAFETY: a `sigset_t` has at least eight bytes.
    let mask = unsafe {
        (&raw const context.uc_sigmask)
            .cast::<sys::SignalSet>()
            .read()
    };
    let mask = mask | sys::bit(begin.signal);
    // SAFETY: the kernel left the call right after this instruction, so it lies in readable code.
    if result == EINTR && unsafe { is_syscall(after.wrapping_sub(2)) } {
        // A signal of the program's own would have interrupted the call as well, so the program
        // must see the interruption. SAFETY: as above.
        let number = unsafe { number_before(after - 2) };
        let place = place(registers);
        let number = number
            .or_else(|| again(&place, restarts))
            .or_else(|| hint.number_at(&place).map(i64::from));
        if let Some(number) = number.filter(|_| interrupters(mask, true) == 0) {
            restart(registers, number, begin, restarts);
        }
    } else if RESTARTED.contains(&result) && interrupters(mask, false) != 0 {
        // SAFETY: the process is about to run what is there.
        if !unsafe { is_syscall(after) } {
            return;
        }
        registers[RAX] = EINTR;
        registers[RIP] += 2;
    }
}

/// Futex operations whose futex holds the number of its owner.
const WITH_OWNER: [i32; 3] = [
    libc::FUTEX_LOCK_PI,
    libc::FUTEX_LOCK_PI2,
    libc::FUTEX_WAIT_REQUEUE_PI,
];

/// Whether the interrupted thread waits in the kernel for the owner of a futex.
pub(crate) fn waits_for_owner(context: &libc::ucontext_t) -> bool {
    let registers = &context.uc_mcontext.gregs;
    let operation =
        registers[RSI] as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    registers[RAX] == libc::SYS_futex
        && WITH_OWNER.contains(&operation)
        // SAFETY: the thread is about to run what is there.
        && unsafe { is_syscall(registers[RIP] as usize) }
}

fn place(registers: &Registers) -> CallSite {
    [RDI, RSI, RDX, R10, R8, R9, RSP, RIP].map(|which| registers[which] as u64)
}

/// # Safety
/// Code lies at `at`.
unsafe fn is_syscall(at: usize) -> bool {
    // Not over a page's end, where nothing may be mapped.
    if at % PAGE > PAGE - 2 {
        return false;
    }
    // SAFETY: the caller's word.
    unsafe { (at as *const [u8; 2]).read_unaligned() == SYSCALL }
}

/// The call's number, from `mov $number,%eax` right before the instruction, or with plain moves
/// between.
///
/// # Safety
/// Code lies at `at`.
unsafe fn number_before(at: usize) -> Option<i64> {
    let room = at % PAGE;
    let length = room.min(32);
    // SAFETY: these bytes lie before the instruction and in its page.
    let code = unsafe { std::slice::from_raw_parts((at - length) as *const u8, length) };
    immediate(code)
}

/// The constant that the end of `code` leaves in `eax`.
fn immediate(mut code: &[u8]) -> Option<i64> {
    loop {
        if let [.., 0xb8, a, b, 0, 0] = *code {
            let number = u16::from_le_bytes([a, b]);
            return (number < 512).then_some(number.into());
        }
        let skip = plain_move(code)?;
        code = &code[..code.len() - skip];
    }
}

/// The length of the instruction at the end of `code`, when it only moves or clears a register
/// other than `rax`.
fn plain_move(code: &[u8]) -> Option<usize> {
    // mov or xor between registers, 64 bits or with an extended register: the written one is in the
    // last byte.
    if let [
        ..,
        prefix @ 0x41..=0x4f,
        0x89 | 0x31,
        registers @ 0xc0..=0xff,
    ] = *code
    {
        let is_rax = prefix & 1 == 0 && registers & 7 == 0;
        return (!is_rax).then_some(3);
    }
    if let [.., 0x89 | 0x31, registers @ 0xc0..=0xff] = *code {
        return (registers & 7 != 0).then_some(2);
    }
    None
}

/// Signals that are delivered as soon as the handler returns and whose handlers interrupt a call.
/// With `any`, this includes handlers with SA_RESTART, for calls that never restart.
fn interrupters(mask: sys::SignalSet, any: bool) -> sys::SignalSet {
    let waiting = sys::pending() & !mask;
    if waiting == 0 {
        return 0;
    }
    let all = (1..=64).filter(|&signal| waiting & sys::bit(signal) != 0);
    all.filter(|&signal| interrupts(signal, any))
        .fold(0, |set, signal| set | sys::bit(signal))
}

fn interrupts(signal: i32, any: bool) -> bool {
    let action = SignalAction::read(signal);
    action.has_handler() && (any || action.flags & libc::SA_RESTART as u64 == 0)
}

/// Restarts the call with the rest of its time.
fn restart(registers: &mut Registers, number: i64, begin: HandlerStart, restarts: &Restarts) {
    match number {
        // The descriptor is closed although the call returns EINTR. Its number may be in use again.
        libc::SYS_close => return,
        libc::SYS_nanosleep => {
            let first = written_or(registers, RSI, RDI);
            rest_of_time(registers, RDI, first, begin, restarts);
        }
        libc::SYS_clock_nanosleep if registers[RSI] & libc::TIMER_ABSTIME as greg_t == 0 => {
            if has_monotonic_rate(registers[RDI]) {
                let first = written_or(registers, R10, RDX);
                rest_of_time(registers, RDX, first, begin, restarts);
            } else {
                rest_of_sleep(registers, RDX, R10, restarts);
            }
        }
        libc::SYS_poll => rest_of_milliseconds(registers, RDX, begin, restarts),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
            rest_of_milliseconds(registers, R10, begin, restarts)
        }
        libc::SYS_rt_sigtimedwait => {
            rest_of_time(registers, RDX, registers[RDX], begin, restarts);
        }
        libc::SYS_epoll_pwait2 | libc::SYS_semtimedop => {
            rest_of_time(registers, R10, registers[R10], begin, restarts)
        }
        libc::SYS_futex if is_relative_wait(registers[RSI]) => {
            rest_of_time(registers, R10, registers[R10], begin, restarts)
        }
        number if sockets::is_over(registers, number, begin, restarts) => return,
        _ => {}
    }
    // SAFETY: see `Restarts`.
    unsafe { *restarts.last.get() = (place(registers), number) };
    registers[RAX] = number;
    registers[RIP] -= 2;
}

/// The number of the call that was started again last, if this is the same one.
fn again(place: &CallSite, restarts: &Restarts) -> Option<i64> {
    // SAFETY: see `Restarts`.
    let (last, number) = unsafe { *restarts.last.get() };
    (last == *place).then_some(number)
}

fn is_relative_wait(operation: greg_t) -> bool {
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    operation as i32 & !flags == libc::FUTEX_WAIT
}

/// Whether a sleep on this clock takes as long as on the monotonic one.
fn has_monotonic_rate(clock: greg_t) -> bool {
    matches!(
        clock as i32,
        libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME | libc::CLOCK_TAI
    )
}

/// The place of the rest of a sleep's time, which the kernel has written if the call named one, or
/// else of its time.
fn written_or(registers: &Registers, rest: usize, request: usize) -> greg_t {
    match registers[rest] {
        0 => registers[request],
        place => place,
    }
}

/// A sleep on a clock of its own, such as that of a processor's time: only the kernel knows the
/// rest. It writes the rest if the call gave it a place. The restarted call always gives one.
fn rest_of_sleep(registers: &mut Registers, request: usize, rest: usize, restarts: &Restarts) {
    if registers[rest] != 0 {
        registers[request] = registers[rest];
    } else {
        registers[rest] = restarts.time.get() as greg_t;
    }
}

fn nanoseconds(time: timespec) -> u64 {
    (time.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec as u64)
}

fn time_of(nanoseconds: u64) -> timespec {
    timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as i64,
        tv_nsec: (nanoseconds % 1_000_000_000) as i64,
    }
}

/// A time-out in milliseconds, in the lower half of its register. The mark in the upper half tells
/// the restarted call from the program's next one, which may have the same time-out.
fn rest_of_milliseconds(
    registers: &mut Registers,
    which: usize,
    begin: HandlerStart,
    restarts: &Restarts,
) {
    let argument = registers[which];
    if argument as i32 <= 0 {
        return;
    }
    // SAFETY: see `Restarts`.
    let call = unsafe { &mut *restarts.call.get() };
    let now = sys::now();
    let is_known = argument == marked(argument)
        && (call.stack, call.code, call.argument) == (registers[RSP], registers[RIP], argument)
        && begin.time <= call.deadline + LATE;
    let left = if is_known {
        call.deadline.saturating_sub(begin.counted())
    } else {
        argument as i32 as u64 * 1_000_000
    };
    *call = RestartedCall {
        stack: registers[RSP],
        code: registers[RIP],
        argument: marked(left.div_ceil(1_000_000) as greg_t),
        deadline: now + left,
    };
    registers[which] = call.argument;
}

/// A relative time. A copy of `first` replaces it at the first restart, and later restarts shorten
/// the copy. A sleep needs that, too: the rest that the kernel writes includes the slack of the
/// timer, and would grow by it with each restart.
fn rest_of_time(
    registers: &mut Registers,
    which: usize,
    first: greg_t,
    begin: HandlerStart,
    restarts: &Restarts,
) {
    let (time, place) = (restarts.time.get(), registers[which]);
    if place == 0 {
        return;
    }
    // SAFETY: see `Restarts`; the kernel has read the program's time from its place, or written
    // the rest there.
    unsafe {
        let call = &mut *restarts.call.get();
        if place == time as greg_t {
            let left = call.deadline.saturating_sub(begin.counted());
            call.deadline = sys::now() + left;
            *time = time_of(left);
        } else {
            *time = (first as *const timespec).read_unaligned();
            call.deadline = sys::now().saturating_add(nanoseconds(*time));
            registers[which] = time as greg_t;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_behind_plain_moves() {
        assert_eq!(immediate(&[0xb8, 7, 0, 0, 0]), Some(7));
        // mov $0xe6,%eax; mov %rsi,%rdx; xor %r8d,%r8d
        let code = [
            0x90, 0xb8, 0xe6, 0, 0, 0, 0x48, 0x89, 0xf2, 0x45, 0x31, 0xc0,
        ];
        assert_eq!(immediate(&code), Some(0xe6));
        // mov %rdi,%rax takes the number from elsewhere.
        assert_eq!(immediate(&[0xb8, 7, 0, 0, 0, 0x48, 0x89, 0xf8]), None);
        assert_eq!(immediate(&[0xb8, 7, 0, 1, 0]), None);
        assert_eq!(immediate(&[]), None);
    }

    /// What the kernel takes for the time-out.
    fn milliseconds(registers: &Registers) -> i32 {
        registers[RDX] as i32
    }

    #[test]
    fn a_time_out_does_not_start_anew_twice() {
        let mut registers: Registers = [0; 23];
        // SAFETY: all zeros is a state without restarted calls.
        let restarts: Restarts = unsafe { std::mem::zeroed() };
        (registers[RSP], registers[RIP], registers[RDX]) = (1, 2, 50_000);
        rest_of_milliseconds(&mut registers, RDX, HandlerStart::now(1), &restarts);
        assert_eq!(milliseconds(&registers), 50_000);
        let mut last = milliseconds(&registers);
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(2));
            rest_of_milliseconds(&mut registers, RDX, HandlerStart::now(1), &restarts);
            assert!(milliseconds(&registers) < last);
            last = milliseconds(&registers);
        }
        // Another call starts with its own time.
        registers[RDX] = 50_000;
        rest_of_milliseconds(&mut registers, RDX, HandlerStart::now(1), &restarts);
        assert_eq!(milliseconds(&registers), 50_000);
    }

    #[test]
    fn the_next_call_does_not_end_with_the_time_of_the_last() {
        let mut registers: Registers = [0; 23];
        // SAFETY: all zeros is a state without restarted calls.
        let restarts: Restarts = unsafe { std::mem::zeroed() };
        (registers[RSP], registers[RIP], registers[RDX]) = (1, 2, 50);
        rest_of_milliseconds(&mut registers, RDX, HandlerStart::now(1), &restarts);
        rest_of_milliseconds(&mut registers, RDX, HandlerStart::now(1), &restarts);
        let last = milliseconds(&registers);
        std::thread::sleep(std::time::Duration::from_millis(50));
        registers[RDX] = last.into();
        rest_of_milliseconds(&mut registers, RDX, HandlerStart::now(1), &restarts);
        assert_eq!(milliseconds(&registers), last);
    }
}
