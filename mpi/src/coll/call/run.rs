//! Running a collective's future without a runtime.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use crate::error::Result;

/// A nonblocking collective in flight (MPI-5.0 §6.12), kept by its request.
pub type Boxed = Pin<Box<dyn Future<Output = Result<()>>>>;

/// Polls `future` once.
pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs `future` to its end on this thread. Between polls `wait` moves messages, and may sleep
/// until something has happened; every wake-up polls again.
///
/// # Errors
/// The errors of the collective, and of `wait`. Then the future is dropped at its present step, and
/// scratch memory that messages may still use is leaked, not reused.
pub fn block_on<T>(
    future: impl Future<Output = Result<T>>,
    mut wait: impl FnMut() -> Result<()>,
) -> Result<T> {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = poll_once(future.as_mut()) {
            return result;
        }
        wait()?;
    }
}
