//! What a façade is made from.

use std::collections::{BTreeMap, BTreeSet};

use super::tables::Tables;
use crate::codegen::model::Model;

/// One façade.
pub struct Flavour {
    /// The folder of its crate.
    pub folder: &'static str,
    /// The other MPI.
    pub mpi: &'static str,
    /// The type that implements `Facade`.
    pub own: &'static str,
    /// The names of a function of Fortran, given the one in lower case.
    pub names: fn(&str) -> Vec<String>,
}

/// Functions that are written by hand for all façades, with their modules.
pub type Shared = BTreeMap<String, String>;

/// Its description, and all tables.
pub struct Facade<'a> {
    pub flavour: &'a Flavour,
    pub model: &'a Model,
    pub tables: Tables,
    /// Functions that its own sources export.
    pub by_hand: BTreeSet<String>,
    pub shared: &'a Shared,
}

impl Facade<'_> {
    /// Where a function is that is written for all façades.
    pub fn shared(&self, name: &str) -> Option<String> {
        let module = self.shared.get(name)?;
        Some(format!("rejoin_facade::{module}::{name}::<Own>"))
    }

    /// What both files of functions begin with.
    pub fn head(&self, what: &str) -> String {
        let kinds = crate::codegen::constants::HANDLES
            .iter()
            .map(|k| &k["MPI_".len()..]);
        let aliases: Vec<String> = kinds
            .chain(["Status"])
            .map(|kind| format!("type {kind} = <Own as Facade>::{kind};\n"))
            .collect();
        format!(
            "//! {what} of {}. {}: do not edit.\n\n\
             #![allow(\
             dead_code, unused_imports, clippy::collapsible_if, clippy::too_many_arguments)]\n\n\
             use std::ffi::{{c_char, c_double, c_int, c_void}};\n\n\
             use rejoin_facade::{{Facade, ProgramHandle}};\n\n\
             use crate::{} as Own;\n\n{}\n",
            self.flavour.mpi,
            crate::codegen::MARK,
            self.flavour.own,
            aliases.concat()
        )
    }
}
