//! Names the shared library as MPICH's is named.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        // MPICH's own name; others are links to it.
        "-Wl,-soname,libmpi.so.12",
        "-Wl,-z,now",
        // Entries of user operations outlive a dlclose. Not `-Bsymbolic`: programs of Fortran have
        // common blocks of their own, and those must be the ones that are meant here.
        "-Wl,-z,nodelete",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
