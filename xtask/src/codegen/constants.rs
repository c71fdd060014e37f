//! `generated/constants.rs`.

use std::fmt::Write as _;

use anyhow::{Result, bail};

use super::model::{Constant, Model};

/// The handle types, as `MPI_X`.
pub const HANDLES: [&str; 11] = [
    "MPI_Op",
    "MPI_Comm",
    "MPI_Group",
    "MPI_Win",
    "MPI_File",
    "MPI_Session",
    "MPI_Message",
    "MPI_Info",
    "MPI_Errhandler",
    "MPI_Request",
    "MPI_Datatype",
];

/// The handle types of the tools' interface.
pub const TOOL_HANDLES: [&str; 6] = [
    "MPI_T_enum",
    "MPI_T_cvar_handle",
    "MPI_T_pvar_handle",
    "MPI_T_pvar_session",
    "MPI_T_event_registration",
    "MPI_T_event_instance",
];

/// The C enumerations of the tools' interface.
pub const TOOL_ENUMS: [&str; 2] = ["MPI_T_cb_safety", "MPI_T_source_order"];

/// Renders the file.
pub fn render(model: &Model) -> Result<String> {
    let mut out = format!(
        "//! Constants of the MPI-5.0 standard ABI. {}: do not edit.\n\n\
         #![allow(dead_code, missing_docs)]\n\n\
         use std::ffi::{{c_char, c_int, c_void}};\nuse std::ptr::without_provenance_mut;\n\n\
         use rejoin_mpi::ErrorClass;\n\nuse super::types::*;\n\n",
        super::mark::MARK
    );
    for constant in &model.constants {
        writeln!(out, "{}", constant_line(model, constant)?)?;
    }
    names(&mut out, model)?;
    classes(&mut out, model)?;
    Ok(out)
}

fn constant_line(model: &Model, c: &Constant) -> Result<String> {
    let Constant { name, ctype, value } = c;
    if ctype == "alias" {
        let Some(target) = model.constants.iter().find(|t| t.name == *value) else {
            bail!("{name} stands for an unknown constant {value}");
        };
        return Ok(format!("pub const {name}: {} = {value};", target.ctype));
    }
    let is_handle = |t: &str| HANDLES.contains(&t) || TOOL_HANDLES.contains(&t);
    Ok(match ctype.as_str() {
        t if is_handle(t) => format!("pub const {name}: {t} = {t}({value});"),
        t if TOOL_ENUMS.contains(&t) => format!("pub const {name}: {t} = {value};"),
        "int" => format!("pub const {name}: c_int = {value};"),
        "MPI_Offset" => format!("pub const {name}: MPI_Offset = {value};"),
        "void*" => pointer(name, "c_void", value),
        "int*" => pointer(name, "c_int", value),
        "MPI_Status*" => pointer(name, "MPI_Status", value),
        "char**" => pointer(name, "*mut c_char", value),
        "char***" => pointer(name, "*mut *mut c_char", value),
        t if t.ends_with("function*") || t.ends_with("function_c*") => {
            format!("pub const {name}: usize = {value};")
        }
        other => bail!("{name} has a type that the generator does not know: {other}"),
    })
}

fn pointer(name: &str, target: &str, value: &str) -> String {
    format!("pub const {name}: *mut {target} = without_provenance_mut({value});")
}

/// Names of the predefined handles, for messages.
fn names(out: &mut String, model: &Model) -> Result<()> {
    let mut list: Vec<(u64, &str)> = Vec::new();
    for c in &model.constants {
        if HANDLES.contains(&c.ctype.as_str()) {
            let digits = c.value.trim_start_matches("0x");
            list.push((u64::from_str_radix(digits, 16)?, &c.name));
        }
    }
    list.sort_unstable();
    out.push_str("\n/// Predefined handle values and their names, sorted.\npub const HANDLE_NAMES: &[(usize, &str)] = &[\n");
    for (value, name) in list {
        writeln!(out, "({value:#x}, \"{name}\"),")?;
    }
    out.push_str("];\n");
    Ok(())
}

/// The number of each error class, and the way back.
fn classes(out: &mut String, model: &Model) -> Result<()> {
    let classes: Vec<(&str, String)> = model
        .constants
        .iter()
        .filter(|c| c.name.starts_with("MPI_ERR_") && c.name != "MPI_ERR_LASTCODE")
        .map(|c| (c.name.as_str(), camel(&c.name["MPI_ERR_".len()..])))
        .collect();
    out.push_str("\n/// The ABI's number of an error class.\npub const fn class_number(class: ErrorClass) -> c_int {\nmatch class {\n");
    for (name, variant) in &classes {
        writeln!(out, "ErrorClass::{variant} => {name},")?;
    }
    out.push_str("}\n}\n\n/// Numbers and names of the predefined error classes.\npub const CLASS_NAMES: &[(c_int, &str)] = &[(MPI_SUCCESS, \"MPI_SUCCESS\"),\n");
    for c in &model.constants {
        let is_class = c.name.starts_with("MPI_ERR_") || c.name.starts_with("MPI_T_ERR_");
        if is_class && c.name != "MPI_ERR_LASTCODE" {
            writeln!(out, "({0}, \"{0}\"),", c.name)?;
        }
    }
    out.push_str("];\n");
    Ok(())
}

fn camel(upper: &str) -> String {
    upper
        .split('_')
        .map(|word| {
            let (first, rest) = word.split_at(1);
            format!("{first}{}", rest.to_lowercase())
        })
        .collect()
}
