//! Determinants of this host's ranks that must outlive the host: mpirun, on whose host the job ends
//! anyway if that is lost, keeps a copy. A rank that continues on another host continues with it,
//! and so do all ranks of a job that is launched again.

use super::LocalManager;
use super::start::LogWait;
use crate::error::Result;
use crate::fault;
use crate::launch::local_messages::{LocalToMpirun, MOST_RECORDS};
use rejoin_channel_table::{ImageId, Incarnation, Rank};
use rejoin_logging::determinants::{LogPart, StableMark};
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::ProcessInstance;
use rejoin_wire::FromManager;
use rejoin_wire::codec::{MANAGER_LIMIT, encode};

impl LocalManager {
    /// A rank wants its determinants to be stored, which go up to this mark.
    pub(super) fn store_determinants(&mut self, slot: usize, mark: u64) -> Result<()> {
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
                let why = error.to_string();
                self.told(slot, |rank, incarnation| {
                    LocalInput::Malformed(rank, incarnation, why)
                });
                return Ok(());
            }
        };
        let mut parts = part.chunks(MOST_RECORDS).peekable();
        while let Some(part) = parts.next() {
            self.mpirun.tell(&LocalToMpirun::Determinants {
                rank,
                incarnation: stored.incarnation,
                part,
                mark: parts.peek().is_none().then_some(stored),
            })?;
        }
        Ok(())
    }

    /// The determinants of a rank are stored up to a mark.
    pub(super) fn determinants_stored(&mut self, stored: StableMark) -> Result<()> {
        let StableMark {
            rank,
            incarnation,
            mark,
        } = stored;
        let Some(slot) = self.slot(rank) else {
            return Ok(());
        };
        // A later process asks itself.
        if self.ranks[slot].incarnation() != incarnation {
            return Ok(());
        }
        fault::determinants(true);
        let message = FromManager::DeterminantsStored { mark };
        let mut frame = Vec::new();
        encode(&message, MANAGER_LIMIT, &mut frame)?;
        self.send_to_rank(slot, &message, &frame)
    }

    /// The copied determinants of a rank of which a process is to begin on this host.
    pub(super) fn take_determinants(
        &mut self,
        (rank, incarnation): (Rank, Incarnation),
        part: LogPart,
        last: bool,
    ) -> Result<()> {
        let Some(starter) = &mut self.starter else {
            return Ok(());
        };
        let logs = starter.logs();
        match logs.take_part((rank, incarnation), &part, last) {
            Some((instance, image)) => self.restore_process(instance, image),
            None => Ok(()),
        }
    }

    /// Whether a process begins only after the copy of its determinants has come, or not at all.
    pub(super) fn lacks_determinants(
        &mut self,
        slot: usize,
        instance: ProcessInstance,
        image: ImageId,
    ) -> Result<bool> {
        let moves = self.arrivals.is_arriving(instance.rank, image);
        let Some(starter) = &mut self.starter else {
            return Ok(false);
        };
        let ProcessInstance {
            rank, incarnation, ..
        } = instance;
        if let Some(why) = starter.logs().take_failure(instance) {
            self.not_restored(slot, instance, why);
            return Ok(true);
        }
        match starter.logs().awaits(instance, image) {
            LogWait::Over => Ok(false),
            LogWait::Lasts => Ok(true),
            LogWait::Begins => {
                let ask = LocalToMpirun::AskDeterminants {
                    rank,
                    incarnation,
                    moves,
                };
                self.mpirun.tell(&ask)?;
                Ok(true)
            }
        }
    }

    /// Processes of these ranks are to begin on this host, or others if they are not wanted later:
    /// they continue the logs that are here.
    pub(super) fn logs_continue(&mut self, ranks: &[(Rank, Incarnation)]) {
        if let Some(starter) = &mut self.starter {
            for (rank, incarnation) in ranks {
                starter.logs().is_to_continue(*rank, *incarnation);
            }
        }
    }

    /// A rank does not move, and continues its log here.
    pub(super) fn log_stays(&mut self, rank: Rank) {
        if let Some(starter) = &mut self.starter {
            starter.logs().stays(rank);
        }
    }

    /// A rank depends on something lost: its log ends before that, and the process ends.
    pub(super) fn log_was_cut(&mut self, slot: usize) {
        let (rank, incarnation) = (self.ranks[slot].rank(), self.ranks[slot].incarnation());
        if let Some(starter) = &mut self.starter {
            starter.logs().was_cut(rank, incarnation);
        }
    }

    /// A rank has left this host.
    pub(super) fn drop_log(&mut self, rank: Rank) {
        if let Some(starter) = &mut self.starter {
            starter.logs().remove(rank);
        }
    }

    /// A process that waits for that is not wanted any more; `false` if it is none.
    pub(super) fn gives_up_determinants(&mut self, rank: Rank, incarnation: Incarnation) -> bool {
        let starter = self.starter.as_mut();
        starter.is_some_and(|starter| starter.logs().forget(rank, incarnation))
    }
}
