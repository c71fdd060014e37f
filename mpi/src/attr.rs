//! Attributes and keyvals (MPI-5.0 §7.7): values that a program caches on communicators,
//! datatypes and windows, with callbacks for copying and deleting.

use crate::error::{Error, ErrorClass, Result};
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// The kind of object that a keyval belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Communicators.
    Comm,
    /// Datatypes.
    Type,
    /// Windows.
    Win,
}

/// The callbacks of a keyval. `object` is the upper layer's handle of the object; an error is the
/// code that the callback returned.
pub trait Callbacks {
    /// Duplication of `object`: the copy's value, or `None` to leave the attribute out.
    fn copy(&self, object: usize, keyval: i32, value: usize) -> Result<Option<usize>, i32>;
    /// Deletion, overwriting, or the end of `object`.
    fn delete(&self, object: usize, keyval: i32, value: usize) -> Result<(), i32>;
}

/// A keyval: alive while in the table or while an attribute uses it.
pub struct Keyval {
    id: i32,
    kind: ObjectKind,
    callbacks: Box<dyn Callbacks>,
}

impl std::fmt::Debug for Keyval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyval({})", self.id)
    }
}

/// First id given to a user's keyval: above the ABI's predefined ones.
const FIRST: i32 = 1024;

/// A keyval in the table.
#[derive(Debug)]
enum Entry {
    Usable(Rc<Keyval>),
    /// The program freed it; attributes may still use it.
    Freed(Weak<Keyval>),
}

/// All keyvals of the process.
#[derive(Debug, Default)]
pub struct Keyvals {
    table: RefCell<Vec<Entry>>,
}

/// Where the keyval `id` is in the table.
fn index(id: i32) -> Option<usize> {
    usize::try_from(id.checked_sub(FIRST)?).ok()
}

fn unknown(id: i32) -> Error {
    Error::new(
        ErrorClass::Keyval,
        format!("there is no keyval {id} for this kind of object"),
    )
}

impl Keyvals {
    /// `MPI_Comm_create_keyval` and its like: the new id. Ids are not used again, so that a stale
    /// one is an error.
    pub fn create(&self, kind: ObjectKind, callbacks: Box<dyn Callbacks>) -> i32 {
        let mut table = self.table.borrow_mut();
        let id = FIRST + table.len() as i32;
        table.push(Entry::Usable(Rc::new(Keyval {
            id,
            kind,
            callbacks,
        })));
        id
    }

    /// The keyval `id` of objects of `kind`, for a new attribute.
    pub fn get(&self, kind: ObjectKind, id: i32) -> Result<Rc<Keyval>> {
        let table = self.table.borrow();
        match index(id).and_then(|at| table.get(at)) {
            Some(Entry::Usable(k)) if k.kind == kind => Ok(k.clone()),
            _ => Err(unknown(id)),
        }
    }

    /// The keyval `id` of an attribute that is there: a freed keyval lives as long as an attribute
    /// uses it (MPI-5.0 §7.7.2, `MPI_Comm_free_keyval`).
    pub fn find(&self, kind: ObjectKind, id: i32) -> Result<Rc<Keyval>> {
        let table = self.table.borrow();
        let found = match index(id).and_then(|at| table.get(at)) {
            Some(Entry::Usable(k)) => Some(k.clone()),
            Some(Entry::Freed(k)) => k.upgrade(),
            None => None,
        };
        found.filter(|k| k.kind == kind).ok_or_else(|| unknown(id))
    }

    /// `MPI_Comm_free_keyval`: no new attributes from now on, the callbacks go with the last one.
    /// Freeing a copy of the id while attributes use it changes nothing.
    pub fn free(&self, kind: ObjectKind, id: i32) -> Result<()> {
        let keyval = self.find(kind, id)?;
        let weak = Entry::Freed(Rc::downgrade(&keyval));
        let mut table = self.table.borrow_mut();
        if let Some(entry) = index(id).and_then(|at| table.get_mut(at)) {
            *entry = weak;
        }
        Ok(())
    }
}

/// The attributes of one object, in the order in which they were set.
#[derive(Debug, Default)]
pub struct Attributes {
    list: RefCell<Vec<(Rc<Keyval>, usize)>>,
}

impl Attributes {
    fn position(&self, id: i32) -> Option<usize> {
        self.list.borrow().iter().position(|(k, _)| k.id == id)
    }

    /// The value under `id`.
    pub fn get(&self, id: i32) -> Option<usize> {
        let list = self.list.borrow();
        list.iter().find(|(k, _)| k.id == id).map(|a| a.1)
    }

    /// Sets a value; an old one is deleted first, and stays if its callback fails.
    pub fn set(&self, object: usize, keyval: &Rc<Keyval>, value: usize) -> Result<()> {
        if let Some(old) = self.get(keyval.id) {
            call_delete(keyval, object, old)?;
        }
        // The callback may have changed the list.
        match self.position(keyval.id) {
            Some(i) => self.list.borrow_mut()[i].1 = value,
            None => self.list.borrow_mut().push((keyval.clone(), value)),
        }
        Ok(())
    }

    /// Deletes the value under `keyval`; it stays if the callback fails.
    pub fn delete(&self, object: usize, keyval: &Rc<Keyval>) -> Result<()> {
        let Some(old) = self.get(keyval.id) else {
            let text = format!("the object has no attribute under keyval {}", keyval.id);
            return Err(Error::new(ErrorClass::Keyval, text));
        };
        call_delete(keyval, object, old)?;
        if let Some(i) = self.position(keyval.id) {
            self.list.borrow_mut().remove(i);
        }
        Ok(())
    }

    /// Runs the copy callbacks for a duplicate of `object`. After a failure the attributes copied
    /// so far are dropped with the new object, and the error has the callback's code.
    pub fn copy_to(&self, object: usize, to: &Attributes) -> Result<()> {
        let all: Vec<_> = self.list.borrow().clone();
        for (keyval, value) in all {
            let copied = keyval.callbacks.copy(object, keyval.id, value);
            match copied {
                Ok(Some(v)) => to.list.borrow_mut().push((keyval, v)),
                Ok(None) => {}
                Err(code) => return Err(Error::user(code, "an attribute's copy callback failed")),
            }
        }
        Ok(())
    }

    /// Runs the delete callbacks at the end of `object`, last set first. A failing one keeps its
    /// attribute and those set before it, and its code comes back.
    pub fn delete_all(&self, object: usize) -> Result<()> {
        loop {
            let Some((keyval, value)) = self.list.borrow().last().cloned() else {
                return Ok(());
            };
            call_delete(&keyval, object, value)?;
            if let Some(i) = self.position(keyval.id) {
                self.list.borrow_mut().remove(i);
            }
        }
    }

    /// Takes over what [`Attributes::copy_to`] made before this object was there.
    pub(crate) fn adopt(&self, copies: Attributes) {
        self.list.borrow_mut().append(&mut copies.list.into_inner());
    }

    /// True without any attribute.
    pub fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }
}

fn call_delete(keyval: &Keyval, object: usize, value: usize) -> Result<()> {
    keyval
        .callbacks
        .delete(object, keyval.id, value)
        .map_err(|code| Error::user(code, "an attribute's delete callback failed"))
}

#[cfg(test)]
mod tests;
