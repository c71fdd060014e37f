//! Checkpoints of this host's ranks: requests for them, the images, the processes from images.

mod checkpoint_requests;
mod file_threads;
mod image_loader;
mod image_note;
mod image_store;
mod incoming_ranks;
mod pending_restores;
mod rank_image;
mod rank_images;

pub use checkpoint_requests::{CheckpointRequests, SignalTarget};
pub use image_loader::ImageLoader;
pub use image_note::ImageNote;
pub use image_store::ImageStore;
pub use incoming_ranks::{IncomingRanks, LoaderEvent};
pub use pending_restores::{PendingRestore, PendingRestores};
pub use rank_image::ImageReport;
pub use rank_images::{ImageEvent, RankImages};
