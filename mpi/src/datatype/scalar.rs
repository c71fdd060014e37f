//! How one basic value lies in memory on this machine.

/// Machine representation of a basic value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// 8-bit signed integer.
    I8,
    /// 8-bit unsigned integer.
    U8,
    /// 16-bit signed integer.
    I16,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit signed integer.
    I32,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit signed integer.
    I64,
    /// 64-bit unsigned integer.
    U64,
    /// 128-bit signed integer.
    I128,
    /// IEEE 754 binary16.
    F16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// C's `long double`: 16 bytes; on x86-64 the x87 80-bit format in the first 10 of them.
    LongDouble,
    /// IEEE 754 binary128.
    F128,
    /// Two binary16.
    C16,
    /// Two binary32.
    C32,
    /// Two binary64.
    C64,
    /// Two `long double`.
    LongDoubleComplex,
    /// Two binary128.
    C128,
}

impl Scalar {
    /// C's `char`, whose sign the platform chooses.
    pub const CHAR: Self = match std::ffi::c_char::MIN {
        0 => Scalar::U8,
        _ => Scalar::I8,
    };

    /// Size in bytes.
    pub const fn size(self) -> usize {
        match self {
            Scalar::C16 | Scalar::C32 | Scalar::C64 | Scalar::LongDoubleComplex | Scalar::C128 => {
                2 * self.align()
            }
            _ => self.align(),
        }
    }

    /// Alignment in bytes: the size of one real component.
    pub const fn align(self) -> usize {
        match self {
            Scalar::I8 | Scalar::U8 => 1,
            Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::C16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 | Scalar::C32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 | Scalar::C64 => 8,
            Scalar::I128
            | Scalar::LongDouble
            | Scalar::F128
            | Scalar::LongDoubleComplex
            | Scalar::C128 => 16,
        }
    }
}
