//! The end of a launch: of the job, or because the checkpoint to begin from is damaged. From which
//! states a job can continue that has lost a host.

use super::Launcher;
use super::launch_order::Launch;
use crate::launch::linked_mpi::linked_mpi;
use crate::saved_images;
use rejoin_channel_table::{Epoch, Generation};
use rejoin_managers_host::error::{Result, system_text};
use rejoin_managers_protocol::central::{CentralInput, HostIndex, StoredState};
use rejoin_managers_protocol::manager_messages::Cause;
use rejoin_managers_protocol::region_commits::RegionEpochs;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_managers_report::user_log;
use rejoin_managers_stdio::sink::SinkLost;
use std::cmp::Reverse;
use std::time::Duration;

/// After the job has ended by time limit or signal, mpirun waits this long for a reader of its
/// output that takes nothing more. After other ends it waits without limit.
const READER_LIMIT: Duration = Duration::from_secs(2);

/// Processes begin anew, and read standard input.
pub(super) const LOST_INPUT: &str = "What was read of standard input is too much to be given again: only the rest of it \
                                     is";

impl Launcher {
    /// From what the job could continue without these hosts, the newest first. `regions`: the
    /// checkpoints of registered memory that count.
    fn stored_states(&self, lost: &[HostIndex], regions: RegionEpochs) -> Vec<StoredState> {
        let outlives = self.streams.outlives_hosts();
        let machines = &self.launch.machines;
        let images = outlives.filter(|&epoch| self.state_folder.images(epoch, machines, lost));
        let shown = self.streams.shown_regions();
        let regions = self.state_folder.regions(regions, shown);
        let images = images.map(StoredState::Images);
        let states = [images, regions.map(StoredState::Regions)];
        let mut states: Vec<_> = states.into_iter().flatten().collect();
        states.sort_by_key(|state| match state {
            StoredState::Images(epoch) | StoredState::Regions(epoch) => Reverse(*epoch),
        });
        states
    }

    /// Says what was missing for the job to continue without a host whose loss ends it.
    pub(super) fn say_missing(&self, verdict: &Verdict) {
        let Verdict::HostLost { host, .. } = verdict else {
            return;
        };
        let machines = &self.launch.machines;
        let lost = machines.hosts.iter().position(|one| one.name == *host);
        let epoch = self.streams.outlives_hosts();
        let missing = lost.and_then(|lost| self.state_folder.missing(epoch, machines, lost));
        if let Some(line) = missing {
            user_log::say(&line);
        }
    }

    /// Names a program that is linked with an MPI library, and whose ranks have not called that of
    /// this job.
    pub(super) fn say_unused(&self) {
        let plan = &self.launch.plan;
        if self.central.has_run() || plan.size < 2 {
            return;
        }
        if let Some((program, library)) = plan.programs.iter().find_map(linked_mpi) {
            user_log::say(&format!(
                "no rank has called MPI_Init of Rejoin's library. {program} is linked with {library}: if that is \
                 another MPI's, each rank has run as a job of its own. Build the program with Rejoin's mpicc, or \
                 for the MPI standard ABI (libmpi_abi.so.1). One that was built with Open MPI or MPICH runs \
                 unchanged, behind a wrapper with --abi openmpi or --abi mpich, if no RPATH of its own leads \
                 to the other library"
            ));
        }
    }

    /// The job is over, its last output has come and was written.
    pub(super) fn finished(&mut self) -> Option<Verdict> {
        let open = self.hosts.any_open();
        let (verdict, since) = self.central.over()?;
        let impatient = matches!(
            verdict,
            Verdict::TimedOut { .. } | Verdict::Interrupted { .. }
        );
        let is_late = impatient && since.elapsed() > READER_LIMIT;
        if !open {
            match verdict {
                Verdict::Stopped { epoch } => self.streams.stopped(*epoch),
                _ => self.streams.release(),
            }
        }
        let done = !open && self.streams.is_written();
        (done || is_late).then(|| verdict.clone())
    }

    /// Central has asked from which stored states the job can continue without the lost hosts.
    pub(super) fn answer_stored(&mut self) {
        let Some(regions) = self.central.wants_stored() else {
            return;
        };
        // Also those that have no ranks any more, and have had some.
        let hosts = 0..self.launch.machines.hosts.len();
        let lost: Vec<HostIndex> = hosts.filter(|host| !self.hosts.is_open(*host)).collect();
        let states = self.stored_states(&lost, regions);
        let regions = states.iter().find_map(|state| match state {
            StoredState::Regions(epoch) => Some(*epoch),
            StoredState::Images(_) => None,
        });
        if let Some(epoch) = regions {
            self.streams.may_continue_from(epoch);
        }
        self.central.notify(CentralInput::Stored(states));
    }

    /// The launch after this one, which began from a damaged checkpoint: it begins from the one
    /// before. Files of the damaged one stay until another is committed.
    pub(super) fn fall_back(
        &mut self,
        verdict: &Verdict,
        (from, why): &(Epoch, String),
    ) -> Option<Launch> {
        let before = self.launch.before?;
        if let Some(Err(why)) = self.named.as_mut().map(|named| named.falls_back(before)) {
            tracing::warn!(why, "the record of the job");
        }
        let mut next = self.launch.clone();
        (next.plan.from, next.before) = (Some(before), None);
        next.stop = self.launch.stop.of_next_launch();
        next.generation = Generation(self.central.view().generation.0 + 1);
        next.launch += 1;
        next.consumed = self.streams.consumed();
        let mut text = format!(
            "checkpoint {from} can't be used ({why}); the job is launched again from checkpoint {before}, \
             the one before it. What the job has written since then appears again"
        );
        if next.consumed.is_lost() {
            text = format!("{text}. {LOST_INPUT}");
        }
        user_log::say(&text);
        let events = &mut self.observers.events;
        events.verdict("relaunched", next.generation.0, verdict);
        Some(next)
    }

    /// Why the job has ended with this verdict, if that is damage of the image from which a rank
    /// was to begin, and the checkpoint of the image.
    pub(super) fn damage(&self, verdict: &Verdict) -> Option<(Epoch, String)> {
        let Verdict::Failed {
            rank,
            cause: Cause::NotStarted { .. },
            ..
        } = verdict
        else {
            return None;
        };
        let (from, named) = (self.launch.plan.from?, self.named.as_ref()?);
        if self.central.has_run() || self.is_interrupted {
            return None;
        }
        let why = saved_images::damage_of(named.images(), named.id(), *rank, from)?;
        Some((from, format!("rank {rank}: {why}")))
    }

    pub(super) fn output_lost(&mut self, lost: SinkLost) -> Result<()> {
        let why = match lost {
            SinkLost::Unread => None,
            SinkLost::Error(error) => Some(system_text(&error)),
        };
        let verdict = why.clone();
        let verdict = verdict.map_or(Verdict::Unread, |why| Verdict::OutputLost { why });
        if let Some((Verdict::Success | Verdict::Stopped { .. }, _)) = self.central.over() {
            // The last output of ranks that had all ended well, or before the last checkpoint.
            self.central.overrule(verdict);
            return Ok(());
        }
        self.central.note_lost_output(verdict);
        self.central.notify(CentralInput::OutputLost(why));
        self.central.steps(&self.reactor)
    }
}
