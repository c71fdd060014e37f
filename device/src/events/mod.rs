//! What the kernel tells a rank: which descriptors are ready, and wake-ups by other threads.

mod poller;
mod waker;

pub(crate) use poller::{Event, Poller, Token};
pub use waker::Waker;
