//! Every connection in one array, named by tokens that fail closed when the connection is gone.

use crate::half::Half;
use crate::live::Live;
use crate::poller::Token;

/// What a slot holds.
pub(crate) enum Slot {
    /// Nothing.
    Free,
    /// A connection in its handshake.
    Half(Box<Half>),
    /// An established link.
    Live(Box<Live>),
}

/// The array.
#[derive(Default)]
pub(crate) struct Slots {
    entries: Vec<(u32, Slot)>,
    free: Vec<u32>,
    /// Incoming connections in their handshake, oldest first.
    accepting: Vec<Token>,
    /// Connections in their handshake.
    halves: usize,
}

impl Slots {
    /// A token that nobody has had before; its slot is filled by `put`.
    pub(crate) fn reserve(&mut self) -> Token {
        if let Some(slot) = self.free.pop() {
            let generation = self.entries[slot as usize].0;
            return Token { slot, generation };
        }
        let slot = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.entries.push((0, Slot::Free));
        Token {
            slot,
            generation: 0,
        }
    }

    /// Fills a slot, or changes what it holds; false for a stale token.
    pub(crate) fn put(&mut self, token: Token, slot: Slot) -> bool {
        let Some(entry) = self.entry(token) else {
            return false;
        };
        let accepting = matches!(&slot, Slot::Half(half) if half.accepts());
        let added = matches!(slot, Slot::Half(_));
        let old = std::mem::replace(&mut entry.1, slot);
        self.halves += usize::from(added);
        self.halves -= usize::from(matches!(old, Slot::Half(_)));
        self.accepting.retain(|other| *other != token);
        if accepting {
            self.accepting.push(token);
        }
        true
    }

    /// Empties a slot for good and closes its connection; `Free` for a stale token.
    pub(crate) fn take(&mut self, token: Token) -> Slot {
        let Some(entry) = self.entry(token) else {
            return Slot::Free;
        };
        let slot = std::mem::replace(&mut entry.1, Slot::Free);
        entry.0 = entry.0.wrapping_add(1);
        self.free.push(token.slot);
        self.halves -= usize::from(matches!(slot, Slot::Half(_)));
        self.accepting.retain(|other| *other != token);
        slot
    }

    /// Takes a connection in its handshake out for a moment; `put` it back, or `take` the slot.
    pub(crate) fn lift(&mut self, token: Token) -> Option<Box<Half>> {
        let entry = self.entry(token)?;
        if !matches!(entry.1, Slot::Half(_)) {
            return None;
        }
        let Slot::Half(half) = std::mem::replace(&mut entry.1, Slot::Free) else {
            return None;
        };
        self.halves -= 1;
        Some(half)
    }

    /// What a token names.
    #[inline]
    pub(crate) fn get(&mut self, token: Token) -> Option<&mut Slot> {
        self.entry(token).map(|entry| &mut entry.1)
    }

    /// The live link that a token names.
    #[inline]
    pub(crate) fn live(&mut self, token: Token) -> Option<&mut Live> {
        match self.get(token) {
            Some(Slot::Live(live)) => Some(live),
            _ => None,
        }
    }

    /// The connection in its handshake that a token names.
    pub(crate) fn half(&mut self, token: Token) -> Option<&mut Half> {
        match self.get(token) {
            Some(Slot::Half(half)) => Some(half),
            _ => None,
        }
    }

    /// Incoming connections in their handshake, oldest first.
    pub(crate) fn accepting(&self) -> &[Token] {
        &self.accepting
    }

    /// Whether any connection is in its handshake.
    pub(crate) fn has_halves(&self) -> bool {
        self.halves > 0
    }

    /// Tokens of all connections in their handshake.
    pub(crate) fn halves(&self) -> impl Iterator<Item = (Token, &Half)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(index, (generation, slot))| match slot {
                Slot::Half(half) => {
                    let slot = u32::try_from(index).ok()?;
                    Some((
                        Token {
                            slot,
                            generation: *generation,
                        },
                        &**half,
                    ))
                }
                _ => None,
            })
    }

    #[inline]
    fn entry(&mut self, token: Token) -> Option<&mut (u32, Slot)> {
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
