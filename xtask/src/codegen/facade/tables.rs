//! The tables of `facade/*/abi` in memory.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::codegen::model::{Model, rows};

/// One integer constant.
pub struct Value {
    pub family: String,
    pub name: String,
    pub value: i64,
}

/// One predefined object that programs know by its address.
pub struct Predefined {
    pub symbol: String,
    pub bytes: usize,
    pub fortran: Option<usize>,
    /// Its name in the standard; `None` if the standard has no such object.
    pub name: Option<String>,
}

/// One predefined handle that is a number.
pub struct Number {
    pub name: String,
    pub value: u32,
}

/// One function of the other MPI.
pub struct Exported {
    pub name: String,
    /// Its name in the standard.
    pub standard: String,
    /// The constant that limits the text that it gives.
    pub limit: Option<String>,
}

/// The tables of another MPI.
pub struct Tables {
    pub values: Vec<Value>,
    /// Predefined objects (`objects.tsv`), if its handles are addresses.
    pub objects: Vec<Predefined>,
    /// Predefined handles (`handles.tsv`), if they are numbers.
    pub numbers: Vec<Number>,
    pub functions: Vec<Exported>,
}

impl Tables {
    /// Reads the tables in `folder`.
    pub fn load(folder: &Path) -> Result<Self> {
        let read = |name: &str| -> Result<Vec<Vec<String>>> {
            let path = folder.join(name);
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            Ok(rows(&text))
        };
        let given = |text: Option<&String>| text.filter(|t| !t.is_empty() && *t != "-").cloned();
        let mut values = Vec::new();
        for row in read("constants.tsv")? {
            ensure!(row.len() == 3, "constants.tsv: row {row:?}");
            values.push(Value {
                family: row[0].clone(),
                name: row[1].clone(),
                value: integer(&row[2]).with_context(|| format!("constants.tsv: {row:?}"))?,
            });
        }
        let mut objects = Vec::new();
        let optional = |name: &str| match folder.join(name).exists() {
            true => read(name),
            false => Ok(Vec::new()),
        };
        for row in optional("objects.tsv")? {
            ensure!(row.len() == 4, "objects.tsv: row {row:?}");
            objects.push(Predefined {
                symbol: row[0].clone(),
                bytes: row[1].parse()?,
                fortran: given(row.get(2)).map(|n| n.parse()).transpose()?,
                name: given(row.get(3)),
            });
        }
        let mut numbers = Vec::new();
        for row in optional("handles.tsv")? {
            ensure!(row.len() == 2, "handles.tsv: row {row:?}");
            numbers.push(Number {
                name: row[0].clone(),
                value: u32::try_from(integer(&row[1])?)?,
            });
        }
        let functions = read("functions.tsv")?;
        let functions = functions.into_iter().map(|row| Exported {
            standard: given(row.get(1)).unwrap_or_else(|| row[0].clone()),
            limit: given(row.get(2)),
            name: row[0].clone(),
        });
        Ok(Self {
            values,
            objects,
            numbers,
            functions: functions.collect(),
        })
    }
}

/// The standard's value of an integer constant.
pub fn standard(model: &Model, name: &str) -> Result<i64> {
    let find = || model.constants.iter().find(|c| c.name == name);
    let text = &find().with_context(|| format!("no constant {name}"))?.value;
    integer(text).with_context(|| format!("{name} is {text}"))
}

/// An integer as tables have it: decimal, or hexadecimal with `0x`.
fn integer(text: &str) -> Result<i64> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    value.with_context(|| format!("{text} is no integer"))
}
