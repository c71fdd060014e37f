//! The same kills of the same work in each mode of recovery: what is done again, what time and
//! energy that costs, and what it costs ranks that do not wait for the killed one.

use super::overhead::steps;
use crate::bench::figures::Figure;
use crate::bench::job::Setting;
use crate::bench::row_plot::{Frame, SampleRow, spread, spreads};
use anyhow::{Context, Result, ensure};

const MODES: [&str; 4] = [
    "coordinated",
    "sender-log host",
    "sender-log rank",
    "receiver-log rank",
];
/// Seconds of a run without kills.
const WORK: f64 = 8.0;
/// Steps of `state pairs` in that time: each takes a little more than a millisecond.
const PACED_STEPS: &str = "6000";

/// A run of the example.
struct KilledRun {
    mode: String,
    kills: f64,
    /// Seconds, processor seconds, seconds repeated, seconds of the killed pair and of the other.
    values: [f64; 5],
}

fn parse(line: &str) -> Option<KilledRun> {
    let mut cells = line.strip_prefix("run\t")?.split('\t');
    let mode = cells.next()?.to_owned();
    let numbers: Vec<f64> = cells.map_while(|cell| cell.parse().ok()).collect();
    let (kills, values) = numbers.split_first()?;
    Some(KilledRun {
        mode,
        kills: *kills,
        values: values.try_into().ok()?,
    })
}

/// For each pair of a run without kills and one with them: what each kill costs of a value.
fn price(runs: &[KilledRun], mode: &str, of: usize) -> Vec<f64> {
    let of_mode: Vec<_> = runs.iter().filter(|run| run.mode == mode).collect();
    let pairs = of_mode.chunks_exact(2);
    let whole = pairs.filter(|pair| pair[0].kills == 0.0 && pair[1].kills > 0.0);
    whole
        .map(|pair| (pair[1].values[of] - pair[0].values[of]) / pair[1].kills)
        .collect()
}

/// For each such pair: the seconds that the killed ranks' work takes longer, to the seconds that
/// are done again. Of a rank that is a group alone, this bounds the speed of its replay: it also
/// has the notice of the end, the new process and its links.
fn replay(runs: &[KilledRun], mode: &str) -> Vec<f64> {
    let longer = price(runs, mode, 3).into_iter();
    let ratios = longer.zip(price(runs, mode, 2));
    let replayed = ratios.filter(|(_, repeated)| *repeated > 0.0);
    replayed
        .map(|(longer, repeated)| longer / repeated)
        .collect()
}

/// Runs the case.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let rounds = if setting.quick { 1 } else { setting.rounds };
    let seconds = if setting.quick { 3.0 } else { WORK };
    let steps = steps(setting, ["stencil", "16", "100"], 4, seconds)?.to_string();
    let mut figures = Vec::new();
    let mut rows: Vec<SampleRow> = Vec::new();
    for (work, steps, text) in [
        ("stencil", &*steps, "stencil"),
        ("pairs", PACED_STEPS, "pairs of ranks"),
    ] {
        let runs = runs(setting, work, steps, rounds)?;
        for mode in MODES {
            let price = |of: usize| price(&runs, mode, of);
            let shown = |what: &str| format!("{text}, {mode}: {what} by a kill, median");
            let lost = price(0);
            ensure!(!lost.is_empty(), "no pair of runs of {work} in {mode}");
            if let Some(spread) = spread(&lost) {
                rows.push((format!("{text}, {mode}"), spread));
            }
            figures.push(Figure::median(shown("longer run"), "s", &lost));
            figures.push(Figure::median(
                shown("work repeated"),
                "rank seconds",
                &price(2),
            ));
            figures.push(Figure::median(
                shown("more energy"),
                "CPU seconds",
                &price(1),
            ));
            if work == "pairs" {
                let killed = shown("longer work of the killed pair");
                figures.push(Figure::median(killed, "s", &price(3)));
                let others = shown("longer work of the other pair");
                figures.push(Figure::median(others, "s", &price(4)));
                if mode.ends_with(" rank") {
                    let what = format!("{text}, {mode}: a replay to the first execution, median");
                    let replay = replay(&runs, mode);
                    figures.push(Figure::median(what, "times", &replay).at_most(1.0));
                }
            }
        }
    }
    plot(setting, &rows)?;
    Ok(figures)
}

fn runs(setting: &Setting, work: &str, steps: &str, rounds: usize) -> Result<Vec<KilledRun>> {
    let program = setting.program("state");
    let program = program.to_str().context("a path that is no text")?;
    let words = [program, work, steps, &rounds.to_string()];
    let told = setting.example("kill_schedule", &words)?;
    Ok(told.lines().filter_map(parse).collect())
}

fn plot(setting: &Setting, rows: &[SampleRow]) -> Result<()> {
    let frame = Frame {
        title: "Longer run by a kill, the same kills in each mode, s (median, least, greatest)",
        row: 22,
        labels: 8,
        label: &|seconds| format!("{seconds:.1}"),
    };
    let most = rows.iter().map(|row| row.1[2]).fold(0.1, f64::max);
    let least = rows.iter().map(|row| row.1[0]).fold(0.0, f64::min);
    let limits = [least, most];
    spreads(
        &setting.out.join("kills.svg"),
        &frame,
        limits[0]..limits[1],
        limits,
        rows,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kill_costs_what_a_run_with_kills_takes_longer() {
        let text = "run\tcoordinated\t0\t8\t16\t0\t7\t7\nrun\tsender-log rank\t0\t8\t16\t0\t7\t7\n\
                    run\tcoordinated\t2\t9\t19\t3\t8\t7.5\ndropped\tcoordinated\twhy\n";
        let runs: Vec<_> = text.lines().filter_map(parse).collect();
        assert_eq!(runs.len(), 3);
        let prices = [0, 1, 2, 3, 4].map(|of| price(&runs, "coordinated", of));
        assert_eq!(prices, [[0.5], [1.5], [1.5], [0.5], [0.25]]);
        assert!(price(&runs, "sender-log rank", 0).is_empty());
        let ratios = replay(&runs, "coordinated");
        assert_eq!(ratios.len(), 1);
        assert!((ratios[0] - 0.5 / 1.5).abs() < 1e-9);
        assert!(replay(&runs, "sender-log rank").is_empty());
    }
}
