//! `rejoin`: looks after jobs and machines.

fn main() {
    std::process::exit(rejoin_managers::cli::rejoin_command::main());
}
