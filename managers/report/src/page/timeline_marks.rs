//! The marks of a timeline. Their number is bounded by the width of the drawing: marks of one kind
//! in the same place become one.

use super::lanes::Lanes;
use super::page_tables::result;
use super::quantity::{counted, moment, time};
use crate::history::{CheckpointEnd, CheckpointSpan, JobHistory};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Width of the place of a mark; marks closer than that become one.
const PLACE: f64 = 4.0;
/// Recoveries and silences that are drawn; the tables have further ones.
const MOST_SPANS: usize = 500;

/// Where things are in the drawing.
pub struct Area {
    /// Left edge of the plot.
    pub left: f64,
    /// Right edge of the plot.
    pub right: f64,
    /// The last moment, in nanoseconds; not 0.
    pub end: u64,
    /// Top of the first lane.
    pub lanes_top: f64,
    /// Height of a lane.
    pub lane_height: f64,
    /// Bottom of the last lane.
    pub bottom: f64,
}

impl Area {
    /// Where a moment is.
    pub fn x(&self, moment: u64) -> f64 {
        let part = moment.min(self.end) as f64 / self.end as f64;
        self.left + part * (self.right - self.left)
    }

    /// Top of a lane.
    pub fn lane(&self, lane: usize) -> f64 {
        self.lanes_top + lane as f64 * self.lane_height
    }

    fn place(&self, moment: u64) -> u32 {
        ((self.x(moment) - self.left) / PLACE) as u32
    }

    /// A span, at least as wide as can be seen.
    fn span(&self, from: u64, to: u64, least: f64) -> (f64, f64) {
        let (from, to) = (self.x(from), self.x(to));
        let width = (to - from).max(least);
        (from.min(self.right - width), width)
    }
}

/// A coordinate.
pub fn at(value: f64) -> String {
    format!("{value:.1}")
}

/// How checkpoints with this outcome on this level are drawn.
fn class(checkpoint: &CheckpointSpan) -> &'static str {
    match (&checkpoint.outcome, checkpoint.level.as_str()) {
        (CheckpointEnd::Committed, "memory") => "memory",
        (CheckpointEnd::Committed, _) => "file",
        (CheckpointEnd::Aborted(_), _) => "aborted",
        (CheckpointEnd::Abandoned | CheckpointEnd::UnderWay, _) => "abandoned",
    }
}

/// Several checkpoints in one place.
struct Merged<'a> {
    first: &'a CheckpointSpan,
    from: u64,
    to: u64,
    count: u64,
}

/// The row of checkpoints, at this top and of this height.
pub fn checkpoints(area: &Area, job: &JobHistory, (top, height): (f64, f64)) -> Markup {
    let mut places: BTreeMap<(&str, u32), Merged<'_>> = BTreeMap::new();
    for checkpoint in &job.checkpoints {
        let (from, to) = (checkpoint.from, checkpoint.to);
        let place = (class(checkpoint), area.place(from));
        let merged = places.entry(place).or_insert(Merged {
            first: checkpoint,
            from,
            to,
            count: 0,
        });
        merged.from = merged.from.min(from);
        merged.to = merged.to.max(to);
        merged.count += 1;
    }
    html! {
        @for ((class, _), merged) in &places {
            @let (x, width) = area.span(merged.from, merged.to, 2.0);
            @let y = match *class { "file" => top + height / 2.0, _ => top };
            rect class=(class) x=(at(x)) y=(at(y)) width=(at(width)) height=(at(height / 2.0 - 1.0)) {
                title { (in_words(merged)) }
            }
        }
    }
}

fn in_words(merged: &Merged<'_>) -> String {
    let CheckpointSpan {
        epoch,
        level,
        from,
        to,
        outcome,
        ..
    } = merged.first;
    if merged.count > 1 {
        let (from, to) = (moment(merged.from), moment(merged.to));
        let count = merged.count;
        return format!("{count} checkpoints ({level}) from {from} to {to}, the first is {epoch}");
    }
    let took = time(to.saturating_sub(*from));
    let how = result(outcome);
    format!(
        "checkpoint {epoch} ({level}), {how}, at {} for {took}",
        moment(*from)
    )
}

/// The row of stalls: bars, the longest of each place.
pub fn stalls(area: &Area, job: &JobHistory, (top, height): (f64, f64)) -> Markup {
    let mut places: BTreeMap<u32, (u64, &CheckpointSpan)> = BTreeMap::new();
    for checkpoint in &job.checkpoints {
        let Some(stall) = checkpoint.stall else {
            continue;
        };
        let longest = places
            .entry(area.place(checkpoint.from))
            .or_insert((stall, checkpoint));
        if stall > longest.0 {
            *longest = (stall, checkpoint);
        }
    }
    let most = places.values().map(|(stall, _)| *stall).max().unwrap_or(0);
    html! {
        @for (stall, checkpoint) in places.values() {
            @let part = *stall as f64 / most.max(1) as f64;
            @let (x, width) = area.span(checkpoint.from, checkpoint.from, 2.5);
            @let bar = (part * (height - 12.0)).max(1.0);
            rect.memory x=(at(x)) y=(at(top + height - bar)) width=(at(width)) height=(at(bar)) {
                title {
                    "stall of " (time(*stall)) " for checkpoint " (checkpoint.epoch)
                    @if let Some(rank) = checkpoint.rank { ", rank " (rank) }
                }
            }
        }
        @if most > 0 {
            text.faint x=(at(area.left)) y=(at(top + 8.0)) { "up to " (time(most)) }
        }
    }
}

/// Silences of hosts, in the lanes of their ranks.
pub fn outages(area: &Area, job: &JobHistory, lanes: &Lanes<'_>) -> Markup {
    html! {
        @for outage in job.outages.iter().take(MOST_SPANS) {
            @let (x, width) = area.span(outage.from, outage.to, 2.0);
            @for lane in lanes.of_host(&outage.host) {
                @let middle = area.lane(lane) + area.lane_height / 2.0;
                path.outage-line d=(format!("M{} {}h{}", at(x), at(middle), at(width))) {
                    title {
                        "host " (outage.host) " was silent for "
                        (time(outage.to.saturating_sub(outage.from)))
                        @if !outage.heard { " and was not heard again" }
                    }
                }
            }
        }
    }
}

/// Recoveries, across the lanes of the ranks that were restored.
pub fn recoveries(area: &Area, job: &JobHistory, lanes: &Lanes<'_>) -> Markup {
    let few = job.recoveries.len() <= 12;
    html! {
        @for recovery in job.recoveries.iter().take(MOST_SPANS) {
            @let (x, width) = area.span(recovery.from, recovery.to, 3.0);
            @let lane = recovery.rank.and_then(|rank| lanes.of_rank(rank, None));
            @let (y, height) = match lane {
                Some(lane) => (area.lane(lane), area.lane_height),
                None => (area.lanes_top, (area.bottom - area.lanes_top).max(4.0)),
            };
            rect.recovery x=(at(x)) y=(at(y)) width=(at(width)) height=(at(height)) {
                title {
                    "recovery of " (time(recovery.to - recovery.from)) " at " (moment(recovery.from))
                    @if let Some(epoch) = recovery.epoch { ", from checkpoint " (epoch) }
                    ", " (time(recovery.repeated)) " of work repeated"
                }
            }
            @if few && lane.is_none() {
                text.faint x=(at((x + width + 3.0).min(area.right - 40.0))) y=(at(area.bottom - 4.0)) {
                    (time(recovery.to - recovery.from))
                }
            }
        }
    }
}

/// Failures of ranks, each in its lane.
pub fn failures(area: &Area, job: &JobHistory, lanes: &Lanes<'_>) -> Markup {
    let mut places: BTreeMap<(usize, u32), (u64, String)> = BTreeMap::new();
    for failure in &job.failures {
        let Some(lane) = lanes.of_rank(failure.rank, Some(&failure.host)) else {
            continue;
        };
        let at = moment(failure.at);
        let (rank, cause) = (failure.rank, &failure.cause);
        let place = places
            .entry((lane, area.place(failure.at)))
            .or_insert_with(|| (0, format!("rank {rank} {cause} at {at}")));
        place.0 += 1;
    }
    let size = (area.lane_height / 2.0 - 2.0).min(6.0);
    html! {
        @for ((lane, place), (count, first)) in &places {
            @let x = area.left + f64::from(*place) * PLACE + PLACE / 2.0;
            @let y = area.lane(*lane) + area.lane_height / 2.0;
            @let (left, top) = (at(x - size), at(y - size));
            @let (long, back) = (at(2.0 * size), at(-2.0 * size));
            path.failure d=(format!("M{left} {top}l{long} {long}m0 {back}l{back} {long}")) {
                title {
                    @if *count > 1 { (counted(*count, "failure", "failures")) ", first: " }
                    (first)
                }
            }
        }
    }
}

/// Other events: in the lane that they concern, or above all lanes.
pub fn incidents(area: &Area, job: &JobHistory, lanes: &Lanes<'_>) -> Markup {
    let mut places: BTreeMap<(Option<usize>, u32), (u64, String)> = BTreeMap::new();
    for incident in &job.incidents {
        let host = incident.host.as_deref();
        let lane = incident.rank.and_then(|rank| lanes.of_rank(rank, host));
        let place = places
            .entry((lane, area.place(incident.at)))
            .or_insert_with(|| (0, format!("{} at {}", incident.text, moment(incident.at))));
        place.0 += 1;
    }
    html! {
        @for ((lane, place), (count, first)) in &places {
            @let x = area.left + f64::from(*place) * PLACE + PLACE / 2.0;
            @let y = lane.map_or(area.lanes_top - 3.0, |lane| area.lane(lane) + area.lane_height / 2.0);
            path.incident d=(format!("M{} {}l5 5-5 5-5-5z", at(x), at(y - 5.0))) {
                title {
                    @if *count > 1 { (counted(*count, "event", "events")) ", first: " }
                    (first)
                }
            }
        }
    }
}
