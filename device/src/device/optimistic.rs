//! Optimistic logging: messages leave before the determinants that they depend on are stored, and
//! say so. A rank that depends on something lost returns to its last image.

use nix::sys::signal::{Signal, raise};
use rejoin_engine::UnrecordedMark;
use rejoin_logging::determinants::Dependency;

use super::log_handler::LogHandler;
use crate::error::{Error, Result};

/// What the engine says that this rank depends on.
fn dependency(on: &UnrecordedMark) -> Dependency {
    Dependency {
        rank: on.peer,
        incarnation: on.incarnation.unwrap_or_default(),
        mark: on.mark,
    }
}

impl LogHandler<'_> {
    /// Whether frames that are ready may leave. Their receivers are told if what they depend on is
    /// not stored, or else they wait for that.
    #[inline]
    pub(super) fn may_frames_leave(&mut self) -> Result<bool> {
        let is_stable = self.are_determinants_stable()?;
        match &self.logs.determinants {
            Some(rank_log) if rank_log.is_optimistic() => {
                self.engine.set_interval(rank_log.interval());
                Ok(true)
            }
            _ => Ok(is_stable),
        }
    }

    /// Records what the messages depend on that have arrived.
    #[cold]
    pub(super) fn record_dependencies(&mut self) {
        let book = self.book;
        // A link has the incarnation of the book, and ends before that changes.
        let incarnation = |peer| book.incarnation(peer).unwrap_or_default();
        self.engine.name_incarnations(incarnation);
        while let Some(on) = self.engine.next_dependency() {
            let Some(rank_log) = &mut self.logs.determinants else {
                continue;
            };
            if rank_log.depends(dependency(&on)).is_err() {
                // Until a checkpoint makes room, nothing may leave this rank.
                self.engine.depends_later(on);
                return;
            }
        }
    }

    /// If something is lost that this rank depends on, it returns: the process ends, and the next
    /// one repeats only what came before.
    ///
    /// # Errors
    /// A manager that cannot be spoken to, or memory that is no log.
    pub(super) fn return_if_orphan(&mut self) -> Result<()> {
        let Some(rank_log) = &mut self.logs.determinants else {
            return Ok(());
        };
        let recorded = rank_log.lost();
        // The log ends before those that it had no room for.
        let mut unrecorded = self.engine.unrecorded().map(dependency);
        let lost = recorded.or_else(|| unrecorded.find(|on| rank_log.is_lost(on)));
        let Some(on) = lost else {
            return Ok(());
        };
        let rank = self.member.rank();
        let unusable = |problem| Error::Manager { rank, problem };
        let cut = rank_log.cut().map_err(|error| {
            unusable(format!("its memory for determinants is of no use: {error}"))
        })?;
        if cut.is_none() && recorded.is_some() {
            let lost = on.rank;
            return Err(unusable(format!(
                "its image depends on messages of rank {lost} that were lost with a host"
            )));
        }
        self.manager.return_orphan(on.rank)?;
        // Nobody has ended it: its manager sees the end at the latest now.
        let _ = raise(Signal::SIGKILL);
        Ok(())
    }
}
