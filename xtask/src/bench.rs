//! `cargo xtask bench`.

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: Args) -> anyhow::Result<()> {
    anyhow::bail!("`cargo xtask bench` is not there yet")
}
