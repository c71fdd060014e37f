//! Every connection in one array, named by tokens that fail closed when the connection is gone.

use super::live::Live;
use super::pending::PendingConnection;
use crate::events::PollToken;
use crate::transport::{AnyEndpoint, Endpoint};

/// The content of a slot.
pub(super) enum Slot {
    /// The slot is free.
    Free,
    /// A connection in its handshake.
    Pending(Box<PendingConnection>),
    /// An established link.
    Live(Box<Live>),
}

impl Slot {
    fn is_watched(&self) -> bool {
        matches!(self, Self::Live(live) if !live.polled)
    }
}

/// The array.
#[derive(Default)]
pub(super) struct Slots {
    entries: Vec<(u32, Slot)>,
    free: Vec<u32>,
    /// Incoming connections in their handshake, oldest first.
    accepting: Vec<PollToken>,
    /// Connections in their handshake.
    pending: usize,
    /// Links that epoll announces the bytes of.
    watched: usize,
}

impl Slots {
    /// A token that was never used before; `put` fills its slot.
    pub(super) fn reserve(&mut self) -> PollToken {
        if let Some(slot) = self.free.pop() {
            let generation = self.entries[slot as usize].0;
            return PollToken { slot, generation };
        }
        let slot = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.entries.push((0, Slot::Free));
        PollToken {
            slot,
            generation: 0,
        }
    }

    /// Fills a slot, or changes its content; false for a stale token.
    pub(super) fn put(&mut self, token: PollToken, slot: Slot) -> bool {
        let Some(entry) = self.entry(token) else {
            return false;
        };
        let accepting = matches!(&slot, Slot::Pending(pending) if pending.accepts());
        let added = matches!(slot, Slot::Pending(_));
        let watched = usize::from(slot.is_watched());
        let old = std::mem::replace(&mut entry.1, slot);
        self.watched += watched;
        self.watched -= usize::from(old.is_watched());
        self.pending += usize::from(added);
        self.pending -= usize::from(matches!(old, Slot::Pending(_)));
        self.accepting.retain(|other| *other != token);
        if accepting {
            self.accepting.push(token);
        }
        true
    }

    /// Empties a slot for good and closes its connection; `Free` for a stale token.
    pub(super) fn take(&mut self, token: PollToken) -> Slot {
        let Some(entry) = self.entry(token) else {
            return Slot::Free;
        };
        let slot = std::mem::replace(&mut entry.1, Slot::Free);
        entry.0 = entry.0.wrapping_add(1);
        self.free.push(token.slot);
        self.watched -= usize::from(slot.is_watched());
        self.pending -= usize::from(matches!(slot, Slot::Pending(_)));
        self.accepting.retain(|other| *other != token);
        slot
    }

    /// Takes a connection in its handshake out for a moment; `put` it back, or `take` the slot.
    pub(super) fn lift(&mut self, token: PollToken) -> Option<Box<PendingConnection>> {
        let entry = self.entry(token)?;
        if !matches!(entry.1, Slot::Pending(_)) {
            return None;
        }
        let Slot::Pending(pending) = std::mem::replace(&mut entry.1, Slot::Free) else {
            return None;
        };
        self.pending -= 1;
        Some(pending)
    }

    /// Drops every connection without closing it.
    pub(super) fn forget(self) {
        for (_, slot) in self.entries {
            match slot {
                Slot::Free => {}
                Slot::Pending(pending) => pending.forget(),
                Slot::Live(live) => live.endpoint.forget(),
            }
        }
    }

    /// Has no peer read anything in this process any more.
    pub(super) fn withdraw(&self) {
        for (_, slot) in &self.entries {
            match slot {
                Slot::Free => {}
                Slot::Pending(pending) => pending.withdraw(),
                Slot::Live(live) => live.endpoint.withdraw(),
            }
        }
    }

    /// The slot of a token.
    #[inline(always)]
    fn get(&mut self, token: PollToken) -> Option<&mut Slot> {
        self.entry(token).map(|entry| &mut entry.1)
    }

    /// The live link that a token names.
    #[inline(always)]
    pub(super) fn live(&mut self, token: PollToken) -> Option<&mut Live> {
        match self.get(token) {
            Some(Slot::Live(live)) => Some(live),
            _ => None,
        }
    }

    /// The connection in its handshake that a token names.
    pub(super) fn pending_now(&self, token: PollToken) -> Option<&PendingConnection> {
        let entry = self.entries.get(token.slot as usize)?;
        match entry {
            (generation, Slot::Pending(pending)) if *generation == token.generation => {
                Some(pending)
            }
            _ => None,
        }
    }

    /// All live links with their tokens.
    pub(super) fn links(&mut self) -> impl Iterator<Item = (PollToken, &mut Live)> {
        let entries = self.entries.iter_mut().enumerate();
        entries.filter_map(|(index, (generation, slot))| match slot {
            Slot::Live(live) => {
                let token = PollToken {
                    slot: u32::try_from(index).ok()?,
                    generation: *generation,
                };
                Some((token, &mut **live))
            }
            _ => None,
        })
    }

    /// Incoming connections in their handshake, oldest first.
    pub(super) fn accepting(&self) -> &[PollToken] {
        &self.accepting
    }

    /// Whether epoll must announce the bytes of any link.
    #[inline]
    pub(super) fn any_watched(&self) -> bool {
        self.watched > 0
    }

    /// The endpoints of all live links.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &AnyEndpoint> {
        self.entries.iter().filter_map(|(_, slot)| match slot {
            Slot::Live(live) => Some(&live.endpoint),
            _ => None,
        })
    }

    /// Whether any connection is in its handshake.
    #[inline]
    pub(super) fn any_pending(&self) -> bool {
        self.pending > 0
    }

    /// Tokens of all connections in their handshake.
    pub(super) fn pending(&self) -> impl Iterator<Item = (PollToken, &PendingConnection)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(index, (generation, slot))| match slot {
                Slot::Pending(pending) => {
                    let slot = u32::try_from(index).ok()?;
                    Some((
                        PollToken {
                            slot,
                            generation: *generation,
                        },
                        &**pending,
                    ))
                }
                _ => None,
            })
    }

    #[inline(always)]
    fn entry(&mut self, token: PollToken) -> Option<&mut (u32, Slot)> {
        self.entries
            .get_mut(token.slot as usize)
            .filter(|(generation, _)| *generation == token.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_the_past_name_nothing() {
        let mut slots = Slots::default();
        let first = slots.reserve();
        assert!(slots.put(first, Slot::Free));
        slots.take(first);
        let second = slots.reserve();
        assert_eq!(second.slot, first.slot);
        assert_ne!(second, first);
        assert!(slots.get(first).is_none());
        assert!(!slots.put(first, Slot::Free));
        assert!(slots.get(second).is_some());
    }
}
