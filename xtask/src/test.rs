//! `cargo xtask test`.

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: Args) -> anyhow::Result<()> {
    anyhow::bail!("`cargo xtask test` is not there yet")
}
