//! `cargo xtask demo`: builds Rejoin, compiles a real MPI program and shows it run on several ranks.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Ranks to run on.
    #[arg(short = 'n', long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=512))]
    ranks: u32,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let begun = Instant::now();
    let ranks = args.ranks;
    let root = crate::root();
    println!(
        "This builds Rejoin from its sources, compiles a C program with the mpicc that comes out,"
    );
    println!("runs it on {ranks} ranks and on one, and compares the answers.");

    println!("\n== 1. Building Rejoin and installing it under target/prefix");
    println!("   (the first time it takes two to ten minutes: optimised as a whole)");
    let prefix = root.join("target/prefix");
    shown(
        Command::new("cargo")
            .args(["xtask", "install", "--prefix"])
            .arg(&prefix)
            .current_dir(&root),
    )?;

    println!("\n== 2. The machine, as `rejoin doctor` sees it");
    // What it finds is worth seeing, and is no reason to stop.
    let _ = shown(Command::new(prefix.join("bin/rejoin")).arg("doctor"));

    println!(
        "\n== 3. Compiling tests/programs/jacobi.c, an MPI program that knows nothing of Rejoin:"
    );
    println!("   heat in a plate of 512 x 512 points, cut into a band per rank");
    let program = root.join("target/demo-jacobi");
    shown(
        Command::new(prefix.join("bin/mpicc"))
            .args(["-O2", "-o"])
            .arg(&program)
            .arg(root.join("tests/programs/jacobi.c"))
            .arg("-lm"),
    )?;

    println!(
        "\n== 4. Running it on {ranks} ranks: [rank]<stream> stands before each line of output"
    );
    let several = checksum(
        Command::new(prefix.join("bin/mpirun"))
            .args(["--tag-output", "-n", &ranks.to_string()])
            .arg(&program),
    )?;

    println!("\n== 5. The same on one rank, started without mpirun");
    let one = checksum(&mut Command::new(&program))?;

    // Sums of other partial sums differ in their last digits.
    let agree = (several - one).abs() <= 1e-9 * one.abs();
    ensure!(
        agree,
        "{ranks} ranks say {several:e} and one says {one:e}: the answers differ"
    );
    println!(
        "\nBoth runs came to the same answer, {one:e}. Done in {:.0} s.",
        begun.elapsed().as_secs_f64()
    );
    next(&prefix);
    Ok(())
}

fn next(prefix: &Path) {
    let bin = prefix.join("bin");
    println!("Your own program:");
    println!("  {}/mpicc -O2 -o app app.c", bin.display());
    println!("  {}/mpirun -n 4 ./app", bin.display());
    println!("Install it elsewhere with `cargo xtask install --prefix DIR`; README.md says more.");
}

/// The number that the program prints last.
fn checksum(command: &mut Command) -> Result<f64> {
    announce(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {:?}", command.get_program()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    ensure!(output.status.success(), "it ended with {}", output.status);
    text.lines()
        .filter_map(|line| line.split_once("checksum ")?.1.trim().parse().ok())
        .next_back()
        .context("it printed no checksum")
}

fn announce(command: &Command) {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|w| w.to_string_lossy().into_owned())
        .collect();
    println!("$ {}", words.join(" "));
}

fn shown(command: &mut Command) -> Result<()> {
    announce(command);
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("starting {program}"))?;
    ensure!(status.success(), "{program} ended with {status}");
    Ok(())
}
