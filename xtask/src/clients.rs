//! `cargo xtask clients`: programs that others have written run on Rejoin. Each is a script of
//! `tests/clients`; those of `debian` are compiled by Debian for its Open MPI, compare the answers
//! and kill ranks. `cargo xtask test` runs some of them.

use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `cargo xtask clients`.
#[derive(clap::Args)]
pub struct Args {
    /// Scripts of tests/clients/debian, or of tests/clients; without a name all of them.
    names: Vec<String>,
    /// Use this installation instead of building one.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Names the scripts and ends.
    #[arg(long)]
    list: bool,
}

/// What scripts share, and no script itself.
const SHARED: [&str; 3] = ["common", "facade", "debian"];

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let root = crate::workspace::root();
    let scripts = root.join("tests/clients");
    let debian = scripts_of(&scripts.join("debian"))?;
    let others = scripts_of(&scripts)?;
    let all = [debian.clone(), others.clone()].concat();
    let found = args.names.iter().map(|name| named(&all, name));
    let chosen = match args.names.is_empty() {
        true => all.clone(),
        false => found.collect::<Result<Vec<_>>>()?,
    };
    if args.list {
        let of_debian = names(&debian).join(" ");
        println!(
            "of Debian: {of_debian}\nothers: {}",
            names(&others).join(" ")
        );
        return Ok(());
    }
    let prefix = match args.prefix {
        Some(prefix) => prefix,
        None => installed(&root)?,
    };
    let work = root.join("target/clients");
    let mut failed = Vec::new();
    for script in &chosen {
        let done = Command::new(script).arg(&prefix).arg(&work).status();
        let done = done.with_context(|| format!("starting {}", script.display()))?;
        if !done.success() {
            failed.push(name(script));
        }
    }
    println!("{} of {} passed", chosen.len() - failed.len(), chosen.len());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(" "));
    }
    Ok(())
}

/// The scripts of a folder, in the order of their names.
fn scripts_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let shown = || format!("reading {}", folder.display());
    let mut scripts = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(shown)? {
        let path = entry.with_context(shown)?.path();
        let is_script = path.extension().is_some_and(|extension| extension == "sh");
        if is_script && !SHARED.contains(&name(&path).as_str()) {
            scripts.push(path);
        }
    }
    scripts.sort();
    Ok(scripts)
}

/// Its name on the command line.
fn name(script: &Path) -> String {
    let stem = script.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn names(scripts: &[PathBuf]) -> Vec<String> {
    scripts.iter().map(|script| name(script)).collect()
}

/// The script of this name; of two with one name that of Debian's program, which comes first.
fn named(scripts: &[PathBuf], wanted: &str) -> Result<PathBuf> {
    let found = scripts.iter().find(|script| name(script) == wanted);
    found
        .cloned()
        .with_context(|| format!("no script {wanted}: see --list"))
}

/// Builds Rejoin as users do.
fn installed(root: &Path) -> Result<PathBuf> {
    let prefix = root.join("target/installed");
    let mut command = Command::new("cargo");
    command.args(["xtask", "install", "--prefix"]).arg(&prefix);
    let done = command
        .current_dir(root)
        .status()
        .context("starting cargo")?;
    ensure!(done.success(), "cargo xtask install ended with {done}");
    Ok(prefix)
}
