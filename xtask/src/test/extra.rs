//! Claims that need tools beyond the pinned toolchain.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use super::passed::Sources;
use super::setting::{Setting, cargo};

/// Whether cargo runs well with these arguments.
fn has(args: &[&str]) -> bool {
    let out = Command::new("cargo").args(args).output();
    out.is_ok_and(|o| o.status.success())
}

/// Runs Miri on the handles and datatypes of the C ABI, if the nightly toolchain has it. Runs the
/// address sanitizer on the crates with unsafe code.
pub fn memory(c: &Setting) -> Result<()> {
    if !has(&["+nightly", "--version"]) {
        let why = "no nightly toolchain: neither Miri nor the address sanitizer can run";
        return c.shared.skipped.note("memory", why);
    }
    let crates = ["rejoin-mpi", "rejoin-c-abi", "rejoin-device"];
    let sources = Sources::of(&c.root, "memory", &crates, &["+nightly"])?;
    if has_passed(c, &sources) {
        return Ok(());
    }
    let miri = ["+nightly", "miri", "--version"];
    if c.shared.install && !has(&miri) {
        println!("installing Miri");
        let mut rustup = Command::new("rustup");
        rustup.args([
            "component",
            "add",
            "--toolchain",
            "nightly",
            "miri",
            "rust-src",
        ]);
        // Only the sanitizer runs where there is no network.
        let _ = Setting::new(5, &c.shared)?.run(&mut rustup);
    }
    let mut commands = vec![sanitizer(c)];
    if has(&miri) {
        commands.push(interpreter(c));
    } else {
        let why =
            "Miri cannot be installed for the nightly toolchain; only the address sanitizer ran";
        c.shared.skipped.note("miri", why)?;
        return c.run_all(&mut commands);
    }
    c.run_all(&mut commands)?;
    sources.note()
}

/// Whether a claim need not be repeated, which is said then.
pub fn has_passed(c: &Setting, sources: &Sources) -> bool {
    let is_known = !c.shared.repeats && sources.have_passed();
    if is_known {
        println!("it has passed on the same sources; `--only` repeats it");
    }
    is_known
}

/// Miri, which runs one test at a time.
fn interpreter(c: &Setting) -> Command {
    let handles = ["+nightly", "miri", "test", "-p", "rejoin-c-abi", "--lib"];
    let mut command = cargo(c, &handles);
    let flags = "-Zmiri-permissive-provenance -Zmiri-disable-isolation";
    command.env("MIRIFLAGS", flags);
    // Interpreted code is a thousand times slower; `units` runs all cases.
    command.env("PROPTEST_CASES", "4");
    command.args(["--", "datatype", "handles"]);
    command
}

/// Unit tests under the address sanitizer.
fn sanitizer(c: &Setting) -> Command {
    let crates = ["-p", "rejoin-mpi", "-p", "rejoin-c-abi", "--lib"];
    let target = ["--target", "x86_64-unknown-linux-gnu"];
    let mut command = cargo(c, &["+nightly", "test"]);
    command.args(target).env("RUSTFLAGS", "-Zsanitizer=address");
    // Objects that live as long as the process do not count as leaks. A test that asks for more
    // memory than there is expects the error.
    let options = "detect_leaks=0:allocator_may_return_null=1";
    command.env("ASAN_OPTIONS", options);
    command.env("CARGO_TARGET_DIR", c.root.join("target/sanitizer"));
    // It looks at the accesses of the code, which every level has; this one compiles in half of
    // the time.
    command.env("CARGO_PROFILE_TEST_OPT_LEVEL", "1");
    command.args(crates).args(["-p", "rejoin-device"]);
    command
}

/// A short run of each fuzz target, where cargo-fuzz and a nightly toolchain are available.
pub fn fuzz(c: &Setting) -> Result<()> {
    if !has(&["+nightly", "--version"]) {
        let why = "no nightly toolchain: only the decoders' property tests ran (`units`)";
        return c.shared.skipped.note("fuzz", why);
    }
    let sources = Sources::of(&c.root, "fuzz", &["rejoin-fuzz"], &["+nightly"])?;
    if has_passed(c, &sources) {
        return Ok(());
    }
    installed(c, "cargo-fuzz", &["fuzz", "--version"])?;
    let listed = Command::new("cargo")
        .current_dir(&c.root)
        .args(["+nightly", "fuzz", "list"])
        .output()?;
    let status = listed.status;
    ensure!(status.success(), "cargo fuzz list ended with {status}");
    c.compile(&mut [fuzzing(c, "build")])?;
    let limits = ["-max_total_time=6", "-rss_limit_mb=2048", "-verbosity=0"];
    let targets = String::from_utf8_lossy(&listed.stdout).into_owned();
    let targets: Vec<_> = targets.lines().collect();
    // A target uses one core.
    for pair in targets.chunks(2) {
        println!("--- fuzzing {}", pair.join(" and "));
        let mut commands: Vec<_> = pair
            .iter()
            .map(|target| {
                let mut command = fuzzing(c, "run");
                command.args([target, "--"]).args(limits);
                command
            })
            .collect();
        c.run_all(&mut commands)?;
    }
    sources.note()
}

/// A command of cargo-fuzz, which by itself compiles each crate in one piece, with all
/// optimisations: mostly on one core, as crates wait for each other. The targets run nearly as fast
/// without.
fn fuzzing(c: &Setting, what: &str) -> Command {
    let mut command = cargo(c, &["+nightly", "fuzz", what, "--codegen-units", "16"]);
    command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    command
}

/// `cargo deny check` with `deny.toml`.
pub fn licences(c: &Setting) -> Result<()> {
    let judged = ["Cargo.lock", "deny.toml", ":(glob)**/Cargo.toml"];
    let judged = judged.into_iter().map(PathBuf::from).collect();
    let sources = Sources::of_paths(&c.root, "licences", &judged, "")?;
    // What is known of vulnerabilities changes without the sources.
    if c.shared.skipped.allows("advisories") && has_passed(c, &sources) {
        let why = "no dependency has changed, and cargo-deny would be built for them alone";
        return c.shared.skipped.note("advisories", why);
    }
    installed(c, "cargo-deny", &["deny", "--version"])?;
    c.run(&mut cargo(
        c,
        &["deny", "check", "bans", "licenses", "sources"],
    ))?;
    sources.note()?;
    // The database comes from the network, and is the only part that needs it.
    if !has(&["deny", "fetch", "db"]) {
        let why = "the database of advisories cannot be fetched";
        return c.shared.skipped.note("advisories", why);
    }
    c.run(&mut cargo(c, &["deny", "check", "advisories"]))
}

/// Installs a cargo command from crates.io unless this shows that it is there. It is built without
/// optimisation, which takes half of the time: cargo-deny two minutes of processor time.
fn installed(c: &Setting, name: &str, shows: &[&str]) -> Result<()> {
    if has(shows) {
        return Ok(());
    }
    ensure!(c.shared.install, "{name} is missing");
    println!("installing {name}");
    let mut install = cargo(c, &["install", "--locked", "--debug", name]);
    // Nobody looks for a fault in it.
    install.env("CARGO_PROFILE_DEV_DEBUG", "0");
    c.compile(&mut [install])
}
