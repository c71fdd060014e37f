//! Handles, which the program holds instead of objects.
//!
//! Predefined handles are the ABI's small constants. All others are made here: kind, generation and
//! slot in one pointer-sized number, far above the constants. A freed or invented handle is
//! recognised by comparing numbers; nothing is ever followed.

use std::cell::RefCell;
use std::ffi::c_int;
use std::marker::PhantomData;

use rejoin_mpi::{Error, ErrorClass, Result};

use crate::constants::HANDLE_NAMES;
use crate::types::*;

/// The kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum HandleKind {
    /// Communicator.
    Comm = 1,
    /// Group.
    Group,
    /// Datatype.
    Datatype,
    /// Reduction operation.
    Op,
    /// Request.
    Request,
    /// Matched message.
    Message,
    /// Window.
    Win,
    /// File.
    File,
    /// Session.
    Session,
    /// Info.
    Info,
    /// Error handler.
    Errhandler,
}

/// One of the ABI's handle types.
pub trait Handle: Copy + Eq {
    /// The kind of object behind it.
    const KIND: HandleKind;
    /// Name of the object in messages, with its article.
    const NOUN: &'static str;
    /// The null handle; predefined handles follow it.
    const NULL: Self;
    /// How many values from the null handle on are reserved for predefined handles.
    const PREDEFINED: usize;
    /// The error class of an invalid handle.
    const CLASS: ErrorClass;
    /// The handle's value.
    fn raw(self) -> usize;
    /// A handle of this value.
    fn from_raw(raw: usize) -> Self;
}

macro_rules! handle {
    ($type:ident, $kind:ident, $noun:literal, $null:literal, $predefined:literal, $class:ident) => {
        impl Handle for $type {
            const KIND: HandleKind = HandleKind::$kind;
            const NOUN: &'static str = $noun;
            const NULL: Self = Self($null);
            const PREDEFINED: usize = $predefined;
            const CLASS: ErrorClass = ErrorClass::$class;
            #[inline(always)]
            fn raw(self) -> usize {
                self.0
            }
            #[inline(always)]
            fn from_raw(raw: usize) -> Self {
                Self(raw)
            }
        }
    };
}

handle!(MPI_Op, Op, "an operation", 0x20, 32, Op);
handle!(MPI_Comm, Comm, "a communicator", 0x100, 8, Comm);
handle!(MPI_Group, Group, "a group", 0x108, 8, Group);
handle!(MPI_Win, Win, "a window", 0x110, 8, Win);
handle!(MPI_File, File, "a file", 0x118, 8, File);
handle!(MPI_Session, Session, "a session", 0x120, 8, Session);
handle!(MPI_Message, Message, "a message", 0x128, 8, Request);
handle!(MPI_Info, Info, "an info object", 0x130, 8, Info);
handle!(
    MPI_Errhandler,
    Errhandler,
    "an error handler",
    0x140,
    8,
    Errhandler
);
handle!(MPI_Request, Request, "a request", 0x180, 8, Request);
handle!(MPI_Datatype, Datatype, "a datatype", 0x200, 512, Type);

/// Bit where the kind begins; the generation lies below it, the slot below that.
const KIND_SHIFT: u32 = 56;
/// Marks the top byte, so that user-space addresses never look like handles.
const MARK: usize = 0x40;
/// Bit where the generation begins.
const GENERATION_SHIFT: u32 = 32;
/// Generations wrap at 24 bits; 0 is never used.
const GENERATION_MASK: u32 = 0x00ff_ffff;
/// Integers for Fortran (`MPI_Comm_toint`): this bit, eight bits of generation, 22 of slot.
const INT_MARK: u32 = 1 << 30;
const INT_SLOT_BITS: u32 = 22;

const fn encode(kind: HandleKind, generation: u32, slot: u32) -> usize {
    (MARK | kind as usize) << KIND_SHIFT | (generation as usize) << GENERATION_SHIFT | slot as usize
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
    next_free: Option<u32>,
}

struct Slots<T> {
    list: Vec<Slot<T>>,
    free: Option<u32>,
    live: usize,
}

/// The objects of one kind, by handle.
pub struct HandleTable<H, T> {
    slots: RefCell<Slots<T>>,
    predefined: RefCell<Vec<Option<T>>>,
    handle: PhantomData<H>,
}

impl<H: Handle, T> HandleTable<H, T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self {
            slots: RefCell::new(Slots {
                list: Vec::new(),
                free: None,
                live: 0,
            }),
            predefined: RefCell::new(Vec::new()),
            handle: PhantomData,
        }
    }

    /// Sets the object of a predefined handle such as `MPI_COMM_WORLD`. A handle outside the
    /// reserved range is ignored.
    pub fn define(&self, handle: H, value: T) {
        let index = handle.raw().wrapping_sub(H::NULL.raw());
        if index >= H::PREDEFINED {
            return;
        }
        let mut list = self.predefined.borrow_mut();
        if list.len() <= index {
            list.resize_with(index + 1, || None);
        }
        list[index] = Some(value);
    }

    /// Stores an object; gives its new handle. Allocates only when the table grows.
    pub fn insert(&self, value: T) -> H {
        let mut slots = self.slots.borrow_mut();
        slots.live += 1;
        if let Some(index) = slots.free {
            let slot = &mut slots.list[index as usize];
            let next = slot.next_free.take();
            slot.value = Some(value);
            let raw = encode(H::KIND, slot.generation, index);
            slots.free = next;
            return H::from_raw(raw);
        }
        let index = u32::try_from(slots.list.len()).unwrap_or_else(|_| {
            // Each slot takes memory: no machine gets here.
            std::process::abort()
        });
        slots.list.push(Slot {
            generation: 1,
            value: Some(value),
            next_free: None,
        });
        H::from_raw(encode(H::KIND, 1, index))
    }

    /// Looks at the object of a handle. Nothing that `look` does may change this table.
    #[inline]
    pub fn with<R>(&self, handle: H, look: impl FnOnce(&T) -> R) -> Result<R> {
        let index = handle.raw().wrapping_sub(H::NULL.raw());
        if index < H::PREDEFINED {
            let list = self.predefined.borrow();
            if let Some(Some(value)) = list.get(index) {
                return Ok(look(value));
            }
            return Err(invalid(handle));
        }
        let slots = self.slots.borrow();
        match slots.find::<H>(handle) {
            Some(index) => match &slots.list[index].value {
                Some(value) => Ok(look(value)),
                None => Err(invalid(handle)),
            },
            None => Err(invalid(handle)),
        }
    }

    /// The object of a handle, where it is; `None` for an invalid handle.
    ///
    /// # Safety
    /// This table is not changed while the reference is used.
    #[inline(always)]
    pub unsafe fn glance(&self, handle: H) -> Option<&T> {
        let index = handle.raw().wrapping_sub(H::NULL.raw());
        if index < H::PREDEFINED {
            // SAFETY: the caller's promise.
            let list = unsafe { self.predefined.try_borrow_unguarded() }.ok()?;
            return list.get(index)?.as_ref();
        }
        // SAFETY: as above.
        let slots = unsafe { self.slots.try_borrow_unguarded() }.ok()?;
        let index = slots.find::<H>(handle)?;
        slots.list.get(index)?.value.as_ref()
    }

    /// A copy of the object (usually an `Rc`).
    #[inline]
    pub fn get(&self, handle: H) -> Result<T>
    where
        T: Clone,
    {
        match self.peek(handle) {
            Some(value) => Ok(value),
            None => Err(invalid(handle)),
        }
    }

    /// A clone of the object, without an error to build: an `Rc` comes back in a register.
    #[inline]
    pub fn peek(&self, handle: H) -> Option<T>
    where
        T: Clone,
    {
        let index = handle.raw().wrapping_sub(H::NULL.raw());
        if index < H::PREDEFINED {
            return self.predefined.borrow().get(index)?.clone();
        }
        let slots = self.slots.borrow();
        let index = slots.find::<H>(handle)?;
        slots.list[index].value.clone()
    }

    /// Whether the handle stands for an object.
    pub fn contains(&self, handle: H) -> bool {
        self.with(handle, |_| ()).is_ok()
    }

    /// Takes the object out; its handle is invalid from now on. Predefined handles cannot be
    /// removed.
    pub fn remove(&self, handle: H) -> Result<T> {
        let mut slots = self.slots.borrow_mut();
        let Some(index) = slots.find::<H>(handle) else {
            return Err(invalid(handle));
        };
        let free = slots.free;
        let slot = &mut slots.list[index];
        let Some(value) = slot.value.take() else {
            return Err(invalid(handle));
        };
        slot.generation = (slot.generation & GENERATION_MASK) % GENERATION_MASK + 1;
        slot.next_free = free;
        slots.free = Some(index as u32);
        slots.live -= 1;
        Ok(value)
    }

    /// The first handle, predefined ones first, whose object is the wanted one.
    pub fn find(&self, is_wanted: impl Fn(&T) -> bool) -> Option<H> {
        for (index, value) in self.predefined.borrow().iter().enumerate() {
            if value.as_ref().is_some_and(&is_wanted) {
                return Some(H::from_raw(H::NULL.raw() + index));
            }
        }
        let slots = self.slots.borrow();
        let at = slots
            .list
            .iter()
            .position(|s| s.value.as_ref().is_some_and(&is_wanted))?;
        let generation = slots.list[at].generation;
        Some(H::from_raw(encode(H::KIND, generation, at as u32)))
    }

    /// How many objects the program has made and not freed.
    pub fn len(&self) -> usize {
        self.slots.borrow().live
    }

    /// Whether the program holds no object of its own.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Empties the table, at `MPI_Finalize`; the objects come back so that they drop with nothing
    /// borrowed.
    pub fn clear(&self) -> Vec<T> {
        let mut all: Vec<T> = self.predefined.take().into_iter().flatten().collect();
        let mut slots = self.slots.borrow_mut();
        for index in 0..slots.list.len() {
            let free = slots.free;
            let slot = &mut slots.list[index];
            let Some(value) = slot.value.take() else {
                continue;
            };
            slot.generation = (slot.generation & GENERATION_MASK) % GENERATION_MASK + 1;
            slot.next_free = free;
            slots.free = Some(index as u32);
            all.push(value);
        }
        slots.live = 0;
        all
    }

    /// The integer for Fortran (MPI-5.0 §19.3.4); 0 for an invalid handle.
    pub fn to_int(&self, handle: H) -> c_int {
        let index = handle.raw().wrapping_sub(H::NULL.raw());
        if index < H::PREDEFINED {
            return handle.raw() as c_int;
        }
        match self.slots.borrow().find::<H>(handle) {
            Some(slot) if slot < 1 << INT_SLOT_BITS => {
                let generation = (handle.raw() >> GENERATION_SHIFT) as u32 & 0xff;
                (INT_MARK | generation << INT_SLOT_BITS | slot as u32) as c_int
            }
            _ => 0,
        }
    }

    /// The handle of an integer from [`HandleTable::to_int`]; the null handle when it is none.
    pub fn from_int(&self, value: c_int) -> H {
        let Ok(value) = u32::try_from(value) else {
            return H::NULL;
        };
        if (value as usize).wrapping_sub(H::NULL.raw()) < H::PREDEFINED {
            return H::from_raw(value as usize);
        }
        let slot = value & ((1 << INT_SLOT_BITS) - 1);
        let slots = self.slots.borrow();
        match slots.list.get(slot as usize) {
            Some(s)
                if s.value.is_some()
                    && value == (INT_MARK | (s.generation & 0xff) << INT_SLOT_BITS | slot) =>
            {
                H::from_raw(encode(H::KIND, s.generation, slot))
            }
            _ => H::NULL,
        }
    }
}

impl<H: Handle, T> Default for HandleTable<H, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slots<T> {
    /// The slot of a handle whose kind and generation are right.
    #[inline]
    fn find<H: Handle>(&self, handle: H) -> Option<usize> {
        let raw = handle.raw();
        let index = raw & u32::MAX as usize;
        let slot = self.list.get(index)?;
        let current = encode(H::KIND, slot.generation, index as u32) == raw;
        (current && slot.value.is_some()).then_some(index)
    }
}

/// The error of a handle that stands for nothing.
#[cold]
#[inline(never)]
pub fn invalid<H: Handle>(handle: H) -> Error {
    let raw = handle.raw();
    if handle == H::NULL {
        return Error::new(
            H::CLASS,
            format!(
                "{} where {} is needed",
                name(raw).unwrap_or("null"),
                H::NOUN
            ),
        );
    }
    let why = match name(raw) {
        Some(known) => format!("{known} cannot be used as {} here", H::NOUN),
        None if raw >> KIND_SHIFT == MARK | H::KIND as usize => {
            format!("{raw:#x} is {} that was freed or never existed", H::NOUN)
        }
        None => format!("{raw:#x} is not {}", H::NOUN),
    };
    Error::new(H::CLASS, why)
}

/// The name of a predefined handle.
pub fn name(raw: usize) -> Option<&'static str> {
    let at = HANDLE_NAMES.binary_search_by_key(&raw, |n| n.0).ok()?;
    Some(HANDLE_NAMES[at].1)
}

#[cfg(test)]
mod tests;
