//! Messages to the user have a row in `docs/troubleshooting.md`: those of the user log, and all
//! about missing checkpoints, refusals and ends.
//!
//! The first column of the page's tables has messages in backquotes, word by word, with `…` for
//! what a format string fills in. A text of [`USER_LOG`], or a text of the product with one of
//! [`PHRASES`], must be in such a message. A message of the page must be a text of the product, or
//! hold one.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use proc_macro2::{Group, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::ratchet::Finding;
use super::source::{Source, is_test_only};

/// The page with the rows.
const PAGE: &str = "docs/troubleshooting.md";

/// What the messages say that need a row.
const PHRASES: &[&str] = &[
    "no checkpoint",
    "no checkpoints",
    "ended",
    "refused",
    "the job ends",
    "ends the job",
];

/// Files whose texts all need a row, if they have three words.
const USER_LOG: &[&str] = &[
    "managers/report/src/host_log.rs",
    "managers/report/src/user_log.rs",
    "managers/protocol/src/policy.rs",
    "managers/protocol/src/verdict.rs",
];

/// Folders of the crates whose texts users see.
const PRODUCT: &[&str] = &[
    "c-abi/",
    "channel-table/",
    "ckpt/",
    "device/",
    "facade/",
    "fortran/",
    "logging/",
    "managers/",
    "mpi/",
    "wire/",
];

/// Macros whose texts go to logs for developers, or say what never happens.
const FOR_DEVELOPERS: &[&str] = &[
    "assert",
    "assert_eq",
    "assert_ne",
    "debug",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "error",
    "info",
    "panic",
    "trace",
    "unreachable",
    "warn",
];

/// Stands for what a format string fills in.
const GAP: char = '…';

/// A text of the product's code.
struct Text {
    path: String,
    line: usize,
    /// With [`GAP`] for each placeholder, or several in a row.
    words: String,
}

/// A message in the first column of the page.
struct Entry {
    line: usize,
    words: String,
}

/// Messages without a row, and rows without a message; the key is the file.
pub fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    let page = fs::read_to_string(root.join(PAGE)).context("reading the page of messages")?;
    let entries = entries(&page);
    ensure!(!entries.is_empty(), "{PAGE} has no message in backquotes");
    let is_product = |s: &&Source| PRODUCT.iter().any(|folder| s.path.starts_with(folder));
    let mut all = Vec::new();
    for source in sources.iter().filter(is_product) {
        if !source.is_test() && !source.is_generated() {
            all.extend(texts(source));
        }
    }
    Ok(compared(&entries, &all))
}

fn compared(entries: &[Entry], texts: &[Text]) -> Vec<Finding> {
    let mut list = Vec::new();
    for text in texts.iter().filter(|t| needs_row(t)) {
        if !entries.iter().any(|e| e.words.contains(&text.words)) {
            let what = format!("{PAGE} has no row for `{}`", text.words);
            list.push(Finding::new(&text.path, &text.path, text.line, what));
        }
    }
    for entry in entries {
        let is_part = |t: &Text| {
            let holds = count(&t.words) > 1 && entry.words.contains(&t.words);
            holds || t.words.contains(&entry.words)
        };
        if !texts.iter().any(is_part) {
            let what = format!("no text of the product is `{}`", entry.words);
            list.push(Finding::new(PAGE, PAGE, entry.line, what));
        }
    }
    list
}

/// Number of words. A text with one is the name of a state or of an event.
fn count(words: &str) -> usize {
    let has_letters = |w: &&str| w.chars().any(char::is_alphabetic);
    words.split_whitespace().filter(has_letters).count()
}

fn needs_row(text: &Text) -> bool {
    let spaced = |c: char| if c.is_alphanumeric() { c } else { ' ' };
    let plain: String = text.words.chars().map(spaced).collect();
    let single: Vec<&str> = plain.split_whitespace().collect();
    let line = format!(" {} ", single.join(" "));
    let says = |phrase: &&str| line.contains(&format!(" {phrase} "));
    let of_user_log = USER_LOG.contains(&text.path.as_str()) && count(&text.words) > 2;
    of_user_log || (text.words.contains(' ') && PHRASES.iter().any(says))
}

/// The messages in backquotes in the first column of each table.
fn entries(page: &str) -> Vec<Entry> {
    let mut list = Vec::new();
    for (number, line) in page.lines().enumerate() {
        let Some(row) = line.strip_prefix("| ") else {
            continue;
        };
        let cell = row.split(" | ").next().unwrap_or_default();
        list.extend(quoted(cell).into_iter().map(|words| Entry {
            line: number + 1,
            words,
        }));
    }
    list
}

/// What stands between equal runs of backquotes.
fn quoted(cell: &str) -> Vec<String> {
    let mut list = Vec::new();
    let mut rest = cell;
    while let Some(start) = rest.find('`') {
        let behind = &rest[start..];
        let inner = behind.trim_start_matches('`');
        let mark = &behind[..behind.len() - inner.len()];
        let Some(end) = inner.find(mark) else {
            break;
        };
        list.push(inner[..end].to_owned());
        rest = &inner[end + mark.len()..];
    }
    list
}

fn texts(source: &Source) -> Vec<Text> {
    let mut literals = Literals {
        path: &source.path,
        list: Vec::new(),
    };
    literals.visit_file(&source.file);
    literals.list
}

/// Collects the string literals of a file without its tests.
struct Literals<'a> {
    path: &'a str,
    list: Vec<Text>,
}

impl Literals<'_> {
    fn note(&mut self, literal: &syn::LitStr) {
        self.list.push(Text {
            path: self.path.to_owned(),
            line: literal.span().start().line,
            words: with_gaps(&literal.value()),
        });
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) if is_documentation(&group) => {}
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    let token = TokenTree::Literal(literal).into();
                    if let Ok(literal) = syn::parse2::<syn::LitStr>(token) {
                        self.note(&literal);
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Literals<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(one) => &one.attrs,
            syn::Item::Fn(one) => &one.attrs,
            syn::Item::Impl(one) => &one.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test_only(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.note(literal);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let name = call.path.segments.last().map(|s| s.ident.to_string());
        if !name.is_some_and(|name| FOR_DEVELOPERS.contains(&name.as_str())) {
            self.tokens(call.tokens.clone());
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        // Texts of errors; documentation and options of the command line are no messages.
        if let syn::Meta::List(list) = &attribute.meta
            && list.path.is_ident("error")
        {
            self.tokens(list.tokens.clone());
        }
    }
}

/// What `///` in the call of a macro has become, behind its `#`.
fn is_documentation(group: &Group) -> bool {
    let first = group.stream().into_iter().next();
    matches!(first, Some(TokenTree::Ident(name)) if name == "doc")
}

/// The text of a format string with [`GAP`] for its placeholders.
fn with_gaps(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' | '}' if chars.peek() == Some(&c) => {
                chars.next();
                out.push(c);
            }
            '{' => {
                chars.by_ref().take_while(|c| *c != '}').for_each(drop);
                if !out.ends_with(GAP) {
                    out.push(GAP);
                }
            }
            c => out.push(c),
        }
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_TEXT: &str = "| message | meaning |\n|---|---|\n\
        | `rank …: no checkpoint, …` and `was ended` | `not here` |\n\
        | ``host `…` has ended`` | x |\n";

    fn found(code: &str) -> Vec<(String, usize)> {
        let source = Source::new("managers/src/a.rs", code).expect("the sample parses");
        let found = compared(&entries(PAGE_TEXT), &texts(&source));
        found.into_iter().map(|f| (f.path, f.line)).collect()
    }

    /// Texts with all that the page says.
    const WHOLE: &str = "fn f() { say(format!(\"rank {}: no checkpoint, {why}\", 1)); g(\"was ended\"); }\n\
        #[derive(Error)] enum E { #[error(\"host `{0}` has ended\")] A(u8) }\n";

    #[test]
    fn each_message_of_the_code_has_a_row() {
        assert_eq!(found(WHOLE), []);
        let more = "fn h() { say(\"the call is refused\"); }\n";
        let lines = found(&format!("{WHOLE}{more}"));
        assert_eq!(lines, [("managers/src/a.rs".to_owned(), 3)]);
        for exempt in [
            "fn h() { tracing::warn!(\"it has ended\"); }",
            "#[cfg(test)] mod tests { fn h() { say(\"it has ended\"); } }",
            "/// It has ended.\nfn h() { say(\"it extended\"); state(\"ended\"); }",
            "points! { /// It has ended.\nA, }",
        ] {
            assert_eq!(found(&format!("{WHOLE}{exempt}")), [], "{exempt}");
        }
    }

    #[test]
    fn each_text_of_the_user_log_has_a_row() {
        let code = format!("{WHOLE}fn h() {{ say(\"all is well\"); }}\n");
        let found = |path: &str| {
            let source = Source::new(path, &code).expect("the sample parses");
            compared(&entries(PAGE_TEXT), &texts(&source)).len()
        };
        assert_eq!(found(USER_LOG[0]), 1);
        assert_eq!(found("managers/src/a.rs"), 0);
    }

    #[test]
    fn each_row_has_a_message_of_the_code() {
        let without = WHOLE.replace("was ended", "was finished");
        assert_eq!(found(&without), [(PAGE.to_owned(), 3)]);
    }

    #[test]
    fn placeholders_become_gaps() {
        assert_eq!(with_gaps("a {} of {x:.0}{y}, {{b}}\n"), "a … of …, {b}");
    }
}
