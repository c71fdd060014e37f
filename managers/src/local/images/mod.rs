//! Checkpoints of this host's ranks: requests for them, the images, the processes from images.

mod checkpoint_requests;
mod pending_restores;
mod rank_images;

pub use checkpoint_requests::{CheckpointRequests, SignalTarget};
pub use pending_restores::{ANSWER_LIMIT, PendingRestore, PendingRestores};
pub use rank_images::{ImageEvent, ImageReport, RankImages};
