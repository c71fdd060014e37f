//! Pauses that the ranks of `programs/recover.c` note between two exchanges, and the recovery times
//! that follow from them.

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

/// A pause between two exchanges of one rank, in nanoseconds of [`now`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The rank.
    pub rank: usize,
    /// When the exchange before it was complete.
    pub before: i64,
    /// When the exchange after it was complete.
    pub after: i64,
    /// Another process completed the second exchange than the first: the rank was restored between
    /// them.
    pub restored: bool,
}

/// The pauses that the ranks have noted; a line that is not complete yet is left out.
#[must_use]
pub fn gaps(text: &str) -> Vec<Gap> {
    let gap = |line: &str| {
        let numbers = line.strip_suffix('\n')?.strip_prefix("gap ")?;
        let numbers: Vec<i64> = numbers.split(' ').map_while(|n| n.parse().ok()).collect();
        let [rank, before, after, restored] = numbers[..] else {
            return None;
        };
        Some(Gap {
            rank: usize::try_from(rank).ok()?,
            before,
            after,
            restored: restored != 0,
        })
    };
    text.split_inclusive('\n').filter_map(gap).collect()
}

/// The recovery from each kill: milliseconds from the kill until every rank has completed an
/// exchange as a restored process, or the reason why there is no figure.
///
/// A recovery that a further kill interrupts lasts until the end of the recovery from that kill.
#[must_use]
pub fn recoveries(kills: &[i64], gaps: &[Gap], ranks: usize) -> Vec<Result<f64, String>> {
    let recovery = |&kill: &i64| {
        let end = |rank: usize| {
            let spans =
                |g: &&Gap| g.rank == rank && g.restored && g.before < kill && kill < g.after;
            let ends = gaps.iter().filter(spans).map(|g| g.after);
            let missing = || format!("rank {rank} completed no exchange after it");
            ends.min().ok_or_else(missing)
        };
        let ends: Result<Vec<i64>, String> = (0..ranks).map(end).collect();
        let last = ends?.into_iter().max().ok_or("no rank")?;
        Ok((last - kill) as f64 / 1e6)
    };
    kills.iter().map(recovery).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ranks and three kills, at 100, 200 and 300 ms. Rank 1 was in a pause of its own at the
    /// first; the recovery from the second was not over when the third came; nothing follows the
    /// fourth.
    const RECORDED: &str = "gap 0 10000000 12000000 0\n\
        gap 1 98000000 101000000 0\n\
        gap 0 90000000 130000000 1\n\
        gap 1 90000000 135000000 1\n\
        gap 0 190000000 230000000 1\n\
        gap 0 190000000 340000000 1\n\
        gap 1 190000000 350000000 1\n\
        gap 1 399000000 402000000 0\n\
        gap 0 390000000 4300";

    #[test]
    fn every_kill_has_a_figure_or_a_reason() {
        let kills = [100, 200, 300, 400].map(|ms| ms * 1_000_000);
        let found = recoveries(&kills, &gaps(RECORDED), 2);
        assert_eq!(found[..3], [Ok(35.0), Ok(150.0), Ok(50.0)]);
        let reason = found[3].as_ref().expect_err("no recovery");
        assert!(reason.contains("rank 0"), "{reason}");
    }

    #[test]
    fn a_pause_of_the_old_process_is_no_recovery() {
        let text = "gap 0 90000000 101000000 0\n";
        let found = recoveries(&[100_000_000], &gaps(text), 1);
        assert!(found[0].is_err(), "{found:?}");
    }

    #[test]
    fn lines_that_are_cut_are_left_out() {
        assert_eq!(gaps(RECORDED).len(), 8);
        assert_eq!(gaps("gap 1 2\ngap x\n").len(), 0);
        let gap = Gap {
            rank: 3,
            before: 1,
            after: 2,
            restored: true,
        };
        assert_eq!(gaps("gap 3 1 2 1\n"), [gap]);
    }
}
