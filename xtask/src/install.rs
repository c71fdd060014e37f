//! `cargo xtask install`.

/// Options of `cargo xtask install`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: Args) -> anyhow::Result<()> {
    anyhow::bail!("`cargo xtask install` is not there yet")
}
