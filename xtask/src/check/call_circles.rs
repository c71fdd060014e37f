//! Files of a crate that call each other in a circle.
//!
//! `cycles` sees the paths that a file names; a call of a method has none. Here a file leads to
//! another one if it calls a method or function that the other one defines. The files of a circle
//! can only be understood together, whatever their imports say.
//!
//! Calls that are seen:
//!
//! - `self.f()`, `Self::f()` and `Type::f()` of inherent methods, and paths of free functions, also
//!   without a call (`map(Self::f)`);
//! - methods of fields, parameters and variables whose type is written, and of what a method or
//!   function gives (`self.handler().f()`), if the type is one of the crate (see `crate_types`);
//! - the same among the arguments of a macro, as far as they are expressions.
//!
//! A receiver whose type is not known makes no circle, whatever its methods are called. So calls
//! through traits and closures are not seen, nor those on what an `Option` or a list holds. Calls
//! into another crate can't come back, since crates depend on those below them only.

use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser as _};
use syn::visit::{self, Visit};

use super::crate_types::{CrateTypes, Function};
use super::file_graph::{CircleEdge, FileGraph};
use super::ratchet::Finding;
use super::receivers::Body;
use super::source::is_test_only;

/// The calls that are part of a circle; the key is the calling file. Its number of findings is that
/// of the files which it calls and which lead back to it.
pub fn check(crates: &[CrateTypes<'_>]) -> Vec<Finding> {
    crates.iter().flat_map(circles).collect()
}

fn circles(types: &CrateTypes<'_>) -> Vec<Finding> {
    let path = |file: usize| types.of.sources[file].path.as_str();
    let graph = calls(types);
    let finding = |edge: CircleEdge<'_>| {
        let (from, to) = (path(edge.from), path(edge.to));
        let mut what = format!("`{}` is in {to}, whose calls lead back here", edge.what);
        if !edge.between.is_empty() {
            let between: Vec<_> = edge.between.iter().map(|file| path(*file)).collect();
            what = format!("{what} through {}", between.join(", "));
        }
        Finding::new(from, from, edge.line, what)
    };
    graph.circle_edges().into_iter().map(finding).collect()
}

fn calls(types: &CrateTypes<'_>) -> FileGraph {
    let mut graph = FileGraph::default();
    for (at, module) in types.of.modules.iter().enumerate() {
        if types.of.sources[module.file].is_test() {
            continue;
        }
        let mut calls = Calls {
            body: Body::new(types, at),
            graph: &mut graph,
        };
        for item in module.content {
            calls.visit_item(item);
        }
    }
    graph
}

/// Notes the calls of one module.
struct Calls<'a, 'b> {
    body: Body<'a>,
    graph: &'b mut FileGraph,
}

impl<'a> Calls<'a, '_> {
    fn note(&mut self, called: Option<&Function>, name: &syn::Ident) {
        if let Some(called) = called {
            let from = self.body.file();
            let line = name.span().start().line;
            self.graph.add(from, called.file, line, name.to_string());
        }
    }

    /// Visits with another place of the code around it.
    fn inside(&mut self, body: Body<'a>, visit: impl FnOnce(&mut Self)) {
        let around = std::mem::replace(&mut self.body, body);
        visit(self);
        self.body = around;
    }

    /// Visits a block whose names end with it.
    fn scope(&mut self, visit: impl FnOnce(&mut Self)) {
        self.body.enter();
        visit(self);
        self.body.leave();
    }
}

impl<'ast> Visit<'ast> for Calls<'_, '_> {
    // A module of its own.
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    // The parameters of a macro are no expressions.
    fn visit_item_macro(&mut self, _: &'ast syn::ItemMacro) {}

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        if !is_test_only(&block.attrs) {
            let body = self.body.of_impl(block);
            self.inside(body, |this| visit::visit_item_impl(this, block));
        }
    }

    fn visit_item_trait(&mut self, block: &'ast syn::ItemTrait) {
        let body = self.body.of_trait(block);
        self.inside(body, |this| visit::visit_item_trait(this, block));
    }

    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        if !is_test_only(&f.attrs) {
            let body = self.body.of_function(&f.sig);
            self.inside(body, |this| visit::visit_item_fn(this, f));
        }
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        if !is_test_only(&f.attrs) {
            let body = self.body.of_function(&f.sig);
            self.inside(body, |this| visit::visit_impl_item_fn(this, f));
        }
    }

    fn visit_trait_item_fn(&mut self, f: &'ast syn::TraitItemFn) {
        let body = self.body.of_function(&f.sig);
        self.inside(body, |this| visit::visit_trait_item_fn(this, f));
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.scope(|this| visit::visit_block(this, block));
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        let init = local.init.as_ref();
        let ty = init.and_then(|init| self.body.type_of(&init.expr));
        // The names begin after the statement.
        visit::visit_local(self, local);
        self.body.bind(&local.pat, ty);
    }

    fn visit_expr_let(&mut self, condition: &'ast syn::ExprLet) {
        visit::visit_expr_let(self, condition);
        let ty = self.body.type_of(&condition.expr);
        self.body.bind(&condition.pat, ty);
    }

    fn visit_expr_if(&mut self, e: &'ast syn::ExprIf) {
        self.scope(|this| {
            this.visit_expr(&e.cond);
            this.visit_block(&e.then_branch);
        });
        if let Some((_, other)) = &e.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_expr_while(&mut self, e: &'ast syn::ExprWhile) {
        self.scope(|this| visit::visit_expr_while(this, e));
    }

    fn visit_expr_for_loop(&mut self, e: &'ast syn::ExprForLoop) {
        self.visit_expr(&e.expr);
        self.scope(|this| {
            this.body.bind(&e.pat, None);
            this.visit_block(&e.body);
        });
    }

    fn visit_expr_closure(&mut self, e: &'ast syn::ExprClosure) {
        self.scope(|this| {
            for input in &e.inputs {
                this.body.bind(input, None);
            }
            this.visit_expr(&e.body);
        });
    }

    fn visit_expr_match(&mut self, e: &'ast syn::ExprMatch) {
        self.visit_expr(&e.expr);
        let ty = self.body.type_of(&e.expr);
        for arm in &e.arms {
            self.scope(|this| {
                this.body.bind(&arm.pat, ty.clone());
                visit::visit_arm(this, arm);
            });
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.note(self.body.method(call), &call.method);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        if let Some(last) = path.path.segments.last() {
            self.note(self.body.function(path), &last.ident);
        }
        visit::visit_expr_path(self, path);
    }

    fn visit_macro(&mut self, m: &'ast syn::Macro) {
        let name = m.path.segments.last().map(|s| s.ident.to_string());
        // Patterns follow the value, and bind names of their own.
        let matches = name.is_some_and(|n| n.ends_with("matches"));
        let read = if matches { 1 } else { usize::MAX };
        if let Ok(list) = expressions.parse2(m.tokens.clone()) {
            for e in list.iter().take(read) {
                self.visit_expr(e);
            }
        }
    }
}

/// The arguments of a macro, up to the first one that is no expression.
fn expressions(input: ParseStream<'_>) -> syn::Result<Vec<syn::Expr>> {
    let mut list = Vec::new();
    while let Ok(e) = input.parse() {
        list.push(e);
        if input.parse::<syn::Token![,]>().is_err() && input.parse::<syn::Token![;]>().is_err() {
            break;
        }
    }
    // What follows is of no use, and must not fail the parser.
    input.parse::<TokenStream>().map(|_| list)
}

#[cfg(test)]
mod tests {
    use super::super::modules::crates;
    use super::super::source::Source;
    use super::*;

    /// Files with their lines and what is said of them.
    fn findings(files: &[(&str, &str)]) -> Vec<Finding> {
        let parse = |(path, text): &(&str, &str)| {
            Source::new(&format!("a/src/{path}"), text).expect("the sample parses")
        };
        let sources: Vec<_> = files.iter().map(parse).collect();
        let crates = crates(&sources);
        let types: Vec<_> = crates.iter().map(CrateTypes::new).collect();
        check(&types)
    }

    /// The files that are found in a crate with a type that has a part, whose code is this.
    fn in_circle(b: &str, c: &str) -> Vec<String> {
        let root = "mod b; mod c; mod job;";
        let job = "pub struct Job { pub part: Part, pub list: Vec<Part> } pub struct Part; \
            pub struct Handler<'a> { job: &'a mut Job } \
            impl Job { pub fn handler(&mut self) -> Handler<'_> { Handler { job: self } } \
            pub fn parts(&self) -> Vec<Part> { Vec::new() } }";
        let files = [("lib.rs", root), ("job.rs", job), ("b.rs", b), ("c.rs", c)];
        let name = |f: Finding| f.path.trim_start_matches("a/src/").to_owned();
        findings(&files).into_iter().map(name).collect()
    }

    /// Methods of `b.rs`, to which a method `back` of `c.rs` leads.
    const B: &str = "use crate::job::*; \
        impl Job { fn go(&mut self) { self.back() } fn done(&self) {} fn make() -> Job { Job } } \
        impl Part { pub fn done(&self) {} } impl Handler<'_> { fn done(&self) {} } \
        pub fn free(_: &Job) {} impl Other { fn done(&self) {} } pub struct Other;";

    fn found(body: &str) -> bool {
        let c = format!("use crate::job::*; impl Job {{ pub fn back(&mut self) {{ {body} }} }}");
        let found = in_circle(B, &c);
        assert!(found.is_empty() || found == ["b.rs", "c.rs"], "{found:?}");
        !found.is_empty()
    }

    #[test]
    fn circles_are_found_if_the_receiver_is_known() {
        for body in [
            "self.done()",
            "Self::done(self)",
            "Job::done(&self)",
            "crate::job::Job::done(self)",
            "let again = &mut *self; again.done()",
            "let Self { part, .. } = self; part.done()",
            "self.part.done()",
            "self.handler().done()",
            "Handler { job: self }.done()",
            "Job::make().part.done()",
            "let f: fn() -> Box<Part> = g; let p: Box<Part> = f(); p.done()",
            "x.iter().for_each(|y| self.part.done())",
            "match self { this if y => this.done() }",
            "all.map(Self::done)",
            "assert!(y, \"{}\", self.done())",
            "assert!(matches!(self.done(), X { a: 1 } if y))",
            "crate::b::free(self)",
            "fn inner(job: &Job) { job.done() } ",
        ] {
            assert!(found(body), "{body}");
        }
    }

    #[test]
    fn handlers_and_their_keys_are_known() {
        let owned = "All { /// One.\n part: Part, c: Vec<u8>, }";
        let lent = "All<'a> { changes { part: Part, } reads { c: Vec<u8>, } }";
        let b = "use crate::all::*; use crate::c::C; handler! { /// Acts.\n pub(super) B of All { \
            changes { part } reads { c } } with { below: C { part, c }, } } \
            impl B<'_> { pub fn go(&mut self) { X } } impl Part { pub fn go(&self) {} }";
        let c = "use crate::all::*; use crate::b::B; handler! { pub(super) C { reads { part, c } } } \
            impl C<'_> { pub fn back(&self, all: &mut All<'_>) { Y } }";
        let calls = [
            ("self.below().back(all)", "B::of(all).go()", true),
            ("self.below().back(all)", "self.part.go()", true),
            ("self.below().back(all)", "self.part.done()", false),
            ("self.below().back(all)", "self.c.go()", false),
            ("self.part.done()", "B::of(all).go()", false),
        ];
        for ((x, y, is_circle), all) in calls.iter().flat_map(|c| [(c, owned), (c, lent)]) {
            let part = "pub struct Part; impl Part { pub fn done(&self) {} }";
            let all = format!("parts! {{ /// All.\n pub {all} }} {part}");
            let (b, c) = (b.replace('X', x), c.replace('Y', y));
            let root = ("lib.rs", "mod all; mod b; mod c;");
            let files = [root, ("all.rs", &all), ("b.rs", &b), ("c.rs", &c)];
            assert_eq!(!findings(&files).is_empty(), *is_circle, "{x}, {y}");
        }
    }

    #[test]
    fn other_receivers_of_the_name_make_no_circle() {
        for body in [
            "",
            "x.done()",
            "self.unknown.done()",
            "self.list.done()",
            "self.parts().done()",
            "self.part.go()",
            "let this = x; this.done()",
            "x.iter().for_each(|this| this.done())",
            "{ let that = self; } that.done()",
            "if let Some(this) = self.get() { this.done() }",
            "for this in self.list { this.done() }",
            "fn free(_: &Job) {} free(self)",
            "fn inner<Job>(job: &Job) { job.done() }",
            "#[cfg(test)] fn inner(job: &Job) { job.done() }",
            "std::mem::done(self)",
            "quote!(= self.done())",
            "use crate::b::free; let free = x; free(self)",
            "matches!(x, crate::b::free)",
            "match x { (this, _) => this.done() }",
            "while let Some(this) = x { this.done() }",
        ] {
            let body = format!("let this = &*self; {body}");
            assert!(!found(&body), "{body}");
        }
    }

    #[test]
    fn calls_in_one_direction_are_no_circle() {
        let c = "use crate::job::*; impl Job { pub fn back(&self) { self.part.far() } } \
            impl Part { pub fn far(&self) { self.near() } fn near(&self) { self.far() } }";
        assert_eq!(in_circle(B, c), [""; 0]);
    }

    #[test]
    fn tests_and_types_of_the_same_name_do_not_count() {
        let back = "use crate::job::*; impl Job { pub fn back(&self) {} }";
        let call = "impl Job { fn call(&self) { self.done() } }";
        assert_eq!(in_circle(B, &format!("{back} {call}")), ["b.rs", "c.rs"]);
        for c in [
            format!("{back} #[cfg(test)] {call}"),
            format!("{back} #[cfg(test)] mod tests {{ use super::*; {call} }}"),
            format!("{back} {}", call.replace("fn", "#[cfg(test)] fn")),
            format!("{} {call}", back.replace("pub fn", "#[cfg(test)] pub fn")),
            format!("{} {call}", back.replace("impl", "impl Trait for")),
            format!("{back} mod other {{ struct Job; {call} }}"),
        ] {
            assert_eq!(in_circle(B, &c), [""; 0], "{c}");
        }
    }

    #[test]
    fn a_method_that_several_files_define_is_not_followed() {
        let call = "use crate::job::*; impl Job { pub fn back(&self) { self.part.done() } }";
        assert_eq!(in_circle(B, call), ["b.rs", "c.rs"]);
        let other = format!("{call} impl Part {{ fn done(&self) {{}} }}");
        assert_eq!(in_circle(B, &other), [""; 0]);
    }

    #[test]
    fn a_finding_names_the_way_back() {
        let block = |name: &str, calls: &str| {
            format!("use super::*;\nimpl Job {{ pub fn {name}(&self) {{ self.{calls}() }} }}")
        };
        let root = "mod b; mod c; mod d; mod e; pub struct Job;";
        let (b, c, d, e) = (
            block("b", "c"),
            block("c", "d"),
            block("d", "e"),
            block("e", "b"),
        );
        let blocks = [
            ("b.rs", b.as_str()),
            ("c.rs", &c),
            ("d.rs", &d),
            ("e.rs", &e),
        ];
        let found = findings(&[&[("lib.rs", root)], &blocks[..]].concat());
        assert_eq!(found.len(), 4);
        assert_eq!((found[0].key.as_str(), found[0].line), ("a/src/b.rs", 2));
        let way = "`c` is in a/src/c.rs, whose calls lead back here through a/src/d.rs, a/src/e.rs";
        assert_eq!(found[0].what, way);
    }
}
