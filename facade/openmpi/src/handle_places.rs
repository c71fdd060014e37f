//! Handles of the program to those of the library, and back, where they lie.

use std::ffi::c_int;

use crate::generated::predefined::PREDEFINED;
use crate::program_types::{AbiHandle, ProgramHandle};

/// Values of the standard ABI's predefined handles lie below.
const FIRST_ADDRESS: usize = PREDEFINED.len();
/// Set in the library's own handles, and in no address of a program.
const OWN: usize = 1 << 62;

impl ProgramHandle {
    /// The library's handle. What is no address of a predefined object stays: the library's own
    /// handles; its predefined ones, which a call that writes later leaves in the program; and
    /// whatever a program gives where MPI ignores the argument. Where it matters, the library
    /// refuses it.
    #[inline(always)]
    pub fn abi(self) -> AbiHandle {
        self.predefined()
            .map_or(AbiHandle(self.0), |object| object.0)
    }
}

impl AbiHandle {
    /// The program's handle. A predefined one that Open MPI lacks stays, and is taken back.
    #[inline(always)]
    pub fn program(self) -> ProgramHandle {
        match PREDEFINED.get(self.0) {
            Some(object) if object.is_some() => object.handle(),
            _ => ProgramHandle(self.0),
        }
    }
}

/// Translates a handle that the library has written into the program's place. What was there
/// before, if it has not, stays.
///
/// # Safety
/// The pointer is null or valid.
#[inline(always)]
pub unsafe fn handle_out(place: *mut ProgramHandle) {
    // SAFETY: the caller's promise; the types have one layout.
    if let Some(place) = unsafe { place.as_mut() } {
        *place = AbiHandle(place.0).program();
    }
}

/// A handle of the program that the library may change.
pub struct Lent {
    place: *mut ProgramHandle,
    before: AbiHandle,
    now: AbiHandle,
}

impl Lent {
    /// Takes the handle from its place.
    ///
    /// # Safety
    /// The pointer is null, or valid until [`Lent::give`].
    #[inline(always)]
    pub unsafe fn new(place: *mut ProgramHandle) -> Self {
        // SAFETY: the caller's promise.
        let before = unsafe { place.as_ref() }.map_or(AbiHandle(0), |handle| handle.abi());
        Self {
            place,
            before,
            now: before,
        }
    }

    /// Where the library finds it.
    #[inline(always)]
    pub fn place(&mut self) -> *mut AbiHandle {
        if self.place.is_null() {
            return std::ptr::null_mut();
        }
        &mut self.now
    }

    /// Puts it back, if the library has changed it.
    #[inline(always)]
    pub unsafe fn give(self) {
        if self.now != self.before {
            // SAFETY: the promise of `new`; the library had a place only if there is one.
            unsafe { *self.place = self.now.program() }
        }
    }
}

/// The program's array, as long as it says.
///
/// # Safety
/// The pointer is null, or valid for `count` elements.
#[inline(always)]
unsafe fn elements<'a>(count: c_int, first: *mut ProgramHandle) -> &'a mut [ProgramHandle] {
    let length = usize::try_from(count).unwrap_or(0);
    if first.is_null() || length == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(first, length) }
}

/// Translates an array of the program where it lies: only predefined handles change.
///
/// # Safety
/// The pointer is null, or valid for `count` elements.
#[inline(always)]
pub unsafe fn handles_in(count: c_int, first: *mut ProgramHandle) {
    // SAFETY: the caller's promise.
    for handle in unsafe { elements(count, first) } {
        if handle.0 < OWN {
            *handle = ProgramHandle(handle.abi().0);
        }
    }
}

/// Translates it back.
///
/// # Safety
/// As [`handles_in`].
#[inline(always)]
pub unsafe fn handles_out(count: c_int, first: *mut ProgramHandle) {
    // SAFETY: the caller's promise.
    for handle in unsafe { elements(count, first) } {
        if handle.0 < FIRST_ADDRESS {
            *handle = AbiHandle(handle.0).program();
        }
    }
}

/// Handles of an array that the library only reads; no array if the program gives none.
pub struct CopiedHandles {
    handles: Vec<AbiHandle>,
    is_null: bool,
}

impl CopiedHandles {
    /// Translates an array.
    ///
    /// # Safety
    /// The pointer is null, or valid for `count` elements.
    pub unsafe fn new(count: c_int, first: *const ProgramHandle) -> Self {
        // SAFETY: the caller's promise; nothing is written.
        let handles = unsafe { elements(count, first.cast_mut()) };
        Self {
            handles: handles.iter().map(|handle| handle.abi()).collect(),
            is_null: first.is_null(),
        }
    }

    /// Where the library finds them.
    pub fn as_ptr(&self) -> *const AbiHandle {
        if self.is_null {
            return std::ptr::null();
        }
        self.handles.as_ptr()
    }

    /// As above, for functions that declare no constant array, but change none.
    pub fn as_mut_ptr(&self) -> *mut AbiHandle {
        self.as_ptr().cast_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::predefined::*;
    use crate::predefined_objects::ObjectAddress;

    const OWN_HANDLE: ProgramHandle = ProgramHandle(0x4100_0001_0000_0007);

    #[test]
    fn every_predefined_handle_comes_back_as_the_object_that_it_was() {
        let mut objects = 0;
        for (value, address) in PREDEFINED.iter().enumerate() {
            let handle = AbiHandle(value).program();
            assert_eq!(handle.abi(), AbiHandle(value));
            assert_eq!(handle.0 == value, !address.is_some());
            objects += usize::from(address.is_some());
        }
        assert_eq!(objects, 102);
        assert_eq!(
            ObjectAddress::of(&ompi_mpi_comm_world).handle().abi(),
            AbiHandle(0x101)
        );
        assert_eq!(
            ObjectAddress::of(&ompi_mpi_2cplex).handle().abi(),
            AbiHandle(0x200)
        );
    }

    #[test]
    fn whatever_is_no_object_passes_unchanged() {
        let on_stack = 0usize;
        for handle in [
            OWN_HANDLE,
            ProgramHandle(0),
            ProgramHandle(0x100),
            ProgramHandle(0x3ff),
            ProgramHandle(0x1_0000_0001),
            ProgramHandle((&raw const on_stack).addr()),
        ] {
            assert_eq!(handle.abi().0, handle.0);
        }
        assert_eq!(AbiHandle(OWN_HANDLE.0).program(), OWN_HANDLE);
    }

    #[test]
    fn an_array_is_translated_where_it_lies_and_back() {
        let null = ObjectAddress::of(&ompi_request_null).handle();
        let mut requests = [null, OWN_HANDLE, null, null];
        // SAFETY: three of four elements.
        unsafe { handles_in(3, requests.as_mut_ptr()) };
        assert_eq!(requests.map(|r| r.0), [0x180, OWN_HANDLE.0, 0x180, null.0]);
        requests[1] = ProgramHandle(0x180);
        // SAFETY: as above.
        unsafe { handles_out(3, requests.as_mut_ptr()) };
        assert_eq!(requests, [null; 4]);
        // SAFETY: nothing is there.
        unsafe { handles_in(-1, std::ptr::null_mut()) };
    }

    #[test]
    fn a_lent_handle_is_written_only_if_the_library_changed_it() {
        let place = &mut ObjectAddress::of(&ompi_mpi_int).handle();
        let before = *place;
        // SAFETY: the place is valid.
        unsafe {
            let mut same = Lent::new(place);
            assert_eq!(*same.place(), AbiHandle(0x209));
            same.give();
            assert_eq!(*place, before);
            let mut freed = Lent::new(place);
            *freed.place() = AbiHandle(0x200);
            freed.give();
            assert_eq!(*place, ObjectAddress::of(&ompi_mpi_datatype_null).handle());
            let mut none = Lent::new(std::ptr::null_mut());
            assert!(none.place().is_null());
            none.give();
        }
    }
}
