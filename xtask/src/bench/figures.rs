//! Figures, and their table.

use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::Path;

use super::intervals;
use super::job::Setting;
use super::options::Args;
use super::report::filled;

/// The goal of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// No goal: the figure is for comparison.
    None,
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// A price of at most this. A price is not negative, so an interval below zero tells of
    /// something else that differed between the runs.
    PriceAtMost(f64),
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
    /// It holds the true value with a probability of 90 %; equal ends for what is counted, and an
    /// infinite one where the samples say nothing of it.
    pub interval: (f64, f64),
    /// What it is held to.
    pub goal: Goal,
    /// What it was made of.
    pub samples: Vec<f64>,
}

impl Figure {
    /// The samples' quantile.
    pub fn quantile(
        what: impl Into<String>,
        unit: &'static str,
        part: f64,
        samples: &[f64],
    ) -> Self {
        let value = intervals::quantile(samples, part);
        let interval = intervals::interval(samples, part);
        Self::of(what.into(), unit, (value, interval), samples)
    }

    /// The samples' median.
    pub fn median(what: impl Into<String>, unit: &'static str, samples: &[f64]) -> Self {
        Self::quantile(what, unit, 0.5, samples)
    }

    /// The samples' mean.
    pub fn mean(what: impl Into<String>, unit: &'static str, samples: &[f64]) -> Self {
        Self::of(what.into(), unit, intervals::mean(samples), samples)
    }

    /// The largest of the samples, as a fact of this run.
    pub fn largest(what: impl Into<String>, unit: &'static str, samples: &[f64]) -> Self {
        let most = samples.iter().copied().fold(f64::NAN, f64::max);
        Self::of(what.into(), unit, (most, (most, most)), samples)
    }

    /// A number of things that were counted.
    pub fn count(what: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self::of(what.into(), unit, (value, (value, value)), &[])
    }

    fn of(
        what: String,
        unit: &'static str,
        (value, interval): (f64, (f64, f64)),
        samples: &[f64],
    ) -> Self {
        Figure {
            what,
            unit,
            value,
            interval,
            goal: Goal::None,
            samples: samples.to_vec(),
        }
    }

    /// Held to this at most.
    pub fn at_most(mut self, goal: f64) -> Self {
        self.goal = Goal::AtMost(goal);
        self
    }

    /// Held to this at least.
    pub fn at_least(mut self, goal: f64) -> Self {
        self.goal = Goal::AtLeast(goal);
        self
    }

    /// Held to this at most, as a price.
    pub fn costs_at_most(mut self, goal: f64) -> Self {
        self.goal = Goal::PriceAtMost(goal);
        self
    }

    /// The goal, and whether both ends of the interval meet it (✓), miss it (✗) or disagree (?).
    fn goal(&self) -> String {
        let (low, high) = self.interval;
        match self.goal {
            Goal::None => "–".into(),
            Goal::AtLeast(goal) if low >= goal => format!("✓ ≥ {goal}"),
            Goal::AtLeast(goal) if high < goal => format!("✗ ≥ {goal}"),
            Goal::AtLeast(goal) => format!("? ≥ {goal}"),
            Goal::PriceAtMost(goal) if high < 0.0 => format!("? ≤ {goal}"),
            Goal::AtMost(goal) | Goal::PriceAtMost(goal) if high <= goal => format!("✓ ≤ {goal}"),
            Goal::AtMost(goal) | Goal::PriceAtMost(goal) if low > goal => format!("✗ ≤ {goal}"),
            Goal::AtMost(goal) | Goal::PriceAtMost(goal) => format!("? ≤ {goal}"),
        }
    }

    fn shown_interval(&self) -> String {
        let (low, high) = self.interval;
        let end = |end: f64| {
            let text = format!("{end:.3}");
            if end.is_finite() { text } else { "?".into() }
        };
        if low == high {
            return "–".into();
        }
        format!("{} to {}", end(low), end(high))
    }

    /// For the terminal.
    pub fn line(&self) -> String {
        let goal = self.goal();
        format!(
            "{:60} {:10.3} {:6} ({}) {goal}",
            self.what,
            self.value,
            self.unit,
            self.shown_interval()
        )
    }

    fn row(&self, case: &str) -> String {
        let samples: Vec<_> = self.samples.iter().map(|v| format!("{v:.4}")).collect();
        let samples = samples.join(" ");
        let goal = self.goal();
        format!(
            "{case}\t{}\t{}\t{:.3}\t{}\t{goal}\t{samples}",
            self.what,
            self.unit,
            self.value,
            self.shown_interval()
        )
    }
}

const HEADER: &str = "case\tfigure\tunit\tvalue\tinterval\tgoal\tsamples";

/// A case of a table: its name, and what measures it.
pub type Case = (&'static str, fn(&Setting) -> Result<Vec<Figure>>);

/// A table of figures in `docs/bench`.
pub struct Table {
    /// Stands for all of its cases.
    pub name: &'static str,
    /// The name of its files.
    pub file: &'static str,
    /// The heading.
    pub title: &'static str,
    /// In the order of the table.
    pub cases: &'static [Case],
}

impl Table {
    /// Whether a name is that of a case, or of all.
    pub fn has(&self, name: &str) -> bool {
        name == self.name || self.cases.iter().any(|(known, _)| *known == name)
    }

    /// The names of its cases.
    pub fn names(&self) -> String {
        let names: Vec<_> = self.cases.iter().map(|(name, _)| *name).collect();
        format!("{}, and {} for all of them", names.join(", "), self.name)
    }

    /// Measures the named cases. Earlier figures of other cases stay in the table.
    pub fn measure(&self, names: &[String], args: &Args) -> Result<()> {
        let setting = Setting::prepare(args)?;
        std::fs::create_dir_all(&setting.out)?;
        for (name, case) in self.cases {
            if !names.iter().any(|n| n == name || n == self.name) {
                continue;
            }
            println!("--- {name}");
            let measured = case(&setting).with_context(|| format!("the case {name}"))?;
            for figure in &measured {
                println!("{}", figure.line());
            }
            self.store(&setting.out, name, &measured)?;
        }
        println!(
            "written to {}",
            setting.out.join(self.file).with_extension("md").display()
        );
        Ok(())
    }

    /// Puts a case's figures into the table's samples in place of earlier ones, and writes the page
    /// from them.
    fn store(&self, out: &Path, case: &str, figures: &[Figure]) -> Result<()> {
        let path = out.join(self.file).with_extension("tsv");
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
            self.cases.iter().position(|(known, _)| *known == name)
        };
        rows.sort_by_key(place);
        std::fs::write(&path, format!("{HEADER}\n{}\n", rows.join("\n")))
            .with_context(|| format!("writing {}", path.display()))?;
        let page = path.with_extension("md");
        std::fs::write(&page, self.page(&rows)?)
            .with_context(|| format!("writing {}", page.display()))
    }

    fn page(&self, rows: &[String]) -> Result<String> {
        let (name, file) = (self.name, self.file);
        let head = format!(
            "`cargo xtask bench {name}` on {} cores; each case alone with its name. Samples are in \
             `{file}.tsv`. The interval holds the true value with a probability of 90 %. It follows \
             from the order of the samples, for means from their spread (Student); `?` is an end of \
             which so few samples say nothing. A goal is met (✓) or missed (✗) only where both ends \
             say so; else the samples do not tell (?). They do not tell either where a price comes out \
             below zero: something else differed between the runs.",
            std::thread::available_parallelism()?
        );
        let mut page = format!(
            "# {}\n\n{}\n\
             | case | figure | value | unit | interval | goal |\n|---|---|---|---|---|---|\n",
            self.title,
            filled(&head)
        );
        for row in rows {
            let cells: Vec<_> = row.split('\t').collect();
            if let [case, what, unit, value, interval, goal, ..] = cells[..] {
                writeln!(
                    page,
                    "| {case} | {what} | {value} | {unit} | {interval} | {goal} |"
                )?;
            }
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_decided_only_by_both_ends() {
        let samples = [1.0, 2.0, 3.0, 4.0, 5.0];
        let held = |goal| Figure::median("x", "ms", &samples).at_most(goal).goal();
        assert_eq!((held(5.0), held(0.9)), ("✓ ≤ 5".into(), "✗ ≤ 0.9".into()));
        assert_eq!(held(4.0), "? ≤ 4");
        let rare = Figure::quantile("x", "ms", 0.99, &samples).at_most(9.0);
        assert_eq!(
            (rare.goal(), rare.shown_interval()),
            ("? ≤ 9".into(), "5.000 to ?".into())
        );
        let rate = |goal| Figure::median("x", "", &samples).at_least(goal).goal();
        assert_eq!((rate(1.0), rate(5.1)), ("✓ ≥ 1".into(), "✗ ≥ 5.1".into()));
        assert_eq!(rate(3.0), "? ≥ 3");
        let price = |samples: &[f64]| Figure::mean("x", "%", samples).costs_at_most(2.0).goal();
        assert_eq!(price(&[-5.0, -5.1, -4.9]), "? ≤ 2");
        assert_eq!(price(&[0.9, 1.0, 1.1]), "✓ ≤ 2");
        assert_eq!(price(&[2.9, 3.0, 3.1]), "✗ ≤ 2");
        let counted = Figure::count("x", "kills", 0.0).at_most(0.0);
        assert_eq!(
            (counted.goal(), counted.shown_interval()),
            ("✓ ≤ 0".into(), "–".into())
        );
    }
}
