//! Nonblocking collectives that are completed at once, beside the blocking ones.

use crate::bench::contestants::{Field, Medium};
use crate::bench::figures::Figure;
use crate::bench::job::{Setting, printed};
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

/// Measures each of them among 2 ranks, and the same ratio of the other MPIs.
pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let work = crate::workspace::root().join("target/bench");
    let field = Field::prepare(&work, Some(&setting.prefix), Medium::Shm)?;
    let mut figures = Vec::new();
    for (name, bytes, iters) in CASES {
        let words = [name, bytes, iters[usize::from(setting.quick)]];
        let words = words.map(String::from);
        let mut ratios = vec![Vec::new(); field.mpis.len()];
        for _ in 0..setting.rounds {
            for (mpi, ratios) in field.mpis.iter().zip(&mut ratios) {
                let ran = setting.ran(&mut mpi.command("nonblocking", 2, &words))?;
                ratios.push(printed(&ran)?);
            }
        }
        for (place, (mpi, ratios)) in field.mpis.iter().zip(&ratios).enumerate() {
            let text = format!("i{name} of {bytes} bytes over {name}: {}", mpi.name);
            let figure = Figure::median(text, "", ratios);
            figures.push(match place {
                0 => figure.at_most(GOAL),
                _ => figure,
            });
        }
    }
    Ok(figures)
}
