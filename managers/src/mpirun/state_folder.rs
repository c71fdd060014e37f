//! A job that loses a host continues on the others, from what its ranks stored in a folder of all
//! hosts: images of their processes, or memory that the program registered. Central decides on
//! that. This module finds the states from which the job can continue.
//!
//! If only committed output is shown, the job continues from the state of the shown output, not
//! from a newer one. Later output was not shown, and is written again.

use super::job_streams::Show;
use super::launch_order::Launch;
use crate::launch::launch_plan::LaunchPlan;
use crate::launch::machines::Machines;
use rejoin_channel_table::{Epoch, MoveNumber, Rank};
use rejoin_ckpt::regions::{self, JobClaim};
use rejoin_ckpt::store::{FolderClaim, ImageFolder};
use rejoin_managers_host::error::{Error, Result};
use rejoin_managers_host::{images_folder, run_dir};
use rejoin_managers_protocol::central::{CopyGroups, FormerHosts, HostIndex};
use rejoin_managers_protocol::region_commits::RegionEpochs;
use rejoin_managers_report::user_log::listed;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder of a job's registered memory, if the job may start anew with it.
#[derive(Debug)]
pub(super) struct StateFolder {
    folder: Option<PathBuf>,
    /// The job may continue without a lost host.
    is_prepared: bool,
    /// The files of process images, if all hosts may see them.
    images: Option<ImageFolder>,
    /// Another host has a copy of each file before its checkpoint counts, or sees it.
    are_copied: bool,
    /// Hosts of which another one keeps the parity of the files; 1 for copies.
    copy_group: usize,
    /// Where ranks were at earlier checkpoints.
    former_hosts: FormerHosts,
    /// The checkpoint from whose files this launch began, or continued on other hosts.
    from: Option<Epoch>,
    ranks: u32,
    /// The present launch began from a stored state.
    restarted: bool,
    /// The newest state that it can have begun from.
    began_from: Option<Epoch>,
    /// Only output is shown that stays.
    exact: bool,
}

/// The checkpoints at which this rank has stored registered memory.
fn stored(folder: &Path, rank: u32) -> BTreeSet<Epoch> {
    let stored = regions::stored(folder, rank);
    stored.into_iter().map(|(epoch, _)| Epoch(epoch)).collect()
}

/// The newest checkpoint up to `limit` for which every rank has a file of registered memory, for a
/// launch that begins from such files. Whether they are whole, the ranks find out.
fn newest_of_all(folder: &Path, ranks: u32, limit: Epoch) -> Option<Epoch> {
    let mut common = stored(folder, 0);
    for rank in 1..ranks {
        if common.is_empty() {
            return None;
        }
        let own = stored(folder, rank);
        common.retain(|epoch| own.contains(epoch));
    }
    common.range(..=limit).next_back().copied()
}

/// The highest number of registered memory in the folder. Checkpoints of this job get higher ones.
pub(super) fn highest(launch: &Launch) -> Epoch {
    let Some(folder) = &launch.plan.options.folder else {
        return Epoch(0);
    };
    let highest = regions::highest(Path::new(folder));
    Epoch(highest.unwrap_or_default())
}

impl StateFolder {
    /// The state folder of this launch.
    pub fn of(launch: &Launch) -> StateFolder {
        let options = &launch.plan.options;
        let folder = options.folder.as_ref().map(PathBuf::from);
        let recovers = launch.recovery.is_some() && launch.machines.is_networked();
        let limit = launch.recovery.map_or(0, |r| r.limit.restarts);
        let may_follow = recovers && launch.launch < limit;
        let folder = folder.filter(|_| may_follow);
        let began_from = folder.as_ref().filter(|_| options.restart);
        let at_most = Epoch(options.newest.unwrap_or(u32::MAX));
        let plan = &launch.plan;
        let has_images = plan.claim.is_some() || plan.copies;
        let images = plan.images.as_ref().filter(|_| may_follow);
        StateFolder {
            is_prepared: folder.is_some() || images.is_some(),
            images: images
                .filter(|_| has_images)
                .map(|place| image_folder(plan, Path::new(&place.folder))),
            began_from: began_from
                .and_then(|folder| newest_of_all(folder, launch.plan.size, at_most)),
            are_copied: are_copied(launch),
            copy_group: plan.copy_group as usize,
            former_hosts: FormerHosts::default(),
            from: plan.from,
            restarted: options.restart,
            ranks: launch.plan.size,
            exact: launch.show == Show::Commit,
            folder,
        }
    }

    /// Ranks of lost hosts continue on other hosts from the images of this checkpoint, or anew.
    /// `returned`: only these ranks have rolled back.
    pub fn moved(&mut self, launch: &Launch, from: Option<Epoch>, returned: Option<&[Rank]>) {
        self.rolled_back(from.unwrap_or_default(), returned);
        self.from = from;
        self.are_copied = are_copied(launch);
    }

    /// A rank has moved away from this host, with its image of this number.
    pub fn has_moved(&mut self, number: MoveNumber, rank: Rank, from: HostIndex) {
        self.former_hosts.add(rank, number.after, from);
    }

    /// The job has rolled back to this checkpoint, or these ranks of it, while others stand.
    pub fn rolled_back(&mut self, epoch: Epoch, returned: Option<&[Rank]>) {
        let all = || (0..self.ranks).map(Rank).collect::<Vec<Rank>>();
        match returned {
            None => self.former_hosts.roll_back(&all(), epoch),
            Some(ranks) => self.former_hosts.roll_back(ranks, epoch),
        }
    }

    /// The job may continue without a lost host; whether this launch began from a stored state.
    pub fn is_prepared(&self) -> Option<bool> {
        self.is_prepared.then_some(self.restarted)
    }

    /// Whether the job can continue without these hosts from the images of this checkpoint, which
    /// is committed in files.
    pub fn images(&self, epoch: Epoch, machines: &Machines, lost: &[HostIndex]) -> bool {
        let Some(folder) = self.images.as_ref() else {
            return false;
        };
        let placement = self.former_hosts.placement_at(epoch, &machines.placement);
        let groups = CopyGroups::new(&placement, self.copy_group);
        let have_copies = groups.outlive(lost);
        // Of the files from which this launch began or continued there may be one each.
        if self.are_copied && have_copies && self.from != Some(epoch) {
            return true;
        }
        let whole = folder.complete_epochs(self.ranks);
        whole.is_ok_and(|whole| whole.contains(&epoch.0))
    }

    /// Why the job can't continue without this host, if files of images might have let it. `epoch`:
    /// the newest checkpoint that outlives hosts.
    pub fn missing(
        &self,
        epoch: Option<Epoch>,
        machines: &Machines,
        lost: HostIndex,
    ) -> Option<String> {
        self.images.as_ref()?;
        let placement = match epoch {
            Some(epoch) => self.former_hosts.placement_at(epoch, &machines.placement),
            None => machines.placement.clone(),
        };
        let ranks = placement.iter().zip(0u32..);
        let ranks = ranks
            .filter(|(host, _)| **host == lost)
            .map(|(_, rank)| rank);
        let who = listed(ranks);
        Some(match (epoch, self.are_copied) {
            (None, true) => format!(
                "the job can't continue on other hosts: there are no copies of the images of ranks {who} there"
            ),
            (Some(epoch), true) => format!(
                "the job can't continue on other hosts: copies of images of checkpoint {epoch} are missing there, \
                 which ranks {who} need"
            ),
            (_, false) => "the job can't continue on other hosts: the folder of images has no checkpoint of all \
                 ranks"
                .into(),
        })
    }

    /// The checkpoint of registered memory from which the job would continue: one of the committed
    /// ones, or that from which this launch began. `shown`: output up to this one was shown.
    pub fn regions(&self, committed: RegionEpochs, shown: Option<Epoch>) -> Option<Epoch> {
        let folder = self.folder.as_ref()?;
        let known = committed.newest_first().chain(self.began_from);
        let exact = shown.or(self.began_from);
        let mut usable = known.filter(|epoch| !self.exact || Some(*epoch) == exact);
        usable.find(|epoch| (0..self.ranks).all(|rank| stored(folder, rank).contains(epoch)))
    }
}

/// Files of images have copies on other hosts.
fn are_copied(launch: &Launch) -> bool {
    launch.plan.copies && !groups(launch).stripes().is_empty()
}

/// Which host keeps what of which files.
fn groups(launch: &Launch) -> CopyGroups {
    CopyGroups::new(&launch.machines.placement, launch.plan.copy_group as usize)
}

/// The folder of the job's process images.
fn image_folder(plan: &LaunchPlan, images: &Path) -> ImageFolder {
    ImageFolder::new(images, plan.job.0, plan.name.as_deref())
}

/// The files of process images that outlive the managers: those of a job with a name, and of one
/// that may lose a host. Files of a job without a name are removed with this value.
pub(super) struct SharedImages {
    folder: ImageFolder,
    is_named: bool,
    claim: Option<FolderClaim>,
}

impl SharedImages {
    /// Makes the folder, and tells the local managers by what they recognize it. `None`: images do
    /// not outlive the managers, or this host can't have the folder.
    pub fn of(launch: &mut Launch) -> Option<SharedImages> {
        let plan = &launch.plan;
        let place = plan.images.as_ref()?;
        let images = Path::new(&place.folder);
        let is_named = plan.name.is_some();
        let is_networked = launch.machines.is_networked();
        if !(is_named || is_networked) || launch.recovery.is_none() {
            return None;
        }
        let folder = image_folder(plan, images);
        let made = match place.is_default {
            true => run_dir::make_private(images),
            false => Ok(()),
        };
        launch.plan.copies = is_networked && !is_named;
        made.ok()?;
        let host = nix::unistd::gethostname().unwrap_or_default();
        let claim = folder.claim(&host.to_string_lossy()).ok()?;
        launch.plan.claim = Some(claim.name());
        Some(SharedImages {
            folder,
            is_named,
            claim: Some(claim),
        })
    }
}

impl Drop for SharedImages {
    fn drop(&mut self) {
        if !self.is_named {
            // What can't be removed does no harm.
            let _ = self.folder.clear(&[]);
        }
        self.claim = None;
        self.folder.remove_free_claims();
        self.folder.remove_if_empty();
    }
}

/// Says for as long as the value lives that the job may store registered memory in the folder of
/// `--images`. The first job that does so has the folder for its own: other jobs may have images of
/// their processes there, and store no registered memory.
///
/// # Errors
/// This process can't write there, or the job is to continue from the states of a job that lives,
/// or of one of another size.
pub(super) fn claim(launch: &Launch) -> Result<Option<JobClaim>> {
    let options = &launch.plan.options;
    let Some(folder) = options.folder.as_ref() else {
        return Ok(None);
    };
    let (path, job) = (Path::new(folder), launch.plan.job.0);
    let machines = &launch.machines;
    let mut used = (0..machines.hosts.len()).filter(|&host| machines.ranks_on(host) > 0);
    if used.any(|host| !machines.is_remote(host)) {
        images_folder::try_to_write(folder).map_err(Error::Usage)?;
    } else {
        // Made for the claim; other hosts say themselves why they can't write there.
        let _ = std::fs::create_dir_all(folder);
    }
    if options.restart {
        if regions::is_of_other(path, job) {
            let why =
                format!("--restart: a job that runs stores its registered memory in {folder}");
            return Err(Error::Usage(why));
        }
        check_size(folder, launch.plan.size)?;
    }
    match JobClaim::new(path, job) {
        Err(error) if error.kind() == ErrorKind::ResourceBusy => Err(Error::Usage(format!(
            "--images {folder}: the job runs already, or its files are being removed"
        ))),
        claim => Ok(claim.ok()),
    }
}

/// Refuses to continue from states of a job of another size. No rank could load them, so the
/// program would begin anew and overwrite them.
fn check_size(folder: &str, size: u32) -> Result<()> {
    let sizes = regions::job_sizes(Path::new(folder), 0);
    match sizes.last() {
        Some(stored) if !sizes.contains(&size) => Err(Error::Usage(format!(
            "--restart: {folder} holds the states of a job of size {stored}, and this job has size {size}. \
             Start it with -n {stored}, or leave out --restart to begin anew and overwrite the states"
        ))),
        _ => Ok(()),
    }
}
