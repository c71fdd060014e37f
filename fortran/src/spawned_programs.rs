//! Programs to start (MPI-5.0 §11.8): arrays of texts, which mean something at the root only.

use std::ffi::{c_char, c_int};

use rejoin_fortran_arguments::in_trimmed_text;

use crate::fortran_export::{fortran, give};
use crate::fortran_handles::{COMM, INFO, NOTHING, is_root};
use crate::generated::c_functions::*;
use crate::sentinels::{codes_at, is_no_arguments};

/// Texts for C, with the array of their addresses.
#[derive(Default)]
struct TextList {
    texts: Vec<Vec<c_char>>,
    addresses: Vec<*mut c_char>,
}

impl TextList {
    /// Texts of the program, each of `length` bytes and `step` texts after the one before: as many
    /// as `count` says, or else up to a blank one.
    ///
    /// # Safety
    /// There are as many texts.
    unsafe fn of(first: *const c_char, length: usize, step: usize, count: Option<usize>) -> Self {
        let mut list = Self::default();
        for i in 0..count.unwrap_or(usize::MAX) {
            // SAFETY: the caller's promise.
            let text = unsafe { in_trimmed_text(first.add(i * step * length), length) };
            if count.is_none() && text.len() == 1 {
                break;
            }
            list.texts.push(text);
        }
        list.addresses = list.texts.iter_mut().map(|t| t.as_mut_ptr()).collect();
        if count.is_none() {
            list.addresses.push(std::ptr::null_mut());
        }
        list
    }
}

fortran! { [mpi_comm_spawn_ mpi_comm_spawn_f08_] [pmpi_comm_spawn_ pmpi_comm_spawn_f08_]
    MPI_Comm_spawn PMPI_Comm_spawn |call| (
    command: *const c_char, argv: *const c_char, maxprocs: *const c_int, info: *const c_int,
    root: *const c_int, comm: *const c_int, intercomm: *mut c_int, codes: *mut c_int,
    ierror: *mut c_int, command_length: usize, argv_length: usize
) {
    let comm = COMM.handle(*comm);
    let (mut program, mut arguments) = (vec![0], TextList::default());
    let mut about = NOTHING;
    if is_root(comm, *root) {
        program = in_trimmed_text(command, command_length);
        if !is_no_arguments(argv) {
            arguments = TextList::of(argv, argv_length, 1, None);
        }
        about = INFO.handle(*info);
    }
    let list = match arguments.addresses.is_empty() {
        true => std::ptr::null_mut(),
        false => arguments.addresses.as_mut_ptr(),
    };
    let mut made = NOTHING;
    let codes = codes_at(codes);
    let code = call(program.as_ptr(), list, *maxprocs, about, *root, comm, &mut made, codes);
    if code == 0 {
        COMM.give(made, intercomm);
    }
    give(ierror, code);
} }

fortran! { [mpi_comm_spawn_multiple_ mpi_comm_spawn_multiple_f08_]
    [pmpi_comm_spawn_multiple_ pmpi_comm_spawn_multiple_f08_]
    MPI_Comm_spawn_multiple PMPI_Comm_spawn_multiple |call| (
    count: *const c_int, commands: *const c_char, argvs: *const c_char, maxprocs: *const c_int,
    infos: *const c_int, root: *const c_int, comm: *const c_int, intercomm: *mut c_int,
    codes: *mut c_int, ierror: *mut c_int, command_length: usize, argv_length: usize
) {
    let comm = COMM.handle(*comm);
    let (mut programs, mut about) = (TextList::default(), Vec::new());
    let mut lists: Vec<TextList> = Vec::new();
    if is_root(comm, *root) {
        let number = usize::try_from(*count).unwrap_or(0);
        programs = TextList::of(commands, command_length, 1, Some(number));
        about = INFO.handles(number, infos);
        if !is_no_arguments(argvs) {
            // The arguments of one program lie in a row of the array, which has columns in memory.
            let row = |i: usize| TextList::of(argvs.add(i * argv_length), argv_length, number, None);
            lists = (0..number).map(row).collect();
        }
    }
    let mut arguments: Vec<_> = lists.iter_mut().map(|l| l.addresses.as_mut_ptr()).collect();
    let list = match arguments.is_empty() {
        true => std::ptr::null_mut(),
        false => arguments.as_mut_ptr(),
    };
    let mut made = NOTHING;
    let code = call(*count, programs.addresses.as_mut_ptr(), list, maxprocs, about.as_ptr(), *root,
        comm, &mut made, codes_at(codes));
    if code == 0 {
        COMM.give(made, intercomm);
    }
    give(ierror, code);
} }
