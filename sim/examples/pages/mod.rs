//! What the pages of figures share: the plot of lines over the number of ranks, and how values are
//! written.

use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;
use std::ops::Range;

// Readable on light and on dark pages: the background is the page's.
const TEXT: RGBColor = RGBColor(0x80, 0x87, 0x90);

/// A line: its name, its colour, and its points.
pub type Line<'a> = (&'a str, RGBColor, Vec<(f64, f64)>);

/// A panel of a plot, both of whose axes are logarithmic.
pub struct Panel {
    /// What it shows.
    pub title: &'static str,
    /// Powers of ten at the bottom and the top.
    pub range: (i32, i32),
    /// The label of a power of ten.
    pub label: fn(i32) -> String,
}

/// Draws lines over the number of ranks.
pub fn draw<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    panel: &Panel,
    ranks: Range<f64>,
    lines: &[Line],
) -> Result<(), Box<dyn Error>>
where
    B::ErrorType: 'static,
{
    let font = ("sans-serif", 12).into_font().color(&TEXT);
    let power = |power: i32| 10_f64.powi(power);
    let values = power(panel.range.0)..power(panel.range.1);
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 14).into_font().color(&TEXT))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(ranks.log_scale(), values.log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(TEXT.mix(0.4))
        .axis_style(TEXT)
        .label_style(font.clone())
        .x_desc("ranks")
        .x_label_formatter(&|ranks| format!("{ranks:.0}"))
        .y_label_formatter(&|value| (panel.label)(value.log10().round() as i32))
        .draw()?;
    for (name, colour, points) in lines {
        let style = colour.stroke_width(2);
        let line = chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        let key = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style);
        line.label(*name).legend(key);
    }
    let keys = SeriesLabelPosition::UpperLeft;
    let mut labels = chart.configure_series_labels();
    labels.position(keys).label_font(font).draw()?;
    Ok(())
}

/// A power of ten of seconds.
pub fn seconds_label(power: i32) -> String {
    match power {
        ..-3 => format!("{} µs", 10_u32.pow((power + 6) as u32)),
        -3..0 => format!("{} ms", 10_u32.pow((power + 3) as u32)),
        _ => format!("{} s", 10_u32.pow(power as u32)),
    }
}

/// A time in nanoseconds.
pub fn time(nanos: u64) -> String {
    match nanos as f64 / 1e6 {
        ms if ms < 1.0 => format!("{:.0} µs", ms * 1e3),
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1000.0),
    }
}

/// A number of bytes.
pub fn size(bytes: u64) -> String {
    match bytes as f64 {
        b if b < 1e3 => format!("{b} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}
