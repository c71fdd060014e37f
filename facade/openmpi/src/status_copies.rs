//! Statuses: the library fills in its own, and what it has set goes to the program's.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use crate::generated::conversions::{error_in, error_out, rank_in, rank_out, tag_in, tag_out};
use crate::program_types::{AbiStatus, ProgramStatus};

/// In fields that the library has not set; no rank and no code.
const UNSET: c_int = c_int::MIN;
/// Statuses that need no memory of the heap.
const FEW: usize = 64;

impl AbiStatus {
    const NOT_SET: Self = Self {
        source: UNSET,
        tag: 0,
        error: UNSET,
        bytes: [0; 2],
        cancelled: 0,
        unused: [0; 2],
    };

    fn of(status: &ProgramStatus) -> Self {
        Self {
            source: rank_in(status.source),
            tag: tag_in(status.tag),
            error: error_in(status.error),
            bytes: status.bytes,
            cancelled: status.cancelled,
            unused: [0; 2],
        }
    }

    /// Tells the program what the library has set. Most calls leave the error alone.
    #[inline]
    fn give(&self, to: &mut ProgramStatus) {
        if self.error != UNSET {
            to.error = error_out(self.error);
        }
        if self.source != UNSET {
            to.source = rank_out(self.source);
            to.tag = tag_out(self.tag);
            to.cancelled = self.cancelled;
            to.bytes = self.bytes;
        }
    }
}

/// The status of a call that has one; none if the program ignores it.
pub struct OneStatus {
    place: *mut ProgramStatus,
    status: AbiStatus,
}

impl OneStatus {
    /// One to be filled in.
    #[inline(always)]
    pub fn unset(place: *mut ProgramStatus) -> Self {
        let status = AbiStatus::NOT_SET;
        Self { place, status }
    }

    /// The program's, to be read or changed.
    ///
    /// # Safety
    /// The pointer is null or valid.
    pub unsafe fn of(place: *const ProgramStatus) -> Self {
        // SAFETY: the caller's promise.
        let status = unsafe { place.as_ref() }.map_or(AbiStatus::NOT_SET, AbiStatus::of);
        Self {
            place: place.cast_mut(),
            status,
        }
    }

    /// Where the library reads it.
    pub fn read(&self) -> *const AbiStatus {
        if self.place.is_null() {
            return std::ptr::null();
        }
        &self.status
    }

    /// Where the library finds it.
    #[inline(always)]
    pub fn place(&mut self) -> *mut AbiStatus {
        if self.place.is_null() {
            return std::ptr::null_mut();
        }
        &mut self.status
    }

    /// Tells the program.
    ///
    /// # Safety
    /// The program's pointer is null or valid.
    #[inline(always)]
    pub unsafe fn give(&self) {
        // SAFETY: the caller's promise.
        if let Some(place) = unsafe { self.place.as_mut() } {
            self.status.give(place);
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
pub struct ManyStatuses<'a> {
    place: *mut ProgramStatus,
    statuses: &'a mut [MaybeUninit<AbiStatus>],
    /// Holds them if the room is too small.
    many: Option<Box<[MaybeUninit<AbiStatus>]>>,
}

impl<'a> ManyStatuses<'a> {
    /// So many, to be filled in.
    #[inline]
    pub fn new(count: c_int, place: *mut ProgramStatus, room: &'a mut StatusRoom) -> Self {
        let count = match place.is_null() {
            true => 0,
            false => usize::try_from(count).unwrap_or(0),
        };
        let mut many = (count > FEW).then(|| Box::new_uninit_slice(count));
        let statuses = &mut room[..count.min(FEW)];
        many.as_deref_mut()
            .unwrap_or(statuses)
            .fill(MaybeUninit::new(AbiStatus::NOT_SET));
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
        match self.place.is_null() {
            true => std::ptr::null_mut(),
            false => self.all().as_mut_ptr().cast(),
        }
    }

    /// Tells the program.
    ///
    /// # Safety
    /// The program's pointer is null, or valid for as many statuses.
    #[inline]
    pub unsafe fn give(&mut self) {
        let place = self.place;
        for (i, status) in self.all().iter().enumerate() {
            // SAFETY: `new` has set them; the caller's promise for the others.
            unsafe { status.assume_init_ref().give(&mut *place.add(i)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: AbiStatus = AbiStatus {
        source: -3,
        tag: -2,
        error: 19,
        bytes: [-2, 1],
        cancelled: 1,
        unused: [0; 2],
    };
    const GIVEN: ProgramStatus = ProgramStatus {
        source: -2,
        tag: -1,
        error: 18,
        cancelled: 1,
        bytes: [-2, 1],
    };

    #[test]
    fn a_status_has_open_mpis_layout() {
        assert_eq!(
            (size_of::<ProgramStatus>(), size_of::<AbiStatus>()),
            (24, 32)
        );
        assert_eq!(std::mem::offset_of!(ProgramStatus, bytes), 16);
    }

    #[test]
    fn what_is_set_is_given_and_comes_back() {
        let mut place = ProgramStatus::default();
        // SAFETY: the place is valid.
        unsafe {
            let mut one = OneStatus::unset(&mut place);
            *one.place() = SET;
            one.give();
            assert_eq!(place, GIVEN);
            assert_eq!(*OneStatus::of(&place).read(), SET);
        }
    }

    #[test]
    fn what_the_library_does_not_set_stays() {
        let mut place = GIVEN;
        // SAFETY: the place is valid.
        unsafe {
            let mut one = OneStatus::unset(&mut place);
            one.give();
            assert_eq!(place, GIVEN);
            *one.place() = AbiStatus {
                error: UNSET,
                source: 7,
                ..SET
            };
            one.give();
        }
        assert_eq!((place.source, place.error), (7, GIVEN.error));
    }

    #[test]
    fn few_and_many_statuses_are_given() {
        for count in [1, FEW, FEW + 1, 200] {
            let mut places = vec![ProgramStatus::default(); count];
            // SAFETY: there are as many places.
            unsafe {
                let mut room = status_room();
                let first = places.as_mut_ptr();
                let mut many = ManyStatuses::new(count as c_int, first, &mut room);
                *many.place().add(count - 1) = SET;
                many.give();
            }
            assert_eq!(places[count - 1], GIVEN);
            assert!(count == 1 || places[0] == ProgramStatus::default());
        }
        let none = std::ptr::null_mut();
        assert!(
            ManyStatuses::new(5, none, &mut status_room())
                .place()
                .is_null()
        );
    }
}
