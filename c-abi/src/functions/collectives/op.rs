//! Reduction operations as the program sees them (MPI-5.0 §6.9).

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use rejoin_mpi::datatype::Datatype;
use rejoin_mpi::op::{Builtin, Op};
use rejoin_mpi::{Error, ErrorClass, Result};

use super::args::is_in_place;
use crate::callback::{OpFunction, outside};
use crate::constants::*;
use crate::handles::HandleTable;
use crate::state::{self, AbiState};
use crate::support::{arg_error, load, store};
use crate::types::*;

/// Makes the predefined operations; `MPI_Init` calls this.
pub fn define_predefined(ops: &HandleTable<MPI_Op, Rc<Op>>) {
    for (handle, builtin) in [
        (MPI_SUM, Builtin::Sum),
        (MPI_MIN, Builtin::Min),
        (MPI_MAX, Builtin::Max),
        (MPI_PROD, Builtin::Prod),
        (MPI_BAND, Builtin::Band),
        (MPI_BOR, Builtin::Bor),
        (MPI_BXOR, Builtin::Bxor),
        (MPI_LAND, Builtin::Land),
        (MPI_LOR, Builtin::Lor),
        (MPI_LXOR, Builtin::Lxor),
        (MPI_MINLOC, Builtin::Minloc),
        (MPI_MAXLOC, Builtin::Maxloc),
        (MPI_REPLACE, Builtin::Replace),
        (MPI_NO_OP, Builtin::NoOp),
    ] {
        ops.define(handle, Op::builtin(builtin));
    }
}

/// The program's function as an operation's. It runs inside a call, so the library's state is this
/// thread's alone; nothing is borrowed.
fn function(user: OpFunction) -> Option<Rc<rejoin_mpi::op::UserFunction>> {
    // SAFETY: the program passed a function of the type that it declared.
    unsafe {
        match user {
            OpFunction::Int(callback) => {
                let call = callback.get()?;
                Some(Rc::new(move |input, inout, count, datatype| {
                    in_ints(
                        input,
                        inout,
                        count,
                        datatype,
                        |a, b, mut len, mut handle| {
                            outside(|| call(a, b, &raw mut len, &raw mut handle));
                        },
                    );
                }))
            }
            OpFunction::Count(callback) => {
                let call = callback.get()?;
                Some(Rc::new(move |input, inout: *mut u8, count, datatype| {
                    // Through this copy, as the function may write to its arguments.
                    let mut len = count;
                    let datatypes = &state::mpi().datatypes;
                    datatypes.with_handle(datatype, |mut handle| {
                        let input = input.cast_mut().cast();
                        outside(|| call(input, inout.cast(), &raw mut len, &raw mut handle));
                    });
                }))
            }
        }
    }
}

/// Calls a function of the int form, several times for counts that do not fit an int.
fn in_ints(
    input: *const u8,
    inout: *mut u8,
    count: i64,
    datatype: &Rc<Datatype>,
    mut call: impl FnMut(*mut c_void, *mut c_void, c_int, MPI_Datatype),
) {
    // SAFETY: operations are applied inside calls only, which hold the library's state.
    let datatypes = unsafe { &state::mpi().datatypes };
    datatypes.with_handle(datatype, |handle| {
        let mut done = 0;
        while done < count {
            let len = (count - done).min(c_int::MAX.into());
            let at = (done * datatype.extent()) as isize;
            let left = input.wrapping_offset(at).cast_mut().cast();
            let right = inout.wrapping_offset(at).cast();
            call(left, right, len as c_int, handle);
            done += len;
        }
    });
}

/// `MPI_Op_create` (MPI-5.0 §6.9.5).
///
/// # Safety
/// The function has the declared type; `op` is null or valid.
pub unsafe fn op_create(
    mpi: &AbiState,
    user_fn: OpFunction,
    commute: c_int,
    op: *mut MPI_Op,
) -> Result<()> {
    let function = function(user_fn).ok_or_else(|| arg_error("the function is null"))?;
    if op.is_null() {
        return Err(arg_error("the pointer for the operation is null"));
    }
    let handle = mpi.ops.insert(Op::user(function, commute != 0));
    // SAFETY: the caller's promise.
    unsafe { store(op, "the operation", handle) }
}

/// `MPI_Op_free` (MPI-5.0 §6.9.5).
///
/// # Safety
/// `op` is null or valid.
pub unsafe fn op_free(mpi: &AbiState, op: *mut MPI_Op) -> Result<()> {
    // SAFETY: the caller's promise.
    let handle = unsafe { load(op, "the operation") }?;
    if let Some(builtin) = mpi.ops.get(handle)?.as_builtin() {
        return Err(Error::new(
            ErrorClass::Op,
            format!("{} cannot be freed", builtin.name()),
        ));
    }
    drop(mpi.ops.remove(handle)?);
    // SAFETY: as above.
    unsafe { store(op, "the operation", MPI_OP_NULL) }
}

/// `MPI_Op_commutative` (MPI-5.0 §6.9.7).
///
/// # Safety
/// `commute` is null or valid.
pub unsafe fn op_commutative(mpi: &AbiState, op: MPI_Op, commute: *mut c_int) -> Result<()> {
    let commutes = mpi.ops.get(op)?.is_commutative();
    // SAFETY: the caller's promise.
    unsafe { store(commute, "the answer", c_int::from(commutes)) }
}

/// `MPI_Reduce_local` (MPI-5.0 §6.9.7).
///
/// # Safety
/// Both buffers hold `count` elements.
pub unsafe fn reduce_local(
    mpi: &AbiState,
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<()> {
    let op = mpi.ops.get(op)?;
    let datatype = mpi.datatypes.committed(datatype)?;
    let bytes = datatype.bytes(count)?;
    op.check(&datatype)?;
    if bytes > 0 && datatype.is_predefined() && (inbuf.is_null() || inoutbuf.is_null()) {
        return Err(Error::new(ErrorClass::Buffer, "a buffer is null"));
    }
    let in_place = [inbuf, inoutbuf.cast_const()].map(is_in_place);
    if bytes > 0 && in_place.contains(&true) {
        let text = "MPI_IN_PLACE is not allowed here";
        return Err(Error::new(ErrorClass::Buffer, text));
    }
    if bytes > 0 && inbuf == inoutbuf.cast_const() && !inbuf.is_null() {
        let text = "both buffers are the same";
        return Err(Error::new(ErrorClass::Buffer, text));
    }
    // SAFETY: the caller's promise.
    unsafe { op.apply(inbuf.cast(), inoutbuf.cast(), count, &datatype) }
}
