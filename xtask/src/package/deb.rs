//! A Debian package: the installation in a folder of its own, as Open MPI's, and `mpirun` and the
//! compiler wrappers as alternatives to those of other MPIs.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::installation::{COMPILED, DESCRIPTION, Entry, Installation, SUMMARY, VERSION, name};
use super::linked_crates;

/// The installation's folder.
const PREFIX: &str = "usr/lib/x86_64-linux-gnu/rejoin";

/// Folders below the prefix whose files users look for elsewhere.
const SHOWN: [(&str, &str); 5] = [
    ("bin", "usr/bin"),
    (PAGES, "usr/share/man/man1"),
    (
        "share/bash-completion/completions",
        "usr/share/bash-completion/completions",
    ),
    (
        "share/zsh/site-functions",
        "usr/share/zsh/vendor-completions",
    ),
    (
        "share/fish/vendor_completions.d",
        "usr/share/fish/vendor_completions.d",
    ),
];
const PAGES: &str = "share/man/man1";

/// Less than those of MPICH (40) and Open MPI (50): who installs it changes no default.
const PRIORITY: u32 = 30;

/// Packs an installation into a Debian package in the folder `out`; gives its path. The same
/// installation gives the same bytes.
pub fn pack(installation: &Installation, out: &Path) -> Result<PathBuf> {
    let stage = Stage::new(out.join("deb"))?;
    let mut alternatives = Vec::new();
    for entry in &installation.entries {
        alternatives.extend(stage.place(installation, entry)?);
    }
    let root = crate::workspace::root();
    let documents = Path::new("usr/share/doc/rejoin");
    let changes = fs::read(root.join("CHANGELOG.md"))?;
    stage.compressed(&documents.join("changelog.gz"), &changes)?;
    let copyright = copyright(&fs::read_to_string(root.join("LICENSE-MIT"))?);
    stage.write(&documents.join("copyright"), copyright.as_bytes(), 0o644)?;
    let of_crates = linked_crates::licenses()?;
    stage.compressed(
        &documents.join("licenses-of-crates.gz"),
        of_crates.as_bytes(),
    )?;
    stage.describe(installation, &alternatives)?;
    let path = out.join(format!("rejoin_{VERSION}_amd64.deb"));
    let status = Command::new("dpkg-deb")
        .args(["--root-owner-group", "-Zxz", "--build"])
        .args([&stage.folder, &path])
        .env("SOURCE_DATE_EPOCH", time(&root))
        .stdout(std::process::Stdio::null())
        .status()
        .context("starting dpkg-deb, which Debian's package dpkg has")?;
    ensure!(status.success(), "dpkg-deb made no package");
    fs::remove_dir_all(&stage.folder)?;
    Ok(path)
}

/// A file that other packages have, too: administrators choose one.
struct Alternative {
    /// The program that it belongs to.
    program: String,
    /// Where users look.
    link: PathBuf,
    /// Ours.
    path: PathBuf,
}

/// The root of the files of a package.
struct Stage {
    folder: PathBuf,
}

impl Stage {
    fn new(folder: PathBuf) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// Puts a file of the installation where Debian wants it.
    fn place(&self, installation: &Installation, entry: &Entry) -> Result<Option<Alternative>> {
        let inside = Path::new(PREFIX).join(&entry.path);
        let is_page = entry.path.starts_with(PAGES);
        if !is_page {
            self.copy(installation, entry, &inside)?;
        }
        let Some(shown) = shown(&entry.path) else {
            return Ok(None);
        };
        let program = program(name(&entry.path));
        let is_own = program.starts_with("rejoin");
        let path = match is_own {
            true => shown.clone(),
            false => marked(&shown),
        };
        if is_page {
            self.page(&installation.read(entry)?, &path)?;
        } else if is_own || entry.path.starts_with("bin") {
            self.link(&path, &inside)?;
        }
        let is_completion = !is_page && !entry.path.starts_with("bin");
        Ok((!is_own).then(|| Alternative {
            program: program.to_owned(),
            link: shown,
            path: if is_completion { inside } else { path },
        }))
    }

    fn copy(&self, installation: &Installation, entry: &Entry, to: &Path) -> Result<()> {
        if let Some(target) = &entry.target {
            return Ok(symlink(target, self.at(to)?)?);
        }
        let mode = if entry.executable { 0o755 } else { 0o644 };
        self.write(to, &installation.read(entry)?, mode)
    }

    /// A page; one that names another becomes a link.
    fn page(&self, text: &[u8], to: &Path) -> Result<()> {
        let text = std::str::from_utf8(text)?;
        let Some(other) = text.strip_prefix(".so man1/") else {
            return self.compressed(to, text.as_bytes());
        };
        let other = marked(&to.with_file_name(format!("{}.gz", other.trim())));
        Ok(symlink(name(&other), self.at(to)?)?)
    }

    /// A link in `usr` to a file in `usr`, which may be in another root.
    fn link(&self, at: &Path, to: &Path) -> Result<()> {
        let up = "../".repeat(at.components().count() - 2);
        let down = to.strip_prefix("usr")?;
        Ok(symlink(format!("{up}{}", down.display()), self.at(at)?)?)
    }

    fn compressed(&self, to: &Path, content: &[u8]) -> Result<()> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content)?;
        self.write(to, &encoder.finish()?, 0o644)
    }

    fn write(&self, to: &Path, content: &[u8], mode: u32) -> Result<()> {
        let at = self.at(to)?;
        fs::write(&at, content).with_context(|| format!("writing {}", at.display()))?;
        Ok(fs::set_permissions(&at, Permissions::from_mode(mode))?)
    }

    /// The place of a file, in a folder that all may read.
    fn at(&self, path: &Path) -> Result<PathBuf> {
        let mut folder = self.folder.clone();
        for part in path.parent().into_iter().flat_map(Path::components) {
            folder.push(part);
            if !folder.exists() {
                fs::create_dir(&folder)?;
                fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
            }
        }
        Ok(self.folder.join(path))
    }

    /// What dpkg reads: the description, the hashes, and the scripts.
    fn describe(&self, installation: &Installation, alternatives: &[Alternative]) -> Result<()> {
        let files = self.files()?;
        let size: u64 = files
            .iter()
            .filter_map(|file| fs::metadata(self.folder.join(file)).ok())
            .map(|about| about.len().div_ceil(1024))
            .sum();
        let hashes = Command::new("md5sum")
            .current_dir(&self.folder)
            .args(&files)
            .output()
            .context("starting md5sum")?;
        ensure!(hashes.status.success(), "md5sum failed");
        let control = control(size, installation.glibc);
        let [configured, removed] = scripts(alternatives);
        for (file, content, mode) in [
            ("control", control.as_bytes(), 0o644),
            ("md5sums", &hashes.stdout, 0o644),
            ("postinst", configured.as_bytes(), 0o755),
            ("prerm", removed.as_bytes(), 0o755),
        ] {
            self.write(&Path::new("DEBIAN").join(file), content, mode)?;
        }
        Ok(())
    }

    /// Regular files, in the order of their paths.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for file in walkdir::WalkDir::new(&self.folder).sort_by_file_name() {
            let file = file?;
            if file.file_type().is_file() {
                files.push(file.path().strip_prefix(&self.folder)?.to_owned());
            }
        }
        Ok(files)
    }
}

/// Where users look for a file of the installation.
fn shown(path: &Path) -> Option<PathBuf> {
    let (folder, place) = SHOWN.iter().find(|(folder, _)| path.starts_with(folder))?;
    let ending = if *folder == PAGES { ".gz" } else { "" };
    Some(Path::new(place).join(format!("{}{ending}", name(path))))
}

/// The program that a file belongs to: itself, its page or its completions.
fn program(name: &str) -> &str {
    let name = name.strip_prefix('_').unwrap_or(name);
    name.split('.').next().unwrap_or(name)
}

/// The same path with Rejoin's mark, which Debian's MPIs have, too: `mpirun.rejoin`.
fn marked(path: &Path) -> PathBuf {
    let name = name(path);
    let (program, ending) = name.split_at(program(name).len());
    path.with_file_name(format!("{program}.rejoin{ending}"))
}

fn control(size: u64, glibc: u32) -> String {
    let description = DESCRIPTION.replace('\n', "\n ");
    format!(
        "Package: rejoin\nVersion: {VERSION}\nArchitecture: amd64\n\
         Maintainer: The developers of Rejoin <rejoin@example.invalid>\n\
         Installed-Size: {size}\nDepends: libc6 (>= 2.{glibc}), libgcc-s1\n\
         Recommends: gcc | c-compiler, libc6-dev | libc-dev\n\
         Suggests: g++ | c++-compiler, gfortran | fortran-compiler, openssh-client | ssh-client\n\
         Section: devel\nPriority: optional\nDescription: {SUMMARY}\n {}\n",
        description.trim_end()
    )
}

fn copyright(mit: &str) -> String {
    format!(
        "Rejoin is licensed under the Apache License 2.0 or the MIT licence, at your choice.\n\
         The first one is in /usr/share/common-licenses/Apache-2.0. The second one:\n\n{mit}\n\
         It contains crates of others: licenses-of-crates.gz beside this file has their licences.\n"
    )
}

/// The scripts that dpkg runs after it has unpacked the package, and before it removes the package.
/// Groups of alternatives have the names that Debian's MPIs use.
fn scripts(alternatives: &[Alternative]) -> [String; 2] {
    let mut configured = "#!/bin/sh\nset -e\n[ \"$1\" = configure ] || exit 0\n".to_owned();
    let mut removed = format!(
        "#!/bin/sh\nset -e\n# Modules that mpifort has compiled.\n\
         rm -rf \"${{DPKG_ROOT:-}}/{PREFIX}/{}\"\n\
         [ \"$1\" = remove ] || [ \"$1\" = deconfigure ] || exit 0\n",
        COMPILED
    );
    for (group, master, runs) in [("mpirun", "mpirun", true), ("mpi", "mpicc", false)] {
        let is_master = |one: &&Alternative| name(&one.link) == master;
        let is_slave = |one: &&Alternative| {
            let starts = ["mpirun", "mpiexec"].contains(&one.program.as_str());
            starts == runs && !is_master(one)
        };
        for one in alternatives.iter().filter(is_master) {
            let (link, path) = (one.link.display(), one.path.display());
            configured +=
                &format!("update-alternatives --install /{link} {group} /{path} {PRIORITY}");
            removed += &format!("update-alternatives --remove {group} /{path}\n");
        }
        for one in alternatives.iter().filter(is_slave) {
            let (link, path) = (one.link.display(), one.path.display());
            configured += &format!(" \\\n    --slave /{link} {} /{path}", name(&one.link));
        }
        configured += "\n";
    }
    [configured, removed]
}

/// The time of the files in the package: that of the variable, of the last commit, or a fixed one.
fn time(root: &Path) -> String {
    if let Ok(time) = std::env::var("SOURCE_DATE_EPOCH") {
        return time;
    }
    let commit = Command::new("git")
        .current_dir(root)
        .args(["log", "-1", "--format=%ct"])
        .output();
    let time = commit.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    match time {
        Ok(time) if !time.is_empty() => time,
        _ => "1700000000".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_where_users_of_debian_look() {
        let of = |path: &str| shown(Path::new(path)).map(|path| marked(&path));
        let is = |path: &str| Some(PathBuf::from(path));
        assert_eq!(of("bin/mpic++"), is("usr/bin/mpic++.rejoin"));
        let page = is("usr/share/man/man1/mpirun.rejoin.1.gz");
        assert_eq!(of("share/man/man1/mpirun.1"), page);
        assert_eq!(of("lib/libmpi_abi.so.1"), None);
        for file in ["mpirun", "mpirun.1.gz", "_mpirun", "mpirun.fish"] {
            assert_eq!(program(file), "mpirun");
        }
    }

    #[test]
    fn alternatives_join_the_groups_of_other_mpis() {
        let alternatives = ["bin/mpicc", "bin/mpifort", "bin/mpirun", "bin/mpiexec"].map(|path| {
            let link = shown(Path::new(path)).expect("a place");
            Alternative {
                program: program(name(&link)).to_owned(),
                path: marked(&link),
                link,
            }
        });
        let [configured, removed] = scripts(&alternatives);
        let mpirun = "--install /usr/bin/mpirun mpirun /usr/bin/mpirun.rejoin 30 \\\n    \
                      --slave /usr/bin/mpiexec mpiexec /usr/bin/mpiexec.rejoin\n";
        let mpicc = "--install /usr/bin/mpicc mpi /usr/bin/mpicc.rejoin 30 \\\n    \
                     --slave /usr/bin/mpifort mpifort /usr/bin/mpifort.rejoin\n";
        assert!(
            configured.contains(mpirun) && configured.contains(mpicc),
            "{configured}"
        );
        assert!(
            removed.contains("--remove mpi /usr/bin/mpicc.rejoin\n"),
            "{removed}"
        );
    }
}
