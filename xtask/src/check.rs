//! `cargo xtask check`.

/// Options of `cargo xtask check`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: Args) -> anyhow::Result<()> {
    anyhow::bail!("`cargo xtask check` is not there yet")
}
