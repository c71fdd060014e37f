//! Registered memory as a job's state, checkpoints that the program asks for, and the way back: this library's own
//! functions, not the standard's. Their errors go to the caller and to no handler.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rejoin_device::regions::{self, Refusal, Regions, Tag, Wanted};
use rejoin_mpi::{Error, ErrorClass, Mpi as Core, Result};

use crate::constants::*;
use crate::functions::collectives::forms;
use crate::state::Mpi;
use crate::support::arg_error;
use crate::types::*;

/// What the program registered.
#[derive(Debug, Default)]
pub struct Registered(RefCell<Option<Regions>>);

impl Registered {
    /// Nothing.
    pub const fn new() -> Self {
        Self(RefCell::new(None))
    }

    fn with<R>(&self, run: impl FnOnce(&mut Regions) -> R) -> R {
        run(self.0.borrow_mut().get_or_insert_default())
    }

    fn is_empty(&self) -> bool {
        self.with(|regions| regions.is_empty())
    }
}

/// `MPIX_Register_region`: `bytes` bytes at `base` belong to the state that is stored, under a number from 0. Allowed at
/// any time, also before `MPI_Init`.
///
/// # Safety
/// The memory stays valid until it is unregistered, and nothing else writes to it during `MPIX_Checkpoint` and
/// `MPI_Rejoin`.
pub unsafe fn x_register_region(
    mpi: &Mpi,
    id: c_int,
    base: *mut c_void,
    bytes: MPI_Count,
) -> Result<()> {
    let id = number(id)?;
    let length = usize::try_from(bytes)
        .map_err(|_| Error::new(ErrorClass::Count, format!("a region of {bytes} bytes")))?;
    if base.is_null() && length > 0 {
        return Err(Error::new(
            ErrorClass::Buffer,
            "the region's memory is null",
        ));
    }
    // SAFETY: the caller's.
    mpi.regions
        .with(|regions| unsafe { regions.register(id, base.cast(), length) })
        .map_err(|error| arg_error(error.to_string()))
}

/// `MPIX_Unregister_region`: the memory is the state's no more.
pub fn x_unregister_region(mpi: &Mpi, id: c_int) -> Result<()> {
    let id = number(id)?;
    match mpi.regions.with(|regions| regions.unregister(id)) {
        true => Ok(()),
        false => Err(arg_error(format!("region {id} is not registered"))),
    }
}

fn number(id: c_int) -> Result<u32> {
    u32::try_from(id).map_err(|_| arg_error(format!("{id} is no number of a region, from 0")))
}

/// `MPIX_Checkpoint`: with `mpirun --images DIR` the registered memory of all ranks is stored there, together or not at
/// all; where the job takes images of its processes, it takes them now. Collective over `MPI_COMM_WORLD`.
pub fn x_checkpoint(mpi: &Mpi) -> Result<()> {
    let core = mpi.core()?;
    let folder = core.state_folder();
    let has_regions = maximum(mpi, u64::from(!mpi.regions.is_empty()))? == 1;
    if let Some(folder) = folder.filter(|_| has_regions) {
        store(mpi, core, folder)?;
        if !core.takes_images() {
            return Ok(());
        }
    }
    core.checkpoint()
}

fn store(mpi: &Mpi, core: &Core, folder: PathBuf) -> Result<()> {
    let rank = core.rank().0;
    let newest = regions::stored(&folder, rank).last().map_or(0, |s| s.0);
    let epoch = maximum(mpi, u64::from(newest))?;
    let epoch = u32::try_from(epoch).ok().and_then(|e| e.checked_add(1));
    let epoch = epoch.ok_or_else(|| Error::new(ErrorClass::Io, "no number is left"))?;
    let identity = core.identity();
    let tag = Tag {
        job: identity.job.0,
        rank,
        size: core.size(),
        generation: identity.generation.0,
        incarnation: identity.incarnation.0,
        epoch,
        build: concat!("Rejoin ", env!("CARGO_PKG_VERSION")).to_owned(),
    };
    let stored = mpi.regions.with(|regions| regions.store(&folder, &tag));
    // What one rank could not store is no checkpoint of any.
    let failed = failing(mpi, stored.is_err())?;
    match (stored, failed) {
        (Err(error), _) => Err(Error::new(ErrorClass::Io, error.to_string())),
        (Ok(stored), Some(other)) => {
            let _ = std::fs::remove_file(stored.path);
            let folder = folder.display();
            let text = format!("rank {other} could not store its registered memory in {folder}");
            Err(Error::new(ErrorClass::Io, text))
        }
        (Ok(_), None) => {
            // An old file too many does no harm.
            let _ = regions::prune(&folder, rank, epoch);
            match core.takes_images() {
                true => core.has_stored(epoch),
                false => Ok(()),
            }
        }
    }
}

/// The smallest and the largest of all ranks' numbers.
fn extremes(mpi: &Mpi, mine: u64) -> Result<(u64, u64)> {
    let most = maximum(mpi, mine)?;
    // The smallest, as the largest of what is left above.
    let least = u64::MAX - maximum(mpi, u64::MAX - mine)?;
    Ok((least, most))
}

/// `MPI_Rejoin`: the registered memory gets what the newest checkpoint that all ranks can use has of it. Collective over
/// `MPI_COMM_WORLD`.
///
/// A process that came back from an image is in the job before it runs again, so there is nothing to do for it; and one
/// that comes back to a place before this call gets the same answer as it did the first time.
pub fn rejoin(mpi: &Mpi) -> Result<()> {
    let core = mpi.core()?;
    if maximum(mpi, u64::from(!mpi.regions.is_empty()))? == 0 {
        return Ok(());
    }
    let from = core.state_folder().zip(core.restart_from());
    let Some((folder, newest)) = from else {
        return Err(nothing(
            "this job was not started with --images and --restart",
        ));
    };
    let wanted = Wanted {
        job: None,
        rank: core.rank().0,
        size: core.size(),
        epoch: None,
    };
    let mut limit = newest;
    let agreed = loop {
        let (mine, refused) = mpi
            .regions
            .with(|regions| regions.newest(&folder, &wanted, limit));
        refused.iter().for_each(|refusal| tell(core, refusal));
        let mine = mine.unwrap_or_default();
        let (least, most) = extremes(mpi, u64::from(mine.epoch))?;
        if least == 0 {
            let text = format!(
                "{} holds no checkpoint that all ranks can use",
                folder.display()
            );
            return Err(nothing(text));
        }
        limit = least as u32;
        if least < most {
            continue;
        }
        // Another job in the same folder may have stored as many.
        let (one, other) = extremes(mpi, mine.job)?;
        if one == other {
            break limit;
        }
        limit -= 1;
    };
    let wanted = Wanted {
        epoch: Some(agreed),
        ..wanted
    };
    let loaded = mpi.regions.with(|regions| regions.load(&folder, &wanted));
    let failed = failing(mpi, loaded.is_err())?;
    match (loaded, failed) {
        (Err(error), _) => Err(Error::new(ErrorClass::Io, error.to_string())),
        (Ok(_), Some(other)) => {
            let folder = folder.display();
            let text = format!("rank {other} could not load its registered memory from {folder}");
            Err(Error::new(ErrorClass::Io, text))
        }
        (Ok(_), None) => {
            if newest < u32::MAX {
                forget_newer(&folder, core.rank().0, agreed);
            }
            Ok(())
        }
    }
}

/// Removes what was stored after the state that the job goes on from: that was never told of, and happens otherwise now.
fn forget_newer(folder: &Path, rank: u32, agreed: u32) {
    let newer = regions::stored(folder, rank)
        .into_iter()
        .filter(|(epoch, _)| *epoch > agreed);
    for (_, path) in newer {
        // Who comes back to this place from an image has removed it already.
        let _ = std::fs::remove_file(path);
    }
}

/// The last rank that failed, if any has.
fn failing(mpi: &Mpi, failed: bool) -> Result<Option<u64>> {
    let mine = match failed {
        true => u64::from(mpi.core()?.rank().0) + 1,
        false => 0,
    };
    Ok(maximum(mpi, mine)?.checked_sub(1))
}

/// `MPIX_Rejoin`: [`rejoin`] under the standard's prefix for extensions.
pub fn x_rejoin(mpi: &Mpi) -> Result<()> {
    rejoin(mpi)
}

fn nothing(text: impl Into<String>) -> Error {
    Error::new(ErrorClass::NoSuchFile, text.into())
}

/// The user is told of files that are not used.
fn tell(core: &Core, refusal: &Refusal) {
    let line = format!("rejoin: rank {}: not used: {refusal}\n", core.rank());
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The largest of what the ranks say.
fn maximum(mpi: &Mpi, mine: u64) -> Result<u64> {
    let mut all = 0u64;
    let (from, into) = ((&raw const mine).cast(), (&raw mut all).cast());
    // SAFETY: one number each, which live during the call.
    unsafe { forms::allreduce(mpi, from, into, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD) }?;
    Ok(all)
}
