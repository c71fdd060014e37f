//! Folders for the files of a test.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Longest path of a folder, in bytes: the name of a socket in it may have 107 (unix(7)).
const LONGEST: usize = 75;

/// The name of the test binary, with cargo's hash: it names what several binaries may have at once.
/// Their process ids may be the same, in namespaces.
///
/// # Panics
/// When the test's own path is not available.
#[must_use]
pub fn binary_name() -> String {
    let own = std::env::current_exe().expect("the test's own path");
    let name = own.file_name().expect("its name");
    name.to_string_lossy().into_owned()
}

/// The path for a folder of this name: beside the test's program. If that leaves no room for names
/// of sockets, it is among the system's temporary files.
///
/// # Panics
/// When the test's own path is not available.
#[must_use]
pub fn place(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().expect("the test's own path");
    path.set_extension(format!("{}-{name}", std::process::id()));
    if path.as_os_str().len() > LONGEST {
        let last = path.file_name().expect("a name");
        path = std::env::temp_dir().join(last);
    }
    path
}

/// A folder of a test's own; dropping this value removes it.
pub struct Folder(PathBuf);

impl Folder {
    /// A new and empty one, also beside others of this name: tests run at the same time.
    ///
    /// # Panics
    /// When it can't be made.
    #[must_use]
    pub fn new(name: &str) -> Folder {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = place(&format!("{number}-{name}"));
        // A test that was killed may have had the number of this process.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a folder");
        Folder(path)
    }

    /// The path of something in it, for a command line.
    ///
    /// # Panics
    /// When the test's path is not in UTF-8.
    #[must_use]
    pub fn name(&self, of: &str) -> String {
        let path = self.0.join(of).into_os_string();
        path.into_string().expect("a path in UTF-8")
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<std::ffi::OsStr> for Folder {
    fn as_ref(&self) -> &std::ffi::OsStr {
        self.0.as_os_str()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
