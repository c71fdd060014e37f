//! What a rank logs in jobs of several recovery groups: its determinants, and the messages that it
//! receives from other groups.

mod device_logs;
mod full_time;
mod log_pace;
mod log_room;
mod log_words;
pub(crate) mod managers_log;
mod rank_log;
mod rank_receive_log;

pub(crate) use device_logs::DeviceLogs;
pub(crate) use log_room::LogRoom;
pub(crate) use log_words::LogWords;
pub use rank_log::Determinants;
pub(crate) use rank_log::{FULL_LIMIT, LogRequest, RankLog};
pub(crate) use rank_receive_log::RankReceiveLog;
