//! `generated/forwards.rs`: Open MPI's functions, each of which translates its arguments, calls the
//! library, and translates the results. The kinds of the parameters say how.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::tables::{Exported, Tables};
use crate::codegen::constants::HANDLES;
use crate::codegen::ctype::{CType, rust_base};
use crate::codegen::entry::safe;
use crate::codegen::function_table::{find, rust_type};
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
pub fn render(model: &Model, tables: &Tables, by_hand: &BTreeSet<String>) -> String {
    let mut out = format!(
        "//! Functions of Open MPI by rule. {}: do not edit.\n\n\
         use std::ffi::{{c_char, c_double, c_int, c_void}};\n\n\
         use super::conversions::*;\nuse crate::bound_library::functions;\nuse crate::export_macros::{{export, missing, result_code}};\n\
         use crate::handle_places::*;\n\
         use crate::long_text::*;\nuse crate::program_types::*;\nuse crate::status_copies::*;\n\n",
        crate::codegen::MARK
    );
    for exported in &tables.functions {
        if by_hand.contains(&exported.name) {
            continue;
        }
        let function = find(model, &exported.standard);
        let text = function.and_then(|f| forward(exported, f));
        out.push_str(&text.unwrap_or_else(|| stub(exported, model)));
    }
    out
}

/// A function that is not there yet, or never.
fn stub(exported: &Exported, model: &Model) -> String {
    let is_tool = find(model, &exported.name).is_some_and(Function::is_tool);
    let how = if is_tool { "tool " } else { "" };
    format!("missing! {{ {how}{0} P{0} }}\n\n", exported.name)
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
fn forward(exported: &Exported, f: &Function) -> Option<String> {
    let mut body = Body::default();
    let mut declared = Vec::new();
    for p in &f.params {
        let t = p.ctype.as_ref()?;
        declared.push(format!("{}: {}", safe(&p.name), rust_type(t, false)));
        body.add(exported, f, p, t)?;
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
    let call = format!(
        "(functions().{})({})",
        f.rust_name(),
        body.arguments.join(", ")
    );
    if f.returns != "int" {
        let _ = writeln!(out, "{{\n    {call}\n}} }}\n");
        return Some(out);
    }
    out.push_str("{\n");
    out.push_str(&body.before);
    if body.success.is_empty() && body.after.is_empty() {
        let _ = writeln!(out, "    result_code({call})\n}} }}\n");
        return Some(out);
    }
    let _ = writeln!(out, "    let code = {call};");
    if !body.success.is_empty() {
        let _ = writeln!(out, "    if code == 0 {{\n{}    }}", body.success);
    }
    let _ = writeln!(out, "{}    result_code(code)\n}} }}\n", body.after);
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
            self.arguments.push(format!("weights_in({name})"));
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
        let family = FAMILIES.iter().find(|family| family.0 == p.kind);
        // Offsets are numbers elsewhere.
        let family = family.filter(|_| p.kind != "OFFSET" || f.name == "MPI_File_set_view");
        // The table has no kind for this one.
        let family = if f.name == "MPI_Precv_init" && p.name == "dest" {
            Some("rank")
        } else {
            family.map(|f| f.1)
        };
        match family {
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
        } else if t.array {
            let count = f.params.iter().find(|c| {
                c.ctype
                    .as_ref()
                    .is_some_and(|t| t.is_scalar() && t.base == "int")
                    && ["count", "incount"].contains(&c.name.as_str())
            })?;
            if p.direction == "inout" {
                self.line(format!("handles_in({}, {name});", count.name));
                self.arguments.push(format!("{name}.cast()"));
                self.always(format!("handles_out({}, {name});", count.name));
            } else {
                self.line(format!(
                    "let abi_{name} = CopiedHandles::new({}, {name});",
                    count.name
                ));
                let pointer = if t.is_const { "as_ptr" } else { "as_mut_ptr" };
                self.arguments.push(format!("abi_{name}.{pointer}()"));
            }
        } else if p.direction == "out" {
            // It is the program's own place, since nonblocking calls write it later; and some
            // that fail write a null handle.
            self.arguments.push(format!("{name}.cast()"));
            self.always(format!("handle_out({name});"));
        } else {
            self.line(format!("let mut abi_{name} = Lent::new({name});"));
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
                "let mut abi_{name} = ManyStatuses::new({}, {name}, &mut room);",
                count.name
            ));
        } else if t.is_const {
            self.line(format!("let abi_{name} = OneStatus::of({name});"));
            self.arguments.push(format!("abi_{name}.read()"));
            return Some(());
        } else if p.direction == "inout" {
            self.line(format!("let mut abi_{name} = OneStatus::of({name});"));
        } else {
            self.line(format!("let mut abi_{name} = OneStatus::unset({name});"));
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
