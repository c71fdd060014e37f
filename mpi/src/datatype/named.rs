//! The predefined datatypes (MPI-5.0 §3.2.2, §5.1, §6.9.4; sizes of the standard ABI on 64-bit
//! machines).

use super::scalar::Scalar;

/// The group a predefined type belongs to in the table of reductions (MPI-5.0 §6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// C integer. Also `MPI_CHAR`, which the standard's table leaves out and other MPI libraries
    /// take.
    CInteger,
    /// Fortran integer.
    FortranInteger,
    /// Floating point.
    Floating,
    /// Logical (C, C++ and Fortran).
    Logical,
    /// Complex.
    Complex,
    /// `MPI_BYTE`.
    Byte,
    /// Multi-language: `MPI_AINT`, `MPI_COUNT`, `MPI_OFFSET`.
    MultiLanguage,
    /// Characters: no reduction takes them.
    Character,
    /// `MPI_PACKED`: no reduction takes it.
    Packed,
    /// A value with its index, for `MPI_MINLOC` and `MPI_MAXLOC`.
    Pair,
}

macro_rules! named_types {
    ($($variant:ident $name:literal $class:ident $shape:tt)*) => {
        /// A predefined datatype, one for each handle of the standard ABI (aliases share one).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Named {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Named {
            /// All predefined datatypes, in declaration order.
            pub const ALL: &'static [Named] = &[$(Named::$variant),*];

            /// The name in C, which is also the initial name of the object.
            pub const fn name(self) -> &'static str {
                match self { $(Named::$variant => $name,)* }
            }

            /// The group of the type in the table of reductions.
            pub const fn class(self) -> Class {
                match self { $(Named::$variant => Class::$class,)* }
            }

            /// The basic value of one element.
            pub const fn element(self) -> Element {
                match self { $(Named::$variant => named_types!(@element $variant $shape),)* }
            }
        }
    };
    (@element $variant:ident ($value:ident, $index:ident)) => {
        Element::Pair { value: Named::$value, index: Named::$index }
    };
    (@element $variant:ident $scalar:ident) => { Element::One(Scalar::$scalar) };
}

/// The basic value of an element of a predefined type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// One basic value.
    One(Scalar),
    /// A C struct of a value and an index.
    Pair {
        /// Type of the value, the first member.
        value: Named,
        /// Type of the index, the second member.
        index: Named,
    },
}

named_types! {
    Aint "MPI_AINT" MultiLanguage I64
    Count "MPI_COUNT" MultiLanguage I64
    Offset "MPI_OFFSET" MultiLanguage I64
    Packed "MPI_PACKED" Packed U8
    Short "MPI_SHORT" CInteger I16
    Int "MPI_INT" CInteger I32
    Long "MPI_LONG" CInteger I64
    LongLong "MPI_LONG_LONG" CInteger I64
    UnsignedShort "MPI_UNSIGNED_SHORT" CInteger U16
    Unsigned "MPI_UNSIGNED" CInteger U32
    UnsignedLong "MPI_UNSIGNED_LONG" CInteger U64
    UnsignedLongLong "MPI_UNSIGNED_LONG_LONG" CInteger U64
    Float "MPI_FLOAT" Floating F32
    CFloatComplex "MPI_C_COMPLEX" Complex C32
    CxxFloatComplex "MPI_CXX_FLOAT_COMPLEX" Complex C32
    Double "MPI_DOUBLE" Floating F64
    CDoubleComplex "MPI_C_DOUBLE_COMPLEX" Complex C64
    CxxDoubleComplex "MPI_CXX_DOUBLE_COMPLEX" Complex C64
    Logical "MPI_LOGICAL" Logical I32
    Integer "MPI_INTEGER" FortranInteger I32
    Real "MPI_REAL" Floating F32
    Complex "MPI_COMPLEX" Complex C32
    DoublePrecision "MPI_DOUBLE_PRECISION" Floating F64
    DoubleComplex "MPI_DOUBLE_COMPLEX" Complex C64
    Character "MPI_CHARACTER" Character U8
    LongDouble "MPI_LONG_DOUBLE" Floating LongDouble
    CLongDoubleComplex "MPI_C_LONG_DOUBLE_COMPLEX" Complex LongDoubleComplex
    CxxLongDoubleComplex "MPI_CXX_LONG_DOUBLE_COMPLEX" Complex LongDoubleComplex
    FloatInt "MPI_FLOAT_INT" Pair (Float, Int)
    DoubleInt "MPI_DOUBLE_INT" Pair (Double, Int)
    LongInt "MPI_LONG_INT" Pair (Long, Int)
    TwoInt "MPI_2INT" Pair (Int, Int)
    ShortInt "MPI_SHORT_INT" Pair (Short, Int)
    LongDoubleInt "MPI_LONG_DOUBLE_INT" Pair (LongDouble, Int)
    TwoReal "MPI_2REAL" Pair (Real, Real)
    TwoDoublePrecision "MPI_2DOUBLE_PRECISION" Pair (DoublePrecision, DoublePrecision)
    TwoInteger "MPI_2INTEGER" Pair (Integer, Integer)
    CBool "MPI_C_BOOL" Logical U8
    CxxBool "MPI_CXX_BOOL" Logical U8
    Wchar "MPI_WCHAR" Character I32
    Int8 "MPI_INT8_T" CInteger I8
    Uint8 "MPI_UINT8_T" CInteger U8
    Char "MPI_CHAR" CInteger CHAR
    SignedChar "MPI_SIGNED_CHAR" CInteger I8
    UnsignedChar "MPI_UNSIGNED_CHAR" CInteger U8
    Byte "MPI_BYTE" Byte U8
    Int16 "MPI_INT16_T" CInteger I16
    Uint16 "MPI_UINT16_T" CInteger U16
    Int32 "MPI_INT32_T" CInteger I32
    Uint32 "MPI_UINT32_T" CInteger U32
    Int64 "MPI_INT64_T" CInteger I64
    Uint64 "MPI_UINT64_T" CInteger U64
    Logical1 "MPI_LOGICAL1" Logical I8
    Integer1 "MPI_INTEGER1" FortranInteger I8
    Logical2 "MPI_LOGICAL2" Logical I16
    Integer2 "MPI_INTEGER2" FortranInteger I16
    Real2 "MPI_REAL2" Floating F16
    Logical4 "MPI_LOGICAL4" Logical I32
    Integer4 "MPI_INTEGER4" FortranInteger I32
    Real4 "MPI_REAL4" Floating F32
    Complex4 "MPI_COMPLEX4" Complex C16
    Logical8 "MPI_LOGICAL8" Logical I64
    Integer8 "MPI_INTEGER8" FortranInteger I64
    Real8 "MPI_REAL8" Floating F64
    Complex8 "MPI_COMPLEX8" Complex C32
    Logical16 "MPI_LOGICAL16" Logical I128
    Integer16 "MPI_INTEGER16" FortranInteger I128
    Real16 "MPI_REAL16" Floating F128
    Complex16 "MPI_COMPLEX16" Complex C64
    Complex32 "MPI_COMPLEX32" Complex C128
}

impl Named {
    /// The machine representation, or `None` for the pair types.
    pub const fn scalar(self) -> Option<Scalar> {
        match self.element() {
            Element::One(scalar) => Some(scalar),
            Element::Pair { .. } => None,
        }
    }

    /// The named pair type of a value and an index type, where the standard has one.
    pub fn pair_of(value: Named, index: Named) -> Option<Named> {
        let wanted = Element::Pair { value, index };
        Named::ALL.iter().copied().find(|n| n.element() == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_variant_for_each_handle_of_the_abi() {
        // The ABI's table names 71 datatypes besides aliases; one of them is the null handle.
        assert_eq!(Named::ALL.len(), 70);
        let mut names: Vec<_> = Named::ALL.iter().map(|n| n.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Named::ALL.len());
    }

    #[test]
    fn pairs_are_found_by_their_parts() {
        assert_eq!(
            Named::pair_of(Named::Double, Named::Int),
            Some(Named::DoubleInt)
        );
        assert_eq!(Named::pair_of(Named::Double, Named::Long), None);
    }
}
