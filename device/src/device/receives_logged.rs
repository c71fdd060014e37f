//! Messages of other recovery groups are logged when they are received, where the local manager has
//! memory for that. Their senders need not retain them, and a returned rank need not wait for them.

use rejoin_channel_table::ids::{Epoch, Incarnation, Rank};
use rejoin_engine::Engine;
use rejoin_logging::determinants::Dependency;
use rejoin_logging::receive_log::ReceiveLogError;
use rejoin_wire::{RankOptions, ToManager};

use super::log_handler::{LogHandler, unusable as unusable_determinants};
use crate::error::{Error, Result};
use crate::log::RankReceiveLog;
use crate::log::managers_log;
use crate::program_memory;

/// The receive log of a process that begins; `None` if it has none. Without it, senders retain all
/// messages.
pub(super) fn begin_receive_log(
    incarnation: Incarnation,
    settings: &RankOptions,
    engine: &mut Engine,
) -> Option<RankReceiveLog> {
    let opened = managers_log::open_received(settings.images.as_ref());
    let memory = opened
        .inspect_err(|error| tracing::info!("received messages are not logged: {error}"))
        .ok()??;
    let life = u64::from(incarnation.0);
    let outlives_host = settings.recovery.is_stable_on_nodes();
    let log = RankReceiveLog::new(memory, life, outlives_host)
        .inspect_err(|error| tracing::info!("received messages are not logged: {error}"))
        .ok()?;
    engine.begin_receive_log();
    Some(log)
}

fn unusable(rank: Rank, error: &ReceiveLogError) -> Error {
    Error::Manager {
        rank,
        problem: format!("its memory for received messages is of no use: {error}"),
    }
}

impl LogHandler<'_> {
    /// Logs the messages that have come as a whole since the last call. To be called before the
    /// program can change their bodies.
    #[cold]
    pub(super) fn log_received(&mut self) {
        let Some(log) = &mut self.logs.received else {
            return;
        };
        let book = self.book;
        program_memory::log_whole_messages(self.engine, |received, body| {
            // A link has the incarnation of the book, and ends before that changes.
            let incarnation = book.incarnation(received.peer).unwrap_or_default();
            let head = received.head(incarnation);
            log.append(&head, body)
        });
    }

    /// Has the manager store what was logged, where that must outlive the host.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    #[inline]
    pub(super) fn store_received(&mut self) -> Result<()> {
        let log = self.logs.received.as_mut();
        match log.and_then(RankReceiveLog::position_to_store) {
            Some(position) => self.manager.send(&ToManager::StoreReceived { position }),
            None => Ok(()),
        }
    }

    /// Whether all that was logged is stored where it must outlive the host. If not, the manager is
    /// asked to store the rest.
    ///
    /// # Errors
    /// The errors are those of [`LogHandler::store_received`].
    pub(super) fn is_received_stored(&mut self) -> Result<bool> {
        let Some(log) = &mut self.logs.received else {
            return Ok(true);
        };
        if let Some(position) = log.rest_to_store() {
            self.manager.send(&ToManager::StoreReceived { position })?;
        }
        Ok(log.is_stored())
    }

    /// The manager has stored the receive log up to this position.
    ///
    /// # Errors
    /// The errors are those of [`LogHandler::store_received`].
    pub(super) fn received_stored(&mut self, position: u64) -> Result<()> {
        if let Some(log) = &mut self.logs.received {
            log.stored(position);
            while let Some(message) = log.next_stored() {
                let (sender, ssn) = (message.sender, message.ssn);
                self.engine.received_logged(sender, ssn, message.len);
            }
        }
        self.store_received()
    }

    /// This process was restored: it takes what was logged since its image. To be called before it
    /// has a link, when receives with a wildcard match as before, and when it is known what is lost
    /// with hosts.
    ///
    /// # Errors
    /// The memory is not the log's, or the manager cannot be spoken to.
    pub(super) fn restore_received(&mut self) -> Result<()> {
        let rank = self.member.rank();
        let Some(log) = &mut self.logs.received else {
            return Ok(());
        };
        let gone = || std::io::Error::other("the local manager has it no more");
        let memory = managers_log::open_received(self.member.settings().images.as_ref())
            .and_then(|memory| memory.ok_or_else(gone))
            .map_err(|error| Error::system("open the memory of received messages", error))?;
        let messages = log.reopen(memory).map_err(|error| unusable(rank, &error))?;
        for message in messages {
            let head = message.head;
            let on = Dependency {
                rank: head.sender,
                incarnation: head.incarnation,
                mark: head.interval,
            };
            if let Some(rank_log) = self.logs.determinants.as_mut().filter(|_| on.mark > 0) {
                if rank_log.is_lost(&on) {
                    // Its sender sends another one instead.
                    continue;
                }
                // The log of determinants may have ended before it came.
                let noted = rank_log.depends(on);
                noted.map_err(|error| unusable_determinants(rank, &error))?;
            }
            if self.engine.restore_received(&message) && log.restored(&message) {
                let len = message.body.len();
                self.engine.received_logged(head.sender, head.ssn, len);
            }
        }
        log.all_restored();
        program_memory::copy_out(self.engine);
        self.store_received()
    }

    /// The checkpoint of this rank's recovery group is committed.
    pub(super) fn release_received(&mut self, epoch: Epoch) -> Result<()> {
        let log = self.logs.received.as_mut();
        let released = log.map_or(Ok(()), |log| log.release(epoch));
        released.map_err(|error| unusable(self.member.rank(), &error))
    }
}
