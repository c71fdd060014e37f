//! Messages of the manager while the job runs.

use std::time::{Duration, Instant};

use rejoin_channel_table::BusinessCard;
use rejoin_channel_table::ids::{Incarnation, Rank};
use rejoin_ckpt::checkpoint_request;
use rejoin_engine::Engine;
use rejoin_wire::{FromManager, SignalRequest};

use super::log_handler::LogHandler;
use super::returned_peers::ReturnedPeersHandler;
use crate::error::{Error, Result};
use crate::job_member::JobMember;
use crate::links::Links;
use crate::log::DeviceLogs;
use crate::manager::{self, ManagerChannel};
use crate::meter::Meter;
use crate::recovery::{MoveImage, RankRecovery};
use crate::served_peers::ServedPeers;

/// How long logs may take to be stored, before a rank that waits for nothing else gives up.
pub(super) const STORE_LIMIT: Duration = Duration::from_secs(60);

/// Takes the manager's messages: they may close links and request images, and never read, write or
/// dial a link.
pub(super) struct ManagerHandler<'a> {
    pub(super) member: &'a JobMember,
    pub(super) engine: &'a mut Engine,
    pub(super) meter: &'a mut Meter,
    pub(super) links: &'a mut Links,
    pub(super) manager: &'a mut ManagerChannel,
    pub(super) recovery: &'a mut RankRecovery,
    pub(super) logs: &'a mut DeviceLogs,
    pub(super) served: &'a mut ServedPeers,
}

impl ManagerHandler<'_> {
    pub(super) fn logs(&mut self) -> LogHandler<'_> {
        log_handler!(self)
    }

    fn returned_peers(&mut self) -> ReturnedPeersHandler<'_> {
        ReturnedPeersHandler {
            engine: self.engine,
            manager: self.manager,
            served: self.served,
        }
    }

    /// Reads the manager's messages; true if there was one that may end a wait.
    pub(super) fn read(&mut self) -> Result<bool> {
        let mut moved = false;
        let present = self.member.identity().generation;
        while let Some(message) = self.manager.receive()? {
            match message {
                FromManager::Stop { .. } => manager::stop(),
                FromManager::Checkpoint { generation, .. }
                | FromManager::Move { generation, .. }
                | FromManager::Stay { generation, .. }
                    if generation != present =>
                {
                    continue;
                }
                FromManager::Checkpoint { epoch, oldest, .. } => {
                    self.recovery.note_oldest(oldest);
                    self.recovery.request(epoch, self.engine.epoch());
                    continue;
                }
                FromManager::Move { number, stops, .. } => {
                    let checkpoint = self.recovery.checkpoint();
                    checkpoint.request_move(MoveImage { number, stops });
                    continue;
                }
                FromManager::Stay { number, .. } => {
                    self.recovery.stay(number);
                    continue;
                }
                FromManager::Committed {
                    generation,
                    epoch,
                    abandoned,
                } => {
                    if generation == present {
                        self.recovery.note_checkpoints(epoch, abandoned);
                    }
                }
                FromManager::AllFinalized { generation }
                | FromManager::GroupCommitted { generation, .. }
                | FromManager::RegionsNumber { generation, .. }
                | FromManager::RegionsCommitted { generation, .. }
                | FromManager::Card { generation, .. }
                    if generation != present => {}
                FromManager::AllFinalized { .. } => self.manager.finalized(),
                FromManager::DeterminantsStored { mark } => self.logs.determinants_stored(mark),
                FromManager::ReceivedStored { position } => {
                    self.logs().received_stored(position)?
                }
                FromManager::GroupCommitted { epoch, .. } => self.logs().group_committed(epoch)?,
                FromManager::RegionsNumber { epoch, .. } => {
                    self.recovery.region_answers().give_number(epoch);
                }
                FromManager::RegionsCommitted { newest, before, .. } => {
                    self.recovery.region_answers().commit(newest, before);
                }
                FromManager::Card {
                    rank,
                    incarnation,
                    card,
                    ..
                } => self.updated(rank, incarnation, card)?,
                FromManager::Welcome(_) | FromManager::Start { .. } | FromManager::Begin { .. } => {
                }
            }
            self.manager.count_message();
            moved = true;
        }
        Ok(moved)
    }

    /// A rank has a new incarnation, or another host, or its card has come.
    fn updated(&mut self, rank: Rank, incarnation: Incarnation, card: BusinessCard) -> Result<()> {
        self.logs().record_dependencies();
        self.logs.note_ends(rank, &card.log_ends);
        self.logs().return_if_orphan()?;
        let is_new = self.links.book().incarnation(rank) != Some(incarnation);
        let Some(closed) = self.links.update(rank, incarnation, card) else {
            return Ok(());
        };
        if let Some(closed) = closed {
            self.meter.stats.doorbells += closed.doorbells;
            self.engine.link_down(rank);
        }
        if is_new {
            // It may have come back from an image that lacks messages.
            self.engine.peer_returned(rank);
        }
        // Messages for the old place of the rank now wait for the new one.
        if self.engine.tx_waiting(rank) {
            self.links.list_redial(rank);
        }
        if is_new {
            self.returned_peers().note_returned(rank)
        } else {
            Ok(())
        }
    }

    /// Takes over a request that came by signal and was not met in its handler.
    ///
    /// # Errors
    /// A manager that cannot be understood.
    pub(super) fn take_signalled_request(&mut self) -> Result<()> {
        if checkpoint_request::is_pending()
            && let Some(number) = checkpoint_request::take_pending()
            && !self.note_request(SignalRequest::decode(number))
        {
            // It is about something else, which the socket says.
            self.read()?;
            self.returned_peers().serve_later()?;
        }
        Ok(())
    }

    /// Notes the checkpoint that is requested. Returns whether that is another one than the rank is
    /// in already.
    pub(super) fn note_request(&mut self, request: SignalRequest) -> bool {
        let SignalRequest::Checkpoint(epoch) = request else {
            return false;
        };
        self.recovery.request(epoch, self.engine.epoch());
        epoch > self.engine.epoch()
    }

    /// Waits for the manager, and reads what it says. Returns how long that took, for limits: the
    /// rank may be suspended meanwhile, which lasts as long as it lasts.
    pub(super) fn await_messages(&mut self) -> Result<Duration> {
        const PAUSE: Duration = Duration::from_secs(1);
        let start = Instant::now();
        self.manager.await_message(PAUSE);
        self.read()?;
        Ok(start.elapsed().min(PAUSE))
    }

    /// Stores the matches that were made, and waits until all determinants are stored as the user
    /// wants.
    ///
    /// # Errors
    /// The determinants are not stored within a minute.
    pub(super) fn await_stable_determinants(&mut self) -> Result<()> {
        if self.engine.any_to_record() {
            self.logs().store_matches()?;
        }
        let mut waited = Duration::ZERO;
        while !self.logs().are_determinants_stable()? {
            // Otherwise, other ranks may have to return first. Central knows of all that are lost.
            if waited > STORE_LIMIT && !self.logs.is_optimistic() {
                let seconds = STORE_LIMIT.as_secs();
                return Err(Error::Manager {
                    rank: self.member.rank(),
                    problem: format!("it has not stored determinants for {seconds} s"),
                });
            }
            waited += self.await_messages()?;
        }
        Ok(())
    }

    /// Waits until all is stable that this rank depends on: before an image, and before the end. If
    /// that is lost, the rank returns. Ends with the job, which ends if a lost rank can't return.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub(super) fn await_stable_image(&mut self) -> Result<()> {
        if !self.logs.is_optimistic() {
            return Ok(());
        }
        self.logs.note_action();
        self.await_stable_determinants()
    }
}
