//! Images of a rank: how they are taken, kept frozen, and restored.
//!
//! - [`twin`]: the frozen clone of a process on the same host. [`twin::take`] returns twice: in the
//!   rank that continues, and in each process that is later restored from the image.
//!   [`twin::manager`] is the other side.
//! - [`checkpoint_request`]: the real-time signal by which a manager requests an image at any place
//!   in the program. The program does not notice it.
//! - [`threads`]: parks all other threads of a process, so that an image of it can be taken, and
//!   makes them again in a restored process.
//! - [`Arena`]: the library's own heap.
//! - [`watch`]: how a manager learns of a rank's end before the rank's memory is freed.
//! - [`host_barrier`]: where the ranks of a host wait for each other if they share memory.
//! - [`rank_log_memory`], [`log_bodies`], [`log_spill`]: where a rank's log outlives it.
//! - [`anonymous`]: reserves room in memory that processes of a job share.
//! - [`passed`]: descriptors that come with a message over a local socket.
//! - [`image`]: process images, by which a zygote outlives its process.
//! - [`store`]: the files of these images.
//! - [`regions`]: the memory that a program registered as its state, on disk, whole or not at all.
//!
//! The rank's side runs in signal handlers, in the middle of the C library's own functions. So this
//! side takes no lock of the C library, does not use its heap, and calls no function that does. It
//! uses only raw system calls and this library's own allocator. This crate knows neither MPI nor
//! the network.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("twins and checkpoint requests are made for Linux on x86-64");

pub mod anonymous;
mod arena;
pub mod checkpoint_request;
mod children;
mod error;
mod hint;
pub mod host_barrier;
pub mod image;
pub mod log_bodies;
pub mod log_spill;
mod manifest;
pub mod passed;
mod proc;
pub mod rank_log_memory;
pub mod regions;
mod rewind;
mod signals;
pub mod store;
mod sys;
pub mod threads;
pub mod twin;
pub mod watch;

pub use arena::Arena;
pub use error::{Caveat, NotShared, Refused, WhyShared};
pub use manifest::SettledLength;
pub use rejoin_image_format::ImageNumber;
