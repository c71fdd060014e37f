//! The program's buffers: address, count and datatype, and how they become bytes.

use crate::check;
use crate::datatype::Datatype;
use crate::error::{Error, ErrorClass, Result};
use std::rc::Rc;

/// Elements in the program's memory. A receive writes there in spite of the type of the address.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// Address that displacements of the datatype count from; null is `MPI_BOTTOM`.
    pub addr: *mut u8,
    /// Number of elements.
    pub count: i64,
    /// Datatype of the elements.
    pub datatype: &'a Rc<Datatype>,
}

/// A packed copy of a message, and where a received one goes.
pub(crate) struct Staging {
    pub bytes: Vec<u8>,
    /// For receives: address, count and type of the elements.
    pub target: Option<(usize, i64, Rc<Datatype>)>,
}

impl Staging {
    /// At the end of a receive of `len` bytes: puts them into the program's buffer.
    ///
    /// # Safety
    /// The elements are writable.
    pub unsafe fn finish(&self, len: u64) -> Result<()> {
        let Some((addr, count, datatype)) = &self.target else {
            return Ok(());
        };
        let len = self
            .bytes
            .len()
            .min(usize::try_from(len).unwrap_or(usize::MAX));
        let addr = std::ptr::with_exposed_provenance_mut(*addr);
        // SAFETY: the caller vouches for the elements, the stream is `len` bytes long.
        unsafe { datatype.unpack(*count, addr, 0, self.bytes.as_ptr(), len) };
        Ok(())
    }
}

/// `len` zeroed bytes, or an error of class `NoMem`.
pub(crate) fn room(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| {
        let text = format!("no memory for a packed message of {len} bytes");
        Error::new(ErrorClass::NoMem, text)
    })?;
    bytes.resize(len, 0);
    Ok(bytes)
}

impl Data<'_> {
    /// Count, datatype and address as far as they can be wrong on their own.
    #[inline]
    pub fn check(&self) -> Result<()> {
        check::count(self.count)?;
        self.datatype.check_committed()?;
        if self.addr.is_null() && self.count > 0 {
            return self.check_bottom();
        }
        Ok(())
    }

    /// `MPI_BOTTOM` is right only with absolute displacements, so never for predefined types.
    #[cold]
    fn check_bottom(&self) -> Result<()> {
        if self.datatype.is_predefined() && self.datatype.size() > 0 {
            let text = format!("the buffer is null and holds {} elements", self.count);
            return Err(Error::new(ErrorClass::Buffer, text));
        }
        Ok(())
    }

    /// Bytes of the message.
    #[inline]
    pub fn bytes(&self) -> Result<usize> {
        Ok(self.datatype.bytes(self.count)? as usize)
    }

    /// The bytes themselves, if the elements are contiguous.
    #[inline]
    pub fn contiguous(&self) -> Result<Option<(*mut u8, usize)>> {
        let len = self.bytes()?;
        Ok(self
            .datatype
            .contiguous_offset(self.count)
            .map(|off| (self.addr.wrapping_offset(off as isize), len)))
    }

    /// A packed copy.
    ///
    /// # Safety
    /// The elements are readable.
    pub unsafe fn pack(&self) -> Result<Vec<u8>> {
        let mut bytes = room(self.bytes()?)?;
        // SAFETY: the caller vouches for the elements; the vector has their packed size.
        unsafe { self.pack_into(bytes.as_mut_ptr(), bytes.len()) };
        Ok(bytes)
    }

    /// Packs into `len` bytes at `to`.
    ///
    /// # Safety
    /// The elements are readable, `to` is valid for writes of `len` bytes.
    pub unsafe fn pack_into(&self, to: *mut u8, len: usize) {
        // SAFETY: the caller's.
        unsafe { self.datatype.pack(self.count, self.addr, 0, to, len) };
    }

    /// A temporary for a receive that is unpacked at its end.
    pub(crate) fn staging(&self) -> Result<Box<Staging>> {
        Ok(Box::new(Staging {
            bytes: room(self.bytes()?)?,
            target: Some((
                self.addr.expose_provenance(),
                self.count,
                self.datatype.clone(),
            )),
        }))
    }
}
