//! Bodies of functions by rule: each makes C arguments of its own, and calls the function of C.

use std::fmt::Write as _;

use super::argument::{Argument, Direction, Kind, Shape};
use super::choice;
use super::selection::Selected;
use crate::codegen::entry::safe;

/// How choice buffers come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BufferForm {
    /// As addresses.
    Address,
    /// As C descriptors.
    Descriptor,
}

/// The parts of one function.
#[derive(Default)]
pub struct Body {
    declared: Vec<String>,
    hidden: Vec<String>,
    before: String,
    arguments: Vec<String>,
    success: String,
    after: String,
}

impl Body {
    /// That of a function; `None` if there is no rule.
    pub fn of(s: &Selected<'_>, choice: BufferForm) -> Option<Self> {
        let mut body = Self::default();
        for a in &s.arguments {
            body.add(s, a, choice)?;
        }
        // Handles that the library writes when a request completes become integers then.
        if may_complete(s) {
            body.always("give_late_handles();".to_owned());
        }
        Some(body)
    }

    /// Declarations of the parameters, `ierror` and hidden lengths among them.
    pub fn parameters(&self) -> String {
        let ierror = "ierror: *mut c_int".to_owned();
        let all = self.declared.iter().chain([&ierror]).chain(&self.hidden);
        all.cloned().collect::<Vec<_>>().join(", ")
    }

    /// The statements.
    pub fn statements(&self) -> String {
        let mut out = self.before.clone();
        let _ = writeln!(out, "    let code = call({});", self.arguments.join(", "));
        if !self.success.is_empty() {
            let _ = writeln!(out, "    if code == 0 {{\n{}    }}", self.success);
        }
        let _ = writeln!(out, "{}    give(ierror, code);", self.after);
        out
    }

    fn add(&mut self, s: &Selected<'_>, a: &Argument, choice: BufferForm) -> Option<()> {
        let name = safe(&a.name);
        match &a.shape {
            Shape::Absent if a.is_pointer => self.arguments.push("std::ptr::null_mut()".to_owned()),
            Shape::Absent => self.arguments.push("0".to_owned()),
            Shape::Handle(kind) => self.handle(s, a, &name, handle_kind(kind), choice)?,
            Shape::Buffer => self.buffer(s, a, &name, choice),
            Shape::Address => {
                self.declared.push(format!("{name}: *mut c_void"));
                self.arguments.push(name);
            }
            Shape::Logical => self.logical(s, a, &name)?,
            Shape::Text => self.text(s, a, &name, choice),
            Shape::Status => {
                self.declared.push(format!("{name}: *mut CStatus"));
                self.arguments.push(format!("status_at({name})"));
            }
            Shape::Weights => {
                self.declared.push(format!("{name}: *mut c_int"));
                self.arguments.push(format!("weights_at({name})"));
            }
            Shape::Integer(kind) => self.integer(s, a, &name, *kind, choice),
            Shape::Texts | Shape::TextTable | Shape::Detached | Shape::Procedure(_) => return None,
        }
        Some(())
    }

    fn buffer(&mut self, s: &Selected<'_>, a: &Argument, name: &str, choice: BufferForm) {
        if choice == BufferForm::Address {
            self.declared.push(format!("{name}: *mut c_void"));
            self.line(format!("let c_{name} = buffer_at({name});"));
            self.arguments.push(format!("c_{name}"));
            return;
        }
        self.declared.push(format!("{name}: *const CDescriptor"));
        let (line, argument) = choice::buffer(s, a, name);
        self.before.push_str(&line);
        self.arguments.push(argument);
    }

    fn integer(
        &mut self,
        s: &Selected<'_>,
        a: &Argument,
        name: &str,
        kind: Kind,
        choice: BufferForm,
    ) {
        let mut base = integer_type(kind).to_owned();
        if let Some(inner) = a.inner {
            base = format!("[{base}; {inner}]");
        }
        let mode = pointer_mode(a);
        self.declared.push(format!("{name}: *{mode} {base}"));
        let of_section =
            choice::section_of_count(s, a).filter(|_| choice == BufferForm::Descriptor);
        match of_section {
            Some(buffer) => self.arguments.push(format!("s_{buffer}.count as _")),
            None if a.is_pointer => self.arguments.push(name.to_owned()),
            None => self.arguments.push(format!("*{name}")),
        }
        // Fortran counts from 1. A call that fails may have found some: then it has set the place.
        let found = match name {
            "indx" if !a.is_array => ("indx", "1"),
            "array_of_indices" => ("outcount", "*outcount"),
            _ => return,
        };
        self.line(format!("*{} = UNDEFINED;", found.0));
        self.always(format!("count_from_one({}, {name});", found.1));
    }

    fn logical(&mut self, s: &Selected<'_>, a: &Argument, name: &str) -> Option<()> {
        let mode = pointer_mode(a);
        self.declared.push(format!("{name}: *{mode} c_int"));
        if !a.is_pointer {
            self.arguments.push(format!("of_c(*{name})"));
            return Some(());
        }
        let length = match a.is_array {
            true => Some(logicals_length(s, name)?),
            false => None,
        };
        match (&length, a.direction) {
            (Some(length), Direction::In) => {
                self.line(format!("let c_{name} = all_of_c({length}, {name});"));
                self.arguments.push(format!("c_{name}.as_ptr()"));
            }
            (Some(length), _) => {
                self.arguments.push(name.to_owned());
                self.on_success(format!("give_logicals({length}, {name});"));
            }
            (None, _) => {
                self.arguments.push(name.to_owned());
                self.on_success(format!("give_logical({name});"));
            }
        }
        Some(())
    }

    fn text(&mut self, s: &Selected<'_>, a: &Argument, name: &str, choice: BufferForm) {
        if choice == BufferForm::Descriptor {
            self.declared.push(format!("{name}: *const CDescriptor"));
            self.line(format!("let text_{name} = described_text({name});"));
            self.arguments.push(format!("text_{name}.as_ptr()"));
            return;
        }
        let mode = pointer_mode(a);
        self.declared.push(format!("{name}: *{mode} c_char"));
        self.hidden.push(format!("{name}_length: usize"));
        if a.direction == Direction::Out {
            self.line(format!("let mut text_{name} = OutText::new();"));
            self.arguments.push(format!("text_{name}.place()"));
            self.on_success(format!("text_{name}.give({name}, {name}_length);"));
            return;
        }
        // Blanks around keys and values of infos mean nothing (MPI-5.0 §10).
        let read = match s.function.name.starts_with("MPI_Info_") {
            true => "in_trimmed_text",
            false => "in_text",
        };
        self.line(format!("let text_{name} = {read}({name}, {name}_length);"));
        self.arguments.push(format!("text_{name}.as_ptr()"));
    }

    fn handle(
        &mut self,
        s: &Selected<'_>,
        a: &Argument,
        name: &str,
        kind: String,
        choice: BufferForm,
    ) -> Option<()> {
        if a.is_array {
            return self.handles(s, a, name, &kind);
        }
        if !a.is_pointer {
            self.declared.push(format!("{name}: *const c_int"));
            let of_section =
                choice::section_of_type(s, a).filter(|_| choice == BufferForm::Descriptor);
            self.arguments.push(match of_section {
                Some(buffer) => format!("s_{buffer}.datatype"),
                None => format!("{kind}.handle(*{name})"),
            });
            return Some(());
        }
        self.declared.push(format!("{name}: *mut c_int"));
        let first = match a.direction {
            Direction::Out => "NOTHING".to_owned(),
            Direction::In | Direction::Both => format!("{kind}.handle(*{name})"),
        };
        self.line(format!("let mut c_{name} = {first};"));
        self.arguments.push(format!("&mut c_{name}"));
        let give = format!("{kind}.give(c_{name}, {name});");
        match a.direction {
            Direction::In => {}
            Direction::Out => self.on_success(give),
            Direction::Both => self.always(give),
        }
        Some(())
    }

    fn handles(&mut self, s: &Selected<'_>, a: &Argument, name: &str, kind: &str) -> Option<()> {
        let mode = pointer_mode(a);
        self.declared.push(format!("{name}: *{mode} c_int"));
        let length = handles_length(s, name)?;
        if a.direction == Direction::Out {
            self.line(format!("let mut c_{name} = vec![NOTHING; {length}];"));
        } else {
            let mutable = if a.is_const { "" } else { "mut " };
            let line = format!("let {mutable}c_{name} = {kind}.handles({length}, {name});");
            self.line(line);
        }
        let pointer = if a.is_const { "as_ptr" } else { "as_mut_ptr" };
        self.arguments.push(format!("c_{name}.{pointer}()"));
        if !a.is_const {
            self.always(format!("{kind}.give_all(&c_{name}, {name});"));
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

/// Whether a request may be complete after the call.
fn may_complete(s: &Selected<'_>) -> bool {
    let name = s.function.name.as_str();
    let is_changed = |a: &Argument| {
        matches!(&a.shape, Shape::Handle(kind) if kind == "MPI_Request")
            && a.direction == Direction::Both
    };
    let changes = s.arguments.iter().any(is_changed) && !name.starts_with("MPI_Start");
    changes || name.starts_with("MPI_Request_get_status")
}

/// The constant of `fortran_handles.rs`.
fn handle_kind(kind: &str) -> String {
    match &kind["MPI_".len()..] {
        "Datatype" => "TYPE".to_owned(),
        kind => kind.to_uppercase(),
    }
}

fn integer_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Default => "c_int",
        Kind::Address => "isize",
        Kind::Count | Kind::Offset => "i64",
    }
}

fn pointer_mode(a: &Argument) -> &'static str {
    match a.is_const || !a.is_pointer {
        true => "const",
        false => "mut",
    }
}

/// The name of a count that says how long an array is.
fn handles_length(s: &Selected<'_>, name: &str) -> Option<String> {
    let is_neighbor = s.function.name.to_lowercase().contains("neighbor");
    let types_of = |buffer: &str| {
        let width = match (is_neighbor, name) {
            (false, _) => "alltoallw_width(COMM.handle(*comm))",
            (true, "sendtypes") => "neighbor_widths(COMM.handle(*comm)).0",
            (true, _) => "neighbor_widths(COMM.handle(*comm)).1",
        };
        format!("if {buffer} {{ 0 }} else {{ {width} }}")
    };
    let counts = match name {
        // `MPI_IN_PLACE` has none.
        "sendtypes" => return Some(types_of("is_in_place(c_sendbuf)")),
        "recvtypes" => return Some(types_of("false")),
        "array_of_datatypes" => &["max_datatypes"][..],
        _ => &["count", "incount"],
    };
    let count = s
        .arguments
        .iter()
        .find(|a| counts.contains(&a.name.as_str()))?;
    Some(format!("length(*{} as i64)", count.name))
}

fn logicals_length(s: &Selected<'_>, name: &str) -> Option<String> {
    if name == "remain_dims" {
        return Some("dimensions(COMM.handle(*comm))".to_owned());
    }
    let counts = ["ndims", "maxdims"];
    let count = s
        .arguments
        .iter()
        .find(|a| counts.contains(&a.name.as_str()))?;
    Some(format!("length(*{} as i64)", count.name))
}
