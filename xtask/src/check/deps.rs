//! Which crate of the workspace may use which.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::report::Report;

/// One crate and its declared dependencies.
#[derive(Debug)]
pub struct Package {
    /// The crate's name.
    pub name: String,
    /// Its folder, from the workspace's root.
    pub folder: String,
    /// Name of the dependency, and whether only tests need it.
    pub dependencies: Vec<(String, bool)>,
}

/// The direction: each crate with those it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("rejoin-channel-table", &[]),
    ("rejoin-logging", &["rejoin-channel-table"]),
    ("rejoin-engine", &["rejoin-channel-table", "rejoin-logging"]),
    ("rejoin-ring", &[]),
    ("rejoin-image-format", &[]),
    ("rejoin-ckpt", &["rejoin-image-format"]),
    ("rejoin-restarter", &["rejoin-image-format"]),
    ("rejoin-wire", &["rejoin-channel-table"]),
    (
        "rejoin-managers-protocol",
        &["rejoin-channel-table", "rejoin-logging", "rejoin-wire"],
    ),
    (
        "rejoin-device",
        &[
            "rejoin-channel-table",
            "rejoin-logging",
            "rejoin-engine",
            "rejoin-ring",
            "rejoin-ckpt",
            "rejoin-wire",
        ],
    ),
    ("rejoin-mpi", &["rejoin-device", "rejoin-channel-table"]),
    ("rejoin-c-abi", &["rejoin-mpi"]),
    // It knows the C ABI only, and binds to it when a program is loaded.
    ("rejoin-facade", &["rejoin-fortran-arguments"]),
    ("rejoin-facade-mpich", &["rejoin-facade"]),
    ("rejoin-facade-openmpi", &["rejoin-facade"]),
    ("rejoin-fortran-arguments", &[]),
    ("rejoin-fortran", &["rejoin-fortran-arguments"]),
    (
        "rejoin-managers-host",
        &[
            "rejoin-channel-table",
            "rejoin-wire",
            "rejoin-managers-protocol",
        ],
    ),
    (
        "rejoin-managers-net",
        &[
            "rejoin-channel-table",
            "rejoin-wire",
            "rejoin-managers-host",
        ],
    ),
    (
        "rejoin-managers-stdio",
        &[
            "rejoin-channel-table",
            "rejoin-managers-protocol",
            "rejoin-managers-host",
            "rejoin-managers-net",
        ],
    ),
    (
        "rejoin-managers-report",
        &[
            "rejoin-channel-table",
            "rejoin-logging",
            "rejoin-wire",
            "rejoin-ckpt",
            "rejoin-managers-protocol",
            "rejoin-managers-host",
            "rejoin-managers-net",
            "rejoin-managers-stdio",
        ],
    ),
    (
        "rejoin-managers",
        &[
            "rejoin-managers-protocol",
            "rejoin-managers-host",
            "rejoin-managers-net",
            "rejoin-managers-stdio",
            "rejoin-managers-report",
            "rejoin-wire",
            "rejoin-channel-table",
            "rejoin-logging",
            "rejoin-ckpt",
        ],
    ),
    (
        "rejoin-sim",
        &[
            "rejoin-channel-table",
            "rejoin-logging",
            "rejoin-engine",
            "rejoin-wire",
            "rejoin-managers-protocol",
        ],
    ),
    ("xtask", &[]),
];

/// Crates that only run tests and benches may use everything.
const FREE: &[&str] = &["rejoin-tests", "rejoin-benches"];

/// Crates that each rank loads: they stay lean.
const LOADED: &[&str] = &[
    "rejoin-channel-table",
    "rejoin-logging",
    "rejoin-engine",
    "rejoin-ring",
    "rejoin-ckpt",
    "rejoin-image-format",
    "rejoin-wire",
    "rejoin-device",
    "rejoin-mpi",
    "rejoin-c-abi",
    "rejoin-facade",
    "rejoin-facade-mpich",
    "rejoin-facade-openmpi",
    "rejoin-fortran",
    "rejoin-fortran-arguments",
];

/// Too heavy for code that each rank loads.
const HEAVY: &[&str] = &[
    "tokio",
    "async-std",
    "clap",
    "regex",
    "anyhow",
    "tracing-subscriber",
];

/// Crates without input and output of their own.
pub const SANS_IO: &[(&str, &str)] = &[
    ("rejoin-channel-table", "channel-table/"),
    ("rejoin-logging", "logging/"),
    ("rejoin-engine", "device/engine/"),
    ("rejoin-ring", "device/ring/"),
    ("rejoin-image-format", "ckpt/image-format/"),
    ("rejoin-wire", "wire/"),
    ("rejoin-managers-protocol", "managers/protocol/"),
];

/// Libraries that do input and output, or bring randomness or clocks.
const IMPURE: &[&str] = &[
    "mio",
    "socket2",
    "libc",
    "nix",
    "tokio",
    "rand",
    "fastrand",
    "getrandom",
    "crossbeam",
];

/// Reads the workspace's manifests.
pub fn load(root: &Path) -> Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .current_dir(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("starting cargo")?;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "cargo metadata failed: {errors}");
    let metadata: Value = serde_json::from_slice(&out.stdout)?;
    let list = metadata["packages"].as_array().context("no packages")?;
    Ok(list.iter().map(|value| package(root, value)).collect())
}

fn package(root: &Path, value: &Value) -> Package {
    let manifest = Path::new(value["manifest_path"].as_str().unwrap_or_default());
    let folder = manifest.parent().and_then(|f| f.strip_prefix(root).ok());
    let dependencies = value["dependencies"].as_array().into_iter().flatten();
    Package {
        name: value["name"].as_str().unwrap_or_default().to_owned(),
        folder: folder.unwrap_or(root).to_string_lossy().into_owned(),
        dependencies: dependencies
            .map(|d| {
                let name = d["name"].as_str().unwrap_or_default().to_owned();
                (name, d["kind"].as_str() == Some("dev"))
            })
            .collect(),
    }
}

/// Checks every crate.
pub fn check(packages: &[Package], report: &mut Report) {
    for package in packages {
        one(package, packages, report);
    }
}

fn one(package: &Package, all: &[Package], report: &mut Report) {
    let name = package.name.as_str();
    let allowed = ALLOWED.iter().find(|a| a.0 == name).map(|a| a.1);
    if allowed.is_none() && !FREE.contains(&name) {
        let text = format!("{name}: a new crate needs its place in xtask/src/check/deps.rs");
        report.errors.push(text);
    }
    for (dependency, is_dev) in &package.dependencies {
        let dependency = dependency.as_str();
        let is_ours = all.iter().any(|p| p.name == dependency);
        let in_order = allowed.is_none_or(|a| a.contains(&dependency));
        // A test may use the simulator, which uses the crate under test, and what tests share.
        // It may also name itself, for its features.
        let of_tests = ["rejoin-sim", "rejoin-tests", name].contains(&dependency);
        if is_ours && !in_order && !(*is_dev && of_tests) {
            let text = format!("{name} may not depend on {dependency}: wrong direction");
            report.errors.push(text);
        }
        if *is_dev {
            continue;
        }
        if LOADED.contains(&name) && HEAVY.contains(&dependency) {
            let text = format!("{name} is loaded by each rank and may not depend on {dependency}");
            report.errors.push(text);
        }
        if SANS_IO.iter().any(|c| c.0 == name) && IMPURE.contains(&dependency) {
            let text =
                format!("{name} does no input and output and may not depend on {dependency}");
            report.errors.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(name: &str, dependency: &str, is_dev: bool) -> usize {
        let package = |name: &str, dependencies| Package {
            name: name.to_owned(),
            folder: name.to_owned(),
            dependencies,
        };
        let all = [
            package(name, vec![(dependency.to_owned(), is_dev)]),
            package("rejoin-mpi", vec![]),
            package("rejoin-sim", vec![]),
            package("rejoin-channel-table", vec![]),
        ];
        let mut report = Report::default();
        check(&all, &mut report);
        report.errors.len()
    }

    #[test]
    fn the_direction_is_kept() {
        assert_eq!(errors("rejoin-engine", "rejoin-channel-table", false), 0);
        assert_eq!(errors("rejoin-engine", "rejoin-mpi", false), 1);
        assert_eq!(errors("rejoin-engine", "rejoin-mpi", true), 1);
        assert_eq!(errors("rejoin-engine", "rejoin-sim", true), 0);
        assert_eq!(errors("rejoin-engine", "rejoin-sim", false), 1);
        assert_eq!(errors("rejoin-tests", "rejoin-mpi", false), 0);
        assert_eq!(errors("rejoin-new", "serde", false), 1);
    }

    #[test]
    fn heavy_and_impure_libraries_are_kept_out() {
        assert_eq!(errors("rejoin-device", "tokio", false), 1);
        assert_eq!(errors("rejoin-device", "mio", false), 0);
        assert_eq!(errors("rejoin-engine", "mio", false), 1);
        assert_eq!(errors("rejoin-engine", "anyhow", true), 0);
        assert_eq!(errors("rejoin-managers", "clap", false), 0);
    }
}
