//! A snapshot of the job that the driver may show.

use super::host_condition::HostView;
use super::host_views::host_views;
use super::job_state::Central;
use super::log_table::LogView;
use super::moves::MoveView;
use super::phase::CentralPhase;
use super::rank_table::RankView;
use crate::detector::HostWatch;
use crate::manager_messages::Time;
use crate::verdict::Verdict;
use rejoin_channel_table::{Epoch, Generation, Rank};
use serde::{Deserialize, Serialize};

/// How far the job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Course {
    /// Ranks start, or wait in `MPI_Init` for the others.
    Starting,
    /// Ranks are being rolled back to a checkpoint.
    Restoring,
    /// All ranks compute.
    Running,
    /// All ranks are in `MPI_Finalize` or behind it.
    Finalizing,
    /// Everything is being ended.
    Ending,
    /// Central was started again and asks how everything is.
    Resuming,
}

/// Work on images that may take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageWork {
    /// The files of a checkpoint's images are written.
    Files(Epoch),
    /// The files of a checkpoint's images are copied to partner hosts.
    Copies(Epoch),
    /// All ranks are made from the images of a checkpoint.
    Restore,
}

/// How far this work has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageProgress {
    /// What is done.
    pub work: ImageWork,
    /// Ranks for which it is done. It grows in at most 64 steps, because each is a message to
    /// mpirun.
    pub done: u32,
    /// All ranks.
    pub of: u32,
}

/// Steps in which [`ImageProgress::done`] grows.
const PROGRESS_STEPS: u32 = 64;

impl ImageProgress {
    fn new(work: ImageWork, done: u32, of: u32) -> ImageProgress {
        let step = of.div_ceil(PROGRESS_STEPS).max(1);
        let done = done / step * step;
        ImageProgress { work, done, of }
    }
}

/// The job at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// Generation of the job.
    pub generation: Generation,
    /// How far it has come.
    pub course: Course,
    /// Failures are masked.
    pub recovers: bool,
    /// The checkpoint under way.
    pub pending: Option<Epoch>,
    /// The newest committed checkpoint, and when it was committed.
    pub committed: Option<(Epoch, Time)>,
    /// The newest checkpoint in files, and when it was committed in memory.
    pub in_files: Option<(Epoch, Time)>,
    /// The newest checkpoint on partner hosts, and when it was committed in memory. `None` also
    /// where no copies are made.
    pub on_partners: Option<(Epoch, Time)>,
    /// The newest committed checkpoint of registered memory.
    pub regions: Option<Epoch>,
    /// Work on images that is under way.
    pub progress: Option<ImageProgress>,
    /// What the logs of all ranks hold together, with message logging.
    pub log: Option<LogView>,
}

impl Central {
    /// The hosts as they are now, in their order.
    #[must_use]
    pub fn host_views(&self) -> Vec<HostView> {
        host_views(&self.cluster, &self.terms)
    }

    /// When the driver must send [`CentralInput::Tick`](super::CentralInput::Tick) at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let of_phase = match &self.course.phase {
            CentralPhase::Over => return None,
            CentralPhase::Ending => return self.course.end.drop_at(),
            CentralPhase::Resuming(resuming) => {
                let of_job = earlier(self.course.clock.limit_at(), self.silence_due());
                return earlier(of_job, resuming.due());
            }
            _ if self.returns.lost_hosts.is_pending() => return self.course.clock.limit_at(),
            CentralPhase::Running => {
                let checkpoints = self.commits.checkpoints();
                let begins = checkpoints.filter(|_| self.course.begins_files(&self.moves));
                let copies = begins.and_then(|c| c.copies_due_at());
                let moves = self.moves.deadline();
                earlier(
                    moves,
                    earlier(copies, checkpoints.and_then(|c| c.deadline())),
                )
            }
            CentralPhase::Finalizing => self.commits.checkpoints().and_then(|c| c.deadline()),
            _ => self.returns.losses.deadline(),
        };
        let of_job = earlier(self.course.clock.limit_at(), self.silence_due());
        let of_job = earlier(of_job, self.returns.held_due(&self.cluster));
        let of_job = earlier(of_job, self.commits.logs.due());
        earlier(earlier(of_job, self.course.stop_due()), of_phase)
    }

    /// When some host may count as silent, or an answer of one is overdue.
    fn silence_due(&self) -> Option<Time> {
        let watch = self.watch.as_ref().and_then(HostWatch::deadline);
        earlier(self.cluster.hosts.silence_due(), watch)
    }

    /// The verdict, once it is given.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        self.course.end.verdict()
    }

    /// The last signal that asked the ranks to end.
    #[must_use]
    pub fn interrupted(&self) -> Option<i32> {
        self.course.end.interrupted()
    }

    /// The job as it is now.
    #[must_use]
    pub fn view(&self) -> JobView {
        let checkpoints = self.commits.checkpoints();
        let epochs = checkpoints.map(|c| c.epochs()).unwrap_or_default();
        let timed = |epoch: Option<Epoch>| Some((epoch?, checkpoints?.committed_at(epoch?)?));
        JobView {
            generation: self.cluster.ranks.generation(),
            course: match self.course.phase {
                CentralPhase::Starting => Course::Starting,
                CentralPhase::Resuming(_) => Course::Resuming,
                CentralPhase::Restoring(_) => Course::Restoring,
                CentralPhase::Running => Course::Running,
                CentralPhase::Finalizing | CentralPhase::Finalized => Course::Finalizing,
                CentralPhase::Ending | CentralPhase::Over => Course::Ending,
            },
            recovers: checkpoints.is_some(),
            pending: checkpoints.and_then(|c| c.pending()),
            committed: timed(epochs.memory),
            in_files: timed(epochs.file),
            on_partners: timed(epochs.partner.filter(|_| self.cluster.has_partners())),
            regions: self.commits.regions.epochs().newest,
            progress: self.progress(),
            log: self.commits.logs.sums(),
        }
    }

    fn progress(&self) -> Option<ImageProgress> {
        let of = self.cluster.ranks.count();
        match &self.course.phase {
            CentralPhase::Restoring(restore) => restore.epoch.map(|_| {
                let back = self.cluster.ranks.registered_count();
                ImageProgress::new(ImageWork::Restore, back, of)
            }),
            CentralPhase::Running | CentralPhase::Finalizing => {
                let checkpoints = self.commits.checkpoints()?;
                let files = checkpoints.files_under_way();
                let files = files.map(|(epoch, whole)| (ImageWork::Files(epoch), whole));
                let copies = checkpoints.copies_under_way();
                let copies = copies.map(|(epoch, whole)| (ImageWork::Copies(epoch), whole));
                let (work, whole) = files.or(copies)?;
                Some(ImageProgress::new(work, whole, of))
            }
            _ => None,
        }
    }

    /// The ranks that are on their way, as they are now.
    #[must_use]
    pub fn move_views(&self, now: Time) -> Vec<MoveView> {
        self.moves.views(now)
    }

    /// The ranks as they are now, in their order.
    pub fn ranks(&self) -> impl Iterator<Item = RankView> {
        let checkpoints = self.commits.checkpoints();
        let image = move |rank| checkpoints.and_then(|c| c.image_of(rank));
        let views = self.cluster.ranks.views(image);
        (0..).map(Rank).zip(views).map(|(rank, view)| RankView {
            log: self.commits.logs.of(rank),
            ..view
        })
    }
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    one.into_iter().chain(other).min()
}
