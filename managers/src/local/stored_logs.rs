//! Determinants of this host's ranks, and messages that they have logged, that must outlive the
//! host: mpirun, on whose host the job ends anyway if that is lost, keeps a copy. A rank that
//! continues on another host continues with it. Senders need not retain messages of which mpirun
//! has a copy.

use super::manager_parts::{ManagerParts, handler, keys};
use super::rank_sender::RankSender;
use crate::fault;
use crate::launch::local_messages::{LocalToMpirun, MOST_RECORDS};
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_logging::determinants::StableMark;
use rejoin_logging::receive_log::ReceivedPart;
use rejoin_managers_host::error::{Error, Result};
use rejoin_managers_protocol::local::LocalInput;
use rejoin_wire::FromManager;

handler! {
    /// Has what ranks have logged stored.
    pub(super) StoredLogHandler of ManagerParts {
        changes { ranks, requests, starter, mpirun, inputs }
        reads { reactor }
    }
    with {
        sender: RankSender { ranks, requests, starter, reactor },
    }
}

impl StoredLogHandler<'_> {
    /// A rank wants its determinants to be stored, which go up to this mark.
    pub fn store_determinants(&mut self, slot: usize, mark: u64) -> Result<()> {
        if self.ranks[slot].is_retiring() {
            return Ok(());
        }
        let rank = self.ranks[slot].rank();
        let stored = StableMark {
            rank,
            incarnation: self.ranks[slot].incarnation(),
            mark,
        };
        fault::determinants(false);
        let Some(starter) = &mut self.starter else {
            return Ok(());
        };
        let part = match starter.logs().read_new(rank, stored.incarnation) {
            Ok(part) => part,
            Err(error) => {
                self.not_stored(slot, &error);
                return Ok(());
            }
        };
        let mut parts = part.chunks(MOST_RECORDS).peekable();
        while let Some(part) = parts.next() {
            self.mpirun.notify(&LocalToMpirun::Determinants {
                rank,
                incarnation: stored.incarnation,
                part,
                mark: parts.peek().is_none().then_some(stored),
            })?;
        }
        Ok(())
    }

    /// A rank wants its receive log to be stored up to this position.
    pub fn store_received(&mut self, slot: usize, position: u64) -> Result<()> {
        if self.ranks[slot].is_retiring() {
            return Ok(());
        }
        let (rank, incarnation) = (self.ranks[slot].rank(), self.ranks[slot].incarnation());
        let Some(starter) = &mut self.starter else {
            return Ok(());
        };
        match starter.logs().read_received(rank, position) {
            // Also one without words: the answer then comes behind all that is on its way.
            Ok(part) => self.mpirun.notify(&LocalToMpirun::Received {
                rank,
                incarnation,
                part,
            }),
            Err(error) => {
                self.not_stored(slot, &error);
                Ok(())
            }
        }
    }

    /// What a rank has in its log is none.
    fn not_stored(&mut self, slot: usize, error: &Error) {
        let why = error.to_string();
        let malformed = |rank, incarnation| LocalInput::Malformed(rank, incarnation, why);
        self.ranks.report(slot, malformed, self.inputs);
    }

    /// The determinants of a rank are stored up to a mark.
    pub fn determinants_stored(&mut self, stored: StableMark) -> Result<()> {
        let Some(slot) = self.asker(stored) else {
            return Ok(());
        };
        fault::determinants(true);
        let mark = stored.mark;
        let message = FromManager::DeterminantsStored { mark };
        self.sender().notify(slot, &message)
    }

    /// The receive log of a rank is stored up to a mark.
    pub fn received_stored(&mut self, stored: StableMark) -> Result<()> {
        let Some(slot) = self.asker(stored) else {
            return Ok(());
        };
        let position = stored.mark;
        let message = FromManager::ReceivedStored { position };
        self.sender().notify(slot, &message)
    }

    /// What a rank has logged of which a process is to begin on this host.
    pub fn take_received(&mut self, process: (Rank, Incarnation), part: ReceivedPart) {
        if let Some(starter) = &mut self.starter {
            starter.logs().take_received(process, &part);
        }
    }

    /// Processes of these ranks are to begin on this host, or others if they are not wanted later:
    /// they continue the logs that are here.
    pub fn continued(&mut self, ranks: &[(Rank, Incarnation)]) {
        if let Some(starter) = &mut self.starter {
            for (rank, incarnation) in ranks {
                starter.logs().is_to_continue(*rank, *incarnation);
            }
        }
    }

    /// A rank does not move, and continues its log here.
    pub fn stays(&mut self, rank: Rank) {
        if let Some(starter) = &mut self.starter {
            starter.logs().stays(rank);
        }
    }

    /// A rank depends on something lost: its log ends before that, and the process ends.
    pub fn was_cut(&mut self, slot: usize) {
        let (rank, incarnation) = (self.ranks[slot].rank(), self.ranks[slot].incarnation());
        if let Some(starter) = &mut self.starter {
            starter.logs().was_cut(rank, incarnation);
        }
    }

    /// The slot of the rank that wanted this to be stored. A later process asks itself.
    fn asker(&self, stored: StableMark) -> Option<usize> {
        let slot = self.ranks.slot(stored.rank)?;
        (self.ranks[slot].incarnation() == stored.incarnation).then_some(slot)
    }
}
