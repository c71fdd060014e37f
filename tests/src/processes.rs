//! Looking at processes, and ending them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A lock for tests that make processes, and for tests with locked files, which such a process
/// would have open until it runs its program. One such test of a binary runs at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a signal to a process that the test started.
///
/// # Panics
/// For pids that are no single process of ours.
pub fn kill(pid: u32, signal: i32) {
    assert!(pid > 1);
    // SAFETY: plain numbers, a process that a test started.
    unsafe {
        libc::kill(pid.cast_signed(), signal);
    }
}

/// The process is there and no zombie.
pub fn is_alive(pid: u32) -> bool {
    !matches!(state(pid), 'Z' | 'X')
}

/// A process waits for something.
pub fn is_asleep(pid: u32) -> bool {
    state(pid) == 'S'
}

/// A process was stopped by a signal.
pub fn is_stopped(pid: u32) -> bool {
    state(pid) == 'T'
}

/// A signal waits for a process to take it.
pub fn is_pending(pid: u32, signal: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let sets = text.lines().filter_map(|line| {
        let set = line
            .strip_prefix("SigPnd:")
            .or(line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(set.trim(), 16).ok()
    });
    sets.into_iter().any(|set| set & (1 << (signal - 1)) != 0)
}

/// A process runs or sleeps: it is neither stopped nor about to end.
pub fn lives(pid: u32) -> bool {
    state(pid) != 'T' && !ends(pid)
}

/// A process has ended, or is about to. The end takes a while on busy cores (proc_pid_stat(5)).
pub fn ends(pid: u32) -> bool {
    const EXITING: u64 = 0x4;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let tail = stat.rsplit_once(')').map_or("", |(_, tail)| tail);
    let fields: Vec<_> = tail.split_whitespace().collect();
    let (state, flags) = (fields.first(), fields.get(6).and_then(|f| f.parse().ok()));
    let (Some(state), Some(flags)) = (state, flags) else {
        return true;
    };
    let flags: u64 = flags;
    "ZX".contains(state) || flags & EXITING != 0 || is_pending(pid, libc::SIGKILL)
}

/// The children of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    // While one of them is reaped another may be left out (proc_pid_tid_children(5)).
    let (mut text, mut again) = (read(), read());
    while text != again {
        text = std::mem::replace(&mut again, read());
    }
    text.split_ascii_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect()
}

/// The rank that a process belongs to.
pub fn rank_of(pid: u32) -> Option<usize> {
    let text = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut words = text.split(|byte| *byte == 0);
    let number = words.find_map(|word| word.strip_prefix(b"REJOIN_RANK="))?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// The ranks among processes that look like ranks. A process that becomes an image has its rank's
/// name and number for a while. A suspended process may have a successor, and is not compared with
/// running ones.
pub fn eldest_of_each_rank(pids: Vec<u32>) -> Vec<u32> {
    let born = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // proc_pid_stat(5): the third, and the twenty-second.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let is_suspended = fields.next()? == "T";
        let born: u64 = fields.nth(18)?.parse().ok()?;
        Some((is_suspended, (born, pid)))
    };
    let mut eldest = BTreeMap::new();
    for pid in &pids {
        if let (Some(rank), Some((still, born))) = (rank_of(*pid), born(*pid)) {
            let first = eldest.entry((rank, still)).or_insert(born);
            *first = born.min(*first);
        }
    }
    let mut pids = pids;
    pids.retain(|pid| eldest.values().any(|(_, first)| first == pid));
    pids
}

/// Every process below this one.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut queue = vec![pid];
    while let Some(next) = queue.pop() {
        for child in children(next) {
            found.push(child);
            queue.push(child);
        }
    }
    found
}

/// Waits until something holds, and returns how long that took.
///
/// # Panics
/// After `limit`, with `what`.
pub fn wait_for(limit: Duration, what: &str, mut test: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !test() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    begun.elapsed()
}

/// Waits until none of these processes exists any more.
///
/// # Panics
/// After `limit`.
pub fn all_gone(pids: &[u32], limit: Duration) -> Duration {
    wait_for(limit, &format!("the end of {pids:?}"), || {
        !pids.iter().any(|&p| is_alive(p))
    })
}

/// Waits until the parents of all these processes have taken note of their ends.
///
/// # Panics
/// After `limit`.
pub fn all_reaped(pids: &[u32], limit: Duration) {
    wait_for(limit, &format!("the parents of {pids:?}"), || {
        pids.iter().all(|&pid| state(pid) == 'X')
    });
}

/// The state of a process, as in proc_pid_stat(5); `X` when it is not there.
pub fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after.chars().next().unwrap_or('X')
}

/// Processor time that a process has used, to a hundredth of a second; none if it is gone.
pub fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let words = after.split(' ').skip(11).take(2);
    let ticks: u64 = words.filter_map(|word| word.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
