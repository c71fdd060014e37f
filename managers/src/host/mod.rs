//! The host of a manager: processors, interfaces and limits, the processes below a manager, the
//! signals that a manager gets, and the user's run directory.

pub mod descendants;
pub mod interfaces;
pub mod limits;
pub mod run_dir;
pub mod signals;
pub mod topology;
