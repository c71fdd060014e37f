//! `rejoin report`: a page about the jobs of a file of events, or about a running job.

use super::jobs;
use crate::standard_output::print;
use rejoin_managers_host::error::system_text;
use rejoin_managers_report::history::{self, Histories};
use rejoin_managers_report::page::{self, ReportPage};
use std::fs::{self, File};
use std::io::{BufReader, IsTerminal};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a page is made of.
struct Source {
    /// Where it is from, in words.
    name: String,
    histories: Histories,
    /// Events that a running job does not hold any more.
    dropped: u64,
}

/// Writes the page to a file, or to standard output. Returns the exit code.
#[must_use]
pub fn run(source: &Path, output: Option<&Path>) -> i32 {
    let to_terminal = output.is_none() && std::io::stdout().is_terminal();
    let page = match to_terminal {
        true => Err("a page is nothing for a terminal; -o FILE writes it to a file".into()),
        false => made(source),
    };
    let page = match page {
        Ok(page) => page,
        Err(why) => {
            say_line!("rejoin: {why}");
            return 1;
        }
    };
    let Some(path) = output else {
        return print("rejoin", &page);
    };
    let Err(error) = fs::write(path, page) else {
        return 0;
    };
    let (path, why) = (path.display(), system_text(&error));
    say_line!("rejoin: can't write {path}: {why}");
    1
}

fn made(source: &Path) -> Result<String, String> {
    let Source {
        name,
        histories,
        dropped,
    } = match source.exists() {
        true => file(source)?,
        false => running(&source.to_string_lossy())?,
    };
    if histories.bad_count > 0 {
        let named = page::named(&histories.bad, histories.bad_count);
        let count = histories.bad_count;
        say_line!("rejoin: {count} lines of {name} are no events: {named}");
    }
    if histories.jobs.is_empty() {
        return Err(format!("{name} has no events of a job"));
    }
    let made = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(page::render(&ReportPage {
        source: &name,
        histories: &histories,
        dropped,
        made: made.unwrap_or_default().as_secs_f64(),
    }))
}

fn file(path: &Path) -> Result<Source, String> {
    let name = path.display().to_string();
    let opened = File::open(path).and_then(|file| history::read(BufReader::new(file)));
    match opened {
        Ok(histories) => Ok(Source {
            name,
            histories,
            dropped: 0,
        }),
        Err(error) => Err(format!("can't read {name}: {}", system_text(&error))),
    }
}

fn running(job: &str) -> Result<Source, String> {
    let status =
        jobs::one(Some(job)).map_err(|why| format!("there is no file {job}, and {why}"))?;
    let name = status.job;
    let (lines, dropped) = jobs::events(&name)?;
    let read = history::read(lines.as_slice());
    let histories = read.map_err(|error| format!("job {name}: {}", system_text(&error)))?;
    Ok(Source {
        name: format!("the running job {name}"),
        histories,
        dropped,
    })
}
