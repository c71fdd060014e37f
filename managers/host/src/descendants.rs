//! Every process below this one: finding, signalling, reaping.
//!
//! Managers are child subreapers, so a process whose parent died comes back to the nearest living
//! manager. Whatever the ranks started can be found and ended this way.

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid, getpgrp};
use procfs::process::{Process, Stat};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

/// Makes this process the one that inherits orphans below it.
pub fn become_subreaper() {
    if prctl::set_child_subreaper(true).is_err() {
        tracing::warn!("this kernel has no subreapers: orphans of ranks may stay behind");
    }
}

/// The children of a process, of all its threads.
#[must_use]
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = process(pid).and_then(|process| process.tasks().ok());
    let mut tasks = tasks.into_iter().flatten().flatten().peekable();
    if tasks.peek().is_none() {
        return Vec::new();
    }
    let lists: Vec<Vec<u32>> = tasks.filter_map(|task| task.children().ok()).collect();
    if lists.is_empty() && process(pid).is_some() {
        return children_by_parent(pid);
    }
    lists.concat()
}

/// For kernels without CONFIG_PROC_CHILDREN.
fn children_by_parent(parent: u32) -> Vec<u32> {
    let all = procfs::process::all_processes().into_iter().flatten();
    let pids = all.flatten().map(|process| process.pid().cast_unsigned());
    pids.filter(|&pid| parent_of(pid) == Some(parent)).collect()
}

fn process(pid: u32) -> Option<Process> {
    Process::new(pid.try_into().ok()?).ok()
}

/// The kernel's data about a process, while the process exists.
#[must_use]
pub fn stat(pid: u32) -> Option<Stat> {
    process(pid)?.stat().ok()
}

/// Bytes of memory of a process that are of no file, while the process exists.
#[must_use]
pub fn memory_of(pid: u32) -> Option<u64> {
    let kibibytes = process(pid)?.status().ok()?.rssanon?;
    Some(kibibytes.saturating_mul(1024))
}

/// The process that a process comes from, as long as it is there.
#[must_use]
pub fn parent_of(pid: u32) -> Option<u32> {
    stat(pid)?.ppid.try_into().ok()
}

/// Every process below this one, parents before their children.
#[must_use]
pub fn all() -> Vec<u32> {
    below(std::process::id())
}

/// Every process below one, parents before their children.
#[must_use]
pub fn below(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut queue = VecDeque::from([pid]);
    while let Some(pid) = queue.pop_front() {
        for child in children(pid) {
            found.push(child);
            queue.push_back(child);
        }
    }
    found
}

/// Sends a signal to every process below this one. Returns how many there were.
pub fn signal_all(signal: i32) -> usize {
    let pids = all();
    for &pid in &pids {
        send(pid, signal);
    }
    pids.len()
}

/// Sends a signal to one process.
pub fn send(pid: u32, signal: i32) {
    // Not to init, to a group or to everyone.
    if let (Ok(pid @ 2..), Ok(signal)) = (i32::try_from(pid), Signal::try_from(signal)) {
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// The process group of a process, unless it is this process's own.
#[must_use]
pub fn group_of(pid: u32) -> Option<u32> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?);
    let group = getpgid(Some(pid)).ok().filter(|group| *group != getpgrp());
    u32::try_from(group?.as_raw()).ok()
}

/// Sends a signal to a process group.
pub fn send_group(leader: u32, signal: i32) {
    if let (Ok(leader @ 2..), Ok(signal)) = (i32::try_from(leader), Signal::try_from(signal)) {
        let _ = killpg(Pid::from_raw(leader), signal);
    }
}

/// This child is stopped, has ended, or is none any more.
#[must_use]
pub fn is_still(pid: u32) -> bool {
    // SAFETY: siginfo_t is plain data for which all zeros is a value; the call only fills it in.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WSTOPPED | libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_PID, pid, &mut info, options) == 0 {
            return info.si_pid() != 0;
        }
    }
    // No child of ours: a wrapper's.
    state_of(pid).is_none_or(|state| matches!(state, 'T' | 't' | 'Z' | 'X'))
}

/// Whether this process has released all its resources, or does not exist any more.
#[must_use]
pub fn has_ended(pid: u32) -> bool {
    state_of(pid).is_none_or(|state| matches!(state, 'Z' | 'X'))
}

/// Whether a process has locks of files (proc_pid_fdinfo(5)); those of one that is not ours to look
/// at go unseen.
#[must_use]
pub fn has_locks(pid: u32) -> bool {
    let Ok(all) = std::fs::read_dir(format!("/proc/{pid}/fdinfo")) else {
        return false;
    };
    all.flatten().any(|one| {
        let text = std::fs::read(one.path()).unwrap_or_default();
        text.windows(6).any(|window| window == b"\nlock:")
    })
}

/// The rank that a process was started as, or that it is a clone of.
#[must_use]
pub fn rank_of(pid: u32) -> Option<u32> {
    let environment = process(pid)?.environ().ok()?;
    let value = environment.get(OsStr::new("REJOIN_RANK"))?;
    value.to_str()?.parse().ok()
}

/// A child that is stopped and is still a copy of this process: it has not become its program.
#[must_use]
pub fn is_stopped_clone(pid: u32) -> bool {
    state_of(pid) == Some('T') && has_our_program(pid)
}

/// A process runs the program of this one, as a child does until its exec.
#[must_use]
pub fn has_our_program(pid: u32) -> bool {
    let program = |pid| process(pid)?.exe().ok();
    program(pid).is_some_and(|exe| Some(exe) == program(std::process::id()))
}

/// The kernel's letter for the state of a process.
#[must_use]
pub fn state_of(pid: u32) -> Option<char> {
    Some(stat(pid)?.state)
}

/// The kernel's letter for the state of a process, and its processor time so far, in ticks of the
/// system.
#[must_use]
pub fn state_and_time(pid: u32) -> Option<(char, u64)> {
    let stat = stat(pid)?;
    Some((stat.state, stat.utime.saturating_add(stat.stime)))
}

/// This process is a child of ours that was not reaped.
#[must_use]
pub fn is_own_child(pid: u32) -> bool {
    parent_of(pid) == Some(std::process::id())
}

/// An ended child that was not reaped yet, without reaping it.
#[must_use]
pub fn ended_child() -> Option<u32> {
    // SAFETY: siginfo_t is plain data for which all zeros is a value; the call only fills it in.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_ALL, 0, &mut info, options) != 0 {
            return None;
        }
        u32::try_from(info.si_pid()).ok().filter(|&pid| pid != 0)
    }
}

/// Reaps one ended child and returns its wait status, as `waitpid` gives it.
pub fn reap(pid: u32) -> Option<i32> {
    let pid = i32::try_from(pid).ok().filter(|&pid| pid > 0)?;
    let mut status = 0;
    // SAFETY: status is a valid place for the result.
    let got = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
    (got == pid).then_some(status)
}

/// How long processes may take to end after SIGKILL. Much memory, or load, takes seconds. A process
/// that takes longer is stuck in the kernel.
pub const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// Kills every process below this one and reaps, until none is left or `limit` has passed.
/// Returns those that are left, a line each.
pub fn sweep(limit: Duration) -> Vec<String> {
    let begun = std::time::Instant::now();
    loop {
        while let Some(pid) = ended_child() {
            reap(pid);
        }
        if signal_all(libc::SIGKILL) == 0 {
            return Vec::new();
        }
        if begun.elapsed() >= limit {
            return described(&all());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Process id, name and the kernel's letter for the state of processes that still exist.
#[must_use]
pub fn described(pids: &[u32]) -> Vec<String> {
    let line = |stat: Stat| format!("{} ({}, state {})", stat.pid, stat.comm, stat.state);
    pids.iter().filter_map(|pid| stat(*pid)).map(line).collect()
}

/// A descriptor that becomes readable when the process ends.
///
/// # Errors
/// There is no such process.
pub fn watch(pid: u32) -> std::io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel made the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_both_ways() {
        let mut child = std::process::Command::new("sleep")
            .arg("20")
            .spawn()
            .unwrap();
        let me = std::process::id();
        assert!(children(me).contains(&child.id()));
        assert!(children_by_parent(me).contains(&child.id()));
        assert!(all().contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!all().contains(&child.id()));
    }
}
