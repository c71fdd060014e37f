//! Pauses that the ranks of `programs/recover.c` note between two exchanges.

/// Nanoseconds of the clock by which the ranks note them.
pub fn now() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Of each noted pause the rank, and when the exchanges before and after it were complete.
pub fn gaps(text: &str) -> Vec<[i64; 3]> {
    let gap = |line: &str| {
        let numbers = line.strip_prefix("gap ")?.split(' ');
        let numbers: Vec<i64> = numbers.map_while(|n| n.parse().ok()).collect();
        <[i64; 3]>::try_from(numbers).ok()
    };
    text.lines().filter_map(gap).collect()
}
