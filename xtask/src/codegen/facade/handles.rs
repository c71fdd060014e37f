//! `generated/predefined.rs` of a façade whose handles are numbers: the predefined ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::tables::{Tables, standard};
use crate::codegen::constants::HANDLES;
use crate::codegen::model::Model;

/// Values of the standard ABI below this one are predefined handles.
const PREDEFINED: usize = 0x400;

/// Renders the file.
pub fn render(model: &Model, tables: &Tables) -> Result<String> {
    let mut out = format!(
        "//! Predefined handles. {}: do not edit.\n\n\
         use rejoin_facade::handle_kinds::*;\n\n\
         /// The standard ABI's value of a predefined handle of the program.\n\
         #[inline]\npub const fn predefined_in(kind: u8, value: u32) -> Option<usize> {{\n\
         Some(match kind {{\n",
        crate::codegen::MARK
    );
    let mut back: BTreeMap<i64, (u32, &str)> = BTreeMap::new();
    let mut by_kind: BTreeMap<&str, Vec<(u32, i64, &str)>> = BTreeMap::new();
    for n in &tables.numbers {
        let constant = model.constants.iter().find(|c| c.name == n.name);
        let kind = constant.map(|c| c.ctype.as_str());
        let kind = kind.filter(|k| HANDLES.contains(k));
        let kind = kind.with_context(|| format!("handles.tsv: {} is no handle", n.name))?;
        let value = standard(model, &n.name)?;
        by_kind
            .entry(kind)
            .or_default()
            .push((n.value, value, &n.name));
        back.insert(value, (n.value, &n.name));
    }
    for (kind, rows) in by_kind {
        writeln!(
            out,
            "{} => match value {{",
            kind["MPI_".len()..].to_uppercase()
        )?;
        for (theirs, ours, name) in rows {
            writeln!(out, "// {name}\n{theirs:#010x} => {ours:#x},")?;
        }
        out.push_str("_ => return None,\n},\n");
    }
    writeln!(
        out,
        "_ => return None,\n}})\n}}\n\n\
         /// The program's handles by their values in the standard ABI; some of these have none (0).\n\
         pub static PREDEFINED: [u32; {PREDEFINED}] = {{\nlet mut table = [0; {PREDEFINED}];"
    )?;
    for (value, (theirs, name)) in back {
        writeln!(out, "// {name}\ntable[{value:#x}] = {theirs:#010x};")?;
    }
    out.push_str("table\n};\n");
    Ok(out)
}
