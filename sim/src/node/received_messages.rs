//! The receive log of a node: messages of other groups that it need not get again when it comes
//! back.

use super::receive_memory::NodeLog;
use super::{Node, range};
use rejoin_channel_table::Epoch;
use rejoin_engine::ReceivedBody;
use rejoin_logging::receive_log::{MessageHead, ReceiveLogError, ReceivedPart};

impl Node {
    /// Logs what comes of other groups from now on, in memory of so many words. `is_copied`: that
    /// counts when a copy has it ([`Node::received_stored`]). To be called before the first
    /// message.
    pub fn begin_receive_log(&mut self, words: usize, is_copied: bool) {
        self.receive_log = NodeLog::new(words, is_copied);
        self.engine.begin_receive_log();
    }

    /// Logs what is whole, as far as there is room.
    pub(super) fn log_whole(&mut self) {
        let book = self.table.book();
        let claims = self.claims_log;
        self.engine.log_received(|received| {
            let body = match received.body {
                ReceivedBody::Memory(segment) => &self.memory[range(segment)],
                ReceivedBody::Bytes(bytes) => bytes,
            };
            let head = received.head(book.incarnation(received.peer).unwrap_or_default());
            let logged = (self.receive_log.as_mut()).is_some_and(|of| of.log.append(&head, body));
            self.unlogged += u64::from(!logged);
            match &mut self.receive_log {
                Some(of) if of.is_copied && logged => {
                    let end = of.log.position();
                    of.uncopied.push_back((end, head, body.len()));
                    false
                }
                _ => logged || claims,
            }
        });
    }

    /// All that the log has, for a copy.
    pub fn received_part(&self) -> ReceivedPart {
        let Some(of) = &self.receive_log else {
            return ReceivedPart::default();
        };
        let part = ReceivedPart::read(of.log.memory(), 0, of.log.position(), usize::MAX);
        part.expect("a log")
    }

    /// A copy has the log up to this position.
    pub fn received_stored(&mut self, position: u64) {
        let Some(of) = &mut self.receive_log else {
            return;
        };
        while let Some((_, head, len)) = of.uncopied.pop_front_if(|(end, ..)| *end <= position) {
            self.engine.received_logged(head.sender, head.ssn, len);
        }
    }

    /// The memory of the log, for the node that comes back.
    #[must_use]
    pub fn received_memory(&self) -> Option<Vec<u64>> {
        self.receive_log.as_ref().map(|of| of.log.memory().clone())
    }

    /// This node was restored: it takes what was logged since its image, without messages that
    /// depend on what is lost. `is_lost` is asked only about those that depend on something, and
    /// notes what is not. To be called before it has a link, when its receives with a wildcard
    /// match as before.
    ///
    /// # Errors
    /// The memory is of no use.
    pub fn restore_received(
        &mut self,
        memory: Vec<u64>,
        mut is_lost: impl FnMut(&MessageHead) -> bool,
    ) -> Result<(), ReceiveLogError> {
        let Some(of) = &mut self.receive_log else {
            return Ok(());
        };
        of.uncopied.clear();
        let mut found = of.log.reopen(memory)?;
        found.retain(|message| message.head.interval == 0 || !is_lost(&message.head));
        for message in found {
            let (head, len) = (message.head, message.body.len());
            let engine = &mut self.engine;
            if !engine.restore_received(&message) {
                continue;
            }
            self.restored += 1;
            if of.is_copied {
                of.uncopied.push_back((message.end, head, len));
            } else {
                engine.received_logged(head.sender, head.ssn, len);
            }
        }
        of.uncopied.make_contiguous().sort_by_key(|(end, ..)| *end);
        self.copies();
        Ok(())
    }

    /// The image of this epoch is committed: the log releases what it has.
    pub(super) fn release_received(&mut self, epoch: Epoch) {
        let image = self.images.get(&epoch);
        let image = image.and_then(|image| image.receive_log.as_ref());
        if let Some((of, image)) = self.receive_log.as_mut().zip(image) {
            let released = of.log.release(image.log.position());
            released.expect("an image of this log");
        }
    }
}
