//! Process images: a zygote as a file, from which the restarter makes it again.
//!
//! The zygote saves itself on the order of its manager
//! ([`crate::twin::manager::Zygote::save`]). The manager keeps the file ([`crate::store`]). The
//! format is that of [`rejoin_image_format`]; `docs/process-images.md` describes the whole.

mod base_image;
mod build_id;
pub mod image_check;
mod image_writer;
mod page_hashes;
mod page_output;
mod pagemap;
mod privileges;
mod process_state;
mod processor_here;
mod region_list;
mod save;
mod save_error;
mod saved_frame;
mod saved_process;
mod scratch_list;

pub use page_output::ImageCompression;
pub use rejoin_image_format::{ImageError, ImageIdentity};
pub(crate) use save::{Saved, save};
pub use save_error::SaveError;
pub(crate) use saved_process::SavedProcess;
