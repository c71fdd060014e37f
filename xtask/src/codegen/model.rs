//! The tables of `c-abi/abi` in memory.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::chapter::{self, Chapter};
use super::ctype::CType;

/// One parameter of a function or callback.
#[derive(Clone, Debug)]
pub struct Param {
    /// The C declaration as the table has it, such as `const void *buf`.
    pub decl: String,
    /// The type; `None` for `...`.
    pub ctype: Option<CType>,
    /// The parameter's name.
    pub name: String,
    /// What it is for the standard, such as `RANK`; `?` or empty where no table says it.
    pub kind: String,
    /// `in`, `out` or `inout`; `?` or empty where no table says it.
    pub direction: String,
}

/// One MPI function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Such as `MPI_Send_c`.
    pub name: String,
    /// The chapter of the standard that defines it.
    pub chapter: &'static Chapter,
    /// The C return type.
    pub returns: String,
    /// In order.
    pub params: Vec<Param>,
    /// Fortran has it, too, since before MPI-4.1.
    pub in_fortran: bool,
    /// Fortran does not have it.
    pub is_c_only: bool,
}

/// One constant.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Such as `MPI_COMM_WORLD`.
    pub name: String,
    /// The C type, or `alias`.
    pub ctype: String,
    /// The value as C text, or the target of an alias.
    pub value: String,
}

/// One function-pointer type.
#[derive(Clone, Debug)]
pub struct Callback {
    /// Such as `MPI_User_function`.
    pub name: String,
    /// The C return type, or `alias`.
    pub returns: String,
    /// Parameters; of an alias, none.
    pub params: Vec<Param>,
    /// The target of an alias.
    pub alias: Option<String>,
}

/// All tables.
pub struct Model {
    /// Functions in the tables' order, the standard's before the removed ones.
    pub functions: Vec<Function>,
    /// Constants in the table's order.
    pub constants: Vec<Constant>,
    /// Callbacks in the table's order.
    pub callbacks: Vec<Callback>,
}

impl Function {
    /// The name of the hand-written implementation: `MPI_Type_size_x` is `type_size_x`,
    /// `MPIX_Rejoin` is `x_rejoin`.
    pub fn rust_name(&self) -> String {
        match self.name.strip_prefix("MPIX_") {
            Some(rest) => format!("x_{}", rest.to_lowercase()),
            None => self.name["MPI_".len()..].to_lowercase(),
        }
    }

    /// The functions that return a value and have no way to report an error.
    pub fn returns_value(&self) -> bool {
        self.returns != "int" || self.name.ends_with("_toint")
    }

    /// Removed from the standard in MPI-3.0, kept for old programs.
    pub fn is_removed(&self) -> bool {
        self.chapter.name == "removed"
    }

    /// Not the standard's, but this library's.
    pub fn is_extension(&self) -> bool {
        self.chapter.name == "extensions"
    }

    /// Part of the tools' interface (MPI-5.0 chapter 15), which calls no error handler.
    pub fn is_tool(&self) -> bool {
        self.name.starts_with("MPI_T_")
    }
}

impl Model {
    /// The standard's functions, without the removed ones.
    pub fn standard(&self) -> impl Iterator<Item = &Function> {
        let other = |f: &&Function| !f.is_removed() && !f.is_extension();
        self.functions.iter().filter(other)
    }

    /// This library's own functions.
    pub fn extensions(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().filter(|f| f.is_extension())
    }

    /// The functions that MPI-3.0 removed.
    pub fn removed(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().filter(|f| f.is_removed())
    }

    /// Reads the tables in `folder`.
    pub fn load(folder: &Path) -> Result<Self> {
        let read = |name: &str| -> Result<Vec<Vec<String>>> {
            let path = folder.join(name);
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            Ok(rows(&text))
        };
        let mut functions = Vec::new();
        for table in ["functions.tsv", "removed.tsv", "extensions.tsv"] {
            for row in read(table)? {
                ensure!(row.len() >= 4, "{table}: short row {row:?}");
                let decls = row[3].split(" | ");
                functions.push(Function {
                    name: row[0].clone(),
                    chapter: chapter::find(&row[1])
                        .with_context(|| format!("{table}: {}", row[0]))?,
                    returns: row[2].clone(),
                    params: params(decls)?,
                    in_fortran: row.get(4).is_some_and(|word| word == "yes"),
                    is_c_only: row.get(4).is_some_and(|word| word == "no"),
                });
            }
        }
        let mut constants = Vec::new();
        for row in read("constants.tsv")? {
            ensure!(row.len() == 3, "constants.tsv: row {row:?}");
            constants.push(Constant {
                name: row[0].clone(),
                ctype: row[1].clone(),
                value: row[2].clone(),
            });
        }
        let mut callbacks = Vec::new();
        for row in read("callbacks.tsv")? {
            ensure!(row.len() == 3, "callbacks.tsv: row {row:?}");
            let alias = (row[1] == "alias").then(|| row[2].clone());
            let list = if alias.is_some() { "" } else { &row[2] };
            callbacks.push(Callback {
                name: row[0].clone(),
                returns: row[1].clone(),
                params: params(list.split(", "))?,
                alias,
            });
        }
        Ok(Self {
            functions,
            constants,
            callbacks,
        })
    }

    /// The large-count form of `function`, when both have the same number of parameters, so that
    /// one implementation can serve both (MPI-5.0 §2.5.6).
    pub fn large_form(&self, function: &Function) -> Option<&Function> {
        let name = format!("{}_c", function.name);
        self.functions
            .iter()
            .find(|f| f.name == name && f.params.len() == function.params.len())
    }

    /// The base form of a `_c` function that shares its implementation.
    pub fn base_form(&self, function: &Function) -> Option<&Function> {
        let base = function.name.strip_suffix("_c")?;
        self.functions
            .iter()
            .find(|f| f.name == base && f.params.len() == function.params.len())
    }
}

/// The rows of a table below its head.
pub fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .skip(1)
        .filter(|l| !l.trim().is_empty())
        .map(|l| l.split('\t').map(|c| c.trim().to_owned()).collect())
        .collect()
}

fn params<'a>(decls: impl Iterator<Item = &'a str>) -> Result<Vec<Param>> {
    let mut list = Vec::new();
    for row in decls.map(str::trim).filter(|d| !d.is_empty()) {
        let mut words = row.split(" : ").map(str::to_owned);
        let mut word = || words.next().unwrap_or_default();
        let (decl, kind, direction) = (word(), word(), word());
        let (ctype, name) = match decl.as_str() {
            "..." => (None, String::new()),
            decl => {
                let (ctype, name) = CType::parse(decl)?;
                (Some(ctype), name)
            }
        };
        list.push(Param {
            decl,
            ctype,
            name,
            kind,
            direction,
        });
    }
    Ok(list)
}
