//! Names of the files of images.

use rejoin_image_format::ImageNumber;
use std::ffi::OsStr;

/// The end of a temporary name, behind the file's number.
pub(super) const PARTIAL_KIND: &str = "-partial";

/// The end of the name of an image with which a rank moves.
const MOVE_KIND: &str = "move";

/// The beginning of the name of an image, and of that of a parity of several.
const IMAGE: &str = "rank-";
const PARITY: &str = "parity-";

/// The name of an image. No checkpoint has the name of one with which the rank moves.
pub(super) fn image(rank: u32, number: ImageNumber) -> String {
    let ImageNumber { epoch, step } = number;
    match number.is_of_move() {
        true => format!("{IMAGE}{rank}.epoch-{epoch}+{step}.{MOVE_KIND}"),
        false => format!("{IMAGE}{rank}.epoch-{epoch}.image"),
    }
}

/// The name of the parity of several images, of which this rank is the first.
pub(super) fn parity(rank: u32, epoch: u32) -> String {
    format!("{PARITY}{rank}.epoch-{epoch}.image")
}

/// Rank and checkpoint in the name of a checkpoint's image.
pub(super) fn numbers(name: &str) -> Option<(u32, u32)> {
    both(name.strip_prefix(IMAGE)?.strip_suffix(".image")?)
}

/// Rank and checkpoint in the name of any file of images, without its extension.
pub(super) fn numbers_of_any(stem: &str) -> Option<(u32, u32)> {
    both(
        stem.strip_prefix(IMAGE)
            .or_else(|| stem.strip_prefix(PARITY))?,
    )
}

fn both(text: &str) -> Option<(u32, u32)> {
    let (rank, number) = text.split_once(".epoch-")?;
    let epoch = number.split('+').next()?;
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
