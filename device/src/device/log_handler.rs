//! The determinants of this rank: nondeterministic answers that a replay must repeat. A restored
//! process opens the memory of its log again, which has those that were given since its image.

use std::ops::Range;

use rejoin_channel_table::AddressBook;
use rejoin_channel_table::ids::{Epoch, Incarnation, Rank};
use rejoin_ckpt::rank_log_memory::clock as log_clock;
use rejoin_engine::{Engine, WildMatch};
use rejoin_logging::determinants::DeterminantError;
use rejoin_wire::{RankOptions, ToManager};

use crate::error::{Error, Result};
use crate::job_member::JobMember;
use crate::log::{
    Determinants, DeviceLogs, FULL_LIMIT, LogRequest, LogRoom, RankLog, RankReceiveLog,
    managers_log,
};
use crate::manager::ManagerChannel;

/// Logs what a replay must repeat, and asks the manager for room and for storage. Changes no link.
pub(super) struct LogHandler<'a> {
    pub(super) member: &'a JobMember,
    /// Which incarnation of each peer this rank has links to.
    pub(super) book: &'a AddressBook,
    pub(super) engine: &'a mut Engine,
    pub(super) manager: &'a mut ManagerChannel,
    pub(super) logs: &'a mut DeviceLogs,
}

/// The log of a process that begins; `None` if the job is one recovery group. Gives `engine` the
/// memory of the bodies.
///
/// # Errors
/// There is no memory for determinants.
pub(super) fn begin_log(
    rank: Rank,
    settings: &RankOptions,
    engine: &mut Engine,
) -> Result<Option<RankLog>> {
    let Some(logged) = settings.recovery.log() else {
        return Ok(None);
    };
    let images = settings.images.as_ref();
    let memory = managers_log::open(images)
        .map_err(|error| Error::system("open the memory of determinants", error))?;
    let log = Determinants::new(memory).map_err(|error| unusable(rank, &error))?;
    match managers_log::map_bodies(images) {
        Ok((bodies, in_memory)) => engine.set_log_memory(bodies, in_memory),
        Err(error) => tracing::info!("messages are logged in memory of the process: {error}"),
    }
    let mut rank_log = RankLog::new(log, LogRoom::of(logged, images));
    if settings.recovery.is_optimistic() && logged.stable_node {
        rank_log.sends_early();
    } else if logged.stable_node {
        rank_log.must_outlive_host();
    }
    Ok(Some(rank_log))
}

pub(super) fn unusable(rank: Rank, error: &DeterminantError) -> Error {
    Error::Manager {
        rank,
        problem: format!("its memory for determinants is of no use: {error}"),
    }
}

impl LogHandler<'_> {
    /// This process was restored: opens the log again. What was recorded since the image is to be
    /// repeated, also if all others were restored, too: their images were taken at other moments.
    /// Returns at which marks the earlier incarnations have ended, as others are to know.
    pub(super) fn reopen_determinants(&mut self) -> Result<Vec<(Incarnation, u64)>> {
        let rank = self.member.rank();
        let incarnation = self.member.identity().incarnation;
        let Some(rank_log) = &mut self.logs.determinants else {
            return Ok(Vec::new());
        };
        let memory = managers_log::open(self.member.settings().images.as_ref())
            .map_err(|error| Error::system("open the memory of determinants", error))?;
        let opened = rank_log.reopen(memory);
        opened.map_err(|error| unusable(rank, &error))?;
        if !rank_log.is_optimistic() {
            return Ok(Vec::new());
        }
        let begun = rank_log.begin(rank, incarnation);
        begun.map_err(|error| unusable(rank, &error))
    }

    /// Receives with a wildcard are matched as before.
    pub(super) fn repeat_matches(&mut self) {
        let Some(rank_log) = &mut self.logs.determinants else {
            return;
        };
        let past = rank_log.log().take_matches();
        let past = past.map(|(number, source, tag)| WildMatch {
            number,
            source,
            tag,
        });
        self.engine.replay_wild_matches(past);
    }

    /// This process may have been made from a file, which has the bodies of the log: they are in
    /// memory of the manager again, as those of a process that begins.
    pub(super) fn reopen_bodies(&mut self, bodies: &[Range<usize>]) -> Result<()> {
        self.engine.made_of_file();
        let area = self.engine.log_memory();
        if area.is_empty() {
            return Ok(());
        }
        let images = self.member.settings().images.as_ref();
        let shared = managers_log::share_again(images, &area, bodies)
            .map_err(|error| Error::system("open the memory of logged messages", error))?;
        let log = self.member.settings().recovery.log();
        let mut room = log.map_or_else(LogRoom::endless, |log| LogRoom::of(log, images));
        let in_memory = shared.unwrap_or_else(|why| {
            tracing::info!("messages are logged in memory of the process: {why}");
            room = room.without_file();
            usize::MAX
        });
        self.engine.set_log_in_memory(in_memory);
        if let Some(rank_log) = &mut self.logs.determinants {
            rank_log.set_room(room);
        }
        Ok(())
    }

    /// The checkpoint of this rank's recovery group is committed.
    pub(super) fn group_committed(&mut self, epoch: Epoch) -> Result<()> {
        self.engine.image_committed(epoch);
        self.release_received(epoch)?;
        let rank = self.member.rank();
        let log = self.logs.determinants.as_mut();
        let released = log.map_or(Ok(()), |rank_log| rank_log.release(epoch));
        released.map_err(|error| unusable(rank, &error))
    }

    /// Stores the matches of receives with a wildcard that were made since the last call. False:
    /// the log has no room for one. Until a checkpoint makes room, nothing may leave this rank.
    #[cold]
    pub(super) fn store_matches(&mut self) -> Result<bool> {
        let rank = self.member.rank();
        self.record_dependencies();
        let Some(rank_log) = &mut self.logs.determinants else {
            return Ok(self.engine.store_wild_matches(|_| true));
        };
        let log = rank_log.log();
        let mut failed = None;
        let stored = self.engine.store_wild_matches(|one| {
            match log.matched(one.number, one.source, one.tag) {
                Ok(()) => true,
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        });
        self.logs.note_action();
        match failed {
            None | Some(DeterminantError::Full { .. }) => {
                self.request_log_room()?;
                Ok(stored)
            }
            Some(error) => Err(unusable(rank, &error)),
        }
    }

    /// Stores the matches that were made; whether frames that are ready may leave then.
    #[inline]
    pub(super) fn may_leave(&mut self) -> Result<bool> {
        Ok((!self.engine.any_to_record() || self.store_matches()?) && self.may_frames_leave()?)
    }

    /// Whether all determinants are stored as the user wants. If not, the manager is asked to store
    /// them, and its answer is a message: until then nothing may leave this rank.
    #[inline]
    pub(super) fn are_determinants_stable(&mut self) -> Result<bool> {
        match &self.logs.determinants {
            None => Ok(true),
            Some(rank_log) if rank_log.is_stable() => Ok(true),
            Some(_) => self.request_storing().map(|()| false),
        }
    }

    #[cold]
    fn request_storing(&mut self) -> Result<()> {
        let mark = self
            .logs
            .determinants
            .as_mut()
            .and_then(RankLog::mark_to_store);
        match mark {
            Some(mark) => self.manager.send(&ToManager::StoreDeterminants { mark }),
            None => Ok(()),
        }
    }

    /// Shows what the log uses. Asks for a checkpoint when the determinants, the retained messages
    /// or the received ones take half of their room. Above the limit of messages, nothing is sent
    /// to other groups. A rank that leaves has sent its last message, and may ask for nothing.
    pub(super) fn request_log_room(&mut self) -> Result<()> {
        let Some(rank_log) = &mut self.logs.determinants else {
            return Ok(());
        };
        let (after, look) = (self.engine.epoch(), self.engine.look_at_log(log_clock));
        rank_log.show_usage(&look);
        if self.manager.is_leaving() {
            return Ok(());
        }
        self.store_received()?;
        let Some(rank_log) = &mut self.logs.determinants else {
            return Ok(());
        };
        let was_full = rank_log.is_full();
        let received = self.logs.received.as_ref();
        let is_half_full = received.is_some_and(RankReceiveLog::is_half_full);
        let request = rank_log.request(after, &look, is_half_full);
        let (is_full, retained) = (rank_log.is_full(), rank_log.retained());
        if rank_log.is_stuck() {
            let rank = self.member.rank();
            let seconds = FULL_LIMIT.as_secs();
            return Err(Error::LogFull {
                rank,
                retained,
                seconds,
            });
        }
        if is_full || was_full {
            self.engine.hold_sends(is_full);
        }
        if is_full && !was_full {
            let text = format!(
                "{retained} bytes of messages are retained for other recovery groups \
                 (--log-limit): the rank sends no more until checkpoints make room"
            );
            self.manager.note(false, text)?;
        }
        match request {
            Some(LogRequest::Checkpoint) => self.manager.send(&ToManager::Checkpoint { after }),
            Some(LogRequest::Files) => self.manager.send(&ToManager::WantFiles { of: after }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Options};
    use rejoin_logging::determinants::{DeterminantKind, LogMemory};

    #[test]
    fn frames_leave_when_what_they_depend_on_is_stored() {
        let mut device = Device::alone(Options::default()).expect("a device");
        let memory: Box<dyn LogMemory + Send> = Box::new(vec![0_u64; 16 + 4 * 4]);
        device.set_determinants(Determinants::new(memory).expect("a log of four records"));
        assert!(device.logs().may_leave().expect("no manager"));
        let rank_log = device.logs.determinants.as_mut().expect("the log");
        rank_log.must_outlive_host();
        let answered = rank_log.log().answer(DeterminantKind::Test, None);
        answered.expect("room");
        device.logs.note_action();
        let mark = device.logs.determinants.as_mut().expect("the log");
        let mark = mark.log().mark();
        assert!(!device.logs().may_leave().expect("no manager"));
        device.logs.determinants_stored(mark);
        assert!(device.logs().may_leave().expect("no manager"));
    }
}
