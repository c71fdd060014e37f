//! Who is who and who is connected: ids, business cards, the table of channels and the handshake
//! that opens or resumes one.
#![forbid(unsafe_code)]

pub mod card;
pub mod ids;
pub mod resume;
mod wire;

pub use card::{Address, BusinessCard, LanId, LocalHostId, Proximity};
pub use ids::{Attempt, Epoch, Generation, Identity, Incarnation, JobId, JobKey, Rank, Ssn};
pub use resume::Resume;
