//! `mpirun` (and `mpiexec`): runs MPI programs.

fn main() {
    std::process::exit(rejoin_managers::cli::mpirun::main());
}
