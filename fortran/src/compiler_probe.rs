//! What `modules/probe.f90` calls to see whether a compiler passes arguments as this library reads
//! them: 0, or the number of the first thing that is wrong.

use std::ffi::{c_char, c_int};

use crate::logicals::compiler;
use crate::sections::{CDescriptor, base_of};

/// The number of the first check that fails; 0 if none does.
fn first_wrong(checks: &[bool]) -> c_int {
    let wrong = checks.iter().position(|is_right| !is_right);
    wrong.map_or(0, |i| i as c_int + 1)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpifort_probe_described_(
    section: *const CDescriptor,
    scalar: *const CDescriptor,
    bottom: *const CDescriptor,
    text: *const CDescriptor,
    absent: *mut c_int,
    wrong: *mut c_int,
) {
    // SAFETY: the probe gives descriptors of what it says, and a place for the answer.
    unsafe {
        let (element, shape) = CDescriptor::shape(section);
        let (text_element, _) = CDescriptor::shape(text);
        let value = base_of(scalar).cast::<c_int>();
        *wrong = first_wrong(&[
            element == 4,
            shape == [(3, 12), (3, 160)],
            CDescriptor::shape(scalar) == (4, vec![]),
            !value.is_null() && *value == 42,
            base_of(bottom).is_null(),
            text_element == 4,
            absent.is_null(),
        ]);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpifort_probe_plain_(
    x: *const c_int,
    text: *const c_char,
    yes: *const c_int,
    no: *const c_int,
    wrong: *mut c_int,
    absent: *mut c_int,
    text_length: usize,
) {
    let facts = compiler();
    // SAFETY: the probe gives what it says, and a place for the answer.
    unsafe {
        *wrong = first_wrong(&[
            *x == 42,
            *text == b'f' as c_char && text_length == 4,
            *yes == facts.yes && *no == facts.no,
            facts.sizes[..2] == [4, 4],
            facts.sizes[2..] == [4, 8],
            absent.is_null(),
        ]);
    }
}
