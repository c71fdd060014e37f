//! Messages that a catch-all arm drops.
//!
//! A `match` on a message names every variant. A new variant then does not compile before each
//! handler has an answer to it. With an arm `_ => {}` it compiles, and the handler drops the new
//! message without a trace. The rule concerns the managers, whose messages are enums of the
//! workspace ([`is_message`]).
//!
//! It finds last arms for everything else that do nothing, or give nothing ([`does_nothing`]). It
//! does not see arms that pass the rest on, an `if let` without `else`, nor what macros write.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};

use super::ratchet::Finding;
use super::source::{Source, is_test_only};

/// Folders with the handlers of messages.
const HANDLERS: &[&str] = &["managers/"];

/// Folders with observers, which show or disturb the messages that they know, and drop none.
const OBSERVERS: &[&str] = &["managers/report/", "managers/src/fault/"];

/// Last words in names of enums that a handler gets or gives. A plain `Event` is what the user is
/// told.
const KINDS: &[&str] = &[
    "Duty", "Effect", "Event", "Input", "Message", "Order", "Report",
];

/// Catch-all arms that drop messages; the key is the file.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let mut messages = Messages::default();
    for source in sources.iter().filter(|s| !s.is_test()) {
        messages.visit_file(&source.file);
    }
    let mut list = Vec::new();
    for source in sources {
        let is_in = |folders: &[&str]| folders.iter().any(|f| source.path.starts_with(f));
        if is_in(HANDLERS) && !is_in(OBSERVERS) && !source.is_test() {
            let mut arms = Arms {
                path: &source.path,
                messages: &messages.0,
                list: &mut list,
            };
            arms.visit_file(&source.file);
        }
    }
    list
}

/// Whether an enum of this name is one of messages: `ToCentral`, `LocalToCentral`, `LocalInput`.
fn is_message(name: &str) -> bool {
    let begins = |text: &str| text.starts_with(char::is_uppercase);
    let says_way = ["To", "From"].iter().any(|way| {
        let parts = name.match_indices(way);
        parts
            .into_iter()
            .any(|(at, _)| begins(&name[at + way.len()..]))
    });
    let has_kind = |kind: &&str| name.strip_suffix(kind).is_some_and(|n| !n.is_empty());
    says_way || KINDS.iter().any(has_kind)
}

/// Names of the enums of messages.
#[derive(Default)]
struct Messages(BTreeSet<String>);

impl<'ast> Visit<'ast> for Messages {
    fn visit_item_enum(&mut self, i: &'ast syn::ItemEnum) {
        let name = i.ident.to_string();
        if is_message(&name) {
            self.0.insert(name);
        }
    }
}

struct Arms<'a> {
    path: &'a str,
    messages: &'a BTreeSet<String>,
    list: &'a mut Vec<Finding>,
}

impl<'ast> Visit<'ast> for Arms<'_> {
    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        if !is_test_only(&m.attrs) {
            visit::visit_item_mod(self, m);
        }
    }

    fn visit_expr_match(&mut self, e: &'ast syn::ExprMatch) {
        let mut names = Enums::default();
        for arm in &e.arms {
            names.visit_pat(without_guard(&arm.pat));
        }
        let message = names.0.iter().find(|n| self.messages.contains(*n));
        let dropping = e
            .arms
            .last()
            .filter(|arm| is_rest(arm) && does_nothing(&arm.body));
        if let (Some(message), Some(arm)) = (message, dropping) {
            let line = arm.fat_arrow_token.spans[0].start().line;
            let what = format!("drops each other `{message}`: name the variants");
            self.list
                .push(Finding::new(self.path, self.path, line, what));
        }
        visit::visit_expr_match(self, e);
    }
}

/// Names before the variants in a pattern.
#[derive(Default)]
struct Enums(BTreeSet<String>);

impl<'ast> Visit<'ast> for Enums {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let before = path.segments.iter().rev().nth(1);
        self.0.extend(before.map(|s| s.ident.to_string()));
    }
}

fn without_guard(pattern: &syn::Pat) -> &syn::Pat {
    match pattern {
        syn::Pat::Guard(guarded) => &guarded.pat,
        pattern => pattern,
    }
}

/// Whether the arm takes whatever the others do not.
fn is_rest(arm: &syn::Arm) -> bool {
    match &arm.pat {
        syn::Pat::Wild(_) => true,
        syn::Pat::Ident(name) => name.subpat.is_none() && name.ident.to_string().starts_with('_'),
        _ => false,
    }
}

/// Whether it is `{}`, `()`, `return`, `continue`, or gives `None`, `Ok(())` or `false`.
fn does_nothing(body: &syn::Expr) -> bool {
    match body {
        syn::Expr::Block(b) => match b.block.stmts.as_slice() {
            [] => true,
            [syn::Stmt::Expr(only, _)] => does_nothing(only),
            _ => false,
        },
        syn::Expr::Return(r) => r.expr.as_ref().is_none_or(|e| does_nothing(e)),
        syn::Expr::Continue(_) => true,
        syn::Expr::Tuple(t) => t.elems.is_empty(),
        syn::Expr::Path(p) => p.path.is_ident("None"),
        syn::Expr::Call(c) => {
            let is_ok = matches!(&*c.func, syn::Expr::Path(p) if p.path.is_ident("Ok"));
            is_ok && c.args.iter().all(does_nothing)
        }
        syn::Expr::Lit(l) => matches!(&l.lit, syn::Lit::Bool(b) if !b.value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENUMS: &str = "enum ToCentral { A, B } enum LocalInput { C } enum Phase { D }";

    /// Lines of the arms that are found in this code of a file.
    fn found_in(path: &str, code: &str) -> Vec<usize> {
        let parse = |path: &str, text: &str| Source::new(path, text).expect("the sample parses");
        let sources = [parse("wire/src/lib.rs", ENUMS), parse(path, code)];
        check(&sources).into_iter().map(|f| f.line).collect()
    }

    fn found(arms: &str) -> usize {
        let code = format!("fn f() {{ match x {{ {arms} }} }}");
        found_in("managers/src/a.rs", &code).len()
    }

    #[test]
    fn arms_that_drop_messages_are_found() {
        for arms in [
            "ToCentral::A => g(), _ => {}",
            "wire::ToCentral::A { .. } | ToCentral::B => g(), _ => ()",
            "Some(ToCentral::A) => g(), _other => { return; }",
            "(LocalInput::C, Phase::D) if y => g(), _ => return None",
            "LocalInput::C => Ok(1), _ => Ok(())",
            "LocalInput::C => match y { LocalInput::C => 1, _ => false }, z => z",
        ] {
            assert_eq!(found(arms), 1, "{arms}");
        }
        let code = "fn f() {\n match x {\n ToCentral::A => {}\n _ => continue,\n } }";
        assert_eq!(found_in("managers/protocol/src/b/c.rs", code), [4]);
    }

    #[test]
    fn arms_that_do_something_and_other_enums_are_not() {
        for arms in [
            "ToCentral::A => g(), ToCentral::B => {}",
            "ToCentral::A => g(), _ => h()",
            "ToCentral::A => g(), rest => self.pass(rest)",
            "ToCentral::A => 1, _ => 2",
            "Phase::D => g(), _ => {}",
            "Unknown::ToCentral => g(), _ => {}",
            "y if y == ToCentral::A => g(), _ => {}",
        ] {
            assert_eq!(found(arms), 0, "{arms}");
        }
        let code = "fn f() { match x { ToCentral::A => {} _ => {} } }";
        assert!(found_in("managers/src/a/tests.rs", code).is_empty());
        assert!(found_in("managers/report/a.rs", code).is_empty());
        assert!(found_in("device/src/a.rs", code).is_empty());
        let tests = format!("#[cfg(test)] mod tests {{ {code} }}");
        assert!(found_in("managers/src/a.rs", &tests).is_empty());
    }

    #[test]
    fn names_of_messages_are_known_by_their_words() {
        for name in [
            "ToLocal",
            "LocalToMpirun",
            "FromManager",
            "CentralEffect",
            "WatchOrder",
        ] {
            assert!(is_message(name), "{name}");
        }
        for name in [
            "Token",
            "Topology",
            "LocalPhase",
            "Stage",
            "Reported",
            "AutoTo",
        ] {
            assert!(!is_message(name), "{name}");
        }
    }
}
