//! Registered memory as a job's state: how all ranks agree on the stored and on the loaded state.
//!
//! The files are [`rejoin_device::regions`]'s; the ranks agree by allreduces over the world.

use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rejoin_channel_table::Epoch;
use rejoin_device::regions::{self, RefusedFile, Regions, Tag, Wanted};

use crate::coll::Allreduce;
use crate::datatype::{Datatype, Named};
use crate::error::{Error, ErrorClass, Result};
use crate::op::{Builtin, Op};
use crate::p2p::Typed;
use crate::runtime::Mpi;

/// The memory that the program of this process registered, by number. Usable before the runtime is
/// there.
#[derive(Debug, Default)]
pub struct Registered {
    memory: RefCell<Option<Regions>>,
    /// The checkpoint from which it was loaded.
    loaded: Cell<Option<u32>>,
}

impl Registered {
    /// No memory.
    pub const fn new() -> Self {
        Self {
            memory: RefCell::new(None),
            loaded: Cell::new(None),
        }
    }

    /// `length` bytes at `base` belong to the state from this call on, as number `id`.
    ///
    /// # Errors
    /// `Arg` when the number is taken or the memory overlaps other registered memory.
    ///
    /// # Safety
    /// The memory stays valid until it is unregistered, and nothing else writes to it during
    /// [`Mpi::checkpoint_state`] and [`Mpi::rejoin_state`].
    pub unsafe fn register(&self, id: u32, base: *mut u8, length: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        self.with(|regions| unsafe { regions.register(id, base, length) })
            .map_err(|error| Error::new(ErrorClass::Arg, error.to_string()))
    }

    /// Removes the memory of this number from the state. Returns whether there was any.
    pub fn unregister(&self, id: u32) -> bool {
        self.with(|regions| regions.unregister(id))
    }

    fn with<R>(&self, run: impl FnOnce(&mut Regions) -> R) -> R {
        run(self.memory.borrow_mut().get_or_insert_default())
    }

    /// 1 when there is any memory, otherwise 0.
    fn any(&self) -> u64 {
        self.with(|regions| u64::from(!regions.is_empty()))
    }
}

impl Mpi {
    /// Stores the registered memory of all ranks in the folder that the user named, together or not
    /// at all. If the job takes images of its processes, takes them now. Collective over the world.
    ///
    /// # Errors
    /// `Io` where a rank cannot store its memory; those of [`Mpi::checkpoint`].
    pub fn checkpoint_state(&self, registered: &Registered) -> Result<()> {
        let has_regions = self.maximum(registered.any())? == 1;
        if let Some(folder) = self.state_folder().filter(|_| has_regions) {
            self.store(registered, folder)?;
            if !self.takes_images() {
                return Ok(());
            }
        }
        self.checkpoint()
    }

    fn store(&self, registered: &Registered, folder: PathBuf) -> Result<()> {
        let rank = self.rank().0;
        let newest = regions::stored(&folder, rank).last().map_or(0, |s| s.0);
        let above = Epoch(self.maximum(u64::from(newest))? as u32);
        let mine = match rank {
            0 => self.regions_number(above)?,
            _ => Epoch(0),
        };
        let epoch = Epoch(self.maximum(u64::from(mine.0))? as u32);
        if epoch <= above {
            let (folder, above) = (folder.display(), above.0);
            let text = format!(
                "{folder} holds checkpoint {above} of another job, later than this one: name an \
                 empty folder"
            );
            return Err(Error::new(ErrorClass::Io, text));
        }
        let identity = self.identity();
        let tag = Tag {
            job: identity.job.0,
            rank,
            size: self.size(),
            generation: identity.generation.0,
            incarnation: identity.incarnation.0,
            epoch: epoch.0,
            build: concat!("Rejoin ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        let stored = registered.with(|regions| regions.store(&folder, &tag));
        let written = stored.as_ref().ok().map(|s| s.path.clone());
        if let Err(error) =
            self.all_succeeded(stored.map(drop), "store its registered memory in", &folder)
        {
            // A checkpoint that one rank could not store is no checkpoint of any.
            if let Some(path) = written {
                let _ = std::fs::remove_file(path);
            }
            return Err(error);
        }
        let before = self.commit_regions(epoch)?;
        // A process that is rolled back to a place before MPI_Rejoin loads the same again.
        let keep = [before.map(|before| before.0), registered.loaded.get()];
        let keep: Vec<u32> = keep.into_iter().flatten().collect();
        // An old file too many does no harm.
        let _ = regions::prune(&folder, rank, epoch.0, &keep);
        Ok(())
    }

    /// Loads the registered memory from the newest checkpoint that all ranks can use. Collective
    /// over the world in a job that was started with `--restart`.
    ///
    /// A process restored from an image is in the job before it runs again, so this call does
    /// nothing for it. A process that was restored to a place before this call gets the same answer
    /// as the first time.
    ///
    /// # Errors
    /// `NoSuchFile` without a checkpoint that all ranks can use, `Io` where a rank cannot load it.
    pub fn rejoin_state(&self, registered: &Registered) -> Result<()> {
        let from = self.state_folder().zip(self.restart_from());
        let Some((folder, newest)) = from else {
            // All ranks know this, so a rank that has moved may call alone.
            if registered.any() == 0 {
                return Ok(());
            }
            let text = "this job was not started with --images and --restart";
            return Err(Error::new(ErrorClass::NoSuchFile, text));
        };
        if self.maximum(registered.any())? == 0 {
            return Ok(());
        }
        let mut wanted = Wanted {
            job: None,
            rank: self.rank().0,
            size: self.size(),
            epoch: None,
        };
        let agreed = self.agree_on_state(registered, &folder, &wanted, newest)?;
        wanted.epoch = Some(agreed);
        let loaded = registered.with(|regions| regions.load(&folder, &wanted));
        self.all_succeeded(loaded.map(drop), "load its registered memory from", &folder)?;
        registered.loaded.set(Some(agreed));
        if newest < u32::MAX {
            forget_newer(&folder, wanted.rank, newest);
        }
        Ok(())
    }

    /// The number of the newest checkpoint, up to `limit`, that all ranks can use.
    fn agree_on_state(
        &self,
        registered: &Registered,
        folder: &Path,
        wanted: &Wanted,
        mut limit: u32,
    ) -> Result<u32> {
        loop {
            let (mine, refused) = registered.with(|regions| regions.newest(folder, wanted, limit));
            refused.iter().for_each(|refusal| self.report(refusal));
            let mine = mine.unwrap_or_default();
            let (least, most) = self.extremes(u64::from(mine.epoch))?;
            if least == 0 {
                let folder = folder.display();
                let text = format!("{folder} holds no checkpoint that all ranks can use");
                return Err(Error::new(ErrorClass::NoSuchFile, text));
            }
            limit = least as u32;
            if least < most {
                continue;
            }
            // Another job in the same folder may have stored as many.
            let (one, other) = self.extremes(mine.job)?;
            if one == other {
                return Ok(limit);
            }
            limit -= 1;
        }
    }

    /// The error of this rank, or one that names a rank which failed.
    fn all_succeeded(
        &self,
        result: std::result::Result<(), regions::RegionsError>,
        what: &str,
        folder: &Path,
    ) -> Result<()> {
        let mine = match result {
            Ok(()) => 0,
            Err(_) => u64::from(self.rank().0) + 1,
        };
        let failed = self.maximum(mine)?.checked_sub(1);
        let text = match (result, failed) {
            (Err(error), _) => error.to_string(),
            (Ok(()), Some(other)) => {
                let folder = folder.display();
                format!("rank {other} could not {what} {folder}")
            }
            (Ok(()), None) => return Ok(()),
        };
        Err(Error::new(ErrorClass::Io, text))
    }

    /// Tells the user of a file that is not used.
    fn report(&self, refusal: &RefusedFile) {
        let line = format!("rejoin: rank {}: not used: {refusal}\n", self.rank());
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    /// The smallest and the largest of all ranks' numbers.
    fn extremes(&self, mine: u64) -> Result<(u64, u64)> {
        let most = self.maximum(mine)?;
        // The smallest, as the largest of the differences to the highest number.
        let least = u64::MAX - self.maximum(u64::MAX - mine)?;
        Ok((least, most))
    }

    /// The largest of all ranks' numbers.
    fn maximum(&self, mine: u64) -> Result<u64> {
        let mut all = 0u64;
        let datatype = Datatype::named(Named::Uint64);
        // SAFETY: one number each, which live during the call.
        let (send, recv) = unsafe {
            let mine = (&raw const mine).cast_mut().cast();
            (
                Typed::new(mine, 1, datatype.clone()),
                Typed::new((&raw mut all).cast(), 1, datatype),
            )
        };
        let call = Allreduce {
            op: Op::builtin(Builtin::Max),
            send: Some(send),
            recv,
        };
        self.collective(self.world(), &call)?;
        Ok(all)
    }
}

/// Removes what was stored after the newest checkpoint from which the job may continue: it was not
/// committed, or a rollback has made it void, and the job repeats it.
fn forget_newer(folder: &Path, rank: u32, newest: u32) {
    let newer = regions::stored(folder, rank)
        .into_iter()
        .filter(|(epoch, _)| *epoch > newest);
    for (_, path) in newer {
        // A process that comes back to this place from an image has removed it already.
        let _ = std::fs::remove_file(path);
    }
}
