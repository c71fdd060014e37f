//! Process images of this host's ranks as files, and processes made from them.

use super::image_note::ImageNote;
use crate::launch::launch_plan::LaunchPlan;
use crate::launch::named_job;
use rejoin_channel_table::{Epoch, Generation, ImageId, Incarnation, Rank};
use rejoin_ckpt::image::{ImageCompression, ImageIdentity};
use rejoin_ckpt::store::{BaseFiles, FolderClaim, ImageFolder, PartialImage, StoredImage};
use rejoin_managers_host::error::system_text;
use rejoin_managers_host::run_dir;
use rejoin_managers_protocol::manager_messages::KeptFile;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that makes a process of a file, seen from the folder of this program.
const RESTARTER: &str = "../libexec/rejoin/rejoin-restarter";

/// The files of this host's ranks.
pub struct ImageStore {
    folder: ImageFolder,
    /// No other host sees it, and its files outlive this manager if the job continues on others.
    is_own: bool,
    /// Held as long as this manager lives. A later one removes what was left behind without it.
    claim: Option<FolderClaim>,
    compression: ImageCompression,
    /// Of a job that can be restarted from the checkpoint before the newest, too.
    in_files: Option<InFiles>,
    restarter: PathBuf,
    job: u64,
    size: u32,
    /// By slot.
    ranks: Vec<u32>,
}

/// The last two checkpoints that were committed in files.
#[derive(Default)]
struct InFiles {
    newest: Option<Epoch>,
    before: Option<Epoch>,
}

impl ImageStore {
    /// Of the ranks of a plan in the order of their slots, if the user wants files. The error is
    /// for the user: there will be none.
    pub fn of(plan: &LaunchPlan) -> Result<Option<ImageStore>, String> {
        let options = &plan.options;
        let (Some(_), Some(place)) = (&options.images, &plan.images) else {
            return Ok(None);
        };
        let images = Path::new(&place.folder);
        if place.is_default {
            run_dir::make_private(images).map_err(|error| error.to_string())?;
        }
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let here = program.parent().unwrap_or(Path::new("/"));
        let restarter = here.join(RESTARTER);
        if !restarter.is_file() {
            return Err(format!("there is no {}", restarter.display()));
        }
        let host = nix::unistd::gethostname().unwrap_or_default();
        let host = host.to_string_lossy();
        let mut folder = ImageFolder::new(images, plan.job.0, plan.name.as_deref());
        let is_shared = |claim: &String| folder.has_claim(claim);
        let is_shared = plan.claim.as_ref().is_some_and(is_shared);
        let is_own = plan.copies && !is_shared;
        if is_shared || is_own {
            folder = folder.that_stays();
        } else if plan.name.is_some() {
            let shown = folder.path().display();
            return Err(format!("{shown} is not the folder that mpirun sees"));
        }
        let removed = folder.remove_abandoned(&host);
        if removed > 0 {
            tracing::info!(removed, "folders of jobs whose managers were killed");
        }
        let claim = folder.claim(&host);
        Ok(Some(ImageStore {
            claim: Some(claim.map_err(|error| format!("{}: {error}", images.display()))?),
            folder,
            is_own,
            compression: plan.compression,
            in_files: named_job::keeps_two(plan).then_some(InFiles {
                newest: plan.from,
                before: None,
            }),
            restarter,
            job: plan.job.0,
            size: plan.size,
            ranks: plan.ranks.iter().map(|(rank, _)| rank.0).collect(),
        }))
    }

    /// A rank of a lost host is on this one, in the next slot.
    pub fn take_in(&mut self, rank: Rank) {
        self.ranks.push(rank.0);
    }

    /// The file for the image of a rank's incarnation, and what it is to say of the image. It may
    /// refer to the bases.
    ///
    /// # Errors
    /// The system's reason why there is no file.
    pub fn begin(
        &self,
        slot: usize,
        id: ImageId,
        generation: Generation,
        incarnation: Incarnation,
        bases: BaseFiles,
    ) -> io::Result<(PartialImage, ImageIdentity)> {
        let identity = ImageIdentity {
            job: self.job,
            generation: generation.0,
            number: id.parts().into(),
            rank: self.ranks[slot],
            incarnation: incarnation.0,
            size: self.size,
        };
        let file = self.folder.begin(identity.rank, identity.number, bases)?;
        Ok((file, identity))
    }

    /// The file of a rank's image from which this job continues, and what the manager that wrote
    /// it knew of the image.
    ///
    /// # Errors
    /// The reason why it is of no use, for the user.
    pub fn load(&self, slot: usize, id: ImageId) -> Result<(StoredImage, ImageNote), String> {
        let said = |e: io::Error| format!("its image of {id}: {}", system_text(&e));
        let found = self.folder.find(self.ranks[slot], id.parts().into());
        let image = found.map_err(said)?;
        let note = image.note().map_err(said)?;
        let note = ImageNote::decode(&note)
            .map_err(|why| format!("its image of {id}: {}: {why}", image.path().display()))?;
        Ok((image, note))
    }

    /// Starts a process from a file: its number, and the socket to it.
    ///
    /// # Errors
    /// The system's reason why it does not start.
    pub fn restart(
        &self,
        slot: usize,
        id: ImageId,
        image: &StoredImage,
    ) -> io::Result<(u32, OwnedFd)> {
        self.start_restarter((self.ranks[slot], id), image.path(), false)
    }

    /// Starts a restarter for this image of a rank: its number, and the socket to it. `waits`: it
    /// loads the image, and then waits for later ones.
    ///
    /// # Errors
    /// The system's reason why it does not start.
    pub fn start_restarter(
        &self,
        (rank, id): (u32, ImageId),
        path: &Path,
        waits: bool,
    ) -> io::Result<(u32, OwnedFd)> {
        let (epoch, step) = id.parts();
        let (ours, theirs) = UnixStream::pair()?;
        let mut restarter = Command::new(&self.restarter);
        restarter
            .arg(path)
            // Its standard input is the socket.
            .args(["0", &self.job.to_string()])
            .args([rank, epoch, step].map(|number| number.to_string()))
            .args(waits.then_some("wait"))
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        // The manager reaps it as it does all its children.
        let child = restarter.spawn()?;
        Ok((child.id(), ours.into()))
    }

    /// This checkpoint is the newest in files.
    pub fn committed(&mut self, file: Option<Epoch>) {
        if let Some(in_files) = &mut self.in_files
            && file > in_files.newest
        {
            in_files.before = std::mem::replace(&mut in_files.newest, file);
        }
    }

    /// Whether the file of an image stays that does not count any more: the job can be restarted
    /// from it if a newer one is damaged. mpirun removes it later.
    pub fn keeps(&self, id: ImageId) -> bool {
        let before = self.in_files.as_ref().and_then(|two| two.before);
        before.is_some_and(|before| id == ImageId::Checkpoint(before))
    }

    /// How pages are compressed in the files.
    pub fn compression(&self) -> ImageCompression {
        self.compression
    }

    /// The folder.
    pub fn folder(&self) -> &ImageFolder {
        &self.folder
    }

    /// The name of this manager's claim in the folder.
    pub fn claim(&self) -> Option<String> {
        self.claim.as_ref().map(FolderClaim::name)
    }

    /// Removes a copy of a file of another host's rank, or a parity.
    pub fn remove_copy(&self, file: KeptFile) {
        let (rank, number) = (file.rank.0, file.image.parts());
        let found = match file.is_parity {
            true => self.folder.find_parity(rank, number.0),
            false => self.folder.find(rank, number.into()),
        };
        // At once: another thread may make the same copy anew.
        if let Ok(copy) = found {
            copy.remove();
        }
    }

    /// This manager ends. `keeps_files`: the job may go on without this host, and the folder is
    /// this host's own.
    pub fn leave_folder(mut self, keeps_files: bool) {
        if self.is_own {
            let left = match keeps_files {
                true => self.folder.keep(),
                false => self.folder.clear(&[]),
            };
            if let Err(error) = left {
                tracing::warn!(%error, "files of images");
            }
        }
        self.claim = None;
        self.folder.remove_if_empty();
    }
}
