//! Datatypes and the pack engine (MPI-5.0 chapter 5).
//!
//! A [`Datatype`] keeps its constructor's arguments (for `MPI_TYPE_GET_CONTENTS`), its bounds, the
//! sequence of its basic types and an optimised layout. All sizes and displacements are 64-bit;
//! constructors refuse larger ones. This module has no C handles.

mod array;
mod body;
mod combiner;
mod construct;
mod contents;
mod external;
mod fortran;
mod layout;
mod movers;
mod named;
mod pack;
mod scalar;
mod signature;
#[cfg(test)]
mod tests;
mod walk;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub use array::{Distribution, StorageOrder};
pub use combiner::{Combiner, Form};
pub use external::EXTERNAL32;
pub use fortran::TypeClass;
pub use named::{Class, Element, Named};
pub use pack::transfer;
pub use scalar::Scalar;

use crate::attr::Attributes;
use crate::error::{Error, ErrorClass, Result};
use body::TypeBody;
use layout::LayoutShape;

/// The arguments a datatype was made with, in the order `MPI_TYPE_GET_CONTENTS` gives them.
///
/// The lengths of the four lists are the envelope.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// `array_of_integers`.
    pub integers: Vec<i32>,
    /// `array_of_addresses`.
    pub addresses: Vec<i64>,
    /// `array_of_large_counts`.
    pub large_counts: Vec<i64>,
    /// `array_of_datatypes`.
    pub datatypes: Vec<Rc<Datatype>>,
}

/// A datatype, shared as `Rc<Datatype>`. It lives as long as something uses it, so
/// `MPI_TYPE_FREE` only drops the handle (MPI-5.0 §5.1.9).
///
/// ```
/// use rejoin_mpi::datatype::{Datatype, Form, Named};
///
/// // Two of each four ints, three times.
/// let int = Datatype::named(Named::Int);
/// let columns = Datatype::vector(Form::Int, 3, 2, 4, &int)?;
/// columns.commit();
/// assert_eq!((columns.size(), columns.extent()), (24, 40));
/// # Ok::<(), rejoin_mpi::Error>(())
/// ```
#[derive(Debug)]
pub struct Datatype {
    body: TypeBody,
    /// Lower bound and extent of the body, asked for in every transfer.
    bounds: (i64, i64),
    /// The element type for predefined reductions, if they apply.
    reduction: Option<(Class, Element)>,
    combiner: Combiner,
    contents: Contents,
    committed: Cell<bool>,
    name: RefCell<String>,
    attributes: Attributes,
}

impl Datatype {
    fn new(body: TypeBody, combiner: Combiner, contents: Contents) -> Self {
        let name = match combiner {
            Combiner::Named(named) => named.name().to_owned(),
            _ => String::new(),
        };
        let mut datatype = Self {
            bounds: body.bounds(),
            body,
            reduction: None,
            combiner,
            contents,
            committed: Cell::new(false),
            name: RefCell::new(name),
            attributes: Attributes::default(),
        };
        datatype.reduction = datatype.find_reduction();
        datatype
    }

    /// A type that is never committed or freed.
    fn predefined(body: TypeBody, combiner: Combiner, contents: Contents) -> Rc<Self> {
        let datatype = Self::new(body, combiner, contents);
        datatype.committed.set(true);
        Rc::new(datatype)
    }

    /// A new derived type, after the last checks.
    fn derived(body: TypeBody, combiner: Combiner, contents: Contents) -> Result<Rc<Self>> {
        Ok(Rc::new(Self::new(body.check()?, combiner, contents)))
    }

    /// A separate object that was made in the same way, without name and attributes.
    /// `MPI_TYPE_GET_CONTENTS` returns such objects for the parts of a type.
    pub fn equivalent(&self) -> Rc<Self> {
        let twin = Self::new(self.body.clone(), self.combiner, self.contents.clone());
        twin.committed.set(self.is_committed());
        Rc::new(twin)
    }

    /// The program's attributes (MPI-5.0 §7.7.4). The caller runs their copy and delete callbacks.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Makes the type usable in communication (`MPI_TYPE_COMMIT`). The optimised layout exists
    /// since the type was made: derived types are built of those of their parts.
    pub fn commit(&self) {
        self.committed.set(true);
    }

    /// Whether the type may be used in communication.
    pub fn is_committed(&self) -> bool {
        self.committed.get()
    }

    /// Refuses types that were not committed, with class `Type`.
    ///
    /// # Errors
    /// `Type` if the type is not committed.
    #[inline]
    pub fn check_committed(&self) -> Result<()> {
        if self.is_committed() {
            return Ok(());
        }
        Err(Error::new(
            ErrorClass::Type,
            "the datatype was not committed (MPI_Type_commit)",
        ))
    }

    /// Whether the type is predefined (also without a name of its own): it must not be freed.
    pub fn is_predefined(&self) -> bool {
        matches!(
            self.combiner,
            Combiner::Named(_)
                | Combiner::F90Real
                | Combiner::F90Complex
                | Combiner::F90Integer
                | Combiner::ValueIndex
        )
    }

    /// Bytes of data of one element (`MPI_TYPE_SIZE`).
    pub fn size(&self) -> i64 {
        self.body.size()
    }

    /// Lower bound in bytes.
    pub fn lb(&self) -> i64 {
        self.bounds.0
    }

    /// Upper bound in bytes.
    pub fn ub(&self) -> i64 {
        self.bounds.0 + self.bounds.1
    }

    /// Bytes from one element to the next (`MPI_TYPE_GET_EXTENT`).
    pub fn extent(&self) -> i64 {
        self.bounds.1
    }

    /// Displacement of the first byte of data (`MPI_TYPE_GET_TRUE_EXTENT`); 0 without data.
    pub fn true_lb(&self) -> i64 {
        self.body.data.map_or(0, |d| d.low)
    }

    /// Bytes from the first to the last byte of data.
    pub fn true_extent(&self) -> i64 {
        self.body.data.map_or(0, |d| d.high - d.low)
    }

    /// The strictest alignment of the basic types in bytes.
    pub fn alignment(&self) -> usize {
        self.body.align as usize
    }

    /// How the type was made.
    pub fn combiner(&self) -> Combiner {
        self.combiner
    }

    /// The arguments of the type's constructor; empty for predefined types.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The predefined type of this object.
    pub fn as_named(&self) -> Option<Named> {
        match self.combiner {
            Combiner::Named(named) => Some(named),
            _ => None,
        }
    }

    /// The object's name (`MPI_TYPE_GET_NAME`); empty unless predefined or set.
    pub fn name(&self) -> String {
        self.name.borrow().clone()
    }

    /// Sets the name. The caller cuts it to `MPI_MAX_OBJECT_NAME`.
    pub fn set_name(&self, name: &str) {
        name.clone_into(&mut self.name.borrow_mut());
    }

    /// Bytes of the packed stream of `count` elements.
    ///
    /// # Errors
    /// `Count` if the count is negative or the bytes do not fit in 64 bits.
    pub fn bytes(&self, count: i64) -> Result<i64> {
        check_count(count)?;
        self.size().checked_mul(count).ok_or_else(|| {
            Error::new(
                ErrorClass::Count,
                format!(
                    "{count} elements of {} bytes do not fit in 64 bits",
                    self.size()
                ),
            )
        })
    }

    /// Where the data of `count` elements begins relative to the buffer's address, and how many
    /// bytes it spans with its gaps. A temporary buffer needs that many bytes.
    ///
    /// # Errors
    /// `Count` if the count is negative or the span does not fit in 64 bits.
    pub fn span(&self, count: i64) -> Result<(i64, i64)> {
        check_count(count)?;
        if count == 0 || self.size() == 0 {
            return Ok((0, 0));
        }
        let row = self.body.row(count).and_then(TypeBody::check);
        let data = row
            .map_err(|e| Error::new(ErrorClass::Count, e.message))?
            .data;
        Ok(data.map_or((0, 0), |d| (d.low, d.high - d.low)))
    }

    /// If `count` elements lie in memory as in the packed stream: where they begin, in bytes from
    /// the buffer's address. Then no packing is needed.
    pub fn contiguous_offset(&self, count: i64) -> Option<i64> {
        if count == 0 || self.size() == 0 {
            return Some(0);
        }
        let dense = matches!(self.body.layout.shape, LayoutShape::Bytes)
            && (count == 1 || self.size() == self.extent());
        dense.then_some(self.body.layout.offset)
    }

    /// Whether `count` elements lie in memory as in the packed stream.
    pub fn is_contiguous(&self, count: i64) -> bool {
        self.contiguous_offset(count).is_some()
    }

    /// Basic elements in one element (`MPI_GET_ELEMENTS` counts them; a pair has two).
    pub fn elements(&self) -> i64 {
        self.body.signature.elements
    }

    /// Whole elements in a message of `bytes` bytes (`MPI_GET_COUNT`, MPI-5.0 §3.2.5); `None` means
    /// `MPI_UNDEFINED`.
    pub fn count_in(&self, bytes: i64) -> Option<i64> {
        match (self.size(), bytes) {
            (_, 0) => Some(0),
            (0, _) => None,
            (size, _) => (bytes % size == 0).then_some(bytes / size),
        }
    }

    /// Basic elements in a message of `bytes` bytes (`MPI_GET_ELEMENTS`, MPI-5.0 §5.1.11); `None`
    /// means `MPI_UNDEFINED`: the message ends inside an element.
    pub fn elements_in(&self, bytes: i64) -> Option<i64> {
        match (self.size(), bytes) {
            (_, 0) => Some(0),
            (0, _) => None,
            (size, _) => {
                let rest = self.body.signature.elements_in(bytes % size)?;
                Some(bytes / size * self.elements() + rest)
            }
        }
    }

    /// Bytes of the first `elements` basic elements of a stream of this type: the inverse of
    /// `elements_in`, for `MPI_STATUS_SET_ELEMENTS`. `None` on overflow, or without elements.
    pub fn bytes_of_elements(&self, elements: i64) -> Option<i64> {
        if elements == 0 {
            return Some(0);
        }
        if self.elements() == 0 || elements < 0 {
            return None;
        }
        let whole = (elements / self.elements()).checked_mul(self.size())?;
        whole.checked_add(self.body.signature.bytes_of(elements % self.elements()))
    }

    /// The element type for predefined reductions; `None` for types that are not predefined
    /// (MPI-5.0 §6.9.2).
    pub fn reduction_element(&self) -> Option<(Class, Element)> {
        self.reduction
    }

    fn find_reduction(&self) -> Option<(Class, Element)> {
        match self.combiner {
            Combiner::Named(named) => Some((named.class(), named.element())),
            Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer => {
                self.f90_equivalent().map(|n| (n.class(), n.element()))
            }
            Combiner::ValueIndex => {
                let parts = &self.contents.datatypes;
                let value = parts.first()?.as_named()?;
                let index = parts.get(1)?.as_named()?;
                Some((Class::Pair, Element::Pair { value, index }))
            }
            _ => None,
        }
    }
}

/// Refuses a negative count.
fn check_count(count: i64) -> Result<()> {
    if count < 0 {
        return Err(Error::new(
            ErrorClass::Count,
            format!("the count {count} is negative"),
        ));
    }
    Ok(())
}

impl Drop for Datatype {
    /// Frees a long chain of types without recursion.
    fn drop(&mut self) {
        let mut rest = std::mem::take(&mut self.contents.datatypes);
        while let Some(datatype) = rest.pop() {
            if let Some(mut last) = Rc::into_inner(datatype) {
                rest.append(&mut last.contents.datatypes);
            }
        }
    }
}
