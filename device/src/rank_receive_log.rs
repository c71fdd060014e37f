//! The receive log of a rank, as the device has it: messages of other recovery groups, in memory
//! that outlives the process.

use rejoin_channel_table::Epoch;
use rejoin_logging::receive_log::{LoggedMessage, MessageHead, ReceiveLog, ReceiveLogError};

use crate::log_words::LogWords;

/// The log, and what images have of it.
pub(crate) struct RankReceiveLog {
    log: ReceiveLog<LogWords>,
    /// How far the log was at the images that may be committed.
    images: Vec<(Epoch, u64)>,
    /// Messages that were logged, and those for which there was no room.
    logged: u64,
    refused: u64,
}

impl RankReceiveLog {
    /// Of a process without an image.
    ///
    /// # Errors
    /// The memory is too small.
    pub(crate) fn new(memory: LogWords) -> Result<Self, ReceiveLogError> {
        Ok(Self {
            log: ReceiveLog::new(memory)?,
            images: Vec::new(),
            logged: 0,
            refused: 0,
        })
    }

    /// Logs a message; false: there is no room, and its sender retains it.
    pub(crate) fn append(&mut self, head: &MessageHead, body: &[u8]) -> bool {
        let is_logged = self.log.append(head, body);
        self.logged += u64::from(is_logged);
        self.refused += u64::from(!is_logged);
        is_logged
    }

    /// An image of this epoch is about to be taken.
    pub(crate) fn note_image(&mut self, epoch: Epoch) {
        self.images.push((epoch, self.log.position()));
    }

    /// The image of this epoch is committed: earlier messages are needed no more.
    ///
    /// # Errors
    /// The memory is not the log's.
    pub(crate) fn release(&mut self, epoch: Epoch) -> Result<(), ReceiveLogError> {
        let Some(at) = self.images.iter().position(|(of, _)| *of == epoch) else {
            return Ok(());
        };
        let position = self.images[at].1;
        self.images.drain(..=at);
        self.log.release(position)
    }

    /// The process was restored, and `memory` is the log's, opened again. Returns what was logged
    /// since the image, each sender's messages in order.
    ///
    /// # Errors
    /// The memory is not the log's.
    pub(crate) fn reopen(
        &mut self,
        memory: LogWords,
    ) -> Result<Vec<LoggedMessage>, ReceiveLogError> {
        self.log.reopen(memory)
    }

    /// Names and values as `mpirun --stats` shows them.
    pub(crate) fn named(&self) -> [(&'static str, u64); 3] {
        [
            ("received_logged", self.logged),
            ("received_not_logged", self.refused),
            ("receive_log_bytes", self.log.held()),
        ]
    }
}
