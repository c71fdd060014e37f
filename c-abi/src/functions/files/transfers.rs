//! Reading and writing (MPI-5.0 §14.4).

use std::ffi::c_void;
use std::rc::Rc;

use rejoin_mpi::Result;
use rejoin_mpi::file::FilePosition::{At, Individual, Shared};
use rejoin_mpi::file::{FileDirection, MpiFile};
use rejoin_mpi::p2p::Typed;

use crate::functions::point_to_point::request::{check_out, give, put};
use crate::state::AbiState;
use crate::types::*;

/// The elements of an access.
///
/// # Safety
/// They are valid until the access is complete.
unsafe fn elements(
    mpi: &AbiState,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<Typed> {
    let datatype = mpi.datatypes.committed(datatype)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { Typed::new(buf.cast_mut().cast(), count, datatype) })
}

/// The file and the elements of an access. Of a collective one wrong elements are told to all
/// ranks.
///
/// # Safety
/// The condition of `elements`.
unsafe fn arguments(
    mpi: &AbiState,
    fh: MPI_File,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<(Rc<MpiFile>, Result<Typed>)> {
    let file = mpi.files.get(fh)?;
    // SAFETY: the caller's promise.
    Ok((file, unsafe { elements(mpi, buf, count, datatype) }))
}

macro_rules! blocking {
    ($($name:ident $access:ident $direction:ident $position:expr, $buffer:ty $(, $at:ident)?;)*) => {$(
        /// A blocking access, which the function's name tells.
        ///
        /// # Safety
        /// The elements are valid; `status` is `MPI_STATUS_IGNORE` or valid.
        pub unsafe fn $name(
            mpi: &AbiState,
            fh: MPI_File,
            $($at: MPI_Offset,)?
            buf: $buffer,
            count: MPI_Count,
            datatype: MPI_Datatype,
            status: *mut MPI_Status,
        ) -> Result<()> {
            // SAFETY: the caller's.
            let (file, elements) = unsafe { arguments(mpi, fh, buf, count, datatype) }?;
            let done = file.$access(FileDirection::$direction, $position, elements)?;
            // SAFETY: the caller's.
            unsafe { put(status, &done) };
            Ok(())
        }
    )*};
}

blocking! {
    file_read_at access Read At(offset), *mut c_void, offset;
    file_read_at_all access_all Read At(offset), *mut c_void, offset;
    file_write_at access Write At(offset), *const c_void, offset;
    file_write_at_all access_all Write At(offset), *const c_void, offset;
    file_read access Read Individual, *mut c_void;
    file_read_all access_all Read Individual, *mut c_void;
    file_write access Write Individual, *const c_void;
    file_write_all access_all Write Individual, *const c_void;
    file_read_shared access Read Shared, *mut c_void;
    file_write_shared access Write Shared, *const c_void;
    file_read_ordered access_all Read Shared, *mut c_void;
    file_write_ordered access_all Write Shared, *const c_void;
}

macro_rules! nonblocking {
    ($($name:ident $access:ident $direction:ident $position:expr, $buffer:ty $(, $at:ident)?;)*) => {$(
        /// A nonblocking access, which the function's name tells.
        ///
        /// # Safety
        /// The elements are valid until the request completes; `request` is null or valid.
        #[allow(clippy::too_many_arguments, reason = "the standard's")]
        pub unsafe fn $name(
            mpi: &AbiState,
            fh: MPI_File,
            $($at: MPI_Offset,)?
            buf: $buffer,
            count: MPI_Count,
            datatype: MPI_Datatype,
            request: *mut MPI_Request,
        ) -> Result<()> {
            check_out(request)?;
            // SAFETY: the caller's.
            let (file, elements) = unsafe { arguments(mpi, fh, buf, count, datatype) }?;
            let id = file.$access(FileDirection::$direction, $position, elements)?;
            // SAFETY: checked above.
            unsafe { give(request, id) }
        }
    )*};
}

nonblocking! {
    file_iread_at start_access Read At(offset), *mut c_void, offset;
    file_iread_at_all start_access_all Read At(offset), *mut c_void, offset;
    file_iwrite_at start_access Write At(offset), *const c_void, offset;
    file_iwrite_at_all start_access_all Write At(offset), *const c_void, offset;
    file_iread start_access Read Individual, *mut c_void;
    file_iread_all start_access_all Read Individual, *mut c_void;
    file_iwrite start_access Write Individual, *const c_void;
    file_iwrite_all start_access_all Write Individual, *const c_void;
    file_iread_shared start_access Read Shared, *mut c_void;
    file_iwrite_shared start_access Write Shared, *const c_void;
}

macro_rules! split {
    ($($begin:ident $end:ident $direction:ident $position:expr, $buffer:ty $(, $at:ident)?;)*) => {$(
        /// Begins the split collective access that the function's name tells.
        ///
        /// # Safety
        /// The elements are valid until the access has ended.
        pub unsafe fn $begin(
            mpi: &AbiState,
            fh: MPI_File,
            $($at: MPI_Offset,)?
            buf: $buffer,
            count: MPI_Count,
            datatype: MPI_Datatype,
        ) -> Result<()> {
            // SAFETY: the caller's.
            let (file, elements) = unsafe { arguments(mpi, fh, buf, count, datatype) }?;
            file.begin_all(FileDirection::$direction, $position, elements)
        }

        /// Ends the split collective access that the function's name tells.
        ///
        /// # Safety
        /// `status` is `MPI_STATUS_IGNORE` or valid.
        pub unsafe fn $end(
            mpi: &AbiState,
            fh: MPI_File,
            buf: $buffer,
            status: *mut MPI_Status,
        ) -> Result<()> {
            let file = mpi.files.get(fh)?;
            let buf: *const c_void = buf;
            let done = file.end_all(FileDirection::$direction, buf.cast())?;
            // SAFETY: the caller's.
            unsafe { put(status, &done) };
            Ok(())
        }
    )*};
}

split! {
    file_read_at_all_begin file_read_at_all_end Read At(offset), *mut c_void, offset;
    file_write_at_all_begin file_write_at_all_end Write At(offset), *const c_void, offset;
    file_read_all_begin file_read_all_end Read Individual, *mut c_void;
    file_write_all_begin file_write_all_end Write Individual, *const c_void;
    file_read_ordered_begin file_read_ordered_end Read Shared, *mut c_void;
    file_write_ordered_begin file_write_ordered_end Write Shared, *const c_void;
}
