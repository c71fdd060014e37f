//! Requests of partitioned communication (MPI-5.0 §4.2): what the program says and asks of their
//! partitions.

use super::partitions::Partitions;
use super::{Persistent, Request, RequestId, State, Task};
use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::runtime::Mpi;
use std::rc::Rc;

/// A request with these partitions; `make` makes the task of a start.
pub(crate) fn enter_partitioned(
    mpi: &Mpi,
    partitions: Rc<Partitions>,
    comm: &Rc<Communicator>,
    make: Box<dyn Fn() -> Task>,
) -> RequestId {
    mpi.enter_persistent(Persistent::Partitioned(partitions, make), comm)
}

/// Runs a task of the library's own on `comm`, whose result nobody asks for. The end of the
/// job does not wait for one that `receives`: its message may never come.
pub(crate) fn start_background(
    mpi: &Mpi,
    comm: &Rc<Communicator>,
    task: Task,
    receives: bool,
) -> Result<()> {
    let id = mpi.start_task(Some(comm), task);
    mpi.requests()
        .with(id, |request| request.operation.receives = receives)?;
    mpi.request_free(id)
}

/// The partitions of a request, and whether it is active.
fn partitions(mpi: &Mpi, id: RequestId) -> Result<(Rc<Partitions>, bool)> {
    let of = |request: &mut Request| match request.persistent.as_deref() {
        Some(Persistent::Partitioned(partitions, _)) => {
            let active = !matches!(request.operation.state, State::Inactive);
            Some((partitions.clone(), active))
        }
        _ => None,
    };
    let found = if id == RequestId::SENT {
        None
    } else {
        mpi.requests().with(id, of)?
    };
    found.ok_or_else(|| {
        let text = "the request is not of partitioned communication";
        Error::new(ErrorClass::Request, text)
    })
}

/// `MPI_Pready` of each of these partitions, in their order.
///
/// # Errors
/// `Request`: not an active partitioned send. `Arg`: no such partition, or it is ready already.
pub fn pready(mpi: &Mpi, id: RequestId, which: impl Iterator<Item = i32>) -> Result<()> {
    let (partitions, is_active) = partitions(mpi, id)?;
    if !is_active {
        let text = "partitions become ready only after the request was started";
        return Err(Error::new(ErrorClass::Request, text));
    }
    for partition in which {
        if partitions.mark(partition)? {
            // The message leaves.
            mpi.poll_task(id);
        }
    }
    Ok(())
}

/// `MPI_Parrived`: whether a partition has come, as true of an inactive request. The partitions
/// of a receive come together, with one message.
///
/// # Errors
/// `Request`: not a partitioned request. `Arg`: no such partition.
pub fn parrived(mpi: &Mpi, id: RequestId, partition: i32) -> Result<bool> {
    let (partitions, is_active) = partitions(mpi, id)?;
    partitions.check(partition)?;
    Ok(!is_active || mpi.request_status(id)?.is_some())
}
