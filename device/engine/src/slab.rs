//! A slab with generational ids: O(1), no hashing, and a stale id finds nothing.

use std::ops::{Index, IndexMut};

/// The index that no entry has; ends linked lists.
pub(crate) const NIL: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values under small indices that are used again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Keeps a value and returns its index.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize].value = Some(value);
            return index;
        }
        let index = self.slots.len() as u32;
        assert!(index < NIL, "a slab holds less than 2^32 entries");
        self.slots.push(Slot {
            generation: 0,
            value: Some(value),
        });
        index
    }

    /// The id of a live index: index and generation.
    pub(crate) fn id(&self, index: u32) -> u64 {
        u64::from(self.slots[index as usize].generation) << 32 | u64::from(index)
    }

    /// The index of an id that is still live.
    pub(crate) fn find(&self, id: u64) -> Option<u32> {
        let index = id as u32;
        let slot = self.slots.get(index as usize)?;
        (slot.generation == (id >> 32) as u32 && slot.value.is_some()).then_some(index)
    }

    /// Drops a live value where it lies; its ids become stale.
    #[inline]
    pub(crate) fn discard(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.value.is_some());
        slot.value = None;
        slot.generation = (slot.generation + 1) % u32::MAX;
        self.free.push(index);
    }

    /// Takes a value out; its ids become stale.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?;
        let value = slot.value.take()?;
        // The last generation is never used: `ReqId::DONE` is all ones.
        slot.generation = (slot.generation + 1) % u32::MAX;
        self.free.push(index);
        Some(value)
    }

    /// Live entries in the order of their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let entry = |(index, slot)| Some((index as u32, Slot::value(slot)?));
        self.slots.iter().enumerate().filter_map(entry)
    }
}

impl<T> Slot<T> {
    fn value(&self) -> Option<&T> {
        self.value.as_ref()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    /// Indices come from lists inside the engine, which hold live ones only.
    fn index(&self, index: u32) -> &T {
        match &self.slots[index as usize].value {
            Some(value) => value,
            None => panic!("slab entry {index} is not live"),
        }
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        match &mut self.slots[index as usize].value {
            Some(value) => value,
            None => panic!("slab entry {index} is not live"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_ids_find_nothing() {
        let mut slab = Slab::default();
        let a = slab.insert('a');
        let id = slab.id(a);
        assert_eq!(slab.find(id), Some(a));
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        let b = slab.insert('b');
        assert_eq!(a, b);
        assert_eq!(slab.find(id), None);
        assert_eq!(slab.find(slab.id(b)), Some(b));
        assert_eq!(slab.find(u64::MAX), None);
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(b, &'b')]);
        let id = slab.id(b);
        slab.discard(b);
        assert_eq!((slab.find(id), slab.iter().count()), (None, 0));
    }
}
