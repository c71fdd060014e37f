//! What the dynamic linker finds for a program, with the libraries of its libraries.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The dynamic linker, which lists what a program would load and runs none of it.
const LINKER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The names of the libraries that a program loads when it starts, and their files; `None`: it is
/// not found. `search` is its `LD_LIBRARY_PATH`. No program of this machine's kind loads none.
#[must_use]
pub fn loaded_libraries(program: &Path, search: &OsStr) -> BTreeMap<String, Option<PathBuf>> {
    let mut command = Command::new(LINKER);
    command.arg("--list").arg(program);
    // What is preloaded for this process would run in the linker's.
    command.env_remove("LD_PRELOAD");
    command.env("LD_LIBRARY_PATH", search).stdin(Stdio::null());
    let output = command.output().map(|done| done.stdout);
    let text = output.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(listed_library).collect()
}

/// A line of the dynamic linker's list: `name => file (address)`, or `name => not found`.
fn listed_library(line: &str) -> Option<(String, Option<PathBuf>)> {
    let (name, file) = line.trim().split_once(" => ")?;
    let file = file.rsplit_once(" (").map(|(file, _)| PathBuf::from(file));
    Some((name.to_owned(), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_loads_the_library_of_c_and_a_text_loads_none() {
        let own = std::env::current_exe().expect("the test has a file");
        let loaded = loaded_libraries(&own, OsStr::new(""));
        let file = loaded.get("libc.so.6").expect("the library of C").as_ref();
        assert!(file.is_some_and(|file| file.exists()), "{loaded:?}");
        assert!(loaded_libraries(Path::new("/etc/passwd"), OsStr::new("")).is_empty());
    }

    #[test]
    fn lines_of_the_linker_are_understood() {
        let found = listed_library("\tlibm.so.6 => /lib/libm.so.6 (0x00007f)").expect("a library");
        assert_eq!(found, ("libm.so.6".into(), Some("/lib/libm.so.6".into())));
        let found = listed_library("\tlibmpi.so.40 => not found").expect("a library");
        assert_eq!(found, ("libmpi.so.40".into(), None));
        assert_eq!(listed_library("\tlinux-vdso.so.1 (0x00007f)"), None);
    }
}
