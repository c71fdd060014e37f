//! What a program or a library says to the dynamic linker.

use object::elf::{DT_NEEDED, DT_RPATH};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache};
use rejoin_managers_host::error::system_text;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

/// The static that lists what a library of this installation exports and does not implement.
const MISSING: &str = "rejoin_missing_functions";

/// A file of the format ELF, for a 64-bit machine.
type Elf<'data> = ElfFile64<'data, Endianness, &'data ReadCache<File>>;

/// The part of a file that matters for the MPI library.
#[derive(Debug, Default)]
pub struct DynamicFile {
    /// Libraries that the file needs, by name.
    pub needed: Vec<String>,
    /// Folders that the dynamic linker searches before `LD_LIBRARY_PATH` (`DT_RPATH`).
    pub rpath: Option<String>,
    /// Names that it takes from other files.
    pub imports: BTreeSet<String>,
    /// Names that it defines for others.
    pub exports: BTreeSet<String>,
    /// Those of its functions that only return an error; libraries of Rejoin say so.
    pub missing: BTreeSet<String>,
}

impl DynamicFile {
    /// Reads the file, in parts.
    ///
    /// # Errors
    /// Why it is no program or library of this kind of machine, as a text.
    pub fn read(path: &Path) -> Result<Self, String> {
        read(path, |elf| {
            let mut found = Self::needs(elf)?;
            found.add_symbols(elf)?;
            Ok(found)
        })
    }

    /// Reads what the file needs, and no symbols.
    ///
    /// # Errors
    /// As [`DynamicFile::read`].
    pub fn read_needs(path: &Path) -> Result<Self, String> {
        read(path, Self::needs)
    }

    fn needs(elf: &Elf<'_>) -> object::read::Result<Self> {
        let mut found = Self::default();
        let table = elf.elf_dynamic_table()?;
        for entry in &table {
            let text = || Ok(String::from_utf8_lossy(table.string(entry)?).into_owned());
            if entry.tag == DT_NEEDED {
                found.needed.push(text()?);
            } else if entry.tag == DT_RPATH {
                found.rpath = Some(text()?);
            }
        }
        Ok(found)
    }

    fn add_symbols(&mut self, elf: &Elf<'_>) -> object::read::Result<()> {
        for symbol in elf.dynamic_symbols() {
            let name = symbol.name()?;
            if name == MISSING && symbol.is_definition() {
                self.missing = listed(elf, symbol.address(), symbol.size())?;
            }
            let names = if symbol.is_undefined() {
                &mut self.imports
            } else {
                &mut self.exports
            };
            names.insert(name.to_owned());
        }
        Ok(())
    }
}

fn read<T>(
    path: &Path,
    part: impl FnOnce(&Elf<'_>) -> object::read::Result<T>,
) -> Result<T, String> {
    let file = File::open(path).map_err(|error| system_text(&error))?;
    let cache = ReadCache::new(file);
    let elf = Elf::parse(&cache)
        .map_err(|_| "it is no program or library for a 64-bit machine".to_owned())?;
    part(&elf).map_err(|error| format!("it is damaged: {error}"))
}

/// The names that lie at an address, each with a NUL at its end.
fn listed(elf: &Elf<'_>, address: u64, size: u64) -> object::read::Result<BTreeSet<String>> {
    for section in elf.sections() {
        if let Some(bytes) = section.data_range(address, size)? {
            let names = bytes
                .split(|byte| *byte == 0)
                .filter(|name| !name.is_empty());
            return Ok(names
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect());
        }
    }
    Ok(BTreeSet::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_what_it_needs() {
        let own = std::env::current_exe().expect("the test has a file");
        let read = DynamicFile::read(&own).expect("it is a program");
        assert!(
            read.needed.iter().any(|name| name == "libc.so.6"),
            "{read:?}"
        );
        assert!(read.imports.iter().any(|name| name == "write"), "{read:?}");
        assert!(read.missing.is_empty());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(DynamicFile::read(&source).is_err());
    }
}
