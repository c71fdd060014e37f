//! Files of images: their rates beside plain writes and reads, and how fast ranks come back from
//! them, also on another host.

use crate::bench::figures::Figure;
use crate::bench::job::{Setting, numbers};
use anyhow::{Result, ensure};
use std::path::Path;

/// Runs the case of the rates.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let disk = crate::workspace::root().join("target/bench/images");
    std::fs::create_dir_all(&disk)?;
    let mut figures = rates(setting, "memory", Path::new("/dev/shm"))?;
    figures.extend(rates(setting, "disk", &disk)?);
    Ok(figures)
}

/// Runs the case of the recoveries from files. After each kill, seconds pass until there are files
/// again, and each loss is one of a job of its own: so there are few.
pub fn run_recoveries(setting: &Setting) -> Result<Vec<Figure>> {
    let [kills, losses] = if setting.quick { [3, 1] } else { [9, 3] };
    let told = setting.example("recover", &[&kills.to_string(), "256", "shm", "images"])?;
    let what = "4 × 256 MB: rank and its image in memory killed, to a message completed by every \
                rank, median";
    let mut figures = vec![Figure::median(what, "ms", &numbers(&told, "progress")).at_most(500.0)];
    let count = losses.to_string();
    let told = setting.example("host_loss", &[&count, "256"])?;
    let what =
        "4 × 256 MB: host lost, its end reported, to a message completed by every rank, median";
    figures.push(Figure::median(what, "ms", &numbers(&told, "progress")).at_most(2000.0));
    let told = setting.example("host_loss", &[&count, "256", "cut"])?;
    let what = "4 × 256 MB: host cut off, the lease of 1 s included, to a message completed by every \
                rank, median";
    figures.push(Figure::median(what, "ms", &numbers(&told, "progress")).at_most(3000.0));
    Ok(figures)
}

/// Rates of 1 GiB beside plain ones, pair by pair: how much of the plain rate is reached.
fn rates(setting: &Setting, medium: &str, folder: &Path) -> Result<Vec<Figure>> {
    let test = "test -q --profile fast -p rejoin-ckpt --test twins -- image-figures";
    let mut command = setting.cargo(test);
    let told = setting.ran(command.env("IMAGE_FOLDER", folder))?.out;
    let series = |what: &str| {
        let samples = numbers(&told, &format!("1024 MiB: {what}"));
        ensure!(!samples.is_empty(), "no figure of: {what}");
        Ok(samples)
    };
    let ratios = |ours: &str, plain: &str| -> Result<Vec<f64>> {
        let (ours, plain) = (series(ours)?, series(plain)?);
        Ok(plain
            .iter()
            .zip(&ours)
            .map(|(plain, own)| plain / own)
            .collect())
    };
    let shown = |what: &str| format!("1 GiB in {medium}: {what}, median");
    let saved = ratios("save", "plain write")?;
    let read = ratios("restore", "plain read")?;
    let made = ratios("restore", "plain read into new memory")?;
    Ok(vec![
        Figure::median(shown("save"), "ms", &series("save")?),
        Figure::median(shown("rate of a save to that of a plain write"), "", &saved).at_least(0.85),
        Figure::median(shown("restore"), "ms", &series("restore")?),
        Figure::median(
            shown("rate of a restore to that of a plain read"),
            "",
            &read,
        )
        .at_least(0.8),
        Figure::median(
            shown("rate of a restore to that of a plain read into new memory"),
            "",
            &made,
        ),
    ])
}
