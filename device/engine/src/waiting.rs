//! Describes the requests that a rank waits for, to answer "why does it hang?". These functions may
//! be slow.

use std::fmt;

use rejoin_channel_table::ids::{Rank, Ssn};

use crate::bulk::BulkSource;
use crate::channel_state::Channel;
use crate::engine::Engine;
use crate::partial_bodies::Target;
use crate::requests::{EngineRequest, Recv, RecvState, Send};
use crate::types::ReqId;
use crate::write_plan::PlannedPart;

/// A request that is not complete. `Display` gives one line in plain words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The request.
    pub request: ReqId,
    /// What it does.
    pub operation: Operation,
    /// World rank at the other end; `None` for a receive from any.
    pub peer: Option<Rank>,
    /// Whether there is a link to that rank; `None` without a peer, and for this rank itself.
    pub linked: Option<bool>,
    /// Context id of the communicator.
    pub context: u32,
    /// Tag; `None` for a receive of any.
    pub tag: Option<i32>,
    /// Length of the message or of the receive's buffer, in bytes.
    pub len: u64,
    /// The cause of the wait.
    pub cause: WaitCause,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A send.
    Send,
    /// A synchronous send (MPI-5.0 §3.4).
    SynchronousSend,
    /// A receive.
    Receive,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCause {
    /// Send: there is no link to the peer.
    Link,
    /// Send: too much is under way that the peer has not received or acknowledged.
    Window,
    /// Send: the link takes no more bytes, for the peer does not read.
    Writing,
    /// Send of a long message: the peer has no receive for it.
    ClearToSend,
    /// Send of a long message: its body is on its way.
    Sending {
        /// Bytes handed to the link.
        handed: u64,
    },
    /// Send: the peer has not said that it has the message in memory.
    Ack,
    /// Synchronous send, or one to this rank itself: no receive has taken the message.
    Match,
    /// Send: the peer has not said whether it is cancelled.
    CancelReply,
    /// Receive: no message has come that it matches.
    Message,
    /// Receive: its message was found, and the body is on its way.
    Receiving {
        /// Bytes that have come in whole frames.
        received: u64,
        /// Length of the message.
        of: u64,
    },
}

/// The state of the channel to one rank, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCounts {
    /// The rank.
    pub peer: Rank,
    /// Whether there is a link.
    pub linked: bool,
    /// Messages given a place in the order of the channel.
    pub sent: u64,
    /// Sent messages that the peer has not acknowledged.
    pub unacknowledged: u64,
    /// Sent messages that are retained, acknowledged or not.
    pub retained: u64,
    /// Sends that wait for the window.
    pub blocked: u64,
    /// Messages that came from there.
    pub received: u64,
    /// Received messages that no receive has taken.
    pub unexpected: u64,
    /// Receives posted for this rank by name.
    pub posted: u64,
}

impl Engine {
    /// What a request waits for; `None` when it is complete, or the id is stale.
    pub fn describe(&self, request: ReqId) -> Option<Waiting> {
        self.describe_at(self.core.requests.find(request.0)?)
    }

    /// All incomplete requests, and the causes of their waits.
    pub fn waiting(&self) -> impl Iterator<Item = Waiting> + '_ {
        let all = self.core.requests.iter();
        all.filter_map(|(at, _)| self.describe_at(at))
    }

    /// The channel to a rank in numbers; `None` when nothing was ever sent or received there.
    pub fn peer_counts(&self, peer: Rank) -> Option<PeerCounts> {
        let channel = self.peer(peer)?;
        let messages = self.core.messages.iter();
        let unexpected = messages.filter(|(_, m)| m.peer == peer && m.bound.is_none());
        let retention = &channel.tx.retention;
        Some(PeerCounts {
            peer,
            linked: channel.up,
            sent: retention.next().0,
            unacknowledged: retention.next().0 - retention.unacked().0,
            retained: retention.next().0 - retention.first().0,
            blocked: channel.tx.blocked.len() as u64,
            received: channel.rx.order.next().0,
            unexpected: unexpected.count() as u64,
            posted: u64::from(self.core.posted_from[peer.index()]),
        })
    }

    fn describe_at(&self, at: u32) -> Option<Waiting> {
        if self.core.outcome(at).is_some() {
            return None;
        }
        let mut waiting = match &self.core.requests[at] {
            EngineRequest::Send(send) => self.of_send(send),
            EngineRequest::Recv(recv) => self.of_receive(at, recv),
        };
        waiting.request = ReqId(self.core.requests.id(at));
        let other = waiting.peer.filter(|peer| *peer != self.me);
        waiting.linked = other.map(|peer| self.is_up(peer));
        Some(waiting)
    }

    fn of_send(&self, send: &Send) -> Waiting {
        let operation = if send.sync {
            Operation::SynchronousSend
        } else {
            Operation::Send
        };
        let cause = match self.peer(send.peer) {
            _ if send.peer == self.me => WaitCause::Match,
            Some(channel) if channel.up => channel.cause_of(send),
            _ => WaitCause::Link,
        };
        Waiting {
            request: ReqId::DONE,
            operation,
            peer: Some(send.peer),
            linked: None,
            context: send.envelope.context,
            tag: Some(send.envelope.tag),
            len: send.seg.len as u64,
            cause,
        }
    }

    fn of_receive(&self, at: u32, recv: &Recv) -> Waiting {
        let posted = Waiting {
            request: ReqId::DONE,
            operation: Operation::Receive,
            peer: recv.pattern.from,
            linked: None,
            context: recv.pattern.context,
            tag: recv.pattern.tag,
            len: recv.seg.len as u64,
            cause: WaitCause::Message,
        };
        if recv.state == RecvState::Posted {
            return posted;
        }
        // Matched: the message says more than the pattern, and a matched probe has no pattern.
        let (message, received) = self.taken_by(at);
        Waiting {
            peer: message.map(|(peer, _)| peer).or(posted.peer),
            context: message.map_or(posted.context, |(_, context)| context),
            tag: Some(recv.completion.tag),
            cause: WaitCause::Receiving {
                received,
                of: recv.completion.truncated.unwrap_or(recv.completion.len),
            },
            ..posted
        }
    }

    /// The sender, and context where it is known, of the message that a receive has taken, and how
    /// much of it has come.
    fn taken_by(&self, request: u32) -> (Option<(Rank, u32)>, u64) {
        let EngineRequest::Recv(recv) = &self.core.requests[request] else {
            return (None, 0);
        };
        let mut target = Target::Request(request);
        let mut context = recv.pattern.context;
        let mut messages = self.core.messages.iter();
        if let Some((at, message)) = messages.find(|(_, m)| m.bound == Some(request)) {
            target = Target::Message(at);
            context = message.envelope.context;
        }
        for channel in self.channels.iter().flatten() {
            let partial = channel.rx.partial.iter().find(|p| p.target == target);
            let current = channel.rx.current.as_ref().map(|c| c.target);
            if partial.is_some() || current == Some(target) {
                let received = partial.map_or(0, |partial| partial.received);
                return (Some((channel.peer, context)), received);
            }
        }
        (None, 0)
    }
}

impl Channel {
    /// The cause for a send whose link is up.
    fn cause_of(&self, send: &Send) -> WaitCause {
        if send.blocked {
            WaitCause::Window
        } else if self.unwritten(send.ssn) {
            WaitCause::Writing
        } else if send.cancel.is_some() {
            WaitCause::CancelReply
        } else if send.needs_finish && !send.clear {
            WaitCause::ClearToSend
        } else if send.needs_finish {
            let bulk = self.tx.bulk.iter().find(|bulk| bulk.ssn == send.ssn);
            let handed = bulk.map_or(send.seg.len, |bulk| bulk.offset);
            WaitCause::Sending {
                handed: handed as u64,
            }
        } else if send.needs_match {
            WaitCause::Match
        } else {
            WaitCause::Ack
        }
    }

    /// Whether the envelope, or the body behind it, has not been written as a whole.
    fn unwritten(&self, message: Ssn) -> bool {
        let frame = self.tx.retention.frame(message);
        self.tx.plan.parts().any(|part| match part {
            PlannedPart::Ring(range) => frame
                .as_ref()
                .is_some_and(|frame| range.start < frame.end && frame.start < range.end),
            PlannedPart::Body { ssn, .. } => *ssn == message,
            PlannedPart::Chunk { ssn, source, .. } => {
                *source == BulkSource::Eager && *ssn == message
            }
            PlannedPart::Headers { .. } => false,
        })
    }
}

/// Text for a missing link without further information.
const NO_LINK: &str = "there is no link to it";

impl Waiting {
    /// One line in plain words. The caller gives the state of a missing link.
    pub fn in_words<'a>(&'a self, link: Option<&'a str>) -> impl fmt::Display + 'a {
        let link = link.unwrap_or(NO_LINK);
        fmt::from_fn(move |f| self.write(f, link))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, link: &str) -> fmt::Result {
        let len = self.len;
        match self.operation {
            Operation::Send => write!(f, "send of {len} bytes to ")?,
            Operation::SynchronousSend => write!(f, "synchronous send of {len} bytes to ")?,
            Operation::Receive => write!(f, "receive of up to {len} bytes from ")?,
        }
        match self.peer {
            Some(peer) => write!(f, "rank {peer}")?,
            None => f.write_str("any rank")?,
        }
        match self.tag {
            Some(tag) => write!(f, ", tag {tag}")?,
            None => f.write_str(", any tag")?,
        }
        write!(f, ", context {}: ", self.context)?;
        match self.cause {
            WaitCause::Link => write!(f, "not sent: {link}"),
            cause if self.linked == Some(false) => write!(f, "{cause} ({link} now)"),
            cause => write!(f, "{cause}"),
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, NO_LINK)
    }
}

impl fmt::Display for WaitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitCause::Link => return write!(f, "not sent: {NO_LINK}"),
            WaitCause::Window => "not sent: it has too many messages that it has not received",
            WaitCause::Writing => "not written as a whole: it does not read its link",
            WaitCause::ClearToSend => "announced: it has no receive for the message",
            WaitCause::Sending { handed } => {
                return write!(f, "its body is on its way, {handed} bytes were issued");
            }
            WaitCause::Ack => "sent: it has not acknowledged the message",
            WaitCause::Match => "sent: no receive has taken the message",
            WaitCause::CancelReply => "it has not answered whether the message is cancelled",
            WaitCause::Message => "no matching message has come",
            WaitCause::Receiving { received, of } => {
                return write!(f, "{received} of {of} bytes have come");
            }
        })
    }
}

impl fmt::Display for PeerCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = if self.linked { "link up" } else { "no link" };
        write!(
            f,
            "rank {} ({link}): {} messages sent, {} not acknowledged, {} sends wait for the window; \
             {} messages received, {} unexpected, {} receives posted",
            self.peer,
            self.sent,
            self.unacknowledged,
            self.blocked,
            self.received,
            self.unexpected,
            self.posted
        )
    }
}

#[cfg(test)]
mod tests;
