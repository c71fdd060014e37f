//! Images of this host's ranks.

use super::file_threads::{FileThreads, NamedFile};
use super::image_loader::ImageLoader;
use super::image_store::ImageStore;
use super::rank_image::{ImageFile, ImageReport, RankImage};
use crate::local::kind;
use rejoin_channel_table::{Epoch, Generation, ImageId, MoveNumber, Rank};
use rejoin_ckpt::image::{ImageCompression, SaveError, image_check};
use rejoin_ckpt::store::StoredImage;
use rejoin_ckpt::twin::Overwritten;
use rejoin_ckpt::twin::manager::{RestoreRequest, Zygote, ZygoteAnswer, ZygoteError};
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::{Context, Result, system_text};
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_protocol::manager_messages::KeptFile;
use rejoin_wire::ToManager;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time from a commit or a recovery until processes are made ahead for the next recovery. So this
/// work does not delay the end of a job that ends at once.
const PREPARE_DELAY: Duration = Duration::from_millis(50);

/// What an image says, or its end.
pub enum ImageEvent {
    /// The image is whole.
    Whole {
        /// The rank's report of it, which counts from now on.
        report: Option<ImageReport>,
        /// The image shares open files with the rank that it can't open anew.
        shares_files: bool,
    },
    /// The image is written to a file, which gets its name.
    Written,
    /// The image can't be written to a file.
    NotStored {
        /// The reason; `None`: a restore interrupted it.
        why: Option<String>,
    },
    /// The image lacks memory of the rank, and was dropped.
    Incomplete {
        /// The rank's report of it, which does not count.
        report: Option<ImageReport>,
        /// Bytes that it lacks.
        missing: u64,
    },
    /// The image has made a process.
    Running {
        /// The new process.
        pid: u32,
    },
    /// The image can't make a process.
    Failed {
        /// The reason.
        why: String,
    },
    /// The image has ended.
    Lost {
        /// How that shows.
        why: String,
    },
}

/// The images of this host's ranks.
#[derive(Default)]
pub struct RankImages {
    /// By slot.
    ranks: Vec<Vec<RankImage>>,
    /// The newest committed checkpoint.
    committed: Option<Epoch>,
    /// The number of the last image's events.
    last_serial: u32,
    /// When to make processes ahead of the next recovery.
    prepare_at: Option<Instant>,
    /// Where images get files, if the user wants them.
    store: Option<ImageStore>,
    /// Of a host whose images get files.
    files: Option<FileThreads>,
}

fn token(slot: usize, image: &RankImage) -> Token {
    Token {
        kind: kind::IMAGE,
        incarnation: image.serial,
        index: slot as u32,
    }
}

impl RankImages {
    /// So many ranks are on this host.
    pub fn serve(&mut self, ranks: usize) {
        self.ranks.resize_with(ranks, Vec::new);
    }

    /// A rank of a lost host is on this one, in the next slot.
    pub fn take_in(&mut self, rank: Rank) {
        self.ranks.push(Vec::new());
        if let Some(store) = &mut self.store {
            store.take_in(rank);
        }
    }

    /// Images get files from now on.
    ///
    /// # Errors
    /// The thread for the files can't be started.
    pub fn use_store(&mut self, store: ImageStore, reactor: &Reactor) -> Result<()> {
        let files = FileThreads::start().context("start the thread for files of images")?;
        reactor.add(&files, Token::single(kind::NAMED_FILES), Interest::READ)?;
        (self.store, self.files) = (Some(store), Some(files));
        Ok(())
    }

    /// Takes a rank's image of an earlier launch or job from its file.
    ///
    /// # Errors
    /// The reason why it is of no use.
    pub fn load_one(&mut self, slot: usize, id: ImageId) -> std::result::Result<(), String> {
        let store = self.store.as_ref();
        let store = store.ok_or_else(|| "there is no folder of images".to_owned())?;
        let (file, note) = store.load(slot, id)?;
        let serial = self.next_serial();
        self.ranks[slot].push(RankImage::loaded((id, serial), file, note));
        Ok(())
    }

    fn next_serial(&mut self) -> u32 {
        self.last_serial = self.last_serial.wrapping_add(1);
        self.last_serial
    }

    /// Whether the rank has this image.
    pub fn has(&self, slot: usize, id: ImageId) -> bool {
        self.find(slot, id).is_some()
    }

    /// Removes a copy of a file of another host's rank, or a parity.
    pub fn remove_copy(&self, file: KeptFile) {
        if let Some(store) = &self.store {
            store.remove_copy(file);
        }
    }

    /// This manager ends. `keeps_files`: the job may go on without this host.
    pub fn leave_folder(&mut self, keeps_files: bool) {
        // All that was ordered is done then.
        self.files = None;
        if let Some(store) = self.store.take() {
            store.leave_folder(keeps_files);
        }
    }

    /// Takes over the image that a rank reports ([`ToManager::Imaged`]). `input`: how many bytes of
    /// standard input it had read, if the rank reads it.
    pub fn add(
        &mut self,
        slot: usize,
        report: ImageReport,
        socket: OwnedFd,
        (partial, input): ([Vec<u8>; 2], Option<u64>),
        reactor: &Reactor,
    ) -> Result<()> {
        let ToManager::Imaged {
            generation,
            image: id,
            pid,
            holds,
            ..
        } = &report.message
        else {
            unreachable!("only this message comes here");
        };
        let zygote = Zygote::new(socket).context("take over an image")?;
        let image = RankImage {
            id: *id,
            serial: self.last_serial.wrapping_add(1),
            generation: *generation,
            incarnation: report.incarnation,
            pid: *pid,
            zygote: Some(zygote),
            file: ImageFile::Absent,
            holds: holds.clone(),
            input,
            report: Some(report),
            partial,
            prepared: false,
            is_there: false,
            by_loader: false,
        };
        if let Some(zygote) = &image.zygote {
            reactor.add(zygote, token(slot, &image), Interest::READ)?;
        }
        self.last_serial = image.serial;
        self.ranks[slot].push(image);
        Ok(())
    }

    /// A checkpoint is committed; `false` if that was known.
    pub fn commit(&mut self, epoch: Epoch) -> bool {
        let is_new = Some(epoch) > self.committed;
        if is_new {
            self.committed = Some(epoch);
            self.prepare_later();
        }
        is_new
    }

    /// This checkpoint is the newest in files.
    pub fn files_committed(&mut self, file: Option<Epoch>) {
        if let Some(store) = &mut self.store {
            store.committed(file);
        }
    }

    /// Whether the rank has neither its image of this checkpoint nor a later one.
    pub fn lacks(&self, slot: usize, epoch: Epoch) -> bool {
        let id = ImageId::Checkpoint(epoch);
        self.committed < Some(epoch) && self.ranks[slot].iter().all(|image| image.id < id)
    }

    fn find(&self, slot: usize, id: ImageId) -> Option<&RankImage> {
        self.ranks[slot].iter().find(|image| image.id == id)
    }

    /// The next message of an image, with what it is called.
    pub fn event(&mut self, token: Token, reactor: &Reactor) -> Option<(ImageId, ImageEvent)> {
        let slot = token.index as usize;
        let same = |i: &&mut RankImage| i.serial == token.incarnation;
        let image = self.ranks.get_mut(slot)?.iter_mut().find(same)?;
        let id = image.id;
        let zygote = image.zygote.as_mut()?;
        let flushed = zygote.flush();
        if let Ok(true) = flushed {
            // Failing to change leaves a wake-up too many.
            let _ = reactor.change(&*zygote, token, Interest::READ);
        }
        // One that could not be written to may have said why.
        let answer = match (zygote.answer(), flushed) {
            (Ok(Some(answer)), _) => answer,
            (Ok(None), Ok(_)) => return None,
            (Err(error), _) | (_, Err(error)) => {
                let why = error.to_string();
                return Some((id, ImageEvent::Lost { why }));
            }
        };
        let event = match answer {
            ZygoteAnswer::Frozen { missing: 0, shared } => {
                image.is_there = true;
                ImageEvent::Whole {
                    report: image.report.take(),
                    shares_files: shared > 0,
                }
            }
            ZygoteAnswer::Frozen { missing, .. } => {
                let report = image.report.take();
                self.drop_image(slot, id, reactor);
                ImageEvent::Incomplete { report, missing }
            }
            ZygoteAnswer::Running { pid } => {
                image.prepared = false;
                ImageEvent::Running { pid: pid as u32 }
            }
            ZygoteAnswer::Failed { errno } => ImageEvent::Failed {
                why: std::io::Error::from_raw_os_error(errno).to_string(),
            },
            ZygoteAnswer::Overwritten(file) => ImageEvent::Failed {
                why: overwritten(image.pid, file),
            },
            ZygoteAnswer::Saved { .. } => match image.written() {
                Ok((file, note)) => {
                    // One that writes a file has a store.
                    if let Some(files) = &self.files {
                        files.name(slot, id, file, note);
                    }
                    ImageEvent::Written
                }
                Err(why) => ImageEvent::NotStored { why: Some(why) },
            },
            ZygoteAnswer::NotSaved(why) => {
                let event = not_saved(image, why);
                let file = std::mem::take(&mut image.file);
                self.discard(file);
                event
            }
            ZygoteAnswer::NotMade(error) => {
                let file = std::mem::take(&mut image.file);
                self.discard(file);
                lost(&error.to_string())
            }
            ZygoteAnswer::Loaded => lost("its restarter waits for a later image"),
        };
        Some((id, event))
    }

    /// The next image whose file has got its name, or gets none for this reason: its slot and what
    /// it is called.
    pub fn next_named(&mut self) -> Option<(usize, ImageId, std::result::Result<(), String>)> {
        loop {
            let files = self.files.as_ref()?;
            let NamedFile { slot, id, file } = files.next()?;
            let mut images = self.ranks.get_mut(slot).into_iter().flatten();
            let image = images.find(|i| i.id == id && matches!(i.file, ImageFile::Written));
            let named = match (image, file) {
                (Some(image), Ok(file)) => {
                    image.file = ImageFile::Stored(file);
                    // Nothing was made ahead while it wrote.
                    self.prepare_later();
                    Ok(())
                }
                (Some(image), Err(why)) => {
                    image.file = ImageFile::Absent;
                    Err(why)
                }
                // The image was dropped meanwhile.
                (None, file) => {
                    file.into_iter().for_each(|file| files.remove(file));
                    continue;
                }
            };
            return Some((slot, id, named));
        }
    }

    /// A file is needed no more in this launch.
    fn discard(&self, file: ImageFile) {
        if let Some(files) = &self.files {
            files.discard(file);
        }
    }

    /// Has an image write its file, or says why it does not. If the rank moves with it, the file
    /// refers to that of the image `base`.
    pub fn write_file(
        &mut self,
        slot: usize,
        id: ImageId,
        base: Option<MoveNumber>,
        reactor: &Reactor,
    ) -> std::result::Result<(), String> {
        let store = self.store.as_ref().ok_or("its host keeps no files")?;
        let images = &mut self.ranks[slot];
        let bases = match id {
            ImageId::Move(_) => {
                let base = base.map(ImageId::Move);
                let base = images.iter().find(|i| Some(i.id) == base);
                let base = base.and_then(RankImage::stored);
                base.map(StoredImage::as_bases_of_move)
            }
            ImageId::Checkpoint(_) => {
                let stored = images.iter().filter(|i| i.id < id && i.is_stored());
                let before = stored.max_by_key(|i| i.id).and_then(RankImage::stored);
                before.map(StoredImage::as_bases)
            }
        };
        let bases = bases.unwrap_or_default();
        let image = images.iter_mut().find(|i| i.id == id);
        let image = image.ok_or("its image is gone")?;
        let sent = image.begin_file(slot, store, bases)?;
        if let (false, Some(zygote)) = (sent, &image.zygote) {
            let changed = reactor.change(zygote, token(slot, image), Interest::READ_AND_WRITE);
            changed.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Whether an image has a process.
    pub fn are_in_memory(&self) -> bool {
        let mut images = self.ranks.iter().flatten();
        images.any(|image| image.zygote.is_some())
    }

    /// Whether the image has a whole file.
    pub fn is_stored(&self, slot: usize, id: ImageId) -> bool {
        self.find(slot, id).is_some_and(RankImage::is_stored)
    }

    /// How many bytes of an image's file are written, while they are. Also about how many there
    /// will be, of an image `with_all` memory whose pages are not compressed.
    pub fn written(&self, slot: usize, id: ImageId, with_all: bool) -> Option<(u64, Option<u64>)> {
        let image = self.find(slot, id)?;
        let done = image.written_bytes()?;
        let store = self.store.as_ref();
        let is_plain = store.is_some_and(|s| s.compression() == ImageCompression::None);
        let of = (with_all && is_plain).then(|| descendants::memory_of(image.pid));
        // A guess: the file has neither zero pages nor those of unchanged files.
        Some((done, of.flatten().map(|of| of.max(done))))
    }

    /// The names of images that have processes, in the order in which memory can do without:
    /// those that are in files, the newest, and those that are being written.
    pub fn dispensable(&self) -> Vec<ImageId> {
        let mut ranks = BTreeMap::new();
        let images = self.ranks.iter().flatten();
        for image in images.filter(|image| image.zygote.is_some()) {
            let need = match &image.file {
                ImageFile::Stored(_) => 0,
                ImageFile::Absent => 1,
                ImageFile::Partial(_) | ImageFile::Written => 2,
            };
            let most = ranks.entry(image.id).or_insert(0);
            *most = need.max(*most);
        }
        let mut ids: Vec<ImageId> = ranks.keys().copied().collect();
        ids.sort_by_key(|id| (ranks[id], std::cmp::Reverse(*id)));
        ids
    }

    /// The processes of the images of this name, by slot.
    pub fn processes(&self, id: ImageId) -> Vec<(usize, u32)> {
        let slots = self.ranks.iter().enumerate();
        let of = |(slot, images): (usize, &Vec<RankImage>)| {
            let image = images.iter().find(|image| image.id == id)?;
            image.zygote.is_some().then_some((slot, image.pid))
        };
        slots.filter_map(of).collect()
    }

    /// Ends the process of an image that is in a file.
    pub fn drop_process(&mut self, slot: usize, id: ImageId, reactor: &Reactor) {
        let mut images = self.ranks[slot].iter_mut();
        if let Some(image) = images.find(|i| i.id == id && i.is_stored()) {
            end_process(image, reactor);
            (image.pid, image.prepared) = (0, false);
        }
    }

    /// The process of an image has ended. Whether the image outlives it in a file: the next restore
    /// makes another process.
    pub fn outlives_process(&mut self, slot: usize, id: ImageId, reactor: &Reactor) -> bool {
        let mut images = self.ranks[slot].iter_mut();
        let Some(image) = images.find(|i| i.id == id && i.is_stored()) else {
            return false;
        };
        if let Some(zygote) = image.zygote.take() {
            reactor.remove(&zygote);
        }
        image.pid = 0;
        // One that ended before it was there would end again, unless it was no process of this file
        // alone.
        image.is_there || image.by_loader
    }

    fn take(&mut self, slot: usize, id: ImageId) -> Option<RankImage> {
        let images = &mut self.ranks[slot];
        let at = images.iter().position(|image| image.id == id)?;
        Some(images.swap_remove(at))
    }

    /// Drops an image that does not count; `false` if there is none.
    pub fn drop_image(&mut self, slot: usize, id: ImageId, reactor: &Reactor) -> bool {
        let Some(mut image) = self.take(slot, id) else {
            return false;
        };
        let stays = self.store.as_ref().is_some_and(|store| store.keeps(id));
        match (std::mem::take(&mut image.file), &self.files) {
            (ImageFile::Stored(file), Some(files)) if !stays => files.remove(file),
            (file, _) => self.discard(file),
        }
        end_process(&mut image, reactor);
        true
    }

    /// Knows an image no more that still counts; `false` if there is none. A file that outlives
    /// the managers stays: the next launch may need it.
    pub fn lose_image(&mut self, slot: usize, id: ImageId, reactor: &Reactor) -> bool {
        let Some(mut image) = self.take(slot, id) else {
            return false;
        };
        self.discard(std::mem::take(&mut image.file));
        end_process(&mut image, reactor);
        true
    }

    /// Drops all images. The files of a named job stay.
    pub fn drop_all(&mut self, reactor: &Reactor) {
        for mut image in self.ranks.iter_mut().flat_map(|images| images.drain(..)) {
            if let Some(files) = &self.files {
                files.discard(std::mem::take(&mut image.file));
            }
            end_process(&mut image, reactor);
        }
    }

    /// Bytes of the file from which a process of this image is made, or of the memory that comes of
    /// them if they are compressed; 0 if it has a process.
    pub fn restart_bytes(&self, slot: usize, id: ImageId) -> u64 {
        match self.find(slot, id) {
            Some(RankImage {
                is_there: false,
                file: ImageFile::Stored(file),
                ..
            }) => {
                // Its first page. The restarter says what is wrong with it.
                let memory = image_check::summary(file.path()).map_or(0, |summary| summary.memory);
                file.all_bytes().max(memory)
            }
            _ => 0,
        }
    }

    /// Bytes of files that the image may have to read before it makes a process.
    pub fn hashed_bytes(&self, slot: usize, id: ImageId) -> u64 {
        self.find(slot, id).map_or(0, |image| image.holds.hashed)
    }

    /// The image that is this process: its slot, its name, and whose events are those of it.
    pub fn of_process(&self, pid: u32) -> Option<(usize, ImageId, Token)> {
        let mut ranks = self.ranks.iter().enumerate();
        ranks.find_map(|(slot, images)| {
            let image = images.iter().find(|image| image.pid == pid)?;
            Some((slot, image.id, token(slot, image)))
        })
    }

    /// Whether the rank's process must be dead before its successor begins: an image of it has file
    /// locks, or any rank of this host shares memory. The kernel marks robust mutexes there when
    /// their owner ends, and this rank may share the memory since its last image.
    pub fn need_its_end(&self, slot: usize) -> bool {
        let mut all = self.ranks.iter().flatten();
        let has_locks = self.ranks[slot].iter().any(|image| image.holds.locks);
        has_locks || all.any(|image| image.holds.together.is_some())
    }

    /// Bytes of standard input that the rank had read at an image.
    pub fn input_of(&self, slot: usize, id: ImageId) -> Option<u64> {
        self.find(slot, id)?.input
    }

    /// The unfinished lines of the rank's output at an image.
    pub fn partial_lines(&self, slot: usize, id: ImageId) -> [Vec<u8>; 2] {
        let image = self.find(slot, id);
        image.map_or_else(Default::default, |image| image.partial.clone())
    }

    /// Files that a rank's successor must leave as they are, since others write them too; `None`:
    /// all.
    pub fn spared_files(&self, slot: usize, id: ImageId) -> Option<Vec<(u64, u64)>> {
        let (mut mine, mut others) = (None, Vec::new());
        for other in 0..self.ranks.len() {
            let Some(image) = self.find(other, id) else {
                continue;
            };
            let files = image.holds.files.as_ref()?;
            match other == slot {
                true => mine = Some(files),
                false => others.extend(files),
            }
        }
        others.sort_unstable();
        let is_shared = |file: &&(u64, u64)| others.binary_search(file).is_ok();
        Some(mine?.iter().filter(is_shared).copied().collect())
    }

    /// Whether a rank that is restored in this generation would come back alone from an image of
    /// this epoch that shares memory with others: they have gone on since.
    pub fn is_bound(&self, slot: usize, id: ImageId, generation: Generation) -> bool {
        let image = self.find(slot, id);
        image.is_some_and(|image| image.holds.together == Some(generation))
    }

    /// The file of an image with which a rank of another host moves here.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn file_of(
        &self,
        rank: Rank,
        number: MoveNumber,
    ) -> std::result::Result<StoredImage, String> {
        let store = self.store.as_ref().ok_or("its host keeps no files")?;
        let found = store
            .folder()
            .find(rank.0, ImageId::Move(number).parts().into());
        found.map_err(|error| system_text(&error))
    }

    /// Starts a restarter that loads this image and waits for later ones: its number, and the
    /// socket to it.
    ///
    /// # Errors
    /// The reason why it does not start.
    pub fn start_loader(
        &self,
        rank: Rank,
        number: MoveNumber,
        path: &Path,
    ) -> std::result::Result<(u32, OwnedFd), String> {
        let store = self.store.as_ref().ok_or("its host keeps no files")?;
        let started = store.start_restarter((rank.0, ImageId::Move(number)), path, true);
        started.map_err(|error| system_text(&error))
    }

    /// Removes files with which a rank has moved here, or does not: each refers to those before it.
    pub fn remove_files(&self, mut files: Vec<StoredImage>) {
        if let Some(thread) = &self.files {
            while let Some(file) = files.pop() {
                thread.remove(file);
            }
        }
    }

    /// Has an image make a process, or says why it does not. `loader` has loaded images to which
    /// this one refers.
    pub fn restore(
        &mut self,
        slot: usize,
        id: ImageId,
        request: &RestoreRequest<'_>,
        loader: Option<ImageLoader>,
        reactor: &Reactor,
    ) -> std::result::Result<(), String> {
        let image = self.ranks[slot].iter_mut().find(|i| i.id == id);
        let image = image.ok_or_else(|| format!("its image of {id} is gone"))?;
        let outlives = image.is_stored() && (image.is_there || image.by_loader);
        let token = token(slot, image);
        if let Some(zygote) = &mut image.zygote {
            match zygote.restore(request) {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    let changed = reactor.change(&*zygote, token, Interest::READ_AND_WRITE);
                    return changed.map_err(|e| e.to_string());
                }
                Err(_) if outlives => reactor.remove(zygote),
                Err(error) => return Err(error.to_string()),
            }
        }
        let zygote = match loader.map(|loader| image.load_last(loader)) {
            // If the loader has ended, the files are still there.
            Some(Ok(())) => image.zygote.as_mut().ok_or("its restarter is gone")?,
            Some(Err(_)) | None => image.restart(slot, self.store.as_ref())?,
        };
        let added = reactor.add(&*zygote, token, Interest::READ_AND_WRITE);
        added.map_err(|e| e.to_string())?;
        // What the socket does not take now leaves when it can be written to.
        match zygote.restore(request) {
            // It has refused the file, and has said why.
            Ok(_) | Err(ZygoteError::Ended) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The next recovery shall find processes made ahead.
    pub fn prepare_later(&mut self) {
        self.prepare_at = Some(Instant::now() + PREPARE_DELAY);
    }

    /// Time until [`RankImages::prepare`] is due.
    pub fn prepare_limit(&self) -> Option<Duration> {
        let at = self.prepare_at?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// Makes processes ahead of the next recovery, from the images that count, if that is due.
    /// While a recovery is under way (`recovering`), it waits.
    pub fn prepare(&mut self, recovering: bool, reactor: &Reactor) {
        if self.prepare_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.prepare_at = None;
        if recovering {
            return self.prepare_later();
        }
        let committed = self.committed.map(ImageId::Checkpoint);
        for (slot, images) in self.ranks.iter_mut().enumerate() {
            let counts = |i: &&mut RankImage| Some(i.id) == committed;
            let Some(image) = images.iter_mut().find(counts) else {
                continue;
            };
            // It makes one at a time. While it writes its file, it would notice no restore.
            if image.prepared || image.is_being_stored() || !descendants::is_own_child(image.pid) {
                continue;
            }
            image.prepared = true;
            let token = token(slot, image);
            let Some(zygote) = &mut image.zygote else {
                continue;
            };
            match zygote.prepare() {
                Ok(true) => {}
                Ok(false) => {
                    let _ = reactor.change(zygote, token, Interest::READ_AND_WRITE);
                }
                // It is about to be noticed.
                Err(error) => tracing::info!(slot, %error, "nothing made ahead"),
            }
        }
    }
}

/// Why an image makes no process, if a file was overwritten since.
fn overwritten(pid: u32, file: Overwritten) -> String {
    let path = std::fs::read_link(format!("/proc/{pid}/fd/{}", file.fd));
    let name = path.map_or_else(
        |_| format!("the file of descriptor {}", file.fd),
        |path| path.display().to_string(),
    );
    let why = match file.is_shared {
        true => "several ranks may write it",
        false => "it was too large to be copied into the image",
    };
    format!(
        "{name} was overwritten after the checkpoint, and can't be put back, because {why}. \
         --accept-external-state restores the rank all the same"
    )
}

/// An image has written no file, or can't continue from one.
fn not_saved(image: &RankImage, why: SaveError) -> ImageEvent {
    let was_stored = image.is_stored();
    match why {
        why if was_stored => ImageEvent::Lost {
            why: why.to_string(),
        },
        SaveError::Interrupted => ImageEvent::NotStored { why: None },
        why => ImageEvent::NotStored {
            why: Some(why.to_string()),
        },
    }
}

/// An image that has ended.
fn lost(why: &str) -> ImageEvent {
    let why = why.to_owned();
    ImageEvent::Lost { why }
}

fn end_process(image: &mut RankImage, reactor: &Reactor) {
    let Some(zygote) = image.zygote.take() else {
        return;
    };
    reactor.remove(&zygote);
    // It would see the end of its socket; this takes its memory down sooner. Only an unreaped child
    // of this process certainly still has this number.
    if descendants::is_own_child(image.pid) {
        descendants::send(image.pid, libc::SIGKILL);
    }
}

#[cfg(test)]
mod tests;
