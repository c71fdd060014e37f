//! Partitioned communication (MPI-5.0 §4): a send whose parts become ready one after the other.
//!
//! The data travels as one message when all partitions are ready. The two sides may divide it in
//! different ways. The k-th send that is set up for a peer and a tag belongs to the k-th receive
//! that is set up for them, whatever is started first: the sender numbers its requests, and each
//! set-up sends the number under the program's tag. Data has the number as its tag.

use crate::check;
use crate::coll::{CallState, Ctx, Mem, receive_from, send_to};
use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result, counted};
use crate::p2p::Typed;
use crate::request::{Partitions, RequestId, Task, enter_partitioned, start_background};
use crate::runtime::Mpi;
use crate::status::{Completed, PROC_NULL, Status};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

pub use crate::request::{parrived, pready};

/// What a sender notifies its receiver of at the set-up: the number of the request, and the bytes
/// of its data.
type Setup = (u32, u64);
/// Bytes of a set-up on the wire.
const SETUP_LEN: usize = size_of::<u32>() + size_of::<u64>();

/// The tag of the data of a request with this number: no tag of the program is negative.
fn data_tag(number: u32) -> i32 {
    !((number & i32::MAX as u32) as i32)
}

/// What a program says of its side.
pub struct Sides {
    /// All elements of all partitions.
    pub elements: Typed,
    /// Number of partitions.
    pub partitions: i32,
    /// The other process's rank, or `MPI_PROC_NULL`.
    pub peer: i32,
    /// The program's tag.
    pub tag: i32,
}

impl Sides {
    fn check(&self, comm: &Communicator) -> Result<usize> {
        check::destination(self.peer, comm)?;
        check::tag(self.tag)?;
        self.elements.data().check()?;
        usize::try_from(self.partitions).map_err(|_| {
            let text = format!("{} partitions", self.partitions);
            Error::new(ErrorClass::Arg, text)
        })
    }
}

/// A task on the library, which is not kept alive by requests that are not started.
fn task_of<F: Future<Output = Result<Status>> + 'static>(
    mpi: &std::rc::Weak<Mpi>,
    run: impl FnOnce(Rc<Mpi>) -> F,
) -> Task {
    let Some(mpi) = mpi.upgrade() else {
        let gone = Mpi::broken("a request was started without a library");
        return Box::pin(async { failed(gone) });
    };
    let run = run(mpi);
    Box::pin(async move { run.await.map_or_else(failed, Completed::ok) })
}

fn failed(error: Error) -> Completed {
    Completed {
        status: Status::EMPTY,
        error: Some(error),
    }
}

/// `MPI_Psend_init` (MPI-5.0 §4.2.1).
///
/// # Errors
/// A wrong rank, tag, number of partitions, or buffer.
pub fn psend_init(mpi: &Mpi, side: Sides, comm: &Rc<Communicator>) -> Result<RequestId> {
    let count = side.check(comm)?;
    let (this, partitions) = (
        Rc::downgrade(&mpi.rc()),
        Rc::new(Partitions::new(count, true)),
    );
    let number = comm.next_partitioned();
    let bytes = side.elements.bytes()? as u64;
    if side.peer != PROC_NULL {
        let (on, to, tag) = (comm.clone(), side.peer as usize, side.tag);
        let task = task_of(&this, |mpi| async move {
            notify(&mpi, &on, (to, tag), (number, bytes)).await
        });
        start_background(mpi, comm, task, false)?;
    }
    let (side, on, marks) = (Rc::new(side), comm.clone(), partitions.clone());
    let make = move || {
        let (side, on, marks) = (side.clone(), on.clone(), marks.clone());
        marks.restart();
        task_of(&this, |mpi| async move {
            poll_fn(|_| match marks.are_ready() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            if side.peer == PROC_NULL {
                return Ok(Status::EMPTY);
            }
            let state = CallState::new(&mpi);
            let ctx = Ctx::of_peers(&on, data_tag(number), &state);
            let sent = send_to(&ctx, side.peer as usize, &side.elements).await;
            sent.map(|()| Status::EMPTY).map_err(|e| state.fail(e))
        })
    };
    Ok(enter_partitioned(mpi, partitions, comm, Box::new(make)))
}

/// `MPI_Precv_init` (MPI-5.0 §4.2.1), without wildcards.
///
/// # Errors
/// A wrong rank, tag, number of partitions, or buffer.
pub fn precv_init(mpi: &Mpi, side: Sides, comm: &Rc<Communicator>) -> Result<RequestId> {
    let count = side.check(comm)?;
    let (this, partitions) = (
        Rc::downgrade(&mpi.rc()),
        Rc::new(Partitions::new(count, false)),
    );
    let setup = Rc::new(Cell::new(None));
    if side.peer != PROC_NULL {
        let (on, from, tag, into) = (comm.clone(), side.peer as usize, side.tag, setup.clone());
        let task = task_of(&this, |mpi| async move {
            hear(&mpi, &on, (from, tag), &into).await
        });
        start_background(mpi, comm, task, true)?;
    }
    let (side, on) = (Rc::new(side), comm.clone());
    let make = move || {
        let (side, on, setup) = (side.clone(), on.clone(), setup.clone());
        task_of(&this, |mpi| async move {
            if side.peer == PROC_NULL {
                return Ok(Status::of(PROC_NULL, crate::status::ANY_TAG, 0));
            }
            let (number, sent) = poll_fn(|_| match setup.get() {
                Some(setup) => Poll::Ready(setup),
                None => Poll::Pending,
            })
            .await;
            let room = side.elements.bytes()? as u64;
            if sent != room {
                return Err(other_length(&side, sent, room));
            }
            let state = CallState::new(&mpi);
            let ctx = Ctx::of_peers(&on, data_tag(number), &state);
            let came = receive_from(&ctx, side.peer as usize, &side.elements).await;
            came.map(|()| Status::of(side.peer, side.tag, room))
                .map_err(|e| state.fail(e))
        })
    };
    Ok(enter_partitioned(mpi, partitions, comm, Box::new(make)))
}

#[cold]
fn other_length(side: &Sides, sent: u64, room: u64) -> Error {
    let (sent, room) = (counted(sent, "byte"), counted(room, "byte"));
    let text = format!(
        "partitioned: rank {} sends {sent} with tag {}, and the receive has {room}",
        side.peer, side.tag
    );
    Error::new(ErrorClass::Truncate, text)
}

/// Sends the set-up to a peer, under the program's tag.
async fn notify(
    mpi: &Mpi,
    comm: &Communicator,
    (to, tag): (usize, i32),
    (number, bytes): Setup,
) -> Result<Status> {
    let state = CallState::new(mpi);
    let ctx = Ctx::of_peers(comm, tag, &state);
    let word = ctx.temp(SETUP_LEN)?;
    let text = [&number.to_le_bytes()[..], &bytes.to_le_bytes()].concat();
    word.mem().fill(&text);
    let sent = ctx.send(to, word.mem()).await;
    sent.map(|()| Status::EMPTY).map_err(|e| state.fail(e))
}

/// Receives the set-up of a peer, under the program's tag.
async fn hear(
    mpi: &Mpi,
    comm: &Communicator,
    (from, tag): (usize, i32),
    into: &Cell<Option<Setup>>,
) -> Result<Status> {
    let state = CallState::new(mpi);
    let ctx = Ctx::of_peers(comm, tag, &state);
    let word = ctx.temp(SETUP_LEN)?;
    ctx.recv(from, word.mem())
        .await
        .map_err(|e| state.fail(e))?;
    let number = |part: Mem| {
        part.to_vec()
            .iter()
            .rev()
            .fold(0, |n, &b| n << 8 | u64::from(b))
    };
    let (first, rest) = (word.mem().head(4), word.mem().range(4, SETUP_LEN));
    into.set(Some((number(first) as u32, number(rest))));
    Ok(Status::EMPTY)
}
