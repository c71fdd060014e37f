//! Statuses: the library fills in its own, and what it has set goes to the program's.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use crate::abi_types::AbiStatus;
use crate::facade_traits::{Facade, ProgramStatus};

/// In fields that the library has not set; no rank and no code.
const UNSET: c_int = c_int::MIN;
/// Statuses that need no memory of the heap.
const FEW: usize = 64;

const NOT_SET: AbiStatus = AbiStatus {
    source: UNSET,
    tag: 0,
    error: UNSET,
    bytes: [0; 2],
    cancelled: 0,
    unused: [0; 2],
};

fn of_program<F: Facade>(status: &F::Status) -> AbiStatus {
    let given = status.contents();
    AbiStatus {
        source: F::rank_in(given.source),
        tag: F::tag_in(given.tag),
        error: F::error_in(given.error),
        ..given
    }
}

/// Tells the program what the library has set. Most calls leave the error alone.
#[inline]
fn give_to<F: Facade>(set: &AbiStatus, to: &mut F::Status) {
    if set.error != UNSET {
        to.set_error(F::error_out(set.error));
    }
    if set.source != UNSET {
        to.set_message(&AbiStatus {
            source: F::rank_out(set.source),
            tag: F::tag_out(set.tag),
            ..*set
        });
    }
}

/// Whether the program ignores the status.
#[inline(always)]
fn is_ignored<S: ProgramStatus>(place: *const S) -> bool {
    place.is_null() || place.addr() == S::IGNORED
}

/// A status of the program in the library's layout.
pub fn status_in<F: Facade>(status: &F::Status) -> AbiStatus {
    of_program::<F>(status)
}

/// Copies a status between C and Fortran, where it is the same integers.
///
/// # Safety
/// Both places are valid.
pub unsafe fn copy_status<S: ProgramStatus>(from: *const c_int, to: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(from, size_of::<S>() / size_of::<c_int>()) }
    0
}

/// The status of a call that has one; none if the program ignores it.
pub struct OneStatus<F: Facade> {
    place: *mut F::Status,
    status: AbiStatus,
}

impl<F: Facade> OneStatus<F> {
    /// One to be filled in.
    #[inline(always)]
    pub fn unset(place: *mut F::Status) -> Self {
        let status = NOT_SET;
        Self { place, status }
    }

    /// The program's, to be read or changed.
    ///
    /// # Safety
    /// The pointer is null, valid, or that of an ignored status.
    pub unsafe fn of(place: *const F::Status) -> Self {
        let status = match is_ignored(place) {
            true => NOT_SET,
            // SAFETY: the caller's promise.
            false => of_program::<F>(unsafe { &*place }),
        };
        Self {
            place: place.cast_mut(),
            status,
        }
    }

    /// Where the library reads it.
    pub fn read(&self) -> *const AbiStatus {
        if is_ignored(self.place) {
            return std::ptr::null();
        }
        &self.status
    }

    /// Where the library finds it.
    #[inline(always)]
    pub fn place(&mut self) -> *mut AbiStatus {
        if is_ignored(self.place) {
            return std::ptr::null_mut();
        }
        &mut self.status
    }

    /// Tells the program.
    ///
    /// # Safety
    /// The program's pointer is as [`OneStatus::of`] says.
    #[inline(always)]
    pub unsafe fn give(&self) {
        if !is_ignored(self.place) {
            // SAFETY: the caller's promise.
            give_to::<F>(&self.status, unsafe { &mut *self.place });
        }
    }
}

/// Room for a few statuses, which the caller has on its stack.
pub type StatusRoom = [MaybeUninit<AbiStatus>; FEW];

/// Such a room, with nothing in it.
#[inline(always)]
pub fn status_room() -> StatusRoom {
    [MaybeUninit::uninit(); FEW]
}

/// The statuses of a call that has several; none if the program ignores them.
pub struct ManyStatuses<'a, F: Facade> {
    place: *mut F::Status,
    statuses: &'a mut [MaybeUninit<AbiStatus>],
    /// Holds them if the room is too small.
    many: Option<Box<[MaybeUninit<AbiStatus>]>>,
}

impl<'a, F: Facade> ManyStatuses<'a, F> {
    /// So many, to be filled in.
    #[inline]
    pub fn new(count: c_int, place: *mut F::Status, room: &'a mut StatusRoom) -> Self {
        let count = match is_ignored(place) {
            true => 0,
            false => usize::try_from(count).unwrap_or(0),
        };
        let mut many = (count > FEW).then(|| Box::new_uninit_slice(count));
        let statuses = &mut room[..count.min(FEW)];
        many.as_deref_mut()
            .unwrap_or(statuses)
            .fill(MaybeUninit::new(NOT_SET));
        Self {
            place,
            statuses,
            many,
        }
    }

    /// Those that `new` has set.
    #[inline]
    fn all(&mut self) -> &mut [MaybeUninit<AbiStatus>] {
        self.many.as_deref_mut().unwrap_or(self.statuses)
    }

    /// Where the library finds them.
    #[inline]
    pub fn place(&mut self) -> *mut AbiStatus {
        match is_ignored(self.place) {
            true => std::ptr::null_mut(),
            false => self.all().as_mut_ptr().cast(),
        }
    }

    /// Tells the program.
    ///
    /// # Safety
    /// The program's pointer is that of ignored statuses, or valid for as many.
    #[inline]
    pub unsafe fn give(&mut self) {
        let place = self.place;
        for (i, status) in self.all().iter().enumerate() {
            // SAFETY: `new` has set them; the caller's promise for the others.
            unsafe { give_to::<F>(status.assume_init_ref(), &mut *place.add(i)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_facade::{ErrorFirst, Sample};

    const SET: AbiStatus = AbiStatus {
        source: -3,
        tag: -2,
        error: 19,
        bytes: [-2, 1],
        cancelled: 1,
        unused: [0; 2],
    };
    const GIVEN: ErrorFirst = ErrorFirst {
        source: 997,
        tag: 998,
        error: 1019,
        cancelled: 1,
        bytes: [-2, 1],
    };

    #[test]
    fn what_is_set_is_given_and_comes_back() {
        let mut place = ErrorFirst::default();
        // SAFETY: the place is valid.
        unsafe {
            let mut one = OneStatus::<Sample>::unset(&mut place);
            *one.place() = SET;
            one.give();
            assert_eq!(place, GIVEN);
            assert_eq!(*OneStatus::<Sample>::of(&place).read(), SET);
            assert_eq!(status_in::<Sample>(&place), SET);
        }
    }

    #[test]
    fn what_the_library_does_not_set_stays() {
        let mut place = GIVEN;
        // SAFETY: the place is valid.
        unsafe {
            let mut one = OneStatus::<Sample>::unset(&mut place);
            one.give();
            assert_eq!(place, GIVEN);
            *one.place() = AbiStatus {
                error: UNSET,
                source: 7,
                ..SET
            };
            one.give();
        }
        assert_eq!((place.source, place.error), (1007, GIVEN.error));
    }

    #[test]
    fn few_and_many_statuses_are_given() {
        for count in [1, FEW, FEW + 1, 200] {
            let mut places = vec![ErrorFirst::default(); count];
            // SAFETY: there are as many places.
            unsafe {
                let mut room = status_room();
                let first = places.as_mut_ptr();
                let mut many = ManyStatuses::<Sample>::new(count as c_int, first, &mut room);
                *many.place().add(count - 1) = SET;
                many.give();
            }
            assert_eq!(places[count - 1], GIVEN);
            assert!(count == 1 || places[0] == ErrorFirst::default());
        }
    }

    #[test]
    fn statuses_that_are_ignored_have_no_place() {
        for address in [0, 1] {
            let none = std::ptr::without_provenance_mut(address);
            let mut room = status_room();
            assert!(
                ManyStatuses::<Sample>::new(5, none, &mut room)
                    .place()
                    .is_null()
            );
            let mut one = OneStatus::<Sample>::unset(none);
            assert!(one.place().is_null());
            // SAFETY: nothing is there.
            unsafe {
                one.give();
                assert!(OneStatus::<Sample>::of(none).read().is_null());
            }
        }
    }
}
