//! `cargo xtask demo`.

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: Args) -> anyhow::Result<()> {
    anyhow::bail!("`cargo xtask demo` is not there yet")
}
