//! Messages between a rank and its local manager, over the stream socket that the rank inherits
//! ([`MANAGER_FD`]).
//!
//! - [`ToManager`], [`FromManager`]: the messages.
//! - [`codec`]: their frames, which every link between managers uses, too.
//! - [`Welcome`]: identity, key and settings of a rank, its first message.
//! - [`ProcessMap`]: which rank is on which host, in few bytes.
//! - [`recording`]: the file in which a rank records its messages for a replay alone.
//! - [`ImageCost`], [`Holds`]: a rank's report about an image of itself.
//! - [`parse_port_range`], [`parse_seconds`]: the ports on which ranks listen, and times, as users
//!   write them.
//!
//! The order of the messages in a rank's life:
//!
//! 1. The manager writes [`FromManager::Welcome`] into the socket before the rank starts.
//! 2. The rank answers with [`ToManager::Register`]. Once every rank has registered, all get
//!    [`FromManager::Start`]. In a large job [`FromManager::Begin`] takes its place, and
//!    [`ToManager::LookUp`] is answered by [`FromManager::Card`].
//! 3. [`ToManager::Finalizing`] is answered by [`FromManager::AllFinalized`] once every rank has
//!    sent it. [`ToManager::Counters`] may follow.
//! 4. [`ToManager::Leave`] is the rank's last message.
//!
//! A message about the job as a whole carries the generation, and a rank drops one of another
//! generation. End of file from the manager means that the job is over: the rank exits at once.
//!
//! This crate touches no socket and no clock.

#![forbid(unsafe_code)]

pub mod codec;
mod image_report;
mod port_range;
mod process_map;
mod rank_protocol;
pub mod recording;
mod recovery_mode;
mod seconds;
mod welcome;

pub use image_report::{Holds, ImageCost, Unread};
pub use port_range::{PortRangeError, parse_port_range};
pub use process_map::{ProcessMap, ProcessMapError};
pub use rank_protocol::{
    FromManager, MANAGER_FD, MOST_AWAITED, MOST_CAVEATS, MOST_COUNTERS, MOST_FILES,
    MOST_SIGNAL_PAUSE, SignalRequest, ToManager, VERSION,
};
pub use recovery_mode::{LogSpill, MessageLog, NoSuchMode, RecoveryMode};
pub use seconds::parse_seconds;
pub use welcome::{BarrierPlace, Images, Limits, RankOptions, RecordOptions, Transport, Welcome};
