//! Reduction operations (MPI-5.0 §6.9).
//!
//! An operation computes `inout[i] = in[i] op inout[i]`: `in` is the left operand, which matters
//! for operations that do not commute.

mod arith;
mod builtin;
mod complex;
mod kernels;
#[cfg(target_arch = "x86_64")]
mod long_double;
mod pairs;
mod quad;
#[cfg(test)]
mod tests;

use std::fmt;
use std::rc::Rc;

pub use builtin::Builtin;

use crate::datatype::{Class, Datatype, transfer};
use crate::error::{Error, ErrorClass, Result};

/// A user's operation: `(in, inout, count, datatype)`.
///
/// C functions of the `int` form take `int *len`. Their wrapper splits counts above 2^31 - 1 into
/// calls of at most that many elements, `extent` bytes apart.
pub type UserFunction = dyn Fn(*const u8, *mut u8, i64, &Rc<Datatype>);

enum Kind {
    Builtin(Builtin),
    User(Rc<UserFunction>),
}

/// A reduction operation, shared as `Rc<Op>`.
///
/// ```
/// use rejoin_mpi::datatype::{Datatype, Named};
/// use rejoin_mpi::op::{Builtin, Op};
///
/// let (sum, int) = (Op::builtin(Builtin::Sum), Datatype::named(Named::Int));
/// let (input, mut inout) = ([1i32, 2], [10i32, 20]);
/// // SAFETY: both arrays have two elements of the datatype.
/// unsafe { sum.apply(input.as_ptr().cast(), inout.as_mut_ptr().cast(), 2, &int) }?;
/// assert_eq!(inout, [11, 22]);
/// # Ok::<(), rejoin_mpi::Error>(())
/// ```
pub struct Op {
    kind: Kind,
    commutative: bool,
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Builtin(b) => f.write_str(b.name()),
            Kind::User(_) => write!(f, "user operation (commutative: {})", self.commutative),
        }
    }
}

impl Op {
    /// A predefined operation. Each call makes a new object, equal in all but identity.
    pub fn builtin(builtin: Builtin) -> Rc<Self> {
        Rc::new(Self {
            kind: Kind::Builtin(builtin),
            commutative: !matches!(builtin, Builtin::Replace | Builtin::NoOp),
        })
    }

    /// A user's operation (`MPI_OP_CREATE`), which is taken to be associative.
    pub fn user(function: Rc<UserFunction>, commutative: bool) -> Rc<Self> {
        Rc::new(Self {
            kind: Kind::User(function),
            commutative,
        })
    }

    /// Whether operands may be exchanged (`MPI_OP_COMMUTATIVE`).
    pub fn is_commutative(&self) -> bool {
        self.commutative
    }

    /// Whether many elements of this type give the same bits in whatever order they are combined.
    pub fn is_exact(&self, datatype: &Datatype) -> bool {
        match self.kind {
            Kind::User(_) => false,
            Kind::Builtin(Builtin::Sum | Builtin::Prod) => matches!(
                datatype.reduction_element(),
                Some((
                    Class::CInteger | Class::FortranInteger | Class::MultiLanguage,
                    _
                ))
            ),
            Kind::Builtin(builtin) => !matches!(
                builtin,
                Builtin::Minloc | Builtin::Maxloc | Builtin::Replace | Builtin::NoOp
            ),
        }
    }

    /// Which predefined operation this is; `None` for a user's.
    pub fn as_builtin(&self) -> Option<Builtin> {
        match self.kind {
            Kind::Builtin(b) => Some(b),
            Kind::User(_) => None,
        }
    }

    /// Whether the operation takes elements of this type.
    ///
    /// # Errors
    /// `Op` if it is a predefined one and the standard does not allow the type.
    pub fn check(&self, datatype: &Datatype) -> Result<()> {
        match self.kind {
            Kind::User(_) | Kind::Builtin(Builtin::Replace | Builtin::NoOp) => Ok(()),
            Kind::Builtin(b) => kernel_of(b, datatype).map(drop),
        }
    }

    /// Computes `inout[i] = in[i] op inout[i]` for `count` elements. A user's function runs in
    /// here: nothing may be borrowed that it could want.
    ///
    /// # Errors
    /// `Op` as for `check`; nothing is changed then.
    ///
    /// # Safety
    /// `count` elements are readable at `input`, and readable and writable at `inout`; they are
    /// initialised and do not overlap.
    pub unsafe fn apply(
        &self,
        input: *const u8,
        inout: *mut u8,
        count: i64,
        datatype: &Rc<Datatype>,
    ) -> Result<()> {
        if count <= 0 {
            return self.check(datatype);
        }
        match &self.kind {
            Kind::User(function) => function(input, inout, count, datatype),
            Kind::Builtin(Builtin::NoOp) => {}
            Kind::Builtin(Builtin::Replace) => {
                // SAFETY: the caller vouches for the elements.
                unsafe { transfer((input, count, datatype), (inout, count, datatype)) };
            }
            Kind::Builtin(b) => {
                let kernel = kernel_of(*b, datatype)?;
                // SAFETY: the caller vouches for the elements; the kernel was chosen by their type.
                unsafe { kernel.run(input, inout, count as usize) }
            }
        }
        Ok(())
    }
}

/// The loop for a predefined operation on a type.
fn kernel_of(builtin: Builtin, datatype: &Datatype) -> Result<kernels::Kernel> {
    let (class, element) = datatype.reduction_element().ok_or_else(|| {
        Error::new(
            ErrorClass::Op,
            format!(
                "{} takes predefined datatypes only, not derived ones",
                builtin.name()
            ),
        )
    })?;
    let kernel = if builtin.allows(class) {
        kernels::select(builtin, element)
    } else {
        None
    };
    kernel.ok_or_else(|| {
        let name = datatype.name();
        Error::new(
            ErrorClass::Op,
            format!("{} is not defined on {name} ({class:?})", builtin.name()),
        )
    })
}
