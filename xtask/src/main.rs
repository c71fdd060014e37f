//! Developer commands, `cargo xtask NAME`: demo, test, clients, soak, install, wheel, deb, bench,
//! count, check, mutants, codegen.

use clap::{Parser, Subcommand};

mod bench;
mod bounded;
mod check;
mod clients;
mod codegen;
mod count;
mod demo;
mod install;
mod mutants;
mod package;
mod soak;
mod test;
mod workspace;

/// Everything a developer does with Rejoin, one command each.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds Rejoin, compiles a real MPI program and runs it on 4 ranks.
    Demo(demo::Args),
    /// Installs what the tests need and runs all of them.
    Test(test::Args),
    /// Runs programs that Debian has compiled for Open MPI, compares their answers, kills ranks.
    Clients(clients::Args),
    /// Kills ranks by the thousand, with other seeds each time.
    Soak(soak::Args),
    /// Installs the library, the launcher and the compiler wrappers.
    Install(install::Args),
    /// Packs an installation into a Python wheel.
    Wheel(package::Args),
    /// Packs an installation into a Debian package.
    Deb(package::Args),
    /// Measures Rejoin beside other MPIs and raw sockets.
    Bench(bench::Args),
    /// Counts the instructions of short messages.
    Count(count::Args),
    /// Checks the structure: crate dependencies, lengths, unsafe, purity.
    Check(check::Args),
    /// Changes the sans-IO cores, and lists what no test notices.
    Mutants(mutants::Args),
    /// Regenerates the C ABI from its tables.
    Codegen(codegen::Args),
}

fn main() -> std::process::ExitCode {
    let done = match Cli::parse().command {
        Command::Demo(a) => demo::run(a),
        Command::Test(a) => test::run(a),
        Command::Clients(a) => clients::run(a),
        Command::Soak(a) => soak::run(a),
        Command::Install(a) => install::run(a),
        Command::Wheel(a) => package::wheel(&a),
        Command::Deb(a) => package::deb(&a),
        Command::Bench(a) => bench::run(a),
        Command::Count(a) => count::run(a),
        Command::Check(a) => check::run(a),
        Command::Mutants(a) => mutants::run(a),
        Command::Codegen(a) => codegen::run(a),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        // A backtrace, which RUST_BACKTRACE would bring, hides what failed.
        Err(error) => {
            eprintln!("Error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
