//! Collective calls on files fail on all ranks or on none: no rank waits for one that has failed.

use crate::coll::{Ctx, GroupChannel};
use crate::error::{Error, ErrorClass, Result};

/// A collective call on a file, on one rank.
pub(super) type FileCall<'a> = Ctx<'a, GroupChannel<'a>>;

/// Classes that other ranks learn; any other one becomes `Io` there. Their places are their numbers
/// in messages, from 1 on.
const CLASSES: [ErrorClass; 25] = [
    ErrorClass::Io,
    ErrorClass::Access,
    ErrorClass::Amode,
    ErrorClass::BadFile,
    ErrorClass::FileExists,
    ErrorClass::FileInUse,
    ErrorClass::File,
    ErrorClass::NoSuchFile,
    ErrorClass::NoSpace,
    ErrorClass::NotSame,
    ErrorClass::Quota,
    ErrorClass::ReadOnly,
    ErrorClass::Arg,
    ErrorClass::Buffer,
    ErrorClass::Count,
    ErrorClass::Type,
    ErrorClass::NoMem,
    ErrorClass::Conversion,
    ErrorClass::UnsupportedDatarep,
    ErrorClass::UnsupportedOperation,
    ErrorClass::DupDatarep,
    ErrorClass::Info,
    ErrorClass::Other,
    ErrorClass::Name,
    ErrorClass::Request,
];

/// Most bytes of a sentence that other ranks get.
const TEXT: usize = 200;

/// The result of all ranks: this rank's, unless another one has failed.
///
/// # Errors
/// This rank's own error, or that of the first rank that has one.
pub(super) async fn agree<T>(call: &FileCall<'_>, mine: Result<T>) -> Result<T> {
    let number = mine.as_ref().map_or_else(number_of, |_| 0);
    let all = call.notify_all(&[number]).await?;
    let Some(first) = all.iter().position(|&number| number != 0) else {
        return mine;
    };
    let mut text = [0; TEXT];
    if let Err(error) = &mine {
        let bytes = error.message.bytes().take(TEXT);
        text.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    }
    let texts = call.notify_all(&text).await?;
    mine?;
    let text = &texts[first * TEXT..][..TEXT];
    let text = String::from_utf8_lossy(text);
    let text = format!("rank {first} of the file: {}", text.trim_end_matches('\0'));
    let class = CLASSES.get(usize::from(all[first]) - 1);
    Err(Error::new(*class.unwrap_or(&ErrorClass::Io), text))
}

fn number_of(error: &Error) -> u8 {
    let place = CLASSES.iter().position(|class| *class == error.class);
    place.map_or(1, |place| place as u8 + 1)
}

/// All ranks have the same bytes.
///
/// # Errors
/// `NotSame` on all ranks if one has others.
pub(super) async fn check_same(call: &FileCall<'_>, what: &str, mine: &[u8]) -> Result<()> {
    let all = call.notify_all(mine).await?;
    match all
        .chunks_exact(mine.len())
        .all(|one| one == &all[..mine.len()])
    {
        true => Ok(()),
        false => {
            let text = format!("the ranks give different values for {what}");
            Err(Error::new(ErrorClass::NotSame, text))
        }
    }
}
