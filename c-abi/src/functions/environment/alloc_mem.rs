//! Memory for communication (MPI-5.0 §9.2).

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;

use rejoin_mpi::{Error, ErrorClass, Result, check};

use crate::constants::*;
use crate::state::AbiState;
use crate::support::{arg_error, store};
use crate::types::*;

/// A cache line: the alignment of the memory, unless the info asks for more.
const ALIGN: usize = 64;

/// The alignment that the info asks for.
fn alignment(mpi: &AbiState, info: MPI_Info) -> Result<usize> {
    if info == MPI_INFO_NULL {
        return Ok(ALIGN);
    }
    let asked = mpi.infos.get(info)?.get("mpi_minimum_memory_alignment")?;
    let asked = asked.and_then(|a| a.trim().parse::<usize>().ok());
    // An info value that cannot be used is ignored, as all hints are.
    Ok(asked
        .filter(|a| a.is_power_of_two())
        .unwrap_or(1)
        .max(ALIGN))
}

/// `MPI_Alloc_mem`.
///
/// # Safety
/// `baseptr` is null or the address of a pointer.
pub unsafe fn alloc_mem(
    mpi: &AbiState,
    size: MPI_Aint,
    info: MPI_Info,
    baseptr: *mut c_void,
) -> Result<()> {
    check::count(size as i64)?;
    if baseptr.is_null() {
        return Err(arg_error("the pointer for the memory is null"));
    }
    let no_memory = || {
        let text = format!("{size} bytes cannot be allocated");
        Error::new(ErrorClass::NoMem, text)
    };
    let layout = Layout::from_size_align((size as usize).max(1), alignment(mpi, info)?);
    let layout = layout.map_err(|_| no_memory())?;
    // SAFETY: the size is not zero.
    let memory = unsafe { alloc(layout) };
    if memory.is_null() {
        return Err(no_memory());
    }
    mpi.memory.borrow_mut().insert(memory.addr(), layout);
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { store(baseptr.cast(), "the memory", memory) }
}

/// `MPI_Free_mem`.
///
/// # Safety
/// The memory is no longer in use.
pub unsafe fn free_mem(mpi: &AbiState, base: *mut c_void) -> Result<()> {
    if base.is_null() {
        return Ok(());
    }
    let found = mpi.memory.borrow_mut().remove(&base.addr());
    let layout = found.ok_or_else(|| {
        let text = format!("{base:?} did not come from MPI_Alloc_mem, or was freed");
        Error::new(ErrorClass::Base, text)
    })?;
    // SAFETY: it came from `alloc` with this layout and was not freed.
    unsafe { dealloc(base.cast(), layout) };
    Ok(())
}
