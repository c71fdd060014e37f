//! Messages of other recovery groups are logged when they are received, where the local manager has
//! memory for that. Their senders need not retain them, and a returned rank need not wait for them.

use rejoin_channel_table::ids::{Epoch, Incarnation, Rank};
use rejoin_engine::{Engine, Envelope};
use rejoin_logging::receive_log::{MessageHead, ReceiveLogError};
use rejoin_wire::RankOptions;

use super::Device;
use crate::error::{Error, Result};
use crate::program_memory;
use crate::rank_receive_log::RankReceiveLog;
use crate::recovery::managers_log;

/// The receive log of a process that begins; `None` if it has none. Without it, senders retain all
/// messages.
pub(super) fn begin_receive_log(
    settings: &RankOptions,
    engine: &mut Engine,
) -> Option<RankReceiveLog> {
    let opened = managers_log::open_received(settings.images.as_ref());
    let memory = opened
        .inspect_err(|error| tracing::info!("received messages are not logged: {error}"))
        .ok()??;
    let log = RankReceiveLog::new(memory)
        .inspect_err(|error| tracing::info!("received messages are not logged: {error}"))
        .ok()?;
    engine.log_received();
    Some(log)
}

fn unusable(rank: Rank, error: &ReceiveLogError) -> Error {
    Error::Manager {
        rank,
        problem: format!("its memory for received messages is of no use: {error}"),
    }
}

impl Device {
    /// Logs the messages that have come as a whole since the last call. To be called before the
    /// program can change their bodies.
    #[inline(always)]
    pub(super) fn log_received(&mut self) {
        if self.engine.any_received() {
            self.log_all_received();
        }
    }

    #[inline(never)]
    fn log_all_received(&mut self) {
        let Some(log) = &mut self.receive_log else {
            return;
        };
        program_memory::log_received(&mut self.engine, |received, body| {
            let head = MessageHead {
                sender: received.peer,
                incarnation: Incarnation::default(),
                ssn: received.ssn,
                context: received.envelope.context,
                source: received.envelope.source,
                tag: received.envelope.tag,
                synchronous: received.sync,
                interval: received.interval,
            };
            log.append(&head, body)
        });
    }

    /// This process was restored: it takes what was logged since its image. To be called before it
    /// has a link, when receives with a wildcard match as before.
    ///
    /// # Errors
    /// The memory is not the log's.
    pub(super) fn restore_received(&mut self) -> Result<()> {
        let rank = self.member.rank();
        let Some(log) = &mut self.receive_log else {
            return Ok(());
        };
        let gone = || std::io::Error::other("the local manager has it no more");
        let memory = managers_log::open_received(self.member.settings().images.as_ref())
            .and_then(|memory| memory.ok_or_else(gone))
            .map_err(|error| Error::system("open the memory of received messages", error))?;
        let messages = log.reopen(memory).map_err(|error| unusable(rank, &error))?;
        for message in messages {
            let head = message.head;
            let envelope = Envelope {
                context: head.context,
                source: head.source,
                tag: head.tag,
            };
            let number = (head.sender, head.ssn);
            self.engine
                .restore_received(number, envelope, head.synchronous, &message.body);
        }
        program_memory::copy_out(&mut self.engine);
        Ok(())
    }

    /// The checkpoint of this rank's recovery group is committed.
    pub(super) fn release_received(&mut self, epoch: Epoch) -> Result<()> {
        let log = self.receive_log.as_mut();
        let released = log.map_or(Ok(()), |log| log.release(epoch));
        released.map_err(|error| unusable(self.member.rank(), &error))
    }
}
