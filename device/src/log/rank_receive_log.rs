//! The receive log of a rank, as the device has it: messages of other recovery groups, in memory
//! that outlives the process. Where they must outlive the host, too, the manager has them copied in
//! the background.

use std::collections::VecDeque;

use rejoin_channel_table::{Epoch, Rank, Ssn};
use rejoin_logging::determinants::LogMemory;
use rejoin_logging::receive_log::{LoggedReceive, MessageHead, ReceiveLog, ReceiveLogError};

/// Words of new messages from which on the manager is asked to store them: less stays with the
/// senders.
const STORE_FROM: u64 = 8 << 10;

/// The log, and what images have of it.
pub(crate) struct RankReceiveLog {
    log: ReceiveLog<Box<dyn LogMemory + Send>>,
    /// How far the log was at the images that may be committed.
    images: Vec<(Epoch, u64)>,
    /// What is to be stored on another host; `None`: nothing is.
    unstored: Option<Unstored>,
    /// Messages that were logged, and those for which there was no room.
    logged: u64,
    refused: u64,
    /// Messages that a process of the rank has taken from there.
    restored: u64,
}

/// A message that is logged, and not stored on another host.
pub(crate) struct UnstoredMessage {
    /// The position of the log behind the message.
    end: u64,
    /// The rank that has sent the message.
    pub(crate) sender: Rank,
    /// The number of the message in the channel.
    pub(crate) ssn: Ssn,
    /// Bytes of the body.
    pub(crate) len: usize,
}

/// Messages that are logged, and not stored on another host.
#[derive(Default)]
struct Unstored {
    /// The messages in the order of the log.
    messages: VecDeque<UnstoredMessage>,
    /// The position behind the last that was stored.
    stored: u64,
    /// The manager was asked to store more, and has not answered.
    is_asked: bool,
    /// Messages were released: what is stored of them is to be dropped.
    is_released: bool,
}

impl RankReceiveLog {
    /// Of a process without an image, the `life`th of its rank. `outlives_host`: messages count as
    /// logged when they are stored on another host.
    ///
    /// # Errors
    /// The memory is too small.
    pub(crate) fn new(
        memory: Box<dyn LogMemory + Send>,
        life: u64,
        outlives_host: bool,
    ) -> Result<Self, ReceiveLogError> {
        Ok(Self {
            log: ReceiveLog::new(memory, life)?,
            images: Vec::new(),
            unstored: outlives_host.then(Unstored::default),
            logged: 0,
            refused: 0,
            restored: 0,
        })
    }

    /// Appends a message; whether its sender need not retain it from now on.
    pub(crate) fn append(&mut self, head: &MessageHead, body: &[u8]) -> bool {
        if !self.log.append(head, body) {
            self.refused += 1;
            return false;
        }
        self.logged += 1;
        self.counts(self.log.position(), head, body.len())
    }

    /// Notes a message that the log has; whether its sender need not retain it from now on. If not,
    /// it need not when [`RankReceiveLog::next_stored`] returns the message.
    fn counts(&mut self, end: u64, head: &MessageHead, len: usize) -> bool {
        let Some(unstored) = &mut self.unstored else {
            return true;
        };
        unstored.messages.push_back(UnstoredMessage {
            end,
            sender: head.sender,
            ssn: head.ssn,
            len,
        });
        false
    }

    /// A message was taken from the log; whether its sender need not retain it.
    pub(crate) fn restored(&mut self, message: &LoggedReceive) -> bool {
        self.restored += 1;
        self.counts(message.end, &message.head, message.body.len())
    }

    /// All messages were taken from the log.
    pub(crate) fn all_restored(&mut self) {
        if let Some(unstored) = &mut self.unstored {
            let messages = unstored.messages.make_contiguous();
            messages.sort_unstable_by_key(|message| message.end);
        }
    }

    /// How far the log is, if the manager is to be asked to store that.
    pub(crate) fn position_to_store(&mut self) -> Option<u64> {
        let position = self.log.position();
        let unstored = self
            .unstored
            .as_mut()
            .filter(|unstored| !unstored.is_asked)?;
        let is_much = position - unstored.stored >= STORE_FROM;
        unstored.is_asked = is_much || std::mem::take(&mut unstored.is_released);
        unstored.is_asked.then_some(position)
    }

    /// Whether all messages are stored, where they must outlive the host.
    pub(crate) fn is_stored(&self) -> bool {
        let unstored = self.unstored.as_ref();
        unstored.is_none_or(|unstored| unstored.stored >= self.log.position())
    }

    /// How far the log is, if the manager is to be asked to store the rest, however little it is.
    pub(crate) fn rest_to_store(&mut self) -> Option<u64> {
        let position = self.log.position();
        let unstored = self.unstored.as_mut();
        let unstored = unstored.filter(|one| !one.is_asked && one.stored < position)?;
        unstored.is_asked = true;
        Some(position)
    }

    /// The manager has stored the log up to this position.
    pub(crate) fn stored(&mut self, position: u64) {
        if let Some(unstored) = &mut self.unstored {
            unstored.is_asked = false;
            unstored.stored = unstored.stored.max(position).min(self.log.position());
        }
    }

    /// The next message that is stored now.
    pub(crate) fn next_stored(&mut self) -> Option<UnstoredMessage> {
        let unstored = self.unstored.as_mut()?;
        let stored = unstored.stored;
        unstored
            .messages
            .pop_front_if(|message| message.end <= stored)
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
        if let Some(unstored) = &mut self.unstored {
            unstored.is_released = true;
        }
        self.log.release(position)
    }

    /// The process was restored, and `memory` is the log's, opened again. Returns what was logged
    /// since the image, each sender's messages in order.
    ///
    /// # Errors
    /// The memory is not the log's.
    pub(crate) fn reopen(
        &mut self,
        memory: Box<dyn LogMemory + Send>,
    ) -> Result<Vec<LoggedReceive>, ReceiveLogError> {
        // What the image has of messages is committed.
        if let Some(unstored) = &mut self.unstored {
            *unstored = Unstored {
                stored: self.log.position(),
                ..Unstored::default()
            };
        }
        self.log.reopen(memory)
    }

    /// The last image lacks so much that the rank's next checkpoint is to make room. A log that is
    /// copied is too small for that: what it has no room for stays with the senders.
    pub(crate) fn is_half_full(&self) -> bool {
        let of_image = self.images.last().map_or(0, |(_, position)| *position);
        self.unstored.is_none() && self.log.is_half_full_since(of_image)
    }

    /// Names and values as `mpirun --stats` shows them.
    pub(crate) fn named(&self) -> [(&'static str, u64); 4] {
        [
            ("received_logged", self.logged),
            ("received_not_logged", self.refused),
            ("received_restored", self.restored),
            ("receive_log_bytes", self.log.held()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: Rank = Rank(1);

    fn log(outlives_host: bool) -> RankReceiveLog {
        let memory = Box::new(vec![0_u64; 8 + 40_000]);
        RankReceiveLog::new(memory, 1, outlives_host).expect("a log")
    }

    fn next_stored(log: &mut RankReceiveLog) -> Option<(Rank, Ssn, usize)> {
        let next = log.next_stored();
        next.map(|message| (message.sender, message.ssn, message.len))
    }

    fn append(log: &mut RankReceiveLog, ssn: u64, len: usize) -> bool {
        let head = MessageHead {
            sender: SENDER,
            ssn: Ssn(ssn),
            ..MessageHead::default()
        };
        log.append(&head, &vec![0; len])
    }

    #[test]
    fn a_message_is_kept_once_it_is_stored_where_it_outlives_the_host() {
        assert!(append(&mut log(false), 0, 100));
        let mut log = log(true);
        assert!(!append(&mut log, 0, 8 * (STORE_FROM as usize - 20)));
        assert_eq!(log.position_to_store(), None, "there is little to store");
        assert!(!append(&mut log, 1, 80));
        let position = log.position_to_store().expect("enough");
        assert_eq!(log.position_to_store(), None, "it was asked for");
        assert!(!append(&mut log, 2, 80_000));
        log.stored(position - 1);
        assert_eq!(next_stored(&mut log).map(|next| next.1), Some(Ssn(0)));
        assert_eq!(next_stored(&mut log), None);
        let all = log.position_to_store().expect("more");
        log.stored(all);
        assert_eq!(next_stored(&mut log), Some((SENDER, Ssn(1), 80)));
        assert_eq!(next_stored(&mut log), Some((SENDER, Ssn(2), 80_000)));
        assert_eq!(next_stored(&mut log), None);
        // Before the rank moves, all is to be stored.
        assert!(log.is_stored() && log.rest_to_store().is_none());
        assert!(!append(&mut log, 3, 8));
        assert_eq!((log.position_to_store(), log.is_stored()), (None, false));
        let rest = log.rest_to_store().expect("a message");
        assert_eq!(log.rest_to_store(), None, "it was asked for");
        log.stored(rest);
        assert!(log.is_stored());
    }

    #[test]
    fn what_the_last_image_has_asks_for_no_other_one() {
        let mut log = log(false);
        append(&mut log, 0, 8 * 20_100);
        assert!(log.is_half_full());
        log.note_image(Epoch(1));
        assert!(!log.is_half_full());
        append(&mut log, 1, 8 * 19_000);
        assert!(!log.is_half_full());
        log.release(Epoch(1)).expect("its image");
        append(&mut log, 2, 8 * 2_000);
        assert!(log.is_half_full());
        let mut copied = self::log(true);
        append(&mut copied, 0, 8 * 30_000);
        assert!(!copied.is_half_full());
    }

    #[test]
    fn a_restored_rank_has_its_messages_stored_again() {
        let mut log = log(true);
        append(&mut log, 0, 80_000);
        log.note_image(Epoch(1));
        let before = log.log.memory().load(1);
        log.release(Epoch(1)).expect("its image");
        assert_eq!(log.log.held(), 0);
        append(&mut log, 1, 80_000);
        let memory: Vec<u64> = (0..8 + 40_000)
            .map(|at| log.log.memory().load(at))
            .collect();
        let mut image = self::log(true);
        append(&mut image, 0, 80_000);
        let found = image.reopen(Box::new(memory)).expect("its memory");
        assert_eq!((found.len(), found[0].head.ssn), (1, Ssn(1)));
        assert!(found[0].end > before);
        assert!(!image.restored(&found[0]));
        image.all_restored();
        let position = image.position_to_store().expect("the message");
        image.stored(position);
        assert_eq!(next_stored(&mut image), Some((SENDER, Ssn(1), 80_000)));
    }
}
