//! What a job that has stopped had shown beyond its last checkpoint, for the mpirun that continues
//! it. That is so if a rank was lost, and the checkpoint was taken before the lost work was done
//! again. A file in the folder of the job has the lengths and hashes of these lines.

use rejoin_channel_table::{Epoch, JobId, Rank};
use rejoin_managers_host::error::system_text;
use rejoin_managers_stdio::Stream;
use rejoin_managers_stdio::replay_filter::ShownBeyond;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// The file.
const NAME: &str = "shown.json";
/// Most bytes of it.
const LIMIT: u64 = 64 << 20;

/// A stream of a rank, and what was shown of it.
pub type ShownStream = (Rank, Stream, ShownBeyond);

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct ShownOutput {
    /// The job: another one of the same name has lines of its own.
    job: u64,
    /// The checkpoint from which the ranks may write this again.
    checkpoint: u32,
    streams: Vec<ShownStream>,
}

/// Stores this for a job that continues from a checkpoint.
///
/// # Errors
/// The file can't be written, or would be too long; for the user.
pub fn store(
    folder: &Path,
    job: JobId,
    from: Epoch,
    streams: Vec<ShownStream>,
) -> Result<(), String> {
    let path = folder.join(NAME);
    let said = |why: String| format!("{}: {why}", path.display());
    let content = ShownOutput {
        job: job.0,
        checkpoint: from.0,
        streams,
    };
    let bytes = serde_json::to_vec(&content).map_err(|error| said(error.to_string()))?;
    if bytes.len() as u64 > LIMIT {
        return Err(said("it would be too long".into()));
    }
    let partial = path.with_extension("partial");
    let write = || {
        let mut file = File::create(&partial)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&partial, &path)
    };
    write().map_err(|error| said(system_text(&error)))
}

/// What the job had shown beyond this checkpoint. Nothing, if the file is not there, or is of
/// another job or checkpoint.
///
/// # Errors
/// The file can't be read; for the user.
pub fn load(folder: &Path, job: JobId, from: Epoch) -> Result<Vec<ShownStream>, String> {
    let path = folder.join(NAME);
    let said = |why: String| format!("{}: {why}", path.display());
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(LIMIT).read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(said(system_text(&error))),
        Ok(_) => {}
    }
    let torn = |error: serde_json::Error| said(format!("it is torn or altered: {error}"));
    let content: ShownOutput = serde_json::from_slice(&bytes).map_err(torn)?;
    let is_this = content.job == job.0 && content.checkpoint == from.0;
    Ok(if is_this { content.streams } else { Vec::new() })
}

/// Removes the file, if it is there.
pub fn remove(folder: &Path) {
    // What stays does no harm: it is of another checkpoint than any later one.
    let _ = fs::remove_file(folder.join(NAME));
}
