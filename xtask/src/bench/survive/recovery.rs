//! From `kill -9` of one of 4 ranks of 256 MB to a message that every rank has completed.

use crate::bench::figures::Figure;
use crate::bench::job::{Setting, numbers};
use anyhow::Result;
use std::process::Command;

const PHASES: [(&str, &str); 5] = [
    ("noticed", "kill to the manager's first notice, median"),
    ("stopped", "kill to all old ranks stopped, median"),
    ("running", "kill to all new ranks running, median"),
    ("registered", "kill to all ranks registered, median"),
    ("started", "kill to all ranks told to go on, median"),
];

/// Runs the case.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let kills: i32 = if setting.quick { 10 } else { 201 };
    let mut figures = progress(setting, "shm", kills)?;
    figures.extend(progress(setting, "tcp", kills / 2)?);
    // Separate runs record the phases in between, because recording costs time.
    let noted = example(setting, &[&(kills / 2).to_string(), "256", "shm", "phases"])?;
    for (phase, what) in PHASES {
        let figure = Figure::median(what, "ms", &numbers(&noted, phase));
        figures.push(if phase == "noticed" {
            figure.at_most(1.0)
        } else {
            figure
        });
    }
    // A comparison, not a lower bound: images are forked while the job runs, and a restore needs no
    // further fork of memory.
    let mut floor = Command::new(setting.program("state"));
    let floor = setting.ran(floor.args(["floor", "256", &kills.to_string()]))?;
    let what = "for comparison: four bare forks of 256 MB at once, median";
    figures.push(Figure::median(what, "ms", &numbers(&floor.out, "floor")));
    let what = "undisturbed: an allreduce of 8 bytes by 4 ranks, median";
    figures.push(Figure::median(what, "ms", &undisturbed(setting)?));
    Ok(figures)
}

/// From kill to progress, over a transport.
fn progress(setting: &Setting, transport: &str, kills: i32) -> Result<Vec<Figure>> {
    let told = example(setting, &[&kills.to_string(), "256", transport])?;
    let progress = numbers(&told, "progress");
    let missing = f64::from(kills) - progress.len() as f64;
    let of = |what: &str| format!("{transport}: kill to a message completed by every rank, {what}");
    let quantile = |what: &str, part| Figure::quantile(of(what), "ms", part, &progress);
    Ok(vec![
        quantile("median", 0.5).at_most(40.0),
        quantile("90 %", 0.9),
        quantile("99 %", 0.99).at_most(120.0),
        Figure::largest(of("slowest"), "ms", &progress),
        Figure::count(
            format!("{transport}: kills without a figure"),
            "kills",
            missing,
        )
        .at_most(0.0),
    ])
}

/// What the example `recover` prints.
fn example(setting: &Setting, words: &[&str]) -> Result<String> {
    setting.example("recover", words)
}

fn undisturbed(setting: &Setting) -> Result<Vec<f64>> {
    let rounds = 0..setting.rounds;
    let one = |_| {
        let micros = setting.printed(&[], 4, &["mpibench", "allreduce", "8", "4000"])?;
        Ok(micros / 1e3)
    };
    rounds.map(one).collect()
}
