//! Reads a file of events into the histories of its jobs. A line that is no event is named.

use super::event_line::EventLine;
use super::job_history::JobHistory;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _};

/// Longest line that is read, in bytes. The line of a job with thousands of hosts is long.
const LINE_LIMIT: u64 = 8 << 20;
/// What is wrong with a line that names no event.
const NO_EVENT: &str = "job, event or at_ns is missing";
/// Lines without an event that are named; further ones are counted.
const MOST_NAMED: usize = 20;

/// A line that is no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Number of the line, from 1.
    pub number: u64,
    /// What is wrong with it.
    pub why: String,
}

/// The jobs of a file, in the order in which they began.
#[derive(Debug, Default)]
pub struct Histories {
    /// The jobs.
    pub jobs: Vec<JobHistory>,
    /// The first lines that are no events.
    pub bad: Vec<BadLine>,
    /// How many lines are no events.
    pub bad_count: u64,
    /// Where the jobs are, by their names.
    places: BTreeMap<String, usize>,
}

/// Reads all lines.
///
/// # Errors
/// The system's reason why the rest can't be read.
pub fn read(mut source: impl BufRead) -> io::Result<Histories> {
    let mut histories = Histories::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let count = (&mut source)
            .take(LINE_LIMIT)
            .read_until(b'\n', &mut line)?;
        if count == 0 {
            break;
        }
        let whole = line.ends_with(b"\n");
        if !whole && line.len() as u64 == LINE_LIMIT {
            skip_line(&mut source)?;
            histories.reject(number, format!("it is longer than {LINE_LIMIT} bytes"));
            continue;
        }
        match serde_json::from_slice(line.trim_ascii_end()) {
            Ok(event) => histories.add(number, event),
            Err(_) if !whole => histories.reject(number, "its end is missing".into()),
            Err(error) => histories.reject(number, what_is_wrong(&line, &error)),
        }
    }
    histories.jobs.iter_mut().for_each(JobHistory::close);
    Ok(histories)
}

/// Reads the rest of a line without keeping it.
fn skip_line(source: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = source.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (count, done) = match end {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        source.consume(count);
        if done {
            return Ok(());
        }
    }
}

fn what_is_wrong(line: &[u8], error: &serde_json::Error) -> String {
    if line.iter().all(u8::is_ascii_whitespace) {
        return "it is empty".into();
    }
    match error.classify() {
        // A list has no fields.
        serde_json::error::Category::Data if line.starts_with(b"[") => NO_EVENT.into(),
        serde_json::error::Category::Data => "a field has another type".into(),
        _ => format!("it is not JSON (column {})", error.column()),
    }
}

impl Histories {
    fn add(&mut self, number: u64, event: EventLine) {
        let (Some(job), Some(_), Some(_)) = (&event.job, &event.event, event.at_ns) else {
            return self.reject(number, NO_EVENT.into());
        };
        let at = match self.places.get(job) {
            Some(at) => *at,
            None => {
                self.places.insert(job.clone(), self.jobs.len());
                self.jobs.push(JobHistory::new(job.clone()));
                self.jobs.len() - 1
            }
        };
        self.jobs[at].add(event);
    }

    fn reject(&mut self, number: u64, why: String) {
        self.bad_count += 1;
        if self.bad.len() < MOST_NAMED {
            self.bad.push(BadLine { number, why });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(job: &str, event: &str) -> String {
        format!("{{\"time\":1.5e9,\"at_ns\":7,\"job\":\"{job}\",\"event\":\"{event}\"}}\n")
    }

    #[test]
    fn jobs_share_a_file_and_lines_that_are_no_events_are_named() {
        let text = [
            line("a", "began"),
            line("b", "began"),
            "{\"time\":1,\"at_\n".into(),
            "hello\n".into(),
            "\n".into(),
            "[]\n".into(),
            "{\"job\":\"a\"}\n".into(),
            "{\"job\":\"a\",\"event\":\"lost\",\"at_ns\":-3}\n".into(),
            line("a", "requested"),
            "{\"time\":1,\"at_n".into(),
        ];
        let read = read(text.concat().as_bytes()).expect("a text can be read");
        let names: Vec<_> = read.jobs.iter().map(JobHistory::job).collect();
        assert_eq!(names, ["a", "b"]);
        let bad: Vec<_> = read
            .bad
            .iter()
            .map(|b| (b.number, b.why.as_str()))
            .collect();
        let wanted = [
            (3, "it is not JSON (column 14)"),
            (4, "it is not JSON (column 1)"),
            (5, "it is empty"),
            (6, "job, event or at_ns is missing"),
            (7, "job, event or at_ns is missing"),
            (8, "a field has another type"),
            (10, "its end is missing"),
        ];
        assert_eq!(bad, wanted);
    }

    #[test]
    fn bytes_that_are_no_text_and_endless_lines_are_named_and_the_rest_is_read() {
        let mut bytes = vec![0xff, 0xfe, b'\n'];
        bytes.extend(std::iter::repeat_n(b'x', LINE_LIMIT as usize + 5));
        bytes.push(b'\n');
        bytes.extend(line("a", "began").bytes());
        for _ in 0..100 {
            bytes.extend(b"torn\n");
        }
        let read = read(bytes.as_slice()).expect("bytes can be read");
        assert_eq!((read.jobs.len(), read.bad_count), (1, 102));
        assert_eq!(read.bad.len(), MOST_NAMED);
        assert!(read.bad[1].why.contains("longer than"), "{:?}", read.bad[1]);
        assert_eq!(read.bad[2].number, 4);
    }
}
