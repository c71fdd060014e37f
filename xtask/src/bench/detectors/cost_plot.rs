//! The plot: processor time beside that of the default, with the spread of the rounds.

use super::detector_runs::Runs;
use super::detector_table::{BASE, cases, overhead, pair, settings};
use crate::bench::row_plot::{Frame, SampleRow, spread, spreads};
use anyhow::Result;
use std::path::Path;

/// The axis runs from minus to plus so many percent.
const LIMIT: f64 = 30.0;

fn rows(runs: &Runs) -> Vec<SampleRow> {
    let mut rows = Vec::new();
    for case in cases(runs) {
        for setting in settings(runs).into_iter().filter(|name| *name != BASE) {
            let [cpu, base] = pair(runs, case, setting, 4);
            if let Some(values) = spread(&overhead(&cpu, &base)) {
                rows.push((format!("{} × {}: {setting}", case.0, case.1), values));
            }
        }
    }
    rows
}

/// Writes the plot as SVG.
pub fn write(path: &Path, runs: &Runs) -> Result<()> {
    let title = format!("Processor time, % more than with {BASE} (median, least, greatest)");
    let frame = Frame {
        title: &title,
        row: 16,
        labels: 7,
        label: &|percent| format!("{percent:.1}"),
    };
    spreads(path, &frame, -LIMIT..LIMIT, [-LIMIT, LIMIT], &rows(runs))
}
