//! The table of datatypes.

use std::cell::RefCell;
use std::ffi::c_int;
use std::rc::Rc;

use rejoin_mpi::Result;
use rejoin_mpi::datatype::{Datatype, Named};

use crate::constants::*;
use crate::handles::{Handle, HandleTable, invalid};
use crate::types::*;

/// The datatypes that the program has handles of.
#[derive(Default)]
pub struct Datatypes {
    /// All of them, by handle.
    pub handles: HandleTable<MPI_Datatype, Rc<Datatype>>,
    /// Predefined ones without a constant: the same arguments give the same handle.
    unnamed: RefCell<Vec<(Rc<Datatype>, MPI_Datatype)>>,
}

impl Datatypes {
    /// Empty, before `MPI_Init`.
    pub const fn new() -> Self {
        Self {
            handles: HandleTable::new(),
            unnamed: RefCell::new(Vec::new()),
        }
    }

    /// Makes the predefined datatypes; `MPI_Init` calls this.
    pub fn define_predefined(&self) {
        for named in Named::ALL {
            if let Some(handle) = handle_of_named(*named) {
                self.handles.define(handle, Datatype::named(*named));
            }
        }
    }

    /// Drops everything; `MPI_Finalize` calls this. Attributes are deleted before.
    pub fn clear(&self) {
        self.unnamed.take();
        drop(self.handles.clear());
    }

    /// The datatype of a handle.
    ///
    /// # Errors
    /// `Type` for null and invalid handles.
    #[inline]
    pub fn get(&self, handle: MPI_Datatype) -> Result<Rc<Datatype>> {
        self.handles.get(handle)
    }

    /// The datatype of a transfer with a peer. Nothing is transferred with `MPI_PROC_NULL`, so the
    /// null handle does there.
    ///
    /// # Errors
    /// `Type` for null and invalid handles.
    #[inline]
    pub fn for_peer(&self, handle: MPI_Datatype, peer: c_int) -> Result<Rc<Datatype>> {
        if handle == MPI_DATATYPE_NULL && peer == MPI_PROC_NULL {
            return self.handles.get(MPI_BYTE);
        }
        self.handles.get(handle)
    }

    /// The datatype of a handle, where it is; `None` for null and invalid handles.
    ///
    /// # Safety
    /// No datatype is made or freed while the reference is used.
    #[inline(always)]
    pub unsafe fn glance(&self, handle: MPI_Datatype) -> Option<&Rc<Datatype>> {
        // SAFETY: the caller's promise.
        unsafe { self.handles.glance(handle) }
    }

    /// The datatype of a handle, for communication.
    ///
    /// # Errors
    /// `Type` for null and invalid handles, and for types that were not committed.
    #[inline(always)]
    pub fn committed(&self, handle: MPI_Datatype) -> Result<Rc<Datatype>> {
        match self.handles.peek(handle) {
            Some(datatype) => datatype.check_committed().map(|()| datatype),
            None => Err(invalid(handle)),
        }
    }

    /// The one handle of a predefined type; `None` for derived ones.
    fn predefined_handle(&self, datatype: &Rc<Datatype>) -> Option<MPI_Datatype> {
        if let Some(named) = datatype.as_named() {
            return handle_of_named(named);
        }
        let same = |other: &Rc<Datatype>| {
            let (a, b) = (datatype.contents(), other.contents());
            datatype.combiner() == other.combiner()
                && a.integers == b.integers
                && a.datatypes.len() == b.datatypes.len()
                && a.datatypes
                    .iter()
                    .zip(&b.datatypes)
                    .all(|(x, y)| x.as_named() == y.as_named())
        };
        let unnamed = self.unnamed.borrow();
        unnamed.iter().find(|(d, _)| same(d)).map(|(_, h)| *h)
    }

    /// The handle of a predefined type that may have no constant.
    pub fn share(&self, datatype: Rc<Datatype>) -> MPI_Datatype {
        if let Some(handle) = self.predefined_handle(&datatype) {
            return handle;
        }
        let handle = self.handles.insert(datatype.clone());
        self.unnamed.borrow_mut().push((datatype, handle));
        handle
    }

    /// A handle that the program may free: a new one unless the type is predefined.
    pub fn new_handle(&self, datatype: &Rc<Datatype>) -> MPI_Datatype {
        if datatype.is_predefined() {
            return self.share(datatype.clone());
        }
        self.handles.insert(datatype.clone())
    }

    /// A handle for a part of another type: an equivalent object, so that freeing it leaves the
    /// attributes of the one that was given alone.
    pub fn part_handle(&self, datatype: &Rc<Datatype>) -> MPI_Datatype {
        if datatype.is_predefined() {
            return self.share(datatype.clone());
        }
        self.handles.insert(datatype.equivalent())
    }

    /// Runs `call` with a handle of the type, for functions of the program. If the program has
    /// freed all handles of the type, `call` gets a temporary one.
    pub fn with_handle<R>(
        &self,
        datatype: &Rc<Datatype>,
        call: impl FnOnce(MPI_Datatype) -> R,
    ) -> R {
        let known = match self.predefined_handle(datatype) {
            Some(handle) => Some(handle),
            None => self.handles.find(|d| Rc::ptr_eq(d, datatype)),
        };
        if let Some(handle) = known {
            return call(handle);
        }
        let handle = self.handles.insert(datatype.clone());
        let result = call(handle);
        // The program has no business freeing it, but may have done so.
        let _ = self.handles.remove(handle);
        result
    }
}

/// The ABI's handle of a predefined type.
fn handle_of_named(named: Named) -> Option<MPI_Datatype> {
    let first = MPI_DATATYPE_NULL.raw();
    let range = first..first + MPI_Datatype::PREDEFINED;
    HANDLE_NAMES
        .iter()
        .find(|(raw, name)| range.contains(raw) && *name == named.name())
        .map(|(raw, _)| MPI_Datatype::from_raw(*raw))
}
