//! What further threads add to the pause of a checkpoint, what the file of an image costs of which
//! little has changed, and what files on a disk once a minute cost a job.

use super::checkpoint::after;
use super::overhead::steps;
use crate::bench::figures::Figure;
use crate::bench::job::{Ran, Setting};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Runs the case.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let mut figures = vec![threads(setting)?];
    figures.extend(small_changes(setting)?);
    figures.push(each_minute(setting)?);
    Ok(figures)
}

/// Lines of events of a job, which ends with this value's file.
fn with_events(run: impl FnOnce(&str) -> Result<Ran>) -> Result<(Ran, String)> {
    let path = crate::workspace::root().join(format!("target/bench/events-{}", std::process::id()));
    let ran = run(path.to_str().context("a path that is no text")?)?;
    let events = std::fs::read_to_string(&path).context("reading the events")?;
    std::fs::remove_file(&path)?;
    Ok((ran, events))
}

/// The same small job with threads and without, in turns.
fn threads(setting: &Setting) -> Result<Figure> {
    let seconds = if setting.quick { "5" } else { "20" };
    let pause = |threads: &str| -> Result<f64> {
        let options = ["--checkpoint-interval", "0.25", "--verbose"];
        let ran = setting.mpirun(&options, 2, &["state", "faults", "16", seconds, threads])?;
        let mut pauses: Vec<f64> = ran
            .err
            .lines()
            .filter_map(|l| after(l, "paused for "))
            .collect();
        ensure!(pauses.len() > 8, "{} pauses in {seconds} s", pauses.len());
        pauses.sort_by(f64::total_cmp);
        Ok(pauses[pauses.len() / 2] / 1e3)
    };
    let mut more = Vec::new();
    for round in 0..setting.rounds {
        let (with, without) = if round.is_multiple_of(2) {
            let with = pause("8")?;
            (with, pause("0")?)
        } else {
            let without = pause("0")?;
            (pause("8")?, without)
        };
        more.push(with - without);
    }
    let what = "8 further threads: longer stall, median of pairs of jobs";
    Ok(Figure::median(what, "ms", &more).at_most(1.0))
}

/// Files of a rank that changes a hundredth of its memory: those in themselves, and those that
/// refer to others.
fn small_changes(setting: &Setting) -> Result<[Figure; 2]> {
    let seconds = if setting.quick { 8.0 } else { 40.0 };
    let steps = steps(setting, ["stencil", "1024", "1"], 1, seconds)?.to_string();
    let folder = Folder::new(Path::new("/dev/shm"));
    let options = [
        "--checkpoint-interval",
        "1",
        "--image-interval",
        "1",
        "--images",
        folder.name()?,
    ];
    let (_, events) = with_events(|name| {
        let options = [&options[..], &["--events", name]].concat();
        setting.mpirun(&options, 1, &["state", "stencil", "1024", "1", &steps])
    })?;
    let files = events
        .lines()
        .filter(|line| line.contains("\"level\":\"file\""));
    let took = files.filter_map(|line| after(line, "\"took_ns\":"));
    // The first is taken before there is any memory. One in eight is complete in itself.
    let took: Vec<f64> = took.skip(1).map(|took| took / 1e6).collect();
    let most = took.iter().copied().fold(0.0, f64::max);
    let (whole, part): (Vec<f64>, Vec<f64>) = took.iter().partition(|took| **took > most / 2.0);
    ensure!(!whole.is_empty() && part.len() > 2, "{took:?}");
    let mean = whole.iter().sum::<f64>() / whole.len() as f64;
    let share: Vec<f64> = part.iter().map(|part| part / mean * 100.0).collect();
    let what = "1 GiB, 1 % changed: file beside that of a complete image, median";
    Ok([
        Figure::median("1 GiB: file of a complete image, median", "ms", &whole),
        Figure::median(what, "%", &share).at_most(5.0),
    ])
}

/// The same work with an image to a disk each minute and without recovery, in turns.
fn each_minute(setting: &Setting) -> Result<Figure> {
    let (seconds, apart) = if setting.quick {
        (8.0, "3")
    } else {
        (70.0, "60")
    };
    let steps = steps(setting, ["stencil", "1024", "10"], 1, seconds)?.to_string();
    let words = ["state", "stencil", "1024", "10", &steps];
    let disk = crate::workspace::root().join("target/bench");
    let mut more = Vec::new();
    for round in 0..setting.rounds {
        let folder = Folder::new(&disk);
        let with = || -> Result<f64> {
            let options = ["--checkpoint-interval", apart, "--image-interval", apart];
            let options = [&options[..], &["--images", folder.name()?]].concat();
            let (ran, events) = with_events(|name| {
                setting.mpirun(&[&options[..], &["--events", name]].concat(), 1, &words)
            })?;
            let files = events.matches("\"level\":\"file\"").count();
            ensure!(files > 1, "no file of {words:?} while it ran");
            Ok(ran.wall)
        };
        let none =
            || -> Result<f64> { Ok(setting.mpirun(&["--recovery", "none"], 1, &words)?.wall) };
        let (with, none) = if round.is_multiple_of(2) {
            let with = with()?;
            (with, none()?)
        } else {
            let none = none()?;
            (with()?, none)
        };
        more.push((with / none - 1.0) * 100.0);
    }
    let what = "1 GiB, a checkpoint to a disk each minute: longer run, mean of pairs";
    let figure = Figure::mean(what, "%", &more);
    Ok(if setting.quick {
        figure
    } else {
        figure.costs_at_most(1.0)
    })
}

/// A folder for images, which is removed with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(below: &Path) -> Folder {
        Folder(below.join(format!("rejoin-bench-{}", std::process::id())))
    }

    fn name(&self) -> Result<&str> {
        self.0.to_str().context("a path that is no text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The job has removed what it wrote.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
