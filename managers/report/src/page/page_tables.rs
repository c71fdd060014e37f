//! The tables beside a timeline: all that it shows, in text.

use super::quantity::{bytes, counted, moment, time};
use crate::history::{
    CheckpointEnd, CheckpointSpan, FailureMark, HostOutage, Incident, JobHistory, RecoverySpan,
};
use maud::{Markup, html};
use rejoin_logging::determinants::LogFigures;

/// Rows of a table at its start and at its end that are shown.
const MOST_ROWS: usize = 200;
/// Rows up to which a table is open.
const OPEN_ROWS: usize = 12;

/// A column: its title, and whether it has numbers.
type Column = (&'static str, bool);

/// A table of all that is in `rows`, unless there is nothing.
fn table<T>(
    title: &str,
    columns: &[Column],
    rows: &[T],
    cells: impl Fn(&T) -> Vec<String>,
) -> Markup {
    let hidden = rows.len().saturating_sub(2 * MOST_ROWS);
    let (first, rest) = rows.split_at(rows.len().min(MOST_ROWS));
    let shown = first.iter().chain(&rest[hidden..]);
    html! {
        @if !rows.is_empty() {
            details open[rows.len() <= OPEN_ROWS] {
                summary { (title) " (" (rows.len()) ")" }
                @if hidden > 0 {
                    p.note {
                        "The first " (MOST_ROWS) " and the last " (MOST_ROWS) " of " (rows.len())
                        " rows; " (hidden) " between them are not shown."
                    }
                }
                div.scroll {
                    table {
                        thead {
                            tr {
                                @for (name, is_number) in columns {
                                    th scope="col" class=[is_number.then_some("number")] { (name) }
                                }
                            }
                        }
                        tbody {
                            @for row in shown {
                                tr {
                                    @for ((_, is_number), cell) in columns.iter().zip(cells(row)) {
                                        td class=[is_number.then_some("number")] { (cell) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// All tables of a job.
pub fn tables(job: &JobHistory) -> Markup {
    html! {
        (failures(&job.failures))
        (recoveries(&job.recoveries))
        (outages(&job.outages))
        (incidents(&job.incidents))
        (checkpoints(&job.checkpoints))
        (message_log(&job.log))
        @if job.unknown.values().sum::<u64>() > 0 {
            p.gap {
                "Events that this version does not know: "
                @for (kind, count) in job.unknown.iter().take(10) {
                    (kind) " (" (counted(*count, "time", "times")) ") "
                }
            }
        }
    }
}

fn maybe<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "–".into(), |value| value.to_string())
}

fn failures(rows: &[FailureMark]) -> Markup {
    let columns = [
        ("Time", true),
        ("Rank", true),
        ("Host", false),
        ("Process", true),
        ("Cause", false),
    ];
    table("Failures of ranks", &columns, rows, |row| {
        vec![
            moment(row.at),
            row.rank.to_string(),
            row.host.clone(),
            maybe(row.pid),
            row.cause.clone(),
        ]
    })
}

fn recoveries(rows: &[RecoverySpan]) -> Markup {
    let columns = [
        ("From", true),
        ("Length", true),
        ("Ranks", false),
        ("From checkpoint", true),
        ("Work repeated", true),
    ];
    table("Recoveries", &columns, rows, |row| {
        let ranks = row
            .rank
            .map_or_else(|| "all".into(), |rank| format!("rank {rank}"));
        let from = row
            .epoch
            .map_or_else(|| "the start".into(), |e| e.to_string());
        vec![
            moment(row.from),
            time(row.to - row.from),
            ranks,
            from,
            time(row.repeated),
        ]
    })
}

fn outages(rows: &[HostOutage]) -> Markup {
    let columns = [
        ("From", true),
        ("Length", true),
        ("Host", false),
        ("End", false),
    ];
    table("Silences of hosts", &columns, rows, |row| {
        let end = match row.heard {
            true => "reachable again",
            false => "not reachable again",
        };
        vec![
            moment(row.from),
            time(row.to.saturating_sub(row.from)),
            row.host.clone(),
            end.into(),
        ]
    })
}

fn incidents(rows: &[Incident]) -> Markup {
    let columns = [
        ("Time", true),
        ("Rank", true),
        ("Host", false),
        ("What happened", false),
    ];
    table("Other events", &columns, rows, |row| {
        vec![
            moment(row.at),
            maybe(row.rank),
            maybe(row.host.as_ref()),
            row.text.clone(),
        ]
    })
}

fn checkpoints(rows: &[CheckpointSpan]) -> Markup {
    let columns = [
        ("Number", true),
        ("Level", false),
        ("Requested", true),
        ("Took", true),
        ("Result", false),
        ("Longest stall", true),
        ("Rank", true),
        ("Copied in memory", true),
        ("Bytes in files", true),
    ];
    table("Checkpoints", &columns, rows, |row| {
        vec![
            row.epoch.to_string(),
            row.level.clone(),
            moment(row.from),
            time(row.to.saturating_sub(row.from)),
            result(&row.outcome),
            maybe(row.stall.map(time)),
            maybe(row.rank),
            maybe(row.copied.map(bytes)),
            maybe(row.bytes.map(bytes)),
        ]
    })
}

fn message_log(rows: &[(u64, LogFigures)]) -> Markup {
    let columns = [
        ("Time", true),
        ("Retained", true),
        ("Most of a rank", true),
        ("Log memory", true),
        ("In files", true),
        ("Determinants", true),
        ("A second", true),
        ("Lag", true),
    ];
    table("Message log", &columns, rows, |(at, log)| {
        vec![
            moment(*at),
            bytes(log.retained_bytes),
            bytes(log.most_retained_bytes),
            bytes(log.memory_bytes),
            bytes(log.file_bytes),
            log.determinants.to_string(),
            log.determinants_per_second.to_string(),
            time(log.lag_ns),
        ]
    })
}

/// How a checkpoint ended, in words.
pub fn result(outcome: &CheckpointEnd) -> String {
    match outcome {
        CheckpointEnd::UnderWay => "under way".into(),
        CheckpointEnd::Committed => "committed".into(),
        CheckpointEnd::Aborted(why) => format!("aborted: {why}"),
        CheckpointEnd::Abandoned => "aborted by a failure".into(),
    }
}
