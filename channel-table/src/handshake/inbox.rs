//! Assembles messages from the pieces that the link delivers.

use super::HandshakeRefusal;
use super::message::{HEADER, LONGEST, MAGIC, MessageKind, parse_header};

/// Bytes of the message that is under way; never longer than it legally can be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Inbox {
    message: Vec<u8>,
}

impl Inbox {
    /// Takes bytes from `input` until one message is complete: its kind and body. `None`: more is
    /// needed, and all of `input` was taken.
    pub(super) fn message(
        &mut self,
        input: &mut &[u8],
    ) -> Result<Option<(MessageKind, [u8; LONGEST], usize)>, HandshakeRefusal> {
        self.fill(input, HEADER);
        let seen = self.message.len().min(MAGIC.len());
        if self.message[..seen] != MAGIC[..seen] {
            return Err(HandshakeRefusal::Malformed);
        }
        let Some(header) = self.message.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let (kind, length) = parse_header(header)?;
        self.fill(input, HEADER + length);
        if self.message.len() < HEADER + length {
            return Ok(None);
        }
        let mut body = [0; LONGEST];
        body[..length].copy_from_slice(&self.message[HEADER..]);
        self.message.clear();
        Ok(Some((kind, body, length)))
    }

    /// Takes raw bytes until there are `length`; `None`: more is needed.
    pub(super) fn raw(&mut self, input: &mut &[u8], length: usize) -> Option<Vec<u8>> {
        self.fill(input, length);
        (self.message.len() == length).then(|| std::mem::take(&mut self.message))
    }

    fn fill(&mut self, input: &mut &[u8], length: usize) {
        let missing = length.saturating_sub(self.message.len()).min(input.len());
        let (head, rest) = input.split_at(missing);
        self.message.extend_from_slice(head);
        *input = rest;
    }
}
