//! Entries for functions of the program that the library calls without a state: operations and
//! error handlers. Each such function has an entry of its own.
//!
//! An entry is never given back: a handle that is freed may still be in use. A function that is
//! given again has its entry already.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The program's functions of one kind, by their entries.
pub struct Entries<const N: usize> {
    functions: [AtomicPtr<c_void>; N],
    adding: Mutex<()>,
}

impl<const N: usize> Default for Entries<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Entries<N> {
    /// Without functions.
    pub const fn new() -> Self {
        Self {
            functions: [const { AtomicPtr::new(std::ptr::null_mut()) }; N],
            adding: Mutex::new(()),
        }
    }

    /// The function of an entry; null if it has none.
    pub fn get(&self, entry: usize) -> *mut c_void {
        self.functions[entry].load(Ordering::Relaxed)
    }

    /// The number of the entry that calls this function; `None` if all call others.
    pub fn entry(&self, function: *const c_void) -> Option<usize> {
        let _adding = self.adding.lock();
        (0..N).find(|entry| {
            if self.get(*entry).is_null() {
                self.functions[*entry].store(function.cast_mut(), Ordering::Relaxed);
            }
            std::ptr::eq(self.get(*entry), function)
        })
    }
}

/// An array of one function for each of 64 entries: a function with the entry's number as its
/// constant parameter.
#[macro_export]
macro_rules! callback_entries {
    ($function:ident: $type:ty) => {
        $crate::callback_entries!($function: $type; 0 8 16 24 32 40 48 56)
    };
    ($function:ident: $type:ty; $($first:literal)*) => {{
        const ALL: [[$type; 8]; 8] = [$([
            $function::<{ $first }>, $function::<{ $first + 1 }>, $function::<{ $first + 2 }>,
            $function::<{ $first + 3 }>, $function::<{ $first + 4 }>, $function::<{ $first + 5 }>,
            $function::<{ $first + 6 }>, $function::<{ $first + 7 }>,
        ]),*];
        ALL
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_keeps_its_entry_and_no_entry_is_given_twice() {
        let entries = Entries::<2>::new();
        let [first, second, third] = [0x10, 0x20, 0x30].map(std::ptr::without_provenance);
        let got = [first, second, first, third].map(|f| entries.entry(f));
        assert_eq!(got, [Some(0), Some(1), Some(0), None]);
        assert_eq!(entries.get(1).cast_const(), second);
    }
}
