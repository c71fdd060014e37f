//! One call of a collective: its messages, how it waits, and what it has in flight.

mod ctx;
mod group_channel;
mod initiated;
mod ordered_messages;
mod run;
mod windows;

pub use ctx::{Ctx, Resources};
pub use group_channel::{CallState, GroupChannel};
pub use initiated::Initiated;
pub use ordered_messages::{OutOfLine, P2p, Pending};
pub use run::{Boxed, block_on, poll_once};

pub(in crate::coll) use ctx::{RegionReceive, RegionTable, Temp, mismatch};
pub(in crate::coll) use initiated::{begin, initiated_or};
pub(in crate::coll) use windows::{Receives, Sends, WINDOW};
