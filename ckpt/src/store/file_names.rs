//! Names of the files of images.

use std::ffi::OsStr;

/// The end of a temporary name, behind the file's number.
pub(super) const PARTIAL_KIND: &str = "-partial";

/// The end of the name of an image with which a rank moves.
const MOVE_KIND: &str = "move";

/// The beginning of the name of an image, and of that of a parity of several.
const IMAGE: &str = "rank-";
const PARITY: &str = "parity-";

/// The name of an image.
pub(super) fn image(rank: u32, epoch: u32) -> String {
    format!("{IMAGE}{rank}.epoch-{epoch}.image")
}

/// The name of the parity of several images, of which this rank is the first.
pub(super) fn parity(rank: u32, epoch: u32) -> String {
    format!("{PARITY}{rank}.epoch-{epoch}.image")
}

/// The name of an image with which a rank moves: no checkpoint has it.
pub(super) fn image_of_move(rank: u32, epoch: u32) -> String {
    format!("{IMAGE}{rank}.epoch-{epoch}.{MOVE_KIND}")
}

/// Rank and checkpoint in the name of an image.
pub(super) fn numbers(name: &str) -> Option<(u32, u32)> {
    both(name.strip_prefix(IMAGE)?.strip_suffix(".image")?)
}

/// Rank and checkpoint in the name of a parity.
pub(super) fn numbers_of_parity(name: &str) -> Option<(u32, u32)> {
    both(name.strip_prefix(PARITY)?.strip_suffix(".image")?)
}

/// Rank and checkpoint in the name of any file of images, without its extension.
pub(super) fn numbers_of_any(stem: &str) -> Option<(u32, u32)> {
    both(
        stem.strip_prefix(IMAGE)
            .or_else(|| stem.strip_prefix(PARITY))?,
    )
}

fn both(text: &str) -> Option<(u32, u32)> {
    let (rank, epoch) = text.split_once(".epoch-")?;
    Some((rank.parse().ok()?, epoch.parse().ok()?))
}

/// Whether a file with this extension is an image without a name, or belongs to no checkpoint.
pub(super) fn is_partial(kind: &OsStr) -> bool {
    if kind == MOVE_KIND {
        return true;
    }
    let number = kind
        .to_str()
        .and_then(|kind| kind.strip_suffix(PARTIAL_KIND));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}
