//! The file in which ranks record when they act.

use std::path::Path;

/// When each of `ranks` ranks acted on a host, from the first to the last time, in nanoseconds of
/// the machine. Lines of the file are "NANOSECONDS RANK HOST".
///
/// # Panics
/// When a line is torn.
pub fn acts(file: &Path, ranks: usize, host: &str) -> Vec<Option<(u64, u64)>> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut found = vec![None; ranks];
    // The last one may be seen in the middle of its writing.
    let lines = text.split_inclusive('\n');
    for line in lines.filter_map(|line| line.strip_suffix('\n')) {
        let words: Vec<_> = line.split(' ').collect();
        let [time, rank, at] = words[..] else {
            panic!("a torn line: {line}");
        };
        if at == host {
            let time: u64 = time.parse().expect("a time");
            let rank: usize = rank.parse().expect("a rank");
            let (first, last) = found[rank].unwrap_or((time, time));
            found[rank] = Some((first.min(time), last.max(time)));
        }
    }
    found
}

/// No rank of `lost` acted on the host `before` once it had acted on the host `after`.
///
/// # Panics
/// When one did.
pub fn assert_apart(file: &Path, lost: std::ops::Range<usize>, before: &str, after: &str) {
    let (old, new) = (acts(file, lost.end, before), acts(file, lost.end, after));
    for rank in lost {
        let (_, last) = old[rank].expect("acts before");
        let (first, _) = new[rank].expect("acts after");
        assert!(
            last < first,
            "rank {rank} acted on {before} until {last}, on {after} from {first}"
        );
    }
}
