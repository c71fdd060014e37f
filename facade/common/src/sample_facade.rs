//! A façade of no MPI, for tests: handles of both sizes, some integers that differ.

use std::ffi::c_int;

use crate::abi_types::{AbiHandle, AbiStatus};
use crate::facade_traits::*;

/// Handles as large as the library's, all one more.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
pub struct Large(pub usize);

/// Handles of 32 bits: 7 is the library's `0x4100000100000007`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
pub struct Small(pub c_int);

const OWN: usize = 0x4100_0001_0000_0000;

impl ProgramHandle for Large {
    fn abi(self) -> AbiHandle {
        AbiHandle(self.0 - 1)
    }
    fn of_abi(handle: AbiHandle) -> Self {
        Self(handle.0 + 1)
    }
    fn of_fortran(number: c_int) -> Self {
        Self(number as usize)
    }
    fn fortran(self) -> c_int {
        self.0 as c_int
    }
}

impl ProgramHandle for Small {
    fn abi(self) -> AbiHandle {
        match self.0 {
            small @ 0..0x100 => AbiHandle(OWN + small as usize),
            other => AbiHandle(other as usize),
        }
    }
    fn of_abi(handle: AbiHandle) -> Self {
        Self(handle.0 as c_int)
    }
    fn of_fortran(number: c_int) -> Self {
        Self(number)
    }
    fn fortran(self) -> c_int {
        self.0
    }
}

/// A status with the error in front.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ErrorFirst {
    pub error: c_int,
    pub source: c_int,
    pub tag: c_int,
    pub bytes: [c_int; 2],
    pub cancelled: c_int,
}

impl ProgramStatus for ErrorFirst {
    const IGNORED: usize = 1;
    fn contents(&self) -> AbiStatus {
        AbiStatus {
            source: self.source,
            tag: self.tag,
            error: self.error,
            bytes: self.bytes,
            cancelled: self.cancelled,
            unused: [0; 2],
        }
    }
    fn set_message(&mut self, message: &AbiStatus) {
        (self.source, self.tag) = (message.source, message.tag);
        (self.bytes, self.cancelled) = (message.bytes, message.cancelled);
    }
    fn set_error(&mut self, error: c_int) {
        self.error = error;
    }
}

/// The façade: each of its integers is 1000 more than the library's.
pub struct Sample;

macro_rules! integers {
    ($($to:ident $from:ident;)*) => {
        impl Integers for Sample {
            $(fn $to(value: c_int) -> c_int {
                value - 1000
            })*
            $(fn $from(value: c_int) -> c_int {
                value + 1000
            })*
            fn flavor_out(value: c_int) -> c_int {
                value + 1000
            }
            fn model_out(value: c_int) -> c_int {
                value + 1000
            }
        }
    };
}

integers! {
    error_in error_out;
    rank_in rank_out;
    tag_in tag_out;
    thread_in thread_out;
    keyval_in keyval_out;
    distribution_in distribution_out;
    darg_in darg_out;
    order_in order_out;
}

static VARIABLES: [u32; 6] = [0; 6];

impl Facade for Sample {
    const NAME: &'static str = "a test";
    const VERSION: (c_int, c_int) = (4, 0);
    const IN_PLACE: usize = 77;
    const BUFFER_AUTOMATIC: usize = 78;
    type Comm = Small;
    type Datatype = Small;
    type Errhandler = Small;
    type File = Large;
    type Group = Small;
    type Info = Small;
    type Message = Small;
    type Op = Small;
    type Request = Small;
    type Session = Small;
    type Win = Small;
    type Status = ErrorFirst;
    fn no_weights() -> [usize; 2] {
        [2, 3]
    }
    fn sentinel(which: Sentinel) -> usize {
        (&raw const VARIABLES[which as usize]).addr()
    }
}
