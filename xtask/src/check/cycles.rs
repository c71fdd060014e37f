//! Import cycles between the modules of a crate.
//!
//! A module is a file here; a re-export leads to the file that defines the item. A parent that only
//! re-exports an item does not depend on the child. Methods have no path: `call_circles` sees calls
//! of them.

use super::file_graph::FileGraph;
use super::modules::Crate;
use super::ratchet::Finding;

/// The modules of each crate that are in a cycle; the key is the crate's folder.
pub fn check(crates: &[Crate<'_>]) -> Vec<Finding> {
    crates.iter().flat_map(cycles).collect()
}

fn cycles(of: &Crate<'_>) -> Vec<Finding> {
    let graph = imports(of);
    let mut edges = graph.circle_edges();
    edges.dedup_by_key(|edge| edge.from);
    let finding = |edge: &super::file_graph::CircleEdge<'_>| {
        let other = &of.sources[edge.to].path;
        let what = format!("`{}` is in {other}, which leads back here", edge.what);
        Finding::new(of.folder, &of.sources[edge.from].path, edge.line, what)
    };
    edges.iter().map(finding).collect()
}

/// Each file with the files whose items it names.
fn imports(of: &Crate<'_>) -> FileGraph {
    let mut graph = FileGraph::default();
    for (at, module) in of.modules.iter().enumerate() {
        for (path, line) in &module.references {
            if let Some((to, _)) = of.item(at, path) {
                graph.add(module.file, of.modules[to].file, *line, path.join("::"));
            }
        }
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::super::modules::crates;
    use super::super::source::Source;
    use super::*;

    fn in_cycles(files: &[(&str, &str)]) -> Vec<String> {
        let parse = |(path, text): &(&str, &str)| {
            Source::new(&format!("a/src/{path}"), text).expect("the sample parses")
        };
        let sources: Vec<_> = files.iter().map(parse).collect();
        let name = |f: Finding| f.path.trim_start_matches("a/src/").to_owned();
        check(&crates(&sources)).into_iter().map(name).collect()
    }

    #[test]
    fn cycles_are_found_through_every_kind_of_path() {
        for (one, other) in [
            ("use crate::b::B; struct A;", "use super::a::A; struct B;"),
            (
                "struct A; fn f() { crate::b::g(); }",
                "use crate::a::A; fn g() {}",
            ),
            (
                "struct A; fn f() { use super::b; }",
                "fn f(_: crate::a::A) {}",
            ),
            (
                "struct A; use super::b::*; fn f() { g() }",
                "pub fn g() { crate::a::A; }",
            ),
            (
                "struct A; fn f() { assert!(crate::b::g(1)); }",
                "use crate::A; fn g() {}",
            ),
            (
                "struct A; fn f() { assert!(super::b::g(1)); }",
                "use super::*; fn g(_: A) {}",
            ),
        ] {
            let root = "mod a; mod b; pub use a::A;";
            let found = in_cycles(&[("lib.rs", root), ("a.rs", one), ("b.rs", other)]);
            let expected: &[&str] = if one.contains("{ use") {
                &[]
            } else {
                &["a.rs", "b.rs"]
            };
            assert_eq!(found, expected, "{one} {other}");
        }
    }

    #[test]
    fn a_parent_that_only_exports_is_in_no_cycle() {
        let root = "mod a; pub use a::{A, f}; pub struct Root;";
        let child = "use super::Root; pub struct A; pub fn f() {}";
        assert!(in_cycles(&[("lib.rs", root), ("a.rs", child)]).is_empty());
        let uses = format!("{root} fn g(_: A) {{}}");
        assert_eq!(in_cycles(&[("lib.rs", &uses), ("a.rs", child)]).len(), 2);
    }

    #[test]
    fn tests_and_other_crates_do_not_count() {
        let root = "mod a; use a::A; pub struct Root; use b::b;";
        let tests = "pub struct A; use b::b; #[cfg(test)] mod tests { use crate::Root; }";
        assert!(in_cycles(&[("lib.rs", root), ("a.rs", tests)]).is_empty());
        let inner =
            "pub struct A; mod inner { use super::A; fn f(_: A) {} } fn g() { inner::f(A) }";
        assert!(in_cycles(&[("lib.rs", root), ("a.rs", inner)]).is_empty());
    }
}
