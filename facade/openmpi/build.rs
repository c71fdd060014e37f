//! Names the shared library as Open MPI's is named.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        // The name that programs compiled against Open MPI ask for.
        "-Wl,-soname,libmpi.so.40",
        "-Wl,-z,now",
        // Entries of user operations outlive a dlclose. Not `-Bsymbolic`: a program has copies of
        // the predefined objects that it names, and those must be the ones that are meant here.
        "-Wl,-z,nodelete",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
