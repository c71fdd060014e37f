//! `cargo xtask wheel` and `cargo xtask deb`: packages made of an installation, which is the one
//! list of their files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::install;

mod deb;
mod glibc;
mod installation;
mod linked_crates;
mod wheel;

use installation::Installation;

/// Options of `cargo xtask wheel` and `cargo xtask deb`.
#[derive(clap::Args)]
pub struct Args {
    /// The folder that gets the package; by default `target/packages`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The build profile.
    #[arg(long, default_value = "release", value_parser = install::PROFILES)]
    profile: String,
    /// Packs what `cargo xtask install` has put into this folder, which holds nothing else.
    #[arg(long, value_name = "DIR", hide = true)]
    installed: Option<PathBuf>,
}

/// Makes a Python wheel.
pub fn wheel(args: &Args) -> Result<()> {
    packed(args, wheel::pack)
}

/// Makes a Debian package.
pub fn deb(args: &Args) -> Result<()> {
    packed(args, deb::pack)
}

fn packed(args: &Args, pack: fn(&Installation, &Path) -> Result<PathBuf>) -> Result<()> {
    let target = crate::workspace::root().join("target");
    let out = args.out.clone().unwrap_or_else(|| target.join("packages"));
    fs::create_dir_all(&out).with_context(|| format!("making {}", out.display()))?;
    let prefix = match &args.installed {
        Some(prefix) => prefix.clone(),
        None => installed(&target.join("packages/prefix"), &args.profile)?,
    };
    let package = pack(&Installation::at(&prefix)?, &out)?;
    println!("{}", package.display());
    Ok(())
}

/// A fresh installation in this folder.
fn installed(prefix: &Path, profile: &str) -> Result<PathBuf> {
    if prefix.exists() {
        fs::remove_dir_all(prefix).with_context(|| format!("removing {}", prefix.display()))?;
    }
    install::install(&install::Args {
        prefix: prefix.to_owned(),
        destdir: None,
        profile: profile.to_owned(),
        no_strip: false,
        fault_injection: false,
        built: None,
    })
}
