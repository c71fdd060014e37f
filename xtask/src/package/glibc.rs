//! The version of the C library that a program or a library needs.

use anyhow::{Context as _, Result};
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::FileHeader as _;

/// How files of programs and libraries begin.
pub const ELF: &[u8] = b"\x7fELF";

/// The least minor version of glibc 2 that has all symbols which this file names; 0 for a file that
/// names none.
///
/// # Errors
/// A damaged file, or a symbol of no numbered version.
pub fn needed(data: &[u8]) -> Result<u32> {
    if !data.starts_with(ELF) {
        return Ok(0);
    }
    let elf = FileHeader64::<Endianness>::parse(data)?;
    let endian = elf.endian()?;
    let sections = elf.sections(endian, data)?;
    let Some((mut libraries, strings)) = sections.gnu_verneed(endian, data)? else {
        return Ok(0);
    };
    let strings = sections.strings(endian, data, strings)?;
    let mut least = 0;
    while let Some((_, versions)) = libraries.next()? {
        for version in versions {
            let name = version?.name(endian, strings)?;
            least = least.max(minor(std::str::from_utf8(name)?)?);
        }
    }
    Ok(least)
}

/// That of a version's name; 0 for one of another library.
fn minor(name: &str) -> Result<u32> {
    let Some(version) = name.strip_prefix("GLIBC_") else {
        return Ok(0);
    };
    let version = version.strip_prefix("2.").unwrap_or_default();
    let minor = version.split('.').next().unwrap_or_default();
    let minor = minor.parse();
    minor.with_context(|| format!("{name} is of no numbered version of glibc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(minor("GLIBC_2.2.5").ok(), Some(2));
        assert_eq!(minor("GLIBC_2.34").ok(), Some(34));
        assert_eq!(minor("GCC_3.0").ok(), Some(0));
        assert!(minor("GLIBC_PRIVATE").is_err());
        assert!(minor("GLIBC_3.1").is_err());
    }

    #[test]
    fn a_program_of_rust_needs_the_version_that_has_its_oldest_symbols() {
        let own = std::env::current_exe().expect("the test has a file");
        let own = std::fs::read(own).expect("the file");
        let found = needed(&own).expect("versions");
        assert!((17..100).contains(&found), "2.{found}");
        assert_eq!(needed(b"#!/bin/sh\n").ok(), Some(0));
        assert!(needed(&own[..100]).is_err());
    }
}
