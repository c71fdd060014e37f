//! The files of an installation, as packages hold them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use walkdir::WalkDir;

use super::glibc;

/// The version of all packages.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What a package is, in a line.
pub const SUMMARY: &str = "MPI library whose ranks come back after kill -9";
/// What a package is, in some lines.
pub const DESCRIPTION: &str = "\
Rejoin has the standard ABI of MPI 5.0, and runs unmodified MPI programs, also those that were
compiled against MPICH, Intel MPI or Open MPI. When a rank dies or a link breaks, the rank comes
back, and the program finishes with the answer that it would have given.
";
/// Modules that `mpifort` compiles where it runs.
pub const COMPILED: &str = "lib/rejoin/fortran";

/// The files to pack.
pub struct Installation {
    /// The folder that they lie in.
    pub prefix: PathBuf,
    /// In the order of their paths.
    pub entries: Vec<Entry>,
    /// They run on this minor version of glibc 2 and later ones.
    pub glibc: u32,
}

/// A file of an installation.
pub struct Entry {
    /// Below the prefix.
    pub path: PathBuf,
    /// Of a symbolic link: the name of the file, in the same folder, that it leads to.
    pub target: Option<String>,
    /// Whether it may be run.
    pub executable: bool,
}

impl Installation {
    /// What is in this folder, which holds nothing else.
    ///
    /// # Errors
    /// No installation, a file that can't be read, or a link out of its folder.
    pub fn at(prefix: &Path) -> Result<Self> {
        let prefix = prefix.canonicalize();
        let prefix = prefix.context("there is no such installation")?;
        let mut found = Self {
            prefix: prefix.clone(),
            entries: Vec::new(),
            // Rust's own least version.
            glibc: 17,
        };
        for file in WalkDir::new(&prefix).sort_by_file_name() {
            let file = file?;
            let path = file.path().strip_prefix(&prefix)?;
            if file.file_type().is_dir() || path.starts_with(COMPILED) {
                continue;
            }
            let target = match file.path_is_symlink() {
                true => Some(neighbour(file.path())?),
                false => None,
            };
            if target.is_none() {
                let needed = glibc::needed(&fs::read(file.path())?);
                let needed = needed.with_context(|| format!("reading {}", path.display()))?;
                found.glibc = found.glibc.max(needed);
            }
            found.entries.push(Entry {
                path: path.to_owned(),
                target,
                executable: fs::metadata(file.path())?.permissions().mode() & 0o100 != 0,
            });
        }
        let library = Path::new("lib/libmpi_abi.so.1");
        let is_there = found.entries.iter().any(|entry| entry.path == library);
        ensure!(
            is_there,
            "{} has no {}",
            prefix.display(),
            library.display()
        );
        Ok(found)
    }

    /// The contents of a file.
    pub fn read(&self, entry: &Entry) -> Result<Vec<u8>> {
        let path = self.prefix.join(&entry.path);
        fs::read(&path).with_context(|| format!("reading {}", path.display()))
    }
}

/// The name of the file that a link leads to.
fn neighbour(link: &Path) -> Result<String> {
    let target = fs::read_link(link)?;
    let is_neighbour = target.file_name() == Some(target.as_os_str());
    let name = target.to_str().filter(|_| is_neighbour);
    let name = name.with_context(|| format!("{} leads out of its folder", link.display()))?;
    Ok(name.to_owned())
}

/// The name of a file, which is one of ours.
pub fn name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}
