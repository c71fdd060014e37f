//! The crates in which unsafe code may occur.

use syn::visit::{self, Visit};

use super::report::Report;
use super::source::Source;

/// Crates that need it; all others do without.
const ALLOWED: &[&str] = &[
    "ckpt/",
    "device/",
    "mpi/",
    "c-abi/",
    "facade/",
    "fortran/",
    "managers/",
    "tests/",
    "benches/",
    "fuzz/",
];

/// Crates that must say so themselves, in their root file.
const FORBID: &[&str] = &[
    "channel-table/src/lib.rs",
    "logging/src/lib.rs",
    "device/engine/src/lib.rs",
    "device/ring/src/lib.rs",
    "ckpt/image-format/src/lib.rs",
    "wire/src/lib.rs",
    "managers/protocol/src/lib.rs",
    "sim/src/lib.rs",
];

/// Checks one file.
pub fn check(source: &Source, report: &mut Report) {
    let path = source.path.as_str();
    if FORBID.contains(&path) && !forbids(&source.file) {
        let text = format!("{path}: needs #![forbid(unsafe_code)]");
        report.errors.push(text);
    }
    if ALLOWED.iter().any(|a| path.starts_with(a)) {
        return;
    }
    let mut search = Search { found: false };
    search.visit_file(&source.file);
    if search.found {
        report
            .errors
            .push(format!("{path}: unsafe code is not allowed here"));
    }
}

fn forbids(file: &syn::File) -> bool {
    file.attrs.iter().any(|a| {
        let syn::Meta::List(list) = &a.meta else {
            return false;
        };
        list.path.is_ident("forbid") && list.tokens.to_string().contains("unsafe_code")
    })
}

struct Search {
    found: bool,
}

impl<'ast> Visit<'ast> for Search {
    fn visit_expr_unsafe(&mut self, _: &'ast syn::ExprUnsafe) {
        self.found = true;
    }

    fn visit_signature(&mut self, s: &'ast syn::Signature) {
        self.found |= !matches!(s.safety, syn::Safety::Default);
        visit::visit_signature(self, s);
    }

    fn visit_item_impl(&mut self, i: &'ast syn::ItemImpl) {
        self.found |= i.unsafety.is_some();
        visit::visit_item_impl(self, i);
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
    fn unsafe_code_stays_where_it_is_allowed() {
        for text in [
            "fn f() { unsafe { g() } }",
            "unsafe fn f() {}",
            "unsafe impl Sync for S {}",
        ] {
            assert_eq!(errors("xtask/src/main.rs", text), 1, "{text}");
            assert_eq!(errors("device/src/lib.rs", text), 0, "{text}");
        }
        assert_eq!(
            errors("xtask/src/main.rs", "fn f() { let _ = \"unsafe\"; }"),
            0
        );
    }

    #[test]
    fn sans_io_crates_forbid_it() {
        let root = "device/engine/src/lib.rs";
        assert_eq!(errors(root, "//! x"), 1);
        assert_eq!(errors(root, "//! x\n#![forbid(unsafe_code)]"), 0);
        assert_eq!(errors(root, "//! x\n#![deny(unsafe_code)]"), 1);
    }
}
