//! Names the shared library as the standard has it, and makes it load that of C.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let folder = std::env::var("OUT_DIR").expect("cargo names the folder");
    // Any library of the standard ABI does at run time. Only its name is needed here.
    let named = Path::new(&folder).join("libmpi_abi.so");
    let made = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()))
        .args(["-shared", "-nostdlib", "-Wl,-soname,libmpi_abi.so.1", "-o"])
        .arg(&named)
        .args(["-x", "c", "/dev/null"])
        .status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "the C compiler makes no shared library"
    );
    for argument in [
        "-Wl,-soname,libmpifort_abi.so.1",
        // Both libraries lie in one folder, unless the user says otherwise (LD_LIBRARY_PATH).
        "-Wl,-rpath,$ORIGIN",
        "-Wl,--enable-new-dtags",
        // Entries of user operations outlive a dlclose.
        "-Wl,-z,nodelete",
        // The library's own calls stay its own. Not `-Bsymbolic`: a program's common blocks are
        // those that are meant here.
        "-Wl,-Bsymbolic-functions",
        "-Wl,--no-as-needed",
        &format!("-L{folder}"),
        "-lmpi_abi",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
