//! Processor seconds of the same work with checkpoints 30 s apart and without any, in turns.

use crate::bench::figures::Figure;
use crate::bench::job::{Ran, Setting};
use anyhow::{Context, Result, ensure};

const RANKS: u32 = 4;
const NONE: [&str; 2] = ["--recovery", "none"];

/// Runs the case.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let (seconds, apart) = if setting.quick {
        (8.0, "3")
    } else {
        // One checkpoint in the middle. A longer run would dilute its cost.
        (34.0, "30")
    };
    let mut figures = Vec::new();
    for (program, percent, goal) in [
        ("stencil", "10", 1.0),
        ("stencil", "100", 2.0),
        ("cg", "10", 1.0),
        ("cg", "100", 2.0),
    ] {
        let steps = steps(setting, [program, "256", percent], RANKS, seconds)?.to_string();
        let words = ["state", program, "256", percent, &steps];
        let pairs = (0..setting.rounds)
            .map(|round| pair(setting, apart, &words, round))
            .collect::<Result<Vec<_>>>()?;
        let what =
            format!("{program} that modifies {percent} % of 256 MB, checkpoints {apart} s apart");
        figures.extend(told(&what, &pairs, (!setting.quick).then_some(goal)));
    }
    Ok(figures)
}

/// The same work with checkpoints and without. The order alternates between rounds.
fn pair(setting: &Setting, apart: &str, words: &[&str], round: usize) -> Result<[Ran; 2]> {
    let journal =
        crate::workspace::root().join(format!("target/bench/events-{}", std::process::id()));
    let name = journal.to_str().context("a path that is no text")?;
    let with = || {
        let options = ["--checkpoint-interval", apart, "--events", name];
        setting.mpirun(&options, RANKS, words)
    };
    let none = || setting.mpirun(&NONE, RANKS, words);
    // The first run has a warmer or colder machine, so the order alternates.
    let (with, none) = if round.is_multiple_of(2) {
        let with = with()?;
        (with, none()?)
    } else {
        let none = none()?;
        (with()?, none)
    };
    let events = std::fs::read_to_string(&journal).context("reading the events")?;
    std::fs::remove_file(&journal)?;
    // One checkpoint at the start and one at the end. Without a third, the run was too short.
    let committed = events.matches("\"committed\"").count();
    ensure!(committed > 2, "no checkpoint while {words:?} ran");
    ensure!(
        with.out == none.out,
        "other results: {} {}",
        with.out,
        none.out
    );
    Ok([with, none])
}

/// The overhead over all pairs: of the whole work, and of the system's part of it.
fn told(what: &str, pairs: &[[Ran; 2]], goal: Option<f64>) -> [Figure; 2] {
    let percent = |more: fn(&Ran, &Ran) -> f64| -> Vec<f64> {
        let of = |[with, none]: &[Ran; 2]| more(with, none) / none.cpu * 100.0;
        pairs.iter().map(of).collect()
    };
    let all = percent(|with, none| with.cpu - none.cpu);
    // Forks and copied pages are the system's time, which does not vary with the speed of memory as
    // the program's own does.
    let system = percent(|with, none| with.system - none.system);
    let held = |figure: Figure| match goal {
        Some(goal) => figure.costs_at_most(goal),
        None => figure,
    };
    let all = Figure::mean(format!("{what}: more processor seconds, mean"), "%", &all);
    let what = format!("{what}: the system's part alone, mean");
    [held(all), held(Figure::mean(what, "%", &system))]
}

/// How many steps of `state` with these words (program, MB, per cent) take so many seconds on so
/// many ranks.
pub(super) fn steps(
    setting: &Setting,
    [program, megabytes, percent]: [&str; 3],
    ranks: u32,
    seconds: f64,
) -> Result<u64> {
    let seconds_of = |steps: u64| -> Result<f64> {
        let words = ["state", program, megabytes, percent, &steps.to_string()];
        Ok(setting.mpirun(&NONE, ranks, &words)?.wall)
    };
    let empty = seconds_of(1)?;
    let mut steps = 20;
    loop {
        let took = seconds_of(steps)? - empty;
        if took > 1.0 {
            return Ok((steps as f64 * seconds / took) as u64);
        }
        steps *= 4;
    }
}
