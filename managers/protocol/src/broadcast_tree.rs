//! The tree of local managers that broadcasts of central go down: its shape.
//!
//! Hosts have positions from 0, site by site. The first site is near central, the others are behind
//! slow links. Near central the hosts form a heap with central at its top: with `k` children each,
//! central has numbers 0 to `k-1`, and number `p` has `k(p+1)` to `k(p+1)+k-1`. The hosts of
//! another site form a heap below the first of them, which alone is a child of central. So a
//! message crosses the link to a site once. Hosts that are left out count for nothing: if the first
//! host of a site is lost and left out, the next one takes its place.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Milliseconds that a child has for each level of its subtree, unless the tree says otherwise.
pub const PATIENCE: u64 = 250;

/// A member of the tree: central (`None`), or the local manager of the host at a position.
pub type Peer = Option<usize>;

/// The shape of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tree {
    /// Where the positions of each site end; the first site is near central.
    ends: Arc<[usize]>,
    fanout: usize,
    patience: u64,
    /// Positions without a place in the tree, ascending.
    absent: Arc<[usize]>,
}

impl Tree {
    /// So many hosts near central, each with so many children at most (at least one).
    #[must_use]
    pub fn new(size: usize, fanout: usize) -> Tree {
        Tree {
            ends: Arc::new([size]),
            fanout: fanout.max(1),
            patience: PATIENCE,
            absent: Arc::new([]),
        }
    }

    /// The hosts are at several sites, whose positions end there. Ends that descend are raised.
    #[must_use]
    pub fn with_sites(self, ends: impl IntoIterator<Item = usize>) -> Tree {
        let mut last = 0;
        let raised = ends.into_iter().map(|end| {
            last = end.max(last);
            last
        });
        let ends: Arc<[usize]> = raised.collect();
        match ends.is_empty() {
            true => self,
            false => Tree { ends, ..self },
        }
    }

    /// A child has so many milliseconds for each level of its subtree. This must be more than a
    /// message takes to all children, or hosts are adopted that only wait for their turn.
    #[must_use]
    pub fn with_patience(self, patience: u64) -> Tree {
        Tree { patience, ..self }
    }

    /// The same tree without these hosts, and with all others.
    #[must_use]
    pub fn without(&self, absent: &BTreeSet<usize>) -> Tree {
        let known = absent.iter().filter(|p| **p < self.size());
        Tree {
            absent: known.copied().collect(),
            ..self.clone()
        }
    }

    /// The hosts that are left out, ascending.
    #[must_use]
    pub fn absent(&self) -> &[usize] {
        &self.absent
    }

    /// A host has a place in the tree.
    #[must_use]
    pub fn has(&self, position: usize) -> bool {
        position < self.size() && self.absent.binary_search(&position).is_err()
    }

    /// Milliseconds that a child has for each level.
    #[must_use]
    pub fn patience(&self) -> u64 {
        self.patience
    }

    /// Positions of a peer's children.
    #[must_use]
    pub fn children(&self, peer: Peer) -> Vec<usize> {
        match peer {
            None => self.below_central(),
            Some(position) => {
                let Some((site, number)) = self.number(position) else {
                    return Vec::new();
                };
                let first = self.first_child(site, number);
                let last = first.saturating_add(self.fanout);
                let child = |number| self.position(site, number);
                (first..last).map_while(child).collect()
            }
        }
    }

    /// The parent of a position.
    #[must_use]
    pub fn parent(&self, position: usize) -> Peer {
        let (site, number) = self.number(position)?;
        let above = match site {
            0 => (number / self.fanout).checked_sub(1)?,
            _ => number.checked_sub(1)? / self.fanout,
        };
        self.position(site, above)
    }

    /// Whether a position is another one or below it.
    #[must_use]
    pub fn is_within(&self, mut position: usize, above: usize) -> bool {
        while position > above {
            match self.parent(position) {
                Some(parent) => position = parent,
                None => return false,
            }
        }
        position == above
    }

    /// Levels below a position.
    #[must_use]
    pub fn height(&self, position: usize) -> u32 {
        let Some((site, number)) = self.number(position) else {
            return 0;
        };
        let exists = |number: &usize| self.position(site, *number).is_some();
        let first = |number: usize| Some(self.first_child(site, number)).filter(exists);
        let below = std::iter::successors(first(number), |number| first(*number));
        u32::try_from(below.count()).unwrap_or(u32::MAX)
    }

    fn size(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn below_central(&self) -> Vec<usize> {
        let near = (0..self.fanout).map_while(|number| self.position(0, number));
        let far = (1..self.ends.len()).filter_map(|site| self.position(site, 0));
        near.chain(far).collect()
    }

    /// The number of the first child of a host, among those of its site that are not left out.
    fn first_child(&self, site: usize, number: usize) -> usize {
        match site {
            0 => number.saturating_add(1).saturating_mul(self.fanout),
            _ => number.saturating_mul(self.fanout).saturating_add(1),
        }
    }

    fn range(&self, site: usize) -> Range<usize> {
        let start = site.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[site]
    }

    /// The site of a host that is not left out, and its number there.
    fn number(&self, position: usize) -> Option<(usize, usize)> {
        let site = self.ends.partition_point(|end| *end <= position);
        if site >= self.ends.len() {
            return None;
        }
        let start = self.range(site).start;
        let before = |position: usize| self.absent.partition_point(|p| *p < position);
        let is_absent = self.absent.binary_search(&position).is_ok();
        (!is_absent).then(|| (site, position - start - (before(position) - before(start))))
    }

    /// The position of a number of a site.
    fn position(&self, site: usize, number: usize) -> Option<usize> {
        let range = self.range(site);
        let mut position = range.start.checked_add(number)?;
        let first = self.absent.partition_point(|p| *p < range.start);
        for absent in &self.absent[first..] {
            if *absent > position {
                break;
            }
            position += 1;
        }
        (position < range.end).then_some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_a_heap_with_central_at_its_top() {
        let tree = Tree::new(9, 2);
        assert_eq!(tree.children(None), [0, 1]);
        assert_eq!(tree.children(Some(0)), [2, 3]);
        assert_eq!(tree.children(Some(1)), [4, 5]);
        assert_eq!(tree.children(Some(2)), [6, 7]);
        assert_eq!(tree.children(Some(3)), [8]);
        assert!(tree.children(Some(4)).is_empty());
        assert!(tree.is_within(8, 0) && tree.is_within(8, 3) && !tree.is_within(8, 1));
        assert!(tree.is_within(1, 1) && !tree.is_within(0, 1));
        let heights: Vec<u32> = (0..9).map(|p| tree.height(p)).collect();
        assert_eq!(heights, [2, 1, 1, 1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn one_host_of_a_far_site_is_below_central() {
        // 0 to 2 are near, 3 to 7 at one site, 8 at another.
        let tree = Tree::new(9, 2).with_sites([3, 8, 9]);
        assert_eq!(tree.children(None), [0, 1, 3, 8]);
        assert_eq!(tree.children(Some(0)), [2]);
        assert_eq!(tree.children(Some(3)), [4, 5]);
        assert_eq!(tree.children(Some(4)), [6, 7]);
        assert!(tree.children(Some(8)).is_empty());
        assert_eq!((tree.height(3), tree.height(4), tree.height(8)), (2, 1, 0));
        assert!(tree.is_within(7, 3) && !tree.is_within(8, 3) && !tree.is_within(3, 0));
        // Nobody near.
        let far = Tree::new(3, 8).with_sites([0, 3]);
        assert_eq!(far.children(None), [0]);
        assert_eq!(far.children(Some(0)), [1, 2]);
    }

    #[test]
    fn the_next_host_of_a_site_takes_the_place_of_one_that_is_left_out() {
        let tree = Tree::new(9, 2).with_sites([3, 8, 9]);
        let tree = tree.without(&[0, 3, 4, 8].into());
        assert_eq!(tree.children(None), [1, 2, 5]);
        assert_eq!(tree.children(Some(5)), [6, 7]);
        assert!(tree.children(Some(3)).is_empty() && !tree.has(3));
        assert_eq!((tree.parent(7), tree.parent(5)), (Some(5), None));
        let all = tree.without(&BTreeSet::new());
        assert_eq!(all.children(None), [0, 1, 3, 8]);
    }

    #[test]
    fn parents_and_children_agree_in_any_tree() {
        for seed in 0..500usize {
            let fanout = 1 + seed % 4;
            let ends = [seed % 7, seed % 7 + seed % 11, seed % 7 + seed % 11 + 5];
            let absent: BTreeSet<usize> =
                (0..ends[2]).filter(|p| (p * 7 + seed) % 5 == 0).collect();
            let tree = Tree::new(0, fanout).with_sites(ends).without(&absent);
            let mut reached = BTreeSet::new();
            let mut waiting = vec![None];
            while let Some(peer) = waiting.pop() {
                for child in tree.children(peer) {
                    assert_eq!(tree.parent(child), peer, "{tree:?}");
                    assert!(peer.is_none_or(|peer| tree.is_within(child, peer)));
                    assert!(reached.insert(child), "{child} twice in {tree:?}");
                    waiting.push(Some(child));
                }
            }
            let all: BTreeSet<usize> = (0..ends[2]).filter(|p| !absent.contains(p)).collect();
            assert_eq!(reached, all, "{tree:?}");
            let crossing = |site: Range<usize>| {
                let top = tree.children(None);
                top.iter().filter(|p| site.contains(p)).count()
            };
            assert!(crossing(ends[0]..ends[1]) <= 1 && crossing(ends[1]..ends[2]) <= 1);
        }
    }

    #[test]
    fn forged_positions_do_no_harm() {
        let tree = Tree::new(3, 0);
        assert!(tree.children(Some(usize::MAX)).is_empty());
        assert_eq!(tree.height(usize::MAX), 0);
        assert!(!tree.is_within(usize::MAX, 0));
        let nothing = Tree::new(0, 2).with_sites([0, 0]);
        assert!(nothing.children(None).is_empty());
    }
}
