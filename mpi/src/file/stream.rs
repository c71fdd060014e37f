//! The elements of the program as the bytes that a view of a file has.

use super::data_representation::DataRepresentation;
use crate::error::Result;
use crate::p2p::data::{Data, Typed, room};

/// Bytes to write: the elements where they are, or a copy in the representation of the file.
pub(super) struct OutgoingBytes {
    address: *const u8,
    len: usize,
    /// Bytes of the elements in memory.
    elements: u64,
    /// Keeps the copy.
    _copy: Option<Vec<u8>>,
}

impl OutgoingBytes {
    /// The bytes of elements that stay valid (`Typed::new`).
    ///
    /// # Errors
    /// `NoMem` without memory for a copy, `Conversion` for values that the representation lacks.
    pub fn new(elements: &Typed, datarep: DataRepresentation) -> Result<Self> {
        let data = elements.data();
        let converts = datarep.converts(data.datatype());
        let elements = data.bytes()? as u64;
        if let Some((address, len)) = data.contiguous()?.filter(|_| !converts) {
            return Ok(Self {
                address,
                len,
                elements,
                _copy: None,
            });
        }
        let mut copy = room(datarep.bytes(data.datatype(), data.count())? as usize)?;
        // SAFETY: the promise made at `Typed::new`; the copy has the size of the packed elements.
        unsafe {
            match converts {
                true => {
                    let datatype = data.datatype();
                    datatype.pack_external(data.count(), data.at(0), &mut copy)?;
                }
                false => data.pack_into(copy.as_mut_ptr(), copy.len()),
            }
        }
        Ok(Self {
            address: copy.as_ptr(),
            len: copy.len(),
            elements,
            _copy: Some(copy),
        })
    }

    /// Bytes of the elements in memory.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// The address of the first byte.
    pub fn address(&self) -> *const u8 {
        self.address
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }
}

/// Room for bytes that are read: the elements where they are, or memory from which they are
/// converted.
pub(super) struct IncomingBytes {
    address: *mut u8,
    len: usize,
    copy: Option<Vec<u8>>,
    elements: Typed,
    converts: bool,
}

impl IncomingBytes {
    /// Room for elements that stay valid (`Typed::new`).
    ///
    /// # Errors
    /// `NoMem` without memory for a copy.
    pub fn new(elements: Typed, datarep: DataRepresentation) -> Result<Self> {
        let data = elements.data();
        let converts = datarep.converts(data.datatype());
        let in_place = data.contiguous()?.filter(|_| !converts);
        let (address, len, copy) = match in_place {
            Some((address, len)) => (address, len, None),
            None => {
                let mut copy = room(datarep.bytes(data.datatype(), data.count())? as usize)?;
                (copy.as_mut_ptr(), copy.len(), Some(copy))
            }
        };
        Ok(Self {
            address,
            len,
            copy,
            elements,
            converts,
        })
    }

    /// The address of the first byte.
    pub fn address(&self) -> *mut u8 {
        self.address
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The first `read` bytes are there: puts them into the elements. Returns how many bytes of the
    /// elements that are. Of a converted number all is there, or nothing is stored.
    pub fn finish(&self, read: usize) -> Result<u64> {
        let Some(copy) = &self.copy else {
            return Ok(read as u64);
        };
        let data: Data<'_> = self.elements.data();
        if !self.converts {
            // SAFETY: the promise made at `Typed::new`.
            unsafe { data.unpack_from(copy.as_ptr(), read) };
            return Ok(read as u64);
        }
        // SAFETY: the promise made at `Typed::new`; the copy has no more elements than the program.
        unsafe {
            data.datatype()
                .unpack_external_head(data.count(), data.at(0), &copy[..read])
        }
    }
}
