//! What a move of a rank to another host costs the rank, and those that stay.

use super::overhead::steps;
use crate::bench::figures::Figure;
use crate::bench::job::{Setting, numbers};
use crate::bench::row_plot::{Frame, SampleRow, spread, spreads};
use anyhow::{Context, Result, ensure};
use plotters::prelude::IntoLogRange;
use std::path::Path;

/// Seconds of the run whose length moves change, and moves in it.
const WORK: f64 = 60.0;
const MOVES_IN_WORK: &str = "4";

/// Runs the case: a move for itself, beside a restart of the job, and as a part of a run.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let mut figures = pauses(setting)?;
    figures.extend(beside_restart(setting)?);
    figures.extend(price(setting)?);
    Ok(figures)
}

/// The rank has 256 MB, of which it rewrites a tenth per second.
fn pauses(setting: &Setting) -> Result<Vec<Figure>> {
    let moves = if setting.quick { "4" } else { "20" };
    let told = setting.example("migrate", &[moves, "256", "10"])?;
    let shown = |what: &str| format!("4 × 256 MB, a rank moves and rewrites 10 % a second: {what}");
    let of = |word: &str| numbers(&told, word);
    Ok(vec![
        Figure::median(shown("its pause, median"), "ms", &of("moved")).at_most(300.0),
        Figure::largest(shown("its longest pause"), "ms", &of("moved")),
        Figure::median(
            shown("longest step of a rank that stays, meanwhile, median"),
            "ms",
            &of("stayed"),
        )
        .at_most(30.0),
        Figure::quantile(shown("the same, 99 %"), "ms", 0.99, &of("stayed")).at_most(100.0),
        Figure::median(
            shown("the same in the checkpoint that follows, median"),
            "ms",
            &of("checkpoint"),
        ),
        Figure::median(
            shown("from the request to its end, median"),
            "ms",
            &of("took"),
        ),
        Figure::largest(
            shown("most bytes sent to its new host, to its memory"),
            "",
            &of("bytes"),
        ),
    ])
}

/// The columns of all lines that begin with `pair`.
fn pairs<const N: usize>(text: &str) -> Result<[Vec<f64>; N]> {
    let all = numbers(text, "pair");
    ensure!(
        !all.is_empty() && all.len().is_multiple_of(N),
        "no whole pairs in {text:?}"
    );
    let column = |at: usize| all.iter().skip(at).step_by(N).copied().collect();
    Ok(std::array::from_fn(column))
}

/// The same move beside saving and restarting the job through a folder in memory.
fn beside_restart(setting: &Setting) -> Result<Vec<Figure>> {
    let count = if setting.quick { "2" } else { "15" };
    let told = setting.example("move_or_restart", &[count, "256", "10"])?;
    let [moved, restarted, took, took_all] = pairs::<4>(&told)?;
    let rows = [
        ("a rank moves: its pause", &moved),
        ("job restarts: its pause", &restarted),
        ("a rank moves: from the request", &took),
        ("job restarts: from the signal", &took_all),
    ];
    let named = |(name, samples): &(&str, &Vec<f64>)| Some(((*name).into(), spread(samples)?));
    let rows: Vec<SampleRow> = rows.iter().filter_map(named).collect();
    plot(&setting.out.join("moves.svg"), &rows)?;
    let times = |more: &[f64], less: &[f64]| -> Vec<f64> {
        more.iter()
            .zip(less)
            .map(|(more, less)| more / less)
            .collect()
    };
    let shown = |what: &str| format!("4 × 256 MB, a move beside a restart of the job: {what}");
    let pause = times(&restarted, &moved);
    Ok(vec![
        Figure::median(shown("pause of the rank that moves, median"), "ms", &moved),
        Figure::median(
            shown("pause of the restarted job, median"),
            "ms",
            &restarted,
        ),
        Figure::median(shown("shorter pause, median of pairs"), "times", &pause).at_least(10.0),
        Figure::median(
            shown("signal to the first step of all restarted ranks, median"),
            "ms",
            &took_all,
        ),
        Figure::median(
            shown("restart to move, from request to end, median of pairs"),
            "times",
            &times(&took_all, &took),
        ),
    ])
}

fn plot(path: &Path, rows: &[SampleRow]) -> Result<()> {
    let frame = Frame {
        title: "Moving a rank beside saving and restarting the job, ms (median, least, greatest)",
        row: 22,
        labels: 5,
        label: &|ms| format!("{ms:.0}"),
    };
    let limits = [10.0, 100_000.0];
    spreads(
        path,
        &frame,
        (limits[0]..limits[1]).log_scale(),
        limits,
        rows,
    )
}

/// The longer run of a job in which a rank moves.
fn price(setting: &Setting) -> Result<Vec<Figure>> {
    let seconds = if setting.quick { 20.0 } else { WORK };
    let count = if setting.quick { 2 } else { setting.rounds };
    let steps = steps(setting, ["stencil", "256", "10"], 4, seconds)?.to_string();
    let program = setting.program("state");
    let program = program.to_str().context("a path that is no text")?;
    let words = [program, &steps, &count.to_string(), MOVES_IN_WORK];
    let [with, without, moves] = pairs::<3>(&setting.example("move_price", &words)?)?;
    let lost = with.iter().zip(&without).zip(&moves);
    let lost: Vec<f64> = lost
        .map(|((with, without), n)| (with - without) / n)
        .collect();
    let part: Vec<f64> = lost
        .iter()
        .zip(&without)
        .map(|(l, all)| l / all * 100.0)
        .collect();
    let shown = |what: &str| format!("stencil that modifies 10 % of 4 × 256 MB: {what}");
    let of_run = shown("longer run by one move, of a minute, mean of pairs");
    let of_run = Figure::mean(of_run, "%", &part);
    Ok(vec![
        Figure::mean(shown("seconds lost by a move, mean of pairs"), "s", &lost),
        match setting.quick {
            true => of_run,
            false => of_run.costs_at_most(1.0),
        },
    ])
}
