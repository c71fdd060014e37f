//! Ranks that are about to move here, and what is loaded of them.

use super::image_loader::ImageLoader;
use crate::local::kind;
use rejoin_channel_table::{ImageId, MoveNumber, Rank};
use rejoin_ckpt::store::StoredImage;
use rejoin_ckpt::twin::manager::ZygoteAnswer;
use rejoin_managers_net::reactor::{Reactor, Token};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A rank that is about to move here.
#[derive(Default)]
struct IncomingRank {
    /// The files of its images, the latest last: each refers to those before it.
    files: Vec<StoredImage>,
    /// The number of the latest.
    latest: Option<MoveNumber>,
    loader: Option<ImageLoader>,
    /// The image that is being copied or loaded.
    pending: Option<MoveNumber>,
    /// The image that a second loader has begun to load.
    again: Option<MoveNumber>,
}

/// What a loader says.
pub enum LoaderEvent {
    /// The image of this number is loaded; its file has so many bytes.
    Loaded(MoveNumber, u64),
    /// The loader has refused the image of the number, for this reason.
    Refused(Option<MoveNumber>, String),
    /// The loader has ended for this reason, while it loaded the image of the number, if it did.
    Ended(Option<MoveNumber>, String),
}

/// The ranks that are about to move here.
#[derive(Default)]
pub struct IncomingRanks {
    ranks: BTreeMap<Rank, IncomingRank>,
}

impl IncomingRanks {
    /// The image of this number is to be copied or loaded.
    pub fn expect(&mut self, rank: Rank, number: MoveNumber) {
        self.ranks.entry(rank).or_default().pending = Some(number);
    }

    /// The image that is being copied or loaded will not be.
    pub fn give_up(&mut self, rank: Rank) {
        if let Some(incoming) = self.ranks.get_mut(&rank) {
            incoming.pending = None;
        }
    }

    /// Whether the image of this number is being copied or loaded.
    pub fn awaits(&self, rank: Rank, number: MoveNumber) -> bool {
        let incoming = self.ranks.get(&rank);
        incoming.is_some_and(|incoming| incoming.pending == Some(number))
    }

    /// Whether all images of a rank that are here, or on their way, come before this one.
    pub fn are_before(&self, rank: Rank, image: ImageId) -> bool {
        let incoming = self.ranks.get(&rank);
        incoming.is_none_or(|incoming| {
            let newest = incoming.pending.max(incoming.latest);
            newest.map(ImageId::Move) < Some(image)
        })
    }

    /// The images that are being copied or loaded: rank and number.
    pub fn all_pending(&self) -> impl Iterator<Item = (Rank, MoveNumber)> {
        let ranks = self.ranks.iter();
        ranks.filter_map(|(rank, incoming)| Some((*rank, incoming.pending?)))
    }

    /// The file of the next image is here. Returns whether a loader has its order; otherwise there
    /// is none yet.
    ///
    /// # Errors
    /// The loader takes no order, for this reason.
    pub fn load(
        &mut self,
        rank: Rank,
        number: MoveNumber,
        file: StoredImage,
    ) -> std::result::Result<bool, String> {
        let incoming = self.ranks.entry(rank).or_default();
        let path = file.path().to_path_buf();
        incoming.files.push(file);
        incoming.latest = Some(number);
        let Some(loader) = &mut incoming.loader else {
            return Ok(false);
        };
        match loader
            .zygote
            .load_next(&path, ImageId::Move(number).parts().into(), false)
        {
            Ok(true) => Ok(true),
            Ok(false) => Err("its restarter takes no orders".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A loader has begun with the first image.
    pub fn begin(&mut self, rank: Rank, loader: ImageLoader) {
        self.ranks.entry(rank).or_default().loader = Some(loader);
    }

    /// The next message of a rank's loader, or its end.
    pub fn event(&mut self, rank: Rank) -> Option<LoaderEvent> {
        let incoming = self.ranks.get_mut(&rank)?;
        // Without the file of one that is still being copied, another loader can wait.
        let latest = incoming.latest;
        let pending = incoming.pending.filter(|number| latest == Some(*number));
        let event = match incoming.loader.as_mut()?.zygote.answer() {
            Ok(None) => return None,
            Ok(Some(ZygoteAnswer::Loaded)) => {
                let number = pending?;
                incoming.pending = None;
                let bytes = incoming.files.last().map_or(0, StoredImage::bytes);
                return Some(LoaderEvent::Loaded(number, bytes));
            }
            Ok(Some(ZygoteAnswer::NotMade(why))) => LoaderEvent::Refused(pending, why.to_string()),
            Ok(Some(_)) => {
                LoaderEvent::Refused(pending, "its restarter can't be understood".into())
            }
            Err(error) => LoaderEvent::Ended(pending, error.to_string()),
        };
        incoming.pending.take_if(|_| pending.is_some());
        Some(event)
    }

    /// The loader has ended while it loaded the image of this number. Returns the file for another
    /// loader, which is tried once.
    pub fn load_again(&mut self, rank: Rank, number: MoveNumber) -> Option<PathBuf> {
        let incoming = self.ranks.get_mut(&rank)?;
        let path = incoming.files.last()?.path().to_path_buf();
        let is_new = incoming.again.replace(number) != Some(number);
        is_new.then(|| {
            incoming.pending = Some(number);
            path
        })
    }

    /// The loader of a rank, for its process. It is not watched any more.
    pub fn take_loader(&mut self, rank: Rank, reactor: &Reactor) -> Option<ImageLoader> {
        let loader = self.ranks.get_mut(&rank)?.loader.take()?;
        reactor.remove(&loader.zygote);
        Some(loader)
    }

    /// Forgets a rank. Returns the image that was being copied or loaded, and its files.
    pub fn remove(&mut self, rank: Rank) -> Option<(Option<MoveNumber>, Vec<StoredImage>)> {
        let incoming = self.ranks.remove(&rank)?;
        Some((incoming.pending, incoming.files))
    }

    /// Whose events are those of a rank's loader.
    pub fn token(rank: Rank) -> Token {
        Token {
            kind: kind::LOADER,
            incarnation: 0,
            index: rank.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::Epoch;

    fn number(after: u32) -> MoveNumber {
        let after = Epoch(after);
        MoveNumber { after, step: 1 }
    }

    fn image(after: u32) -> ImageId {
        ImageId::Move(number(after))
    }

    #[test]
    fn images_of_a_later_move_stay_when_the_process_of_the_one_before_is_there() {
        let mut incoming = IncomingRanks::default();
        incoming.expect(Rank(1), number(4));
        incoming.give_up(Rank(1));
        assert!(incoming.are_before(Rank(1), image(5)));
        incoming.expect(Rank(1), number(6));
        assert!(!incoming.are_before(Rank(1), image(5)));
        assert!(incoming.are_before(Rank(2), image(5)));
        let loaded = IncomingRank {
            latest: Some(number(8)),
            ..IncomingRank::default()
        };
        incoming.ranks.insert(Rank(1), loaded);
        assert!(incoming.are_before(Rank(1), image(9)));
        // A checkpoint that is older than what is loaded.
        let before = ImageId::Checkpoint(Epoch(8));
        assert!(!incoming.are_before(Rank(1), image(8)) && !incoming.are_before(Rank(1), before));
    }
}
