//! Which functions Fortran has, and in which forms.

use super::argument::{self, Argument, Shape};
use crate::codegen::model::{Function, Model};

/// Functions whose bodies people wrote in `fortran/src`.
const BY_HAND: [&str; 42] = [
    "MPI_Abi_get_fortran_booleans",
    "MPI_Abi_set_fortran_booleans",
    "MPI_Aint_add",
    "MPI_Aint_diff",
    "MPI_Attr_get",
    "MPI_Attr_put",
    "MPI_Buffer_detach",
    "MPI_Buffer_detach_c",
    "MPI_Comm_create_errhandler",
    "MPI_Comm_create_keyval",
    "MPI_Comm_detach_buffer",
    "MPI_Comm_detach_buffer_c",
    "MPI_Comm_get_attr",
    "MPI_Comm_idup",
    "MPI_Comm_idup_with_info",
    "MPI_Comm_set_attr",
    "MPI_Comm_spawn",
    "MPI_Comm_spawn_multiple",
    "MPI_File_create_errhandler",
    "MPI_Grequest_start",
    "MPI_Info_get",
    "MPI_Info_get_string",
    "MPI_Init",
    "MPI_Init_thread",
    "MPI_Keyval_create",
    "MPI_Op_create",
    "MPI_Op_create_c",
    "MPI_Pcontrol",
    "MPI_Session_create_errhandler",
    "MPI_Session_detach_buffer",
    "MPI_Session_detach_buffer_c",
    "MPI_Session_get_nth_pset",
    "MPI_Session_init",
    "MPI_Type_create_keyval",
    "MPI_Type_get_attr",
    "MPI_Type_set_attr",
    "MPI_Win_create_errhandler",
    "MPI_Win_create_keyval",
    "MPI_Win_get_attr",
    "MPI_Win_set_attr",
    "MPI_Wtick",
    "MPI_Wtime",
];

/// Functions that the module `mpi_f08` does not have (MPI-5.0 §16).
const NOT_IN_F08: [&str; 5] = [
    "MPI_Attr_delete",
    "MPI_Attr_get",
    "MPI_Attr_put",
    "MPI_Keyval_create",
    "MPI_Keyval_free",
];

/// Those whose large form has a name of its own: their callbacks differ only (MPI-5.0 §19.1.4).
const NAMED_LARGE: [&str; 2] = ["MPI_Op_create_c", "MPI_Register_datarep_c"];

/// A function that Fortran has.
pub struct Selected<'a> {
    /// Of the tables.
    pub function: &'a Function,
    /// Its arguments in Fortran, without `ierror`.
    pub arguments: Vec<Argument>,
    /// Its small form, if this is a large one.
    pub base: Option<&'a Function>,
}

impl Selected<'_> {
    /// Whether its body is written by hand.
    pub fn is_by_hand(&self) -> bool {
        BY_HAND.contains(&self.function.name.as_str())
    }

    /// Whether `mpif.h` and the module `mpi` have it.
    pub fn is_in_mpi(&self) -> bool {
        self.base.is_none()
    }

    /// Whether the module `mpi_f08` has it.
    pub fn is_in_f08(&self) -> bool {
        !NOT_IN_F08.contains(&self.function.name.as_str())
    }

    /// Whether it has choice buffers.
    pub fn has_choice(&self) -> bool {
        self.arguments.iter().any(|a| a.shape == Shape::Buffer)
    }

    /// Whether it gives a value and no error.
    pub fn is_value(&self) -> bool {
        self.function.returns != "int"
    }

    /// Whether it is a large form that programs call by a name of its own.
    pub fn has_own_name(&self) -> bool {
        self.base.is_none() || NAMED_LARGE.contains(&self.function.name.as_str())
    }

    /// Such as `mpi_send`.
    pub fn lower(&self) -> String {
        self.function.name.to_lowercase()
    }
}

/// All of them, in the tables' order.
pub fn select(model: &Model) -> Vec<Selected<'_>> {
    let all = model.functions.iter().filter(|f| is_there(f));
    all.filter_map(|function| {
        let arguments = argument::of(function);
        let Some(name) = function.name.strip_suffix("_c") else {
            return Some(Selected {
                function,
                arguments,
                base: None,
            });
        };
        let base = model.functions.iter().find(|f| f.name == name)?;
        let differs = NAMED_LARGE.contains(&function.name.as_str())
            || is_told_apart(&argument::of(base), &arguments);
        (is_there(base) && differs).then_some(Selected {
            function,
            arguments,
            base: Some(base),
        })
    })
    .collect()
}

fn is_there(f: &Function) -> bool {
    let is_conversion = f.name.ends_with("_toint") || f.name.ends_with("_fromint");
    !(f.is_removed() || f.is_extension() || f.is_tool() || f.is_c_only || is_conversion)
}

/// Whether a generic name can have both. All kinds but the default have eight bytes.
fn is_told_apart(small: &[Argument], large: &[Argument]) -> bool {
    if small.len() != large.len() {
        return true;
    }
    let is_default = |a: &Argument| a.shape == Shape::Integer(argument::Kind::Default);
    let mut pairs = small.iter().zip(large);
    pairs.any(|(small, large)| is_default(small) != is_default(large))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generics_differ_by_the_default_kind() {
        let model = Model::load(&crate::workspace::root().join("c-abi/abi")).expect("the tables");
        let all = select(&model);
        let has = |name: &str| all.iter().any(|s| s.function.name == name);
        assert!(has("MPI_Send_c") && has("MPI_Op_create_c") && has("MPI_Comm_rank"));
        // Small and large form have the same kinds of integers.
        assert!(!has("MPI_Type_get_extent_c") && !has("MPI_Type_create_resized_c"));
        assert!(!has("MPI_T_init_thread") && !has("MPI_Comm_toint") && !has("MPI_Address"));
    }
}
