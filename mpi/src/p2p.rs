//! Point-to-point communication (MPI-5.0 chapter 3).

mod blocking;
mod bsend_buffer;
mod buffered;
pub(crate) mod data;
mod nonblocking;
mod persistent;
mod probe;
mod sendrecv;
mod simple_messages;

pub(crate) use bsend_buffer::BufferSlot;
pub use bsend_buffer::{Detached, OVERHEAD};
pub(crate) use data::Staging;
pub use data::{Data, Typed};
pub use probe::MatchedMessage;
pub use sendrecv::ExchangeSide;

/// The four modes of sending (MPI-5.0 §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Completes when the buffer may be used again.
    Standard,
    /// Completes at once: the message is copied into the attached buffer.
    Buffered,
    /// Completes once the receive has been matched.
    Synchronous,
    /// The program has posted the receive already; sent as a standard one.
    Ready,
}

#[cfg(test)]
mod tests;
