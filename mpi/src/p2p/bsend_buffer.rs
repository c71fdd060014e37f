//! Memory for buffered sends (MPI-5.0 §3.6), and the messages that are on their way out of it.

use crate::adi::{Dev, ReqId};
use crate::error::{Error, ErrorClass, Result};
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

/// `MPI_BSEND_OVERHEAD`: bytes that a program adds for each message. This library uses fewer.
pub const OVERHEAD: usize = 512;
/// Messages begin at multiples of this.
const ALIGN: usize = 16;

/// Data that must live while a message is on its way: a reference to any object, and bytes.
pub(super) type PieceShares = (Rc<dyn Any>, Option<Vec<u8>>);

/// Free bytes of a buffer.
pub(super) struct Gap {
    /// From the buffer's start, in bytes.
    offset: usize,
    /// Of the new message in the list.
    place: usize,
}

/// A message on its way out of the buffer.
struct Piece {
    offset: usize,
    len: usize,
    request: ReqId,
    /// Data that must live until the message has left: its communicator, and the bytes if they are
    /// the library's.
    _keep: PieceShares,
}

/// An attached buffer.
pub struct BsendBuffer {
    addr: usize,
    len: usize,
    automatic: bool,
    /// By offset.
    pieces: RefCell<Vec<Piece>>,
}

/// The result of `MPI_Buffer_detach`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detached {
    /// Address and length in bytes.
    Memory(usize, usize),
    /// `MPI_BUFFER_AUTOMATIC`.
    Automatic,
}

/// The attached buffer of a process or a communicator, if there is one.
#[derive(Default)]
pub(crate) struct BufferSlot(RefCell<Option<Rc<BsendBuffer>>>);

impl BufferSlot {
    /// Attaches memory (address and length in bytes), or without it `MPI_BUFFER_AUTOMATIC`.
    pub(super) fn attach(&self, memory: Option<(*mut u8, usize)>) -> Result<()> {
        let mut slot = self.0.borrow_mut();
        if slot.is_some() {
            let text = "a buffer for buffered sends is attached already";
            return Err(Error::new(ErrorClass::Buffer, text));
        }
        if memory.is_some_and(|(addr, len)| addr.is_null() && len > 0) {
            let text = "the buffer to attach is null";
            return Err(Error::new(ErrorClass::Buffer, text));
        }
        let memory = memory.map(|(addr, len)| (addr.expose_provenance(), len));
        *slot = Some(Rc::new(BsendBuffer::new(memory)));
        Ok(())
    }

    /// The attached buffer.
    pub(crate) fn attached(&self) -> Option<Rc<BsendBuffer>> {
        self.0.borrow().clone()
    }

    /// Detaches the buffer.
    pub(crate) fn take(&self) -> Option<Rc<BsendBuffer>> {
        self.0.borrow_mut().take()
    }
}

impl BsendBuffer {
    /// An attached buffer: address and length in bytes, or `None` for `MPI_BUFFER_AUTOMATIC`.
    fn new(memory: Option<(usize, usize)>) -> Self {
        let (addr, len) = memory.unwrap_or_default();
        Self {
            addr,
            len,
            automatic: memory.is_none(),
            pieces: RefCell::default(),
        }
    }

    /// Whether the library has the memory.
    pub(super) fn is_automatic(&self) -> bool {
        self.automatic
    }

    /// The result of a detach.
    pub(super) fn detached(&self) -> Detached {
        match self.automatic {
            true => Detached::Automatic,
            false => Detached::Memory(self.addr, self.len),
        }
    }

    /// Forgets messages that have left; true if nothing is left.
    pub(super) fn reap(&self, dev: &mut Dev) -> bool {
        let mut pieces = self.pieces.borrow_mut();
        pieces.retain(|p| dev.poll(p.request).is_none());
        pieces.is_empty()
    }

    /// Room for `len` bytes.
    pub(super) fn gap(&self, len: usize) -> Option<Gap> {
        let align = |at: usize| at + self.addr.wrapping_add(at).wrapping_neg() % ALIGN;
        let pieces = self.pieces.borrow();
        let mut at = align(0);
        for (i, p) in pieces.iter().enumerate() {
            if p.offset.checked_sub(at).is_some_and(|free| free >= len) {
                return Some(Gap {
                    offset: at,
                    place: i,
                });
            }
            at = align(p.offset + p.len).max(at);
        }
        (at.checked_add(len)? <= self.len).then_some(Gap {
            offset: at,
            place: pieces.len(),
        })
    }

    /// Where the next message of an automatic buffer is listed.
    pub(super) fn end(&self) -> Gap {
        Gap {
            offset: 0,
            place: self.pieces.borrow().len(),
        }
    }

    /// The address of a gap.
    pub(super) fn address(&self, gap: &Gap) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.addr + gap.offset)
    }

    /// Lists a message of `len` bytes that is on its way out of a gap.
    pub(super) fn insert(&self, gap: Gap, len: usize, request: ReqId, keep: PieceShares) {
        let piece = Piece {
            offset: gap.offset,
            len,
            request,
            _keep: keep,
        };
        self.pieces.borrow_mut().insert(gap.place, piece);
    }

    /// The error that there is no room for `len` bytes.
    pub(super) fn no_room(&self, len: usize) -> Error {
        let used: usize = self.pieces.borrow().iter().map(|p| p.len).sum();
        let text = format!(
            "no room for {len} bytes in the attached buffer of {} bytes, of which {used} are in use",
            self.len
        );
        Error::new(ErrorClass::Buffer, text)
    }
}
