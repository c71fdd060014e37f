//! The threads that give files of images their names, and remove files. A file system may make them
//! wait for the disk, for seconds. The manager must not wait: it renews the lease of its host, and
//! suspends the ranks in time when the lease is over. Nobody waits for removals, and that of a file
//! in memory takes a processor for long: ranks come first.

use super::rank_image::ImageFile;
use nix::sys::eventfd::{EfdFlags, EventFd};
use rejoin_channel_table::ImageId;
use rejoin_ckpt::store::{PartialImage, StoredImage};
use rejoin_managers_host::error::system_text;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// A written file, of the image in this slot.
pub(super) struct NamedFile {
    pub slot: usize,
    pub id: ImageId,
    /// The file under its name, or the reason why it can't be kept.
    pub file: Result<StoredImage, String>,
}

/// A written file that is to get its name.
struct NameTask {
    slot: usize,
    id: ImageId,
    file: PartialImage,
    note: Vec<u8>,
}

enum Removal {
    /// The file is needed no more in this launch.
    Discard(ImageFile),
    /// The file is needed no more.
    Remove(StoredImage),
}

/// A thread that carries orders out, one after the other. When this value is dropped, all are.
struct Orders<T> {
    /// `None`: it is to end.
    tasks: Option<Sender<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Orders<T> {
    fn start(name: &str, work: impl FnOnce(Receiver<T>) + Send + 'static) -> io::Result<Orders<T>> {
        let (tasks, to_do) = channel();
        let thread = thread::Builder::new().name(name.into());
        Ok(Orders {
            tasks: Some(tasks),
            thread: Some(thread.spawn(move || work(to_do))?),
        })
    }
}

impl<T> Orders<T> {
    fn give(&self, task: T) {
        if let Some(tasks) = &self.tasks {
            // The thread lives as long as this value.
            let _ = tasks.send(task);
        }
    }
}

impl<T> Drop for Orders<T> {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by it.
            let _ = thread.join();
        }
    }
}

/// The threads. When this value is dropped, all that was ordered is done.
pub(super) struct FileThreads {
    names: Orders<NameTask>,
    removals: Orders<Removal>,
    named: Receiver<NamedFile>,
    wake: Arc<EventFd>,
}

impl FileThreads {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system's reason.
    pub fn start() -> io::Result<FileThreads> {
        let (done, named) = channel();
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = Arc::new(EventFd::from_flags(flags)?);
        let waker = Arc::clone(&wake);
        let names = Orders::start("rejoin-files", move |tasks: Receiver<NameTask>| {
            for file in tasks.into_iter().map(name) {
                // At the end of the manager nobody reads them.
                let _ = done.send(file);
                // A full counter wakes as well.
                let _ = waker.write(1);
            }
        })?;
        let removals = Orders::start("rejoin-removals", |tasks: Receiver<Removal>| {
            yield_to_others();
            tasks.into_iter().for_each(remove);
        })?;
        Ok(FileThreads {
            names,
            removals,
            named,
            wake,
        })
    }

    /// Gives a written file its name. `note`: what is to lie beside it, if the job has a name.
    pub fn name(&self, slot: usize, id: ImageId, file: PartialImage, note: Vec<u8>) {
        self.names.give(NameTask {
            slot,
            id,
            file,
            note,
        });
    }

    /// A file is needed no more in this launch. It stays if it is to outlive the managers.
    pub fn discard(&self, file: ImageFile) {
        if !matches!(file, ImageFile::Absent) {
            self.removals.give(Removal::Discard(file));
        }
    }

    /// Removes a file.
    pub fn remove(&self, file: StoredImage) {
        self.removals.give(Removal::Remove(file));
    }

    /// The next file that has its name, or gets none.
    pub fn next(&self) -> Option<NamedFile> {
        // An empty counter says so.
        let _ = self.wake.read();
        self.named.try_recv().ok()
    }
}

impl AsFd for FileThreads {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

fn name(task: NameTask) -> NamedFile {
    let NameTask {
        slot,
        id,
        file,
        note,
    } = task;
    let file = file.complete(&note).map_err(|e| system_text(&e));
    NamedFile { slot, id, file }
}

fn remove(task: Removal) {
    match task {
        Removal::Discard(file) => drop(file),
        Removal::Remove(file) => file.remove(),
    }
}

/// Gives this thread a lower priority: a quarter of a processor that a rank needs, too. With less,
/// files would be written faster than they are removed. Where the system refuses that, it has the
/// usual one.
fn yield_to_others() {
    // SAFETY: touches no memory. On Linux, 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::Epoch;
    use rejoin_ckpt::ImageNumber;
    use rejoin_ckpt::store::{BaseFiles, ImageFolder};
    use rejoin_managers_net::reactor::{Interest, Reactor, Token};
    use std::time::Duration;

    fn checkpoint(epoch: u32) -> ImageId {
        ImageId::Checkpoint(Epoch(epoch))
    }

    #[test]
    fn files_get_names_and_are_removed_in_the_order_of_the_orders() {
        let images =
            std::env::temp_dir().join(format!("rejoin-file-thread-{}", std::process::id()));
        let folder = ImageFolder::new(&images, 7, None).that_stays();
        let path = |id: u32| folder.path().join(format!("rank-0.epoch-{id}.image"));
        let thread = FileThreads::start().unwrap();
        let mut reactor = Reactor::new().unwrap();
        reactor
            .add(&thread, Token::single(3), Interest::READ)
            .unwrap();
        for id in [1, 2] {
            let file = folder
                .begin(0, ImageNumber::of_checkpoint(id), BaseFiles::default())
                .unwrap();
            thread.name(4, checkpoint(id), file, b"note".to_vec());
        }
        let (mut named, mut tokens) = (Vec::new(), Vec::new());
        while named.len() < 2 {
            let limit = Some(Duration::from_secs(20));
            reactor.wait(limit, &mut tokens).unwrap();
            assert!(!tokens.is_empty(), "the thread wakes the manager");
            named.extend(std::iter::from_fn(|| thread.next()));
        }
        let found: Vec<_> = named.iter().map(|n| (n.slot, n.id)).collect();
        assert_eq!(found, [(4, checkpoint(1)), (4, checkpoint(2))]);
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
        let thread = FileThreads::start().unwrap();
        let file = folder
            .begin(0, ImageNumber::of_checkpoint(1), BaseFiles::default())
            .unwrap();
        std::fs::remove_dir_all(&images).unwrap();
        thread.name(0, checkpoint(1), file, Vec::new());
        let named = std::iter::repeat_with(|| thread.next())
            .take(20_000)
            .find_map(|named| {
                std::thread::sleep(Duration::from_millis(1));
                named
            });
        assert!(named.expect("an answer").file.is_err());
    }
}
