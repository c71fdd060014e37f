//! Times of claims and of the test binaries that they run: what to shorten, and what has grown.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::bounded::Spent;

/// What is shorter is in the file, and not shown.
const SHOWN: Duration = Duration::from_secs(1);

/// A file with a line for each claim (`CLAIM`) and test binary (`CLAIM/BINARY`).
#[derive(Clone)]
pub struct Times {
    path: PathBuf,
}

impl Times {
    /// An empty file.
    pub fn new(root: &Path) -> Result<Self> {
        let folder = root.join("target");
        fs::create_dir_all(&folder)?;
        let path = folder.join("test-times.tsv");
        let head = "name\twall\tcompiling\trunning\twaiting\n";
        fs::write(&path, head).with_context(|| format!("writing {}", path.display()))?;
        Ok(Times { path })
    }

    /// Notes what a claim or a binary has taken in all, and in compilers.
    pub fn note(&self, name: &str, all: Spent, compiled: Spent) -> Result<()> {
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        Ok(file.write_all(line(name, all, compiled).as_bytes())?)
    }

    /// Shows the longest.
    pub fn show(&self) -> Result<()> {
        println!("\nseconds in all, compiling, of processors otherwise, and waiting:");
        for line in fs::read_to_string(&self.path)?.lines().skip(1) {
            let words: Vec<_> = line.split('\t').collect();
            let wall = words.get(1).and_then(|word| word.parse().ok());
            if let [name, times @ ..] = &words[..]
                && wall.is_some_and(|wall: f64| wall >= SHOWN.as_secs_f64())
            {
                let times: String = times.iter().map(|time| format!("{time:>8}")).collect();
                println!("{name:36}{times}");
            }
        }
        println!("(all of them: {})", self.path.display());
        Ok(())
    }
}

/// Seconds: wall time; that of compilers; processor time of everything else; and the wall time that
/// neither explains, which is waited. What uses several cores waits longer than that.
fn line(name: &str, all: Spent, compiled: Spent) -> String {
    let running = all.processor.saturating_sub(compiled.processor);
    let waiting = all.wall.saturating_sub(compiled.wall);
    let waiting = waiting.saturating_sub(running);
    let times = [all.wall, compiled.wall, running, waiting];
    let times = times.map(|time| format!("\t{:.1}", time.as_secs_f64()));
    format!("{name}{}\n", times.concat())
}

/// The sum of seconds in the lines of a test binary's notes (`tests/src/programs.rs`).
pub fn compiled(notes: &str) -> Duration {
    let seconds = notes.lines().filter_map(|line| line.parse::<f64>().ok());
    Duration::from_secs_f64(seconds.sum::<f64>().max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_neither_compiles_nor_runs_waits() {
        let spent = |wall, processor| Spent {
            wall: Duration::from_millis(wall),
            processor: Duration::from_millis(processor),
        };
        let text = line("units/jobs", spent(10_000, 7_500), spent(2_000, 3_500));
        assert_eq!(text, "units/jobs\t10.0\t2.0\t4.0\t4.0\n");
        let busy = line("models", spent(10_000, 19_000), Spent::default());
        assert_eq!(busy, "models\t10.0\t0.0\t19.0\t0.0\n");
    }

    #[test]
    fn compilations_are_added() {
        let notes = "0.5\n1.25\nno number\n";
        assert_eq!(compiled(notes), Duration::from_millis(1750));
        assert_eq!(compiled(""), Duration::ZERO);
    }
}
