//! Jobs that are measured.

use crate::bench::options::Args;
use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// Where things are, and how thoroughly they are measured.
pub struct Setting {
    /// The installation.
    pub prefix: PathBuf,
    programs: PathBuf,
    /// Rounds of each pair.
    pub rounds: usize,
    /// A look, not a figure.
    pub quick: bool,
    /// Where figures and plots are written.
    pub out: PathBuf,
}

/// The result of a run.
pub struct Ran {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Seconds.
    pub wall: f64,
    /// Processor seconds of all processes of the job.
    pub cpu: f64,
    /// Those of them that the system took.
    pub system: f64,
}

/// Processor seconds of all children that ended: all, and the system's.
fn cpu_of_children() -> Result<(f64, f64)> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    let system = seconds(usage.system_time());
    Ok((seconds(usage.user_time()) + system, system))
}

impl Setting {
    /// Installs Rejoin, unless an installation was named, and compiles the programs.
    pub fn prepare(args: &Args) -> Result<Setting> {
        let work = crate::workspace::root().join("target/bench");
        let prefix = match &args.prefix {
            Some(prefix) => std::path::absolute(prefix)?,
            None => {
                let prefix = work.join("rejoin");
                let mut install = Command::new("cargo");
                install.current_dir(crate::workspace::root());
                let status = install
                    .args(["xtask", "install", "--prefix"])
                    .arg(&prefix)
                    // The phases of a recovery are noted at points of the hooks.
                    .arg("--fault-injection")
                    .status()?;
                ensure!(status.success(), "the installation failed");
                prefix
            }
        };
        let programs = work.join("programs/survive");
        std::fs::create_dir_all(&programs)?;
        let setting = Setting {
            prefix,
            programs,
            rounds: args.rounds,
            quick: args.quick,
            out: crate::workspace::root().join(&args.out),
        };
        for name in ["state", "mpibench", "apps"] {
            setting.compile(name)?;
        }
        Ok(setting)
    }

    /// Compiles a program of `benches/c` with the installation's compiler.
    pub fn compile(&self, name: &str) -> Result<()> {
        let source = crate::workspace::root().join("benches/c").join(name);
        let status = Command::new(self.prefix.join("bin/mpicc"))
            .args(["-O2", "-o"])
            .arg(self.program(name))
            .arg(source.with_extension("c"))
            .status()?;
        ensure!(status.success(), "{name} does not compile");
        Ok(())
    }

    /// The value in the third cell of a line that a program prints.
    pub fn printed(&self, options: &[&str], ranks: u32, words: &[&str]) -> Result<f64> {
        printed(&self.mpirun(options, ranks, words)?)
    }

    /// A program by its name.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Runs a program on so many ranks, with options of mpirun.
    pub fn mpirun(&self, options: &[&str], ranks: u32, words: &[&str]) -> Result<Ran> {
        let mut command = Command::new(self.prefix.join("bin/mpirun"));
        command.args(options).args(["-n", &ranks.to_string()]);
        let (program, arguments) = words.split_first().context("no program")?;
        self.ran(command.arg(self.program(program)).args(arguments))
    }

    /// What an example of the tests prints. Shows which losses have no figure, and why.
    pub fn example(&self, name: &str, words: &[&str]) -> Result<String> {
        let example = format!("run -q --profile fast -p rejoin-tests --example {name} --");
        let mut command = self.cargo(&example);
        let told = self.ran(command.args(words))?.out;
        for line in told.lines().filter(|line| line.starts_with("dropped\t")) {
            println!("{}", line.replace('\t', ": "));
        }
        Ok(told)
    }

    /// Cargo with these words, for tests of the installation.
    pub fn cargo(&self, words: &str) -> Command {
        let mut command = Command::new("cargo");
        command
            .current_dir(crate::workspace::root())
            .env("REJOIN_PREFIX", &self.prefix)
            .args(words.split(' '));
        command
    }

    /// Runs a command to its good end.
    pub fn ran(&self, command: &mut Command) -> Result<Ran> {
        let ((cpu, system), begun) = (cpu_of_children()?, Instant::now());
        let done = command
            .output()
            .with_context(|| format!("starting {command:?}"))?;
        let wall = begun.elapsed().as_secs_f64();
        let (cpu_then, system_then) = cpu_of_children()?;
        let ran = Ran {
            out: String::from_utf8_lossy(&done.stdout).into_owned(),
            err: String::from_utf8_lossy(&done.stderr).into_owned(),
            wall,
            cpu: cpu_then - cpu,
            system: system_then - system,
        };
        ensure!(
            done.status.success(),
            "{command:?}: {}\n{}",
            done.status,
            ran.err
        );
        Ok(ran)
    }
}

/// The value in the third cell of a line that a program prints.
pub fn printed(ran: &Ran) -> Result<f64> {
    let cell = ran.out.lines().find_map(|line| line.split('\t').nth(2));
    Ok(cell.context("no figure printed")?.trim().parse()?)
}

/// The numbers of each line that begins with this word and a tab.
pub fn numbers(text: &str, word: &str) -> Vec<f64> {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(word)?.strip_prefix('\t'));
    let cells = lines.flat_map(|line| line.split('\t'));
    cells.filter_map(|cell| cell.parse().ok()).collect()
}
