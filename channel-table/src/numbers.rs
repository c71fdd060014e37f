//! Reading and writing of numbers: little endian, or LEB128 where most numbers are small.

/// Reads fields from bytes of which nothing is trusted.
pub(crate) struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        FieldReader { rest: bytes }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// An unsigned LEB128 number of 64 bits; only its shortest form is taken.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array::<1>()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return (byte != 0 || shift == 0).then_some(value);
            }
        }
        None
    }
}

/// Appends an unsigned LEB128 number.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut reader = FieldReader::new(&bytes);
            prop_assert_eq!(reader.varint(), Some(value));
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn numbers_that_are_too_long_or_too_large_are_refused() {
        assert_eq!(FieldReader::new(&[0x80, 0]).varint(), None);
        assert_eq!(FieldReader::new(&[0xff; 11]).varint(), None);
        let mut large = [0xff; 10];
        large[9] = 2;
        assert_eq!(FieldReader::new(&large).varint(), None);
        assert_eq!(FieldReader::new(&[0x80]).varint(), None);
        assert_eq!(FieldReader::new(&[1, 2, 3]).u32(), None);
    }
}
