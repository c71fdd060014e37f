//! Files that use each other.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Which files use which others; a file is a position among the sources.
#[derive(Default)]
pub struct FileGraph {
    /// By file and by the file that it uses: the line where it first does, and what is there.
    edges: BTreeMap<usize, BTreeMap<usize, (usize, String)>>,
}

/// A use of another file that leads back to the user.
pub struct CircleEdge<'a> {
    /// The user.
    pub from: usize,
    /// The other file.
    pub to: usize,
    /// The line of the first use.
    pub line: usize,
    /// What is used there.
    pub what: &'a str,
    /// The files on a shortest way from the other file back to the user.
    pub between: Vec<usize>,
}

impl FileGraph {
    /// Notes a use at `line` of `from`. A file's uses of itself do not count.
    pub fn add(&mut self, from: usize, to: usize, line: usize, what: impl Into<String>) {
        if from != to {
            let uses = self.edges.entry(from).or_default().entry(to);
            uses.or_insert_with(|| (line, what.into()));
        }
    }

    /// The uses that are part of a circle, by their user.
    pub fn circle_edges(&self) -> Vec<CircleEdge<'_>> {
        let ways: BTreeMap<usize, BTreeMap<usize, usize>> = self
            .edges
            .keys()
            .map(|from| (*from, self.ways(*from)))
            .collect();
        let mut list = Vec::new();
        for (from, uses) in &self.edges {
            for (to, (line, what)) in uses {
                let Some(ways) = ways.get(to).filter(|w| w.contains_key(from)) else {
                    continue;
                };
                let before = |file: &usize| ways.get(file).copied().filter(|f| f != to);
                let mut between: Vec<usize> = std::iter::successors(before(from), before).collect();
                between.reverse();
                list.push(CircleEdge {
                    from: *from,
                    to: *to,
                    line: *line,
                    what,
                    between,
                });
            }
        }
        list
    }

    /// Each file that this one leads to, with the file before it on a shortest way.
    fn ways(&self, from: usize) -> BTreeMap<usize, usize> {
        let mut ways = BTreeMap::new();
        let mut open = VecDeque::from([from]);
        while let Some(at) = open.pop_front() {
            for to in self.edges.get(&at).into_iter().flat_map(BTreeMap::keys) {
                if let Entry::Vacant(way) = ways.entry(*to) {
                    way.insert(at);
                    open.push_back(*to);
                }
            }
        }
        ways
    }
}
