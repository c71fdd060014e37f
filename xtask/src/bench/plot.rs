//! The plot: each case's ratio to the best peer on a logarithmic axis, better to the right.

use super::contestants::Medium;
use super::report::ratios;
use super::run::CaseResult;
use anyhow::Result;
use std::fmt::Write as _;
use std::path::Path;

const ROW: usize = 22;
const LEFT: usize = 210;
const WIDTH: usize = 520;
/// The axis runs from 1/DECADES to DECADES times the best peer.
const LIMIT: f64 = 16.0;

/// How many times better than the best peer: above 1 is ahead, whichever way the unit points.
fn advantage(r: &CaseResult) -> Option<f64> {
    let ratio = ratios(r).0?;
    Some(if r.case.higher { ratio } else { 1.0 / ratio })
}

fn x(advantage: f64) -> f64 {
    let share = advantage.clamp(1.0 / LIMIT, LIMIT).ln() / LIMIT.ln();
    LEFT as f64 + (share + 1.0) / 2.0 * WIDTH as f64
}

/// Writes the plot as SVG.
pub fn write(path: &Path, results: &[CaseResult], medium: Medium) -> Result<()> {
    let rows: Vec<_> = results
        .iter()
        .filter_map(|r| Some((r, advantage(r)?)))
        .collect();
    let height = (rows.len() + 3) * ROW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"18\" font-size=\"14\">Rejoin against the best peer over {} (times better; higher is better)</text>\n",
        LEFT + WIDTH + 80,
        medium.title()
    );
    for tick in [1.0 / 16.0, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0] {
        let label = if tick < 1.0 {
            format!("1/{}", 1.0 / tick)
        } else {
            tick.to_string()
        };
        let (x, bottom) = (x(tick), height - ROW);
        let colour = if tick == 1.0 { "#333" } else { "#ccc" };
        writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"28\" y2=\"{bottom}\" stroke=\"{colour}\"/>"
        )?;
        writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            bottom + 14
        )?;
    }
    for (i, (r, advantage)) in rows.iter().enumerate() {
        let y = 34 + i * ROW;
        let (from, to) = (x(1.0).min(x(*advantage)), x(1.0).max(x(*advantage)));
        let colour = if *advantage >= 1.0 {
            "#2a7f62"
        } else {
            "#b5493a"
        };
        writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 8,
            y + 12,
            r.case.name()
        )?;
        writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" fill=\"{colour}\"/>",
            (to - from).max(1.0),
            ROW - 8
        )?;
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\">{advantage:.2}</text>",
            to + 4.0,
            y + 12
        )?;
    }
    svg.push_str("</svg>\n");
    std::fs::write(path, svg)?;
    Ok(())
}
