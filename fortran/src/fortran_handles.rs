//! Handles, which are integers in Fortran (MPI-5.0 §19.3.4, §20.3), and statuses.

use std::ffi::c_int;

use crate::generated::c_functions::*;

/// A handle of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct CHandle(pub usize);

/// A status. It is the same integers in C and in Fortran.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CStatus([c_int; 8]);

/// Before the library has written a handle: it is none of its handles.
pub const NOTHING: CHandle = CHandle(0);
/// Predefined handles are below; they are the same numbers in C and in Fortran.
const PREDEFINED: usize = 1 << 12;

/// How a kind of handles becomes integers, and back.
pub struct NumberedKind {
    of_number: unsafe extern "C" fn(c_int) -> CHandle,
    number: unsafe extern "C" fn(CHandle) -> c_int,
}

macro_rules! kinds {
    ($($kind:ident $fromint:ident $toint:ident;)*) => {
        $(/// The handles of this kind.
        pub const $kind: NumberedKind = NumberedKind { of_number: $fromint, number: $toint };)*
    };
}

kinds! {
    COMM PMPI_Comm_fromint PMPI_Comm_toint;
    ERRHANDLER PMPI_Errhandler_fromint PMPI_Errhandler_toint;
    FILE PMPI_File_fromint PMPI_File_toint;
    GROUP PMPI_Group_fromint PMPI_Group_toint;
    INFO PMPI_Info_fromint PMPI_Info_toint;
    MESSAGE PMPI_Message_fromint PMPI_Message_toint;
    OP PMPI_Op_fromint PMPI_Op_toint;
    REQUEST PMPI_Request_fromint PMPI_Request_toint;
    SESSION PMPI_Session_fromint PMPI_Session_toint;
    TYPE PMPI_Type_fromint PMPI_Type_toint;
    WIN PMPI_Win_fromint PMPI_Win_toint;
}

impl NumberedKind {
    /// The handle of an integer.
    #[inline(always)]
    pub fn handle(&self, number: c_int) -> CHandle {
        match usize::try_from(number) {
            Ok(number) if number < PREDEFINED => CHandle(number),
            // SAFETY: any integer may be asked for.
            _ => unsafe { (self.of_number)(number) },
        }
    }

    /// The integer of a handle.
    #[inline(always)]
    pub fn number(&self, handle: CHandle) -> c_int {
        match handle.0 < PREDEFINED {
            true => handle.0 as c_int,
            // SAFETY: the handle is the library's.
            false => unsafe { (self.number)(handle) },
        }
    }

    /// The handles of an array.
    ///
    /// # Safety
    /// There are as many integers.
    pub unsafe fn handles(&self, count: usize, numbers: *const c_int) -> Vec<CHandle> {
        // SAFETY: the caller's promise.
        let number = |i| unsafe { *numbers.add(i) };
        (0..count).map(|i| self.handle(number(i))).collect()
    }

    /// Gives the program the integer of a handle.
    ///
    /// # Safety
    /// The place is valid.
    #[inline(always)]
    pub unsafe fn give(&self, handle: CHandle, place: *mut c_int) {
        // SAFETY: the caller's promise.
        unsafe { *place = self.number(handle) }
    }

    /// Gives those of an array, except those that the library has not written.
    ///
    /// # Safety
    /// There are as many places.
    pub unsafe fn give_all(&self, handles: &[CHandle], places: *mut c_int) {
        for (i, handle) in handles.iter().enumerate() {
            if *handle != NOTHING {
                // SAFETY: the caller's promise.
                unsafe { self.give(*handle, places.add(i)) }
            }
        }
    }
}

/// Whether this process is the root of a collective. Between groups it says so (`MPI_ROOT`).
///
/// # Safety
/// The communicator is the program's.
pub unsafe fn is_root(comm: CHandle, root: c_int) -> bool {
    const ROOT: c_int = -4;
    let (mut is_inter, mut rank) = (0, -1);
    // SAFETY: the places are valid.
    unsafe {
        PMPI_Comm_test_inter(comm, &mut is_inter);
        PMPI_Comm_rank(comm, &mut rank);
    }
    root == if is_inter == 0 { rank } else { ROOT }
}

/// Number of datatypes that `MPI_ALLTOALLW` has for each buffer.
///
/// # Safety
/// The communicator is the program's.
pub unsafe fn alltoallw_width(comm: CHandle) -> usize {
    let (mut is_inter, mut size) = (0, 0);
    // SAFETY: the places are valid.
    unsafe {
        PMPI_Comm_test_inter(comm, &mut is_inter);
        match is_inter {
            0 => PMPI_Comm_size(comm, &mut size),
            _ => PMPI_Comm_remote_size(comm, &mut size),
        };
    }
    usize::try_from(size).unwrap_or(0)
}

/// Number of neighbours to which a process sends, and of those from which it receives.
///
/// # Safety
/// The communicator is the program's.
pub unsafe fn neighbor_widths(comm: CHandle) -> (usize, usize) {
    const GRAPH: c_int = 212;
    const CART: c_int = 211;
    const DIST_GRAPH: c_int = 213;
    let (mut kind, mut first, mut second, mut rank) = (0, 0, 0, 0);
    // SAFETY: the places are valid.
    unsafe {
        PMPI_Topo_test(comm, &mut kind);
        match kind {
            CART => {
                PMPI_Cartdim_get(comm, &mut first);
                first *= 2;
                second = first;
            }
            GRAPH => {
                PMPI_Comm_rank(comm, &mut rank);
                PMPI_Graph_neighbors_count(comm, rank, &mut first);
                second = first;
            }
            DIST_GRAPH => {
                let mut is_weighted = 0;
                PMPI_Dist_graph_neighbors_count(comm, &mut second, &mut first, &mut is_weighted);
            }
            // The call itself reports a communicator without neighbours.
            _ => {}
        }
    }
    let width = |n| usize::try_from(n).unwrap_or(0);
    (width(first), width(second))
}

/// Number of dimensions of a Cartesian communicator; none if it is no such one.
///
/// # Safety
/// The communicator is the program's.
pub unsafe fn dimensions(comm: CHandle) -> usize {
    let (mut kind, mut number) = (0, 0);
    // SAFETY: the places are valid.
    unsafe {
        PMPI_Topo_test(comm, &mut kind);
        if kind == 211 {
            PMPI_Cartdim_get(comm, &mut number);
        }
    }
    usize::try_from(number).unwrap_or(0)
}

/// `operator(==)` and `operator(/=)` of handles in Fortran.
macro_rules! comparisons {
    ($($equal:ident $differ:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $equal(one: *const c_int, other: *const c_int) -> c_int {
            // SAFETY: the program gives two handles.
            crate::logicals::of_fortran(unsafe { *one == *other })
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $differ(one: *const c_int, other: *const c_int) -> c_int {
            // SAFETY: as above.
            crate::logicals::of_fortran(unsafe { *one != *other })
        }
    )*};
}

comparisons! {
    mpifort_equal_comm_ mpifort_differ_comm_;
    mpifort_equal_datatype_ mpifort_differ_datatype_;
    mpifort_equal_errhandler_ mpifort_differ_errhandler_;
    mpifort_equal_file_ mpifort_differ_file_;
    mpifort_equal_group_ mpifort_differ_group_;
    mpifort_equal_info_ mpifort_differ_info_;
    mpifort_equal_message_ mpifort_differ_message_;
    mpifort_equal_op_ mpifort_differ_op_;
    mpifort_equal_request_ mpifort_differ_request_;
    mpifort_equal_session_ mpifort_differ_session_;
    mpifort_equal_win_ mpifort_differ_win_;
}
