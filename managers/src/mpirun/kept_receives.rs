//! Copies of the receive logs of ranks: messages that their senders need not retain, although the
//! receiver's host may be lost. They go to the host on which a rank comes back.

use crate::error::{Error, Result};
use crate::launch::local_messages::MOST_RECEIVED_WORDS;
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_logging::determinants::StableMark;
use rejoin_logging::receive_log::{CopiedReceives, ReceiveLogError, ReceivedPart};
use rejoin_managers_protocol::central::HostIndex;
use std::collections::BTreeMap;

/// The copies.
#[derive(Default)]
pub(super) struct KeptReceives {
    copies: BTreeMap<Rank, CopiedReceives>,
    /// The latest incarnation of each rank that has logged messages or comes back. An earlier one
    /// that still runs on another host adds nothing.
    latest: BTreeMap<Rank, Incarnation>,
    /// What hosts are to be told.
    stored: Vec<(HostIndex, StableMark)>,
    /// Messages of this rank are missing.
    failed: Option<(Rank, ReceiveLogError)>,
}

impl KeptReceives {
    /// Keeps the next part of a rank's log.
    pub(super) fn add(
        &mut self,
        host: HostIndex,
        (rank, incarnation): (Rank, Incarnation),
        part: &ReceivedPart,
    ) {
        if !self.is_present(rank, incarnation) {
            return;
        }
        match self.copies.entry(rank).or_default().add(part) {
            Ok(()) => {
                let mark = part.end();
                let stored = StableMark {
                    rank,
                    incarnation,
                    mark,
                };
                self.stored.push((host, stored));
            }
            Err(error) => self.failed = Some((rank, error)),
        }
    }

    /// A process of this incarnation begins on another host: what an earlier one logs counts no
    /// more. Returns whether this one counts.
    pub(super) fn is_present(&mut self, rank: Rank, incarnation: Incarnation) -> bool {
        let latest = self.latest.entry(rank).or_insert(incarnation);
        *latest = incarnation.max(*latest);
        *latest == incarnation
    }

    /// All that is kept of a rank, in parts.
    pub(super) fn of_rank(&self, rank: Rank) -> impl Iterator<Item = ReceivedPart> {
        let copy = self.copies.get(&rank);
        copy.into_iter()
            .flat_map(|copy| copy.parts(MOST_RECEIVED_WORDS))
    }

    /// What hosts are to be told of what is stored.
    ///
    /// # Errors
    /// Something is missing.
    pub(super) fn take_stored(&mut self) -> Result<Vec<(HostIndex, StableMark)>> {
        if let Some((rank, error)) = self.failed.take() {
            let why = format!("received messages of rank {}: {error}", rank.0);
            return Err(Error::Log(why));
        }
        Ok(std::mem::take(&mut self.stored))
    }
}
