//! Numbered bytes in both directions over any number of connections. This module touches no socket.
//!
//! After the handshake, a connection carries records. The header of a record has a little-endian
//! `u32`, the length of its data or a mark. A `u64` follows, the count of all bytes that its sender
//! has received on this link. Each side keeps bytes until the other side's count includes them. A
//! new connection begins with both counts, so no byte is lost or duplicated.

use std::collections::VecDeque;

/// Bytes of a record's header.
const HEADER: usize = 12;

/// Most bytes of one record.
const MOST: usize = 64 * 1024;

/// In place of a length: nothing follows, and the link ends.
const BYE: u32 = u32::MAX;

/// In place of a length: nothing follows, and an answer is wanted, a record of whatever kind.
const PROBE: u32 = u32::MAX - 1;

/// An error in the records of the other side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// A record longer than records are.
    #[error("a record of {0} bytes")]
    TooLong(u32),
    /// A count of bytes that were never sent, or were dropped.
    #[error("a count of {said} bytes, where {from} to {to} are possible")]
    Count {
        /// The count that it sent.
        said: u64,
        /// The least that it can be.
        from: u64,
        /// The most.
        to: u64,
    },
}

/// State of a link that outlives its connections.
#[derive(Debug, Default)]
pub struct Session {
    /// Bytes that the other side may not have.
    unacknowledged: VecDeque<u8>,
    /// Count of bytes before that.
    had: u64,
    /// Count of bytes that were given to this connection, or reached the other side before it.
    given: u64,
    /// Count of bytes received.
    received: u64,
    /// The last count of received bytes that was sent on this connection.
    told: u64,
    /// A header that has come in part.
    header: Vec<u8>,
    /// Bytes of the present record that are to come.
    rest: usize,
    bye: Bye,
    /// The other side is to be probed.
    probe: bool,
    /// The other side has probed, and nothing was said to it since.
    answer: bool,
}

/// The end of a link.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Bye {
    /// The end is to be said when everything has been given.
    wanted: bool,
    said: bool,
    heard: bool,
}

impl Session {
    /// Takes bytes for the other side.
    pub fn push(&mut self, bytes: &[u8]) {
        if !self.bye.wanted {
            self.unacknowledged.extend(bytes);
        }
    }

    /// Ends the link after the pushed bytes.
    pub fn send_bye(&mut self) {
        self.bye.wanted = true;
    }

    /// Asks the other side for a record, which arrives if the connection lives.
    pub fn probe(&mut self) {
        self.probe = true;
    }

    /// The other side has ended the link; everything that it sent has come.
    #[must_use]
    pub fn has_received_bye(&self) -> bool {
        self.bye.heard
    }

    /// The other side has everything, as far as it was said.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.unacknowledged.is_empty() && (!self.bye.wanted || self.bye.said)
    }

    /// Bytes that the other side is not known to have.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.unacknowledged.len()
    }

    /// Count of all bytes received, with which a new connection begins.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// A new connection, on which the other side has begun by saying that it has so many bytes, and
    /// we by saying [`Session::received`].
    ///
    /// # Errors
    /// A count that can't be.
    pub fn resume(&mut self, theirs: u64) -> Result<(), SessionError> {
        self.acknowledge(theirs, self.had + self.unacknowledged.len() as u64)?;
        self.given = self.had;
        self.told = self.received;
        self.header.clear();
        self.rest = 0;
        self.bye.said = false;
        (self.probe, self.answer) = (false, false);
        Ok(())
    }

    /// Appends the next record to `out`, if there is something to send. Returns whether there was.
    pub fn gather(&mut self, out: &mut Vec<u8>) -> bool {
        let start = (self.given - self.had) as usize;
        let length = (self.unacknowledged.len() - start).min(MOST);
        let bye = length == 0 && self.bye.wanted && !self.bye.said;
        let asked = self.probe || self.answer || bye;
        if length == 0 && self.told == self.received && !asked {
            return false;
        }
        let mark = match length {
            0 if bye => BYE,
            // A record with data is answered by a count in any case.
            0 if self.probe => PROBE,
            length => length as u32,
        };
        (self.probe, self.answer) = (false, false);
        out.extend_from_slice(&mark.to_le_bytes());
        out.extend_from_slice(&self.received.to_le_bytes());
        out.extend(self.unacknowledged.range(start..start + length));
        self.given += length as u64;
        self.told = self.received;
        self.bye.said |= bye;
        true
    }

    /// Takes the bytes that arrived on the connection; payload goes to `sink`.
    ///
    /// # Errors
    /// The other side breaks the rules: the connection is of no use.
    pub fn receive(
        &mut self,
        mut bytes: &[u8],
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), SessionError> {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let (now, later) = bytes.split_at(self.rest.min(bytes.len()));
                sink(now);
                self.rest -= now.len();
                self.received += now.len() as u64;
                bytes = later;
                continue;
            }
            let lacking = HEADER - self.header.len();
            let (now, later) = bytes.split_at(lacking.min(bytes.len()));
            self.header.extend_from_slice(now);
            bytes = later;
            if self.header.len() == HEADER {
                self.begin_record()?;
            }
        }
        Ok(())
    }

    fn begin_record(&mut self) -> Result<(), SessionError> {
        let (mut mark, mut count) = ([0; 4], [0; 8]);
        mark.copy_from_slice(&self.header[..4]);
        count.copy_from_slice(&self.header[4..]);
        self.header.clear();
        self.acknowledge(u64::from_le_bytes(count), self.given)?;
        match u32::from_le_bytes(mark) {
            BYE => self.bye.heard = true,
            PROBE => self.answer = true,
            length if length as usize > MOST => return Err(SessionError::TooLong(length)),
            length => self.rest = length as usize,
        }
        Ok(())
    }

    /// The other side has so many bytes, of `to` that it can have.
    fn acknowledge(&mut self, said: u64, to: u64) -> Result<(), SessionError> {
        let from = self.had;
        if !(from..=to).contains(&said) {
            return Err(SessionError::Count { said, from, to });
        }
        self.unacknowledged.drain(..(said - from) as usize);
        self.had = said;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    fn all(session: &mut Session) -> Vec<u8> {
        let mut out = Vec::new();
        while session.gather(&mut out) {}
        out
    }

    #[test]
    fn a_forged_length_or_count_ends_the_connection() {
        let mut session = Session::default();
        let mut record = (MOST as u32 + 1).to_le_bytes().to_vec();
        record.extend_from_slice(&0u64.to_le_bytes());
        let got = session.receive(&record, |_| {});
        assert_eq!(got, Err(SessionError::TooLong(MOST as u32 + 1)));
        let mut session = Session::default();
        let mut record = 0u32.to_le_bytes().to_vec();
        record.extend_from_slice(&1u64.to_le_bytes());
        let (said, from, to) = (1, 0, 0);
        let wrong = Err(SessionError::Count { said, from, to });
        assert_eq!(session.receive(&record, |_| {}), wrong);
        assert_eq!(session.resume(1), wrong);
    }

    #[test]
    fn the_end_comes_after_everything_and_again_on_a_new_connection() {
        let (mut one, mut other) = (Session::default(), Session::default());
        one.push(b"last words");
        one.send_bye();
        one.push(b"not sent");
        let lost = all(&mut one);
        assert!(!lost.is_empty() && !one.is_settled());
        one.resume(other.received()).unwrap();
        other.resume(one.received()).unwrap();
        let mut got = Vec::new();
        let bytes = all(&mut one);
        other.receive(&bytes, |b| got.extend_from_slice(b)).unwrap();
        assert_eq!(got, b"last words");
        assert!(other.has_received_bye());
        one.receive(&all(&mut other), |_| {}).unwrap();
        assert!(one.is_settled());
    }

    #[test]
    fn a_probe_is_answered_once() {
        let (mut one, mut other) = (Session::default(), Session::default());
        one.probe();
        let probe = all(&mut one);
        assert_eq!(probe.len(), HEADER);
        assert!(all(&mut one).is_empty());
        other.receive(&probe, |_| panic!("payload")).unwrap();
        let answer = all(&mut other);
        assert_eq!(answer.len(), HEADER);
        assert!(all(&mut other).is_empty());
        one.receive(&answer, |_| panic!("payload")).unwrap();
        assert!(all(&mut one).is_empty());
    }

    /// Bytes to copy: tests are not optimised.
    static PATTERN: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..100_256u32).map(|i| (i % 251) as u8).collect());

    proptest! {
        /// Connections break anywhere, in both directions; each side gets the other's bytes, once.
        #[test]
        fn nothing_is_lost_or_repeated(
            steps in proptest::collection::vec((0usize..6, 0usize..100_000), 1..80)
        ) {
            let mut sides = [Session::default(), Session::default()];
            let mut wires = [Vec::new(), Vec::new()];
            let (mut sent, mut got) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
            let mut stamp = 0u8;
            let steps = steps.into_iter().chain([(5, 0), (2, 0), (3, 0)]);
            for (what, amount) in steps {
                match what {
                    0 | 1 => {
                        stamp = stamp.wrapping_add(1);
                        let bytes = &PATTERN[stamp.into()..][..amount];
                        sides[what].push(bytes);
                        sent[what].extend_from_slice(bytes);
                    }
                    2 | 3 => {
                        let from = what - 2;
                        wires[from].extend(all(&mut sides[from]));
                        // At the end everything, else some of it.
                        let count = if amount == 0 { wires[from].len() } else { amount };
                        let count = count.min(wires[from].len());
                        let rest = wires[from].split_off(count);
                        let bytes = std::mem::replace(&mut wires[from], rest);
                        sides[1 - from].receive(&bytes, |b| got[from].extend_from_slice(b)).unwrap();
                    }
                    4 => {}
                    _ => {
                        wires.iter_mut().for_each(Vec::clear);
                        let counts = [sides[0].received(), sides[1].received()];
                        sides[0].resume(counts[1]).unwrap();
                        sides[1].resume(counts[0]).unwrap();
                    }
                }
            }
            prop_assert_eq!(&sent[0], &got[0]);
            prop_assert_eq!(&sent[1], &got[1]);
        }
    }
}
