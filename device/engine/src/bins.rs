//! Lists of entries by matching key, in a table of its own: no allocation in steady state, O(1).
//!
//! A bin is a doubly linked list through the entries themselves. Empty bins stay until the table is
//! half full, since the same keys come again. Then the table drops them and gets a size for the
//! rest. So the table does not grow for a program that uses each tag once.

use std::hash::{Hash, Hasher};

use rejoin_channel_table::slab::{NIL, Slab};

/// A matching key: context, source and tag, each wildcard class apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    who: u64,
    what: u64,
}

/// Wildcard classes: bit 0 means any source, bit 1 any tag.
pub(crate) const CLASSES: usize = 4;

impl Key {
    /// The key of a class, without the fields that the class ignores.
    #[inline]
    pub(crate) fn new(class: usize, context: u32, source: i32, tag: i32) -> Key {
        let source = if class & 1 == 0 { source } else { 0 };
        let tag = if class & 2 == 0 { tag } else { 0 };
        Key {
            who: u64::from(context) << 32 | u64::from(source.cast_unsigned()),
            what: (class as u64) << 32 | u64::from(tag.cast_unsigned()),
        }
    }

    #[inline]
    fn hash(self) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (self.who.wrapping_mul(ODD) ^ self.what).wrapping_mul(ODD);
        mixed ^ mixed >> 29
    }
}

/// An entry's place in one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BinLink {
    prev: u32,
    next: u32,
    bin: u32,
}

impl BinLink {
    /// In no list.
    pub(crate) const NONE: BinLink = BinLink {
        prev: NIL,
        next: NIL,
        bin: NIL,
    };

    /// Whether the entry is in a list.
    pub(crate) fn listed(&self) -> bool {
        self.bin != NIL
    }
}

/// An entry that is in one list of each class at most.
pub(crate) trait Linked {
    fn link(&mut self, class: usize) -> &mut BinLink;
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bin {
    key: Key,
    head: u32,
    tail: u32,
}

/// All bins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bins {
    bins: Vec<Bin>,
    free: Vec<u32>,
    /// Open addressing with linear steps; length is zero or a power of two; `NIL` is empty.
    table: Vec<u32>,
    /// The bin used last.
    last: u32,
}

impl PartialEq for Bins {
    fn eq(&self, other: &Self) -> bool {
        self.bins == other.bins
    }
}

impl Eq for Bins {}

impl Hash for Bins {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bins.hash(state);
    }
}

impl Bins {
    #[inline]
    fn find(&self, key: Key) -> Option<u32> {
        if let Some(bin) = self.bins.get(self.last as usize)
            && bin.key == key
            && !self.table.is_empty()
        {
            return Some(self.last);
        }
        let mask = self.table.len().checked_sub(1)?;
        let mut at = key.hash() as usize & mask;
        loop {
            let bin = self.table[at];
            if bin == NIL {
                return None;
            }
            if self.bins[bin as usize].key == key {
                return Some(bin);
            }
            at = (at + 1) & mask;
        }
    }

    fn find_or_insert(&mut self, key: Key) -> u32 {
        if let Some(bin) = self.find(key) {
            self.last = bin;
            return bin;
        }
        if (self.bins.len() - self.free.len() + 1) * 2 > self.table.len() {
            self.sweep();
        }
        let bin = Bin {
            key,
            head: NIL,
            tail: NIL,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.bins[index as usize] = bin;
                index
            }
            None => {
                self.bins.push(bin);
                self.bins.len() as u32 - 1
            }
        };
        self.enter(index);
        self.last = index;
        index
    }

    fn enter(&mut self, index: u32) {
        let mask = self.table.len() - 1;
        let mut at = self.bins[index as usize].key.hash() as usize & mask;
        while self.table[at] != NIL {
            at = (at + 1) & mask;
        }
        self.table[at] = index;
    }

    /// Drops the empty bins and makes the table four times the rest.
    fn sweep(&mut self) {
        self.free.clear();
        let mut live = 0;
        for (index, bin) in self.bins.iter_mut().enumerate() {
            if bin.head == NIL {
                // No class has this number, so that no key finds it.
                bin.key.what = u64::MAX;
                self.free.push(index as u32);
            } else {
                live += 1;
            }
        }
        self.table.clear();
        self.table
            .resize(((live + 1) * 4usize).next_power_of_two().max(64), NIL);
        for index in 0..self.bins.len() as u32 {
            if self.bins[index as usize].head != NIL {
                self.enter(index);
            }
        }
    }

    /// The oldest entry under a key.
    #[inline]
    pub(crate) fn head(&self, key: Key) -> Option<u32> {
        let head = self.bins[self.find(key)? as usize].head;
        (head != NIL).then_some(head)
    }

    /// Puts an entry at the end of its key's list.
    #[inline]
    pub(crate) fn push<T: Linked>(&mut self, all: &mut Slab<T>, class: usize, key: Key, at: u32) {
        let index = self.find_or_insert(key);
        let bin = &mut self.bins[index as usize];
        let tail = std::mem::replace(&mut bin.tail, at);
        *all[at].link(class) = BinLink {
            prev: tail,
            next: NIL,
            bin: index,
        };
        if tail == NIL {
            bin.head = at;
        } else {
            all[tail].link(class).next = at;
        }
    }

    /// Takes the oldest entry under a key out.
    #[inline]
    pub(crate) fn pop<T: Linked>(
        &mut self,
        all: &mut Slab<T>,
        class: usize,
        key: Key,
    ) -> Option<u32> {
        let index = self.find(key)?;
        let bin = &mut self.bins[index as usize];
        if bin.head == NIL {
            return None;
        }
        let at = bin.head;
        let next = std::mem::replace(all[at].link(class), BinLink::NONE).next;
        bin.head = next;
        if next == NIL {
            bin.tail = NIL;
        } else {
            all[next].link(class).prev = NIL;
        }
        Some(at)
    }

    /// Takes an entry out of its list, if it is in one.
    #[inline]
    pub(crate) fn unlink<T: Linked>(&mut self, all: &mut Slab<T>, class: usize, at: u32) {
        let link = std::mem::replace(all[at].link(class), BinLink::NONE);
        let Some(bin) = self.bins.get_mut(link.bin as usize) else {
            return;
        };
        if link.prev == NIL {
            bin.head = link.next;
        } else {
            all[link.prev].link(class).next = link.next;
        }
        if link.next == NIL {
            bin.tail = link.prev;
        } else {
            all[link.next].link(class).prev = link.prev;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Entry(BinLink);

    impl Linked for Entry {
        fn link(&mut self, _: usize) -> &mut BinLink {
            &mut self.0
        }
    }

    #[test]
    fn lists_keep_their_order_and_the_table_stays_small() {
        let (mut bins, mut all) = (Bins::default(), Slab::default());
        for tag in 0..100_000 {
            let key = Key::new(0, 1, 2, tag);
            let ids = [(); 3].map(|()| all.insert(Entry(BinLink::NONE)));
            ids.iter().for_each(|&id| bins.push(&mut all, 0, key, id));
            assert_eq!(bins.head(key), Some(ids[0]));
            bins.unlink(&mut all, 0, ids[1]);
            bins.unlink(&mut all, 0, ids[0]);
            bins.push(&mut all, 0, key, ids[0]);
            assert_eq!(bins.head(key), Some(ids[2]));
            if tag % 2 == 0 {
                bins.unlink(&mut all, 0, ids[2]);
                bins.unlink(&mut all, 0, ids[2]);
                bins.unlink(&mut all, 0, ids[0]);
            } else {
                assert_eq!(bins.pop(&mut all, 0, key), Some(ids[2]));
                assert_eq!(bins.pop(&mut all, 0, key), Some(ids[0]));
            }
            assert_eq!(bins.pop(&mut all, 0, key), None);
            assert_eq!(bins.head(key), None);
            for id in ids {
                all.remove(id);
            }
        }
        assert!(bins.table.len() <= 64 && bins.bins.len() <= 64);
    }

    #[test]
    fn many_live_keys_are_found() {
        let (mut bins, mut all) = (Bins::default(), Slab::default());
        let key = |i: i32| Key::new(0, 1, i % 100, i);
        let ids: Vec<u32> = (0..10_000)
            .map(|i| {
                let id = all.insert(Entry(BinLink::NONE));
                bins.push(&mut all, 0, key(i), id);
                id
            })
            .collect();
        for (i, id) in ids.iter().enumerate() {
            assert_eq!(bins.head(key(i as i32)), Some(*id));
        }
        assert_eq!(bins.head(Key::new(1, 1, 0, 0)), None);
    }
}
