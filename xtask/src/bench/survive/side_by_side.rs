//! The same work with two sets of options of mpirun, in turns.

use crate::bench::figures::Figure;
use crate::bench::job::{Ran, Setting, printed};
use anyhow::{Context, Result, ensure};

/// What of a run is compared.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Measured {
    /// The third cell of a line that the program prints, where less is better.
    Printed,
    /// The same, where more is better.
    PrintedRate,
    /// Seconds of the whole job.
    Wall,
}

/// What is measured with both sets of options.
pub(super) struct Compared {
    /// The program and its words, but for the number of iterations.
    pub words: &'static [&'static str],
    /// The number of iterations, and that of a quick look.
    pub iters: [&'static str; 2],
    pub ranks: u32,
    pub measured: Measured,
    pub unit: &'static str,
    pub what: &'static str,
    /// Options of both.
    pub common: &'static [&'static str],
    /// Pairs for each round that is asked for.
    pub pairs: usize,
    /// Percent by which the first may be worse.
    pub goal: Option<f64>,
}

/// A name, and options of mpirun.
pub(super) type Way = (&'static str, &'static [&'static str]);

/// Measures all of them in both ways.
pub(super) fn compare(setting: &Setting, all: &[Compared], ways: [Way; 2]) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for compared in all {
        let rounds = 0..compared.pairs * setting.rounds;
        let pairs: Result<Vec<_>> = rounds
            .map(|round| pair(setting, compared, ways, round))
            .collect();
        figures.extend(figures_of(setting, compared, ways, &pairs?));
    }
    Ok(figures)
}

/// The same on hosts whose links have a rate: a layout for `mpirun --host`, and a rate for `tc`.
pub(super) fn compare_linked(
    setting: &Setting,
    (layout, rate): (&str, &str),
    all: &[Compared],
    ways: [Way; 2],
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for compared in all {
        let rounds = (compared.pairs * setting.rounds).to_string();
        let options = ways.map(|(_, options)| [compared.common, options].concat().join(" "));
        let measured = match compared.measured {
            Measured::Wall => "wall",
            Measured::Printed | Measured::PrintedRate => "printed",
        };
        let (name, words) = compared.words.split_first().context("no program")?;
        let program = setting.program(name);
        let program = program.to_str().context("a path that is no text")?;
        let iterations = compared.iters[usize::from(setting.quick)];
        let [first, second] = &options;
        let head = [layout, rate, &rounds, first, second, measured, program];
        let told = setting.example("link_price", &[&head, words, &[iterations]].concat())?;
        let pairs: Vec<_> = told.lines().filter_map(linked_pair).collect();
        ensure!(!pairs.is_empty(), "no pair of {}", compared.what);
        figures.extend(figures_of(setting, compared, ways, &pairs));
    }
    Ok(figures)
}

fn linked_pair(line: &str) -> Option<[f64; 2]> {
    let (first, second) = line.strip_prefix("pair\t")?.split_once('\t')?;
    Some([first.parse().ok()?, second.parse().ok()?])
}

fn figures_of(
    setting: &Setting,
    compared: &Compared,
    ways: [Way; 2],
    pairs: &[[f64; 2]],
) -> Vec<Figure> {
    let (unit, what) = (compared.unit, compared.what);
    let mut figures = Vec::new();
    for (at, (name, _)) in ways.iter().enumerate() {
        let values: Vec<f64> = pairs.iter().map(|pair| pair[at]).collect();
        figures.push(Figure::median(format!("{what}, {name}"), unit, &values));
    }
    let worse = pairs.iter().map(|pair| {
        let ratio = match compared.measured {
            Measured::PrintedRate => pair[1] / pair[0],
            Measured::Printed | Measured::Wall => pair[0] / pair[1],
        };
        (ratio - 1.0) * 100.0
    });
    let text = format!("{what}: {} worse by, median of pairs", ways[0].0);
    let figure = Figure::median(text, "%", &worse.collect::<Vec<_>>());
    figures.push(match compared.goal {
        Some(goal) if !setting.quick => figure.costs_at_most(goal),
        _ => figure,
    });
    figures
}

/// One value of each way. The order alternates between rounds: the first run has a warmer or colder
/// machine.
fn pair(setting: &Setting, compared: &Compared, ways: [Way; 2], round: usize) -> Result<[f64; 2]> {
    let mut words = compared.words.to_vec();
    words.push(compared.iters[usize::from(setting.quick)]);
    let order = if round.is_multiple_of(2) {
        [0, 1]
    } else {
        [1, 0]
    };
    let mut values = [0.0; 2];
    for at in order {
        let options = [compared.common, ways[at].1].concat();
        let ran = setting.mpirun(&options, compared.ranks, &words)?;
        values[at] = value(&ran, compared.measured)?;
    }
    Ok(values)
}

fn value(ran: &Ran, measured: Measured) -> Result<f64> {
    if measured == Measured::Wall {
        return Ok(ran.wall);
    }
    printed(ran)
}
