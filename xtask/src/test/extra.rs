//! Claims that need tools beyond the pinned toolchain.

use std::process::Command;

use anyhow::{Result, ensure};

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
        return c.skipped.note("memory", why);
    }
    let miri = ["+nightly", "miri", "--version"];
    if c.install && !has(&miri) {
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
        let _ = Setting::new(true, 5, &c.skipped)?.run(&mut rustup);
    }
    if has(&miri) {
        let handles = ["+nightly", "miri", "test", "-p", "rejoin-c-abi", "--lib"];
        let mut command = cargo(c, &handles);
        let flags = "-Zmiri-permissive-provenance -Zmiri-disable-isolation";
        command.env("MIRIFLAGS", flags);
        // Interpreted code is a thousand times slower; `units` runs all cases.
        command.env("PROPTEST_CASES", "4");
        c.run(command.args(["--", "datatype", "handles"]))?;
    } else {
        let why =
            "Miri cannot be installed for the nightly toolchain; only the address sanitizer ran";
        c.skipped.note("miri", why)?;
    }
    let crates = ["-p", "rejoin-mpi", "-p", "rejoin-c-abi", "--lib"];
    let target = ["--target", "x86_64-unknown-linux-gnu"];
    let mut command = cargo(c, &["+nightly", "test"]);
    command.args(target).env("RUSTFLAGS", "-Zsanitizer=address");
    // Objects that live as long as the process do not count as leaks. A test that asks for more
    // memory than there is expects the error.
    let options = "detect_leaks=0:allocator_may_return_null=1";
    command.env("ASAN_OPTIONS", options);
    command.env("CARGO_TARGET_DIR", c.root.join("target/sanitizer"));
    c.run(command.args(crates).args(["-p", "rejoin-device"]))
}

/// A short run of each fuzz target, where cargo-fuzz and a nightly toolchain are available.
pub fn fuzz(c: &Setting) -> Result<()> {
    if !has(&["+nightly", "--version"]) {
        let why = "no nightly toolchain: only the decoders' property tests ran (`units`)";
        return c.skipped.note("fuzz", why);
    }
    installed(c, "cargo-fuzz", &["fuzz", "--version"])?;
    let listed = Command::new("cargo")
        .current_dir(&c.root)
        .args(["+nightly", "fuzz", "list"])
        .output()?;
    let status = listed.status;
    ensure!(status.success(), "cargo fuzz list ended with {status}");
    for target in String::from_utf8_lossy(&listed.stdout).lines() {
        println!("--- fuzzing {target}");
        let limits = ["-max_total_time=6", "-rss_limit_mb=2048", "-verbosity=0"];
        let mut command = cargo(c, &["+nightly", "fuzz", "run", target, "--"]);
        c.run(command.args(limits))?;
    }
    Ok(())
}

/// `cargo deny check` with `deny.toml`. To build cargo-deny takes four minutes of processor time.
pub fn licences(c: &Setting) -> Result<()> {
    installed(c, "cargo-deny", &["deny", "--version"])?;
    c.run(&mut cargo(
        c,
        &["deny", "check", "bans", "licenses", "sources"],
    ))?;
    // The database comes from the network, and is the only part that needs it.
    if !has(&["deny", "fetch", "db"]) {
        let why = "the database of advisories cannot be fetched";
        return c.skipped.note("advisories", why);
    }
    c.run(&mut cargo(c, &["deny", "check", "advisories"]))
}

/// Installs a cargo command from crates.io unless this shows that it is there.
fn installed(c: &Setting, name: &str, shows: &[&str]) -> Result<()> {
    if has(shows) {
        return Ok(());
    }
    ensure!(c.install, "{name} is missing");
    println!("installing {name}");
    c.run(&mut cargo(c, &["install", "--locked", name]))
}
