//! Names the shared library as the standard ABI wants it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        // The name that programs compiled against any implementation of the ABI ask for.
        "-Wl,-soname,libmpi_abi.so.1",
        // Resolve everything at load time: no surprise in the middle of a run.
        "-Wl,-z,now",
        // Sockets and exit handlers outlive a dlclose.
        "-Wl,-z,nodelete",
        // A tool that defines MPI_X itself must not capture the library's own references.
        "-Wl,-Bsymbolic",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
