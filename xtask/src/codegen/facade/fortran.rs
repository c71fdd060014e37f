//! `generated/fortran.rs`: the functions as programs of Fortran call them (`mpif.h`, the module
//! `mpi`). Each makes C arguments of its own, and calls the function of C.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::tables::Tables;
use crate::codegen::constants::HANDLES;
use crate::codegen::ctype::CType;
use crate::codegen::entry::safe;
use crate::codegen::function_table::{find, rust_type};
use crate::codegen::model::{Function, Model, Param};

/// Kinds of texts and functions that no rule covers.
const BY_HAND: [&str; 7] = [
    "ARGUMENT_COUNT",
    "ARGUMENT_LIST",
    "EXTRA_STATE",
    "FUNCTION",
    "POLYFUNCTION",
    "STRING_ARRAY",
    "STRING_2DARRAY",
];

/// Renders the file.
pub fn render(model: &Model, tables: &Tables, by_hand: &BTreeSet<String>) -> String {
    let mut out = format!(
        "//! Functions of Fortran by rule. {}: do not edit.\n\n\
         #![allow(clippy::too_many_arguments)]\n\n\
         use std::ffi::{{c_char, c_int, c_void}};\n\n\
         use crate::fortran_arguments::*;\nuse crate::fortran_entries::{{fortran, lacking}};\n\
         use crate::program_types::*;\n\n",
        crate::codegen::MARK
    );
    let mut declared = String::new();
    for exported in &tables.functions {
        let Some(f) = find(model, &exported.standard).filter(|f| f.in_fortran) else {
            continue;
        };
        let lower = exported.name.to_lowercase();
        if by_hand.contains(&format!("{lower}_")) {
            continue;
        }
        match forward(f, &lower) {
            Some((text, declaration)) => {
                out.push_str(&text);
                // One under another name calls the same function of C.
                if exported.name == exported.standard {
                    declared.push_str(&declaration);
                }
            }
            None => {
                let _ = writeln!(
                    out,
                    "lacking! {{ {lower}_ p{lower}_ {} {} }}\n",
                    inner(&lower),
                    exported.name
                );
            }
        }
    }
    let _ = writeln!(out, "unsafe extern \"C\" {{\n{declared}}}");
    out
}

/// The name that Open MPI's own module `mpi_f08` calls.
fn inner(lower: &str) -> String {
    format!("o{lower}_f")
}

/// The parts of one function.
#[derive(Default)]
struct Body {
    declared: Vec<String>,
    hidden: Vec<String>,
    before: String,
    arguments: Vec<String>,
    success: String,
    after: String,
}

/// The function and the declaration of that of C; `None` if there is no rule.
fn forward(f: &Function, lower: &str) -> Option<(String, String)> {
    let mut body = Body::default();
    let mut of_c = Vec::new();
    for p in &f.params {
        let t = p.ctype.as_ref()?;
        of_c.push(format!("{}: {}", safe(&p.name), rust_type(t, false)));
        body.add(f, p, t)?;
    }
    if f.returns != "int" {
        return None;
    }
    let mut declared = body.declared;
    declared.push("ierror: *mut c_int".to_owned());
    declared.extend(body.hidden);
    let mut out = format!(
        "fortran! {{ {lower}_ p{lower}_ {} ({})\n{{\n{}",
        inner(lower),
        declared.join(", "),
        body.before
    );
    let _ = writeln!(
        out,
        "    let code = P{}({});",
        f.name,
        body.arguments.join(", ")
    );
    if !body.success.is_empty() {
        let _ = writeln!(out, "    if code == 0 {{\n{}    }}", body.success);
    }
    let _ = writeln!(out, "{}    give(ierror, code);\n}} }}\n", body.after);
    let of_c = format!("fn P{}({}) -> c_int;\n", f.name, of_c.join(", "));
    Some((out, of_c))
}

impl Body {
    /// One more parameter.
    fn add(&mut self, f: &Function, p: &Param, t: &CType) -> Option<()> {
        let name = safe(&p.name);
        if t.is_callback()
            || BY_HAND.contains(&p.kind.as_str())
            || p.kind.starts_with("ATTRIBUTE_VAL")
        {
            return None;
        }
        if HANDLES.contains(&t.base.as_str()) {
            return self.handle(f, p, t, name);
        }
        if t.base == "MPI_Status" {
            self.declared.push(format!("{name}: *mut ProgramStatus"));
            let which = if p.name.starts_with("array_of") {
                "statuses"
            } else {
                "status"
            };
            self.arguments.push(format!("{which}_at({name})"));
            return Some(());
        }
        if t.base == "char" {
            return self.text(f, p, t, name);
        }
        if t.base == "void" {
            self.declared.push(format!("{name}: *mut c_void"));
            self.arguments.push(format!("buffer_at({name})"));
            return Some(());
        }
        let mut shape = t.clone();
        if t.is_scalar() {
            shape.pointers = 1;
            shape.is_const = true;
        }
        self.declared
            .push(format!("{name}: {}", rust_type(&shape, false)));
        if t.is_scalar() {
            self.arguments.push(format!("*{name}"));
        } else if p.kind == "WEIGHT" {
            self.arguments
                .push(format!("fortran_weights({name} as *mut c_int)"));
        } else {
            self.arguments.push(name.clone());
        }
        // Fortran counts from 1. A call that fails may have found some: then it has set the place.
        let found = match p.name.as_str() {
            "indx" if t.pointers == 1 => ("indx", "1"),
            "array_of_indices" => ("outcount", "*outcount"),
            _ => return Some(()),
        };
        self.line(format!("*{} = UNDEFINED;", found.0));
        self.always(format!("count_from_one({}, {name});", found.1));
        Some(())
    }

    fn text(&mut self, f: &Function, p: &Param, t: &CType, name: String) -> Option<()> {
        if t.pointers + usize::from(t.array) != 1 {
            return None;
        }
        self.declared.push(format!("{name}: *mut c_char"));
        // A compiler gives 64 bits, the library of `mpi_f08` 32.
        self.hidden.push(format!("{name}_length: u32"));
        if p.direction == "out" {
            // Where the program says a length, it does not count C's last byte.
            if f.params
                .iter()
                .any(|p| p.kind == "STRING_LENGTH" && p.direction == "inout")
            {
                return None;
            }
            self.line(format!("let mut text_{name} = OutText::new();"));
            self.arguments.push(format!("text_{name}.place()"));
            self.on_success(format!("text_{name}.give({name}, {name}_length);"));
        } else {
            self.line(format!("let text_{name} = in_text({name}, {name}_length);"));
            self.arguments.push(format!("text_{name}.as_ptr()"));
        }
        Some(())
    }

    fn handle(&mut self, f: &Function, p: &Param, t: &CType, name: String) -> Option<()> {
        let kind = match &t.base["MPI_".len()..] {
            "Datatype" => "TYPE".to_owned(),
            kind => kind.to_uppercase(),
        };
        if t.is_scalar() {
            self.declared.push(format!("{name}: *const c_int"));
            self.arguments.push(format!("{kind}.handle(*{name})"));
            return Some(());
        }
        self.declared.push(format!("{name}: *mut c_int"));
        if t.array {
            let count = f
                .params
                .iter()
                .find(|p| ["count", "incount"].contains(&p.name.as_str()))?;
            let mutable = if t.is_const { "" } else { "mut " };
            self.line(format!(
                "let {mutable}c_{name} = {kind}.handles(*{}, {name});",
                count.name
            ));
            let pointer = if t.is_const { "as_ptr" } else { "as_mut_ptr" };
            self.arguments.push(format!("c_{name}.{pointer}()"));
            if !t.is_const {
                self.always(format!("{kind}.give_all(&c_{name}, {name});"));
            }
            return Some(());
        }
        // A handle that is written later needs a place that stays.
        if f.name.contains("_idup") && t.base == "MPI_Comm" {
            return None;
        }
        let first = match p.direction.as_str() {
            "out" => "NOTHING".to_owned(),
            _ => format!("{kind}.handle(*{name})"),
        };
        self.line(format!("let mut c_{name} = {first};"));
        self.arguments.push(format!("&mut c_{name}"));
        let give = format!("{kind}.give(c_{name}, {name});");
        match p.direction.as_str() {
            "out" => self.on_success(give),
            _ => self.always(give),
        }
        Some(())
    }

    fn line(&mut self, text: String) {
        let _ = writeln!(self.before, "    {text}");
    }

    fn always(&mut self, text: String) {
        let _ = writeln!(self.after, "    {text}");
    }

    fn on_success(&mut self, text: String) {
        let _ = writeln!(self.success, "        {text}");
    }
}
