//! Opening, closing and deleting files (MPI-5.0 §14.2).

use std::cell::{Cell, RefCell};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::access_mode::AccessMode;
use super::agreement::{FileCall, agree, check_same};
use super::file_view::FileView;
use super::hints::{FileHints, HINT_BYTES};
use super::mpi_file::MpiFile;
use super::shared_pointer::SharedPointer;
use super::storage::{self, FileStorage, UndoneFiles};
use crate::check;
use crate::coll::{CallKind, CallState, Ctx, next_tag};
use crate::comm::Communicator;
use crate::error::{ErrorClass, Result};
use crate::info::Info;
use crate::runtime::Mpi;

/// Prefixes of names by which ROMIO chooses a file system: all files are the system's here.
const PREFIXES: [&[u8]; 6] = [b"ufs:", b"nfs:", b"xfs:", b"lustre:", b"gpfs:", b"testfs:"];

/// The path in a name of the program.
fn path_of(name: &Path) -> &Path {
    let bytes = name.as_os_str().as_bytes();
    let rest = PREFIXES
        .iter()
        .find_map(|prefix| bytes.strip_prefix(*prefix));
    rest.map_or(name, |rest| Path::new(std::ffi::OsStr::from_bytes(rest)))
}

/// `MPI_File_delete`.
///
/// # Errors
/// `NoSuchFile` and others, as the system says.
pub fn delete(name: &Path) -> Result<()> {
    storage::remove(path_of(name))
}

/// What rank 0 tells the others of an open file.
struct Opened {
    /// Size of the file in bytes.
    size: u64,
    /// With the job, the name of this open file: world rank and context id of rank 0, whose ids are
    /// its own; and number of the file.
    name: [u64; 2],
    hints: [u8; HINT_BYTES],
}

/// Bytes of [`Opened`] in a message.
const OPENED_BYTES: usize = 3 * 8 + HINT_BYTES;

impl Opened {
    fn encode(&self) -> [u8; OPENED_BYTES] {
        let mut bytes = [0; OPENED_BYTES];
        let words = [self.size, self.name[0], self.name[1]];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..].copy_from_slice(&self.hints);
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let word = |i: usize| {
            let all = bytes[8 * i..8 * i + 8].iter().rev();
            all.fold(0, |word, &byte| word << 8 | u64::from(byte))
        };
        let mut hints = [0; HINT_BYTES];
        hints.copy_from_slice(&bytes[24..OPENED_BYTES]);
        Self {
            size: word(0),
            name: [word(1), word(2)],
            hints,
        }
    }
}

/// A file that is open on all ranks.
struct OpenFile {
    storage: FileStorage,
    mode: AccessMode,
    hints: FileHints,
    shared: SharedPointer,
    /// Where pointers begin.
    start: i64,
}

/// Opens the file on rank 0, which makes it if the mode says so.
fn open_first(
    mpi: &Mpi,
    (path, mode): (&Path, AccessMode),
    hints: &FileHints,
    (context, is_mapped): (u32, bool),
    undone: Option<&UndoneFiles>,
) -> Result<(FileStorage, Opened)> {
    let storage = FileStorage::open(path, mode, true, hints.permissions, undone)?;
    let opened = Opened {
        size: storage.size()? as u64,
        name: [
            u64::from(mpi.rank().0) << 32 | u64::from(context),
            storage.identity()?.1,
        ],
        hints: hints.encode(),
    };
    // A rollback to before this call leaves one, and so may a file that was not closed.
    shared_pointer(mpi, &storage, opened.name, (is_mapped, 0), undone).remove()?;
    Ok((storage, opened))
}

/// The shared pointer of an open file of this name: whether it is in memory of one host, and where
/// it begins.
fn shared_pointer(
    mpi: &Mpi,
    storage: &FileStorage,
    name: [u64; 2],
    (is_mapped, start): (bool, i64),
    undone: Option<&UndoneFiles>,
) -> SharedPointer {
    let job = mpi.dev().identity().job;
    let key = format!("{:x}-{:x}-{:x}", job.0, name[0], name[1]);
    SharedPointer::new(storage.path(), &key, is_mapped, start, undone.cloned())
}

/// Opens the file on all ranks: on rank 0 first, so that only one makes it. `flags` are the ABI's.
async fn open_together(
    call: &FileCall<'_>,
    (name, flags): (Result<PathBuf>, i32),
    info: Result<Option<Rc<Info>>>,
    (context, undone): (u32, Option<&UndoneFiles>),
) -> Result<OpenFile> {
    let mpi = call.p2p().mpi();
    let mut hints = FileHints::default();
    let check = || {
        if let Some(info) = info? {
            hints.read(&info)?;
        }
        Ok((name?, AccessMode::new(flags)?))
    };
    let checked = check();
    let (name, mode) = agree(call, checked).await?;
    let path = path_of(&name);
    check_same(call, "the access mode", &flags.to_le_bytes()).await?;
    let is_mapped = are_on_one_host(call).await?;
    let pointer = (context, is_mapped);
    let first = (call.rank() == 0)
        .then(|| open_first(mpi, (path, mode), &hints, pointer, undone))
        .transpose();
    let (opened, mine) = agree(call, first).await?.unzip();
    let mine = mine.unwrap_or(Opened {
        size: 0,
        name: [0; 2],
        hints: hints.encode(),
    });
    let told = Opened::decode(&call.notify_all(&mine.encode()).await?);
    let storage = match opened {
        Some(storage) => Ok(storage),
        None => FileStorage::open(path, mode, false, 0, undone),
    };
    let storage = storage.and_then(|storage| {
        if call.size() > 1 && !storage.is_undone() {
            storage.share(told.size)?;
        }
        Ok(storage)
    });
    let storage = agree(call, storage).await?;
    hints.adopt(&told.hints);
    let start = match mode.has(AccessMode::APPEND) {
        true => told.size as i64,
        false => 0,
    };
    Ok(OpenFile {
        shared: shared_pointer(mpi, &storage, told.name, (is_mapped, start), undone),
        storage,
        mode,
        hints,
        start,
    })
}

/// Whether the ranks of the job began on one host, and those of the call are on one now.
async fn are_on_one_host(call: &FileCall<'_>) -> Result<bool> {
    let mpi = call.p2p().mpi();
    let mine = mpi.local_host();
    let hosts = call.notify_all(&mine).await?;
    let began_together = mpi.world().locality(mpi.locality()).count() == 1;
    Ok(began_together && hosts.chunks_exact(mine.len()).all(|theirs| theirs == mine))
}

/// `MPI_File_open`. Collective over `comm`: what is wrong with the arguments of one rank, all
/// ranks learn. `flags` are `MPI_MODE_…`, with the ABI's numbers.
///
/// # Errors
/// `Amode` for a wrong mode, `NotSame` if the ranks give different ones, and what the system
/// says; on all ranks.
pub fn open(
    mpi: &Mpi,
    comm: &Rc<Communicator>,
    name: Result<PathBuf>,
    flags: i32,
    info: Result<Option<Rc<Info>>>,
) -> Result<Rc<MpiFile>> {
    check::intra(comm)?;
    let own = mpi.comm_like(comm)?;
    let state = CallState::new(mpi);
    let call = Ctx::of_all(&own, next_tag(&own, CallKind::Blocking), &state);
    let began_together = mpi.world().locality(mpi.locality()).count() == 1;
    // A rank that returns alone repeats its writes, and others may have read them.
    let undone = (mpi.takes_images() && !mpi.repeats_answers()).then(|| UndoneFiles {
        job: mpi.rc(),
        outlive_host: !began_together,
    });
    let opening = open_together(&call, (name, flags), info, (own.id(), undone.as_ref()));
    let opened = state.wait(opening)?;
    Ok(Rc::new(MpiFile {
        mpi: mpi.rc(),
        comm: own,
        shared: opened.shared,
        storage: opened.storage,
        mode: opened.mode,
        hints: RefCell::new(Rc::new(opened.hints)),
        view: RefCell::new(Rc::new(FileView::of_bytes())),
        position: Cell::new(opened.start),
        is_atomic: Cell::new(false),
        split: RefCell::new(None),
    }))
}

/// `MPI_File_close`. Collective. The caller drops its reference then, and operations under way keep
/// theirs. After an error the file is still open.
///
/// # Errors
/// What the system says of the last sync and the removal of the file; on all ranks.
pub fn close(file: &MpiFile) -> Result<()> {
    let state = CallState::new(&file.mpi);
    let call = Ctx::of_all(&file.comm, next_tag(&file.comm, CallKind::Blocking), &state);
    let closing = async {
        // Nobody misses the bytes of a file that goes.
        let stays = !file.mode.has(AccessMode::DELETE_ON_CLOSE);
        let checked = file.check_no_split();
        let synced = checked.and_then(|()| if stays { file.storage.sync() } else { Ok(()) });
        agree(&call, synced).await?;
        let removed = match call.rank() {
            0 => remove_files(file),
            _ => Ok(()),
        };
        agree(&call, removed).await
    };
    state.wait(closing)
}

/// What rank 0 removes when all ranks have stopped to use the file.
fn remove_files(file: &MpiFile) -> Result<()> {
    file.shared.remove()?;
    if !file.mode.has(AccessMode::DELETE_ON_CLOSE) {
        return Ok(());
    }
    match storage::remove(file.storage.path()) {
        // The program has removed it, or it was open twice.
        Err(error) if error.class == ErrorClass::NoSuchFile => Ok(()),
        result => result,
    }
}
