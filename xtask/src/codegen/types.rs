//! `generated/types.rs`.

use std::fmt::Write as _;

use anyhow::Result;

use super::constants::{HANDLES, TOOL_ENUMS, TOOL_HANDLES};
use super::ctype::rust_base;
use super::model::{Callback, Model};

/// Renders the file.
pub fn render(model: &Model) -> Result<String> {
    let mut out = format!(
        "//! C types of the MPI-5.0 standard ABI. {}: do not edit.\n\n\
         #![allow(dead_code, non_camel_case_types, non_snake_case)]\n\n\
         use std::ffi::{{c_int, c_void}};\n\n",
        super::mark::MARK
    );
    out.push_str(
        "/// An address or a difference of addresses (MPI-5.0 §2.5.6).\npub type MPI_Aint = isize;\n\
         /// A count of anything (MPI-5.0 §2.5.8).\npub type MPI_Count = i64;\n\
         /// A file offset (MPI-5.0 §2.5.7).\npub type MPI_Offset = i64;\n\n\
         /// What a receive found (MPI-5.0 §3.2.5). The layout is the ABI's.\n\
         #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\n#[repr(C)]\npub struct MPI_Status {\n\
         /// Rank of the sender.\npub MPI_SOURCE: c_int,\n/// Tag of the message.\npub MPI_TAG: c_int,\n\
         /// Error code, of calls that give several statuses.\npub MPI_ERROR: c_int,\n\
         /// Private to the library.\npub MPI_internal: [c_int; 5],\n}\n\n",
    );
    for name in HANDLES.iter().chain(&TOOL_HANDLES) {
        let structure = format!("MPI_ABI_{}", &name["MPI_".len()..]);
        write!(
            out,
            "/// A handle: in C a pointer to the incomplete `struct {structure}`, never followed.\n\
             #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\n\
             #[repr(transparent)]\npub struct {name}(pub usize);\n\n"
        )?;
    }
    for name in TOOL_ENUMS {
        writeln!(
            out,
            "/// An enumeration of the tools' interface.\npub type {name} = c_int;\n"
        )?;
    }
    for callback in &model.callbacks {
        callback_type(&mut out, callback)?;
    }
    Ok(out)
}

fn callback_type(out: &mut String, c: &Callback) -> Result<()> {
    if c.alias.is_some() {
        return Ok(());
    }
    let params: Vec<String> = c
        .params
        .iter()
        .map(|p| match &p.ctype {
            Some(t) => format!("{}: {}", p.name, t.rust()),
            None => "...".to_owned(),
        })
        .collect();
    let returns = match c.returns.as_str() {
        "void" => String::new(),
        other => format!(" -> {}", rust_base(other)),
    };
    writeln!(
        out,
        "/// A function of the program.\npub type {} = unsafe extern \"C\" fn({}){returns};\n",
        c.name,
        params.join(", ")
    )?;
    Ok(())
}
