//! Functions of the program, as it passes them.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

use crate::types::{
    MPI_Datarep_conversion_function, MPI_Datarep_conversion_function_c, MPI_User_function,
    MPI_User_function_c,
};

/// Lowest address that can hold a function; below it lie the ABI's constants such as `MPI_COMM_DUP_FN`.
const LOWEST: usize = 0x1000;

/// A function pointer of the C type `F` (one of `types::MPI_…_function`), possibly null or one of the
/// ABI's constants, hence no Rust function pointer yet.
#[repr(transparent)]
pub struct Callback<F> {
    address: *const c_void,
    function: PhantomData<F>,
}

impl<F> Clone for Callback<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Callback<F> {}

impl<F> fmt::Debug for Callback<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Callback({:?})", self.address)
    }
}

impl<F: Copy> Callback<F> {
    /// The value, to compare with constants such as `MPI_COMM_DUP_FN`.
    pub fn address(self) -> usize {
        self.address.addr()
    }

    /// The function; `None` for null and the ABI's constants.
    ///
    /// # Safety
    /// A value that is neither is a function of the type `F`.
    pub unsafe fn get(self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
        if self.address() < LOWEST {
            return None;
        }
        // SAFETY: `F` is a function pointer type (its size is checked), the address is a function's.
        Some(unsafe { std::mem::transmute_copy(&self.address) })
    }
}

/// The function of `MPI_Op_create` or `MPI_Op_create_c` (MPI-5.0 §6.9.5).
#[derive(Clone, Copy, Debug)]
pub enum UserFunction {
    /// Takes the length as `int *`.
    Int(Callback<MPI_User_function>),
    /// Takes the length as `MPI_Count *`.
    Count(Callback<MPI_User_function_c>),
}

impl From<Callback<MPI_User_function>> for UserFunction {
    fn from(f: Callback<MPI_User_function>) -> Self {
        Self::Int(f)
    }
}

impl From<Callback<MPI_User_function_c>> for UserFunction {
    fn from(f: Callback<MPI_User_function_c>) -> Self {
        Self::Count(f)
    }
}

/// The conversion functions of `MPI_Register_datarep` or its `_c` form (MPI-5.0 §14.5.3).
#[derive(Clone, Copy, Debug)]
pub enum ConversionFunction {
    /// Takes the count as `int`.
    Int(Callback<MPI_Datarep_conversion_function>),
    /// Takes the count as `MPI_Count`.
    Count(Callback<MPI_Datarep_conversion_function_c>),
}

impl From<Callback<MPI_Datarep_conversion_function>> for ConversionFunction {
    fn from(f: Callback<MPI_Datarep_conversion_function>) -> Self {
        Self::Int(f)
    }
}

impl From<Callback<MPI_Datarep_conversion_function_c>> for ConversionFunction {
    fn from(f: Callback<MPI_Datarep_conversion_function_c>) -> Self {
        Self::Count(f)
    }
}
