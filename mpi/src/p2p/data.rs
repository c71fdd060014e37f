//! The program's buffers: address, count and datatype, and how they become bytes.

use crate::check;
use crate::datatype::{Datatype, Named};
use crate::error::{Error, ErrorClass, Result, counted};
use std::rc::Rc;

/// Most elements of a message that is tried on the fast path, and most bytes of one. Longer
/// messages take far longer than the checks of their arguments.
const MAX_SIMPLE: i64 = 1 << 16;

/// Address and length of contiguous bytes.
pub(crate) type Bytes = (*mut u8, usize);

/// Elements in the program's memory. A receive writes there in spite of the type of the address.
///
/// ```
/// use rejoin_mpi::datatype::{Datatype, Named};
/// use rejoin_mpi::p2p::Data;
///
/// let int = Datatype::named(Named::Int);
/// let mut numbers = [1i32, 2, 3];
/// let data = Data::new(numbers.as_mut_ptr().cast(), 3, &int);
/// assert_eq!(data.bytes()?, 12);
/// # Ok::<(), rejoin_mpi::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    addr: *mut u8,
    count: i64,
    datatype: &'a Rc<Datatype>,
}

/// [`Data`] with a reference of its own to the datatype, for operations that outlive their call.
#[derive(Clone, Debug)]
pub struct Typed {
    addr: *mut u8,
    count: i64,
    datatype: Rc<Datatype>,
}

/// A packed copy of a message, and where a received one goes.
pub(crate) struct Staging {
    bytes: Vec<u8>,
    /// For receives: the elements.
    target: Option<Typed>,
}

impl Staging {
    /// A packed message to send.
    pub fn of_send(bytes: Vec<u8>) -> Self {
        let target = None;
        Self { bytes, target }
    }

    /// The packed message. It stays at its place while the staging lives, wherever that is moved.
    pub fn bytes(&mut self) -> Bytes {
        (self.bytes.as_mut_ptr(), self.bytes.len())
    }

    /// At the end of a receive of `len` bytes: puts them into the program's buffer.
    ///
    /// # Safety
    /// The elements are writable.
    pub unsafe fn finish(&self, len: u64) {
        let Some(target) = &self.target else {
            return;
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let from = self.bytes.as_ptr();
        // SAFETY: the caller vouches for the elements, the stream is as long.
        unsafe { target.data().unpack_from(from, len.min(self.bytes.len())) };
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

impl<'a> Data<'a> {
    /// `count` elements. Displacements of the datatype count from `addr`; null is `MPI_BOTTOM`.
    #[inline(always)]
    pub fn new(addr: *mut u8, count: i64, datatype: &'a Rc<Datatype>) -> Self {
        Self {
            addr,
            count,
            datatype,
        }
    }

    /// Number of elements.
    #[inline(always)]
    pub(crate) fn count(&self) -> i64 {
        self.count
    }

    /// The same number of elements of the datatype, at another address.
    #[inline(always)]
    pub(crate) fn moved(&self, addr: *mut u8) -> Self {
        Self { addr, ..*self }
    }

    /// The datatype.
    #[inline(always)]
    pub(crate) fn datatype(&self) -> &'a Rc<Datatype> {
        self.datatype
    }

    /// Whether both have elements of one datatype, at one address that is not `MPI_BOTTOM`.
    pub fn overlaps(&self, other: &Data<'_>) -> bool {
        let is_filled = self.count > 0 && other.count > 0 && self.datatype.size() > 0;
        let is_same = Rc::ptr_eq(self.datatype, other.datatype) && self.addr == other.addr;
        is_filled && is_same && !self.addr.is_null()
    }

    /// `n` times as many elements from the same address; `None`: more than 64 bits count.
    #[inline(always)]
    pub(crate) fn times(&self, n: usize) -> Option<Self> {
        let count = (n as i64).checked_mul(self.count)?;
        Some(Self { count, ..*self })
    }

    /// Count, datatype and address as far as they can be wrong on their own.
    ///
    /// # Errors
    /// A negative count, a datatype that is not committed, a null address of elements.
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
            let elements = counted(self.count, "element");
            let text = format!("the buffer is null and holds {elements}");
            return Err(Error::new(ErrorClass::Buffer, text));
        }
        Ok(())
    }

    /// Length of the message in bytes.
    ///
    /// # Errors
    /// A length that no message has.
    #[inline]
    pub fn bytes(&self) -> Result<usize> {
        Ok(self.datatype.bytes(self.count)? as usize)
    }

    /// The address so many bytes from the buffer's.
    #[inline(always)]
    pub(crate) fn at(&self, offset: i64) -> *mut u8 {
        let at = self.addr.wrapping_offset(offset as isize);
        match self.addr.is_null() {
            // With MPI_BOTTOM the displacement is an absolute address, from MPI_Get_address.
            true => std::ptr::with_exposed_provenance_mut(at.addr()),
            false => at,
        }
    }

    /// The bytes themselves, if the elements are contiguous.
    #[inline]
    pub(crate) fn contiguous(&self) -> Result<Option<Bytes>> {
        let len = self.bytes()?;
        let offset = self.datatype.contiguous_offset(self.count);
        Ok(offset.map(|offset| (self.at(offset), len)))
    }

    /// The bytes, if the count is valid and the elements are contiguous.
    #[inline(always)]
    pub(crate) fn as_bytes(&self) -> Option<Bytes> {
        let len = self.datatype.size().checked_mul(self.count)?;
        let offset = self.datatype.contiguous_offset(self.count)?;
        Some((self.at(offset), usize::try_from(len).ok()?))
    }

    /// The bytes, if count, type and address are valid and simple and the elements are contiguous.
    #[inline(always)]
    pub(crate) fn valid_contiguous(&self) -> Option<Bytes> {
        let (size, count) = (self.datatype.size(), self.count);
        let valid = (0..=MAX_SIMPLE).contains(&count)
            && (1..=MAX_SIMPLE).contains(&size)
            && self.datatype.is_committed()
            && !self.addr.is_null();
        if !valid {
            return None;
        }
        let offset = self.datatype.contiguous_offset(count)?;
        let addr = self.addr.wrapping_offset(offset as isize);
        Some((addr, (size * count) as usize))
    }

    /// The bytes to send: the elements where they are contiguous, otherwise a packed copy.
    ///
    /// # Safety
    /// The elements are readable.
    pub(super) unsafe fn outgoing(&self) -> Result<(Bytes, Option<Staging>)> {
        if let Some(bytes) = self.contiguous()? {
            return Ok((bytes, None));
        }
        // SAFETY: the caller's.
        let mut staging = Staging::of_send(unsafe { self.pack() }?);
        Ok((staging.bytes(), Some(staging)))
    }

    /// Where a message is received: the elements where they are contiguous, otherwise memory from
    /// which [`Staging::finish`] unpacks it.
    pub(super) fn incoming(&self) -> Result<(Bytes, Option<Staging>)> {
        if let Some(bytes) = self.contiguous()? {
            return Ok((bytes, None));
        }
        let mut staging = Staging {
            bytes: room(self.bytes()?)?,
            target: Some(self.to_typed()),
        };
        Ok((staging.bytes(), Some(staging)))
    }

    /// The same elements, for an operation that outlives this call.
    pub(super) fn to_typed(self) -> Typed {
        Typed {
            addr: self.addr,
            count: self.count,
            datatype: self.datatype.clone(),
        }
    }

    /// A packed copy.
    ///
    /// # Safety
    /// The elements are readable.
    pub(super) unsafe fn pack(&self) -> Result<Vec<u8>> {
        let mut bytes = room(self.bytes()?)?;
        // SAFETY: the caller vouches for the elements; the vector has their packed size.
        unsafe { self.pack_into(bytes.as_mut_ptr(), bytes.len()) };
        Ok(bytes)
    }

    /// Packs into `len` bytes at `to`.
    ///
    /// # Safety
    /// The elements are readable, `to` is valid for writes of `len` bytes.
    pub(crate) unsafe fn pack_into(&self, to: *mut u8, len: usize) {
        // SAFETY: the caller's.
        unsafe { self.datatype.pack(self.count, self.addr, 0, to, len) };
    }

    /// Unpacks `len` bytes at `from`.
    ///
    /// # Safety
    /// The elements are writable, `from` is valid for reads of `len` bytes.
    pub(crate) unsafe fn unpack_from(&self, from: *const u8, len: usize) {
        // SAFETY: the caller's.
        unsafe { self.datatype.unpack(self.count, self.addr, 0, from, len) };
    }
}

impl Typed {
    /// `count` elements at `addr`. A count below zero is refused when the buffer is used.
    ///
    /// # Safety
    /// Until the operation with these elements is complete, they are valid for reads, and for
    /// writes if the operation writes to them. No other code writes to them, or reads them if they
    /// are written.
    pub unsafe fn new(addr: *mut u8, count: i64, datatype: Rc<Datatype>) -> Self {
        Self {
            addr,
            count,
            datatype,
        }
    }

    /// The datatype.
    pub fn datatype(&self) -> &Rc<Datatype> {
        &self.datatype
    }

    /// The buffer, with the datatype borrowed.
    #[inline]
    pub fn data(&self) -> Data<'_> {
        Data::new(self.addr, self.count, &self.datatype)
    }

    /// Bytes of the packed elements.
    pub(crate) fn bytes(&self) -> Result<usize> {
        self.data().bytes()
    }

    /// `n` buffers like this one, each after the other.
    #[inline]
    pub(crate) fn times(&self, n: usize) -> Result<Data<'_>> {
        self.data().times(n).ok_or_else(|| self.too_many(n))
    }

    /// `n` buffers like this one, each after the other.
    ///
    /// # Errors
    /// `Count` when 64 bits do not count all elements.
    pub fn blocks(&self, n: usize) -> Result<Vec<Typed>> {
        let all = self.times(n)?;
        let each = self.count.wrapping_mul(self.datatype.extent());
        let block = |i| Data {
            addr: all.at(each.wrapping_mul(i)),
            count: self.count,
            datatype: &self.datatype,
        };
        Ok((0..n as i64).map(|i| block(i).to_typed()).collect())
    }

    /// No elements.
    pub fn nothing() -> Self {
        Self {
            addr: std::ptr::null_mut(),
            count: 0,
            datatype: Datatype::named(Named::Byte),
        }
    }

    #[cold]
    fn too_many(&self, n: usize) -> Error {
        let text = format!("{n} times {} elements do not fit in 64 bits", self.count);
        Error::new(ErrorClass::Count, text)
    }
}
