//! `generated/predefined.rs` of a façade whose handles are addresses: the predefined objects, which
//! programs name as data.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};

use super::tables::{Tables, standard};
use crate::codegen::constants::HANDLES;
use crate::codegen::model::Model;

/// Values below this one are predefined handles.
const PREDEFINED: usize = 0x400;

/// Renders the file.
pub fn render(model: &Model, tables: &Tables) -> Result<String> {
    let mut out = format!(
        "//! Predefined objects under Open MPI's names. {}: do not edit.\n\n\
         #![allow(non_upper_case_globals, missing_docs)]\n\n\
         use std::ffi::c_int;\n\n\
         use crate::predefined_objects::{{ObjectAddress, Object, object}};\n\n",
        crate::codegen::MARK
    );
    let datatype_null = standard(model, "MPI_DATATYPE_NULL")?;
    let kind = |name: &str| {
        let constant = model.constants.iter().find(|c| c.name == name);
        constant
            .map(|c| c.ctype.as_str())
            .filter(|t| HANDLES.contains(t))
    };
    let mut predefined: BTreeMap<i64, &str> = BTreeMap::new();
    let mut numbers: BTreeMap<&str, BTreeMap<usize, &str>> = BTreeMap::new();
    for o in &tables.objects {
        let symbol = o.symbol.as_str();
        let (value, kind) = match &o.name {
            Some(name) => {
                let kind = kind(name).with_context(|| format!("{symbol}: {name} is no handle"))?;
                let value = standard(model, name)?;
                if o.fortran.is_some() || !predefined.contains_key(&value) {
                    predefined.insert(value, symbol);
                }
                (value, kind)
            }
            // Only datatypes lack a counterpart.
            None => (datatype_null, "MPI_Datatype"),
        };
        if let Some(number) = o.fortran {
            numbers.entry(kind).or_default().insert(number, symbol);
        }
        let words = o.bytes / 8 - 2;
        writeln!(
            out,
            "#[unsafe(no_mangle)]\npub static {symbol}: Object<{words}> = object({value:#x}, {});\n",
            o.fortran.unwrap_or(0)
        )?;
    }
    writeln!(
        out,
        "/// The objects by their handles in the standard ABI; some of these have none.\n\
         pub static PREDEFINED: [ObjectAddress; {PREDEFINED}] = {{\n\
         let mut table = [ObjectAddress::NONE; {PREDEFINED}];"
    )?;
    for (value, symbol) in &predefined {
        writeln!(out, "table[{value:#x}] = ObjectAddress::of(&{symbol});")?;
    }
    out.push_str("table\n};\n\n");
    let all = tables.objects.iter().map(|o| o.symbol.as_str());
    list(&mut out, "All objects", "OBJECTS", all)?;
    for kind in HANDLES {
        let of_kind = numbers.get(kind).cloned().unwrap_or_default();
        ensure!(
            of_kind.keys().copied().eq(0..of_kind.len()),
            "{kind}: a Fortran integer is missing"
        );
        list(
            &mut out,
            "The objects by their integers in Fortran",
            &format!("FORTRAN_{}", kind["MPI_".len()..].to_uppercase()),
            of_kind.into_values(),
        )?;
    }
    module_constants(&mut out, tables)?;
    Ok(out)
}

/// Constants of the module `mpi_f08` that have no counterpart in the standard, or are further names
/// of others, with their integers in Fortran.
const MORE_OF_2008: [(&str, usize); 8] = [
    ("mpi_2complex", 26),
    ("mpi_2double_complex", 27),
    ("mpi_c_complex", 69),
    ("mpi_c_float_complex", 69),
    ("mpi_cxx_complex", 55),
    ("mpi_lb", 4),
    ("mpi_long_long_int", 43),
    ("mpi_ub", 3),
];

/// The handles that Open MPI's module `mpi_f08` exports as variables: each holds the object's
/// integer in Fortran.
fn module_constants(out: &mut String, tables: &Tables) -> Result<()> {
    let named = tables.objects.iter();
    let named = named.filter_map(|o| Some((o.name.as_ref()?.to_lowercase(), o.fortran?)));
    let more = MORE_OF_2008.map(|(name, number)| (name.to_owned(), number));
    let all: BTreeMap<_, _> = named.chain(more).collect();
    for (name, number) in all {
        // The names of the module's variables, and those of what they are bound to.
        let bound = name.strip_suffix("_t").unwrap_or(&name);
        for symbol in [
            format!("__mpi_f08_types_MOD_{name}"),
            format!("ompi_f08_{bound}"),
        ] {
            writeln!(
                out,
                "#[unsafe(no_mangle)]\npub static {symbol}: c_int = {number};\n"
            )?;
        }
    }
    Ok(())
}

fn list<'a>(
    out: &mut String,
    doc: &str,
    name: &str,
    symbols: impl Iterator<Item = &'a str>,
) -> Result<()> {
    let addresses = symbols.map(|s| format!("ObjectAddress::of(&{s})"));
    let addresses: Vec<String> = addresses.collect();
    writeln!(
        out,
        "/// {doc}.\npub static {name}: [ObjectAddress; {}] = [{}];\n",
        addresses.len(),
        addresses.join(", ")
    )?;
    Ok(())
}
