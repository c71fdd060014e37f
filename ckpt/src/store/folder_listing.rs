//! What lies in the folders of process images, for people who look after them.

use super::file_names::{is_partial, numbers};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedImage {
    /// The checkpoint.
    pub epoch: u32,
    /// The rank.
    pub rank: u32,
    /// Where it is.
    pub path: PathBuf,
    /// The file has got its name, so it was written to its end.
    pub is_whole: bool,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// When it was last written.
    pub written: SystemTime,
}

/// The files of images in a folder, in the order of checkpoints and ranks.
pub(super) fn files(folder: &Path) -> io::Result<Vec<ListedImage>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let is_whole = path.extension().is_some_and(|kind| kind == "image");
        let is_partial = path.extension().is_some_and(is_partial);
        let name = path.with_extension("image");
        let name = name.file_name().and_then(|name| name.to_str());
        let Some((rank, epoch)) = name.and_then(numbers) else {
            continue;
        };
        let data = match entry.metadata() {
            Ok(data) if is_whole || is_partial => data,
            // A job that runs removes files.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => continue,
        };
        files.push(ListedImage {
            epoch,
            rank,
            is_whole,
            bytes: data.len(),
            written: data.modified()?,
            path,
        });
    }
    files.sort_by_key(|file| (file.epoch, file.rank, file.is_whole));
    Ok(files)
}

/// The names of the folders below that of all images which may be those of jobs.
///
/// # Errors
/// The system's reason why the folder can't be read.
pub fn job_folders(images: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(images)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_with_rank_and_checkpoint() {
        let images = std::env::temp_dir().join(format!("rejoin-listing-{}", std::process::id()));
        let folder = images.join("night");
        fs::create_dir_all(&folder).expect("a folder");
        let names = [
            "rank-1.epoch-2.image",
            "rank-0.epoch-2.image",
            "rank-0.epoch-2.note",
            "rank-3.epoch-1.image",
            "rank-0.epoch-3.7-partial",
            "rank-x.epoch-3.image",
            "job.json",
        ];
        for name in names {
            fs::write(folder.join(name), "four").expect("a file");
        }
        fs::write(images.join("notes"), "").expect("a file");
        let listed = files(&folder).expect("a list");
        let found: Vec<_> = listed
            .iter()
            .map(|file| (file.epoch, file.rank, file.is_whole, file.bytes))
            .collect();
        let want = [(1, 3, true), (2, 0, true), (2, 1, true), (3, 0, false)];
        assert_eq!(
            found,
            want.map(|(epoch, rank, whole)| (epoch, rank, whole, 4))
        );
        assert_eq!(job_folders(&images).expect("a list"), ["night"]);
        fs::remove_dir_all(&images).expect("removed");
    }
}
