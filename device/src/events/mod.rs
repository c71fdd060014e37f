//! Events from the kernel: ready descriptors, and wake-ups by other threads.

mod poller;
mod waker;

pub(crate) use poller::{Event, Poller, Token};
pub use waker::Waker;
