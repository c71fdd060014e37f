//! The page of `rejoin report`: one file of HTML without scripts that loads nothing. maud escapes
//! all text; `report::history` has made it tidy.

mod lanes;
mod page_summary;
mod page_tables;
pub mod quantity;
mod timeline;
mod timeline_marks;

use crate::history::{BadLine, Histories, JobHistory};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Jobs of a file that are shown: the last ones.
const MOST_JOBS: usize = 20;

/// Nothing is loaded, and no script runs, whatever a file of events says.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// What a page is about.
pub struct ReportPage<'a> {
    /// The file of events, or the running job, in words.
    pub source: &'a str,
    /// The jobs.
    pub histories: &'a Histories,
    /// Earlier lines that a running job does not hold any more.
    pub dropped: u64,
    /// When the page was made, in seconds since 1970.
    pub made: f64,
}

/// Writes the page.
#[must_use]
pub fn render(page: &ReportPage<'_>) -> String {
    let jobs = &page.histories.jobs;
    let shown = &jobs[jobs.len().saturating_sub(MOST_JOBS)..];
    let title = match shown {
        [only] => format!("Rejoin job {}", only.job()),
        _ => format!("{} Rejoin jobs", shown.len()),
    };
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(concat!("rejoin ", env!("CARGO_PKG_VERSION")));
                title { (title) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                h1 { (title) }
                p.source {
                    "From " (page.source) ", read " (quantity::date(page.made)) "."
                }
                (gaps(page, jobs.len() - shown.len()))
                @for (number, job) in shown.iter().enumerate() {
                    (section(number, job))
                }
            }
        }
    };
    markup.into_string()
}

/// What the page lacks, and why.
fn gaps(page: &ReportPage<'_>, hidden: usize) -> Markup {
    let Histories { bad, bad_count, .. } = page.histories;
    html! {
        @if hidden > 0 {
            p.gap { "The file has " (hidden) " earlier jobs, which this page does not show." }
        }
        @if page.dropped > 0 {
            p.gap {
                "The job does not hold its first " (page.dropped) " events any more, so the page lacks "
                "them. A job that runs with mpirun --events FILE keeps all events in the file."
            }
        }
        @if *bad_count > 0 {
            p.gap {
                (bad_count) " lines of the file are no events, and the page lacks what they were: "
                (named(bad, *bad_count)) "."
            }
        }
    }
}

/// The first lines that are no events.
#[must_use]
pub fn named(bad: &[BadLine], count: u64) -> String {
    let mut words: Vec<_> = bad
        .iter()
        .map(|line| format!("line {}: {}", line.number, line.why))
        .collect();
    let more = count - bad.len() as u64;
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join("; ")
}

fn section(number: usize, job: &JobHistory) -> Markup {
    html! {
        section {
            h2 { "Job " (job.job()) @if let Some(program) = &job.program { ": " (program) } }
            (page_summary::summary(job))
            (timeline::figure(number, job))
            (page_tables::tables(job))
        }
    }
}

#[cfg(test)]
mod tests;
