//! Programs of the tests, compiled once for all test binaries. They are kept by what they are made
//! of, beside the test binaries, so that nothing is left in the system's folders.

use crate::folder::binary_name;
use crate::installation::{prefix, root};
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Programs that this process knows, by their names.
static COMPILED: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// Compiles `tests/programs/NAME.c` (or `.cpp`, `.rs`, `.f90`, `.f`) with the installed wrappers
/// and warnings as errors, unless a test has done so already.
///
/// # Panics
/// When there is no such program, or it does not compile.
pub fn program(name: &str) -> PathBuf {
    // One at a time.
    let mut compiled = COMPILED.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(binary) = compiled.get(name) {
        return binary.clone();
    }
    let folder = root().join("tests/programs");
    let source = ["c", "cpp", "rs", "f90", "f"].map(|kind| folder.join(name).with_extension(kind));
    let source = source.iter().find(|source| source.exists());
    let source = source.expect("the program's source");
    let mut command = compiler(source);
    let texts = [source, &folder.join("check.h")].map(|file| fs::read(file).expect("a source"));
    let headers = ["include/mpi.h", "share/rejoin/fortran/stamp"];
    let headers = headers.map(|file| fs::read(prefix().join(file)).expect("a header"));
    let key = key(&(texts, headers, format!("{command:?}")));
    let binary = own_folder().join("programs").join(key).join(name);
    if !binary.exists() {
        let begun = Instant::now();
        put(&binary, |fresh| {
            let out = command.arg("-o").arg(fresh).output();
            let out = out.expect("starting the compiler");
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{}: {said}", source.display());
        });
        note(begun.elapsed());
    }
    compiled.insert(name.to_owned(), binary.clone());
    binary
}

/// The compiler of a program, without the option for its output.
fn compiler(source: &Path) -> Command {
    let kind = source.extension().and_then(|kind| kind.to_str());
    if kind == Some("rs") {
        let library = prefix().join("lib").display().to_string();
        let mut command = Command::new("rustc");
        command
            .args(["--edition", "2024", "-O", "-g", "-D", "warnings"])
            .arg(format!("-Lnative={library}"))
            .arg(format!("-Clink-arg=-Wl,-rpath,{library}"))
            .arg(source);
        return command;
    }
    if let Some("f90" | "f") = kind {
        let mut command = Command::new(prefix().join("bin/mpifort"));
        command
            .args(["-O2", "-g", "-Werror", "-J"])
            .arg(own_folder())
            .arg(source);
        return command;
    }
    let wrapper = match kind {
        Some("cpp") => "bin/mpicxx",
        _ => "bin/mpicc",
    };
    let text = fs::read_to_string(source).expect("the program's source");
    let openmp = text.contains("#include <omp.h>").then_some("-fopenmp");
    let is_sanitized = text.contains("#include <sanitizer/asan_interface.h>");
    let sanitized = is_sanitized.then_some("-fsanitize=address");
    let mut command = Command::new(prefix().join(wrapper));
    command
        .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(openmp)
        .args(sanitized)
        .arg(source)
        .arg("-lm");
    command
}

/// The folder with the test binaries.
fn own_folder() -> PathBuf {
    let own = std::env::current_exe().expect("the test's own path");
    own.parent().expect("its folder").to_owned()
}

/// A name for what is made of this.
pub(crate) fn key(of: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Makes a file, which is complete when it has its name. Several test binaries may do so at once.
pub(crate) fn put(path: &Path, make: impl FnOnce(&Path)) {
    let own = binary_name();
    let folder = path.parent().expect("its folder");
    fs::create_dir_all(folder).expect("a folder for programs");
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // Tests in namespaces of their own may have the same number.
    let fresh = folder.join(format!("{own}-{}-{number}", std::process::id()));
    make(&fresh);
    fs::rename(&fresh, path).expect("a name");
}

/// Notes a compilation beside the test binary, where `cargo xtask test` looks: seconds in a line.
fn note(took: Duration) {
    let own = std::env::current_exe().expect("the test's own path");
    let path = own.with_extension("compiled");
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    let line = format!("{}\n", took.as_secs_f64());
    let written = file.and_then(|mut f| f.write_all(line.as_bytes()));
    written.expect("a note of a compilation");
}
