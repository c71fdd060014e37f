//! Rejoin without and with message logging beside other MPIs, in the same rounds.

use anyhow::{Context, Result};

use super::side_by_side::Way;
use crate::bench::contestants::{Field, Medium};
use crate::bench::figures::Figure;
use crate::bench::job::{Setting, printed};

/// What is measured: what the benchmark program is asked for.
struct Exchange {
    text: &'static str,
    unit: &'static str,
    /// A larger value is better.
    is_rate: bool,
    /// Iterations, and those of a quick look.
    iters: [&'static str; 2],
}

fn exchange(what: &str) -> Exchange {
    let (text, unit, is_rate, iters) = match what {
        "bw" => ("bandwidth of 1 MiB", "MB/s", true, ["200", "20"]),
        "anylat" => (
            "latency of 8 bytes with wildcards",
            "us",
            false,
            ["50000", "10000"],
        ),
        _ => ("latency of 8 bytes", "us", false, ["200000", "20000"]),
    };
    Exchange {
        text,
        unit,
        is_rate,
        iters,
    }
}

/// Measures an exchange of two ranks over TCP in each of these ways, and with the other MPIs.
pub(super) fn run(setting: &Setting, words: &[&str], ways: [Way; 3]) -> Result<Vec<Figure>> {
    let work = crate::workspace::root().join("target/bench");
    let field = Field::prepare(&work, Some(&setting.prefix), Medium::Tcp)?;
    let (program, what) = words.split_first().context("no program")?;
    let kind = exchange(what.first().context("no exchange")?);
    let iters = [kind.iters[usize::from(setting.quick)]];
    let (words, others) = ([words, &iters].concat(), &field.mpis[1..]);
    let arguments: Vec<String> = [what, &iters]
        .concat()
        .into_iter()
        .map(String::from)
        .collect();
    let count = ways.len() + others.len();
    let mut values = vec![Vec::new(); count];
    for round in 0..setting.rounds {
        // The first run has a warmer or colder machine, so the order changes.
        for turn in 0..count {
            let at = (turn + round) % count;
            let ran = match ways.get(at) {
                Some((_, options)) => {
                    let options = [&["--transport", "tcp"], *options].concat();
                    setting.mpirun(&options, 2, &words)?
                }
                None => {
                    let other = &others[at - ways.len()];
                    setting.ran(&mut other.command(program, 2, &arguments))?
                }
            };
            values[at].push(printed(&ran)?);
        }
    }
    let names = ways.iter().map(|way| format!("Rejoin, {}", way.0));
    let names = names.chain(others.iter().map(|other| other.name.to_owned()));
    let text = format!("beside other MPIs, {}, TCP", kind.text);
    let mut figures: Vec<Figure> = names
        .zip(&values)
        .map(|(name, values)| Figure::median(format!("{text}, {name}"), kind.unit, values))
        .collect();
    for (at, (name, _)) in ways.iter().enumerate() {
        let text = format!("{text}: {name} to the best other, median of rounds");
        let ratios = to_best(&values, (at, ways.len()), kind.is_rate);
        figures.push(Figure::median(text, "times", &ratios));
    }
    Ok(figures)
}

/// The values of one column to the best of those from `others` on, in each round.
fn to_best(values: &[Vec<f64>], (at, others): (usize, usize), is_rate: bool) -> Vec<f64> {
    let best = |round: usize| {
        let all = values[others..].iter().map(|column| column[round]);
        match is_rate {
            true => all.fold(f64::NEG_INFINITY, f64::max),
            false => all.fold(f64::INFINITY, f64::min),
        }
    };
    let own = values[at].iter().enumerate();
    own.map(|(round, value)| value / best(round)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_held_to_the_best_other_of_its_round() {
        let values = [vec![2.0, 3.0], vec![1.0, 6.0], vec![4.0, 3.0]];
        assert_eq!(to_best(&values, (0, 1), false), [2.0, 1.0]);
        assert_eq!(to_best(&values, (0, 1), true), [0.5, 0.5]);
    }
}
