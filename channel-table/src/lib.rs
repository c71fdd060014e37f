//! Identities and connections: ids, business cards, the table of channels, and the handshake that
//! opens or resumes a channel.
#![forbid(unsafe_code)]

pub mod book;
pub mod card;
pub mod handshake;
pub mod ids;
pub mod image_id;
mod numbers;
pub mod resume;
pub mod slab;
pub mod table;

pub use book::{AddressBook, Site};
pub use card::{Address, BusinessCard, LanId, LocalHostId, LocalSocketName, Proximity};
pub use handshake::{
    Acceptor, AcceptorStep, Dialer, DialerStep, Established, HandshakeRefusal, Proved,
};
pub use ids::{Attempt, Epoch, Generation, Identity, Incarnation, JobId, JobKey, Rank, Ssn};
pub use image_id::{ImageId, MoveNumber};
pub use resume::Resume;
pub use slab::Slab;
pub use table::{Admission, LinkState, Table};
