//! Plots with a row for each name, on the left, and one axis of values.

use anyhow::Result;
use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// Width of the plot and of the names on its left, in pixels.
const WIDTH: u32 = 820;
const NAMES: u32 = 210;

// Readable on light and on dark pages: the background is the page's.
const TEXT: RGBColor = RGBColor(0x80, 0x87, 0x90);
const SPREAD: RGBColor = RGBColor(0x5b, 0x8d, 0xc9);

/// What is around the rows.
pub struct Frame<'a> {
    /// Above the plot.
    pub title: &'a str,
    /// Height of a row in pixels, and size of the letters.
    pub row: u32,
    /// Most labels of the axis.
    pub labels: usize,
    /// The label of a value.
    pub label: &'a dyn Fn(&f64) -> String,
}

/// Where the rows are drawn.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The axes of the rows.
pub type Chart<'a, 'b, X> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, RangedCoordf64>>;

/// Small letters at the left or in the middle of a place.
pub fn letters(row: u32, side: HPos) -> TextStyle<'static> {
    let font = ("sans-serif", row.min(12)).into_font().color(&TEXT);
    font.pos(Pos::new(side, VPos::Center))
}

/// Draws the frame with the names; `mark` draws each row at its height above the axis.
pub fn rows<'b, A>(
    path: &'b Path,
    frame: &Frame,
    names: &[&str],
    axis: A,
    mut mark: impl FnMut(&Area<'b>, &mut Chart<'_, 'b, A::CoordDescType>, usize, f64) -> Result<()>,
) -> Result<()>
where
    A: AsRangedCoord<Value = f64>,
    A::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let height = (names.len() as u32 + 5) * frame.row;
    let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .caption(frame.title, ("sans-serif", 14).into_font().color(&TEXT))
        .margin(8)
        .margin_right(40)
        .x_label_area_size(2 * frame.row)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(axis, 0.0..names.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(TEXT.mix(0.4))
        .axis_style(TEXT)
        .x_labels(frame.labels)
        .x_label_style(letters(frame.row, HPos::Center))
        .x_label_formatter(frame.label)
        .draw()?;
    let right = letters(frame.row, HPos::Right);
    let first = chart.plotting_area().get_x_range().start;
    for (i, name) in names.iter().enumerate() {
        // The first row is at the top.
        let y = (names.len() - 1 - i) as f64 + 0.5;
        mark(&area, &mut chart, i, y)?;
        let place = chart.backend_coord(&(first, y));
        area.draw_text(name, &right, (NAMES as i32, place.1))?;
    }
    area.present()?;
    Ok(())
}

/// A name, and the least, the median and the greatest value.
pub type SampleRow = (String, [f64; 3]);

/// The least, the median and the greatest of samples; `None`: there are none.
pub fn spread(samples: &[f64]) -> Option<[f64; 3]> {
    let middle = super::intervals::median(samples)?;
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some([least, middle, most])
}

/// Draws a line from the least to the greatest value of each row, and a point at the median; both
/// stay within the limits.
pub fn spreads<A>(
    path: &Path,
    frame: &Frame,
    axis: A,
    limits: [f64; 2],
    all: &[SampleRow],
) -> Result<()>
where
    A: AsRangedCoord<Value = f64>,
    A::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    rows(path, frame, &names, axis, |_, chart, i, y| {
        let [least, middle, most] = all[i].1.map(|value| value.clamp(limits[0], limits[1]));
        chart.draw_series([PathElement::new(vec![(least, y), (most, y)], SPREAD)])?;
        chart.draw_series([Circle::new((middle, y), 3, SPREAD.filled())])?;
        Ok(())
    })
}
