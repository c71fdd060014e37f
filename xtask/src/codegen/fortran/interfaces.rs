//! Interfaces of functions in the modules `mpi` and `mpi_f08`. There are no bodies in Fortran.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::argument::{Argument, Direction, Kind, Shape};
use super::selection::Selected;

/// Columns of a line.
const WIDTH: usize = 100;

/// One of the modules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Module {
    /// `mpi`.
    Mpi,
    /// `mpi` with a C pointer for an address.
    MpiPointer,
    /// `mpi_f08`.
    F08,
}

/// The interface of a function; `prefix` is empty, or `P` for the profiling name. Large forms
/// belong to the same generic name.
pub fn interface(
    s: &Selected<'_>,
    large: Option<&Selected<'_>>,
    module: Module,
    prefix: &str,
) -> String {
    let mut out = String::new();
    let name = format!("{prefix}{}", s.function.name);
    if s.is_value() {
        let _ = write!(out, "  interface\n{}  end interface\n", value(s, &name));
        return out;
    }
    let has_address = s.arguments.iter().any(|a| a.shape == Shape::Address);
    match module {
        Module::F08 => {
            let _ = writeln!(out, "  interface {name}");
            out.push_str(&subroutine(s, module, prefix));
            if let Some(large) = large {
                out.push_str(&subroutine(large, module, prefix));
            }
        }
        _ if has_address => {
            let _ = writeln!(out, "  interface {name}");
            out.push_str(&subroutine(s, module, prefix));
            out.push_str(&subroutine(s, Module::MpiPointer, prefix));
        }
        _ => {
            out.push_str("  interface\n");
            out.push_str(&subroutine(s, module, prefix));
        }
    }
    out.push_str("  end interface\n");
    out
}

/// A function that gives a value.
fn value(s: &Selected<'_>, name: &str) -> String {
    if s.function.returns == "double" {
        return format!("    double precision function {name}()\n    end function\n");
    }
    let names: Vec<_> = s.arguments.iter().map(Argument::fortran_name).collect();
    let names = names.join(", ");
    format!(
        "    function {name}({names})\n      import :: MPI_ADDRESS_KIND\n      \
         integer(MPI_ADDRESS_KIND) :: {name}\n      \
         integer(MPI_ADDRESS_KIND), intent(in) :: {names}\n    end function\n"
    )
}

fn subroutine(s: &Selected<'_>, module: Module, prefix: &str) -> String {
    let is_described = module == Module::F08 && s.has_choice();
    let suffix = match module {
        Module::Mpi => "",
        Module::MpiPointer => "_cptr",
        Module::F08 if is_described => "_f08ts",
        Module::F08 => "_f08",
    };
    let arguments: Vec<_> = s
        .arguments
        .iter()
        .filter(|a| a.shape != Shape::Absent)
        .collect();
    let mut names: Vec<_> = arguments.iter().map(|a| a.fortran_name()).collect();
    // What follows the level is the tool's own.
    let has_error = s.function.name != "MPI_Pcontrol";
    names.extend(has_error.then_some("ierror"));
    let bound = match is_described {
        true => format!(
            " bind(C, name=\"{}{}_f08ts_\")",
            prefix.to_lowercase(),
            s.lower()
        ),
        false => String::new(),
    };
    let head = format!("    subroutine {prefix}{}{suffix}(", s.function.name);
    let mut out = continued(&head, &names, &format!("){bound}"));
    let mut used = BTreeSet::new();
    let mut declared = String::new();
    for a in arguments {
        let line = declaration(s, a, module);
        used.extend(names_of_module(&line).map(str::to_owned));
        let _ = writeln!(declared, "{line}");
    }
    if !used.is_empty() {
        let used: Vec<_> = used.iter().map(String::as_str).collect();
        out.push_str(&continued("      import :: ", &used, ""));
    }
    out.push_str(&declared);
    out.push_str(match module {
        _ if !has_error => "",
        Module::F08 => "      integer, optional, intent(out) :: ierror\n",
        Module::Mpi | Module::MpiPointer => "      integer :: ierror\n",
    });
    out.push_str("    end subroutine\n");
    out
}

/// Names of the module in a declaration.
fn names_of_module(declaration: &str) -> impl Iterator<Item = &str> {
    let words = declaration.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("MPI_") || *word == "c_ptr")
}

/// The declaration of an argument.
fn declaration(s: &Selected<'_>, a: &Argument, module: Module) -> String {
    let name = a.fortran_name();
    let is_f08 = module == Module::F08;
    match &a.shape {
        Shape::Buffer if is_f08 => described(s, a),
        // The address is not given back: the standard has a choice buffer there.
        Shape::Detached if !is_f08 => any_kind(name),
        Shape::Buffer => any_kind(name),
        Shape::Procedure(kind) if is_f08 => format!("      procedure({kind}) :: {name}"),
        Shape::Procedure(_) => format!("      external :: {name}"),
        Shape::Absent => String::new(),
        Shape::Handle(_)
        | Shape::Address
        | Shape::Logical
        | Shape::Text
        | Shape::Texts
        | Shape::TextTable
        | Shape::Status
        | Shape::Integer(_)
        | Shape::Weights
        | Shape::Detached => {
            let (kind, place) = (kind_of(a, module), place_of(a, module));
            // The library writes it when the request completes.
            let is_late = s.function.name.contains("_idup") && a.name == "newcomm";
            let target = if is_late { ", target" } else { "" };
            let intent = match (is_f08 && has_intent(a), a.direction) {
                (false, _) => "",
                (true, Direction::In) => ", intent(in)",
                (true, Direction::Out) => ", intent(out)",
                (true, Direction::Both) => ", intent(inout)",
            };
            format!("      {kind}{target}{intent} :: {name}{place}")
        }
    }
}

/// Whether nothing of the program's may be given that only stands for something.
fn has_intent(a: &Argument) -> bool {
    match a.shape {
        Shape::Weights => false,
        Shape::Status => a.direction != Direction::Out,
        _ => a.name != "array_of_errcodes",
    }
}

/// The type of an argument that has one.
fn kind_of(a: &Argument, module: Module) -> String {
    let is_f08 = module == Module::F08;
    match &a.shape {
        Shape::Handle(kind) if is_f08 => return format!("type({kind})"),
        Shape::Status if is_f08 => "type(MPI_Status)",
        Shape::Address if module == Module::Mpi => "integer(MPI_ADDRESS_KIND)",
        Shape::Address | Shape::Detached => "type(c_ptr)",
        Shape::Logical => "logical",
        Shape::Text | Shape::Texts | Shape::TextTable => "character(len=*)",
        Shape::Integer(Kind::Address) => "integer(MPI_ADDRESS_KIND)",
        Shape::Integer(Kind::Count) => "integer(MPI_COUNT_KIND)",
        Shape::Integer(Kind::Offset) => "integer(MPI_OFFSET_KIND)",
        _ => "integer",
    }
    .to_owned()
}

/// The dimensions of an argument, with their parentheses.
fn place_of(a: &Argument, module: Module) -> String {
    match (&a.shape, a.inner) {
        (_, Some(inner)) => return format!("({inner}, *)"),
        (Shape::TextTable, _) => "(count, *)",
        (Shape::Status, _) if module != Module::F08 && a.is_array => "(MPI_STATUS_SIZE, *)",
        (Shape::Status, _) if module != Module::F08 => "(MPI_STATUS_SIZE)",
        _ if a.is_array => "(*)",
        _ => "",
    }
    .to_owned()
}

/// A choice buffer of the module `mpi`: compilers pass its address. Why it is a target, see below.
fn any_kind(name: &str) -> String {
    format!(
        "      !GCC$ ATTRIBUTES NO_ARG_CHECK :: {name}\n      !DIR$ IGNORE_TKR {name}\n      \
         type(*), dimension(*), target :: {name}"
    )
}

/// A choice buffer of the module `mpi_f08`.
///
/// MPI may read and write it in later calls. For compilers only a target may outlive the call:
/// otherwise they leave out accesses between `MPI_START` and `MPI_WAIT`, unless the program marks
/// its variable.
fn described(s: &Selected<'_>, a: &Argument) -> String {
    let intent = match a.is_const {
        true => ", intent(in)",
        false => "",
    };
    // MPI uses it after the call.
    let name = &s.function.name;
    let begins = s
        .arguments
        .iter()
        .any(|a| a.is_handle("MPI_Request") && a.is_pointer);
    let is_later = begins
        || ["_begin", "_end", "attach", "attach_c", "detach"]
            .iter()
            .any(|e| name.ends_with(e))
        || name.ends_with("_buffer")
        || s.function.chapter.name == "one_sided";
    let asynchronous = if is_later { ", asynchronous" } else { "" };
    format!(
        "      type(*), dimension(..), target{intent}{asynchronous} :: {}",
        a.fortran_name()
    )
}

/// `head`, the names with commas between them, and `tail`, in lines that go on.
fn continued(head: &str, names: &[&str], tail: &str) -> String {
    let mut out = String::new();
    let mut line = head.to_owned();
    for (i, name) in names.iter().enumerate() {
        let end = if i + 1 == names.len() { tail } else { ", " };
        if line.len() + name.len() + end.len() > WIDTH {
            let _ = writeln!(out, "{}&", line);
            line = "        ".to_owned();
        }
        line.push_str(name);
        line.push_str(end);
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}
