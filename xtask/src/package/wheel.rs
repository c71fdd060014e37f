//! A wheel that is laid out as MPICH's on PyPI: `pip install` puts the installation into the prefix
//! of Python, where mpi4py looks for MPI.

use std::fs::{self, File};
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::glibc::ELF;
use super::installation::{DESCRIPTION, Installation, SUMMARY, VERSION, name};
use super::linked_crates;

/// mpi4py on PyPI is made for the libraries of MPICH and Open MPI, and looks for them in `lib`.
const FOR_MPI4PY: [&str; 2] = ["lib/rejoin/mpich/libmpi.so.12", "lib/libmpi.so.12"];

const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
/// Those of crates.
const OF_CRATES: &str = "LICENSES-OF-CRATES";

/// Packs an installation into a wheel in the folder `out`; gives its path. The same installation
/// gives the same bytes.
pub fn pack(installation: &Installation, out: &Path) -> Result<PathBuf> {
    let tag = format!("py3-none-manylinux_2_{}_x86_64", installation.glibc);
    let mut wheel = Wheel::new();
    for entry in &installation.entries {
        let content = match &entry.target {
            Some(target) => stand_in(&installation.prefix.join(&entry.path), target)?,
            None => installation.read(entry)?,
        };
        let shown = entry.path.display();
        wheel.add(&format!("data/data/{shown}"), &content, entry.executable)?;
        if entry.path == Path::new(FOR_MPI4PY[0]) {
            wheel.add(&format!("data/data/{}", FOR_MPI4PY[1]), &content, true)?;
        }
    }
    let root = crate::workspace::root();
    for license in LICENSES {
        let text = fs::read(root.join(license))?;
        wheel.add(&format!("dist-info/licenses/{license}"), &text, false)?;
    }
    let path = format!("dist-info/licenses/{OF_CRATES}");
    wheel.add(&path, linked_crates::licenses()?.as_bytes(), false)?;
    wheel.add("dist-info/METADATA", metadata().as_bytes(), false)?;
    let about = format!(
        "Wheel-Version: 1.0\nGenerator: rejoin ({VERSION})\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    wheel.add("dist-info/WHEEL", about.as_bytes(), false)?;
    let path = out.join(format!("rejoin-{VERSION}-{tag}.whl"));
    let mut file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
    file.write_all(&wheel.finish()?)?;
    Ok(path)
}

fn metadata() -> String {
    let [apache, mit] = LICENSES;
    format!(
        "Metadata-Version: 2.4\nName: rejoin\nVersion: {VERSION}\nSummary: {SUMMARY}\n\
         License-Expression: Apache-2.0 OR MIT\nLicense-File: {apache}\nLicense-File: {mit}\n\
         License-File: {OF_CRATES}\n\
         Classifier: Operating System :: POSIX :: Linux\n\
         Classifier: Topic :: System :: Distributed Computing\n\
         Description-Content-Type: text/markdown\n\n{DESCRIPTION}"
    )
}

/// A wheel in the making.
struct Wheel {
    archive: ZipWriter<Cursor<Vec<u8>>>,
    /// The list of files.
    record: String,
}

impl Wheel {
    fn new() -> Self {
        Self {
            archive: ZipWriter::new(Cursor::default()),
            record: String::new(),
        }
    }

    /// Adds a file. `path`: of the folders that begin with the wheel's name.
    fn add(&mut self, path: &str, content: &[u8], executable: bool) -> Result<()> {
        let path = format!("rejoin-{VERSION}.{path}");
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(9))
            .last_modified_time(DateTime::DEFAULT)
            .unix_permissions(if executable { 0o755 } else { 0o644 });
        self.archive.start_file(&path, options)?;
        self.archive.write_all(content)?;
        let hash = BASE64URL_NOPAD.encode(&Sha256::digest(content));
        self.record += &format!("{path},sha256={hash},{}\n", content.len());
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        let path = "dist-info/RECORD";
        let record = format!("{}rejoin-{VERSION}.{path},,\n", self.record);
        self.add(path, record.as_bytes(), false)?;
        Ok(self.archive.finish()?.into_inner())
    }
}

/// What stands where an installation has a link to `target`, since wheels have no links.
fn stand_in(at: &Path, target: &str) -> Result<Vec<u8>> {
    let file = at.with_file_name(target);
    let content = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    if at.extension().is_some_and(|ending| ending == "so") {
        // For linkers. Loaders go on to the next name, as mpi4py does.
        return Ok(format!("INPUT({target})\n").into_bytes());
    }
    if !content.starts_with(ELF) {
        return Ok(content);
    }
    if target.contains(".so.") {
        return stub(&file, name(at));
    }
    let script =
        format!("#!/bin/sh\nexec \"$(dirname -- \"$(readlink -f -- \"$0\")\")/{target}\" \"$@\"\n");
    Ok(script.into_bytes())
}

/// A library of this name that has nothing but the need of the library in `file`, which lies beside
/// it: a copy would be a second library.
fn stub(file: &Path, soname: &str) -> Result<Vec<u8>> {
    let made = std::env::temp_dir().join(format!("rejoin-{}-{soname}", std::process::id()));
    let status = Command::new("cc")
        .args(["-shared", "-nostdlib", "-Wl,--no-as-needed"])
        .args(["-Wl,-z,noseparate-code", "-Wl,--build-id=none"])
        .args(["-Wl,-rpath,$ORIGIN", &format!("-Wl,-soname,{soname}")])
        .arg("-o")
        .args([&made, file])
        .status()
        .context("starting cc")?;
    ensure!(status.success(), "cc does not link {soname}");
    let content = fs::read(&made)?;
    fs::remove_file(&made)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn the_record_names_each_file_with_its_hash_and_itself_without() {
        let made = || {
            let mut wheel = Wheel::new();
            wheel.add("data/data/bin/a", b"abc", true).expect("a file");
            wheel.finish().expect("a wheel")
        };
        assert_eq!(made(), made());
        let mut archive = zip::ZipArchive::new(Cursor::new(made())).expect("an archive");
        let path = format!("rejoin-{VERSION}.data/data/bin/a");
        let mode = archive.by_name(&path).expect("the file").unix_mode();
        assert_eq!(mode.map(|mode| mode & 0o777), Some(0o755));
        let own = format!("rejoin-{VERSION}.dist-info/RECORD");
        let mut record = String::new();
        let mut file = archive.by_name(&own).expect("the record");
        file.read_to_string(&mut record).expect("text");
        let hash = "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0";
        assert_eq!(record, format!("{path},sha256={hash},3\n{own},,\n"));
    }

    #[test]
    fn a_link_becomes_what_its_readers_understand() {
        let folder = std::env::temp_dir().join(format!("rejoin-wheel-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("script"), "text").expect("a file");
        fs::write(folder.join("lib.so.1"), ELF).expect("a file");
        fs::write(folder.join("program"), ELF).expect("a file");
        let made = |link: &str, target: &str| {
            let made = stand_in(&folder.join(link), target).expect("a file");
            String::from_utf8(made).expect("text")
        };
        assert_eq!(made("other", "script"), "text");
        assert_eq!(made("lib.so", "lib.so.1"), "INPUT(lib.so.1)\n");
        assert!(made("other", "program").contains("/program\" \"$@\""));
        fs::remove_dir_all(&folder).expect("the folder goes");
    }
}
