//! `mpi_modules.f90`: the modules `mpi` and `mpi_f08`, and what the compiler has.

use std::fmt::Write as _;

use anyhow::Result;

use super::constant_lists::{CALLBACKS, OF_FORTRAN, SENTINELS, Sentinel, constants};
use super::interfaces::{Module, interface};
use super::selection::{self, Selected};
use crate::codegen::constants::HANDLES;
use crate::codegen::mark::MARK;
use crate::codegen::model::Model;

/// Types of functions of the program, in the module `mpi_f08` (MPI-5.0 §A.1.3).
const PROCEDURES: &str = include_str!("procedures.f90");

/// What the library asks of the compiler.
const COMPILER: &str = include_str!("compiler.f90");

/// Renders the file.
pub fn render(model: &Model) -> Result<String> {
    let mut out = format!(
        "! The modules of the MPI-5.0 standard ABI: interfaces only, whose bodies are in\n\
         ! libmpifort_abi. {MARK}: do not edit.\n\n"
    );
    types(&mut out);
    let all = selection::select(model);
    mpi(&mut out, model, &all)?;
    f08(&mut out, model, &all)?;
    out.push_str(COMPILER);
    Ok(out)
}

/// The module below the others: kinds, handles and statuses as types, which both have.
fn types(out: &mut String) {
    out.push_str(
        "module mpifort_types\n  use, intrinsic :: iso_c_binding, only: c_ptr\n  implicit none\n  private :: c_ptr\n",
    );
    for (name, value) in OF_FORTRAN {
        // In `mpi_f08` these are components of a status.
        let _ = writeln!(out, "  integer, parameter :: {name} = {value}");
    }
    for name in HANDLES {
        let _ = write!(
            out,
            "  type, bind(C) :: {name}\n    integer :: MPI_VAL\n  end type\n"
        );
    }
    out.push_str(
        "  type, bind(C) :: MPI_Status\n    integer :: MPI_SOURCE, MPI_TAG, MPI_ERROR\n    \
         integer, private :: internal(5)\n  end type\n",
    );
    for (operator, word) in [("==", "equal"), ("/=", "differ")] {
        let _ = writeln!(out, "  interface operator({operator})");
        for name in HANDLES {
            let function = format!("mpifort_{word}_{}", name["MPI_".len()..].to_lowercase());
            let _ = write!(
                out,
                "    logical function {function}(one, other)\n      import :: {name}\n      \
                 type({name}), intent(in) :: one, other\n    end function\n"
            );
        }
        out.push_str("  end interface\n");
    }
    for prefix in ["", "P"] {
        let old = ("f_status", "integer", "(MPI_STATUS_SIZE)");
        let new = ("f08_status", "type(MPI_Status)", "");
        for (name, from, to) in [
            ("MPI_Status_f2f08", old, new),
            ("MPI_Status_f082f", new, old),
        ] {
            let ((from, from_kind, from_size), (to, to_kind, to_size)) = (from, to);
            let _ = write!(
                out,
                "  interface\n    subroutine {prefix}{name}({from}, {to}, ierror)\n      \
                 import :: MPI_Status, MPI_STATUS_SIZE\n      {from_kind}, intent(in) :: {from}{from_size}\n      \
                 {to_kind}, intent(out) :: {to}{to_size}\n      integer, optional, intent(out) :: ierror\n    \
                 end subroutine\n  end interface\n"
            );
        }
    }
    out.push_str("end module\n\n");
}

fn mpi(out: &mut String, model: &Model, all: &[Selected<'_>]) -> Result<()> {
    out.push_str(
        "module mpi\n  use mpifort_types\n  use, intrinsic :: iso_c_binding, only: c_ptr\n  \
         implicit none\n  private :: c_ptr\n",
    );
    for c in constants(model)? {
        let kind = match c.is_offset {
            true => "(MPI_OFFSET_KIND)",
            false => "",
        };
        let _ = writeln!(
            out,
            "  integer{kind}, parameter :: {} = {}",
            c.name, c.value
        );
    }
    answers(out, ".false.");
    sentinels(out, "integer", "(MPI_STATUS_SIZE)", "(MPI_STATUS_SIZE, 1)");
    for name in CALLBACKS {
        let _ = writeln!(out, "  external :: {name}");
    }
    functions_by_hand(out);
    for prefix in ["", "P"] {
        for s in all.iter().filter(|s| s.is_in_mpi()) {
            out.push_str(&interface(s, None, Module::Mpi, prefix));
        }
    }
    out.push_str("end module\n\n");
    Ok(())
}

fn f08(out: &mut String, model: &Model, all: &[Selected<'_>]) -> Result<()> {
    out.push_str(
        "module mpi_f08\n  use mpifort_types\n  use, intrinsic :: iso_c_binding, only: c_ptr\n  \
         implicit none\n  private :: c_ptr\n",
    );
    for c in constants(model)? {
        let _ = match (&c.handle, c.is_offset) {
            (Some(kind), _) => writeln!(
                out,
                "  type({kind}), parameter :: {} = {kind}({})",
                c.name, c.value
            ),
            (None, true) => writeln!(
                out,
                "  integer(MPI_OFFSET_KIND), parameter :: {} = {}",
                c.name, c.value
            ),
            (None, false) => writeln!(out, "  integer, parameter :: {} = {}", c.name, c.value),
        };
    }
    answers(out, ".true.");
    sentinels(out, "type(MPI_Status)", "", "(1)");
    out.push_str(PROCEDURES);
    for name in &CALLBACKS[3..] {
        let _ = writeln!(out, "  procedure({}) :: {name}", procedure_of(name));
    }
    functions_by_hand(out);
    for prefix in ["", "P"] {
        for s in all.iter().filter(|s| s.is_in_f08() && s.has_own_name()) {
            let is_large_of = |l: &&Selected<'_>| {
                !l.has_own_name() && l.base.is_some_and(|b| b.name == s.function.name)
            };
            let large = all.iter().find(is_large_of);
            out.push_str(&interface(s, large, Module::F08, prefix));
        }
    }
    out.push_str("end module\n");
    Ok(())
}

/// The type of a function that MPI has already.
fn procedure_of(name: &str) -> String {
    match name {
        "MPI_CONVERSION_FN_NULL" => return "MPI_Datarep_conversion_function".to_owned(),
        "MPI_CONVERSION_FN_NULL_C" => return "MPI_Datarep_conversion_function_c".to_owned(),
        _ => {}
    }
    let object = name["MPI_".len()..].split('_').next().unwrap_or_default();
    let object = format!("{}{}", &object[..1], object[1..].to_lowercase());
    let does = if name.contains("DELETE") {
        "delete"
    } else {
        "copy"
    };
    format!("MPI_{object}_{does}_attr_function")
}

/// What the module says about itself (MPI-5.0 §19.1.2, §19.1.17).
fn answers(out: &mut String, supported: &str) {
    for name in ["MPI_SUBARRAYS_SUPPORTED", "MPI_ASYNC_PROTECTS_NONBLOCKING"] {
        let _ = writeln!(out, "  logical, parameter :: {name} = {supported}");
    }
}

fn sentinels(out: &mut String, status: &str, one: &str, several: &str) {
    for (name, what, block) in SENTINELS {
        let _ = match what {
            // Programs may take the address of `MPI_BUFFER_AUTOMATIC` (MPI-5.0 §3.6).
            Sentinel::Integer => writeln!(out, "  integer, target :: {name}"),
            Sentinel::Integers => writeln!(out, "  integer :: {name}(1)"),
            Sentinel::Status => writeln!(out, "  {status} :: {name}{one}"),
            Sentinel::Statuses => writeln!(out, "  {status} :: {name}{several}"),
            Sentinel::Text => writeln!(out, "  character(len=1) :: {name}(1)"),
            Sentinel::Texts => writeln!(out, "  character(len=1) :: {name}(1, 1)"),
        };
        let _ = writeln!(out, "  common /{block}/ {name}");
    }
}

/// Functions that the tables of C do not have.
fn functions_by_hand(out: &mut String) {
    for (prefix, sizeof) in [("", "mpifort_sizeof_"), ("P", "mpifort_psizeof_")] {
        let sync = format!("{}mpi_f_sync_reg_f08ts_", prefix.to_lowercase());
        let _ = write!(
            out,
            "  interface\n    subroutine {prefix}MPI_Sizeof(x, size, ierror) bind(C, name=\"{sizeof}\")\n      \
             type(*), dimension(..), intent(in) :: x\n      integer, intent(out) :: size\n      \
             integer, optional, intent(out) :: ierror\n    end subroutine\n    \
             subroutine {prefix}MPI_F_sync_reg(buf) bind(C, name=\"{sync}\")\n      \
             type(*), dimension(..), asynchronous :: buf\n    end subroutine\n  end interface\n"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    /// Names that the linker looks for, from interfaces.
    fn symbols(text: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let mut is_abstract = false;
        let whole = text.replace("&\n", "");
        for line in whole.lines().map(str::trim) {
            match line {
                "abstract interface" => is_abstract = true,
                "end interface" => is_abstract = false,
                _ => {}
            }
            let words = line.split("(").next().unwrap_or_default();
            let is_function = [
                "subroutine ",
                "function ",
                "logical function ",
                "double precision ",
            ]
            .iter()
            .any(|head| line.starts_with(head));
            if let Some((_, name)) = line.split_once("name=\"") {
                all.insert(name.trim_end_matches("\")").to_owned());
            } else if is_function && !is_abstract {
                let name = words.split_whitespace().last().unwrap_or_default();
                all.insert(format!("{}_", name.to_lowercase()));
            }
        }
        all
    }

    #[test]
    fn the_library_has_all_functions_of_the_modules() {
        let root = crate::workspace::root();
        let model = Model::load(&root.join("c-abi/abi")).expect("the tables");
        let wanted = symbols(&render(&model).expect("the modules"));
        assert!(wanted.len() > 1500, "{}", wanted.len());
        let mut exported = BTreeSet::new();
        for folder in ["fortran/src", "fortran/src/generated"] {
            for entry in fs::read_dir(root.join(folder)).expect("the sources") {
                let path = entry.expect("a source").path();
                let text = fs::read_to_string(path).unwrap_or_default();
                let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                exported.extend(words.map(str::to_owned));
            }
        }
        let lacking: Vec<_> = wanted.difference(&exported).collect();
        assert!(lacking.is_empty(), "{lacking:?}");
    }
}
