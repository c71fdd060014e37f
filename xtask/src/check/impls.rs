//! Types whose methods are spread over many files.
//!
//! Blocks of inherent methods of one type can call each other, and no import shows it. So a type
//! whose methods are in many files is many modules with one state. Implementations of traits do not
//! count, nor do blocks for tests. Blocks that macros write are not seen.

use std::collections::BTreeMap;

use super::crate_types::{CrateTypes, ImplBlock};
use super::ratchet::Finding;

/// Files that may have inherent `impl` blocks of one type.
const MAX_FILES: usize = 3;

/// The files with blocks of a type that has them in more than [`MAX_FILES`]; the key is the file
/// that defines the type, and the type's name.
pub fn check(crates: &[CrateTypes<'_>]) -> Vec<Finding> {
    crates.iter().flat_map(spread_types).collect()
}

fn spread_types(types: &CrateTypes<'_>) -> Vec<Finding> {
    let path = |file: usize| types.of.sources[file].path.as_str();
    let mut list = Vec::new();
    for ((module, name), ty) in &types.types {
        let files = first_blocks(types, &ty.blocks);
        if files.len() <= MAX_FILES {
            continue;
        }
        let key = format!("{} {name}", path(types.of.modules[*module].file));
        let what = format!(
            "`impl {name}` is in {} files, {MAX_FILES} are allowed",
            files.len()
        );
        let finding = |block: &ImplBlock| Finding::new(&key, path(block.file), block.line, &what);
        list.extend(files.values().map(finding));
    }
    list
}

/// The first block in each file that is not for tests.
fn first_blocks(types: &CrateTypes<'_>, blocks: &[ImplBlock]) -> BTreeMap<usize, ImplBlock> {
    let mut files = BTreeMap::new();
    for block in blocks {
        if !types.of.sources[block.file].is_test() {
            files.entry(block.file).or_insert(*block);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::super::modules::crates;
    use super::super::source::Source;
    use super::*;

    /// Keys and numbers of the findings in a crate of these files.
    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let parse = |(path, text): &(&str, &str)| {
            Source::new(&format!("a/src/{path}"), text).expect("the sample parses")
        };
        let sources: Vec<_> = files.iter().map(parse).collect();
        let crates = crates(&sources);
        let types: Vec<_> = crates.iter().map(CrateTypes::new).collect();
        let mut counts = BTreeMap::new();
        for finding in check(&types) {
            *counts.entry(finding.key).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    const ROOT: (&str, &str) = (
        "lib.rs",
        "mod b; mod c; mod d; mod e; pub use b::Job as Work;",
    );
    const BLOCK: &str = "use crate::b::Job; impl Job { fn f() {} } impl Job { fn g() {} }";

    fn with(last: &str) -> Vec<(String, usize)> {
        let first = "pub struct Job; impl Job {}";
        let files = [
            ROOT,
            ("b.rs", first),
            ("c.rs", BLOCK),
            ("d.rs", BLOCK),
            ("e.rs", last),
        ];
        found(&files)
    }

    #[test]
    fn a_type_with_methods_in_more_than_three_files_is_found() {
        let expected = [("a/src/b.rs Job".to_owned(), 4)];
        assert_eq!(with(BLOCK), expected);
        for last in [
            "impl super::Work { fn h() {} }",
            "use super::*; impl Work {}",
            "type Alias = super::b::Job; impl Alias {}",
        ] {
            assert_eq!(with(last), expected, "{last}");
        }
        assert_eq!(with(""), []);
    }

    #[test]
    fn traits_tests_and_other_types_of_the_name_do_not_count() {
        for last in [
            "impl Clone for super::b::Job {}",
            "#[cfg(test)] impl super::b::Job {}",
            "#[cfg(test)] mod tests { impl crate::b::Job {} }",
            "struct Job; impl Job {}",
            "fn f<Job>() {} impl<Job> Tr for Job {}",
        ] {
            assert_eq!(with(last), [], "{last}");
        }
    }

    #[test]
    fn files_of_tests_do_not_count() {
        let with = |name: &str| {
            let root = format!("mod b; mod c; mod d; mod {name};");
            let last = format!("{name}.rs");
            let first = "pub struct Job; impl Job {}";
            let files = [("lib.rs", root.as_str()), ("b.rs", first)];
            let blocks = [("c.rs", BLOCK), ("d.rs", BLOCK), (&last, BLOCK)];
            found(&[&files[..], &blocks[..]].concat()).len()
        };
        assert_eq!((with("e"), with("tests")), (1, 0));
    }
}
