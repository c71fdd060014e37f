//! Handles of the program to those of the library, and back, where they lie.
//!
//! Handles as large as the library's are translated in the program's own places. Others get places
//! here, which are copied back.

use std::ffi::c_int;

use crate::abi_types::AbiHandle;
use crate::facade_traits::{ProgramHandle, is_in_place};
use crate::later_handles;

/// No handle, in places that the library may leave alone.
const UNWRITTEN: AbiHandle = AbiHandle(usize::MAX);

/// A place for a handle that the library makes. Some calls that fail write a null handle; what was
/// in the program's place before stays, if they write none.
pub struct OutHandle<H> {
    place: *mut H,
    made: AbiHandle,
}

impl<H: ProgramHandle> OutHandle<H> {
    /// For a place of the program.
    #[inline(always)]
    pub fn new(place: *mut H) -> Self {
        let made = UNWRITTEN;
        Self { place, made }
    }

    /// Where the library writes.
    #[inline(always)]
    pub fn place(&mut self) -> *mut AbiHandle {
        if is_in_place::<H>() || self.place.is_null() {
            return self.place.cast();
        }
        &mut self.made
    }

    /// Gives the program what the library has written.
    ///
    /// # Safety
    /// The program's pointer is null or valid; what is there is a number.
    #[inline(always)]
    pub unsafe fn give(self) {
        if self.place.is_null() {
            return;
        }
        // SAFETY: the caller's promise; types of one size have one layout here.
        unsafe {
            if is_in_place::<H>() {
                *self.place = H::of_abi(*self.place.cast());
            } else if self.made != UNWRITTEN {
                *self.place = H::of_abi(self.made);
            }
        }
    }
}

/// A handle of the program that the library may change.
pub struct Lent<H> {
    place: *mut H,
    before: AbiHandle,
    now: AbiHandle,
}

impl<H: ProgramHandle> Lent<H> {
    /// Takes the handle from its place.
    ///
    /// # Safety
    /// The pointer is null, or valid until [`Lent::give`].
    #[inline(always)]
    pub unsafe fn new(place: *mut H) -> Self {
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
    ///
    /// # Safety
    /// The promise of [`Lent::new`].
    #[inline(always)]
    pub unsafe fn give(self) {
        if self.now != self.before {
            // SAFETY: the library had a place only if there is one.
            unsafe { *self.place = H::of_abi(self.now) }
        }
        later_handles::settle();
    }
}

/// The program's array, as long as it says.
///
/// # Safety
/// The pointer is null, or valid for `count` elements.
#[inline(always)]
unsafe fn elements<'a, H>(count: c_int, first: *mut H) -> &'a mut [H] {
    let length = usize::try_from(count).unwrap_or(0);
    if first.is_null() || length == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(first, length) }
}

/// Handles of an array that need no memory of the heap.
const FEW: usize = 32;

/// An array of the program that the library reads and changes.
pub struct LentArray<'a, H> {
    program: &'a mut [H],
    is_null: bool,
    few: [AbiHandle; FEW],
    /// Holds them if the room is too small.
    many: Vec<AbiHandle>,
}

impl<H: ProgramHandle> LentArray<'_, H> {
    /// Translates an array.
    ///
    /// # Safety
    /// The pointer is null, or valid for `count` elements until [`LentArray::give`].
    #[inline(always)]
    pub unsafe fn new(count: c_int, first: *mut H) -> Self {
        // SAFETY: the caller's promise.
        let program = unsafe { elements(count, first) };
        let mut few = [UNWRITTEN; FEW];
        let mut many = Vec::new();
        if is_in_place::<H>() {
            for handle in &mut *program {
                let place: *mut H = handle;
                // SAFETY: the types have one size.
                unsafe { place.cast::<AbiHandle>().write(handle.abi()) }
            }
        } else if program.len() > FEW {
            many = program.iter().map(|handle| handle.abi()).collect();
        } else {
            for (to, from) in few.iter_mut().zip(&*program) {
                *to = from.abi();
            }
        }
        Self {
            program,
            is_null: first.is_null(),
            few,
            many,
        }
    }

    /// Where the library finds them.
    #[inline(always)]
    pub fn place(&mut self) -> *mut AbiHandle {
        if self.is_null {
            std::ptr::null_mut()
        } else if is_in_place::<H>() {
            self.program.as_mut_ptr().cast()
        } else if self.many.is_empty() {
            self.few.as_mut_ptr()
        } else {
            self.many.as_mut_ptr()
        }
    }

    /// Translates them back.
    #[inline(always)]
    pub fn give(mut self) {
        let changed: *const AbiHandle = self.place();
        for (i, handle) in self.program.iter_mut().enumerate() {
            // SAFETY: the library's array is as long as the program's.
            *handle = H::of_abi(unsafe { changed.add(i).read() });
        }
        later_handles::settle();
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
    pub unsafe fn new<H: ProgramHandle>(count: c_int, first: *const H) -> Self {
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

/// An array of handles that the library writes.
///
/// # Safety
/// The pointer is null, or valid for `count` elements, which the library has written there, if it
/// could use the place, or to `written`.
pub unsafe fn give_handles<H: ProgramHandle>(
    count: c_int,
    written: *const AbiHandle,
    first: *mut H,
) {
    // SAFETY: the caller's promise.
    for (i, handle) in unsafe { elements(count, first) }.iter_mut().enumerate() {
        // SAFETY: as above. The places may be the same, so each is read before it is written.
        *handle = H::of_abi(unsafe { written.add(i).read() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_facade::{Large, Small};

    const OWN: AbiHandle = AbiHandle(0x4100_0001_0000_0007);
    const NULL: AbiHandle = AbiHandle(0x180);

    fn array_is_translated_and_back<H: ProgramHandle + PartialEq + std::fmt::Debug>() {
        let null = H::of_abi(NULL);
        for count in [1, FEW, FEW + 1, 100] {
            let mut requests = vec![H::of_abi(OWN); count + 1];
            requests[0] = null;
            // SAFETY: all but the last element.
            let mut array = unsafe { LentArray::new(count as c_int, requests.as_mut_ptr()) };
            let first = array.place();
            // SAFETY: the library has so many elements.
            unsafe {
                assert_eq!(*first, NULL);
                assert!((1..count).all(|i| *first.add(i) == OWN));
                *first.add(count - 1) = NULL;
            }
            array.give();
            assert_eq!((requests[0], requests[count - 1]), (null, null));
            assert!((1..count - 1).all(|i| requests[i] == H::of_abi(OWN)));
            assert_eq!(requests[count], H::of_abi(OWN));
        }
        // SAFETY: nothing is there.
        let mut none = unsafe { LentArray::<H>::new(-1, std::ptr::null_mut()) };
        assert!(none.place().is_null());
        none.give();
    }

    #[test]
    fn an_array_is_translated_whichever_size_its_handles_have() {
        array_is_translated_and_back::<Large>();
        array_is_translated_and_back::<Small>();
    }

    fn lent_and_made<H: ProgramHandle + PartialEq + std::fmt::Debug>() {
        let mut place = H::of_abi(OWN);
        // SAFETY: the places are valid, or there are none.
        unsafe {
            Lent::new(&mut place).give();
            assert_eq!(place, H::of_abi(OWN));
            let mut freed = Lent::new(&mut place);
            assert_eq!(*freed.place(), OWN);
            *freed.place() = NULL;
            freed.give();
            assert_eq!(place, H::of_abi(NULL));
            let mut none = Lent::<H>::new(std::ptr::null_mut());
            assert!(none.place().is_null());
            none.give();
            let mut made = OutHandle::new(&mut place);
            *made.place() = OWN;
            made.give();
            assert_eq!(place, H::of_abi(OWN));
            let mut none = OutHandle::<H>::new(std::ptr::null_mut());
            assert!(none.place().is_null());
            none.give();
        }
    }

    #[test]
    fn a_place_is_written_if_the_library_has_written() {
        lent_and_made::<Large>();
        lent_and_made::<Small>();
        let mut place = Small(5);
        // SAFETY: the place is valid.
        unsafe { OutHandle::new(&mut place).give() };
        assert_eq!(place, Small(5));
    }
}
