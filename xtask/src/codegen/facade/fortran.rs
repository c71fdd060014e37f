//! `generated/fortran.rs`: the functions as programs of Fortran call them (`mpif.h`, the module
//! `mpi`). Each makes C arguments of its own, and calls the function of C.

use std::fmt::Write as _;

use super::flavour::Facade;
use crate::codegen::constants::HANDLES;
use crate::codegen::ctype::CType;
use crate::codegen::entry::safe;
use crate::codegen::function_table::{find, rust_type};
use crate::codegen::model::{Function, Param};

/// Kinds of texts and functions that no rule covers.
const NO_RULE: [&str; 7] = [
    "ARGUMENT_COUNT",
    "ARGUMENT_LIST",
    "EXTRA_STATE",
    "FUNCTION",
    "POLYFUNCTION",
    "STRING_ARRAY",
    "STRING_2DARRAY",
];

/// Kinds of lengths that a program states of its own room.
const LENGTHS: [&str; 2] = ["INFO_VALUE_LENGTH", "STRING_LENGTH"];

/// Whether the program says in this argument how long its room is, and gets the length back.
fn is_stated_length(p: &Param) -> bool {
    LENGTHS.contains(&p.kind.as_str()) && p.direction == "inout"
}

/// Renders the file.
pub fn render(facade: &Facade) -> String {
    let mut out = facade.head("Functions of Fortran");
    out.push_str(
        "use rejoin_facade::fortran_arguments::*;\nuse rejoin_facade::fortran_entries::give;\n\
         use rejoin_facade::{fortran, lacking};\n\n",
    );
    let mut declared = String::new();
    for exported in &facade.tables.functions {
        let f = find(facade.model, &exported.standard);
        // Fortran kept some of the removed functions.
        let Some(f) = f.filter(|f| f.in_fortran || f.is_removed()) else {
            continue;
        };
        let lower = exported.name.to_lowercase();
        if facade.by_hand.contains(&format!("{lower}_")) {
            continue;
        }
        match forward(facade, f, &lower) {
            Some((text, declaration)) => {
                out.push_str(&text);
                // One under another name calls the same function of C.
                if exported.name == exported.standard {
                    declared.push_str(&declaration);
                }
            }
            None => {
                let names = names(facade, &lower, f);
                let _ = writeln!(out, "lacking! {{ Own [{names}] {} }}\n", exported.name);
            }
        }
    }
    // In C they may be macros.
    for name in ["MPI_Aint_add", "MPI_Aint_diff"] {
        let is_there = facade.tables.functions.iter().any(|f| f.name == name);
        if let Some(f) = find(facade.model, name).filter(|_| !is_there)
            && let Some((text, _)) = forward(facade, f, &name.to_lowercase())
        {
            out.push_str(&text);
        }
    }
    let _ = writeln!(
        out,
        "// The call itself keeps a compiler from moving accesses of the buffer.\n\
         fortran! {{ [{}] () () {{}} }}\n\n\
         unsafe extern \"C\" {{\n{declared}}}",
        (facade.flavour.names)("mpi_f_sync_reg").join(" ")
    );
    out
}

/// Kinds of variables in Open MPI's names of `MPI_SIZEOF`, and the bytes of an element.
const ELEMENTS: [(&str, u32); 12] = [
    ("character", 1),
    ("complex32", 8),
    ("complex64", 16),
    ("complex128", 32),
    ("int8", 1),
    ("int16", 2),
    ("int32", 4),
    ("int64", 8),
    ("logical", 4),
    ("real32", 4),
    ("real64", 8),
    ("real128", 16),
];

/// Most dimensions of an array in Fortran.
const MOST_DIMENSIONS: u32 = 15;

/// `MPI_SIZEOF` as Open MPI has it: a function for each kind of element and number of dimensions.
pub fn render_sizes(facade: &Facade) -> String {
    let mut out = facade.head("Sizes of variables of Fortran");
    out.push_str("use rejoin_facade::fortran;\nuse rejoin_facade::fortran_entries::give;\n\n");
    for (element, bytes) in ELEMENTS {
        let shapes = (1..=MOST_DIMENSIONS).map(|dimensions| format!("r{dimensions}"));
        let names: Vec<String> = shapes
            .chain(["scalar".to_owned()])
            .flat_map(|shape| ["", "p"].map(|p| format!("{p}mpi_sizeof_{element}_{shape}_")))
            .collect();
        let _ = writeln!(
            out,
            "fortran! {{ [{}] (_variable: *const c_void, size: *mut c_int, ierror: *mut c_int) ()\n\
             {{\n    *size = {bytes};\n    give(ierror, 0);\n}} }}\n",
            names.join(" ")
        );
    }
    out
}

/// All names of a function; one that gives a C pointer has one more in the modules.
fn names(facade: &Facade, lower: &str, f: &Function) -> String {
    let mut names = (facade.flavour.names)(lower);
    if f.params.iter().any(|p| p.kind == "C_BUFFER") {
        names.extend((facade.flavour.names)(&format!("{lower}_cptr")));
    }
    names.join(" ")
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
fn forward(facade: &Facade, f: &Function, lower: &str) -> Option<(String, String)> {
    let names = names(facade, lower, f);
    if let Some(shared) = facade.shared(&format!("fortran_{}", f.rust_name())) {
        return Some((by_hand(f, &names, &shared), String::new()));
    }
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
        "fortran! {{ [{names}] ({}) ()\n{{\n{}",
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

/// A function that is written for all façades, which says itself what each argument is.
fn by_hand(f: &Function, names: &str, shared: &str) -> String {
    let mut declared = Vec::new();
    // Fortran has no arguments of the program.
    let is_there = |p: &&Param| !p.kind.starts_with("ARGUMENT_");
    for p in f.params.iter().filter(is_there) {
        let Some(t) = p.ctype.as_ref() else { continue };
        declared.push((safe(&p.name), by_reference(f, p, t)));
    }
    let result = match f.returns.as_str() {
        "MPI_Aint" => "isize",
        "double" => "f64",
        _ => "",
    };
    if result.is_empty() && f.name != "MPI_Pcontrol" {
        declared.push(("ierror".to_owned(), "*mut c_int".to_owned()));
    }
    let list = |part: fn(&(String, String)) -> String| {
        declared.iter().map(part).collect::<Vec<_>>().join(", ")
    };
    format!(
        "fortran! {{ [{names}] ({}) ({result})\n{{\n    {shared}({})\n}} }}\n\n",
        list(|(name, kind)| format!("{name}: {kind}")),
        list(|(name, _)| name.clone())
    )
}

/// The type of an argument of Fortran. Values of attributes are address integers, but those of
/// MPI-1 integers.
fn by_reference(f: &Function, p: &Param, t: &CType) -> String {
    let is_old = ["MPI_Attr_get", "MPI_Attr_put", "MPI_Keyval_create"].contains(&f.name.as_str());
    let value = if is_old { "c_int" } else { "isize" };
    let mode = if p.direction == "in" { "const" } else { "mut" };
    if p.kind.starts_with("ATTRIBUTE_VAL") || p.kind.starts_with("EXTRA_STATE") {
        format!("*{mode} {value}")
    } else if t.is_callback() {
        "*const c_void".to_owned()
    } else if HANDLES.contains(&t.base.as_str()) {
        format!("*{mode} c_int")
    } else if f.is_removed() && t.base == "MPI_Aint" {
        // Before MPI-2, addresses in Fortran were integers.
        format!("*{mode} c_int")
    } else if t.is_scalar() {
        let mut shape = t.clone();
        (shape.pointers, shape.is_const) = (1, true);
        rust_type(&shape, false)
    } else {
        rust_type(t, false)
    }
}

impl Body {
    /// One more parameter.
    fn add(&mut self, f: &Function, p: &Param, t: &CType) -> Option<()> {
        let name = safe(&p.name);
        if t.is_callback()
            || NO_RULE.contains(&p.kind.as_str())
            || p.kind.starts_with("ATTRIBUTE_VAL")
        {
            return None;
        }
        if HANDLES.contains(&t.base.as_str()) {
            return self.handle(f, p, t, name);
        }
        if t.base == "MPI_Status" {
            self.declared.push(format!("{name}: *mut Status"));
            let which = if p.name.starts_with("array_of") {
                "statuses"
            } else {
                "status"
            };
            self.arguments.push(format!("{which}_at::<Own>({name})"));
            return Some(());
        }
        if t.base == "char" {
            return self.text(f, p, t, name);
        }
        if t.base == "void" {
            self.declared.push(format!("{name}: *mut c_void"));
            self.arguments.push(format!("buffer_at::<Own>({name})"));
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
                .push(format!("fortran_weights::<Own>({name} as *mut c_int)"));
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
            let stated = f.params.iter().find(|p| is_stated_length(p));
            // Without an answer, the program keeps what it has.
            let has_flag = f.params.iter().any(|p| p.name == "flag");
            let mut conditions = Vec::new();
            conditions.extend(has_flag.then_some("*flag != 0"));
            if let Some(stated) = stated {
                self.stated_length(&safe(&stated.name), &conditions);
                conditions.push("most > 0");
            }
            let give = format!("text_{name}.give({name}, {name}_length as usize);");
            self.line(format!("let mut text_{name} = OutText::new();"));
            self.arguments.push(format!("text_{name}.place()"));
            self.on_success(match conditions.is_empty() {
                true => give,
                false => format!("if {} {{ {give} }}", conditions.join(" && ")),
            });
        } else {
            // MPI ignores blanks on both sides of keys and values.
            let read = match f.name.starts_with("MPI_Info_") {
                true => "in_trimmed_text",
                false => "in_text",
            };
            self.line(format!(
                "let text_{name} = {read}({name}, {name}_length as usize);"
            ));
            self.arguments.push(format!("text_{name}.as_ptr()"));
        }
        Some(())
    }

    /// The length of the program's room, which does not count C's last byte.
    fn stated_length(&mut self, length: &str, answered: &[&str]) {
        self.line(format!("let most = *{length};"));
        self.line(format!(
            "if most > 0 {{ *{length} = most.min(OutText::LENGTH as c_int - 1) + 1; }}"
        ));
        let known = [&["code == 0"], answered].concat().join(" && ");
        self.always(format!(
            "*{length} = if {known} {{ *{length} - 1 }} else {{ most }};"
        ));
    }

    fn handle(&mut self, f: &Function, p: &Param, t: &CType, name: String) -> Option<()> {
        let kind = &t.base["MPI_".len()..];
        if t.is_scalar() {
            self.declared.push(format!("{name}: *const c_int"));
            self.arguments.push(format!("{kind}::of_fortran(*{name})"));
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
                "let {mutable}c_{name} = handles::<{kind}>(*{}, {name});",
                count.name
            ));
            let pointer = if t.is_const { "as_ptr" } else { "as_mut_ptr" };
            self.arguments.push(format!("c_{name}.{pointer}()"));
            if !t.is_const {
                self.always(format!("give_all(&c_{name}, {name});"));
            }
            return Some(());
        }
        let first = match p.direction.as_str() {
            "out" => format!("nothing::<{kind}>()"),
            _ => format!("{kind}::of_fortran(*{name})"),
        };
        self.line(format!("let mut c_{name} = {first};"));
        self.arguments.push(format!("&mut c_{name}"));
        let give = format!("*{name} = c_{name}.fortran();");
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
