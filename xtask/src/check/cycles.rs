//! Import cycles between the modules of a crate.
//!
//! A module is a file here; a re-export leads to the file that defines the item. A parent that only
//! re-exports an item does not depend on the child. Methods have no path, so calls of them are not
//! seen.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::ratchet::Finding;
use super::source::{Source, is_test_only};

/// Re-exports that are followed from one path.
const DEPTH: usize = 16;

/// A path as it was written, with its line.
type Reference = (Vec<String>, usize);

/// A module, which may be inside another's file.
#[derive(Default)]
struct Module {
    parent: Option<usize>,
    /// Position of its file among the sources.
    file: usize,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    /// Imported names, with their paths.
    uses: BTreeMap<String, Vec<String>>,
    /// Imports with `*`.
    globs: Vec<Vec<String>>,
    references: Vec<Reference>,
}

/// The modules of one crate; the first is its root.
struct Crate<'a> {
    sources: &'a [Source],
    modules: Vec<Module>,
}

/// The target of a path.
enum Target {
    Module(usize),
    /// An item, by the module that defines it.
    Item(usize),
}

/// The modules of each crate that are in a cycle; the key is the crate's folder.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let roots = sources.iter().enumerate().filter(|(_, s)| {
        let name = s.path.strip_suffix("/src/lib.rs");
        let name = name.or(s.path.strip_suffix("/src/main.rs"));
        name.is_some_and(|n| !n.contains("/tests/"))
    });
    roots
        .flat_map(|(at, source)| {
            let (folder, _) = source.path.rsplit_once("/src/").unwrap_or_default();
            Crate::new(sources, at).cycles(folder)
        })
        .collect()
}

impl<'a> Crate<'a> {
    fn new(sources: &'a [Source], root: usize) -> Self {
        let mut this = Self {
            sources,
            modules: Vec::new(),
        };
        let (folder, _) = sources[root].path.rsplit_once('/').unwrap_or_default();
        this.add(None, root, folder, &sources[root].file.items);
        this
    }

    /// Adds a module and those below it; files of its children lie in `folder`.
    fn add(
        &mut self,
        parent: Option<usize>,
        file: usize,
        folder: &str,
        items: &'a [syn::Item],
    ) -> usize {
        let at = self.modules.len();
        self.modules.push(Module {
            parent,
            file,
            ..Module::default()
        });
        for item in items {
            if let syn::Item::Mod(m) = item {
                self.add_child(at, file, folder, m);
            }
        }
        let mut reader = Reader {
            module: &mut self.modules[at],
        };
        for item in items {
            reader.item(item);
        }
        at
    }

    fn add_child(&mut self, parent: usize, file: usize, folder: &str, m: &'a syn::ItemMod) {
        if is_test_only(&m.attrs) {
            return;
        }
        let below = format!("{folder}/{}", m.ident);
        let child = match &m.content {
            Some((_, items)) => self.add(Some(parent), file, &below, items),
            None => {
                let names = [format!("{below}.rs"), format!("{below}/mod.rs")];
                let found = self.sources.iter().position(|s| names.contains(&s.path));
                let Some(file) = found else { return };
                self.add(Some(parent), file, &below, &self.sources[file].file.items)
            }
        };
        let name = m.ident.to_string();
        self.modules[parent].children.insert(name, child);
    }

    /// Follows a path that was written in `module`.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<Target> {
        let (first, mut rest) = path.split_first()?;
        let mut target = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(module),
            "super" => Target::Module(self.modules[module].parent?),
            name => self.lookup(module, name, depth)?,
        };
        while let (Target::Module(at), Some((name, further))) = (&target, rest.split_first()) {
            target = match name.as_str() {
                "super" => Target::Module(self.modules[*at].parent?),
                name => self.lookup(*at, name, depth)?,
            };
            rest = further;
        }
        Some(target)
    }

    fn lookup(&self, at: usize, name: &str, depth: usize) -> Option<Target> {
        let module = &self.modules[at];
        if let Some(child) = module.children.get(name) {
            return Some(Target::Module(*child));
        }
        if module.items.contains(name) {
            return Some(Target::Item(at));
        }
        let depth = depth.checked_sub(1)?;
        if let Some(path) = module.uses.get(name) {
            // `use name::…` of another crate would lead here again.
            let loops = path.len() > 1 && path[0] == name;
            return (!loops).then(|| self.resolve(at, path, depth))?;
        }
        module
            .globs
            .iter()
            .find_map(|glob| match self.resolve(at, glob, depth)? {
                Target::Module(other) if other != at => self.lookup(other, name, depth),
                _ => None,
            })
    }

    /// Each file with the files that it uses, and where it first does.
    fn edges(&self) -> BTreeMap<usize, BTreeMap<usize, (usize, String)>> {
        let mut edges: BTreeMap<usize, BTreeMap<usize, (usize, String)>> = BTreeMap::new();
        for (at, module) in self.modules.iter().enumerate() {
            for (path, line) in &module.references {
                let Some(Target::Item(to)) = self.resolve(at, path, DEPTH) else {
                    continue;
                };
                let (from, to) = (module.file, self.modules[to].file);
                if from != to {
                    let uses = edges.entry(from).or_default().entry(to);
                    uses.or_insert_with(|| (*line, path.join("::")));
                }
            }
        }
        edges
    }

    fn cycles(&self, folder: &str) -> Vec<Finding> {
        let edges = self.edges();
        let reach: BTreeMap<usize, BTreeSet<usize>> = edges
            .keys()
            .map(|from| (*from, reachable(&edges, *from)))
            .collect();
        let leads = |from: &usize, to: &usize| reach.get(from).is_some_and(|r| r.contains(to));
        let mut list = Vec::new();
        for (from, uses) in &edges {
            let back: Vec<_> = uses.iter().filter(|(to, _)| leads(to, from)).collect();
            let Some((to, (line, path))) = back.first() else {
                continue;
            };
            let other = &self.sources[**to].path;
            let what = format!("`{path}` is in {other}, which leads back here");
            list.push(Finding::new(folder, &self.sources[*from].path, *line, what));
        }
        list
    }
}

fn reachable(
    edges: &BTreeMap<usize, BTreeMap<usize, (usize, String)>>,
    from: usize,
) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        let next = edges.get(&at).into_iter().flat_map(|uses| uses.keys());
        open.extend(next.filter(|to| seen.insert(**to)).copied());
    }
    seen
}

/// Reads the names and paths of a module, without those of the modules inside it.
struct Reader<'a> {
    module: &'a mut Module,
}

impl Reader<'_> {
    fn item(&mut self, item: &syn::Item) {
        use syn::Item;
        let name = match item {
            Item::Const(i) => Some(&i.ident),
            Item::Enum(i) => Some(&i.ident),
            Item::Fn(i) => Some(&i.sig.ident),
            Item::Static(i) => Some(&i.ident),
            Item::Struct(i) => Some(&i.ident),
            Item::Trait(i) => Some(&i.ident),
            Item::TraitAlias(i) => Some(&i.ident),
            Item::Type(i) => Some(&i.ident),
            Item::Union(i) => Some(&i.ident),
            Item::Macro(i) => i.ident.as_ref(),
            _ => None,
        };
        self.module.items.extend(name.map(ToString::to_string));
        self.visit_item(item);
    }

    fn tree(&mut self, prefix: &[String], tree: &syn::UseTree, line: usize, exports: bool) {
        let join = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        let (path, name) = match tree {
            syn::UseTree::Path(p) => return self.tree(&join(&p.ident), &p.tree, line, exports),
            syn::UseTree::Group(g) => {
                let each = |t| self.tree(prefix, t, line, exports);
                return g.items.iter().for_each(each);
            }
            syn::UseTree::Glob(_) => return self.module.globs.push(prefix.to_vec()),
            syn::UseTree::Name(n) if n.ident == "self" => {
                (prefix.to_vec(), prefix.last().cloned().unwrap_or_default())
            }
            syn::UseTree::Name(n) => (join(&n.ident), n.ident.to_string()),
            syn::UseTree::Rename(r) => (join(&r.ident), r.rename.to_string()),
        };
        if !exports {
            self.module.references.push((path.clone(), line));
        }
        self.module.uses.insert(name, path);
    }

    /// Paths among the tokens of a macro call.
    fn tokens(&mut self, tokens: &TokenStream) {
        let (mut path, mut line, mut colons) = (Vec::new(), 0, 0);
        for token in tokens.clone() {
            match token {
                TokenTree::Punct(p) if p.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.note(std::mem::take(&mut path), line);
                    }
                    line = name.span().start().line;
                    path.push(name.to_string());
                }
                TokenTree::Group(group) => self.tokens(&group.stream()),
                _ => self.note(std::mem::take(&mut path), line),
            }
            colons = 0;
        }
        self.note(path, line);
    }

    fn note(&mut self, path: Vec<String>, line: usize) {
        if !path.is_empty() {
            self.module.references.push((path, line));
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_item_use(&mut self, u: &'ast syn::ItemUse) {
        let exports = !matches!(u.vis, syn::Visibility::Inherited);
        if !is_test_only(&u.attrs) {
            let line = u.use_token.span.start().line;
            self.tree(&[], &u.tree, line, exports);
        }
    }

    fn visit_path(&mut self, p: &'ast syn::Path) {
        let names: Vec<String> = p.segments.iter().map(|s| s.ident.to_string()).collect();
        if let (None, Some(first)) = (p.leading_colon, p.segments.first()) {
            self.note(names, first.ident.span().start().line);
        }
        visit::visit_path(self, p);
    }

    fn visit_macro(&mut self, m: &'ast syn::Macro) {
        self.tokens(&m.tokens);
        visit::visit_macro(self, m);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_cycles(files: &[(&str, &str)]) -> Vec<String> {
        let parse = |(path, text): &(&str, &str)| {
            Source::new(&format!("a/src/{path}"), text).expect("the sample parses")
        };
        let sources: Vec<_> = files.iter().map(parse).collect();
        let name = |f: Finding| f.path.trim_start_matches("a/src/").to_owned();
        check(&sources).into_iter().map(name).collect()
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
