//! `cargo xtask mutants`: changes the sans-IO cores one line at a time, and lists the changes that
//! no test notices. It takes hours, so it is no claim of `cargo xtask test`.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The sans-IO cores: their tests need no installation.
const CORES: &[&str] = &[
    "rejoin-channel-table",
    "rejoin-logging",
    "rejoin-engine",
    "rejoin-ring",
    "rejoin-wire",
    "rejoin-managers-protocol",
];

/// Options of `cargo xtask mutants`.
#[derive(clap::Args)]
pub struct Args {
    /// Only these crates, by name; all sans-IO cores by default.
    #[arg(long)]
    package: Vec<String>,
    /// Only files that match this glob.
    #[arg(long)]
    file: Vec<String>,
    /// Names the changes and runs nothing.
    #[arg(long)]
    list: bool,
}

/// Runs the command: it fails only when cargo-mutants could not do its work.
pub fn run(args: Args) -> Result<()> {
    let root = crate::workspace::root();
    let shown = Command::new("cargo")
        .args(["mutants", "--version"])
        .output();
    if !shown.is_ok_and(|o| o.status.success()) {
        println!("installing cargo-mutants");
        let mut install = Command::new("cargo");
        let status = install
            .args(["install", "--locked", "cargo-mutants"])
            .status()?;
        ensure!(status.success(), "cargo install ended with {status}");
    }
    let out = root.join("target/mutants");
    fs::create_dir_all(&out)?;
    let mut command = Command::new("cargo");
    command
        .current_dir(&root)
        .arg("mutants")
        .arg("--output")
        .arg(&out);
    let all: Vec<String> = CORES.iter().map(|c| (*c).to_owned()).collect();
    let packages = if args.package.is_empty() {
        all
    } else {
        args.package
    };
    for package in &packages {
        command.args(["--package", package]);
    }
    for file in &args.file {
        command.args(["--file", file]);
    }
    if args.list {
        command.arg("--list");
    }
    let status = command.status().context("starting cargo mutants")?;
    // 2: some changes were not noticed; 3: some took too long.
    let worked = matches!(status.code(), Some(0 | 2 | 3));
    ensure!(worked, "cargo mutants ended with {status}");
    if !args.list {
        let missed = out.join("mutants.out/missed.txt");
        let text = fs::read_to_string(&missed).unwrap_or_default();
        println!(
            "{} changes that no test notices ({}):",
            text.lines().count(),
            missed.display()
        );
        print!("{text}");
    }
    Ok(())
}
