//! Collective writes of 4 ranks beside one plain writer, in turns.

use crate::bench::figures::Figure;
use crate::bench::job::Setting;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Mebibytes of the file, and those of a quick look.
const MEBIBYTES: [&str; 2] = ["1024", "64"];
/// A collective write has at least this part of a plain writer's rate.
const GOAL: f64 = 0.8;
/// One that keeps what it overwrites has at least this part.
const UNDO_GOAL: f64 = 0.5;

/// A way to write: its text, options of mpirun, what the program does, whether the file is there
/// already, and the goal.
struct Way {
    text: &'static str,
    options: &'static [&'static str],
    what: &'static str,
    is_there: bool,
    goal: f64,
}

const WAYS: [Way; 4] = [
    Way {
        text: "parts of the ranks, a new file",
        options: &["--recovery", "none"],
        what: "joint",
        is_there: false,
        goal: GOAL,
    },
    Way {
        text: "blocks that take turns, a new file",
        options: &["--recovery", "none"],
        what: "mixed",
        is_there: false,
        goal: GOAL,
    },
    Way {
        text: "parts of the ranks, a new file, coordinated",
        options: &["--recovery", "coordinated"],
        what: "joint",
        is_there: false,
        goal: GOAL,
    },
    Way {
        text: "parts of the ranks, over a file, coordinated",
        options: &["--recovery", "coordinated"],
        what: "joint",
        is_there: true,
        goal: UNDO_GOAL,
    },
];

/// A file that is removed afterwards.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Measures each way, each run beside one of a plain writer with the same file before.
pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>> {
    setting.compile("writes")?;
    let name = format!("/dev/shm/rejoin-bench-{}", std::process::id());
    let file = File(name.into());
    let mut figures = Vec::new();
    for way in &WAYS {
        let (mut rates, mut ratios) = (Vec::new(), Vec::new());
        for round in 0..setting.rounds {
            let own = |is_plain: bool| rate(setting, &file, way, is_plain);
            let (rate, plain) = if round.is_multiple_of(2) {
                (own(false)?, own(true)?)
            } else {
                let plain = own(true)?;
                (own(false)?, plain)
            };
            rates.push(rate);
            ratios.push(rate / plain);
        }
        let text = way.text;
        figures.push(Figure::median(text, "MB/s", &rates));
        let over = Figure::median(format!("{text}: over one plain writer's"), "", &ratios);
        figures.push(over.at_least(way.goal));
    }
    Ok(figures)
}

/// MB/s of one run. The file is in memory: it is the library that is measured, and not the disk,
/// for which the system makes writers wait as it sees fit.
fn rate(setting: &Setting, file: &File, way: &Way, is_plain: bool) -> Result<f64> {
    let name = file.0.to_str().context("a path that is no text")?;
    let mebibytes = MEBIBYTES[usize::from(setting.quick)];
    let write = |options: &[&str], ranks, what| {
        setting.printed(options, ranks, &["writes", what, name, mebibytes])
    };
    let plain = ["--recovery", "none"];
    let _ = std::fs::remove_file(name);
    if way.is_there {
        write(&plain, 1, "plain")?;
    }
    match is_plain {
        true => write(&plain, 1, "plain"),
        false => write(way.options, 4, way.what),
    }
}
