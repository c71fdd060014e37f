//! Handles of MPICH: integers of 32 bits, in C and in Fortran, and pointers for files.
//!
//! | integer | the object |
//! |---|---|
//! | one of `abi/handles.tsv` | a predefined one |
//! | 0x80000000 and a value below 0x400 | a predefined one that MPICH lacks |
//! | 0xc0000000 and more | one of the library: its integer for Fortran with bit 31 |
//!
//! The library's integers have bit 30, as MPICH's predefined handles have; bit 31 tells them apart.

use std::ffi::c_int;

use rejoin_facade::ProgramHandle;
use rejoin_facade::abi_types::AbiHandle;
use rejoin_facade::handle_kinds::{FILE, of_integer, to_integer};

use crate::generated::predefined::{PREDEFINED, predefined_in};

/// Set in the handles of objects that the library has made.
const OWN: u32 = 0xc000_0000;
/// Set in those of predefined objects that MPICH lacks.
const LACKING: u32 = 0x8000_0000;

/// A handle of one kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct NumberHandle<const KIND: u8>(pub u32);

impl<const KIND: u8> ProgramHandle for NumberHandle<KIND> {
    #[inline(always)]
    fn abi(self) -> AbiHandle {
        if self.0 >= OWN {
            return of_integer(KIND, (self.0 ^ LACKING) as c_int);
        }
        let lacking = (self.0 ^ LACKING) as usize;
        let unknown = if lacking < PREDEFINED.len() {
            lacking
        } else {
            0
        };
        AbiHandle(predefined_in(KIND, self.0).unwrap_or(unknown))
    }

    #[inline(always)]
    fn of_abi(handle: AbiHandle) -> Self {
        match PREDEFINED.get(handle.0) {
            Some(0) => Self(LACKING | handle.0 as u32),
            Some(value) => Self(*value),
            None => match to_integer(KIND, handle) {
                // The library has too many objects for integers, or the handle is wrong.
                0 => Self(0),
                number => Self(LACKING | number as u32),
            },
        }
    }

    fn of_fortran(number: c_int) -> Self {
        Self(number as u32)
    }

    fn fortran(self) -> c_int {
        self.0 as c_int
    }
}

/// `MPI_FILE_NULL` of the standard ABI; MPICH's is null.
const FILE_NULL: AbiHandle = AbiHandle(0x118);

/// A handle of a file: null, or the library's handle, which is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct FilePointer(pub usize);

impl ProgramHandle for FilePointer {
    fn abi(self) -> AbiHandle {
        match self.0 {
            0 => FILE_NULL,
            file => AbiHandle(file),
        }
    }

    fn of_abi(handle: AbiHandle) -> Self {
        match handle {
            FILE_NULL => Self(0),
            AbiHandle(file) => Self(file),
        }
    }

    fn of_fortran(number: c_int) -> Self {
        match number {
            0 => Self(0),
            number => Self::of_abi(of_integer(FILE, number)),
        }
    }

    fn fortran(self) -> c_int {
        match self.0 {
            0 => 0,
            file => to_integer(FILE, AbiHandle(file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_facade::handle_kinds::{COMM, DATATYPE, MESSAGE, OP, REQUEST};

    #[test]
    fn predefined_handles_come_back() {
        fn comes_back<const KIND: u8>(theirs: u32, ours: usize) {
            let handle = NumberHandle::<KIND>(theirs);
            assert_eq!(handle.abi(), AbiHandle(ours), "{theirs:#x}");
            assert_eq!(NumberHandle::<KIND>::of_abi(AbiHandle(ours)), handle);
            assert_eq!(NumberHandle::<KIND>::of_fortran(handle.fortran()), handle);
        }
        comes_back::<COMM>(0x4400_0000, 0x101);
        comes_back::<DATATYPE>(0x4c00_0405, 0x209);
        comes_back::<DATATYPE>(0x8c00_0000, 0x228);
        comes_back::<OP>(0x5800_0003, 0x21);
        // One number for both.
        comes_back::<REQUEST>(0x2c00_0000, 0x180);
        comes_back::<MESSAGE>(0x2c00_0000, 0x128);
    }

    #[test]
    fn every_predefined_value_has_a_handle_that_comes_back() {
        for value in 0x201..PREDEFINED.len() {
            let handle = NumberHandle::<DATATYPE>::of_abi(AbiHandle(value));
            assert_eq!(handle.abi(), AbiHandle(value));
        }
    }

    #[test]
    fn what_a_program_leaves_in_an_argument_is_no_handle() {
        for number in [
            0,
            1,
            0x400,
            0x4400_0007,
            0x4c00_0405,
            0x8000_0400,
            0x8c00_0000,
        ] {
            assert_eq!(
                NumberHandle::<COMM>(number).abi(),
                AbiHandle(0),
                "{number:#x}"
            );
        }
    }

    #[test]
    fn files_are_pointers() {
        assert_eq!(FilePointer(0).abi(), FILE_NULL);
        assert_eq!(FilePointer::of_abi(FILE_NULL), FilePointer(0));
        let own = 0x4800_0001_0000_0007;
        assert_eq!(FilePointer(own).abi(), AbiHandle(own));
        assert_eq!(FilePointer::of_abi(AbiHandle(own)), FilePointer(own));
        assert_eq!(
            (FilePointer::of_fortran(0).0, FilePointer(0).fortran()),
            (0, 0)
        );
    }
}
