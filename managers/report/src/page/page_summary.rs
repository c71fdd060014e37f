//! The figures at the head of a job.

use super::quantity::{bytes, counted, date, time};
use crate::history::{CheckpointEnd, CheckpointSpan, JobHistory};
use maud::{Markup, html};
use rejoin_logging::determinants::LogFigures;
use std::collections::BTreeSet;

/// One figure: its name, its value, and what belongs to it.
struct Figure {
    name: &'static str,
    value: String,
    detail: String,
}

fn figure(name: &'static str, value: impl Into<String>, detail: impl Into<String>) -> Figure {
    Figure {
        name,
        value: value.into(),
        detail: detail.into(),
    }
}

/// The figures of a job.
pub fn summary(job: &JobHistory) -> Markup {
    let mut figures = vec![
        size(job),
        duration(job),
        end(job),
        failures(job),
        recoveries(job),
        checkpoints(job),
        longest_stall(job),
        volume(job),
        outages(job),
    ];
    figures.extend(message_log(job));
    html! {
        dl {
            @for Figure { name, value, detail } in figures {
                div {
                    dt { (name) }
                    dd { (value) @if !detail.is_empty() { small { (detail) } } }
                }
            }
        }
    }
}

fn size(job: &JobHistory) -> Figure {
    let hosts: BTreeSet<&str> = job.placement.iter().map(|run| run.host.as_str()).collect();
    let ranks = match job.ranks {
        Some(ranks) => u64::from(ranks).to_string(),
        None => "unknown".into(),
    };
    let on = match hosts.len() {
        0 => String::new(),
        1 => format!("on {}", hosts.first().unwrap_or(&"")),
        many => format!("on {many} hosts"),
    };
    figure("Ranks", ranks, on)
}

fn duration(job: &JobHistory) -> Figure {
    let began = job.began.map(|began| format!("from {}", date(began)));
    figure("Duration", time(job.last), began.unwrap_or_default())
}

fn end(job: &JobHistory) -> Figure {
    match &job.end {
        Some((_, 0)) => figure("End", "success", ""),
        Some((cause, code)) => figure("End", format!("exit code {code}"), cause.as_str()),
        None => figure(
            "End",
            "not recorded",
            "the job still runs, or mpirun was killed",
        ),
    }
}

fn failures(job: &JobHistory) -> Figure {
    let ranks: BTreeSet<u32> = job.failures.iter().map(|failure| failure.rank).collect();
    let detail = match ranks.len() {
        0 => String::new(),
        many => format!("of {}", counted(many as u64, "rank", "ranks")),
    };
    figure("Failures of ranks", job.failures.len().to_string(), detail)
}

fn recoveries(job: &JobHistory) -> Figure {
    let lengths = job.recoveries.iter().map(|r| r.to - r.from);
    let repeated = job.recoveries.iter().map(|r| r.repeated);
    let detail = match lengths.max() {
        None => String::new(),
        Some(longest) => format!(
            "the longest took {}; {} of work was repeated",
            time(longest),
            time(repeated.fold(0, u64::saturating_add))
        ),
    };
    figure("Recoveries", job.recoveries.len().to_string(), detail)
}

fn checkpoints(job: &JobHistory) -> Figure {
    let at = |level: &str| job.committed().filter(|c| c.level == level).count();
    let is_aborted = |c: &&CheckpointSpan| {
        matches!(
            c.outcome,
            CheckpointEnd::Aborted(_) | CheckpointEnd::Abandoned
        )
    };
    let aborted = job.checkpoints.iter().filter(is_aborted).count();
    let files = at("file");
    let mut detail = format!("{aborted} aborted");
    if files > 0 {
        detail += &format!("; {files} also in files");
    }
    let partners = at("partner");
    if partners > 0 {
        detail += &format!("; {partners} on partner hosts");
    }
    figure("Checkpoints", at("memory").to_string(), detail)
}

fn longest_stall(job: &JobHistory) -> Figure {
    let stalls = job.checkpoints.iter().filter_map(|c| Some((c.stall?, c)));
    match stalls.max_by_key(|(stall, _)| *stall) {
        None => figure("Longest stall", "unknown", ""),
        Some((stall, checkpoint)) => {
            let of = checkpoint
                .rank
                .map_or_else(String::new, |rank| format!("rank {rank}, "));
            let detail = format!("{of}checkpoint {}", checkpoint.epoch);
            figure("Longest stall of a checkpoint", time(stall), detail)
        }
    }
}

fn volume(job: &JobHistory) -> Figure {
    let sum = |get: fn(&CheckpointSpan) -> Option<u64>| {
        let known = job.checkpoints.iter().filter_map(get);
        known.fold(None, |sum: Option<u64>, more| {
            Some(sum.unwrap_or(0).saturating_add(more))
        })
    };
    let copied = sum(|c| c.copied);
    let copied = copied.map(|count| format!("{} copied in memory", bytes(count)));
    match (sum(|c| c.bytes), copied) {
        (Some(files), copied) => figure(
            "Bytes of checkpoints",
            bytes(files),
            format!("in files; {}", copied.unwrap_or_default()),
        ),
        (None, Some(copied)) => figure("Bytes of checkpoints", copied, "at most"),
        (None, None) => figure("Bytes of checkpoints", "unknown", ""),
    }
}

fn outages(job: &JobHistory) -> Figure {
    let lost = job.outages.iter().filter(|outage| !outage.heard).count();
    let detail = match lost {
        0 => String::new(),
        lost => format!("{lost} of them did not come back"),
    };
    figure("Silences of hosts", job.outages.len().to_string(), detail)
}

/// The most that the logs of messages held; nothing without message logging.
fn message_log(job: &JobHistory) -> Vec<Figure> {
    let logs = job.log.iter().map(|(_, log)| log);
    let most = |get: fn(&LogFigures) -> u64| logs.clone().map(get).max().unwrap_or(0);
    let Some((_, last)) = job.log.last() else {
        return Vec::new();
    };
    let of_rank = bytes(most(|log| log.most_retained_bytes));
    let memory = bytes(most(|log| log.memory_bytes));
    let file = bytes(most(|log| log.file_bytes));
    let rate = most(|log| log.determinants_per_second);
    vec![
        figure(
            "Most messages retained",
            bytes(most(|log| log.retained_bytes)),
            format!("of a rank {of_rank}; {memory} of log memory, {file} in files"),
        ),
        figure(
            "Determinants",
            last.determinants.to_string(),
            format!("at most {rate} a second"),
        ),
        figure("Longest lag of releases", time(most(|log| log.lag_ns)), ""),
    ]
}
