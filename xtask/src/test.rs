//! `cargo xtask test`: installs what the tests need, says so, and runs all of them as named claims.

use anyhow::{Context as _, Result, bail, ensure};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

mod binaries;
mod extra;
mod public_types;
mod setting;
mod skipped;

use setting::{Setting, cargo};
use skipped::Skipped;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Only the claims whose name contains this text (see --list).
    #[arg(long)]
    only: Option<String>,
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
        name: "examples",
        what: "the programs of examples/ do what they say",
        minutes: 10,
        run: |c| client(c, "examples"),
    },
    Claim {
        name: "clients-foreign",
        what: "programs built for another MPI's standard ABI run",
        minutes: 20,
        run: |c| client(c, "foreign"),
    },
    Claim {
        name: "clients-netpipe",
        what: "NetPIPE runs",
        minutes: 20,
        run: |c| client(c, "netpipe"),
    },
    Claim {
        name: "clients-hpcc",
        what: "HPC Challenge runs and its residuals hold",
        minutes: 30,
        run: |c| client(c, "hpcc"),
    },
    Claim {
        name: "clients-mpi4py",
        what: "mpi4py builds, and its own tests pass",
        minutes: 60,
        run: |c| client(c, "mpi4py"),
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
    let install = !args.no_install;
    let skipped = Skipped::new(&crate::workspace::root())?;
    prepare(&Setting::new(install, 20, &skipped)?)?;
    let mut results: Vec<(&str, Duration, Result<()>)> = Vec::new();
    for claim in chosen {
        println!("\n=== {}: {}", claim.name, claim.what);
        let start = Instant::now();
        let result = Setting::new(install, claim.minutes, &skipped).and_then(|c| (claim.run)(&c));
        let failed = result.is_err();
        if let Err(e) = &result {
            println!("=== {} FAILED: {e:#}", claim.name);
        }
        results.push((claim.name, start.elapsed(), result));
        if failed && !args.keep_going {
            break;
        }
    }
    // Both are shown, whichever fails.
    let judged = skipped.judge();
    summary(&results)?;
    judged
}

fn summary(results: &[(&str, Duration, Result<()>)]) -> Result<()> {
    println!();
    for (name, took, result) in results {
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        println!("{name:18} {word:6} {:6.1} s", took.as_secs_f64());
    }
    let failed = results.iter().filter(|r| r.2.is_err()).count();
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
    ensure!(context.install, "missing Debian packages: {names}");
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
        c.run(&mut cargo(c, &arguments))?;
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
    c.run(command.env("RUSTDOCFLAGS", flags))?;
    public_types::check(&pages)
}

fn units(c: &Setting) -> Result<()> {
    let mut binaries = binaries::build(c)?;
    // `models` runs these, at larger bounds.
    binaries.retain(|binary| !binary.is_model());
    binaries::run(c, binaries, &[])?;
    binaries::run_examples(c)
}

/// The variable with the bounds of the models.
const MODELS: &str = "REJOIN_MODELS";

fn models(c: &Setting) -> Result<()> {
    let bounds = std::env::var(MODELS).unwrap_or_else(|_| "ci".into());
    println!("bounds: {bounds} (larger ones: {MODELS}=full cargo xtask test --only models)");
    let mut binaries = binaries::build(c)?;
    binaries.retain(binaries::Binary::is_model);
    binaries::run(c, binaries, &[(MODELS, bounds.as_ref())])
}

/// Two installations: the tests' own, with hooks that kill processes and cut links, and the one
/// that users make, without them. They share no compiled crate. The builds run at the same time,
/// because the last step of each (optimising whole programs) uses one core for long.
fn install(c: &Setting) -> Result<()> {
    let at = |prefix: &str| {
        let mut command = cargo(c, &["xtask", "install", "--prefix"]);
        command.arg(c.root.join(prefix));
        command
    };
    let mut of_tests = at("target/prefix");
    of_tests.args(["--profile", "fast", "--fault-injection"]);
    c.run_all(&mut [of_tests, at("target/installed")])?;
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
        return c.skipped.note("instructions", "valgrind is not installed");
    }
    let mut count = cargo(c, &["xtask", "count", "--prefix"]);
    c.run(count.arg(c.root.join("target/installed")))
}

fn programs(c: &Setting) -> Result<()> {
    let binaries = binaries::build_programs(c)?;
    let prefix = c.root.join("target/prefix");
    binaries::run_programs(c, &binaries, &[("REJOIN_PREFIX", prefix.as_os_str())])
}

/// Runs a script of `tests/clients` with the installation that users make.
fn client(c: &Setting, name: &str) -> Result<()> {
    let script = c.root.join("tests/clients").join(name).with_extension("sh");
    c.run(
        Command::new(script)
            .arg(c.root.join("target/installed"))
            .arg(c.root.join("target/clients")),
    )
}
