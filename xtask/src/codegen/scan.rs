//! Finds the implementations that people wrote in `c-abi/src/functions`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use super::model::{Function, Model};

/// Where an implementation is: the function's Rust name and its path, such as
/// `functions::p2p::send`.
pub type Found = BTreeMap<String, String>;

/// Scans all sources under `folder`. A public function with the name of an MPI function implements
/// it if its first parameter is called `mpi`, or if the MPI function returns a plain value. An
/// error names a function that is implemented twice or has a wrong number of parameters.
pub fn implementations(folder: &Path, model: &Model) -> Result<Found> {
    let wanted: BTreeMap<String, &Function> =
        model.functions.iter().map(|f| (f.rust_name(), f)).collect();
    let mut found = Found::new();
    visit(folder, "functions", &mut |path, source| {
        for Candidate { name, shape } in candidates(source)? {
            let Some(function) = wanted.get(&name) else {
                continue;
            };
            if let Some((parameters, takes_mpi)) = shape {
                if !takes_mpi && !function.returns_value() {
                    continue;
                }
                let declared = function.params.iter().filter(|p| p.ctype.is_some()).count();
                let expected = declared + usize::from(takes_mpi);
                ensure!(
                    parameters == expected,
                    "{path}::{name} has {parameters} parameters, {} needs {expected}",
                    function.name
                );
            }
            if let Some(other) = found.insert(name.clone(), format!("{path}::{name}")) {
                bail!(
                    "{} is implemented twice: {other} and {path}::{name}",
                    function.name
                );
            }
        }
        Ok(())
    })?;
    Ok(found)
}

fn visit(
    folder: &Path,
    module: &str,
    each: &mut dyn FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(|e| e.file_name());
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            visit(&path, &format!("{module}::{name}"), each)?;
        } else if let Some(stem) = name.strip_suffix(".rs") {
            let module = match stem {
                "mod" => module.to_owned(),
                stem => format!("{module}::{stem}"),
            };
            let source = fs::read_to_string(&path)?;
            each(&module, &source).with_context(|| format!("in {}", path.display()))?;
        }
    }
    Ok(())
}

/// Something that may be an implementation.
#[derive(Debug, PartialEq, Eq)]
struct Candidate {
    name: String,
    /// Number of parameters and whether the first is `mpi`; unknown for functions that a macro
    /// makes.
    shape: Option<(usize, bool)>,
}

/// The public functions at the top of a source, and all names in its macro calls there.
fn candidates(source: &str) -> Result<Vec<Candidate>> {
    let file = syn::parse_file(source)?;
    let mut list = Vec::new();
    for item in file.items {
        match item {
            syn::Item::Fn(f) if !matches!(f.vis, syn::Visibility::Inherited) => {
                list.push(Candidate {
                    name: f.sig.ident.to_string(),
                    shape: Some((f.sig.inputs.len(), takes_mpi(&f.sig))),
                });
            }
            // A definition (`macro_rules! name`) has a name, a call has none.
            syn::Item::Macro(m) if m.ident.is_none() => names(m.mac.tokens, &mut list),
            _ => {}
        }
    }
    Ok(list)
}

fn takes_mpi(signature: &syn::Signature) -> bool {
    match signature.inputs.first() {
        Some(syn::FnArg::Typed(arg)) => match &*arg.pat {
            syn::Pat::Ident(p) => p.ident.to_string().trim_start_matches('_') == "mpi",
            _ => false,
        },
        _ => false,
    }
}

fn names(tokens: proc_macro2::TokenStream, list: &mut Vec<Candidate>) {
    for token in tokens {
        match token {
            proc_macro2::TokenTree::Ident(name) => list.push(Candidate {
                name: name.to_string(),
                shape: None,
            }),
            proc_macro2::TokenTree::Group(group) => names(group.stream(), list),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_functions_and_names_in_macro_calls_count() {
        let found = candidates(
            "pub unsafe fn send(mpi: &Mpi, a: i32) {}\nfn recv(mpi: &Mpi) {}\npub fn helper(x: u8) {}\n\
             pub fn init(_mpi: &Mpi) {}\nmacro_rules! make { (wait) => {} }\nmake! { bcast(gather) }",
        )
        .expect("the sample parses");
        let found: Vec<_> = found.iter().map(|c| (c.name.as_str(), c.shape)).collect();
        assert_eq!(
            found,
            [
                ("send", Some((2, true))),
                ("helper", Some((1, false))),
                ("init", Some((1, true))),
                ("bcast", None),
                ("gather", None)
            ]
        );
    }
}
