//! `cargo xtask demo`: builds Rejoin, compiles a real MPI program, and kills a rank in the middle
//! of its run. Compares its output with that of an undisturbed run.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Ranks to run on.
    #[arg(short = 'n', long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=512))]
    ranks: u32,
    /// Use this installation instead of building one.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

/// Points on a side of the plate, and steps: some seconds on two cores.
const SIZE: [&str; 2] = ["512", "12000"];

/// Longest wait for any step.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let begun = Instant::now();
    let ranks = args.ranks;
    let root = crate::workspace::root();
    println!(
        "This builds Rejoin from its sources, compiles a C program with the mpicc that comes out, runs it on\n\
         {ranks} ranks, runs it again and kills a rank with SIGKILL in the middle, and compares what they say."
    );

    let prefix = match args.prefix {
        Some(prefix) => prefix,
        None => built(&root)?,
    };
    let bin = prefix.join("bin");

    println!("\n== 2. The machine, as `rejoin doctor` sees it");
    // The findings are shown, and are no reason to stop.
    let _ = shown(Command::new(bin.join("rejoin")).arg("doctor"));

    println!(
        "\n== 3. Compiling tests/programs/jacobi.c, an MPI program that knows nothing of Rejoin:"
    );
    println!("   heat in a plate of 512 x 512 points, cut into a band per rank");
    let program = root.join("target/demo-jacobi");
    shown(
        Command::new(bin.join("mpicc"))
            .args(["-O2", "-o"])
            .arg(&program)
            .arg(root.join("tests/programs/jacobi.c"))
            .arg("-lm"),
    )?;

    let jacobi = Program {
        events: program.with_extension("events"),
        words: [program.as_os_str()]
            .into_iter()
            .chain(SIZE.map(OsStr::new))
            .map(OsStr::to_owned)
            .collect(),
        answer: sorted,
    };
    println!("\n== 4. Running it on {ranks} ranks, undisturbed, and again with a kill");
    compared(&bin, &jacobi, ranks)?;
    match on_path("lmp") {
        None => println!("(With Debian's package lammps, the same follows with LAMMPS.)"),
        Some(lmp) => {
            println!("\n== 5. The same with LAMMPS, as it was compiled for Open MPI");
            compared(&bin, &lammps(&root, lmp), ranks)?;
        }
    }
    println!("Done in {:.0} s.", begun.elapsed().as_secs_f64());
    next(&bin);
    Ok(())
}

/// A program that runs twice.
struct Program {
    /// Its file and its arguments.
    words: Vec<OsString>,
    /// Where `mpirun` writes what happens.
    events: PathBuf,
    /// The lines of its output that are the same in each run.
    answer: fn(&str) -> Vec<&str>,
}

/// A melting crystal of 6912 atoms: some seconds on two cores.
fn lammps(root: &Path, lmp: PathBuf) -> Program {
    let input = root.join("tests/clients/debian/melt.lammps");
    let words = ["-log", "none", "-in"].map(OsString::from);
    Program {
        words: [&[lmp.into()], &words[..], &[input.into()]].concat(),
        events: root.join("target/demo-lammps.events"),
        answer: energies,
    }
}

/// The file of this name in a folder of `PATH`.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Runs it twice, the second time with a kill, and compares the answers.
fn compared(bin: &Path, program: &Program, ranks: u32) -> Result<()> {
    let undisturbed = finished(started(&mut job(bin, program, ranks, &[]))?)?;
    println!(
        "\nOnce more, and rank {} is killed in the middle:",
        ranks - 1
    );
    let killed = disturbed(bin, program, ranks)?;
    let answer = (program.answer)(&undisturbed);
    ensure!(!answer.is_empty(), "no answer:\n{undisturbed}");
    ensure!(
        answer == (program.answer)(&killed),
        "the runs say different things:\n{undisturbed}\n{killed}"
    );
    println!(
        "\nBoth runs have the same answer of {} lines, each line once, to the last digit.",
        answer.len()
    );
    Ok(())
}

fn built(root: &Path) -> Result<PathBuf> {
    println!("\n== 1. Building Rejoin and installing it under target/prefix");
    println!("   (the first time it takes two to ten minutes: optimised as a whole)");
    let prefix = root.join("target/prefix");
    shown(
        Command::new("cargo")
            .args(["xtask", "install", "--prefix"])
            .arg(&prefix)
            .current_dir(root),
    )?;
    Ok(prefix)
}

fn job(bin: &Path, program: &Program, ranks: u32, options: &[&str]) -> Command {
    let mut command = Command::new(bin.join("mpirun"));
    command
        .args(options)
        .args(["-n", &ranks.to_string()])
        .args(&program.words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// A run that has begun; ended if the demo gives up.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // It has ended, unless something went wrong.
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn started(command: &mut Command) -> Result<Started> {
    announce(command);
    let child = command.spawn();
    let program = command.get_program().to_string_lossy().into_owned();
    Ok(Started(
        child.with_context(|| format!("starting {program}"))?,
    ))
}

/// The output of a run, which is also shown.
fn finished(mut run: Started) -> Result<String> {
    let mut text = String::new();
    if let Some(mut out) = run.0.stdout.take() {
        out.read_to_string(&mut text)?;
    }
    let status = run.0.wait()?;
    print!("{text}");
    ensure!(status.success(), "it ended with {status}");
    Ok(text)
}

/// A run of which the last rank is killed after two checkpoints.
fn disturbed(bin: &Path, program: &Program, ranks: u32) -> Result<String> {
    let journal = &program.events;
    // Of an earlier demo.
    let _ = std::fs::remove_file(journal);
    let name = journal.to_string_lossy().into_owned();
    let options = ["--checkpoint-interval", "0.5", "--events", &name];
    let run = started(&mut job(bin, program, ranks, &options))?;
    let mpirun = run.0.id().to_string();
    until("two checkpoints", || events(journal, "committed") >= 2)?;
    let rejoin = bin.join("rejoin");
    shown(Command::new(&rejoin).args(["status", &mpirun]))?;
    let pid = pid_of(&rejoin, &mpirun, ranks - 1)?;
    shown(Command::new("kill").args(["-KILL", &pid.to_string()]))?;
    until("the recovery", || events(journal, "recovered") >= 1)?;
    let text = finished(run)?;
    println!(
        "{} says what happened when, a line of JSON each.",
        journal.display()
    );
    let page = journal.with_extension("html");
    shown(
        Command::new(rejoin)
            .arg("report")
            .arg(journal)
            .arg("-o")
            .arg(&page),
    )?;
    println!("{} shows it: open it in a browser.", page.display());
    Ok(text)
}

/// How often something has happened.
fn events(journal: &Path, event: &str) -> usize {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines.filter(|line: &Value| line["event"] == event).count()
}

fn until(what: &str, mut is: impl FnMut() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !is() {
        if begun.elapsed() > LIMIT {
            bail!("waited for {what} in vain");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn pid_of(rejoin: &Path, mpirun: &str, rank: u32) -> Result<u64> {
    let out = Command::new(rejoin)
        .args(["status", "--json", mpirun])
        .output()
        .context("starting rejoin")?;
    let status: Value = serde_json::from_slice(&out.stdout).context("reading its JSON")?;
    let pid = status[0]["ranks"][rank as usize]["pid"].as_u64();
    pid.with_context(|| format!("rank {rank} has no process"))
}

/// LAMMPS's table of energies. The lines around it have times.
fn energies(text: &str) -> Vec<&str> {
    let table = text.lines().skip_while(|line| !line.starts_with("Step"));
    table.take_while(|line| !line.starts_with("Loop")).collect()
}

/// Lines of several ranks come in any order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn next(bin: &Path) {
    println!("Your own program:");
    println!("  {}/mpicc -O2 -o app app.c", bin.display());
    println!("  {}/mpirun -n 4 ./app", bin.display());
    println!("Install it elsewhere with `cargo xtask install --prefix DIR`; README.md says more.");
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
