//! The kinds of handles, as numbers, which are arguments of types.

use std::ffi::c_int;

use crate::abi_types::AbiHandle;
use crate::bound_library::functions;

/// Communicators.
pub const COMM: u8 = 0;
/// Datatypes.
pub const DATATYPE: u8 = 1;
/// Error handlers.
pub const ERRHANDLER: u8 = 2;
/// Files.
pub const FILE: u8 = 3;
/// Groups.
pub const GROUP: u8 = 4;
/// Info objects.
pub const INFO: u8 = 5;
/// Matched messages.
pub const MESSAGE: u8 = 6;
/// Operations.
pub const OP: u8 = 7;
/// Requests.
pub const REQUEST: u8 = 8;
/// Sessions.
pub const SESSION: u8 = 9;
/// Windows.
pub const WIN: u8 = 10;
/// How many kinds there are.
pub const KINDS: usize = 11;

/// The library's integer of a handle (`MPI_Comm_toint` and its like).
#[inline(always)]
pub fn to_integer(kind: u8, handle: AbiHandle) -> c_int {
    let f = functions();
    let all: [unsafe extern "C" fn(AbiHandle) -> c_int; KINDS] = [
        f.comm_toint,
        f.type_toint,
        f.errhandler_toint,
        f.file_toint,
        f.group_toint,
        f.info_toint,
        f.message_toint,
        f.op_toint,
        f.request_toint,
        f.session_toint,
        f.win_toint,
    ];
    // SAFETY: any handle may be asked for.
    unsafe { all[usize::from(kind)](handle) }
}

/// The handle of such an integer; the null handle if it stands for none.
#[inline(always)]
pub fn of_integer(kind: u8, number: c_int) -> AbiHandle {
    let f = functions();
    let all: [unsafe extern "C" fn(c_int) -> AbiHandle; KINDS] = [
        f.comm_fromint,
        f.type_fromint,
        f.errhandler_fromint,
        f.file_fromint,
        f.group_fromint,
        f.info_fromint,
        f.message_fromint,
        f.op_fromint,
        f.request_fromint,
        f.session_fromint,
        f.win_fromint,
    ];
    // SAFETY: any integer may be asked for.
    unsafe { all[usize::from(kind)](number) }
}
