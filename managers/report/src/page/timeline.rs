//! The timeline of a job: a drawing (inline SVG) with its title, its description and its legend.

use super::lanes::Lanes;
use super::quantity::{counted, time};
use super::timeline_marks::{self as marks, Area};
use crate::history::JobHistory;
use maud::{Markup, html};

/// Width of the drawing; its units are about pixels.
const WIDTH: f64 = 1000.0;
/// Where the plot begins and ends.
const PLOT: (f64, f64) = (150.0, 990.0);
/// Height of the row of checkpoints, and of that of stalls.
const ROWS: (f64, f64) = (24.0, 44.0);
/// Space between rows.
const GAP: f64 = 6.0;
/// About so many ticks are on the axis.
const TICKS: f64 = 8.0;

/// The drawing of a job; `number` tells the drawings of a page apart.
pub fn figure(number: usize, job: &JobHistory) -> Markup {
    let lanes = Lanes::of(job);
    let many = lanes.labels().len();
    let lane_height = if many > 32 { 12.0 } else { 18.0 };
    let top = GAP;
    let stalls = top + ROWS.0 + GAP;
    let lanes_top = stalls + ROWS.1 + GAP;
    let bottom = lanes_top + many as f64 * lane_height;
    let height = bottom + 24.0;
    let area = Area {
        left: PLOT.0,
        right: PLOT.1,
        end: job.last.max(1),
        lanes_top,
        lane_height,
        bottom,
    };
    let (title, description) = (format!("title-{number}"), format!("text-{number}"));
    html! {
        figure {
            div.scroll tabindex="0" {
                svg role="img" viewBox=(format!("0 0 {WIDTH} {height}"))
                    aria-labelledby=(format!("{title} {description}"))
                {
                    title id=(title) { "Timeline of job " (job.job()) }
                    desc id=(description) { (in_words(job)) }
                    (axis(&area))
                    (row_label("checkpoints", top + ROWS.0 / 2.0))
                    (row_label("longest stall", stalls + ROWS.1 / 2.0))
                    (marks::checkpoints(&area, job, (top, ROWS.0)))
                    (marks::stalls(&area, job, (stalls, ROWS.1)))
                    (lane_rows(&area, &lanes))
                    (marks::outages(&area, job, &lanes))
                    (marks::recoveries(&area, job, &lanes))
                    (marks::failures(&area, job, &lanes))
                    (marks::incidents(&area, job, &lanes))
                }
            }
            (legend())
            figcaption {
                (lanes.note()) " Times count from the start of mpirun. Marks that would cover each other "
                "are drawn as one, which names their number. The tables below say the same in text."
            }
        }
    }
}

fn row_label(text: &str, middle: f64) -> Markup {
    let y = marks::at(middle + 4.0);
    html! { text x=(marks::at(PLOT.0 - 8.0)) y=(y) text-anchor="end" { (text) } }
}

fn lane_rows(area: &Area, lanes: &Lanes<'_>) -> Markup {
    html! {
        @for (lane, label) in lanes.labels().iter().enumerate() {
            @let y = area.lane(lane);
            rect.row x=(marks::at(area.left)) y=(marks::at(y + 1.0))
                width=(marks::at(area.right - area.left)) height=(marks::at(area.lane_height - 2.0)) {}
            (row_label(&shortened(label), y + area.lane_height / 2.0))
        }
    }
}

/// A label that fits beside the plot.
fn shortened(label: &str) -> String {
    const MOST: usize = 22;
    if label.chars().count() <= MOST {
        return label.to_owned();
    }
    let begin: String = label.chars().take(MOST - 1).collect();
    format!("{begin}…")
}

/// Half of the width of a label of the axis, at most.
const LABEL: f64 = 40.0;

fn axis(area: &Area) -> Markup {
    let step = tick_step(area.end as f64 / 1e9);
    let count = (area.end as f64 / 1e9 / step).floor() as u64;
    html! {
        @for tick in 0..=count {
            @let seconds = tick as f64 * step;
            @let place = area.x((seconds * 1e9) as u64);
            @let x = marks::at(place);
            // The last label has no room to its right.
            @let anchor = if place > PLOT.1 - LABEL { "end" } else { "middle" };
            line.tick x1=(x) x2=(x) y1="0" y2=(marks::at(area.bottom + 4.0)) {}
            text.faint x=(x) y=(marks::at(area.bottom + 17.0)) text-anchor=(anchor) {
                (time((seconds * 1e9) as u64))
            }
        }
    }
}

/// Seconds between ticks: 1, 2 or 5 times a power of ten below a minute, else whole minutes or
/// hours.
fn tick_step(seconds: f64) -> f64 {
    const LONG: [f64; 13] = [
        60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0, 21_600.0, 43_200.0,
        86_400.0, 172_800.0,
    ];
    let wanted = (seconds / TICKS).max(1e-9);
    let power = 10f64.powf(wanted.log10().floor());
    let short = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let fits = |step: &f64| *step >= wanted * 0.999;
    if wanted <= 30.0 {
        return short.into_iter().find(fits).unwrap_or(power * 10.0);
    }
    let days = (wanted / 86_400.0).ceil() * 86_400.0;
    LONG.into_iter().find(fits).unwrap_or(days)
}

fn in_words(job: &JobHistory) -> String {
    let many = |count: usize, one: &str, more: &str| counted(count as u64, one, more);
    format!(
        "In {}: {}, {}, {} and {}.",
        time(job.last),
        many(job.checkpoints.len(), "checkpoint", "checkpoints"),
        many(job.failures.len(), "failure of a rank", "failures of ranks"),
        many(job.recoveries.len(), "recovery", "recoveries"),
        many(job.outages.len(), "silence of a host", "silences of hosts"),
    )
}

fn legend() -> Markup {
    html! {
        ul.legend aria-label="Legend" {
            li { (key(&html! { rect.memory x="4" y="1" width="8" height="10" {} })) "checkpoint in memory" }
            li { (key(&html! { rect.file x="4" y="6" width="8" height="5" {} })) "its files" }
            li { (key(&html! { rect.aborted x="4" y="2" width="9" height="8" {} })) "aborted checkpoint" }
            li { (key(&html! { rect.abandoned x="4" y="2" width="9" height="8" {} })) "aborted by a failure, or under way" }
            li { (key(&html! { path.failure d="M4 2l8 8m0-8l-8 8" {} })) "failure of a rank" }
            li { (key(&html! { rect.recovery x="3" y="0" width="12" height="12" {} })) "recovery" }
            li { (key(&html! { path.outage-line d="M2 6h14" {} })) "host silent, its ranks suspended" }
            li { (key(&html! { path.incident d="M8 1l5 5-5 5-5-5z" {} })) "other event" }
        }
    }
}

fn key(mark: &Markup) -> Markup {
    html! { svg viewBox="0 0 18 12" aria-hidden="true" { (mark) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_and_round_for_every_length() {
        for exponent in -9..10 {
            for factor in [1.0, 1.7, 3.3, 7.9] {
                let seconds = factor * 10f64.powi(exponent);
                let count = seconds / tick_step(seconds);
                assert!((1.0..=9.0).contains(&count), "{seconds} s: {count} ticks");
            }
        }
        assert_eq!(tick_step(600.0), 120.0);
        assert_eq!(tick_step(4.0), 0.5);
    }
}
