//! The thread that gives files of images their names, and removes files. A file system may make it
//! wait for the disk, for seconds. The manager must not wait: it renews the lease of its host, and
//! suspends the ranks in time when the lease is over.

use super::rank_image::ImageFile;
use crate::error::system_text;
use nix::sys::eventfd::{EfdFlags, EventFd};
use rejoin_channel_table::Epoch;
use rejoin_ckpt::store::{PartialImage, StoredImage};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// A written file, of the image in this slot.
pub(super) struct NamedFile {
    pub slot: usize,
    pub epoch: Epoch,
    /// The file under its name, or the reason why it can't be kept.
    pub file: Result<StoredImage, String>,
}

enum FileTask {
    Name {
        slot: usize,
        epoch: Epoch,
        file: PartialImage,
        note: Vec<u8>,
    },
    /// It is needed no more in this launch.
    Discard(ImageFile),
    /// It is needed no more.
    Remove(StoredImage),
}

/// The thread. When this value is dropped, all that was ordered is done.
pub(super) struct FileThread {
    /// `None`: it is to end.
    tasks: Option<Sender<FileTask>>,
    named: Receiver<NamedFile>,
    wake: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl FileThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's reason.
    pub fn start() -> io::Result<FileThread> {
        let (tasks, to_do) = channel();
        let (done, named) = channel();
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = Arc::new(EventFd::from_flags(flags)?);
        let waker = Arc::clone(&wake);
        let thread = thread::Builder::new().name("rejoin-files".into());
        let thread = thread.spawn(move || {
            for file in to_do.into_iter().filter_map(perform) {
                // At the end of the manager nobody reads them.
                let _ = done.send(file);
                // A full counter wakes as well.
                let _ = waker.write(1);
            }
        })?;
        Ok(FileThread {
            tasks: Some(tasks),
            named,
            wake,
            thread: Some(thread),
        })
    }

    /// Gives a written file its name. `note`: what is to lie beside it, if the job has a name.
    pub fn name(&self, slot: usize, epoch: Epoch, file: PartialImage, note: Vec<u8>) {
        self.order(FileTask::Name {
            slot,
            epoch,
            file,
            note,
        });
    }

    /// A file is needed no more in this launch. It stays if it is to outlive the managers.
    pub fn discard(&self, file: ImageFile) {
        if !matches!(file, ImageFile::Absent) {
            self.order(FileTask::Discard(file));
        }
    }

    /// Removes a file.
    pub fn remove(&self, file: StoredImage) {
        self.order(FileTask::Remove(file));
    }

    fn order(&self, task: FileTask) {
        if let Some(tasks) = &self.tasks {
            // The thread lives as long as this value.
            let _ = tasks.send(task);
        }
    }

    /// The next file that has its name, or gets none.
    pub fn next(&self) -> Option<NamedFile> {
        // An empty counter says so.
        let _ = self.wake.read();
        self.named.try_recv().ok()
    }
}

impl AsFd for FileThread {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for FileThread {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by it.
            let _ = thread.join();
        }
    }
}

fn perform(task: FileTask) -> Option<NamedFile> {
    match task {
        FileTask::Name {
            slot,
            epoch,
            file,
            note,
        } => {
            let file = file.complete(&note).map_err(|e| system_text(&e));
            return Some(NamedFile { slot, epoch, file });
        }
        FileTask::Discard(file) => drop(file),
        FileTask::Remove(file) => file.remove(),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::reactor::{Interest, Reactor, Token};
    use rejoin_ckpt::store::{BaseFiles, ImageFolder};
    use std::time::Duration;

    #[test]
    fn files_get_names_and_are_removed_in_the_order_of_the_orders() {
        let images =
            std::env::temp_dir().join(format!("rejoin-file-thread-{}", std::process::id()));
        let folder = ImageFolder::new(&images, 7, None).that_stays();
        let path = |epoch: u32| folder.path().join(format!("rank-0.epoch-{epoch}.image"));
        let thread = FileThread::start().unwrap();
        let mut reactor = Reactor::new().unwrap();
        reactor
            .add(&thread, Token::single(3), Interest::READ)
            .unwrap();
        for epoch in [1, 2] {
            let file = folder.begin(0, epoch, BaseFiles::default()).unwrap();
            thread.name(4, Epoch(epoch), file, b"note".to_vec());
        }
        let (mut named, mut tokens) = (Vec::new(), Vec::new());
        while named.len() < 2 {
            let limit = Some(Duration::from_secs(20));
            reactor.wait(limit, &mut tokens).unwrap();
            assert!(!tokens.is_empty(), "the thread wakes the manager");
            named.extend(std::iter::from_fn(|| thread.next()));
        }
        let found: Vec<_> = named.iter().map(|n| (n.slot, n.epoch)).collect();
        assert_eq!(found, [(4, Epoch(1)), (4, Epoch(2))]);
        let mut files = named.into_iter().map(|named| named.file.unwrap());
        thread.remove(files.next().unwrap());
        // The folder of a job with a name keeps it.
        thread.discard(ImageFile::Stored(files.next().unwrap()));
        thread.discard(ImageFile::Absent);
        drop(thread);
        assert!(!path(1).exists() && path(2).exists());
        std::fs::remove_dir_all(&images).unwrap();
    }

    #[test]
    fn a_file_that_can_get_no_name_is_said() {
        let images = std::env::temp_dir().join(format!("rejoin-file-gone-{}", std::process::id()));
        let folder = ImageFolder::new(&images, 7, None);
        let thread = FileThread::start().unwrap();
        let file = folder.begin(0, 1, BaseFiles::default()).unwrap();
        std::fs::remove_dir_all(&images).unwrap();
        thread.name(0, Epoch(1), file, Vec::new());
        let named = std::iter::repeat_with(|| thread.next())
            .take(20_000)
            .find_map(|named| {
                std::thread::sleep(Duration::from_millis(1));
                named
            });
        assert!(named.expect("an answer").file.is_err());
    }
}
