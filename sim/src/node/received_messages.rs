//! The receive log of a node: messages of other groups that it need not get again when it comes
//! back.

use rejoin_channel_table::{Epoch, Incarnation};
use rejoin_engine::{Envelope, ReceivedBody};
use rejoin_logging::receive_log::{MessageHead, ReceiveLog};

use super::{Node, range};

impl Node {
    /// Logs what comes of other groups from now on, in memory of so many words. To be called before
    /// the first message.
    pub fn log_received(&mut self, words: usize) {
        self.receive_log = ReceiveLog::new(vec![0; words]).ok();
        self.engine.log_received();
    }

    /// Logs what is whole, as far as there is room.
    pub(super) fn log_whole(&mut self) {
        while let Some(received) = self.engine.next_received() {
            let body = match received.body {
                ReceivedBody::Memory(segment) => &self.memory[range(segment)],
                ReceivedBody::Bytes(bytes) => bytes,
            };
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
            let len = body.len();
            let log = self.receive_log.as_mut();
            let logged = log.is_some_and(|log| log.append(&head, body));
            self.unlogged += u64::from(!logged);
            if logged || self.claims_log {
                self.engine.received_logged(head.sender, head.ssn, len);
            }
        }
    }

    /// This node was restored from an image of `dead`: it takes what that one has logged since. To
    /// be called before it has a link, when its receives with a wildcard match as before.
    pub fn restore_received(&mut self, dead: &Node) {
        let Some((log, memory)) = self.receive_log.as_mut().zip(dead.receive_log.as_ref()) else {
            return;
        };
        let found = log.reopen(memory.memory().clone());
        for message in found.expect("the image is of this log") {
            let head = message.head;
            let envelope = Envelope {
                context: head.context,
                source: head.source,
                tag: head.tag,
            };
            let number = (head.sender, head.ssn);
            let taken =
                self.engine
                    .restore_received(number, envelope, head.synchronous, &message.body);
            if taken {
                self.restored += 1;
                self.engine
                    .received_logged(head.sender, head.ssn, message.body.len());
            }
        }
        self.copies();
    }

    /// The image of this epoch is committed: the log releases what it has.
    pub(super) fn release_received(&mut self, epoch: Epoch) {
        let image = self
            .images
            .get(&epoch)
            .and_then(|image| image.receive_log.as_ref());
        if let Some((log, image)) = self.receive_log.as_mut().zip(image) {
            log.release(image.position()).expect("an image of this log");
        }
    }
}
