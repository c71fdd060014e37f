//! The plot: processor time beside that of the default, with the spread of the rounds.

use super::detector_runs::Runs;
use super::detector_table::{BASE, cases, overhead, pair, settings};
use crate::bench::intervals::median;
use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// Height of a row, width of the plot and of the names on its left, in pixels.
const ROW: u32 = 16;
const WIDTH: u32 = 820;
const NAMES: u32 = 210;

/// The axis runs from minus to plus so many percent.
const LIMIT: f64 = 30.0;

// Readable on light and on dark pages: the background is the page's.
const TEXT: RGBColor = RGBColor(0x80, 0x87, 0x90);
const SPREAD: RGBColor = RGBColor(0x5b, 0x8d, 0xc9);

/// A name, and the least, the median and the greatest value.
type Row = (String, [f64; 3]);

fn rows(runs: &Runs) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in cases(runs) {
        for setting in settings(runs).into_iter().filter(|name| *name != BASE) {
            let [cpu, base] = pair(runs, case, setting, 4);
            let more = overhead(&cpu, &base);
            let Some(middle) = median(&more) else {
                continue;
            };
            let least = more.iter().copied().fold(f64::INFINITY, f64::min);
            let most = more.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            rows.push((
                format!("{} × {}: {setting}", case.0, case.1),
                [least, middle, most],
            ));
        }
    }
    rows
}

/// Writes the plot as SVG.
pub fn write(path: &Path, runs: &Runs) -> Result<()> {
    let rows = rows(runs);
    let height = (rows.len() as u32 + 5) * ROW;
    let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    let font = ("sans-serif", 11).into_font().color(&TEXT);
    let title = format!("Processor time, % more than with {BASE} (median, least, greatest)");
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 14).into_font().color(&TEXT))
        .margin(8)
        .margin_right(40)
        .x_label_area_size(2 * ROW)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(-LIMIT..LIMIT, 0.0..rows.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(TEXT.mix(0.4))
        .axis_style(TEXT)
        .x_labels(7)
        .x_label_style(font.clone())
        .draw()?;
    for (i, (name, values)) in rows.iter().enumerate() {
        // The first row is at the top.
        let y = (rows.len() - 1 - i) as f64 + 0.5;
        let [least, middle, most] = values.map(|value| value.clamp(-LIMIT, LIMIT));
        chart.draw_series([PathElement::new(vec![(least, y), (most, y)], SPREAD)])?;
        chart.draw_series([Circle::new((middle, y), 3, SPREAD.filled())])?;
        let right = font.clone().pos(Pos::new(HPos::Right, VPos::Center));
        let place = chart.backend_coord(&(0.0, y));
        area.draw_text(name, &right, (NAMES as i32, place.1))?;
    }
    area.present()?;
    Ok(())
}
