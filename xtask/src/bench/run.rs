//! Runs one case in interleaved rounds.

use super::cases::{Case, Kind};
use super::conditions::{Character, Conditions, Observer};
use super::contestants::Field;
use super::intervals::{interval, median};
use super::options::Args;
use anyhow::{Context, Result, bail, ensure};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A column whose samples differ by more than this factor says little.
const UNSTEADY: f64 = 2.0;

/// The samples of one column.
pub struct Samples {
    /// Column heading.
    pub name: &'static str,
    /// One value per round, none where it failed.
    pub values: Vec<Option<f64>>,
    /// Why the last failing round failed.
    pub failure: Option<String>,
}

impl Samples {
    /// The median, if any round worked.
    pub fn median(&self) -> Option<f64> {
        median(&self.values.iter().flatten().copied().collect::<Vec<_>>())
    }

    /// These samples beside others, round by round: the machine's own speed changes between rounds
    /// more than within one.
    pub fn over(&self, other: &Samples) -> Option<Ratio> {
        let pairs = self.values.iter().zip(&other.values);
        let rounds = pairs.filter_map(|(a, b)| Some((*a)? / (*b)?));
        Ratio::of(&rounds.collect::<Vec<_>>())
    }

    /// Whether the samples differ so much that the machine must have changed.
    pub fn unsteady(&self) -> bool {
        let values = || self.values.iter().flatten().copied();
        let (least, most) = (values().reduce(f64::min), values().reduce(f64::max));
        least
            .zip(most)
            .is_some_and(|(least, most)| most > UNSTEADY * least)
    }
}

/// The ratio of one column to another over the rounds. Every stated ratio uses this rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The median of the rounds' ratios.
    pub median: f64,
    /// An interval that holds the true median with a probability of at least 90 %. It depends only
    /// on the order of the rounds' ratios. None with fewer than five rounds.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    fn of(rounds: &[f64]) -> Option<Ratio> {
        let (low, high) = interval(rounds, 0.5);
        Some(Ratio {
            median: median(rounds)?,
            interval: (low.is_finite() && high.is_finite()).then_some((low, high)),
        })
    }

    /// Whether a bound holds, where the rounds agree on it: at both ends of the interval, or at
    /// neither.
    pub fn verdict(&self, holds: impl Fn(f64) -> bool) -> Option<bool> {
        let (low, high) = self.interval?;
        (holds(low) == holds(high)).then(|| holds(low))
    }
}

/// The result of a case: the MPIs' columns in the field's order, then the floor's.
pub struct CaseResult<'a> {
    /// The case.
    pub case: &'a Case,
    /// One column per contestant.
    pub columns: Vec<Samples>,
    /// What the machine was like; unset: an earlier version did not ask.
    pub conditions: Option<Conditions>,
}

impl CaseResult<'_> {
    /// The character of the machine, if it was measured.
    pub fn character(&self) -> Option<Character> {
        self.conditions.map(|conditions| conditions.character())
    }

    /// Whether other processes took too much time for a verdict.
    pub fn is_busy(&self) -> bool {
        self.conditions
            .is_some_and(|conditions| conditions.is_busy())
    }
}

/// Runs every contestant in turn, round after round, so that drift affects all alike.
pub fn case<'a>(field: &Field, case: &'a Case, args: &Args) -> Result<CaseResult<'a>> {
    let floors = field.medium.floors();
    let names = field.mpis.iter().map(|m| m.name).chain(
        floors
            .iter()
            .filter(|_| case.has_raw())
            .map(|floor| floor.0),
    );
    let mut columns: Vec<_> = names
        .map(|name| Samples {
            name,
            values: Vec::new(),
            failure: None,
        })
        .collect();
    let mut observer = Observer::new(&field.conditions);
    for number in 0..args.rounds {
        // To and fro, so that none always comes first.
        let mut turns: Vec<_> = columns.iter_mut().enumerate().collect();
        if number % 2 == 1 {
            turns.reverse();
        }
        observer.round(|| round(field, case, args, turns))?;
    }
    Ok(CaseResult {
        case,
        columns,
        conditions: observer.conditions(),
    })
}

/// Runs each contestant once, in this order.
fn round(field: &Field, case: &Case, args: &Args, turns: Vec<(usize, &mut Samples)>) {
    let floors = field.medium.floors();
    for (i, column) in turns {
        let mut command = match field.mpis.get(i) {
            Some(mpi) => mpi.command(case.program(), case.ranks, &case.args(args.quick)),
            None => {
                let mut raw = Command::new(&field.raw);
                raw.envs(floors[i - field.mpis.len()].1);
                raw.args(case.args(args.quick));
                raw
            }
        };
        let value = once(&mut command, case.kind, Duration::from_secs(args.timeout));
        column.values.push(value.as_ref().ok().copied());
        if let Err(error) = value {
            column.failure = Some(format!("{error:#}"));
        }
    }
}

fn once(command: &mut Command, kind: Kind, limit: Duration) -> Result<f64> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let mut stdout = child.stdout.take().context("stdout")?;
    let mut stderr = child.stderr.take().context("stderr")?;
    let out = std::thread::spawn(move || {
        let mut s = String::new();
        stdout.read_to_string(&mut s).map(|_| s)
    });
    let err = std::thread::spawn(move || {
        let mut s = String::new();
        stderr.read_to_string(&mut s).map(|_| s)
    });
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            bail!("no end within {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_micros(200));
    };
    let wall = start.elapsed().as_secs_f64() * 1e3;
    let out = out.join().ok().context("reading stdout")??;
    let err = err.join().ok().context("reading stderr")??;
    ensure!(
        status.success(),
        "{status}: {}",
        err.lines().last().unwrap_or("")
    );
    match kind {
        Kind::Wall => Ok(wall),
        Kind::Printed => {
            let value = out
                .lines()
                .find_map(|l| l.split('\t').nth(2))
                .context("no figure printed")?;
            value
                .parse()
                .with_context(|| format!("not a figure: {value}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(rounds: &[f64]) -> Ratio {
        Ratio::of(rounds).expect("rounds")
    }

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        // Five rounds: 1 - 2/32 = 93.75 % between the ends. Seven: all but the ends would be 87.5
        // %.
        let five = ratio(&[5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!((five.median, five.interval), (3.0, Some((1.0, 5.0))));
        assert_eq!(ratio(&[1.0, 2.0, 3.0, 4.0]).interval, None);
        let seven: Vec<f64> = (1..=7).map(f64::from).collect();
        assert_eq!(ratio(&seven).interval, Some((1.0, 7.0)));
        // Eight: 1 - 2 (1 + 8) / 256 = 92.97 % without the ends.
        let eight: Vec<f64> = (1..=8).map(f64::from).collect();
        assert_eq!(ratio(&eight).interval, Some((2.0, 7.0)));
        assert_eq!(Ratio::of(&[]), None);
    }

    #[test]
    fn a_verdict_needs_rounds_that_agree() {
        let five = ratio(&[0.8, 0.85, 0.9, 0.95, 1.05]);
        assert_eq!(five.verdict(|v| v <= 1.1), Some(true));
        assert_eq!(five.verdict(|v| v <= 0.7), Some(false));
        assert_eq!(five.verdict(|v| v <= 1.0), None);
        assert_eq!(ratio(&[0.5, 0.5]).verdict(|v| v <= 1.0), None);
    }
}
