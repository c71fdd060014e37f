//! What the manager says while the job runs, and what the user is told of waits that last.

use std::time::Instant;

use rejoin_channel_table::BusinessCard;
use rejoin_channel_table::ids::{Incarnation, Rank};
use rejoin_engine::ReqId;
use rejoin_managers_protocol::rank::FromManager;

use crate::agent;
use crate::device::Device;
use crate::error::Result;

impl Device {
    /// Reads the manager's messages.
    pub(crate) fn hear_manager(&mut self) -> Result<bool> {
        let mut moved = false;
        while let Some(agent) = &mut self.io.agent {
            match agent.receive()? {
                None => break,
                Some(FromManager::AllFinalized { generation }) => {
                    self.all_finalized |= generation == self.identity.generation;
                }
                Some(FromManager::Stop { .. }) => agent::stop(),
                Some(FromManager::Checkpoint { generation, epoch }) => {
                    if generation == self.identity.generation {
                        self.note_order(epoch);
                    }
                }
                Some(FromManager::Update { generation, .. })
                    if generation != self.identity.generation => {}
                Some(FromManager::Update {
                    rank,
                    incarnation,
                    card,
                    ..
                }) => {
                    self.updated(rank, incarnation, card);
                }
                Some(FromManager::Welcome(_) | FromManager::Start { .. }) => {}
            }
            moved = true;
        }
        Ok(moved)
    }

    /// A rank has a new incarnation, or is elsewhere: nothing known of the way to it is good any more.
    fn updated(&mut self, rank: Rank, incarnation: Incarnation, card: BusinessCard) {
        let before = self.table.book().incarnation(rank);
        match self.table.update(rank, incarnation, card) {
            Ok(Some(token)) => {
                self.forget(token);
                self.engine.link_down(rank);
            }
            Ok(None) => {}
            // An older one, or none of this job's.
            Err(_) => return,
        }
        if before != Some(incarnation) {
            self.abandon_dial(rank);
        }
        self.forget_addresses(rank);
    }

    /// Says once per period what a wait that lasts is for.
    pub(crate) fn report_stall(&mut self, hint: Option<ReqId>) {
        let Some(period) = self.options.stall_report else {
            return;
        };
        let since = *self.io.waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() < period {
            return;
        }
        self.io.waiting_since = Some(Instant::now());
        let me = self.identity.rank;
        let what = match hint.and_then(|request| self.peer_of(request)) {
            Some(rank) => {
                let link = if self.table.live(rank).is_some() {
                    "link up"
                } else {
                    "no link"
                };
                format!("rank {rank} on host {} ({link})", self.host_of(rank))
            }
            None => "any rank".to_owned(),
        };
        let missing = self.engine.unfinished();
        eprintln!(
            "rejoin: rank {me}: waiting for {what} for {:.0} s; unfinished sends to {missing:?}",
            period.as_secs_f64()
        );
    }
}
