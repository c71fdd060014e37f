//! The functions of C that the library calls, and its own: `generated/plain_entries.rs` has those
//! of `mpif.h` and the module `mpi`, and those of `mpi_f08` without choice buffers, and
//! `generated/choice_entries.rs` the others.

use std::fmt::Write as _;

use super::argument::Shape;
use super::bodies::{Body, BufferForm};
use super::selection::{self, Selected};
use crate::codegen::constants::HANDLES;
use crate::codegen::ctype::{CType, rust_base};
use crate::codegen::entry::safe;
use crate::codegen::mark::MARK;
use crate::codegen::model::{Function, Model};

/// The module of the generated files.
pub fn module() -> String {
    format!(
        "//! {MARK}: do not edit.\n\npub mod c_functions;\nmod choice_entries;\nmod plain_entries;\n"
    )
}

/// The head of a file with entries.
fn head(what: &str, uses: &[&str]) -> String {
    format!(
        "//! {what}. {MARK}: do not edit.\n\n\
         #![allow(unused_imports, clippy::too_many_arguments, clippy::unnecessary_cast)]\n\n\
         use std::ffi::{{c_char, c_int, c_void}};\n\n\
         use rejoin_fortran_arguments::*;\n\n\
         use super::c_functions::*;\nuse crate::fortran_export::*;\nuse crate::fortran_handles::*;\n\
         use crate::late_handles::give_late_handles;\nuse crate::logicals::*;\n\
         use crate::sentinels::*;\n{}\n\n",
        uses.join("\n")
    )
}

/// Renders `plain_entries.rs`.
pub fn plain(model: &Model) -> String {
    let mut out = head("Functions without descriptors", &[]);
    for s in selection::select(model).iter().filter(|s| !s.is_by_hand()) {
        let names = names(s);
        if names.is_empty() {
            continue;
        }
        let list = |prefix: &str| {
            let names: Vec<_> = names.iter().map(|n| format!("{prefix}{n}")).collect();
            names.join(" ")
        };
        let name = &s.function.name;
        let (parameters, body) = match Body::of(s, BufferForm::Address) {
            Some(body) => (body.parameters(), body.statements()),
            None => lacking(s),
        };
        let mut put = |plain: &str, profiling: &str| {
            let _ = writeln!(
                out,
                "fortran! {{ [{plain}] [{profiling}] {name} P{name} |call| ({parameters}) {{\n{body}}} }}\n"
            );
        };
        put(&list(""), &list("p"));
        // The module `mpi` has the same with a C pointer, whose place is that of the address.
        if s.is_in_mpi() && s.arguments.iter().any(|a| a.shape == Shape::Address) {
            let lower = s.lower();
            put(&format!("{lower}_cptr_"), &format!("p{lower}_cptr_"));
        }
    }
    out
}

/// Renders `choice_entries.rs`.
pub fn with_choice(model: &Model) -> String {
    let mut out = head(
        "Functions of `mpi_f08` with choice buffers",
        &[
            "use crate::section_plan::BufferLayout;",
            "use crate::sections::*;",
        ],
    );
    let all = selection::select(model);
    for s in all.iter().filter(|s| s.is_in_f08() && s.has_choice()) {
        let lower = s.lower();
        let Some(body) = Body::of(s, BufferForm::Descriptor) else {
            continue;
        };
        let _ = writeln!(
            out,
            "fortran! {{ [{lower}_f08ts_] [p{lower}_f08ts_] {name} P{name} |call| ({parameters}) \
             {{\n{body}}} }}\n",
            name = s.function.name,
            parameters = body.parameters(),
            body = body.statements(),
        );
    }
    out
}

/// The forms of a function that have the same arguments.
fn names(s: &Selected<'_>) -> Vec<String> {
    let lower = s.lower();
    let mut names = Vec::new();
    if s.is_in_mpi() {
        names.push(format!("{lower}_"));
    }
    if s.is_in_f08() && !s.has_choice() {
        names.push(format!("{lower}_f08_"));
    }
    names
}

/// A function that is not there: its parameters count for the place of the error code only.
fn lacking(s: &Selected<'_>) -> (String, String) {
    let mut parameters: Vec<_> = s
        .arguments
        .iter()
        .map(|a| format!("_{}: *const c_void", a.name))
        .collect();
    parameters.push("ierror: *mut c_int".to_owned());
    let body = format!(
        "    let _ = call;\n    lacks({:?}, ierror);\n",
        s.function.name
    );
    (parameters.join(", "), body)
}

/// Renders `c_functions.rs`.
pub fn c_functions(model: &Model) -> String {
    let mut out = format!(
        "//! The functions of the standard ABI. {MARK}: do not edit.\n\n\
         #![allow(dead_code, missing_docs)]\n\n\
         use std::ffi::{{c_char, c_int, c_void}};\n\n\
         use crate::fortran_handles::{{CHandle, CStatus}};\n\nunsafe extern \"C\" {{\n"
    );
    let is_declared = |f: &&Function| !f.is_tool();
    for f in model.standard().filter(is_declared) {
        let parameters: Vec<_> = f
            .params
            .iter()
            .map(|p| match &p.ctype {
                Some(t) => format!("{}: {}", safe(&p.name), c_type(t)),
                None => "...".to_owned(),
            })
            .collect();
        for prefix in ["", "P"] {
            let _ = writeln!(
                out,
                "pub fn {prefix}{}({}) -> {};",
                f.name,
                parameters.join(", "),
                c_base(&f.returns)
            );
        }
    }
    out.push_str("}\n");
    out
}

fn c_type(t: &CType) -> String {
    if t.is_callback() {
        return "*const c_void".to_owned();
    }
    let mut shape = t.clone();
    shape.base = c_base(&t.base).to_owned();
    shape.rust()
}

fn c_base(base: &str) -> &str {
    match base {
        "MPI_Aint" => "isize",
        "MPI_Count" | "MPI_Offset" => "i64",
        "MPI_Status" => "CStatus",
        "double" => "f64",
        base if HANDLES.contains(&base) => "CHandle",
        other => rust_base(other),
    }
}
