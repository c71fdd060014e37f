//! Functions that give a text only if there is one, or whose length the program says: in Fortran
//! lengths leave out the last byte of C (MPI-5.0 §10, §11.3.1).

use std::ffi::{c_char, c_int};

use rejoin_fortran_arguments::{OutText, in_trimmed_text};

use crate::fortran_export::{fortran, give};
use crate::fortran_handles::{INFO, SESSION};
use crate::generated::c_functions::*;
use crate::logicals::give_logical;

/// Bytes of a text that the library may write, with the last one of C.
fn room(length: c_int, place: usize) -> c_int {
    let place = c_int::try_from(place.min(OutText::LENGTH - 1)).unwrap_or(c_int::MAX);
    length.min(place)
}

fortran! { [mpi_info_get_ mpi_info_get_f08_] [pmpi_info_get_ pmpi_info_get_f08_]
    MPI_Info_get PMPI_Info_get |call| (
    info: *const c_int, key: *const c_char, valuelen: *const c_int, value: *mut c_char,
    flag: *mut c_int, ierror: *mut c_int, key_length: usize, value_length: usize
) {
    let key = in_trimmed_text(key, key_length);
    let mut text = OutText::new();
    let length = room(*valuelen, value_length);
    let code = call(INFO.handle(*info), key.as_ptr(), length, text.place(), flag);
    if code == 0 {
        if *flag != 0 {
            text.give(value, value_length);
        }
        give_logical(flag);
    }
    give(ierror, code);
} }

fortran! { [mpi_info_get_string_ mpi_info_get_string_f08_]
    [pmpi_info_get_string_ pmpi_info_get_string_f08_]
    MPI_Info_get_string PMPI_Info_get_string |call| (
    info: *const c_int, key: *const c_char, buflen: *mut c_int, value: *mut c_char,
    flag: *mut c_int, ierror: *mut c_int, key_length: usize, value_length: usize
) {
    let key = in_trimmed_text(key, key_length);
    let mut text = OutText::new();
    let asked = *buflen;
    let mut length = match asked {
        ..=0 => 0,
        asked => room(asked, value_length) + 1,
    };
    let code = call(INFO.handle(*info), key.as_ptr(), &mut length, text.place(), flag);
    if code == 0 {
        if *flag != 0 {
            if asked > 0 {
                text.give(value, value_length);
            }
            *buflen = length - 1;
        }
        give_logical(flag);
    }
    give(ierror, code);
} }

fortran! { [mpi_session_get_nth_pset_ mpi_session_get_nth_pset_f08_]
    [pmpi_session_get_nth_pset_ pmpi_session_get_nth_pset_f08_]
    MPI_Session_get_nth_pset PMPI_Session_get_nth_pset |call| (
    session: *const c_int, info: *const c_int, n: *const c_int, pset_len: *mut c_int,
    pset_name: *mut c_char, ierror: *mut c_int, pset_name_length: usize
) {
    let mut text = OutText::new();
    let asked = *pset_len;
    let mut length = match asked {
        ..=0 => 0,
        asked => room(asked, pset_name_length) + 1,
    };
    let (session, info) = (SESSION.handle(*session), INFO.handle(*info));
    let code = call(session, info, *n, &mut length, text.place());
    if code == 0 {
        if asked > 0 {
            text.give(pset_name, pset_name_length);
        }
        *pset_len = length - 1;
    }
    give(ierror, code);
} }
