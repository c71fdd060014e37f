//! Event counters, timers and signal sets with descriptors (`eventfd`, `timerfd`, `signalfd`).

use std::os::fd::RawFd;

use super::super::description::Description;
use crate::{proc, sys};

/// `ioctl`: sets the number of expirations that were not read (`TFD_IOC_SET_TICKS`).
const SET_TICKS: u64 = 0x4008_5400;

/// What a descriptor counts or waits for.
enum Kind {
    Counter {
        count: u64,
        is_semaphore: bool,
    },
    Timer {
        clock: i32,
        is_absolute: bool,
        /// With the time of the clock at which it expires, if it is absolute.
        setting: libc::itimerspec,
        /// Expirations that were not read.
        unread: u64,
    },
    Signals {
        mask: u64,
    },
}

/// An event counter, timer or signal set with a descriptor.
pub(super) struct EventSource {
    description: Description,
    kind: Kind,
}

impl EventSource {
    /// Reads it. `name` is that of the kernel; `None` for other kinds of descriptors.
    pub fn capture(name: &[u8], description: Description) -> Option<sys::Sys<Self>> {
        let fd = description.number();
        let kind = match name {
            b"anon_inode:[eventfd]" => counter(fd),
            b"anon_inode:[timerfd]" => timer(fd),
            b"anon_inode:[signalfd]" => signals(fd),
            _ => return None,
        };
        Some(kind.map(|kind| Self { description, kind }))
    }

    /// The open file description, with all numbers.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Makes it anew.
    pub fn restore(&self) -> sys::Sys<()> {
        let new = match &self.kind {
            Kind::Counter {
                count,
                is_semaphore,
            } => new_counter(*count, *is_semaphore)?,
            Kind::Timer { .. } => self.new_timer()?,
            Kind::Signals { mask } => {
                // SAFETY: the pointer is to a set of the size given.
                let made = unsafe {
                    libc::syscall(
                        libc::SYS_signalfd4,
                        -1,
                        std::ptr::from_ref(mask),
                        8,
                        libc::SFD_CLOEXEC,
                    )
                };
                sys::check(made)? as RawFd
            }
        };
        self.description.install(new)
    }

    fn new_timer(&self) -> sys::Sys<RawFd> {
        let Kind::Timer {
            clock,
            is_absolute,
            setting,
            unread,
        } = &self.kind
        else {
            return Err(libc::EINVAL);
        };
        // SAFETY: touches no memory.
        let new = sys::check(unsafe { libc::timerfd_create(*clock, libc::TFD_CLOEXEC) }.into())?;
        let new = new as RawFd;
        let flags = if *is_absolute {
            libc::TFD_TIMER_ABSTIME
        } else {
            0
        };
        if is_set(setting) {
            // SAFETY: the pointer is to an itimerspec; the old value is not asked for.
            let set = unsafe { libc::timerfd_settime(new, flags, setting, std::ptr::null_mut()) };
            sys::check(set.into())?;
        }
        if *unread > 0 {
            // SAFETY: the pointer is to a number.
            let set = unsafe { libc::ioctl(new, SET_TICKS, std::ptr::from_ref(unread)) };
            if set != 0 && !is_set(setting) {
                // Without that request: a timer that expires at once.
                let mut at_once = *setting;
                at_once.it_value.tv_nsec = 1;
                // SAFETY: as above.
                unsafe { libc::timerfd_settime(new, 0, &raw const at_once, std::ptr::null_mut()) };
            }
        }
        Ok(new)
    }
}

fn is_set(setting: &libc::itimerspec) -> bool {
    (setting.it_value.tv_sec, setting.it_value.tv_nsec) != (0, 0)
}

/// The kernel's text about a descriptor.
pub(super) fn information(fd: RawFd) -> sys::Sys<Vec<u8>> {
    let path = sys::ShortPath::new(format_args!("/proc/thread-self/fdinfo/{fd}"));
    let mut text = Vec::new();
    sys::read_file(path.as_c_str(), &mut text)?;
    Ok(text)
}

fn counter(fd: RawFd) -> sys::Sys<Kind> {
    let text = information(fd)?;
    let count = proc::field(&text, "eventfd-count:").and_then(proc::hex);
    let count = count.ok_or(libc::EIO)?;
    // Before Linux 6.5 the system does not tell.
    let is_semaphore = match proc::field(&text, "eventfd-semaphore:") {
        Some(value) => value == b"1",
        None => counts_down(fd, count)?,
    };
    Ok(Kind::Counter {
        count,
        is_semaphore,
    })
}

/// Whether a read takes one from the counter. Tries it, and puts back what it took.
fn counts_down(fd: RawFd, count: u64) -> sys::Sys<bool> {
    let add = |value: u64| sys::write_all(fd, &value.to_ne_bytes());
    if count > u64::MAX - 8 {
        return Err(libc::EOVERFLOW);
    }
    add(2)?;
    if take(fd)? != 1 {
        if count > 0 {
            add(count)?;
        }
        return Ok(false);
    }
    take(fd)?;
    Ok(true)
}

/// Reads a counter that is not zero.
fn take(fd: RawFd) -> sys::Sys<u64> {
    let mut value = 0u64;
    // SAFETY: the pointer is to as many bytes.
    let count = unsafe { libc::read(fd, (&raw mut value).cast(), 8) };
    sys::check(count as i64).map(|_| value)
}

fn new_counter(count: u64, is_semaphore: bool) -> sys::Sys<RawFd> {
    let flag = if is_semaphore { libc::EFD_SEMAPHORE } else { 0 };
    // SAFETY: touches no memory.
    let new = sys::check(unsafe { libc::eventfd(0, flag | libc::EFD_CLOEXEC) }.into())? as RawFd;
    if count > 0 {
        sys::write_all(new, &count.to_ne_bytes())?;
    }
    Ok(new)
}

/// How often a timer is looked at that does not seem to be set. It may be at its expiration: the
/// kernel then shows no time that is left, and has not counted the expiration yet.
const MOST_LOOKS: u32 = 64;

fn timer(fd: RawFd) -> sys::Sys<Kind> {
    let zero = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut setting = libc::itimerspec {
        it_interval: zero,
        it_value: zero,
    };
    for _ in 0..MOST_LOOKS {
        // First, because it counts expirations that the text then has.
        // SAFETY: the pointer is to an itimerspec.
        sys::check(unsafe { libc::timerfd_gettime(fd, &raw mut setting) }.into())?;
        if is_set(&setting) {
            break;
        }
    }
    let text = information(fd)?;
    let field = |name| proc::field(&text, name).and_then(proc::number);
    let clock = field("clockid:").ok_or(libc::EIO)? as i32;
    let unread = field("ticks:").ok_or(libc::EIO)?;
    // In octal: bit 0 is TFD_TIMER_ABSTIME.
    let flags = proc::field(&text, "settime flags:").and_then(|value| value.last());
    let is_absolute = flags.is_some_and(|digit| digit & 1 != 0) && is_set(&setting);
    if is_absolute {
        let mut now = zero;
        // SAFETY: the pointer is to a timespec.
        sys::check(unsafe { libc::clock_gettime(clock, &raw mut now) }.into())?;
        setting.it_value.tv_sec += now.tv_sec;
        setting.it_value.tv_nsec += now.tv_nsec;
        if setting.it_value.tv_nsec >= 1_000_000_000 {
            setting.it_value.tv_sec += 1;
            setting.it_value.tv_nsec -= 1_000_000_000;
        }
    }
    Ok(Kind::Timer {
        clock,
        is_absolute,
        setting,
        unread,
    })
}

fn signals(fd: RawFd) -> sys::Sys<Kind> {
    let text = information(fd)?;
    let mask = proc::field(&text, "sigmask:").and_then(proc::hex);
    let mask = mask.ok_or(libc::EIO)?;
    Ok(Kind::Signals { mask })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_count_down_are_known_without_the_kernels_word() {
        for (count, is_semaphore) in [(0, false), (1, false), (7, false), (0, true), (1, true)] {
            let fd = new_counter(count, is_semaphore).expect("a counter");
            assert_eq!(counts_down(fd, count), Ok(is_semaphore), "{count}");
            let Ok(Kind::Counter { count: left, .. }) = counter(fd) else {
                panic!("no counter");
            };
            assert_eq!(left, count);
            sys::close(fd);
        }
    }
}
