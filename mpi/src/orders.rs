//! Orders for images that come by signal (see [`crate::Mpi::take_orders`]).

pub use rejoin_device::image::{is_wanted, keep};
