//! Figures, and their table.

use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::Path;

use crate::bench::report::filled;

/// The goal of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// No goal: the figure is for comparison.
    None,
    /// At most this.
    AtMost(f64),
}

/// One figure.
#[derive(Debug, Clone)]
pub struct Figure {
    /// What it is.
    pub what: String,
    /// Unit of the value, as the table shows it.
    pub unit: &'static str,
    /// The measured value, in that unit.
    pub value: f64,
    /// What it is held to.
    pub goal: Goal,
    /// What it was made of.
    pub samples: Vec<f64>,
}

impl Figure {
    /// One that is made of samples.
    pub fn new(what: impl Into<String>, unit: &'static str, value: f64, samples: &[f64]) -> Self {
        Figure {
            what: what.into(),
            unit,
            value,
            goal: Goal::None,
            samples: samples.to_vec(),
        }
    }

    /// Held to this at most.
    pub fn at_most(mut self, goal: f64) -> Self {
        self.goal = Goal::AtMost(goal);
        self
    }

    fn goal(&self) -> String {
        match self.goal {
            Goal::None => "–".into(),
            Goal::AtMost(goal) => {
                let met = if self.value <= goal { "✓" } else { "✗" };
                format!("{met} ≤ {goal}")
            }
        }
    }

    /// For the terminal.
    pub fn line(&self) -> String {
        let goal = self.goal();
        format!(
            "{:60} {:10.3} {:6} {goal}",
            self.what, self.value, self.unit
        )
    }

    fn row(&self, case: &str) -> String {
        let samples: Vec<_> = self.samples.iter().map(|v| format!("{v:.4}")).collect();
        let samples = samples.join(" ");
        let goal = self.goal();
        format!(
            "{case}\t{}\t{}\t{:.3}\t{goal}\t{samples}",
            self.what, self.unit, self.value
        )
    }
}

/// The value below which this part of the samples lies; the largest for 1.
pub fn part(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * part) as usize;
    let last = sorted.len().saturating_sub(1);
    sorted.get(at.min(last)).copied().unwrap_or(f64::NAN)
}

/// The median.
pub fn median(samples: &[f64]) -> f64 {
    part(samples, 0.5)
}

/// The mean and the upper end of its one-sided 95 % confidence interval (Student 1908).
pub fn mean_and_bound(samples: &[f64]) -> (f64, f64) {
    const T: [f64; 15] = [
        6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771,
        1.761, 1.753,
    ];
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    if samples.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let spread = samples.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = T.get(samples.len() - 2).copied().unwrap_or(1.75);
    (mean, mean + t * (spread / count).sqrt())
}

const HEADER: &str = "case\tfigure\tunit\tvalue\tgoal\tsamples";

/// Puts a case's figures into `recovery.tsv` in place of earlier ones, and writes `recovery.md`
/// from it. Both list the cases in the order of `cases`.
pub fn store(out: &Path, cases: &[&str], case: &str, figures: &[Figure]) -> Result<()> {
    let path = out.join("recovery.tsv");
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let own = format!("{case}\t");
    let others = before
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with(&own));
    let mut rows: Vec<String> = others.map(str::to_owned).collect();
    rows.extend(figures.iter().map(|figure| figure.row(case)));
    let place = |row: &String| {
        let name = row.split('\t').next().unwrap_or("");
        cases.iter().position(|known| *known == name)
    };
    rows.sort_by_key(place);
    std::fs::write(&path, format!("{HEADER}\n{}\n", rows.join("\n")))
        .with_context(|| format!("writing {}", path.display()))?;
    let head = format!(
        "`cargo xtask bench survive` on {} cores; each case alone with its name. Samples are in \
         `recovery.tsv`.",
        std::thread::available_parallelism()?
    );
    let mut md = format!(
        "# Survival: how fast, and at what price\n\n{}\n\
         | case | figure | value | unit | goal |\n|---|---|---|---|---|\n",
        filled(&head)
    );
    for row in &rows {
        let cells: Vec<_> = row.split('\t').collect();
        if let [case, what, unit, value, goal, ..] = cells[..] {
            writeln!(md, "| {case} | {what} | {value} | {unit} | {goal} |")?;
        }
    }
    std::fs::write(out.join("recovery.md"), md).context("writing recovery.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_bounds_are_those_of_the_books() {
        let samples = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!((median(&samples), part(&samples, 0.99)), (3.0, 5.0));
        // Mean 3, deviation 1.5811, t(4) = 2.132: 3 + 2.132 * 1.5811 / sqrt(5).
        let (mean, bound) = mean_and_bound(&samples);
        assert!(
            (mean - 3.0).abs() < 1e-9 && (bound - 4.5075).abs() < 1e-3,
            "{bound}"
        );
        assert!(median(&[]).is_nan());
    }
}
