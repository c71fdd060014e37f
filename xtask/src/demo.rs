//! `cargo xtask demo`: builds Rejoin, compiles a real MPI program and shows it run on 4 ranks.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Ranks to run on.
    #[arg(short = 'n', long, default_value_t = 4)]
    ranks: u32,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let root = crate::root();
    let prefix = root.join("target/prefix");
    println!("== building Rejoin and installing it under target/prefix");
    shown(
        Command::new("cargo")
            .args(["xtask", "install", "--prefix"])
            .arg(&prefix)
            .current_dir(&root),
    )?;
    println!("\n== the machine");
    // What the doctor finds is worth seeing, and is no reason to stop.
    let _ = Command::new(prefix.join("bin/rejoin"))
        .arg("doctor")
        .status();
    println!(
        "\n== compiling tests/programs/jacobi.c with Rejoin's mpicc: a program that knows nothing of Rejoin"
    );
    let program = root.join("target/demo-jacobi");
    let source = root.join("tests/programs/jacobi.c");
    let mpicc = prefix.join("bin/mpicc");
    shown(
        Command::new(mpicc)
            .args(["-O2", "-o"])
            .arg(&program)
            .arg(source)
            .arg("-lm"),
    )?;
    println!("\n== running it on {} ranks", args.ranks);
    mpirun(&prefix, args.ranks, &program)?;
    println!("\n== the same on one rank, started without mpirun");
    shown(&mut Command::new(&program))
}

fn mpirun(prefix: &Path, ranks: u32, program: &Path) -> Result<()> {
    let mut command = Command::new(prefix.join("bin/mpirun"));
    shown(
        command
            .args(["--tag-output", "-n", &ranks.to_string()])
            .arg(program),
    )
}

fn shown(command: &mut Command) -> Result<()> {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|w| w.to_string_lossy().into_owned())
        .collect();
    println!("$ {}", words.join(" "));
    let status = command
        .status()
        .with_context(|| format!("starting {}", words[0]))?;
    ensure!(status.success(), "{} ended with {status}", words[0]);
    Ok(())
}
