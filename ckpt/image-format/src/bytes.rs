//! Fixed-width fields, little-endian.

/// Puts fields one after another. Bytes that do not fit are left out; the lengths of records are
/// constants, which the tests check.
pub(crate) struct RecordWriter<'a> {
    rest: &'a mut [u8],
}

impl<'a> RecordWriter<'a> {
    pub(crate) fn new(rest: &'a mut [u8]) -> Self {
        Self { rest }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let rest = core::mem::take(&mut self.rest);
        let (head, rest) = rest.split_at_mut(bytes.len().min(rest.len()));
        head.copy_from_slice(&bytes[..head.len()]);
        self.rest = rest;
    }

    pub(crate) fn word(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn long(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }
}

/// Takes fields one after another. Past the end there are zeros.
pub(crate) struct RecordReader<'a> {
    rest: &'a [u8],
}

impl<'a> RecordReader<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let (head, rest) = self.rest.split_at(N.min(self.rest.len()));
        bytes[..head.len()].copy_from_slice(head);
        self.rest = rest;
        bytes
    }

    pub(crate) fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(crate) fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
