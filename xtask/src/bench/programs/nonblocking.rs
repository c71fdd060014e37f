//! Nonblocking collectives that are completed at once, beside the blocking ones.

use crate::bench::figures::Figure;
use crate::bench::job::Setting;
use anyhow::Result;

/// A nonblocking collective takes at most this multiple of the blocking one's time.
const GOAL: f64 = 1.15;

/// Collectives and bytes, with the iterations of a round and those of a quick look.
const CASES: [(&str, &str, [&str; 2]); 9] = [
    ("barrier", "0", ["20000", "2000"]),
    ("allreduce", "8", ["20000", "2000"]),
    ("allreduce", "65536", ["2000", "200"]),
    ("bcast", "8", ["20000", "2000"]),
    ("bcast", "65536", ["2000", "200"]),
    ("alltoall", "1024", ["10000", "1000"]),
    ("alltoall", "65536", ["1000", "100"]),
    ("allgather", "1024", ["10000", "1000"]),
    ("reduce", "1024", ["10000", "1000"]),
];

/// Measures each of them among 2 ranks.
pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>> {
    setting.compile("nonblocking")?;
    let mut figures = Vec::new();
    for (name, bytes, iters) in CASES {
        let words = [
            "nonblocking",
            name,
            bytes,
            iters[usize::from(setting.quick)],
        ];
        let mut ratios = Vec::new();
        for _ in 0..setting.rounds {
            let options = ["--transport", "shm", "--recovery", "none"];
            ratios.push(setting.printed(&options, 2, &words)?);
        }
        let text = format!("i{name} of {bytes} bytes over {name}, 2 ranks");
        figures.push(Figure::median(text, "", &ratios).at_most(GOAL));
    }
    Ok(figures)
}
