//! A manager waits at a point until a test has done what it is to do there, such as killing
//! processes that run on other hosts.
//!
//! The test makes the file `FILE.POINT`, where `FILE` is that of `REJOIN_FAULT_FILE`. The manager
//! that reaches the point renames it to `FILE.POINT.reached`, and waits until that is gone. Without
//! the first file nobody waits, so one job can come to a point many times. If the file has the name
//! of a host, only that host's managers wait.

use super::Point;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A test that has failed leaves no manager waiting.
const LIMIT: Duration = Duration::from_secs(120);

/// Waits if a test wants that.
pub(super) fn at(file: Option<&Path>, point: Point) {
    let Some(file) = file else {
        return;
    };
    let wanted = beside(file, &format!(".{}", point.name()));
    let reached = beside(&wanted, ".reached");
    if !is_wanted_here(&wanted) || std::fs::rename(&wanted, &reached).is_err() {
        return;
    }
    tracing::warn!(point = point.name(), "waits, as was asked for");
    let begun = Instant::now();
    while reached.exists() && begun.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_wanted_here(wanted: &Path) -> bool {
    let Ok(named) = std::fs::read_to_string(wanted) else {
        return false;
    };
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    named.trim().is_empty() || named.trim() == here.trim()
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_waited_at_until_its_file_is_gone() {
        let folder = std::env::temp_dir().join(format!("rejoin-wait-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("notes");
        let (wanted, reached) = (
            folder.join("notes.retired"),
            folder.join("notes.retired.reached"),
        );
        // Nobody wants it.
        at(Some(&file), Point::Retired);
        at(None, Point::Retired);
        std::fs::write(&wanted, "").unwrap();
        at(Some(&file), Point::Retiring);
        assert!(wanted.exists());
        // Only on another host.
        std::fs::write(&wanted, "another.host.invalid").unwrap();
        at(Some(&file), Point::Retired);
        assert!(wanted.exists());
        std::fs::write(&wanted, "").unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| at(Some(&file), Point::Retired));
            while !reached.exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!waits.is_finished() && !wanted.exists());
            std::fs::remove_file(&reached).unwrap();
            waits.join().unwrap();
        });
        std::fs::remove_dir_all(folder).unwrap();
    }
}
