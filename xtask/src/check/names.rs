//! Types and files of one name for different things.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use super::ratchet::Finding;
use super::source::{Source, is_test_only};

/// Names that every crate may use once, at its root: an error type, and its result type.
const PER_CRATE: &[&str] = &["Error", "Result"];

/// Files whose name says their part, not their subject.
const PARTS: &[&str] = &["mod.rs", "lib.rs", "main.rs", "build.rs", "tests.rs"];

/// Folders of programs that only developers run; their types are not part of the product.
const OUTSIDE: &[&str] = &["xtask/", "tests/", "benches/", "fuzz/"];

/// Entry points of the C ABI: each file binds what a file of the same name in `mpi/` does.
const BINDINGS: &str = "c-abi/src/functions/";

/// Types that others can see, of which several have one name; the key is the name.
pub fn types(sources: &[Source]) -> Vec<Finding> {
    let mut list = Vec::new();
    for source in sources.iter().filter(|s| is_product(s)) {
        let mut types = Types {
            path: &source.path,
            list: &mut list,
        };
        types.visit_file(&source.file);
    }
    repeated(list)
}

/// Files of the product of which several have one name; the key is the name.
pub fn files(sources: &[Source]) -> Vec<Finding> {
    let mut list = Vec::new();
    for source in sources.iter().filter(|s| is_product(s)) {
        let name = source.path.rsplit('/').next().unwrap_or_default();
        let at_root = source.path.ends_with(&format!("/src/{name}"));
        let aside = source.path.contains("/src/bin/") || source.path.starts_with(BINDINGS);
        if PARTS.contains(&name) || aside || (name == "error.rs" && at_root) {
            continue;
        }
        let what = "another file has the same name";
        list.push(Finding::new(name, &source.path, 1, what));
    }
    repeated(list)
}

fn is_product(source: &Source) -> bool {
    let outside = OUTSIDE.iter().any(|o| source.path.starts_with(o));
    let beside = source
        .path
        .split('/')
        .any(|p| p == "examples" || p == "benches");
    !outside && !beside && !source.is_test() && !source.is_generated()
}

/// The findings whose key occurs more than once.
fn repeated(list: Vec<Finding>) -> Vec<Finding> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for finding in &list {
        *counts.entry(finding.key.clone()).or_default() += 1;
    }
    let often = |f: &Finding| counts[&f.key] > 1;
    list.into_iter().filter(often).collect()
}

struct Types<'a> {
    path: &'a str,
    list: &'a mut Vec<Finding>,
}

impl Types<'_> {
    fn note(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or_default();
        let at_root = folder.ends_with("/src") && ["lib.rs", "error.rs"].contains(&file);
        let text = name.to_string();
        let private = matches!(visibility, syn::Visibility::Inherited);
        if private || (at_root && PER_CRATE.contains(&text.as_str())) {
            return;
        }
        let line = name.span().start().line;
        let what = format!("another type is called {text}");
        self.list.push(Finding::new(text, self.path, line, what));
    }
}

impl<'ast> Visit<'ast> for Types<'_> {
    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        if !is_test_only(&m.attrs) {
            visit::visit_item_mod(self, m);
        }
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Struct(i) => self.note(&i.vis, &i.ident),
            syn::Item::Enum(i) => self.note(&i.vis, &i.ident),
            syn::Item::Union(i) => self.note(&i.vis, &i.ident),
            syn::Item::Type(i) => self.note(&i.vis, &i.ident),
            syn::Item::Trait(i) => self.note(&i.vis, &i.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(list: &[(&str, &str)]) -> Vec<Source> {
        let parse = |(path, text): &(&str, &str)| Source::new(path, text).expect("it parses");
        list.iter().map(parse).collect()
    }

    #[test]
    fn types_of_one_name_are_found_if_others_see_them() {
        let list = sources(&[
            (
                "a/src/x.rs",
                "pub struct Link; struct Kind; pub enum Error {}",
            ),
            ("a/src/error.rs", "pub enum Error {}"),
            (
                "b/src/lib.rs",
                "pub(crate) enum Link {} pub struct Kind; pub enum Error {}",
            ),
            ("b/src/y.rs", "#[cfg(test)] mod tests { pub struct Kind; }"),
            ("xtask/src/z.rs", "pub struct Kind;"),
        ]);
        let found = types(&list);
        let places: Vec<_> = found
            .iter()
            .map(|f| (f.key.as_str(), f.path.as_str()))
            .collect();
        assert_eq!(places, [("Link", "a/src/x.rs"), ("Link", "b/src/lib.rs")]);
    }

    #[test]
    fn files_of_one_name_are_found_except_parts() {
        let list = sources(&[
            ("a/src/lib.rs", ""),
            ("b/src/lib.rs", ""),
            ("a/src/error.rs", ""),
            ("b/src/error.rs", ""),
            ("b/src/c/error.rs", ""),
            ("a/src/hosts.rs", ""),
            ("b/src/c/hosts.rs", ""),
            ("a/tests/hosts.rs", ""),
            ("b/src/c/mod.rs", ""),
            ("b/src/d/mod.rs", ""),
            ("a/src/bin/hosts.rs", ""),
            ("c-abi/src/functions/hosts.rs", ""),
        ]);
        let found = files(&list);
        let places: Vec<_> = found.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(places, ["a/src/hosts.rs", "b/src/c/hosts.rs"]);
    }
}
