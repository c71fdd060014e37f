//! Which handles of a program are predefined objects. A program may leave anything in an argument
//! that MPI ignores, so no handle is followed before it is known to be one.

use std::sync::atomic::{AtomicUsize, Ordering};

use rejoin_facade::abi_types::AbiHandle;

use crate::generated::predefined::OBJECTS;
use crate::predefined_objects::contents;

/// Where some of the objects are: their addresses are among so many from the first one on.
struct Part {
    first: AtomicUsize,
    length: AtomicUsize,
}

impl Part {
    const fn empty() -> Self {
        Self {
            first: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
        }
    }

    fn set(&self, sorted: &[usize]) {
        if let [first, .., last] | [first @ last] = sorted {
            self.first.store(*first, Ordering::Relaxed);
            self.length.store(last - first + 1, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn has(&self, address: usize) -> bool {
        let distance = address.wrapping_sub(self.first.load(Ordering::Relaxed));
        distance < self.length.load(Ordering::Relaxed)
    }
}

/// The program's copies, and the others. What lies between two of one part may be read, too.
static PARTS: [Part; 2] = [const { Part::empty() }; 2];

/// Called by the loader, before any code that may call MPI.
#[used]
#[unsafe(link_section = ".init_array")]
static LOCATE: extern "C" fn() = locate;

extern "C" fn locate() {
    let mut addresses = OBJECTS.map(|object| object.address());
    addresses.sort_unstable();
    // Nothing is as far apart as a program and its libraries.
    let widest = (1..addresses.len()).max_by_key(|i| addresses[*i] - addresses[i - 1]);
    let (lower, upper) = addresses.split_at(widest.unwrap_or(0));
    PARTS[0].set(lower);
    PARTS[1].set(upper);
}

/// The handle and the Fortran integer of the predefined object at an address, if there is one.
#[inline(always)]
pub fn predefined(address: usize) -> Option<(AbiHandle, usize)> {
    let is_one = PARTS[0].has(address) || PARTS[1].has(address);
    // SAFETY: the objects of a part are longer, and all between them may be read.
    is_one.then(|| unsafe { contents(address) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_its_addresses_only() {
        let part = Part::empty();
        assert!(!part.has(0) && !part.has(usize::MAX));
        part.set(&[0x1000, 0x1100, 0x1800]);
        for (address, expected) in [
            (0xfff, false),
            (0x1000, true),
            (0x1800, true),
            (0x1801, false),
        ] {
            assert_eq!(part.has(address), expected, "{address:#x}");
        }
        part.set(&[0x20]);
        assert!(part.has(0x20) && !part.has(0x21));
    }

    #[test]
    fn every_object_is_found() {
        for object in &OBJECTS {
            assert!(predefined(object.address()).is_some());
        }
        assert_eq!(predefined(0), None);
    }
}
