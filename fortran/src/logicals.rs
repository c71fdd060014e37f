//! LOGICAL values. Compilers differ in them: the object that `mpifort` links into a program says
//! which its compiler has.

use std::cell::UnsafeCell;
use std::ffi::c_int;

/// What the program's compiler has: the common block `mpifort_compiler`, which
/// `modules/mpifort.f90` fills. Without that object all is 0.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CompilerFacts {
    /// `.true.` of the default kind.
    pub yes: c_int,
    /// `.false.` of the default kind.
    pub no: c_int,
    /// Bytes of LOGICAL, INTEGER, REAL and DOUBLE PRECISION; 0 if nobody said.
    pub sizes: [c_int; 4],
    /// Kinds of LOGICAL and INTEGER (1, 2, 4, 8, 16 bytes) and of REAL (2, 4, 8, 16): one bit each.
    pub kinds: [c_int; 3],
}

/// The place of these facts.
#[repr(transparent)]
pub struct CompilerBlock(UnsafeCell<CompilerFacts>);

// SAFETY: a program brings it with its value, and nobody changes it.
unsafe impl Sync for CompilerBlock {}

std::arch::global_asm!(
    ".pushsection .data.mpifort_compiler_,\"aw\",@progbits",
    ".p2align 6",
    ".popsection",
);

#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.mpifort_compiler_")]
#[allow(non_upper_case_globals)]
static mpifort_compiler_: CompilerBlock = CompilerBlock(UnsafeCell::new(CompilerFacts {
    yes: 0,
    no: 0,
    sizes: [0; 4],
    kinds: [0; 3],
}));

/// gfortran's and flang's values, for programs that have not been linked by `mpifort`.
const USUAL: CompilerFacts = CompilerFacts {
    yes: 1,
    no: 0,
    sizes: [4, 4, 4, 8],
    kinds: [0b11111, 0b11111, 0b1110],
};

/// What the program's compiler has.
pub fn compiler() -> CompilerFacts {
    // SAFETY: nobody writes. The read is volatile because the program's block takes the place of
    // the library's.
    let facts = unsafe { mpifort_compiler_.0.get().read_volatile() };
    match facts.sizes[0] {
        0 => USUAL,
        _ => facts,
    }
}

/// A LOGICAL as C has it.
#[inline(always)]
pub fn of_c(logical: c_int) -> c_int {
    c_int::from(logical != compiler().no)
}

/// A LOGICAL of this value.
#[inline(always)]
pub fn of_fortran(value: bool) -> c_int {
    let facts = compiler();
    if value { facts.yes } else { facts.no }
}

/// The LOGICAL values of an array as C has them.
///
/// # Safety
/// There are as many.
pub unsafe fn all_of_c(count: usize, logicals: *const c_int) -> Vec<c_int> {
    // SAFETY: the caller's promise.
    let logical = |i| unsafe { *logicals.add(i) };
    (0..count).map(|i| of_c(logical(i))).collect()
}

/// Makes a LOGICAL of what C has written.
///
/// # Safety
/// The place is valid.
#[inline(always)]
pub unsafe fn give_logical(place: *mut c_int) {
    // SAFETY: the caller's promise.
    unsafe { *place = of_fortran(*place != 0) }
}

/// As above, of an array.
///
/// # Safety
/// There are as many places.
pub unsafe fn give_logicals(count: usize, places: *mut c_int) {
    for i in 0..count {
        // SAFETY: the caller's promise.
        unsafe { give_logical(places.add(i)) }
    }
}
