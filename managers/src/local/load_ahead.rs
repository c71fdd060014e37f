//! Ranks that are about to move here: while they run on their hosts, this one copies their images
//! and loads them. When a rank stops, only what it has written since is left.

use super::image_copying::{CopyRequests, NO_FILES};
use super::images::{ImageLoader, IncomingRanks, LoaderEvent};
use super::manager_parts::{ManagerParts, handler, keys};
use rejoin_channel_table::{ImageId, MoveNumber, Rank};
use rejoin_ckpt::twin::manager::Zygote;
use rejoin_managers_host::error::Result;
use rejoin_managers_net::reactor::Interest;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::KeptFile;
use std::path::Path;

handler! {
    /// Loads images ahead.
    pub(super) LoadHandler of ManagerParts {
        changes { incoming, copies, central, inputs }
        reads { images, reactor }
    }
    with {
        requests: CopyRequests { copies, central },
    }
}

impl LoadHandler<'_> {
    /// Loads the image of a rank that is to move here, as soon as its file is.
    pub fn load_ahead(
        &mut self,
        rank: Rank,
        number: MoveNumber,
        holder: Option<usize>,
    ) -> Result<()> {
        self.incoming.expect(rank, number);
        match holder {
            Some(holder) => {
                let image = ImageId::Move(number);
                if !self.requests().order(&[(rank, holder)], image)? {
                    self.not_loaded(rank, number, NO_FILES);
                }
            }
            None => self.load_file(rank, number),
        }
        Ok(())
    }

    /// The copy of a file has come to its end. Returns whether it is that of an image which is
    /// loaded ahead.
    pub fn copied_ahead(&mut self, file: KeptFile, end: std::result::Result<(), &String>) -> bool {
        let (rank, ImageId::Move(number)) = (file.rank, file.image) else {
            return false;
        };
        if !self.incoming.awaits(rank, number) {
            return false;
        }
        if let Some(copies) = &mut self.copies {
            // It is no copy for the loss of a host.
            copies.cancel(file);
        }
        match end {
            Ok(()) => self.load_file(rank, number),
            Err(why) => self.not_loaded(rank, number, why),
        }
        true
    }

    fn load_file(&mut self, rank: Rank, number: MoveNumber) {
        if let Err(why) = self.begin_loading(rank, number) {
            self.not_loaded(rank, number, &why);
        }
    }

    fn begin_loading(&mut self, rank: Rank, number: MoveNumber) -> std::result::Result<(), String> {
        let file = self.images.file_of(rank, number)?;
        let path = file.path().to_path_buf();
        if self.incoming.load(rank, number, file) == Ok(true) {
            return Ok(());
        }
        // There is no loader yet, or it has ended: the files are here.
        self.end_loader(rank);
        self.start_loader(rank, number, &path)
    }

    fn start_loader(
        &mut self,
        rank: Rank,
        number: MoveNumber,
        path: &Path,
    ) -> std::result::Result<(), String> {
        let (pid, socket) = self.images.start_loader(rank, number, path)?;
        let zygote = Zygote::new(socket).map_err(|e| e.to_string())?;
        let token = IncomingRanks::token(rank);
        let added = self.reactor.add(&zygote, token, Interest::READ);
        self.incoming.begin(rank, ImageLoader { pid, zygote });
        added.map(drop).map_err(|e| e.to_string())
    }

    /// What the loader of a rank says.
    pub fn loader_event(&mut self, rank: Rank) {
        while let Some(event) = self.incoming.event(rank) {
            match event {
                LoaderEvent::Loaded(number, bytes) => {
                    let loaded = LocalInput::Loaded(rank, number, bytes);
                    self.inputs.push_back(loaded);
                }
                LoaderEvent::Refused(pending, why) => {
                    self.end_loader(rank);
                    if let Some(number) = pending {
                        self.not_loaded(rank, number, &why);
                    }
                    return;
                }
                LoaderEvent::Ended(pending, why) => {
                    self.end_loader(rank);
                    if let Some(number) = pending {
                        self.load_again(rank, number, &why);
                    }
                    return;
                }
            }
        }
    }

    /// The loader of a rank has ended, for this reason: another one loads the file.
    fn load_again(&mut self, rank: Rank, number: MoveNumber, why: &str) {
        let begun = match self.incoming.load_again(rank, number) {
            Some(path) => self.start_loader(rank, number, &path),
            None => Err(why.to_owned()),
        };
        if let Err(why) = begun {
            self.not_loaded(rank, number, &why);
        }
    }

    fn end_loader(&mut self, rank: Rank) {
        let loader = self.incoming.take_loader(rank, self.reactor);
        loader.into_iter().for_each(ImageLoader::end);
    }

    fn not_loaded(&mut self, rank: Rank, number: MoveNumber, why: &str) {
        self.incoming.give_up(rank);
        let why = format!("its image can't be loaded there: {why}");
        self.inputs
            .push_back(LocalInput::NotLoaded(rank, number, why));
    }

    /// Drops what was loaded of a rank: it is here, or does not come.
    pub fn unload(&mut self, rank: Rank) {
        self.end_loader(rank);
        let Some((pending, files)) = self.incoming.remove(rank) else {
            return;
        };
        if let (Some(number), Some(copies)) = (pending, &mut self.copies) {
            copies.cancel(KeptFile {
                rank,
                image: ImageId::Move(number),
                is_parity: false,
            });
        }
        self.images.remove_files(files);
    }
}
