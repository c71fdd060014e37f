//! `cargo xtask codegen`.

/// Options of `cargo xtask codegen`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: Args) -> anyhow::Result<()> {
    anyhow::bail!("`cargo xtask codegen` is not there yet")
}
