//! `generated/entry_*.rs`: the exported functions, one file for each chapter of the standard.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, bail};

use super::ctype::{CType, rust_base};
use super::header::declaration;
use super::model::{Function, Model, Param};
use super::scan::Found;

/// The function's implementation, if it exists: its own or that of the pair.
pub fn implementation<'a>(model: &Model, f: &Function, found: &'a Found) -> Option<&'a String> {
    found.get(&f.rust_name()).or_else(|| {
        let base = model.base_form(f)?;
        found.get(&base.rust_name())
    })
}

/// `generated/mod.rs`.
pub fn module<'a>(files: impl Iterator<Item = &'a str>) -> String {
    let mut out = format!(
        "//! {}: do not edit.\n\npub mod constants;\n",
        super::mark::MARK
    );
    for file in files {
        let _ = writeln!(out, "mod entry_{file};");
    }
    out.push_str("mod function_table;\npub mod types;\n");
    out
}

/// All entry files: name and text.
pub fn render(model: &Model, found: &Found) -> Result<Vec<(String, String)>> {
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for f in &model.functions {
        let text = files.entry(f.chapter.name).or_insert_with(|| {
            format!(
                "//! Entry points. {}: do not edit.\n\n\
                 #![allow(non_snake_case, unused_variables, unused_unsafe, unused_imports)]\n\
                 #![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]\n\n\
                 use std::ffi::{{c_char, c_double, c_int, c_void}};\n\n\
                 use super::types::*;\nuse crate::callback::*;\nuse crate::counts::*;\n\
                 use crate::entry_call::{{EntryPoint, Phase}};\nuse crate::enter::{{enter, missing, missing_tool}};\n\
                 use crate::errors::ErrorOwner;\nuse crate::functions;\nuse crate::handles::HandleKind;\n\n",
                super::mark::MARK
            )
        });
        text.push_str(&function(model, f, found)?);
    }
    Ok(files
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text))
        .collect())
}

/// The exported pair `MPI_X` and `PMPI_X`. The first of an int and `_c` pair also gets their shared
/// part.
fn function(model: &Model, f: &Function, found: &Found) -> Result<String> {
    let rust = f.rust_name();
    if f.returns_value() {
        let Some(path) = found.get(&rust) else {
            bail!("{} returns a value and must be implemented", f.name);
        };
        return Ok(export(f, &format!("crate::{path}({})", names(f))));
    }
    let own = found.get(&rust);
    let base = model.base_form(f).filter(|_| own.is_none());
    let body = match (own, base.and_then(|b| found.get(&b.rust_name()))) {
        (None, None) => missing(f),
        (None, Some(_)) => {
            let base = base.unwrap_or(f);
            format!("shared_{}({})", base.rust_name(), converted(f, base)?)
        }
        (Some(path), _) => {
            let large = model
                .large_form(f)
                .filter(|l| !found.contains_key(&l.rust_name()));
            return own_entry(f, large, path);
        }
    };
    Ok(export(f, &body))
}

/// Functions with a fast path beside the implementation, `…_fast_path`. It does all of a simple
/// call, or nothing.
const FAST_PATH: [&str; 9] = [
    "MPI_Allgather",
    "MPI_Allreduce",
    "MPI_Alltoall",
    "MPI_Bcast",
    "MPI_Exscan",
    "MPI_Recv",
    "MPI_Reduce",
    "MPI_Scan",
    "MPI_Send",
];

/// The shared part of an implemented pair, and the exports of its int form.
fn own_entry(f: &Function, large: Option<&Function>, path: &str) -> Result<String> {
    let mut declared = Vec::new();
    for (i, p) in real(f).enumerate() {
        let own = ctype(p)?;
        let shared = match large {
            Some(l) => own.shared(ctype(&l.params[i])?)?,
            None => own.rust(),
        };
        declared.push(format!("{}: {shared}", safe(&p.name)));
    }
    let all = names(f);
    let comma = if all.is_empty() { "" } else { ", " };
    let (rust, declared, call) = (f.rust_name(), declared.join(", "), call(f));
    let slow = format!(
        "// SAFETY: the program keeps MPI's rules for the arguments.\n\
         enter(&const {{ {call} }}, {}, |mpi| unsafe {{ crate::{path}(mpi{comma}{all}) }})",
        owner(f),
    );
    let shared = if FAST_PATH.contains(&f.name.as_str()) {
        format!(
            "#[inline]\nunsafe fn shared_{rust}({declared}) -> c_int {{\n\
             // SAFETY: the program keeps MPI's rules for the arguments.\n\
             if let Some(code) = unsafe {{ crate::{path}_fast_path(&const {{ {call} }}, {all}) }} {{\n\
             return code;\n}}\n\
             // SAFETY: as above.\n\
             unsafe {{ slow_{rust}({all}) }}\n}}\n\n\
             #[inline(never)]\nunsafe fn slow_{rust}({declared}) -> c_int {{\n{slow}\n}}\n\n"
        )
    } else {
        format!("#[inline]\nunsafe fn shared_{rust}({declared}) -> c_int {{\n{slow}\n}}\n\n")
    };
    let arguments = match large {
        Some(l) => converted(f, l)?,
        None => all,
    };
    let body = format!("shared_{}({arguments})", f.rust_name());
    Ok(shared + &export(f, &body))
}

fn export(f: &Function, body: &str) -> String {
    let params: Vec<String> = real(f)
        .map(|p| {
            let rust = p.ctype.as_ref().map(CType::rust).unwrap_or_default();
            format!("{}: {rust}", safe(&p.name))
        })
        .collect();
    let params = params.join(", ");
    let returns = rust_base(&f.returns);
    let mut out = String::new();
    for (prefix, doc) in [
        ("", declaration(f)),
        ("P", format!("`{}` under its profiling name", f.name)),
    ] {
        let doc = if prefix.is_empty() {
            format!("`{}`", doc.trim_end_matches(';'))
        } else {
            doc
        };
        let _ = write!(
            out,
            "/// {doc}.\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {prefix}{}({params}) -> \
             {returns} {{\n// SAFETY: the program keeps MPI's rules for the arguments.\n\
             unsafe {{ {body} }}\n}}\n\n",
            f.name
        );
    }
    out
}

fn missing(f: &Function) -> String {
    if f.is_tool() {
        return format!("missing_tool(\"{}\")", f.name);
    }
    format!("missing(&const {{ {} }}, {})", call(f), owner(f))
}

fn call(f: &Function) -> String {
    let phase = if any_phase(&f.name) { "Any" } else { "Running" };
    let always = any_phase(&f.name)
        || real(f).any(|p| {
            p.ctype.as_ref().is_some_and(|t| {
                matches!(
                    t.base.as_str(),
                    "MPI_Info" | "MPI_Errhandler" | "MPI_Session"
                )
            })
        });
    format!("EntryPoint::new(\"{}\", Phase::{phase}, {always})", f.name)
}

/// Functions that may be called before initialisation and after finalisation (MPI-5.0 §11.4.1), and
/// those that check the state themselves.
fn any_phase(name: &str) -> bool {
    let Some(name) = name.strip_prefix("MPI_") else {
        return name.ends_with("egister_region");
    };
    let prefixes = [
        "T_",
        "Abi_",
        "Info_",
        "Session_",
        "Error_",
        "Add_error_",
        "Remove_error_",
    ];
    prefixes.iter().any(|p| name.starts_with(p))
        || name.ends_with("_create_errhandler")
        || matches!(
            name,
            "Init" | "Init_thread" | "Initialized" | "Finalized" | "Abort" | "Get_version"
        )
        || matches!(name, "Get_library_version" | "Errhandler_free" | "Pcontrol")
        || name == "Errhandler_create"
        || name.starts_with("Status_get_")
        || matches!(
            name,
            "Status_set_source" | "Status_set_tag" | "Status_set_error"
        )
}

/// Whose error handler a failing call goes to: the first communicator, window, file or session.
fn owner(f: &Function) -> String {
    // Extensions report their errors to the caller, so that the program decides.
    if f.is_tool() || f.is_extension() {
        return "ErrorOwner::Tool".to_owned();
    }
    // Without a file handle, errors of files go to the files' default handler (MPI-5.0 §14.7).
    let before_open = ["MPI_File_open", "MPI_File_delete", "MPI_Register_datarep"];
    if before_open.contains(&f.name.trim_end_matches("_c")) {
        return "ErrorOwner::of(super::constants::MPI_FILE_NULL)".to_owned();
    }
    // An object that a constructor makes without a parent has the handler that the constructor
    // gets.
    match f.name.as_str() {
        "MPI_Session_init" => {
            return "ErrorOwner::Made(HandleKind::Session, errhandler)".to_owned();
        }
        "MPI_Comm_create_from_group" | "MPI_Intercomm_create_from_groups" => {
            return "ErrorOwner::Made(HandleKind::Comm, errhandler)".to_owned();
        }
        _ => {}
    }
    let kinds = ["MPI_Win", "MPI_File", "MPI_Comm", "MPI_Session"];
    for kind in kinds {
        for p in real(f) {
            let Some(t) = p.ctype.as_ref().filter(|t| t.base == kind) else {
                continue;
            };
            let freed = ["_free", "_close", "_disconnect", "_finalize"];
            if t.is_scalar() {
                return format!("ErrorOwner::of({})", safe(&p.name));
            }
            if t.pointers == 1 && freed.iter().any(|s| f.name.ends_with(s)) {
                return format!("ErrorOwner::at({})", safe(&p.name));
            }
        }
    }
    "ErrorOwner::None".to_owned()
}

/// The arguments of `f` as its pair's shared function takes them.
fn converted(f: &Function, twin: &Function) -> Result<String> {
    let mut list = Vec::new();
    for (p, q) in real(f).zip(real(twin)) {
        let (own, other) = (ctype(p)?, ctype(q)?);
        let shared = own.shared(other).or_else(|_| other.shared(own))?;
        let name = safe(&p.name);
        list.push(if own == other || own.rust() == shared {
            name
        } else if own.is_scalar() && own.base == "MPI_Aint" {
            format!("{name} as MPI_Count")
        } else {
            format!("{name}.into()")
        });
    }
    Ok(list.join(", "))
}

fn real(f: &Function) -> impl Iterator<Item = &Param> {
    f.params.iter().filter(|p| p.ctype.is_some())
}

fn names(f: &Function) -> String {
    real(f)
        .map(|p| safe(&p.name))
        .collect::<Vec<_>>()
        .join(", ")
}

fn ctype(p: &Param) -> Result<&CType> {
    match &p.ctype {
        Some(t) => Ok(t),
        None => bail!("a variadic parameter has no type"),
    }
}

/// The parameter's name, made legal in Rust.
pub fn safe(name: &str) -> String {
    match name {
        "type" | "fn" | "in" | "ref" | "move" => format!("{name}_"),
        other => other.to_owned(),
    }
}
