//! What lies in a folder of `--images`: jobs, their checkpoints and files. `rejoin images` lists
//! it, checks it and removes what is not needed. No job takes part in that.

mod removal;
mod saved_job;
mod survey;
#[cfg(test)]
mod tests;
mod verification;

pub use removal::{Removal, remove};
pub use saved_job::{Running, SavedCheckpoint, SavedFile, SavedJob, SavedKind};
pub use survey::{Survey, survey};
pub use verification::{Damage, Verification, damage_of, verify};
