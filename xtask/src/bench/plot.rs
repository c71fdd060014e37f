//! The plot: each case's ratio to the best peer on a logarithmic axis, better to the right.

use super::contestants::Medium;
use super::report::ratios;
use super::run::CaseResult;
use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// Height of a case, and width of the plot and of the names on its left, in pixels.
const ROW: u32 = 22;
const WIDTH: u32 = 820;
const NAMES: u32 = 210;
/// The axis runs from 1/LIMIT to LIMIT times the best peer.
const LIMIT: f64 = 16.0;

// Readable on light and on dark pages: the background is the page's.
const TEXT: RGBColor = RGBColor(0x80, 0x87, 0x90);
const AHEAD: RGBColor = RGBColor(0x2a, 0x9d, 0x74);
const BEHIND: RGBColor = RGBColor(0xd0, 0x5a, 0x48);

/// How many times better than the best peer: above 1 is ahead, whichever way the unit points.
fn advantage(r: &CaseResult) -> Option<f64> {
    let ratio = ratios(r).0?.median;
    Some(if r.case.higher { ratio } else { 1.0 / ratio })
}

/// Writes the plot as SVG.
pub fn write(path: &Path, results: &[&CaseResult], medium: Medium) -> Result<()> {
    let rows: Vec<(String, f64)> = results
        .iter()
        .filter_map(|r| Some((r.case.name(), advantage(r)?)))
        .collect();
    let height = (rows.len() as u32 + 4) * ROW;
    let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    let title = format!(
        "Rejoin against the best peer over {} (times better)",
        medium.title()
    );
    let font = ("sans-serif", 12).into_font().color(&TEXT);
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 15).into_font().color(&TEXT))
        .margin(8)
        .margin_right(40)
        .x_label_area_size(ROW)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(
            (1.0 / LIMIT..LIMIT).log_scale().base(2.0),
            0.0..rows.len() as f64,
        )?;
    let tick = |x: &f64| {
        if *x < 1.0 {
            format!("1/{:.0}", 1.0 / x)
        } else {
            format!("{x:.0}")
        }
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(TEXT.mix(0.4))
        .axis_style(TEXT)
        .x_labels(9)
        .x_label_style(font.clone())
        .x_label_formatter(&tick)
        .draw()?;
    for (i, (name, advantage)) in rows.iter().enumerate() {
        // The first case is at the top.
        let y = (rows.len() - 1 - i) as f64;
        let x = advantage.clamp(1.0 / LIMIT, LIMIT);
        let colour = if *advantage >= 1.0 { AHEAD } else { BEHIND };
        let corners = [(x.min(1.0), y + 0.2), (x.max(1.0), y + 0.8)];
        chart.draw_series([Rectangle::new(corners, colour.filled())])?;
        let left = font.clone().pos(Pos::new(HPos::Left, VPos::Center));
        let place = chart.backend_coord(&(x.max(1.0), y + 0.5));
        area.draw_text(&format!("{advantage:.2}"), &left, (place.0 + 4, place.1))?;
        let right = font.clone().pos(Pos::new(HPos::Right, VPos::Center));
        area.draw_text(name, &right, (NAMES as i32, place.1))?;
    }
    area.present()?;
    Ok(())
}
