//! The shape of predefined objects. A program may have its own copy of one (a copy relocation), so
//! their sizes are Open MPI's, their contents are there at link time, and all addresses of them are
//! looked up by the loader.

use std::cell::UnsafeCell;

use rejoin_facade::abi_types::AbiHandle;

/// A predefined object: two words that count, and as many others as Open MPI has.
#[repr(C)]
pub struct Object<const WORDS: usize> {
    handle: AbiHandle,
    fortran: usize,
    /// Open MPI's binding for C++ writes there.
    rest: UnsafeCell<[usize; WORDS]>,
}

// SAFETY: the words that are read never change.
unsafe impl<const WORDS: usize> Sync for Object<WORDS> {}

/// An object with this handle in the standard ABI, and this integer in Fortran.
pub const fn object<const WORDS: usize>(handle: usize, fortran: usize) -> Object<WORDS> {
    Object {
        handle: AbiHandle(handle),
        fortran,
        rest: UnsafeCell::new([0; WORDS]),
    }
}

/// Where an object is, in the program or here.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct ObjectAddress(*const Object<0>);

// SAFETY: what is read of the objects never changes.
unsafe impl Sync for ObjectAddress {}

impl ObjectAddress {
    /// No object.
    pub const NONE: Self = Self(std::ptr::null());

    /// Of this object.
    pub const fn of<const WORDS: usize>(object: &'static Object<WORDS>) -> Self {
        Self(std::ptr::from_ref(object).cast())
    }

    /// The number of the address, which is the program's handle.
    #[inline(always)]
    pub fn address(self) -> usize {
        self.0.addr()
    }

    /// Whether there is an object.
    #[inline(always)]
    pub fn is_some(self) -> bool {
        !self.0.is_null()
    }
}

/// The handle and the Fortran integer of the object at an address.
///
/// # Safety
/// Two words may be read there.
#[inline(always)]
pub unsafe fn contents(address: usize) -> (AbiHandle, usize) {
    let object = std::ptr::with_exposed_provenance::<Object<0>>(address);
    // SAFETY: the caller's promise, which says nothing of alignment.
    let object = unsafe { object.read_unaligned() };
    (object.handle, object.fortran)
}
