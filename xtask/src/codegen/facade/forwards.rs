//! `generated/forwards.rs`: the other MPI's functions, each of which translates its arguments,
//! calls the library, and translates the results. The kinds of the parameters say how.

use std::fmt::Write as _;

use super::flavour::Facade;
use super::tables::Exported;
use crate::codegen::constants::HANDLES;
use crate::codegen::ctype::{CType, rust_base};
use crate::codegen::entry::safe;
use crate::codegen::function_table::{self, find, rust_type};
use crate::codegen::model::{Function, Model, Param};

/// Kinds of integers, and the family of constants that they are from.
const FAMILIES: [(&str, &str); 19] = [
    ("ACCESS_MODE", "amode"),
    ("ASSERT", "assertion"),
    ("COMBINER", "combiner"),
    ("COMM_COMPARISON", "comparison"),
    ("ERROR_CLASS", "error"),
    ("ERROR_CODE", "error"),
    ("GROUP_COMPARISON", "comparison"),
    ("KEYVAL", "keyval"),
    ("LOCK_TYPE", "lock"),
    ("OFFSET", "offset"),
    ("ORDER", "order"),
    ("RANK", "rank"),
    ("RANK_NNI", "rank"),
    ("SPLIT_TYPE", "split"),
    ("TAG", "tag"),
    ("THREAD_LEVEL", "thread"),
    ("TOPOLOGY_TYPE", "topology"),
    ("TYPECLASS", "typeclass"),
    ("UPDATE_MODE", "whence"),
];

/// Kinds of arrays whose elements may be special values: functions with them are written by hand.
const SPECIAL_ARRAYS: [&str; 3] = ["DISTRIB_ENUM", "DTYPE_DISTRIBUTION", "ERROR_CODE"];

/// Kinds of the tools' interface whose constants no table has yet.
const OF_TOOLS: [&str; 6] = [
    "BIND_TYPE",
    "PVAR",
    "PVAR_CLASS",
    "TOOL_MPI_OBJ",
    "TOOL_VAR_VERBOSITY",
    "VARIABLE_SCOPE",
];

/// Renders the file.
pub fn render(facade: &Facade) -> String {
    let mut out = facade.head("Functions");
    out.push_str(
        "use super::conversions::*;\n\
         use rejoin_facade::bound_library::functions;\nuse rejoin_facade::export_macros::result_code;\n\
         use rejoin_facade::handle_places::*;\nuse rejoin_facade::later_handles::{begun, later, settle};\n\
         use rejoin_facade::long_text::*;\nuse rejoin_facade::status_copies::*;\n\
         use rejoin_facade::{export, missing};\n\n",
    );
    let mut absent = Vec::new();
    for exported in &facade.tables.functions {
        if facade.by_hand.contains(&exported.name) {
            continue;
        }
        let function = find(facade.model, &exported.standard);
        let text = of_program(&exported.name).or_else(|| forward(facade, exported, function?));
        out.push_str(&text.unwrap_or_else(|| {
            absent.push(exported.name.as_str());
            stub(exported, facade.model)
        }));
    }
    out + &function_table::missing(absent.into_iter())
}

/// A function that is about the program's own types alone.
fn of_program(name: &str) -> Option<String> {
    let (what, way) = name.strip_prefix("MPI_")?.rsplit_once('_')?;
    let (declared, body) = match (what, way) {
        ("Status", "c2f" | "f2c" | "c2f08" | "f082c" | "f2f08" | "f082f") => (
            "(from: *const c_int, to: *mut c_int) -> c_int".to_owned(),
            "copy_status::<Status>(from, to)".to_owned(),
        ),
        (kind, "c2f" | "toint") => (
            format!("(handle: {}) -> c_int", handle_type(kind)?),
            "handle.fortran()".to_owned(),
        ),
        (kind, "f2c" | "fromint") => {
            let kind = handle_type(kind)?;
            (
                format!("(number: c_int) -> {kind}"),
                format!("{kind}::of_fortran(number)"),
            )
        }
        _ => return None,
    };
    Some(format!(
        "export! {{ {name} P{name} {declared} {{ {body} }} }}\n\n"
    ))
}

/// The type of handles that a function is named after.
fn handle_type(kind: &str) -> Option<&str> {
    let kind = if kind == "Type" { "Datatype" } else { kind };
    HANDLES
        .contains(&format!("MPI_{kind}").as_str())
        .then_some(kind)
}

/// A function that is not there yet, or never.
fn stub(exported: &Exported, model: &Model) -> String {
    let is_tool = find(model, &exported.name).is_some_and(Function::is_tool)
        || exported.name.starts_with("MPI_T_");
    let how = if is_tool { "tool " } else { "" };
    format!("missing! {{ {how}Own {0} P{0} }}\n\n", exported.name)
}

/// The parts of one function's body.
#[derive(Default)]
struct Body {
    before: String,
    arguments: Vec<String>,
    /// What follows a call that has succeeded.
    success: String,
    /// What follows each call.
    after: String,
}

/// The function; `None` if there is no rule for one of its parameters.
fn forward(facade: &Facade, exported: &Exported, f: &Function) -> Option<String> {
    let shared = facade.shared(&f.rust_name());
    let mut body = Body::default();
    let mut declared = Vec::new();
    for p in &f.params {
        let Some(t) = p.ctype.as_ref() else {
            // What follows is the tool's own.
            shared.as_ref()?;
            continue;
        };
        declared.push(format!("{}: {}", safe(&p.name), rust_type(t, false)));
        match &shared {
            Some(_) => body.arguments.push(safe(&p.name)),
            None => body.add(exported, f, p, t)?,
        }
    }
    let name = &exported.name;
    let mut out = format!(
        "export! {{ {name} P{name} ({}) -> {}\n",
        declared.join(", "),
        match f.returns.as_str() {
            "MPI_Aint" => "isize",
            other => rust_base(other),
        }
    );
    let of_library = || format!("(functions().{})", f.rust_name());
    let call = format!(
        "{}({})",
        shared.clone().unwrap_or_else(of_library),
        body.arguments.join(", ")
    );
    if f.returns != "int" || shared.is_some() {
        let _ = writeln!(out, "{{\n    {call}\n}} }}\n");
        return Some(out);
    }
    out.push_str("{\n");
    out.push_str(&body.before);
    if body.success.is_empty() && body.after.is_empty() {
        let _ = writeln!(out, "    result_code::<Own>({call})\n}} }}\n");
        return Some(out);
    }
    let _ = writeln!(out, "    let code = {call};");
    if !body.success.is_empty() {
        let _ = writeln!(out, "    if code == 0 {{\n{}    }}", body.success);
    }
    let _ = writeln!(out, "{}    result_code::<Own>(code)\n}} }}\n", body.after);
    Some(out)
}

impl Body {
    /// One more parameter.
    fn add(&mut self, exported: &Exported, f: &Function, p: &Param, t: &CType) -> Option<()> {
        let name = safe(&p.name);
        if OF_TOOLS.contains(&p.kind.as_str()) {
            return None;
        }
        if t.is_callback() || SPECIAL_ARRAYS.contains(&p.kind.as_str()) && t.array {
            return None;
        }
        if HANDLES.contains(&t.base.as_str()) {
            return self.handle(f, p, t, name);
        }
        if t.base == "MPI_Status" {
            return self.status(f, p, t, name);
        }
        if p.kind == "WEIGHT" {
            self.arguments.push(format!("weights_in::<Own, _>({name})"));
            return Some(());
        }
        if p.kind == "BUFFER" || p.name == "buffer" && t.pointers == 1 {
            let attached = if f.name.contains("ttach") && p.name == "buffer" {
                "attached_"
            } else {
                ""
            };
            self.arguments
                .push(format!("{attached}buffer_in::<Own>({name})"));
            return Some(());
        }
        if p.kind == "STRING"
            && p.direction == "out"
            && let Some(limit) = &exported.limit
        {
            let length = f.params.iter().find(|p| p.kind == "STRING_LENGTH");
            let length = length.map_or("std::ptr::null_mut()", |p| p.name.as_str());
            self.line(format!(
                "let mut text = LongText::<{{ {limit}.1 }}>::new({name});"
            ));
            self.arguments.push("text.place()".to_owned());
            self.on_success(format!("text.give({limit}.0, {length});"));
            return Some(());
        }
        match family(f, p) {
            Some(family) if t.is_scalar() => {
                self.arguments.push(format!("{family}_in({name})"));
            }
            Some(family) if t.pointers == 1 && !t.array => {
                if p.direction == "inout" {
                    self.line(format!("change({name}, {family}_in);"));
                }
                self.arguments.push(name.clone());
                let give = format!("change({name}, {family}_out);");
                match p.direction.as_str() {
                    "inout" => self.always(give),
                    _ => self.on_success(give),
                }
            }
            _ => self.arguments.push(name),
        }
        Some(())
    }

    fn handle(&mut self, f: &Function, p: &Param, t: &CType, name: String) -> Option<()> {
        if t.is_scalar() {
            self.arguments.push(format!("{name}.abi()"));
            // It may have completed, and stays.
            if f.name.starts_with("MPI_Request_get_status") {
                self.always("settle();".to_owned());
            }
        } else if t.array {
            let count = f.params.iter().find(|c| {
                c.ctype
                    .as_ref()
                    .is_some_and(|t| t.is_scalar() && t.is_count())
                    && ["count", "incount"].contains(&c.name.as_str())
            })?;
            let (kind, pointer) = match (p.direction.as_str(), t.is_const) {
                ("inout", _) => ("LentArray", "place"),
                (_, true) => ("CopiedHandles", "as_ptr"),
                (_, false) => ("CopiedHandles", "as_mut_ptr"),
            };
            let mutable = if kind == "LentArray" { "mut " } else { "" };
            let count = match count.ctype.as_ref().is_some_and(|t| t.base == "int") {
                true => count.name.clone(),
                false => format!("{} as c_int", count.name),
            };
            self.line(format!(
                "let {mutable}abi_{name} = {kind}::new({count}, {name});"
            ));
            self.arguments.push(format!("abi_{name}.{pointer}()"));
            if kind == "LentArray" {
                self.always(format!("abi_{name}.give();"));
            }
            if f.name.starts_with("MPI_Request_get_status") {
                self.always("settle();".to_owned());
            }
        } else if f.name.contains("_idup") && t.base == "MPI_Comm" {
            self.line(format!("let abi_{name} = later({name});"));
            self.arguments.push(format!("abi_{name}"));
            self.always(format!("begun({name}, abi_{name}, code);"));
        } else {
            // Some calls that fail write a null handle.
            let kind = if p.direction == "out" {
                "OutHandle"
            } else {
                "Lent"
            };
            self.line(format!("let mut abi_{name} = {kind}::new({name});"));
            self.arguments.push(format!("abi_{name}.place()"));
            self.always(format!("abi_{name}.give();"));
        }
        Some(())
    }

    fn status(&mut self, f: &Function, p: &Param, t: &CType, name: String) -> Option<()> {
        if p.name.starts_with("array_of") {
            let counts = ["count", "incount"];
            let count = f
                .params
                .iter()
                .find(|p| counts.contains(&p.name.as_str()))?;
            self.line("let mut room = status_room();".to_owned());
            self.line(format!(
                "let mut abi_{name} = ManyStatuses::<Own>::new({}, {name}, &mut room);",
                count.name
            ));
        } else if t.is_const {
            self.line(format!("let abi_{name} = OneStatus::<Own>::of({name});"));
            self.arguments.push(format!("abi_{name}.read()"));
            return Some(());
        } else {
            let is_read = p.direction == "inout" || f.name.starts_with("MPI_Status_");
            let how = if is_read { "of" } else { "unset" };
            self.line(format!(
                "let mut abi_{name} = OneStatus::<Own>::{how}({name});"
            ));
        }
        self.arguments.push(format!("abi_{name}.place()"));
        self.always(format!("abi_{name}.give();"));
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

/// The family of constants that an integer is from.
fn family(f: &Function, p: &Param) -> Option<&'static str> {
    // The tables have no kinds for these.
    match (f.name.as_str(), p.name.as_str()) {
        ("MPI_Precv_init", "dest") => return Some("rank"),
        ("MPI_Status_get_source" | "MPI_Status_set_source", "source") => return Some("rank"),
        ("MPI_Status_get_tag" | "MPI_Status_set_tag", "tag") => return Some("tag"),
        ("MPI_Status_get_error" | "MPI_Status_set_error", "error") => return Some("error"),
        ("MPI_Remove_error_class" | "MPI_Remove_error_code" | "MPI_Remove_error_string", _) => {
            return Some("error");
        }
        _ => {}
    }
    let family = FAMILIES.iter().find(|family| family.0 == p.kind);
    // Offsets are numbers elsewhere.
    let family = family.filter(|_| p.kind != "OFFSET" || f.name == "MPI_File_set_view");
    family.map(|family| family.1)
}
