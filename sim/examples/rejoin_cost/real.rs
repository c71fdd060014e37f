//! The parts of moves in real jobs, which `tests/examples/move_parts.rs` has measured.

use crate::{Done, PARTS};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The milliseconds of each part, by ranks and hosts; each part has a sample for each move.
pub struct Moves {
    jobs: BTreeMap<(u32, u32), [Vec<f64>; PARTS.len()]>,
}

impl Moves {
    /// Reads the lines of the measuring program; others are left out.
    pub fn read(text: &str) -> Moves {
        let mut jobs = BTreeMap::<(u32, u32), [Vec<f64>; PARTS.len()]>::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("parts\t")) {
            let mut cells = line.split('\t');
            let mut number = || cells.next()?.parse::<f64>().ok();
            let (Some(ranks), Some(hosts)) = (number(), number()) else {
                continue;
            };
            let parts: Vec<f64> = std::iter::from_fn(number).collect();
            if parts.len() == PARTS.len() {
                let job = jobs.entry((ranks as u32, hosts as u32)).or_default();
                for (samples, part) in job.iter_mut().zip(parts) {
                    samples.push(part);
                }
            }
        }
        for samples in jobs.values_mut().flatten() {
            samples.sort_by(f64::total_cmp);
        }
        Moves { jobs }
    }

    /// Ranks and the median of a part, in seconds.
    pub fn line(&self, part: usize) -> Vec<(f64, f64)> {
        let jobs = self.jobs.iter();
        let point = |((ranks, _), parts): (&(u32, u32), &[Vec<f64>; PARTS.len()])| {
            (f64::from(*ranks), median(&parts[part]) / 1e3)
        };
        jobs.map(point).collect()
    }

    /// Writes the table.
    pub fn show(&self, text: &mut String) -> Done<()> {
        text.push_str(
            "\n## Real jobs\n\n\
             The hosts are network namespaces of one machine, whose cores all ranks share. Median and range of\n\
             the moves in milliseconds; samples are in `rejoin-cost-real.tsv`.\n\n\
             | ranks | hosts | moves |",
        );
        for (name, _) in PARTS {
            write!(text, " {name} |")?;
        }
        writeln!(text, "\n|{}", "---|".repeat(3 + PARTS.len()))?;
        for ((ranks, hosts), parts) in &self.jobs {
            write!(text, "| {ranks} | {hosts} | {} |", parts[0].len())?;
            for samples in parts {
                let (least, most) = (samples[0], samples[samples.len() - 1]);
                let middle = median(samples);
                write!(text, " {middle:.2} ({least:.2} to {most:.2}) |")?;
            }
            text.push('\n');
        }
        Ok(())
    }
}

/// Of samples in ascending order.
fn median(samples: &[f64]) -> f64 {
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}
