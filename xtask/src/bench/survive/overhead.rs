//! Processor seconds of the same work with checkpoints 30 s apart and without any, in turns.

use super::figures::{Figure, mean_and_bound};
use super::job::{Ran, Setting};
use anyhow::{Context, Result, ensure};

const RANKS: u32 = 4;
const NONE: [&str; 2] = ["--recovery", "none"];

/// Runs the case.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let (seconds, apart) = if setting.quick {
        (8.0, "3")
    } else {
        // One checkpoint in the middle and no time after it that would thin its cost.
        (34.0, "30")
    };
    let mut figures = Vec::new();
    let journal = crate::root().join(format!("target/bench/events-{}", std::process::id()));
    let name = journal.to_str().context("a path that is no text")?;
    for (program, percent, goal) in [
        ("stencil", "10", 1.0),
        ("stencil", "100", 2.0),
        ("cg", "10", 1.0),
        ("cg", "100", 2.0),
    ] {
        let steps = steps(setting, program, percent, seconds)?.to_string();
        let words = ["state", program, "256", percent, &steps];
        let (mut samples, mut system) = (Vec::new(), Vec::new());
        for round in 0..setting.rounds {
            let with = ["--checkpoint-interval", apart, "--events", name];
            let pair: [&[&str]; 2] = [&with, &NONE];
            // Who is first has the warmer or the colder machine: each in turn.
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            let mut ran: [Option<Ran>; 2] = [None, None];
            for i in order {
                ran[i] = Some(setting.mpirun(pair[i], RANKS, &words)?);
            }
            let events = std::fs::read_to_string(&journal).context("reading the events")?;
            std::fs::remove_file(&journal)?;
            // One at the start, one at the end: without another the run was over before its time.
            let committed = events.matches("\"committed\"").count();
            ensure!(committed > 2, "no checkpoint while {program} ran");
            if let [Some(with), Some(none)] = ran {
                ensure!(
                    with.out == none.out,
                    "other results: {} {}",
                    with.out,
                    none.out
                );
                samples.push((with.cpu / none.cpu - 1.0) * 100.0);
                // Forks and copied pages are the system's time, which does not vary with the speed of
                // memory as the program's own does.
                system.push((with.system - none.system) / none.cpu * 100.0);
            }
        }
        let (mean, bound) = mean_and_bound(&samples);
        let what =
            format!("{program} that modifies {percent} % of 256 MB, checkpoints {apart} s apart");
        let bounded = Figure::new(format!("{what}: upper bound (95 %)"), "%", bound, &samples);
        figures.push(Figure::new(
            format!("{what}: more processor seconds, mean"),
            "%",
            mean,
            &samples,
        ));
        let (_, bound) = mean_and_bound(&system);
        let counted = Figure::new(
            format!("{what}: the system's part alone, upper bound (95 %)"),
            "%",
            bound,
            &system,
        );
        for figure in [bounded, counted] {
            figures.push(if setting.quick {
                figure
            } else {
                figure.at_most(goal)
            });
        }
    }
    Ok(figures)
}

/// How many steps take so many seconds.
fn steps(setting: &Setting, program: &str, percent: &str, seconds: f64) -> Result<u64> {
    let seconds_of = |steps: u64| -> Result<f64> {
        let words = ["state", program, "256", percent, &steps.to_string()];
        Ok(setting.mpirun(&NONE, RANKS, &words)?.wall)
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
