//! Events from the kernel: ready descriptors, and wake-ups by other threads.

mod poller;
mod waker;

pub(crate) use poller::{PollToken, Poller, Readiness};
pub use waker::Waker;
