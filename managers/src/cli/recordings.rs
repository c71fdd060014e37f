//! The folder of `mpirun --record`.

use super::arguments::{Given, JobArguments};
use super::folder_name;
use rejoin_wire::RecordOptions;
use std::fs;

/// The folder, however the ranks' working directories lie.
///
/// # Errors
/// Its name can't be passed on.
pub(super) fn options(job: &JobArguments) -> Result<Option<RecordOptions>, String> {
    let Some(folder) = &job.record else {
        return Ok(None);
    };
    let folder = folder_name::passed_on("--record", folder)?;
    Ok(Some(RecordOptions {
        folder,
        ..RecordOptions::default()
    }))
}

/// Checks what the user wants beside it, and that no other recording is there.
///
/// # Errors
/// Why not.
pub(super) fn check(job: &JobArguments, given: Given<'_>) -> Result<(), String> {
    let Some(folder) = &job.record else {
        return Ok(());
    };
    if job.mode().masks_failures() {
        let recovery = given("recovery", &job.recovery);
        return Err(format!(
            "--record: a rank that comes back is not recorded yet; leave out {recovery}"
        ));
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_recording = |name: &str| name.starts_with("rank-") && name.ends_with(".recording");
    let mut names = entries.map(|entry| entry.file_name());
    match names.any(|name| is_recording(&name.to_string_lossy())) {
        true => Err(format!(
            "--record {}: there are recordings already; name another folder, or remove them",
            folder.display()
        )),
        false => Ok(()),
    }
}
