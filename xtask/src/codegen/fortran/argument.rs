//! Arguments as Fortran has them.

use crate::codegen::constants::HANDLES;
use crate::codegen::model::{Function, Param};

/// What an argument is in Fortran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A handle of this type, such as `MPI_Comm`.
    Handle(String),
    /// A choice buffer.
    Buffer,
    /// The address of memory that MPI gives.
    Address,
    /// That of a buffer that MPI gives back.
    Detached,
    /// LOGICAL.
    Logical,
    /// CHARACTER.
    Text,
    /// An array of texts.
    Texts,
    /// One such array for each of several programs.
    TextTable,
    /// A status, or an array of them.
    Status,
    /// An integer of this kind.
    Integer(Kind),
    /// Weights of a graph's edges.
    Weights,
    /// A function of the program, of this type.
    Procedure(String),
    /// Only C has it.
    Absent,
}

/// A kind of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// INTEGER.
    Default,
    /// MPI_ADDRESS_KIND.
    Address,
    /// MPI_COUNT_KIND.
    Count,
    /// MPI_OFFSET_KIND.
    Offset,
}

/// The direction of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// MPI reads it.
    In,
    /// MPI writes it.
    Out,
    /// Both.
    Both,
}

/// One argument.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Its name in C, which is that of Fortran but for `index`.
    pub name: String,
    /// What it is.
    pub shape: Shape,
    /// Whether it is an array.
    pub is_array: bool,
    /// Integers of each element, as in `ranges(3,*)`.
    pub inner: Option<usize>,
    /// Whether C has a pointer or an array, and not the value.
    pub is_pointer: bool,
    /// Whether C does not change what is pointed to.
    pub is_const: bool,
    /// Who writes it.
    pub direction: Direction,
}

impl Argument {
    /// The name in Fortran.
    pub fn fortran_name(&self) -> &str {
        match self.name.as_str() {
            "indx" => "index",
            name => name,
        }
    }

    /// Whether it is one handle of this type.
    pub fn is_handle(&self, kind: &str) -> bool {
        !self.is_array && matches!(&self.shape, Shape::Handle(k) if k == kind)
    }
}

/// The arguments of a function, in order; those that only C has are among them.
pub fn of(f: &Function) -> Vec<Argument> {
    f.params.iter().filter_map(|p| argument(f, p)).collect()
}

fn argument(f: &Function, p: &Param) -> Option<Argument> {
    // What follows in `MPI_Pcontrol` is the tool's own.
    let t = p.ctype.as_ref()?;
    let shape = shape(p);
    let one_pointer = t.pointers + usize::from(t.array) > 0;
    let is_many = t.array
        || (p.name.starts_with("array_of_") && shape == Shape::Status)
        || matches!(shape, Shape::Texts | Shape::TextTable);
    let direction = match p.direction.as_str() {
        "in" => Direction::In,
        "out" => Direction::Out,
        "inout" => Direction::Both,
        _ if !one_pointer || t.is_const || shape == Shape::Buffer => Direction::In,
        _ if f.name.starts_with("MPI_Abi_set_") => Direction::In,
        _ if f.name.starts_with("MPI_Status_set_") => Direction::Both,
        _ => Direction::Out,
    };
    Some(Argument {
        name: p.name.clone(),
        is_array: is_many && shape != Shape::Text,
        shape,
        inner: t.inner,
        is_pointer: one_pointer,
        is_const: t.is_const,
        direction,
    })
}

fn shape(p: &Param) -> Shape {
    let Some(t) = &p.ctype else {
        return Shape::Absent;
    };
    if t.is_callback() {
        return Shape::Procedure(t.base.clone());
    }
    match p.kind.as_str() {
        "ARGUMENT_COUNT" | "ARGUMENT_LIST" => return Shape::Absent,
        "LOGICAL" => return Shape::Logical,
        "STRING_ARRAY" => return Shape::Texts,
        "STRING_2DARRAY" => return Shape::TextTable,
        "C_BUFFER" => return Shape::Address,
        "C_BUFFER2" => return Shape::Detached,
        "EXTRA_STATE" | "ATTRIBUTE_VAL" => return Shape::Integer(Kind::Address),
        "EXTRA_STATE2" | "ATTRIBUTE_VAL_10" => return Shape::Integer(Kind::Default),
        "WEIGHT" => return Shape::Weights,
        _ => {}
    }
    match t.base.as_str() {
        "MPI_Status" => Shape::Status,
        "char" => Shape::Text,
        "void" => match p.name.as_str() {
            "buffer_addr" => Shape::Detached,
            // Of `MPI_Abi_get_fortran_booleans`, whose places are of a kind that they name.
            "logical_true" | "logical_false" => Shape::Logical,
            _ => Shape::Buffer,
        },
        "MPI_Aint" => Shape::Integer(Kind::Address),
        "MPI_Count" => Shape::Integer(Kind::Count),
        "MPI_Offset" => Shape::Integer(Kind::Offset),
        base if HANDLES.contains(&base) => Shape::Handle(base.to_owned()),
        // The tables have no kind for the newest functions.
        _ if p.kind == "?" && ["flag", "is_set"].contains(&p.name.as_str()) => Shape::Logical,
        _ => Shape::Integer(Kind::Default),
    }
}
