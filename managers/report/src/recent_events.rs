//! The last lines of a job's events, which `rejoin report` asks a running job for.

use std::collections::VecDeque;

/// Bytes of lines that are held.
const LIMIT: usize = 2 << 20;

/// The last lines. The line that begins the job is always among them.
#[derive(Debug, Default)]
pub struct RecentEvents {
    first: Vec<u8>,
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: u64,
}

impl RecentEvents {
    /// Adds a line, and drops the oldest ones that have no room.
    pub fn push(&mut self, line: &[u8]) {
        if self.first.is_empty() {
            self.first = line.to_vec();
            return;
        }
        self.bytes += line.len();
        self.lines.push_back(line.to_vec());
        while self.bytes > LIMIT
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= oldest.len();
            self.dropped += 1;
        }
    }

    /// All lines that are held, as bytes of a file of events.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        let mut text = self.first.clone();
        self.lines.iter().for_each(|line| text.extend(line));
        text
    }

    /// How many lines after the first were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_are_dropped_and_the_first_one_stays() {
        let mut recent = RecentEvents::default();
        recent.push(b"began\n");
        let line = [b'x'; 1000];
        for _ in 0..3000 {
            recent.push(&line);
        }
        recent.push(b"last\n");
        let text = recent.text();
        assert!(text.len() <= LIMIT + 6, "{} bytes", text.len());
        assert!(text.starts_with(b"began\nx") && text.ends_with(b"xlast\n"));
        let held = (LIMIT - 5) / line.len();
        assert_eq!(recent.dropped(), 3000 - held as u64);
    }
}
