//! Links the restarter without a C library, at the addresses that images leave out.

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/restarter.ld");
    println!("cargo::rerun-if-changed={script}");
    for argument in ["-nostartfiles", "-nostdlib", "-static", "-no-pie"] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    for option in [format!("-T,{script}"), "--build-id=none".to_string()] {
        println!("cargo::rustc-link-arg-bins=-Wl,{option}");
    }
}
