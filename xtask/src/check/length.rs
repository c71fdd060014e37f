//! Lengths of files and functions.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::report::Report;
use super::source::Source;

/// Lines of a file that deserve a warning.
const LONG_FILE: usize = 400;
/// Lines that a file may have.
const MAX_FILE: usize = 800;
/// Lines that a function may have.
const MAX_FUNCTION: usize = 70;

/// Checks one file.
pub fn check(source: &Source, report: &mut Report) {
    if source.is_generated() {
        return;
    }
    let (path, lines) = (&source.path, source.text.lines().count());
    if lines > MAX_FILE {
        let text = format!("{path} has {lines} lines, {MAX_FILE} are allowed");
        report.errors.push(text);
    } else if lines > LONG_FILE {
        report.warnings.push(format!("{path} has {lines} lines"));
    }
    let mut functions = Functions { path, report };
    functions.visit_file(&source.file);
}

struct Functions<'a> {
    path: &'a str,
    report: &'a mut Report,
}

impl Functions<'_> {
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let lines = block.span().end().line - first + 1;
        if lines > MAX_FUNCTION {
            self.report.errors.push(format!(
                "{}:{first}: `{}` has {lines} lines, {MAX_FUNCTION} are allowed",
                self.path, signature.ident
            ));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        self.measure(&f.sig, &f.block);
        visit::visit_item_fn(self, f);
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.measure(&f.sig, &f.block);
        visit::visit_impl_item_fn(self, f);
    }

    fn visit_trait_item_fn(&mut self, f: &'ast syn::TraitItemFn) {
        if let Some(block) = &f.default {
            self.measure(&f.sig, block);
        }
        visit::visit_trait_item_fn(self, f);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Report {
        let mut report = Report::default();
        let source = Source::new("a.rs", text).expect("the sample parses");
        check(&source, &mut report);
        report
    }

    #[test]
    fn long_files_warn_and_fail() {
        let lines = |n| report(&"//\n".repeat(n));
        assert!(lines(400).warnings.is_empty());
        assert_eq!(lines(401).warnings.len(), 1);
        assert!(lines(800).errors.is_empty());
        assert_eq!(lines(801).errors.len(), 1);
        let generated = format!("//! {}\n{}", crate::codegen::MARK, "//\n".repeat(900));
        assert!(report(&generated).errors.is_empty());
    }

    #[test]
    fn long_functions_fail_wherever_they_are() {
        for (head, tail) in [
            ("fn f() {\n", "}\n"),
            ("struct S; impl S { fn f() {\n", "}}\n"),
            ("trait T { fn f() {\n", "}}\n"),
            ("mod m { fn f() {\n", "}}\n"),
        ] {
            let body = |n| format!("{head}{}{tail}", "let _ = 0;\n".repeat(n));
            assert!(report(&body(68)).errors.is_empty(), "{head}");
            assert_eq!(report(&body(69)).errors.len(), 1, "{head}");
        }
    }
}
