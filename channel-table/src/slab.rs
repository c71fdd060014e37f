//! A slab with generational ids: O(1), no hashing, no allocation once it has grown, and a stale id
//! finds nothing.
//!
//! An entry has an *index* and an *id* (index and generation). The owner finds the entry by its
//! index without a check. Callers that may hold on to an id longer than the entry lives use the id.
//! `find`, `get` and `take` return `None` for an id whose entry is gone, even if a new entry uses
//! the index. A generation repeats after 2^32 - 1 uses of one index.

use std::ops::{Index, IndexMut};

/// The index that no entry has; ends lists of indices.
pub const NIL: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values under small indices that are used again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slab<T> {
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
    ///
    /// # Panics
    /// When there are 2^32 - 1 entries.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
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

    /// The id of a live index: the generation above the index. No id is all ones.
    ///
    /// # Panics
    /// When no entry ever had the index.
    #[inline]
    pub fn id(&self, index: u32) -> u64 {
        u64::from(self.slots[index as usize].generation) << 32 | u64::from(index)
    }

    /// The index of an id that is still live.
    #[inline]
    pub fn find(&self, id: u64) -> Option<u32> {
        let index = id as u32;
        let slot = self.slots.get(index as usize)?;
        (slot.generation == (id >> 32) as u32 && slot.value.is_some()).then_some(index)
    }

    /// The value of an id that is still live.
    #[inline]
    pub fn get(&self, id: u64) -> Option<&T> {
        self.find(id).map(|index| &self[index])
    }

    /// The value of an id that is still live, to be changed.
    #[inline]
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.find(id).map(|index| &mut self[index])
    }

    /// Takes the value of an id out, if it is still live; the id becomes stale.
    pub fn take(&mut self, id: u64) -> Option<T> {
        self.find(id).and_then(|index| self.remove(index))
    }

    /// Drops a live value where it lies; its ids become stale.
    ///
    /// # Panics
    /// When no entry ever had the index.
    #[inline]
    pub fn discard(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.value.take().is_some() {
            slot.grow_old();
            self.free.push(index);
        }
    }

    /// Takes a value out, if the index is live; its ids become stale.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?;
        let value = slot.value.take()?;
        slot.grow_old();
        self.free.push(index);
        Some(value)
    }

    /// Number of live entries.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no live entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Live entries with their indices, in the order of these.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let entries = self.slots.iter().enumerate();
        entries.filter_map(|(index, slot)| Some((index as u32, slot.value.as_ref()?)))
    }

    /// Live entries with their indices, in the order of these, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let entries = self.slots.iter_mut().enumerate();
        entries.filter_map(|(index, slot)| Some((index as u32, slot.value.as_mut()?)))
    }
}

impl<T> Slot<T> {
    /// The last generation is never used, so that no id is all ones.
    #[inline]
    fn grow_old(&mut self) {
        self.generation = (self.generation + 1) % u32::MAX;
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    /// For owners whose lists hold live indices only; panics for any other.
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
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stale_ids_find_nothing() {
        let mut slab = Slab::default();
        let a = slab.insert('a');
        let id = slab.id(a);
        assert_eq!((slab.find(id), slab.get(id)), (Some(a), Some(&'a')));
        assert_eq!((slab.remove(a), slab.remove(a)), (Some('a'), None));
        let b = slab.insert('b');
        assert_eq!(a, b);
        assert_eq!((slab.find(id), slab.take(id)), (None, None));
        assert_eq!(slab.get_mut(id), None);
        assert_eq!(slab.find(slab.id(b)), Some(b));
        assert_eq!(slab.find(u64::MAX), None);
        let id = slab.id(b);
        slab.discard(b);
        slab.discard(b);
        assert_eq!((slab.find(id), slab.len()), (None, 0));
        // An entry that is dropped twice frees its index once.
        assert_ne!(slab.insert('c'), slab.insert('d'));
    }

    #[test]
    fn no_id_is_all_ones_though_generations_come_back() {
        let mut slab = Slab::default();
        slab.insert(0);
        slab.slots[0].generation = u32::MAX - 1;
        assert_eq!(slab.id(0) >> 32, u64::from(u32::MAX - 1));
        slab.discard(0);
        slab.insert(1);
        assert_eq!(slab.id(0), 0);
    }

    proptest! {
        /// Any order of calls has the same results as a map whose ids are never used again.
        #[test]
        fn agrees_with_a_map(steps in proptest::collection::vec((0u8..5, any::<u16>()), 1..200)) {
            let (mut slab, mut map, mut ids) = (Slab::default(), BTreeMap::new(), Vec::new());
            for (step, value) in steps {
                let id = ids.get(usize::from(value) % ids.len().max(1)).copied();
                match (step, id) {
                    (0 | 1, _) | (_, None) => {
                        let index = slab.insert(value);
                        let id = slab.id(index);
                        prop_assert!(map.insert(id, value).is_none());
                        ids.push(id);
                    }
                    (2, Some(id)) => prop_assert_eq!(slab.take(id), map.remove(&id)),
                    (3, Some(id)) => {
                        if let Some(index) = slab.find(id) {
                            slab.discard(index);
                        }
                        map.remove(&id);
                    }
                    (_, Some(id)) => {
                        let both = (slab.get_mut(id), map.get_mut(&id));
                        if let (Some(a), Some(b)) = both {
                            (*a, *b) = (value, value);
                        }
                    }
                }
                prop_assert_eq!((slab.len(), slab.is_empty()), (map.len(), map.is_empty()));
                prop_assert!(ids.iter().all(|id| slab.get(*id) == map.get(id)));
                let mut live: Vec<(u64, u16)> = slab.iter().map(|(at, v)| (slab.id(at), *v)).collect();
                live.sort_unstable();
                prop_assert!(live.iter().map(|(id, v)| (id, v)).eq(map.iter()));
                let count = slab.iter_mut().map(|(_, v)| *v = v.wrapping_add(1)).count();
                map.values_mut().for_each(|v| *v = v.wrapping_add(1));
                prop_assert_eq!(count, map.len());
            }
        }
    }
}
