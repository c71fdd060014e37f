//! The program's arguments.

use rejoin_image_format::{ImageNumber, LOAD_PATH};

/// Longest path of an image in bytes, with a zero byte at its end.
pub const PATH: usize = LOAD_PATH;

/// What the local manager asks for.
pub struct RestartArguments {
    /// Path of the image, with a zero byte at its end.
    pub path: [u8; PATH],
    /// The socket to the local manager.
    pub socket: i32,
    /// The job whose image it must be.
    pub job: u64,
    /// The rank whose image it must be.
    pub rank: u32,
    /// The image that it must be.
    pub number: ImageNumber,
    /// The process does not continue from this image: orders for later ones follow.
    pub waits: bool,
}

impl RestartArguments {
    /// Reads them from the kernel's stack. `None` if they are others.
    ///
    /// # Safety
    /// `stack` is the stack pointer at the start of the program.
    pub unsafe fn read(stack: *const u64) -> Option<Self> {
        // SAFETY: the kernel puts the number of arguments there, and then a pointer to each.
        let argument = |number: u64| unsafe {
            (number < *stack).then(|| *stack.add(1 + number as usize) as *const u8)
        };
        let mut path = [0; PATH];
        // SAFETY: the kernel ends each argument with a zero byte.
        let length = unsafe { copy(argument(1)?, &mut path[..PATH - 1]) };
        // SAFETY: the same.
        let number = |which: u64| unsafe { decimal(argument(which)?) };
        (length? > 0).then_some(Self {
            path,
            socket: i32::try_from(number(2)?).ok()?,
            job: number(3)?,
            rank: u32::try_from(number(4)?).ok()?,
            number: ImageNumber {
                epoch: u32::try_from(number(5)?).ok()?,
                step: u32::try_from(number(6)?).ok()?,
            },
            waits: argument(7).is_some(),
        })
    }
}

/// Copies a text without its zero byte. `None` if it is longer than there is room.
///
/// # Safety
/// The text ends with a zero byte.
unsafe fn copy(from: *const u8, to: &mut [u8]) -> Option<usize> {
    for length in 0.. {
        // SAFETY: no zero byte came before this one.
        let byte = unsafe { *from.add(length) };
        if byte == 0 {
            return Some(length);
        }
        *to.get_mut(length)? = byte;
    }
    None
}

/// A decimal number that takes up all of a text.
///
/// # Safety
/// The text ends with a zero byte.
unsafe fn decimal(text: *const u8) -> Option<u64> {
    let mut digits = [0; 20];
    // SAFETY: the caller's promise.
    let length = unsafe { copy(text, &mut digits)? };
    if length == 0 {
        return None;
    }
    digits[..length].iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}
