//! `generated/conversions.rs`: integers of another MPI to those of the standard ABI, and back.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;

use super::flavour::Facade;
use super::tables::standard;

/// Families that functions written for all façades use.
const SHARED: [&str; 10] = [
    "error",
    "rank",
    "tag",
    "thread",
    "keyval",
    "distribution",
    "darg",
    "order",
    "flavor out",
    "model out",
];

/// Renders the file.
pub fn render(facade: &Facade) -> Result<String> {
    let Facade { model, tables, .. } = facade;
    let mpi = facade.flavour.mpi;
    let mut out = format!(
        "//! Integers of {mpi} and of the standard ABI. {}: do not edit.\n\n#![allow(dead_code)]\n\n",
        crate::codegen::MARK
    );
    let families: BTreeSet<&str> = tables.values.iter().map(|v| v.family.as_str()).collect();
    for family in families {
        let of_family = tables.values.iter().filter(|v| v.family == family);
        let rows = of_family
            .map(|v| Ok((v.value, standard(model, &v.name)?, v.name.as_str())))
            .collect::<Result<Vec<_>>>()?;
        match family.split_once(' ') {
            Some((name, "bits")) => bits(&mut out, name, &rows)?,
            // One way only: rows of the family itself say the way back.
            Some(_) => {}
            None if family == "same" || family == "text" => limits(&mut out, mpi, &rows)?,
            None => {
                let one_way = format!("{family} out");
                let one_way = tables.values.iter().filter(|v| v.family == one_way);
                let one_way = one_way
                    .map(|v| Ok((v.value, standard(model, &v.name)?, v.name.as_str())))
                    .collect::<Result<Vec<_>>>()?;
                values(&mut out, family, &rows, &one_way)?;
            }
        }
    }
    writeln!(
        out,
        "impl rejoin_facade::Integers for crate::{} {{",
        facade.flavour.own
    )?;
    for family in SHARED {
        let (family, ways) = match family.split_once(' ') {
            Some((family, _)) => (family, &["out"][..]),
            None => (family, &["in", "out"][..]),
        };
        for way in ways {
            writeln!(
                out,
                "#[inline]\nfn {family}_{way}(value: i32) -> i32 {{\n{family}_{way}(value)\n}}"
            )?;
        }
    }
    out.push_str("}\n");
    Ok(out)
}

type Row<'a> = (i64, i64, &'a str);

fn limits(out: &mut String, mpi: &str, rows: &[Row]) -> Result<()> {
    for (theirs, ours, name) in rows.iter().filter(|(theirs, ours, _)| theirs != ours) {
        writeln!(
            out,
            "/// Bytes of a text, in {mpi} and in the standard ABI.\n\
             pub const {name}: (usize, usize) = ({theirs}, {ours});\n"
        )?;
    }
    Ok(())
}

fn values(out: &mut String, family: &str, rows: &[Row], one_way: &[Row]) -> Result<()> {
    let kind = if family == "offset" { "i64" } else { "i32" };
    for (way, doc) in [
        ("in", "An integer of the program for the library"),
        ("out", "An integer of the library for the program"),
    ] {
        let mut pairs: Vec<(i64, i64, &str)> = match way {
            "in" => rows.to_vec(),
            _ => rows
                .iter()
                .chain(one_way)
                .map(|r| (r.1, r.0, r.2))
                .collect(),
        };
        // A value that means nothing on its side must mean nothing on the other: it changes places.
        // Where only differences are listed, other values mean the same.
        let known: BTreeSet<i64> = pairs.iter().map(|p| p.0).collect();
        let taken: BTreeSet<i64> = pairs.iter().map(|p| p.1).collect();
        let strange = taken.difference(&known).copied();
        let mut free = known
            .difference(&taken)
            .copied()
            .filter(|_| one_way.is_empty());
        pairs.extend(strange.map_while(|value| Some((value, free.next()?, "nothing"))));
        pairs.retain(|(from, to, _)| from != to);
        write!(
            out,
            "/// {doc}.\n#[inline]\npub const fn {family}_{way}(value: {kind}) -> {kind} {{\nmatch value {{\n"
        )?;
        for (from, to, name) in pairs {
            writeln!(out, "// {name}\n{from} => {to},")?;
        }
        // The program's own error classes follow the last one of each side.
        let last = rows.iter().find(|r| r.2 == "MPI_ERR_LASTCODE");
        if let Some((theirs, ours, _)) = last.filter(|(theirs, ours, _)| theirs > ours) {
            let (from, how) = if way == "in" {
                (theirs, "sub")
            } else {
                (ours, "add")
            };
            let distance = theirs - ours;
            writeln!(
                out,
                "own if own > {from} => own.wrapping_{how}({distance}),"
            )?;
        }
        out.push_str("other => other,\n}\n}\n\n");
    }
    Ok(())
}

fn bits(out: &mut String, family: &str, rows: &[Row]) -> Result<()> {
    for (way, doc) in [
        ("in", "Bits of the program for the library"),
        ("out", "Bits of the library for the program"),
    ] {
        let pairs = rows.iter().map(|r| match way {
            "in" => format!("({}, {})", r.0, r.1),
            _ => format!("({}, {})", r.1, r.0),
        });
        writeln!(
            out,
            "/// {doc}.\npub fn {family}_{way}(value: i32) -> i32 {{\n\
             let pairs = [{}];\n\
             pairs.iter().filter(|p| value & p.0 != 0).map(|p| p.1).sum()\n}}\n",
            pairs.collect::<Vec<_>>().join(", ")
        )?;
    }
    Ok(())
}
