//! The portable representation "external32": big-endian, fixed sizes (MPI-5.0 §5.3, §14.5.2).

use super::{Class, Datatype, Named, Scalar};
use crate::error::{Error, ErrorClass, Result, counted};

/// The only external representation the standard names.
pub const EXTERNAL32: &str = "external32";

/// Most bytes that one piece of a run takes on the stack, in either representation.
const PIECE: usize = 2048;

/// How a basic type is converted, component by component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conversion {
    /// The same bytes the other way round.
    Swap(usize),
    /// An 8-byte integer as 4 bytes (`long`, signed or not).
    Long { signed: bool },
    /// A 4-byte `wchar_t` as 2 bytes.
    Wide,
    /// The x87 format as IEEE binary128.
    LongDouble,
}

impl Conversion {
    /// The conversion of a basic type and how many components it has.
    fn of(basic: Named) -> (Self, usize) {
        let scalar = basic.scalar().unwrap_or(Scalar::U8);
        let components = scalar.size() / scalar.align();
        let long_double = matches!(scalar, Scalar::LongDouble | Scalar::LongDoubleComplex);
        let conversion = match basic {
            Named::Long => Conversion::Long { signed: true },
            Named::UnsignedLong => Conversion::Long { signed: false },
            Named::Wchar => Conversion::Wide,
            _ if long_double && cfg!(target_arch = "x86_64") => Conversion::LongDouble,
            _ => Conversion::Swap(scalar.align()),
        };
        (conversion, components)
    }

    /// Bytes of a component in memory and in the representation.
    fn bytes(self) -> (usize, usize) {
        match self {
            Conversion::Swap(n) => (n, n),
            Conversion::Long { .. } => (8, 4),
            Conversion::Wide => (4, 2),
            Conversion::LongDouble => (16, 16),
        }
    }

    /// Converts a component from memory.
    fn encode(self, native: &[u8], out: &mut [u8]) -> Result<()> {
        let lost = || {
            Error::new(
                ErrorClass::Conversion,
                "a value does not fit in its external32 form",
            )
        };
        match self {
            Conversion::Swap(_) => copy_swapped(native, out),
            Conversion::Long { signed } => {
                let value = i64::from_ne_bytes(fixed(native));
                let fits = if signed {
                    i32::try_from(value).is_ok()
                } else {
                    u32::try_from(value).is_ok()
                };
                if !fits {
                    return Err(lost());
                }
                out.copy_from_slice(&(value as u32).to_be_bytes());
            }
            Conversion::Wide => {
                let value = u32::from_ne_bytes(fixed(native));
                let value = u16::try_from(value).map_err(|_| lost())?;
                out.copy_from_slice(&value.to_be_bytes());
            }
            Conversion::LongDouble => {
                let bits = u128::from_le_bytes(fixed(native)) & ((1 << 80) - 1);
                out.copy_from_slice(&quad_from_x87(bits).to_be_bytes());
            }
        }
        Ok(())
    }

    /// Converts a component to memory.
    fn decode(self, external: &[u8], out: &mut [u8]) {
        match self {
            Conversion::Swap(_) => copy_swapped(external, out),
            Conversion::Long { signed } => {
                let value = u32::from_be_bytes(fixed(external));
                let value = if signed {
                    i64::from(value as i32)
                } else {
                    i64::from(value)
                };
                out.copy_from_slice(&value.to_ne_bytes());
            }
            Conversion::Wide => {
                let value = u32::from(u16::from_be_bytes(fixed(external)));
                out.copy_from_slice(&value.to_ne_bytes());
            }
            Conversion::LongDouble => {
                let bits = x87_from_quad(u128::from_be_bytes(fixed(external)));
                out.copy_from_slice(&bits.to_le_bytes());
            }
        }
    }
}

/// The bytes as an array; `bytes` has its length.
fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    all.copy_from_slice(bytes);
    all
}

/// Copies, reversed on machines that are not big-endian themselves.
fn copy_swapped(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
    if cfg!(target_endian = "little") {
        to.reverse();
    }
}

/// IEEE binary128 of an x87 number: the same exponent, the integer bit hidden.
fn quad_from_x87(bits: u128) -> u128 {
    let sign = (bits >> 79) & 1;
    let mut exponent = (bits >> 64) & 0x7fff;
    let mantissa = bits & u128::from(u64::MAX);
    if exponent == 0 && mantissa >> 63 == 1 {
        exponent = 1; // a denormal with its integer bit set is a normal number
    }
    let fraction = (mantissa & ((1 << 63) - 1)) << 49;
    sign << 127 | exponent << 112 | fraction
}

/// The nearest x87 number of an IEEE binary128, ties to even.
fn x87_from_quad(bits: u128) -> u128 {
    let sign = bits >> 127;
    let exponent = (bits >> 112) & 0x7fff;
    let fraction = bits & ((1 << 112) - 1);
    let (kept, rest) = (fraction >> 49, fraction & ((1 << 49) - 1));
    if exponent == 0x7fff {
        let quiet = u128::from(fraction != 0) << 62;
        return sign << 79 | exponent << 64 | 1 << 63 | kept | quiet;
    }
    let half = 1u128 << 48;
    let up = rest > half || (rest == half && kept & 1 == 1);
    // A carry out of the fraction raises the exponent, as the encoding wants.
    let rounded = (exponent << 63 | kept) + u128::from(up);
    let (exponent, kept) = (rounded >> 63, rounded & ((1 << 63) - 1));
    let integer = u128::from(exponent != 0);
    sign << 79 | exponent << 64 | integer << 63 | kept
}

impl Datatype {
    /// Bytes of `count` elements in the external representation (`MPI_PACK_EXTERNAL_SIZE`).
    ///
    /// # Errors
    /// `Count` if the count is negative or the bytes do not fit in 64 bits.
    pub fn external_size(&self, count: i64) -> Result<i64> {
        super::check_count(count)?;
        let one = self.body.signature.weigh(&|basic| {
            let (conversion, components) = Conversion::of(basic);
            (conversion.bytes().1 * components) as i64
        });
        one.and_then(|n| n.checked_mul(count)).ok_or_else(|| {
            Error::new(
                ErrorClass::Count,
                format!("the external size of {count} elements does not fit in 64 bits"),
            )
        })
    }

    /// Writes `count` elements at `buffer` to `out` in the external representation
    /// (`MPI_PACK_EXTERNAL`) and returns the bytes written.
    ///
    /// # Errors
    /// `Truncate` if `out` has no room, `Conversion` if a `long` needs more than 4 bytes or a wide
    /// character more than 2.
    ///
    /// # Safety
    /// The elements are readable at `buffer`, initialised, and do not overlap `out`.
    pub unsafe fn pack_external(
        &self,
        count: i64,
        buffer: *const u8,
        out: &mut [u8],
    ) -> Result<usize> {
        let total = self.room(count, out.len())?;
        let (mut from, mut to) = (0i64, 0usize);
        self.runs(count, &mut |conversion, components| {
            let (native_size, external_size) = conversion.bytes();
            let mut left = components;
            while left > 0 {
                let n = left.min(PIECE / 16);
                let mut piece = [0u8; PIECE];
                let bytes = n * native_size;
                // SAFETY: the caller vouches for the elements; the piece has room for the bytes.
                unsafe { self.pack(count, buffer, from, piece.as_mut_ptr(), bytes) };
                from += bytes as i64;
                for value in piece[..bytes].chunks_exact(native_size) {
                    conversion.encode(value, &mut out[to..to + external_size])?;
                    to += external_size;
                }
                left -= n;
            }
            Ok(())
        })?;
        Ok(total)
    }

    /// Reads `count` elements in the external representation from `data` into `buffer`
    /// (`MPI_UNPACK_EXTERNAL`) and returns the bytes read.
    ///
    /// # Errors
    /// `Truncate` if `data` is too short.
    ///
    /// # Safety
    /// The elements are writable at `buffer` and do not overlap `data`.
    pub unsafe fn unpack_external(
        &self,
        count: i64,
        buffer: *mut u8,
        data: &[u8],
    ) -> Result<usize> {
        let total = self.room(count, data.len())?;
        // SAFETY: the caller's.
        unsafe { self.unpack_external_head(count, buffer, &data[..total]) }?;
        Ok(total)
    }

    /// Reads as many of the numbers in `count` elements as are whole in `data`. Returns their bytes
    /// in memory.
    ///
    /// # Errors
    /// `Count` if the count is negative.
    ///
    /// # Safety
    /// The condition of [`Datatype::unpack_external`].
    pub unsafe fn unpack_external_head(
        &self,
        count: i64,
        buffer: *mut u8,
        data: &[u8],
    ) -> Result<u64> {
        super::check_count(count)?;
        let (mut rest, mut to) = (data, 0i64);
        self.runs(count, &mut |conversion, components| {
            let (native_size, external_size) = conversion.bytes();
            let mut left = components.min(rest.len() / external_size);
            if left < components {
                // What follows has no place without this.
                rest = &rest[..left * external_size];
            }
            while left > 0 {
                let n = left.min(PIECE / 16);
                let mut piece = [0u8; PIECE];
                let bytes = n * native_size;
                let (now, after) = rest.split_at(n * external_size);
                let values = piece[..bytes].chunks_exact_mut(native_size);
                for (value, external) in values.zip(now.chunks_exact(external_size)) {
                    conversion.decode(external, value);
                }
                // SAFETY: the caller vouches for the elements.
                unsafe { self.unpack(count, buffer, to, piece.as_ptr(), bytes) };
                (rest, to) = (after, to + bytes as i64);
                left -= n;
            }
            Ok(())
        })?;
        Ok(to as u64)
    }

    /// Bytes of the elements in the external representation; refuses more than `available`.
    fn room(&self, count: i64, available: usize) -> Result<usize> {
        let total = self.external_size(count)?;
        match usize::try_from(total) {
            Ok(total) if total <= available => Ok(total),
            _ => Err(Error::new(
                ErrorClass::Truncate,
                format!(
                    "{} take {}, and the buffer has {available}",
                    counted(count, "element"),
                    counted(total, "byte"),
                ),
            )),
        }
    }

    /// Calls `visit(conversion, number of components)` for each run of `count` elements, in order.
    fn runs(
        &self,
        count: i64,
        visit: &mut dyn FnMut(Conversion, usize) -> Result<()>,
    ) -> Result<()> {
        self.body
            .signature
            .repeated(count)
            .try_runs(&mut |basic, n| {
                let (conversion, components) = Conversion::of(basic);
                visit(conversion, n as usize * components)
            })
    }

    /// Whether memory and external representation hold the same bytes for this type.
    pub fn is_bytewise(&self) -> bool {
        let other = self.body.signature.weigh(&|basic| {
            let bytewise = Conversion::of(basic).0 == Conversion::Swap(1);
            i64::from(!bytewise && basic.class() != Class::Byte)
        });
        other == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Form;

    #[test]
    fn x87_and_quad_agree_on_known_numbers() {
        let one = 0x3fff_u128 << 64 | 1 << 63;
        assert_eq!(quad_from_x87(one), 0x3fff_u128 << 112);
        assert_eq!(x87_from_quad(0x3fff_u128 << 112), one);
        let minus_inf = 0xffff_u128 << 64 | 1 << 63;
        assert_eq!(quad_from_x87(minus_inf), 0xffff_u128 << 112);
        assert_eq!(x87_from_quad(0xffff_u128 << 112), minus_inf);
        // All fraction bits set rounds up to the next power of two.
        let almost_two = 0x3fff_u128 << 112 | ((1 << 112) - 1);
        assert_eq!(x87_from_quad(almost_two), 0x4000_u128 << 64 | 1 << 63);
    }

    #[test]
    fn numbers_are_big_endian_and_longs_have_four_bytes() {
        let value = [-2i64, 7];
        let long = Datatype::named(Named::Long);
        assert_eq!(long.external_size(2), Ok(8));
        let mut out = [0u8; 8];
        // SAFETY: two longs are readable.
        let n = unsafe { long.pack_external(2, value.as_ptr().cast(), &mut out) };
        assert_eq!(n, Ok(8));
        assert_eq!(out, [0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 7]);
        let mut back = [0i64; 2];
        // SAFETY: two longs are writable.
        let n = unsafe { long.unpack_external(2, back.as_mut_ptr().cast(), &out) };
        assert_eq!((n, back), (Ok(8), value));
    }

    #[test]
    fn what_is_cut_is_read_as_far_as_numbers_are_whole() {
        let row = Datatype::contiguous(Form::Int, 3, &Datatype::named(Named::Long)).unwrap();
        let mut back = [7i64; 3];
        let data = [0, 0, 0, 1, 0, 0, 0, 2, 0, 0];
        // SAFETY: three longs are writable.
        let n = unsafe { row.unpack_external_head(1, back.as_mut_ptr().cast(), &data) };
        assert_eq!((n, back), (Ok(16), [1, 2, 7]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let value = [1i64 << 40];
        let long = Datatype::named(Named::Long);
        let mut out = [0u8; 8];
        // SAFETY: one long is readable.
        let n = unsafe { long.pack_external(1, value.as_ptr().cast(), &mut out) };
        assert_eq!(n.map_err(|e| e.class), Err(ErrorClass::Conversion));
        // SAFETY: one long is readable.
        let n = unsafe { long.pack_external(1, value.as_ptr().cast(), &mut out[..3]) };
        assert_eq!(n.map_err(|e| e.class), Err(ErrorClass::Truncate));
    }
}
