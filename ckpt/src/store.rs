//! Where process images are kept: a folder per job, a file per rank and checkpoint.
//!
//! A file is written with a temporary name, and gets its own when it is whole. It may refer to
//! files of earlier checkpoints for pages that did not change. It is removed with the last value
//! that stands for it, or for an image that refers to it.
//!
//! The files of a named job, or of one on several hosts, stay until they are removed by order. So
//! the job can be restarted after all of its processes have ended, and ranks of a lost host come
//! back elsewhere. These files refer to no others. Beside each lies a note: what the manager knows
//! of the image.
//!
//! ```
//! use rejoin_ckpt::ImageNumber;
//! use rejoin_ckpt::store::{BaseFiles, ImageFolder};
//!
//! let folder = std::env::temp_dir().join(format!("rejoin-store-{}", std::process::id()));
//! let images = ImageFolder::new(&folder, 7, None);
//! let image = images.begin(3, ImageNumber::of_checkpoint(12), BaseFiles::default())?;
//! image.file().set_len(8192)?;
//! let stored = image.complete(b"")?;
//! assert_eq!(stored.bytes(), 8192);
//! assert!(stored.path().ends_with("job-0000000000000007/rank-3.epoch-12.image"));
//! drop(stored);
//! images.remove_if_empty();
//! assert_eq!(std::fs::read_dir(&folder)?.count(), 0);
//! # std::fs::remove_dir(&folder)?;
//! # Ok::<(), std::io::Error>(())
//! ```

use rejoin_image_format::ImageNumber;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

mod file_names;
mod folder_claim;
mod folder_listing;

use file_names::{PARTIAL_KIND, numbers};
pub use folder_claim::{FolderClaim, FolderUse};

/// The number of this process's next file without a name.
static PARTIAL: AtomicU64 = AtomicU64::new(0);
pub use folder_listing::{ListedImage, job_folders};
pub use rejoin_image_format::checksum;

/// Most bytes of a note: with unfinished lines and file names.
const NOTE_LIMIT: u64 = 64 << 20;

/// The folder of a job's process images. Other jobs have others.
#[derive(Debug, Clone)]
pub struct ImageFolder {
    path: PathBuf,
    stays: bool,
}

impl ImageFolder {
    /// Of this job, below the folder of all images. The files of a job with a name outlive its
    /// managers. Nothing is made yet.
    #[must_use]
    pub fn new(images: &Path, job: u64, name: Option<&str>) -> Self {
        let own = name.map_or_else(|| format!("job-{job:016x}"), str::to_owned);
        Self {
            path: images.join(own),
            stays: name.is_some(),
        }
    }

    /// The same folder, whose files outlive the job's managers.
    #[must_use]
    pub fn that_stays(self) -> Self {
        Self {
            stays: true,
            ..self
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a claim of this name is in the folder as this host sees it.
    #[must_use]
    pub fn has_claim(&self, name: &str) -> bool {
        let is_plain = !name.is_empty() && !name.contains('/');
        is_plain && self.path.join(name).is_file()
    }

    /// Makes the folder, which only this user may read.
    ///
    /// # Errors
    /// The system's reason.
    pub fn make(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.path)
    }

    fn image(&self, rank: u32, number: ImageNumber) -> PathBuf {
        self.path.join(file_names::image(rank, number))
    }

    fn parity(&self, rank: u32, epoch: u32) -> PathBuf {
        self.path.join(file_names::parity(rank, epoch))
    }

    /// The whole image of a rank that has this number.
    ///
    /// # Errors
    /// There is none, or the system's reason why it can't be read.
    pub fn find(&self, rank: u32, number: ImageNumber) -> io::Result<StoredImage> {
        self.stored(self.image(rank, number))
    }

    /// The parity of the files of several ranks at a checkpoint, which the first of them names.
    ///
    /// # Errors
    /// There is none, or the system's reason why it can't be read.
    pub fn find_parity(&self, rank: u32, epoch: u32) -> io::Result<StoredImage> {
        self.stored(self.parity(rank, epoch))
    }

    fn stored(&self, path: PathBuf) -> io::Result<StoredImage> {
        let bytes = fs::metadata(&path)?.len();
        Ok(StoredImage {
            file: Arc::new(StoredFile {
                path,
                bytes,
                stays: AtomicBool::new(self.stays),
            }),
            bases: BaseFiles::default(),
        })
    }

    /// The checkpoints of which there is a whole image of every rank, the newest last.
    ///
    /// # Errors
    /// The system's reason why the folder can't be read.
    pub fn complete_epochs(&self, size: u32) -> io::Result<Vec<u32>> {
        let mut counts = BTreeMap::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            if let Some((rank, epoch)) = name.to_str().and_then(numbers)
                && rank < size
            {
                *counts.entry(epoch).or_insert(0) += 1;
            }
        }
        counts.retain(|_, count| *count == size);
        Ok(counts.into_keys().collect())
    }

    /// Removes what the job has left, except the images of these checkpoints.
    ///
    /// # Errors
    /// The system's reason.
    pub fn clear(&self, except: &[u32]) -> io::Result<()> {
        let mut failed = Ok(());
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let text = path.file_stem().and_then(|stem| stem.to_str());
            let epoch = text.and_then(file_names::numbers_of_any);
            let kind = path.extension().and_then(|kind| kind.to_str());
            let is_partial = kind.is_some_and(|kind| kind.ends_with("partial"));
            if let Some((_, epoch)) = epoch
                && (is_partial || !except.contains(&epoch))
            {
                failed = failed.and(remove(&path));
            }
        }
        failed
    }

    /// Removes the whole images of checkpoints before this one. Files that are being written, and
    /// images with which ranks move, stay.
    ///
    /// # Errors
    /// The system's reason.
    pub fn remove_before(&self, epoch: u32) -> io::Result<()> {
        let mut failed = Ok(());
        for image in self.files()? {
            if image.is_whole && image.epoch < epoch {
                failed = failed.and(remove(&image.path.with_extension("note")));
            }
        }
        failed
    }

    /// The highest number of a checkpoint of which there is a file, whole or not.
    ///
    /// # Errors
    /// The system's reason why the folder can't be read.
    pub fn highest_epoch(&self) -> io::Result<Option<u32>> {
        let mut highest = None;
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let both = stem.and_then(file_names::numbers_of_any);
            highest = highest.max(both.map(|(_, epoch)| epoch));
        }
        Ok(highest)
    }

    /// Removes the folders of other jobs that managers of this host have left behind. The number of
    /// folders.
    #[must_use]
    pub fn remove_abandoned(&self, host: &str) -> u32 {
        folder_claim::remove_abandoned(&self.path, host)
    }

    /// Whether managers use the folder, as this host sees it.
    #[must_use]
    pub fn in_use(&self, host: &str) -> FolderUse {
        folder_claim::in_use(&self.path, host)
    }

    /// The files of images in it, whole or not, in the order of checkpoints and ranks.
    ///
    /// # Errors
    /// The system's reason why the folder can't be read.
    pub fn files(&self) -> io::Result<Vec<ListedImage>> {
        folder_listing::files(&self.path)
    }

    /// Removes the claims of managers that were killed.
    pub fn remove_free_claims(&self) {
        folder_claim::remove_free(&self.path);
    }

    /// Makes the folder, and keeps [`ImageFolder::remove_abandoned`] away from it as long as the
    /// claim lives. A manager of this host holds it.
    ///
    /// # Errors
    /// The system's reason.
    pub fn claim(&self, host: &str) -> io::Result<FolderClaim> {
        FolderClaim::new(&self.path, host)
    }

    /// Makes a file for the image of a rank that has this number, which only this user may read. It
    /// bypasses the system's cache where the file system allows that, so writes must be whole pages
    /// from aligned memory. It may refer to the bases. If the rank moves with the image, nothing
    /// waits until the file is on a disk.
    ///
    /// # Errors
    /// The system's reason.
    pub fn begin(
        &self,
        rank: u32,
        number: ImageNumber,
        bases: BaseFiles,
    ) -> io::Result<PartialImage> {
        let path = self.image(rank, number);
        let begun = self.open_partial(path.clone(), libc::O_DIRECT);
        let mut begun = begun.or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::EOPNOTSUPP) => self.open_partial(path, 0),
            _ => Err(error),
        })?;
        begun.bases = bases;
        begun.passes = number.is_of_move();
        Ok(begun)
    }

    /// Makes a file for a copy of an image that is in another host's folder. Writes may have any
    /// length.
    ///
    /// # Errors
    /// The system's reason.
    pub fn begin_copy(&self, rank: u32, number: ImageNumber) -> io::Result<PartialImage> {
        let mut begun = self.open_partial(self.image(rank, number), 0)?;
        begun.passes = number.is_of_move();
        Ok(begun)
    }

    /// Makes a file for the parity of the files of several ranks, which the first of them names.
    ///
    /// # Errors
    /// The system's reason.
    pub fn begin_parity(&self, rank: u32, epoch: u32) -> io::Result<PartialImage> {
        self.open_partial(self.parity(rank, epoch), 0)
    }

    fn open_partial(&self, path: PathBuf, flags: i32) -> io::Result<PartialImage> {
        self.make()?;
        // One of the same image may wait for its removal.
        let number = PARTIAL.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_extension(format!("{number}{PARTIAL_KIND}"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        Ok(PartialImage {
            file: options.custom_flags(flags).open(&temporary)?,
            temporary,
            path,
            bases: BaseFiles::default(),
            stays: self.stays,
            passes: false,
        })
    }

    /// Has [`ImageFolder::remove_abandoned`] spare this folder for an hour, although no manager
    /// claims it: the job may go on elsewhere and need it. The next claim ends that.
    ///
    /// # Errors
    /// The system's reason.
    pub fn keep(&self) -> io::Result<()> {
        folder_claim::keep(&self.path)
    }

    /// Removes the folder if it has no files.
    pub fn remove_if_empty(&self) {
        // Other managers of the job may have files in it.
        let _ = fs::remove_dir(&self.path);
    }
}

/// A file that is being written.
#[derive(Debug)]
pub struct PartialImage {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    bases: BaseFiles,
    stays: bool,
    passes: bool,
}

impl PartialImage {
    /// Nothing waits until the file is on a disk.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.passes
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The image before, opened, and the name of its file, if the new one may refer to it.
    #[must_use]
    pub fn base(&self) -> Option<(File, String)> {
        let path = &self.bases.files.first()?.path;
        let name = path.file_name()?.to_str()?;
        Some((File::open(path).ok()?, name.to_owned()))
    }

    /// Gives the whole file its name. `note`: what is to lie beside it, if the job has a name.
    ///
    /// # Errors
    /// The system's reason; the file is removed.
    pub fn complete(self, note: &[u8]) -> io::Result<StoredImage> {
        let bytes = self.file.metadata()?.len();
        let file = StoredFile {
            path: self.path.clone(),
            bytes,
            stays: AtomicBool::new(self.stays),
        };
        if self.stays {
            // The image's name appears last.
            write_note(&file.note_path(), note, !self.passes)?;
        }
        if let Err(error) = fs::rename(&self.temporary, &self.path) {
            if self.stays {
                let _ = fs::remove_file(file.note_path());
            }
            return Err(error);
        }
        let lasts = self.stays && !self.passes;
        if let Some(folder) = self.path.parent().filter(|_| lasts) {
            // Both names survive the end of the machine.
            File::open(folder)?.sync_all()?;
        }
        Ok(StoredImage {
            file: Arc::new(file),
            bases: self.bases.clone(),
        })
    }
}

impl Drop for PartialImage {
    fn drop(&mut self) {
        // A complete one has another name.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// A whole file, which is removed with this value unless it is to stay.
#[derive(Debug)]
struct StoredFile {
    path: PathBuf,
    bytes: u64,
    stays: AtomicBool,
}

impl StoredFile {
    fn note_path(&self) -> PathBuf {
        self.path.with_extension("note")
    }
}

impl Drop for StoredFile {
    fn drop(&mut self) {
        if !*self.stays.get_mut() {
            let _ = fs::remove_file(&self.path);
            let _ = fs::remove_file(self.note_path());
        }
    }
}

/// Removes a file, which another host may do at the same time. An image goes before its note, so
/// one that has its name has its note too, whenever this process is killed.
fn remove(path: &Path) -> io::Result<()> {
    if path.extension().is_some_and(|kind| kind == "note") {
        remove(&path.with_extension("image"))?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Writes a note behind its checksum. `lasts`: it is on the disk then.
fn write_note(path: &Path, note: &[u8], lasts: bool) -> io::Result<()> {
    let partial = path.with_extension("note-partial");
    let mut file = File::create(&partial)?;
    file.write_all(&rejoin_image_format::checksum(note).to_le_bytes())?;
    file.write_all(note)?;
    if lasts {
        file.sync_all()?;
    }
    fs::rename(&partial, path)
}

/// Most files that an image refers to.
const MOST_BASES: usize = 7;

/// The files that an image may refer to: the image before, and then those that it refers to.
#[derive(Debug, Clone, Default)]
pub struct BaseFiles {
    files: Vec<Arc<StoredFile>>,
}

/// An image whose file is whole.
#[derive(Debug)]
pub struct StoredImage {
    file: Arc<StoredFile>,
    bases: BaseFiles,
}

impl StoredImage {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Length of its file in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.file.bytes
    }

    /// Length in bytes of its file and of all that it refers to.
    #[must_use]
    pub fn all_bytes(&self) -> u64 {
        let bases = self.bases.files.iter().map(|file| file.bytes);
        bases.fold(self.bytes(), u64::saturating_add)
    }

    /// What lies beside it.
    ///
    /// # Errors
    /// The system's reason, or that it is not what was written.
    pub fn note(&self) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.file.note_path())?.take(NOTE_LIMIT);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let torn = || io::Error::new(io::ErrorKind::InvalidData, "its note is torn or altered");
        let length = size_of_val(&rejoin_image_format::checksum(&[]));
        let (sum, note) = bytes.split_at_checked(length).ok_or_else(torn)?;
        match sum == rejoin_image_format::checksum(note).to_le_bytes() {
            true => Ok(note.to_vec()),
            false => Err(torn()),
        }
    }

    /// Removes it: nothing is restored from it any more. One to which others refer stays until they
    /// are gone.
    pub fn remove(self) {
        self.file.stays.store(false, Ordering::Relaxed);
    }

    /// For the next image of a rank that moves, which is of no use without this one.
    #[must_use]
    pub fn as_bases_of_move(&self) -> BaseFiles {
        let before = self.bases.files.iter().cloned();
        let own = std::iter::once(Arc::clone(&self.file));
        BaseFiles {
            files: own.chain(before).take(MOST_BASES).collect(),
        }
    }

    /// For the next image. None for a named job, or if there are enough: the next image is complete
    /// in itself after a few, or when the others have become half as long as the first. So an image
    /// has few files, which take at most about one and a half times the room of a complete one, and
    /// twice that for a moment.
    #[must_use]
    pub fn as_bases(&self) -> BaseFiles {
        if self.file.stays.load(Ordering::Relaxed) {
            return BaseFiles::default();
        }
        let before = self.bases.files.iter().cloned();
        let files: Vec<_> = std::iter::once(Arc::clone(&self.file))
            .chain(before)
            .collect();
        let (complete, others) = files
            .split_last()
            .map_or((0, &[][..]), |(last, others)| (last.bytes, others));
        let changed: u64 = others.iter().map(|file| file.bytes).sum();
        match files.len() <= MOST_BASES && changed <= complete / 2 {
            true => BaseFiles { files },
            false => BaseFiles::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn of(epoch: u32) -> ImageNumber {
        ImageNumber::of_checkpoint(epoch)
    }

    #[test]
    fn a_file_has_its_name_only_while_it_is_whole_and_kept() {
        let folder = std::env::temp_dir().join(format!("rejoin-images-{}", std::process::id()));
        let images = ImageFolder::new(&folder, u64::MAX, None);
        let none = BaseFiles::default;
        let names = || -> Vec<String> {
            let entries = fs::read_dir(&images.path).expect("the folder");
            entries
                .map(|entry| {
                    entry
                        .expect("an entry")
                        .file_name()
                        .into_string()
                        .expect("text")
                })
                .collect()
        };
        let partial = images.begin(0, of(1), none()).expect("a file");
        let names_now = names();
        assert!(names_now[0].starts_with("rank-0.epoch-1.") && names_now[0].ends_with("-partial"));
        assert_eq!(images.files().expect("files").len(), 1);
        // The removal of the first attempt does not touch the second one.
        let again = images.begin(0, of(1), none()).expect("a file");
        drop(partial);
        let again = again.complete(b"").expect("a name");
        drop(again);
        assert!(names().is_empty());
        let stored = images
            .begin(0, of(2), none())
            .expect("a file")
            .complete(b"")
            .expect("a name");
        let mode = fs::metadata(stored.path())
            .expect("its data")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(names(), ["rank-0.epoch-2.image"]);
        images.remove_if_empty();
        assert_eq!(names().len(), 1, "the folder is not empty");
        let next = images.begin(0, of(3), stored.as_bases()).expect("a file");
        let (_, name) = next.base().expect("the image before");
        assert_eq!(name, "rank-0.epoch-2.image");
        drop(stored);
        let next = next.complete(b"").expect("a name");
        assert_eq!(names().len(), 2, "the image refers to the one before");
        drop(next);
        images.remove_if_empty();
        assert!(!images.path.exists());
        fs::remove_dir(&folder).expect("empty");
    }

    #[test]
    fn a_file_that_is_gone_before_it_has_a_name_leaves_no_note() {
        let folder = std::env::temp_dir().join(format!("rejoin-gone-{}", std::process::id()));
        let images = ImageFolder::new(&folder, 1, None).that_stays();
        let partial = images.begin(0, of(1), BaseFiles::default());
        let partial = partial.expect("a file");
        fs::remove_file(&partial.temporary).expect("removed");
        partial.complete(b"note").expect_err("there is no file");
        images.remove_if_empty();
        assert!(!images.path.exists());
        fs::remove_dir(&folder).expect("empty");
    }

    #[test]
    fn an_image_refers_to_few_files_and_to_short_ones() {
        let folder = std::env::temp_dir().join(format!("rejoin-bases-{}", std::process::id()));
        let images = ImageFolder::new(&folder, 1, None);
        let stored = |epoch, bases, bytes| {
            let partial = images.begin(0, of(epoch), bases).expect("a file");
            partial.file().set_len(bytes).expect("its length");
            partial.complete(b"").expect("a name")
        };
        let mut image = stored(0, BaseFiles::default(), 1000);
        for epoch in 1..=MOST_BASES as u32 {
            let bases = image.as_bases();
            assert_eq!(bases.files.len(), epoch as usize);
            image = stored(epoch, bases, 10);
        }
        assert!(image.as_bases().files.is_empty(), "there are enough");
        let complete = stored(20, BaseFiles::default(), 1000);
        let changed = stored(21, complete.as_bases(), 501);
        assert_eq!(changed.all_bytes(), 1501);
        assert!(changed.as_bases().files.is_empty(), "too much has changed");
        drop((image, complete, changed));
        images.remove_if_empty();
        fs::remove_dir(&folder).expect("empty");
    }

    #[test]
    fn a_removed_file_goes_with_the_last_image_that_refers_to_it() {
        let folder = std::env::temp_dir().join(format!("rejoin-removed-{}", std::process::id()));
        let images = ImageFolder::new(&folder, 1, None).that_stays();
        let first = images
            .begin(0, of(1), BaseFiles::default())
            .expect("a file");
        let first = first.complete(b"note").expect("a name");
        let path = first.path().to_owned();
        // The next image of a move is being written when the move is given up.
        let next = images.begin(0, of(2), first.as_bases_of_move());
        first.remove();
        assert!(path.exists(), "the next image refers to it");
        drop(next.expect("a file"));
        assert!(!path.exists() && !path.with_extension("note").exists());
        fs::remove_dir_all(&folder).expect("its folder");
    }

    #[test]
    fn images_with_which_ranks_move_are_none_of_a_checkpoint() {
        let folder = std::env::temp_dir().join(format!("rejoin-passing-{}", std::process::id()));
        let images = ImageFolder::new(&folder, 1, Some("night"));
        let begin = |number, bases| images.begin(0, number, bases).expect("a file");
        let [moves, moves_on] = [1, 2].map(|step| ImageNumber { epoch: 4, step });
        let first = begin(moves, BaseFiles::default());
        let first = first.complete(b"of a move").expect("a name");
        assert_eq!(images.complete_epochs(1).expect("a list"), [0u32; 0]);
        assert!(images.find(0, of(4)).is_err());
        let found = images.find(0, moves).expect("an image");
        assert_eq!(
            (found.path(), &found.note().expect("its note")[..]),
            (first.path(), &b"of a move"[..])
        );
        drop(found);
        let next = begin(moves_on, first.as_bases_of_move());
        let (_, name) = next.base().expect("the image before");
        assert_eq!(name, "rank-0.epoch-4+1.move");
        let of_checkpoint = begin(of(6), BaseFiles::default())
            .complete(b"")
            .expect("a name");
        assert_eq!(images.complete_epochs(1).expect("a list"), [6]);
        let whole: Vec<bool> = images
            .files()
            .expect("files")
            .iter()
            .map(|f| f.is_whole)
            .collect();
        assert_eq!(whole, [false, false, true]);
        drop((next, of_checkpoint));
        first.remove();
        images.clear(&[]).expect("removed");
        fs::remove_dir_all(&folder).expect("its folder");
    }

    #[test]
    fn files_of_a_named_job_stay_until_they_are_removed_by_order() {
        let folder = std::env::temp_dir().join(format!("rejoin-named-{}", std::process::id()));
        let images = ImageFolder::new(&folder, 1, Some("night"));
        let store = |rank, epoch| {
            let partial = images.begin(rank, of(epoch), BaseFiles::default());
            let note = format!("of {rank}").into_bytes();
            partial.and_then(|p| p.complete(&note)).expect("stored")
        };
        for (rank, epoch) in [(0, 4), (1, 4), (0, 5)] {
            assert!(store(rank, epoch).as_bases().files.is_empty());
        }
        assert_eq!(images.complete_epochs(2).expect("read"), [4]);
        let partial = images
            .begin(1, of(9), BaseFiles::default())
            .expect("a file");
        assert_eq!(images.highest_epoch().expect("read"), Some(9));
        drop(partial);
        assert_eq!(images.highest_epoch().expect("read"), Some(5));
        let image = images.find(1, of(4)).expect("it has stayed");
        assert_eq!(image.note().expect("its note"), b"of 1");
        images.clear(&[4]).expect("cleared");
        assert!(images.find(0, of(5)).is_err());
        fs::write(image.file.note_path(), "of 1").expect("an altered note");
        assert!(image.note().is_err());
        let all = |images: &ImageFolder| fs::read_dir(&images.path).expect("read").count();
        assert_eq!(all(&images), 4, "two images and their notes");
        image.remove();
        assert_eq!(all(&images), 2);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn an_image_goes_before_its_note() {
        let folder = std::env::temp_dir().join(format!("rejoin-order-{}", std::process::id()));
        let images = ImageFolder::new(&folder, 1, Some("night"));
        images.make().expect("the folder");
        let note = images.image(0, of(4)).with_extension("note");
        // A folder in the place of the image can't be removed as a file.
        fs::create_dir(images.image(0, of(4))).expect("it");
        fs::write(&note, "of 0").expect("its note");
        images.remove_before(5).expect_err("a folder stays");
        images.clear(&[]).expect_err("a folder stays");
        assert!(note.exists());
        fs::remove_dir(images.image(0, of(4))).expect("removed");
        images.clear(&[]).expect("removed");
        assert!(!note.exists());
        fs::remove_dir_all(&folder).expect("removed");
    }
}
