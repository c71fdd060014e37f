//! Names of the files of images.

use std::ffi::OsStr;

/// The end of a temporary name, behind the file's number.
pub(super) const PARTIAL_KIND: &str = "-partial";

/// Rank and checkpoint in the name of an image.
pub(super) fn numbers(name: &str) -> Option<(u32, u32)> {
    let both = name.strip_prefix("rank-")?.strip_suffix(".image")?;
    let (rank, epoch) = both.split_once(".epoch-")?;
    Some((rank.parse().ok()?, epoch.parse().ok()?))
}

/// Whether a file with this extension is an image without a name.
pub(super) fn is_partial(kind: &OsStr) -> bool {
    let number = kind
        .to_str()
        .and_then(|kind| kind.strip_suffix(PARTIAL_KIND));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}
