//! Constants as Fortran has them.

use anyhow::{Context as _, Result};

use crate::codegen::constants::HANDLES;
use crate::codegen::model::{Constant, Model};

/// A constant of Fortran.
pub struct FortranConstant {
    /// The name in the standard.
    pub name: String,
    /// The type of its handle, if it is one.
    pub handle: Option<String>,
    /// Whether it is of MPI_OFFSET_KIND.
    pub is_offset: bool,
    /// The number in the ABI; one less for the length of a text.
    pub value: i64,
}

/// Constants that the tables of C lack (MPI-5.0 §19.1.2, §3.2.5): kinds and indices of a status.
pub const OF_FORTRAN: [(&str, i64); 8] = [
    ("MPI_ADDRESS_KIND", 8),
    ("MPI_COUNT_KIND", 8),
    ("MPI_OFFSET_KIND", 8),
    ("MPI_INTEGER_KIND", 4),
    ("MPI_STATUS_SIZE", 8),
    ("MPI_SOURCE", 1),
    ("MPI_TAG", 2),
    ("MPI_ERROR", 3),
];

/// Addresses that stand for something: name, rank of the array, common block.
pub const SENTINELS: [(&str, Sentinel, &str); 10] = [
    ("MPI_BOTTOM", Sentinel::Integer, "mpifort_bottom"),
    ("MPI_IN_PLACE", Sentinel::Integer, "mpifort_in_place"),
    (
        "MPI_BUFFER_AUTOMATIC",
        Sentinel::Integer,
        "mpifort_buffer_automatic",
    ),
    ("MPI_ARGV_NULL", Sentinel::Text, "mpifort_argv_null"),
    ("MPI_ARGVS_NULL", Sentinel::Texts, "mpifort_argvs_null"),
    (
        "MPI_ERRCODES_IGNORE",
        Sentinel::Integers,
        "mpifort_errcodes_ignore",
    ),
    (
        "MPI_STATUS_IGNORE",
        Sentinel::Status,
        "mpifort_status_ignore",
    ),
    (
        "MPI_STATUSES_IGNORE",
        Sentinel::Statuses,
        "mpifort_statuses_ignore",
    ),
    ("MPI_UNWEIGHTED", Sentinel::Integers, "mpifort_unweighted"),
    (
        "MPI_WEIGHTS_EMPTY",
        Sentinel::Integers,
        "mpifort_weights_empty",
    ),
];

/// What stands at such an address.
#[derive(Clone, Copy)]
pub enum Sentinel {
    /// One integer.
    Integer,
    /// An array of one integer.
    Integers,
    /// A status.
    Status,
    /// An array of one status.
    Statuses,
    /// An array of one text.
    Text,
    /// A table of one text.
    Texts,
}

/// Functions of the program that MPI has already; those of MPI-1 come first.
pub const CALLBACKS: [&str; 14] = [
    "MPI_NULL_COPY_FN",
    "MPI_DUP_FN",
    "MPI_NULL_DELETE_FN",
    "MPI_COMM_NULL_COPY_FN",
    "MPI_COMM_DUP_FN",
    "MPI_COMM_NULL_DELETE_FN",
    "MPI_TYPE_NULL_COPY_FN",
    "MPI_TYPE_DUP_FN",
    "MPI_TYPE_NULL_DELETE_FN",
    "MPI_WIN_NULL_COPY_FN",
    "MPI_WIN_DUP_FN",
    "MPI_WIN_NULL_DELETE_FN",
    "MPI_CONVERSION_FN_NULL",
    "MPI_CONVERSION_FN_NULL_C",
];

/// Numbers and handles of the tables, as Fortran has them.
pub fn constants(model: &Model) -> Result<Vec<FortranConstant>> {
    let is_of_c = |c: &&Constant| {
        ["MPI_T_", "MPI_F_"]
            .iter()
            .any(|prefix| c.name.starts_with(prefix))
    };
    let all = model.constants.iter().filter(|c| !is_of_c(c));
    all.filter_map(|c| constant(model, c).transpose()).collect()
}

fn constant(model: &Model, c: &Constant) -> Result<Option<FortranConstant>> {
    let target = match c.ctype.as_str() {
        "alias" => model.constants.iter().find(|t| t.name == c.value),
        _ => Some(c),
    };
    let target = target.with_context(|| format!("{} stands for nothing", c.name))?;
    let is_handle = HANDLES.contains(&target.ctype.as_str());
    let is_offset = target.ctype == "MPI_Offset";
    if !is_handle && !is_offset && target.ctype != "int" {
        return Ok(None);
    }
    let mut value = number(&target.value).with_context(|| c.name.clone())?;
    // Texts of Fortran have no last byte of 0 (MPI-5.0 §19.3.9).
    let is_length = c.name.starts_with("MPI_MAX_");
    value -= i64::from(is_length);
    Ok(Some(FortranConstant {
        name: c.name.clone(),
        handle: is_handle.then(|| target.ctype.clone()),
        is_offset,
        value,
    }))
}

fn number(text: &str) -> Result<i64> {
    Ok(match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16)?,
        None => text.parse()?,
    })
}
