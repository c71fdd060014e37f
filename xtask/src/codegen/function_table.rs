//! The private table by which façades for other MPIs reach the library's functions: one list, in
//! the order of the tables, on both sides.

use std::fmt::Write as _;

use super::ctype::CType;
use super::entry::safe;
use super::header::declaration;
use super::model::{Function, Model};

/// The library's side: a table of addresses, `c-abi/src/generated/function_table.rs`.
pub fn addresses(model: &Model) -> String {
    let mut out = format!(
        "//! The table of functions for façades. {}: do not edit.\n\n\
         use std::ffi::c_void;\n\n\
         /// All functions, in the order of the tables.\n#[repr(C)]\npub struct FunctionTable {{\n\
         length: usize,\nfingerprint: u64,\nfunctions: [*const c_void; {}],\n}}\n\n\
         // SAFETY: the addresses never change.\nunsafe impl Sync for FunctionTable {{}}\n\n\
         /// What a façade looks up instead of names, which it has itself.\n\
         #[unsafe(no_mangle)]\n#[allow(non_upper_case_globals)]\n\
         pub static rejoin_mpi_functions: FunctionTable = FunctionTable {{\n\
         length: {},\nfingerprint: {:#x},\nfunctions: [\n",
        super::mark::MARK,
        model.functions.len(),
        model.functions.len(),
        fingerprint(model),
    );
    for f in &model.functions {
        let _ = writeln!(
            out,
            "super::entry_{}::P{} as *const c_void,",
            f.chapter.name, f.name
        );
    }
    out.push_str("],\n};\n");
    out
}

/// Names that a library exports and does not implement, for `rejoin doctor`: one static of names
/// that end with NUL, which is found by its own name in the library's file.
pub fn missing<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(|name| format!("{name}\\0")).collect();
    let length: usize = names.iter().map(|name| name.len() - 1).sum();
    format!(
        "/// Names of the functions that are not there yet, each with a NUL at its end.\n\
         #[unsafe(no_mangle)]\n#[allow(non_upper_case_globals)]\n\
         pub static rejoin_missing_functions: [u8; {length}] = *b\"{}\";\n",
        names.concat()
    )
}

/// The façades' side: the same table with types.
pub fn types(model: &Model) -> String {
    let mut out = format!(
        "//! The library's table of functions. {}: do not edit.\n\n\
         use std::ffi::{{c_char, c_double, c_int, c_void}};\n\n\
         use crate::abi_types::*;\n\n\
         /// What the table must say, so that it is the one that this façade was built for.\n\
         pub const LENGTH: usize = {};\n\
         /// As above.\npub const FINGERPRINT: u64 = {:#x};\n\n\
         /// All functions, in the order of the tables.\n\
         #[repr(C)]\npub struct Functions {{\n\
         /// Number of functions.\npub length: usize,\n/// Of their declarations.\npub fingerprint: u64,\n",
        super::mark::MARK,
        model.functions.len(),
        fingerprint(model),
    );
    for f in &model.functions {
        let name = f.rust_name();
        let params: Vec<String> = f
            .params
            .iter()
            .filter_map(|p| {
                Some(format!(
                    "{}: {}",
                    safe(&p.name),
                    abi_type(p.ctype.as_ref()?)
                ))
            })
            .collect();
        let _ = writeln!(
            out,
            "/// `{}`.\npub {name}: unsafe extern \"C\" fn({}) -> {},",
            f.name,
            params.join(", "),
            abi_base(&f.returns, true)
        );
    }
    out.push_str("}\n");
    out
}

/// The Rust type of a parameter in the library's table.
fn abi_type(t: &CType) -> String {
    rust_type(t, true)
}

/// The Rust type of a parameter: as the library takes it, or as the program gives it.
pub fn rust_type(t: &CType, for_library: bool) -> String {
    if t.is_callback() {
        return "*const c_void".to_owned();
    }
    let mut shape = t.clone();
    shape.base = abi_base(&t.base, for_library).to_owned();
    shape.rust()
}

fn abi_base(base: &str, for_library: bool) -> &str {
    match base {
        "MPI_Aint" => "isize",
        "MPI_Count" | "MPI_Offset" => "i64",
        "MPI_Status" if for_library => "AbiStatus",
        "MPI_Status" => "Status",
        tool if tool.starts_with("MPI_T_") => "usize",
        base if super::constants::HANDLES.contains(&base) && for_library => "AbiHandle",
        base if super::constants::HANDLES.contains(&base) => &base["MPI_".len()..],
        other => super::ctype::rust_base(other),
    }
}

/// Changes with each name and declaration (FNV-1a).
fn fingerprint(model: &Model) -> u64 {
    let text = model.functions.iter().map(declaration);
    let bytes = text.flat_map(String::into_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Whether the tables have a function of this name.
pub fn find<'a>(model: &'a Model, name: &str) -> Option<&'a Function> {
    model.functions.iter().find(|f| f.name == name)
}
