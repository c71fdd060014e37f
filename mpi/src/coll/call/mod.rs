//! One call of a collective: its messages, how it waits, and what it has in flight.

mod channel;
mod ctx;
mod initiated;
mod p2p;
mod run;
mod windows;

pub use channel::{CallState, GroupChannel};
pub use ctx::{Ctx, Resources};
pub use initiated::Initiated;
pub use p2p::{OutOfLine, P2p, Pending};
pub use run::{Boxed, block_on, poll_once};

pub(in crate::coll) use ctx::{RegionReceive, RegionTable, Temp};
pub(in crate::coll) use initiated::{begin, initiated_or};
pub(in crate::coll) use windows::{Receives, Sends, WINDOW};
