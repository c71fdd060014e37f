//! The determinants of this rank: nondeterministic answers that a replay must repeat. A restored
//! process opens the memory of its log again, which has those that were given since its image.

use std::time::{Duration, Instant};

use rejoin_channel_table::Epoch;
use rejoin_channel_table::ids::{Incarnation, Rank};
use rejoin_ckpt::rank_log_memory::clock as log_clock;
use rejoin_engine::{Engine, WildMatch};
use rejoin_logging::determinants::DeterminantError;
use rejoin_wire::{RankOptions, ToManager};

use super::Device;
use crate::error::{Error, Result};
use crate::log_room::LogRoom;
use crate::rank_log::{Determinants, FULL_LIMIT, LogRequest, RankLog};
use crate::rank_receive_log::RankReceiveLog;
use crate::recovery::managers_log;

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
    if settings.log_groups.is_empty() {
        return Ok(None);
    }
    let images = settings.images.as_ref();
    let memory = managers_log::open(images)
        .map_err(|error| Error::system("open the memory of determinants", error))?;
    let log = Determinants::new(memory).map_err(|error| unusable(rank, &error))?;
    match managers_log::map_bodies(images) {
        Ok((bodies, in_memory)) => engine.set_log_memory(bodies, in_memory),
        Err(error) => tracing::info!("messages are logged in memory of the process: {error}"),
    }
    let mut rank_log = RankLog::new(log, LogRoom::of(settings));
    if settings.optimistic && settings.stable_node {
        rank_log.sends_early();
    } else if settings.stable_node {
        rank_log.must_outlive_host();
    }
    Ok(Some(rank_log))
}

/// How long logs may take to be stored, before a rank that waits for nothing else gives up.
pub(super) const STORE_LIMIT: Duration = Duration::from_secs(60);

pub(super) fn unusable(rank: Rank, error: &DeterminantError) -> Error {
    Error::Manager {
        rank,
        problem: format!("its memory for determinants is of no use: {error}"),
    }
}

impl Device {
    /// The log of determinants; `None` outside logging modes.
    #[inline]
    pub fn determinants(&mut self) -> Option<&mut Determinants> {
        if self.engine.any_dependency() {
            self.record_dependencies();
        }
        self.determinants.as_mut().map(RankLog::log)
    }

    /// Records and repeats determinants by this log from now on. To be called before the program
    /// uses the library.
    pub fn set_determinants(&mut self, log: Determinants) {
        self.determinants = Some(RankLog::new(log, LogRoom::endless()));
    }

    /// This process was restored: opens the log again. What was recorded since the image is to be
    /// repeated, also if all others were restored, too: their images were taken at other moments.
    /// Returns at which marks the earlier incarnations have ended, as others are to know.
    pub(super) fn reopen_determinants(&mut self) -> Result<Vec<(Incarnation, u64)>> {
        let rank = self.member.rank();
        let incarnation = self.member.identity().incarnation;
        let Some(rank_log) = &mut self.determinants else {
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
        let Some(rank_log) = &mut self.determinants else {
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
    pub(super) fn reopen_bodies(&mut self) -> Result<()> {
        let Some(bodies) = self.recovery.take_private_bodies() else {
            return Ok(());
        };
        self.engine.made_of_file();
        let area = self.engine.log_memory();
        if area.is_empty() {
            return Ok(());
        }
        let images = self.member.settings().images.as_ref();
        let shared = managers_log::share_again(images, &area, &bodies)
            .map_err(|error| Error::system("open the memory of logged messages", error))?;
        let mut room = LogRoom::of(self.member.settings());
        let in_memory = shared.unwrap_or_else(|why| {
            tracing::info!("messages are logged in memory of the process: {why}");
            room = room.without_file();
            usize::MAX
        });
        self.engine.set_log_in_memory(in_memory);
        if let Some(rank_log) = &mut self.determinants {
            rank_log.set_room(room);
        }
        Ok(())
    }

    /// Counters of the log, with their names; none outside logging modes.
    pub(super) fn log_counters(&self) -> impl Iterator<Item = (String, u64)> {
        let named = self.determinants.iter().flat_map(RankLog::named);
        let received = self.receive_log.iter().flat_map(RankReceiveLog::named);
        named
            .chain(received)
            .map(|(name, value)| (name.to_owned(), value))
    }

    /// An image of this epoch is about to be taken.
    pub(super) fn note_determinants(&mut self, epoch: Epoch) {
        if let Some(rank_log) = &mut self.determinants {
            rank_log.note_image(epoch, self.engine.logged_bytes());
        }
        if let Some(log) = &mut self.receive_log {
            log.note_image(epoch);
        }
    }

    /// The checkpoint of this rank's recovery group is committed.
    pub(super) fn group_committed(&mut self, epoch: Epoch) -> Result<()> {
        self.engine.image_committed(epoch);
        self.release_received(epoch)?;
        let rank = self.member.rank();
        let log = self.determinants.as_mut();
        let released = log.map_or(Ok(()), |rank_log| rank_log.release(epoch));
        released.map_err(|error| unusable(rank, &error))
    }

    /// Stores the matches of receives with a wildcard that were made since the last call. False:
    /// the log has no room for one. Until a checkpoint makes room, nothing may leave this rank.
    #[cold]
    pub(super) fn store_matches(&mut self) -> Result<bool> {
        let rank = self.member.rank();
        self.record_dependencies();
        let Some(rank_log) = &mut self.determinants else {
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
        self.note_action();
        match failed {
            None | Some(DeterminantError::Full { .. }) => {
                self.ask_for_log_room()?;
                Ok(stored)
            }
            Some(error) => Err(unusable(rank, &error)),
        }
    }

    /// Whether all determinants are stored as the user wants. If not, the manager is asked to store
    /// them, and its answer is a message: until then nothing may leave this rank.
    #[inline]
    pub(super) fn are_determinants_stable(&mut self) -> Result<bool> {
        match &self.determinants {
            None => Ok(true),
            Some(rank_log) if rank_log.is_stable() => Ok(true),
            Some(_) => self.ask_to_store().map(|()| false),
        }
    }

    /// The program sends or receives: what comes of it may depend on all determinants.
    #[inline]
    pub(super) fn note_action(&mut self) {
        if let Some(rank_log) = &mut self.determinants {
            rank_log.note_action();
        }
    }

    #[cold]
    fn ask_to_store(&mut self) -> Result<()> {
        let mark = self.determinants.as_mut().and_then(RankLog::mark_to_store);
        match mark {
            Some(mark) => self.manager.send(&ToManager::StoreDeterminants { mark }),
            None => Ok(()),
        }
    }

    /// The manager has stored the determinants up to this mark.
    pub(super) fn determinants_stored(&mut self, mark: u64) {
        if let Some(rank_log) = &mut self.determinants {
            rank_log.stored(mark);
        }
    }

    /// Waits until all determinants are stored.
    ///
    /// # Errors
    /// They are not in a minute.
    #[cold]
    pub(super) fn await_stable_determinants(&mut self) -> Result<()> {
        let mut waited = Duration::ZERO;
        while !self.are_determinants_stable()? {
            // Otherwise, other ranks may have to return first. Central knows of all that are lost.
            let optimistic = self
                .determinants
                .as_ref()
                .is_some_and(RankLog::is_optimistic);
            if waited > STORE_LIMIT && !optimistic {
                let seconds = STORE_LIMIT.as_secs();
                return Err(Error::Manager {
                    rank: self.member.rank(),
                    problem: format!("it has not stored determinants for {seconds} s"),
                });
            }
            waited += self.await_manager()?;
        }
        Ok(())
    }

    /// Waits for the manager, and reads what it says. Returns how long that took, for limits: the
    /// rank may be suspended meanwhile, which lasts as long as it lasts.
    pub(super) fn await_manager(&mut self) -> Result<Duration> {
        const PAUSE: Duration = Duration::from_secs(1);
        let start = Instant::now();
        self.manager.await_message(PAUSE);
        self.read_manager_messages()?;
        Ok(start.elapsed().min(PAUSE))
    }

    /// Shows what the log uses. Asks for a checkpoint when the determinants, the retained messages
    /// or the received ones take half of their room. Above the limit of messages, nothing is sent
    /// to other groups. A rank that leaves has sent its last message, and may ask for nothing.
    pub(super) fn ask_for_log_room(&mut self) -> Result<()> {
        let Some(rank_log) = &mut self.determinants else {
            return Ok(());
        };
        let (after, look) = (self.engine.epoch(), self.engine.look_at_log(log_clock));
        let retained = look.retained;
        rank_log.show_usage(&look);
        if self.manager.is_leaving() {
            return Ok(());
        }
        self.store_received()?;
        let Some(rank_log) = &mut self.determinants else {
            return Ok(());
        };
        let was_full = rank_log.is_full();
        let received = self.receive_log.as_ref();
        let is_half_full = received.is_some_and(RankReceiveLog::is_half_full);
        let request = rank_log.request(after, &look, is_half_full);
        let is_full = rank_log.is_full();
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
