//! `cargo xtask test`: installs what the tests need, says so, and runs all of them as named claims.

use anyhow::{Context as _, Result, bail, ensure};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

mod binaries;
mod extra;
mod lanes;
mod passed;
mod public_types;
mod setting;
mod skipped;
mod times;

use crate::bounded::{AfterFailure, Spent};
use passed::Sources;
use setting::{Setting, Shared, cargo};
use skipped::Skipped;
use times::Times;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Only the claims whose name contains this text (see --list).
    #[arg(long)]
    only: Option<String>,
    /// Only the test binaries whose name contains this text, among those of the claims.
    #[arg(long)]
    file: Option<String>,
    /// Names the claims and ends.
    #[arg(long)]
    list: bool,
    /// Continues after a claim that failed.
    #[arg(long)]
    keep_going: bool,
    /// Installs nothing; a missing tool fails its claim.
    #[arg(long)]
    no_install: bool,
}

/// One thing that the tests claim, and the command that shows it.
struct Claim {
    name: &'static str,
    what: &'static str,
    /// After so many minutes the claim has failed and is ended. A slow machine needs a fraction of
    /// them.
    minutes: u64,
    run: fn(&Setting) -> Result<()>,
}

const CLAIMS: &[Claim] = &[
    Claim {
        name: "format",
        what: "the code is formatted",
        minutes: 5,
        run: format,
    },
    Claim {
        name: "structure",
        what: "crates depend one way, files and functions are short, cores are pure",
        minutes: 20,
        run: structure,
    },
    Claim {
        name: "generated",
        what: "the C ABI is what its tables say",
        minutes: 20,
        run: generated,
    },
    Claim {
        name: "clippy",
        what: "no warning",
        minutes: 40,
        run: clippy,
    },
    Claim {
        name: "documentation",
        what: "the pages of all crates build, and their links lead somewhere",
        minutes: 20,
        run: documentation,
    },
    Claim {
        name: "units",
        what: "unit and property tests and simulator seeds pass",
        minutes: 60,
        run: units,
    },
    Claim {
        name: "models",
        what: "the protocol cores hold in every interleaving, at bounds that take minutes",
        minutes: 40,
        run: models,
    },
    Claim {
        name: "memory",
        what: "unsafe code touches only memory that is its own",
        minutes: 60,
        run: extra::memory,
    },
    Claim {
        name: "licences",
        what: "dependencies have allowed licences and no known vulnerability",
        minutes: 20,
        run: extra::licences,
    },
    Claim {
        name: "fuzz",
        what: "decoders survive hostile input",
        minutes: 60,
        run: extra::fuzz,
    },
    Claim {
        name: "install",
        what: "an installation exports exactly the ABI, and has no hooks of tests",
        minutes: 40,
        run: install,
    },
    Claim {
        name: "instructions",
        what: "short messages take no more instructions than before",
        minutes: 10,
        run: instructions,
    },
    Claim {
        name: "programs",
        what: "real programs run, and end cleanly when killed",
        minutes: 70,
        run: programs,
    },
    Claim {
        name: "clients",
        what: "examples/, both packages, programs of other MPIs and of Fortran, HPC Challenge, mpi4py's tests run",
        minutes: 80,
        run: clients,
    },
];

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let chosen: Vec<_> = CLAIMS
        .iter()
        .filter(|c| args.only.as_deref().is_none_or(|o| c.name.contains(o)))
        .collect();
    if args.list {
        chosen
            .iter()
            .for_each(|c| println!("{:18} {}", c.name, c.what));
        return Ok(());
    }
    ensure!(
        !chosen.is_empty(),
        "no claim's name contains that; see --list"
    );
    let root = crate::workspace::root();
    let (skipped, times) = (Skipped::new(&root)?, Times::new(&root)?);
    let shared = Shared {
        install: !args.no_install,
        repeats: args.only.is_some(),
        file: args.file,
        skipped,
        times,
    };
    prepare(&Setting::new(20, &shared)?)?;
    let mut results: Vec<(&str, Result<()>)> = Vec::new();
    let begun = Instant::now();
    for claim in chosen {
        let so_far = begun.elapsed().as_secs();
        println!("\n=== {}: {} ({so_far} s so far)", claim.name, claim.what);
        let result = measured(claim, &Setting::new(claim.minutes, &shared)?);
        let failed = result.is_err();
        if let Err(e) = &result {
            println!("=== {} FAILED: {e:#}", claim.name);
        }
        results.push((claim.name, result));
        if failed && !args.keep_going {
            break;
        }
    }
    shared.times.show()?;
    // Both are shown, whichever fails.
    let judged = shared.skipped.judge();
    summary(&results)?;
    judged
}

/// Runs a claim, and notes the time that it takes.
fn measured(claim: &Claim, setting: &Setting) -> Result<()> {
    let (begun, before) = (Instant::now(), Spent::by_children());
    let result = (claim.run)(setting);
    let wall = begun.elapsed();
    let processor = Spent::by_children().saturating_sub(before);
    let all = Spent { wall, processor };
    setting
        .shared
        .times
        .note(claim.name, all, setting.compiled())?;
    result
}

fn summary(results: &[(&str, Result<()>)]) -> Result<()> {
    println!();
    for (name, result) in results {
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        println!("{name:18} {word}");
    }
    let failed = results.iter().filter(|r| r.1.is_err()).count();
    println!("{} passed, {failed} failed", results.len() - failed);
    if failed > 0 {
        bail!("{failed} claims failed");
    }
    Ok(())
}

/// Debian packages that the tests use, each with a file that shows it is there.
const PACKAGES: &[(&str, &str)] = &[
    ("gcc", "/usr/bin/gcc"),
    ("g++", "/usr/bin/g++"),
    ("gfortran", "/usr/bin/gfortran"),
    ("libc6-dev", "/usr/include/stdio.h"),
    ("binutils", "/usr/bin/strip"),
    ("make", "/usr/bin/make"),
    ("python3", "/usr/bin/python3"),
    ("python3-venv", "/var/lib/dpkg/info/python3-venv.list"),
    ("python3-dev", "/var/lib/dpkg/info/python3-dev.list"),
    ("ca-certificates", "/etc/ssl/certs/ca-certificates.crt"),
    ("gdb", "/usr/bin/gdb"),
    ("valgrind", "/usr/bin/valgrind"),
    ("pkg-config", "/usr/bin/pkg-config"),
    (
        "chromium-headless-shell",
        "/usr/bin/chromium-headless-shell",
    ),
];

fn prepare(context: &Setting) -> Result<()> {
    let missing: Vec<_> = PACKAGES
        .iter()
        .filter(|(_, file)| !Path::new(file).exists())
        .map(|(name, _)| *name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    ensure!(context.shared.install, "missing Debian packages: {names}");
    ensure!(
        nix::unistd::geteuid().is_root(),
        "missing Debian packages, which only root may install: apt-get install {names}"
    );
    println!("installing Debian packages: {names}");
    apt(context, &["update"])?;
    apt(context, &[&["install", "-y"], &missing[..]].concat())
}

/// Fetching is tried again when the network fails; nothing asks a person.
fn apt(context: &Setting, args: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-q", "-o", "Acquire::Retries=3"]);
    context.run(command.args(args))
}

fn format(c: &Setting) -> Result<()> {
    c.run(&mut cargo(c, &["fmt", "--all", "--check"]))
}

fn structure(c: &Setting) -> Result<()> {
    c.run(&mut cargo(c, &["xtask", "check"]))
}

fn generated(c: &Setting) -> Result<()> {
    c.run(&mut cargo(c, &["xtask", "codegen", "--check"]))
}

fn clippy(c: &Setting) -> Result<()> {
    // The restarter has no tests, and is built only for an installation.
    let restarter = ["--package", "rejoin-restarter", "--features", "program"];
    for what in [&["--workspace", "--all-targets"][..], &restarter] {
        let arguments = [&["clippy"], what, &["--", "-D", "warnings"]].concat();
        c.compile(&mut [cargo(c, &arguments)])?;
    }
    Ok(())
}

fn documentation(c: &Setting) -> Result<()> {
    // Pages of a crate that is no public library may link to private items.
    let flags = "-D warnings -A rustdoc::private-intra-doc-links";
    // Pages of types that are gone would count.
    let pages = crate::install::target_directory(&c.root)?.join("doc");
    match std::fs::remove_dir_all(&pages) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing {}", pages.display()));
        }
        _ => {}
    }
    let mut command = cargo(c, &["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", flags);
    c.compile(&mut [command])?;
    public_types::check(&pages)
}

fn units(c: &Setting) -> Result<()> {
    let mut binaries = binaries::build(c)?;
    // `models` runs its own at larger bounds.
    binaries.retain(|binary| !binary.is_model() && !binary.is_end_to_end(c));
    binaries::run(c, "units", binaries, &[])?;
    binaries::run_examples(c)
}

/// The variable with the bounds of the models.
const MODELS: &str = "REJOIN_MODELS";

fn models(c: &Setting) -> Result<()> {
    let bounds = std::env::var(MODELS).unwrap_or_else(|_| "ci".into());
    println!("bounds: {bounds} (larger ones: {MODELS}=full cargo xtask test --only models)");
    let crates = [
        "rejoin-channel-table",
        "rejoin-sim",
        "rejoin-managers-protocol",
    ];
    let sources = Sources::of(&c.root, "models", &crates, &[])?;
    if extra::has_passed(c, &sources) {
        return Ok(());
    }
    let mut binaries = binaries::build(c)?;
    binaries.retain(binaries::Binary::is_model);
    binaries::run(c, "models", binaries, &[(MODELS, bounds.as_ref())])?;
    sources.note()
}

/// The command that installs there.
fn install_at(c: &Setting, prefix: &str) -> Command {
    let mut command = cargo(c, &["xtask", "install", "--prefix"]);
    command.arg(c.root.join(prefix));
    command
}

/// The installation that users make: without hooks that kill processes and cut links.
fn install(c: &Setting) -> Result<()> {
    c.compile(&mut [install_at(c, "target/installed")])?;
    let installed = c.root.join("target/installed");
    let mut check = cargo(c, &["xtask", "check", "--library"]);
    c.run(check.arg(installed.join("lib/libmpi_abi.so.1")))?;
    // A variable that kills ranks has no effect where users work.
    let mut refused = Command::new(installed.join("bin/mpirun"));
    refused.args(["-n", "1", "true"]);
    let done = refused.env("REJOIN_FAULT", "retired=nobody").output()?;
    let says = String::from_utf8_lossy(&done.stderr);
    ensure!(
        !done.status.success() && says.contains("this build has no fault injection"),
        "an installation for users does not refuse REJOIN_FAULT: {says}"
    );
    Ok(())
}

fn instructions(c: &Setting) -> Result<()> {
    if !crate::count::has_valgrind() {
        return c
            .shared
            .skipped
            .note("instructions", "valgrind is not installed");
    }
    let mut count = cargo(c, &["xtask", "count", "--prefix"]);
    c.run(count.arg(c.root.join("target/installed")))
}

fn programs(c: &Setting) -> Result<()> {
    let mut binaries = binaries::build(c)?;
    binaries.retain(|binary| binary.is_end_to_end(c));
    // With these hooks, and of this code also where the claim runs alone.
    let mut hooked = install_at(c, "target/prefix");
    hooked.arg("--built").arg(binaries::built(c)?);
    c.compile(&mut [hooked])?;
    let prefix = c.root.join("target/prefix");
    let seed = seed()?;
    println!("moments of kills and moves: seed {seed} (again: {SEED}={seed})");
    let seed = OsString::from(seed.to_string());
    let variables = [
        ("REJOIN_PREFIX", prefix.as_os_str()),
        (SEED, &seed),
        ("REJOIN_SURVIVE_SEED", &seed),
        ("REJOIN_MOVES_SEED", &seed),
    ];
    binaries::run_programs(c, "programs", binaries, &variables)
}

/// The variable with the first seed of end-to-end tests, to repeat a run.
const SEED: &str = "REJOIN_SEED";

/// That of the variable, or one of this run.
fn seed() -> Result<u64> {
    match std::env::var(SEED) {
        Ok(text) => text.parse().with_context(|| format!("{SEED} is {text:?}")),
        Err(_) => Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() % 1_000_000_000),
    }
}

/// Scripts of `tests/clients`: those that show what no other one does, the longest first, as far as
/// the time allows. `cargo xtask clients` runs all.
const CLIENTS: [&str; 12] = [
    "mpi4py",
    "openmpi",
    "mpich",
    "debian/hpcc",
    "debian/mumps",
    "debian/superlu",
    "debian/cxx",
    "fortran",
    "foreign",
    "examples",
    "wheel",
    "deb",
];

/// Runs these scripts with the installation that users make, two at a time.
fn clients(c: &Setting) -> Result<()> {
    let mut commands = CLIENTS.map(|name| {
        let script = c.root.join("tests/clients").join(name).with_extension("sh");
        let mut command = Command::new(script);
        command
            .arg(c.root.join("target/installed"))
            .arg(c.root.join("target/clients"));
        command
    });
    let mut noted = Ok(());
    c.run_some(
        &mut commands,
        2,
        AfterFailure::Continues,
        |number, spent| {
            let name = format!("clients/{}", CLIENTS[number]);
            let note = c.shared.times.note(&name, spent, Spent::default());
            noted = std::mem::replace(&mut noted, Ok(())).and(note);
        },
    )?;
    noted
}
