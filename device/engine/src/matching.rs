//! Matching of messages and receives (MPI-5.0 §3.5), O(1) with wildcards.
//!
//! A posted receive is in one list, that of its own pattern. An arriving message can match the
//! heads of four lists, and takes the oldest. An unexpected message is in the lists of all four
//! patterns that can match it. A receive checks the head of one list. The lists of a wildcard class
//! are kept only once some receive or probe used the class.

use crate::bins::{BinLink, Bins, CLASSES, Key};
use crate::groups::wild_receives::WildReceives;
use crate::requests::{EngineRequest, UnexpectedMessage};
use crate::types::{Envelope, Pattern};
use rejoin_channel_table::slab::{NIL, Slab};

/// Posted receives and unexpected messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Matching {
    posted: Bins,
    posted_count: [u32; CLASSES],
    unexpected: Bins,
    unexpected_count: usize,
    /// Whether the lists of a wildcard class are kept; those of class 0 always are.
    kept: [bool; CLASSES],
    order: u64,
    /// In a job of several recovery groups.
    wild: Option<Box<WildReceives>>,
}

fn class_of(pattern: &Pattern) -> usize {
    usize::from(pattern.source.is_none()) | usize::from(pattern.tag.is_none()) << 1
}

fn pattern_key(class: usize, pattern: &Pattern) -> Key {
    let (source, tag) = (pattern.source.unwrap_or(0), pattern.tag.unwrap_or(0));
    Key::new(class, pattern.context, source, tag)
}

fn envelope_key(class: usize, env: &Envelope) -> Key {
    Key::new(class, env.context, env.source, env.tag)
}

impl Matching {
    /// Messages that wait for a receive.
    pub(crate) fn unexpected(&self) -> usize {
        self.unexpected_count
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// From now on receives with a wildcard are numbered.
    pub(crate) fn number_wild(&mut self) {
        self.wild = Some(Box::default());
    }

    pub(crate) fn wild(&self) -> Option<&WildReceives> {
        self.wild.as_deref()
    }

    pub(crate) fn wild_mut(&mut self) -> Option<&mut WildReceives> {
        self.wild.as_deref_mut()
    }

    /// The pattern with which a receive is to be posted, and its number, if it has a wildcard and
    /// such receives are numbered.
    #[inline]
    pub(crate) fn numbered(&mut self, pattern: &Pattern) -> Option<(Pattern, u64)> {
        let wild = self.wild.as_deref_mut()?;
        (class_of(pattern) != 0).then(|| wild.number(pattern))
    }

    /// Gives posted receives whose matches are known the patterns of these. Their order stays.
    pub(crate) fn narrow_posted(&mut self, requests: &mut Slab<EngineRequest>) {
        let Some(mut wild) = self.wild.take() else {
            return;
        };
        let mut posted: Vec<(u64, u32)> = requests
            .iter()
            .filter_map(|(at, request)| match request {
                EngineRequest::Recv(recv) if recv.link.listed() => Some((recv.order, at)),
                _ => None,
            })
            .collect();
        posted.sort_unstable();
        for (_, at) in &posted {
            self.unpost(requests, *at);
        }
        for (_, at) in posted {
            let EngineRequest::Recv(recv) = &mut requests[at] else {
                continue;
            };
            let number = recv.wild;
            if let Some(pattern) = number.and_then(|number| wild.narrowed(number, &recv.pattern)) {
                recv.pattern = pattern;
            }
            self.list(requests, at);
        }
        self.wild = Some(wild);
    }

    /// Posts a receive.
    #[inline]
    pub(crate) fn post(&mut self, requests: &mut Slab<EngineRequest>, at: u32) {
        let order = self.next_order();
        let EngineRequest::Recv(recv) = &mut requests[at] else {
            return;
        };
        recv.order = order;
        self.list(requests, at);
    }

    /// Lists a receive as posted.
    #[inline]
    fn list(&mut self, requests: &mut Slab<EngineRequest>, at: u32) {
        let EngineRequest::Recv(recv) = &requests[at] else {
            return;
        };
        let class = class_of(&recv.pattern);
        let key = pattern_key(class, &recv.pattern);
        self.posted_count[class] += 1;
        self.posted.push(requests, 0, key, at);
    }

    /// Takes a posted receive back.
    #[inline]
    pub(crate) fn unpost(&mut self, requests: &mut Slab<EngineRequest>, at: u32) {
        let EngineRequest::Recv(recv) = &requests[at] else {
            return;
        };
        self.posted_count[class_of(&recv.pattern)] -= 1;
        self.posted.unlink(requests, 0, at);
    }

    /// Takes the oldest posted receive that matches an arriving message.
    #[inline]
    pub(crate) fn take_posted(
        &mut self,
        requests: &mut Slab<EngineRequest>,
        env: &Envelope,
    ) -> Option<u32> {
        if self.posted_count[1..] == [0; CLASSES - 1] {
            let at = self.posted.pop(requests, 0, envelope_key(0, env))?;
            self.posted_count[0] -= 1;
            return Some(at);
        }
        self.take_oldest(requests, env)
    }

    /// Takes the oldest posted receive that matches, where some receives have wildcards.
    fn take_oldest(&mut self, requests: &mut Slab<EngineRequest>, env: &Envelope) -> Option<u32> {
        let mut best = (u64::MAX, NIL);
        for class in 0..CLASSES {
            if self.posted_count[class] == 0 {
                continue;
            }
            if let Some(at) = self.posted.head(envelope_key(class, env))
                && let EngineRequest::Recv(recv) = &requests[at]
                && recv.order < best.0
            {
                best = (recv.order, at);
            }
        }
        if best.1 == NIL {
            return None;
        }
        self.unpost(requests, best.1);
        if let (Some(wild), EngineRequest::Recv(recv)) = (&mut self.wild, &requests[best.1])
            && let Some(number) = recv.wild
            && class_of(&recv.pattern) != 0
        {
            wild.matched(number, env);
        }
        Some(best.1)
    }

    /// Lists a message as unexpected.
    pub(crate) fn add(&mut self, messages: &mut Slab<UnexpectedMessage>, at: u32) {
        let order = self.next_order();
        messages[at].order = order;
        let env = messages[at].envelope;
        self.unexpected_count += 1;
        for class in 0..CLASSES {
            if class == 0 || self.kept[class] {
                self.unexpected
                    .push(messages, class, envelope_key(class, &env), at);
            }
        }
    }

    /// The oldest unexpected message that a pattern matches.
    #[inline(always)]
    pub(crate) fn find(
        &mut self,
        messages: &mut Slab<UnexpectedMessage>,
        pattern: &Pattern,
    ) -> Option<u32> {
        if self.unexpected_count == 0 {
            return None;
        }
        // A copy: this one stays in registers where it is not needed in memory.
        let pattern = *pattern;
        self.search(messages, &pattern)
    }

    #[inline(never)]
    fn search(&mut self, messages: &mut Slab<UnexpectedMessage>, pattern: &Pattern) -> Option<u32> {
        let class = class_of(pattern);
        if class != 0 && !self.kept[class] {
            self.keep(messages, class);
        }
        self.unexpected.head(pattern_key(class, pattern))
    }

    /// Takes a message out of the lists.
    pub(crate) fn remove(&mut self, messages: &mut Slab<UnexpectedMessage>, at: u32) {
        self.unexpected_count -= 1;
        for class in 0..CLASSES {
            if class == 0 || self.kept[class] {
                self.unexpected.unlink(messages, class, at);
            }
        }
    }

    /// From now on the lists of a class are kept: all listed messages enter them in order.
    fn keep(&mut self, messages: &mut Slab<UnexpectedMessage>, class: usize) {
        self.kept[class] = true;
        let mut listed: Vec<(u64, u32)> = messages
            .iter()
            .filter(|(_, message)| message.links[0].listed())
            .map(|(at, message)| (message.order, at))
            .collect();
        listed.sort_unstable();
        for (_, at) in listed {
            let key = envelope_key(class, &messages[at].envelope);
            self.unexpected.push(messages, class, key, at);
        }
    }
}

impl crate::bins::Linked for UnexpectedMessage {
    fn link(&mut self, class: usize) -> &mut BinLink {
        &mut self.links[class]
    }
}

impl crate::bins::Linked for EngineRequest {
    #[inline]
    fn link(&mut self, _: usize) -> &mut BinLink {
        match self {
            EngineRequest::Recv(recv) => &mut recv.link,
            // Only receives are posted.
            EngineRequest::Send(_) => unreachable!("a send is in no matching list"),
        }
    }
}

#[cfg(test)]
mod tests;
