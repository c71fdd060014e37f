//! The plot: each case's ratio to the best peer on a logarithmic axis, better to the right.

use super::contestants::Medium;
use super::report::ratios;
use super::row_plot::{Frame, letters, rows};
use super::run::CaseResult;
use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use std::path::Path;

/// Height of a case in pixels.
const ROW: u32 = 22;
/// The axis runs from 1/LIMIT to LIMIT times the best peer.
const LIMIT: f64 = 16.0;

const AHEAD: RGBColor = RGBColor(0x2a, 0x9d, 0x74);
const BEHIND: RGBColor = RGBColor(0xd0, 0x5a, 0x48);

/// How many times better than the best peer: above 1 is ahead, whichever way the unit points.
fn advantage(r: &CaseResult) -> Option<f64> {
    let ratio = ratios(r).0?.median;
    Some(if r.case.higher { ratio } else { 1.0 / ratio })
}

/// The case, and the character of the machine if there may be figures of either.
fn label(r: &CaseResult, medium: Medium) -> String {
    match r.character().filter(|_| medium == Medium::Shm) {
        Some(character) => format!("{}, {}", r.case.name(), character.name()),
        None => r.case.name(),
    }
}

/// Writes the plot as SVG.
pub fn write(path: &Path, results: &[&CaseResult], medium: Medium) -> Result<()> {
    let all: Vec<(String, f64)> = results
        .iter()
        .filter_map(|r| Some((label(r, medium), advantage(r)?)))
        .collect();
    let title = format!(
        "Rejoin against the best peer over {} (times better)",
        medium.title()
    );
    let tick = |x: &f64| {
        if *x < 1.0 {
            format!("1/{:.0}", 1.0 / x)
        } else {
            format!("{x:.0}")
        }
    };
    let frame = Frame {
        title: &title,
        row: ROW,
        labels: 9,
        label: &tick,
    };
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let axis = (1.0 / LIMIT..LIMIT).log_scale().base(2.0);
    rows(path, &frame, &names, axis, |area, chart, i, y| {
        let advantage = all[i].1;
        let x = advantage.clamp(1.0 / LIMIT, LIMIT);
        let colour = if advantage >= 1.0 { AHEAD } else { BEHIND };
        let corners = [(x.min(1.0), y - 0.3), (x.max(1.0), y + 0.3)];
        chart.draw_series([Rectangle::new(corners, colour.filled())])?;
        let place = chart.backend_coord(&(x.max(1.0), y));
        let left = letters(ROW, HPos::Left);
        area.draw_text(&format!("{advantage:.2}"), &left, (place.0 + 4, place.1))?;
        Ok(())
    })
}
