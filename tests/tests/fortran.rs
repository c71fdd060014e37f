//! Programs of Fortran: `mpif.h`, the modules `mpi` and `mpi_f08`. Each also passes on MPICH with
//! the same library for Fortran (`tests/clients/foreign.sh`).

use rejoin_tests::folder::Folder;
use rejoin_tests::limits::LIMIT;
use rejoin_tests::torment::{Case, program_survives};
use rejoin_tests::{Run, prefix, program, root};
use std::process::Command;

fn on(name: &str, ranks: &[u32]) {
    let folder = Folder::new(name);
    for &n in ranks {
        let run = Run::new(n, program(name)).arg(folder.join("file"));
        let done = run.limit(LIMIT).ok();
        assert_eq!(
            done.stdout(),
            format!("{name}: right on {n} ranks\n"),
            "{}",
            done.text()
        );
    }
}

#[test]
fn the_include_file() {
    on("fortran_old", &[1, 2, 3]);
}

#[test]
fn the_module_mpi() {
    on("fortran_mpi", &[1, 2, 3, 4]);
}

#[test]
fn the_module_mpi_f08() {
    on("fortran_f08", &[1, 2, 3]);
}

#[test]
fn files_and_neighbours() {
    on("fortran_io", &[1, 2, 3]);
}

#[test]
fn sections_of_arrays_survive_kills() {
    let case = Case {
        name: "fortran_plate",
        args: &["240", "3000"],
        mode: &[],
        ordered: true,
        files: false,
        with_images: false,
        shows: None,
        least: 8,
    };
    program_survives(&case, 1..3);
}

#[test]
fn another_flag_than_the_library_has_is_refused() {
    let refused = Command::new(prefix().join("bin/mpifort"))
        .args(["-fdefault-integer-8", "-c"])
        .arg(root().join("tests/programs/fortran_plate.f90"))
        .output()
        .expect("mpifort starts");
    let says = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && says.contains("four bytes"),
        "{says}"
    );
}

#[test]
fn a_function_that_is_not_there_is_an_error_of_the_compiler() {
    let folder = Folder::new("fortran-missing");
    let source = folder.join("missing.f90");
    let text = "program p\nuse mpi_f08\ncall MPI_No_such_function(1)\nend program\n";
    std::fs::write(&source, text).expect("a source");
    let refused = Command::new(prefix().join("bin/mpifort"))
        .arg(&source)
        .arg("-o")
        .arg(folder.join("missing"))
        .output()
        .expect("mpifort starts");
    let says = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && says.contains("mpi_no_such_function"),
        "{says}"
    );
}
