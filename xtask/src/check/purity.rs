//! Means that the sans-IO crates may not use: clocks, threads, sockets, files, the environment,
//! randomness, and the iteration order of a hash map.

use std::collections::BTreeSet;

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::deps::SANS_IO;
use super::report::Report;
use super::source::{Source, is_test_only};

/// Paths and all below them. Addresses (`std::net::SocketAddr`) are plain data and stay allowed.
const BANNED: &[&str] = &[
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::net::ToSocketAddrs",
    "std::os",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::thread",
    "std::fs",
    "std::env",
    "std::process",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::hash::RandomState",
    "rand",
];

/// Methods that give a hash map's entries in its own order.
const ORDERED: &[&str] = &[
    "iter",
    "iter_mut",
    "keys",
    "values",
    "values_mut",
    "drain",
    "retain",
    "into_iter",
    "into_keys",
    "into_values",
    "extract_if",
];

/// Checks one file; tests may do what they like.
pub fn check(source: &Source, report: &mut Report) {
    let path = source.path.as_str();
    let inside = SANS_IO.iter().any(|c| {
        path.strip_prefix(c.1)
            .is_some_and(|p| p.starts_with("src/"))
    });
    if !inside || source.is_test() {
        return;
    }
    let mut maps = Maps::default();
    maps.visit_file(&source.file);
    let mut uses = Uses {
        path,
        maps: maps.names,
        errors: &mut report.errors,
    };
    uses.visit_file(&source.file);
}

/// Names of fields, parameters and variables that are declared as hash maps or sets.
#[derive(Default)]
struct Maps {
    names: BTreeSet<String>,
}

impl Maps {
    fn note(&mut self, name: &str, ty: &syn::Type) {
        let mut ty = ty;
        while let syn::Type::Reference(inner) = ty {
            ty = &inner.elem;
        }
        if let syn::Type::Path(p) = ty {
            let last = p.path.segments.last().map(|s| s.ident.to_string());
            if last.is_some_and(|l| l.ends_with("HashMap") || l.ends_with("HashSet")) {
                self.names.insert(name.to_owned());
            }
        }
    }
}

impl<'ast> Visit<'ast> for Maps {
    fn visit_field(&mut self, f: &'ast syn::Field) {
        if let Some(name) = &f.ident {
            self.note(&name.to_string(), &f.ty);
        }
    }

    fn visit_pat_type(&mut self, p: &'ast syn::PatType) {
        if let syn::Pat::Ident(name) = &*p.pat {
            self.note(&name.ident.to_string(), &p.ty);
        }
        visit::visit_pat_type(self, p);
    }
}

struct Uses<'a> {
    path: &'a str,
    maps: BTreeSet<String>,
    errors: &'a mut Vec<String>,
}

impl Uses<'_> {
    fn path_used(&mut self, full: &str, line: usize) {
        let full = full.trim_start_matches("::");
        for banned in BANNED {
            let rest = full.strip_prefix(banned);
            if rest.is_some_and(|r| r.is_empty() || r.starts_with("::")) {
                let at = format!("{}:{line}", self.path);
                self.errors
                    .push(format!("{at}: {full} has no place in a sans-IO crate"));
            }
        }
    }

    fn tree(&mut self, prefix: &str, tree: &syn::UseTree) {
        let line = tree.span().start().line;
        let join = |name: &syn::Ident| match prefix {
            "" => name.to_string(),
            p => format!("{p}::{name}"),
        };
        match tree {
            syn::UseTree::Path(p) => self.tree(&join(&p.ident), &p.tree),
            syn::UseTree::Name(n) if n.ident == "self" => self.path_used(prefix, line),
            syn::UseTree::Name(n) => self.path_used(&join(&n.ident), line),
            syn::UseTree::Rename(r) => self.path_used(&join(&r.ident), line),
            syn::UseTree::Glob(_) => self.path_used(prefix, line),
            syn::UseTree::Group(g) => {
                for item in &g.items {
                    self.tree(prefix, item);
                }
            }
        }
    }

    fn ordered(&mut self, map: &str, line: usize) {
        let at = format!("{}:{line}", self.path);
        self.errors.push(format!(
            "{at}: `{map}` is a hash map; the order of its entries has no place in a sans-IO crate"
        ));
    }

    /// The map's name when the expression is one of the declared maps.
    fn map_of(&self, e: &syn::Expr) -> Option<String> {
        let name = match e {
            syn::Expr::Path(p) => p.path.get_ident()?.to_string(),
            syn::Expr::Field(f) => match &f.member {
                syn::Member::Named(name) => name.to_string(),
                syn::Member::Unnamed(_) => return None,
            },
            syn::Expr::Reference(r) => return self.map_of(&r.expr),
            syn::Expr::Paren(p) => return self.map_of(&p.expr),
            _ => return None,
        };
        self.maps.contains(&name).then_some(name)
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        if !is_test_only(&m.attrs) {
            visit::visit_item_mod(self, m);
        }
    }

    fn visit_item_use(&mut self, u: &'ast syn::ItemUse) {
        if !is_test_only(&u.attrs) {
            self.tree("", &u.tree);
        }
    }

    fn visit_path(&mut self, p: &'ast syn::Path) {
        let names: Vec<String> = p.segments.iter().map(|s| s.ident.to_string()).collect();
        self.path_used(&names.join("::"), p.span().start().line);
        visit::visit_path(self, p);
    }

    fn visit_expr_method_call(&mut self, c: &'ast syn::ExprMethodCall) {
        if ORDERED.contains(&c.method.to_string().as_str())
            && let Some(map) = self.map_of(&c.receiver)
        {
            self.ordered(&map, c.method.span().start().line);
        }
        visit::visit_expr_method_call(self, c);
    }

    fn visit_expr_for_loop(&mut self, l: &'ast syn::ExprForLoop) {
        if let Some(map) = self.map_of(&l.expr) {
            self.ordered(&map, l.expr.span().start().line);
        }
        visit::visit_expr_for_loop(self, l);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(path: &str, text: &str) -> usize {
        let mut report = Report::default();
        let source = Source::new(path, text).expect("the sample parses");
        check(&source, &mut report);
        report.errors.len()
    }

    #[test]
    fn clocks_sockets_and_files_are_found_in_every_spelling() {
        for text in [
            "use std::time::Instant;",
            "use std::{fmt, time::{Duration, SystemTime as T}};",
            "fn f() { let _ = std::time::Instant::now(); }",
            "use std::fs::File;",
            "use std::fs::{self};",
            "use std::net::TcpStream;",
            "use std::thread::*;",
            "fn f() { rand::random::<u8>(); }",
            "use std::collections::{BTreeMap, HashMap};",
        ] {
            assert_eq!(errors("logging/src/a.rs", text), 1, "{text}");
            assert_eq!(errors("device/src/a.rs", text), 0, "{text}");
            assert_eq!(errors("logging/src/a_tests.rs", text), 0, "{text}");
            let inside = format!("#[cfg(test)] mod tests {{ {text} }}");
            assert_eq!(errors("logging/src/a.rs", &inside), 0, "{text}");
        }
        for text in [
            "use std::net::SocketAddr;",
            "use std::time::Duration;",
            "use std::collections::BTreeMap;",
            "use crate::random::Seed;",
        ] {
            assert_eq!(errors("device/engine/src/a.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn the_order_of_hash_maps_is_found() {
        let with = |body: &str| {
            let text = format!(
                "struct S {{ m: FxHashMap<u8, u8>, b: BTreeMap<u8, u8> }} impl S {{ fn f(&mut self, p: &FxHashSet<u8>) {{ {body} }} }}"
            );
            errors("device/engine/src/a.rs", &text)
        };
        assert_eq!(with("for _ in &self.m {}"), 1);
        assert_eq!(with("self.m.keys().min();"), 1);
        assert_eq!(with("p.iter().count();"), 1);
        assert_eq!(with("self.m.retain(|_, _| true);"), 1);
        assert_eq!(
            with("self.m.get(&1); self.m.insert(1, 2); self.m.len();"),
            0
        );
        assert_eq!(with("for _ in &self.b {} self.b.iter();"), 0);
    }
}
