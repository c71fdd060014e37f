//! Cost and speed of recovery: recovery, checkpoints, files of images, overhead, both recovery
//! modes side by side, the cost of message logging, and the same kills in each mode.

mod checkpoint;
mod figures;
mod image_costs;
mod images;
mod job;
mod kill_schedule;
mod logging;
mod logging_beside;
mod modes;
mod moves;
mod overhead;
mod recovery;
mod side_by_side;

use super::options::Args;
use anyhow::{Context, Result, bail};
use figures::Figure;
use job::Setting;

/// A case.
type Case = fn(&Setting) -> Result<Vec<Figure>>;

/// The cases in the order of the table.
const CASES: [(&str, Case); 10] = [
    ("recovery", recovery::run),
    ("checkpoint", checkpoint::run),
    ("images", images::run),
    ("image-recoveries", images::run_recoveries),
    ("image-costs", image_costs::run),
    ("overhead", overhead::run),
    ("modes", modes::run),
    ("moves", moves::run),
    ("logging", logging::run),
    ("kills", kill_schedule::run),
];

/// Measures the named cases; `survive` names all. Earlier figures of other cases stay in the table.
pub fn run(names: &[String], args: &Args) -> Result<()> {
    for name in names {
        if name != "survive" && !CASES.iter().any(|(known, _)| known == name) {
            let known = CASES.map(|(name, _)| name).join(", ");
            bail!("there is no case {name:?}; there are {known}, and survive for all of them");
        }
    }
    let setting = Setting::prepare(args)?;
    let out = &setting.out;
    std::fs::create_dir_all(out)?;
    for (name, case) in CASES {
        if !names.iter().any(|n| n == name || n == "survive") {
            continue;
        }
        println!("--- {name}");
        let measured = case(&setting).with_context(|| format!("the case {name}"))?;
        for figure in &measured {
            println!("{}", figure.line());
        }
        figures::store(out, &CASES.map(|(name, _)| name), name, &measured)?;
    }
    println!("written to {}", out.join("recovery.md").display());
    Ok(())
}
