//! How ranks of a host share a file: which of them saves which part.

use std::collections::BTreeMap;

use super::byte_ranges::ByteRanges;
use super::other_mappers::{MappedPart, RankMappers};

/// How this process takes part.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileShare {
    /// Other ranks of this host that map the file, in order.
    pub others: Vec<u32>,
    /// The rank that opens or makes the file first; `None`: this process.
    pub maker: Option<u32>,
    /// Parts that this process saves, and writes back.
    pub mine: ByteRanges,
    /// Another rank maps a part that this process maps, and one of them writes there.
    pub is_common: bool,
    /// The ranks have all bytes of the file in their images.
    pub is_whole: bool,
}

/// What one rank maps of the file.
#[derive(Debug, Default)]
struct Mapped {
    all: ByteRanges,
    written: ByteRanges,
}

impl Mapped {
    fn add(&mut self, part: &MappedPart) {
        self.all.add(part.from, part.to);
        if part.writes {
            self.written.add(part.from, part.to);
        }
    }

    /// Whether one of both writes where the other one maps.
    fn is_common_with(&self, other: &Self) -> bool {
        self.written.meets(&other.all) || other.written.meets(&self.all)
    }
}

impl FileShare {
    /// `parts` are those of one file that this process maps as rank `me`. `None` if nobody writes
    /// to any of them, as far as is known.
    pub fn find(me: u32, parts: &[MappedPart], others: &RankMappers, length: u64) -> Option<Self> {
        let mut ranks: BTreeMap<u32, Mapped> = BTreeMap::new();
        let file = parts.first()?.file;
        for (rank, part) in others.of_file(file) {
            ranks.entry(rank).or_default().add(part);
        }
        let others: Vec<u32> = ranks.keys().copied().collect();
        let mine = ranks.entry(me).or_default();
        parts.iter().for_each(|part| mine.add(part));
        let saves = |rank: u32, of: &Mapped| {
            let mut all = ranks.iter();
            !of.written.is_empty() || all.any(|(r, other)| *r != rank && of.is_common_with(other))
        };
        let savers: Vec<_> = ranks.iter().filter(|(r, of)| saves(**r, of)).collect();
        if !savers.iter().any(|(rank, _)| **rank == me) {
            return None;
        }
        let mut whole = ByteRanges::default();
        savers.iter().for_each(|(_, of)| whole.add_all(&of.all));
        let mut writers = savers.iter().filter(|(_, of)| !of.written.is_empty());
        let maker = writers.next().map_or(me, |(rank, _)| **rank);
        let of = &ranks[&me];
        let mut common = others.iter().map(|rank| &ranks[rank]);
        Some(Self {
            maker: (maker != me).then_some(maker),
            mine: saved(me, of, &savers),
            is_common: common.any(|other| other.is_common_with(of)),
            is_whole: whole.covers(length),
            others,
        })
    }
}

/// What this rank saves: the first rank that writes to a part, or else the first that maps it.
fn saved(me: u32, of: &Mapped, savers: &[(&u32, &Mapped)]) -> ByteRanges {
    let (mut written, mut read) = (of.written.clone(), of.all.clone());
    for (rank, other) in savers {
        if **rank < me {
            written.remove_all(&other.written);
            read.remove_all(&other.all);
        }
        read.remove_all(&other.written);
    }
    written.add_all(&read);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks from 0 on, with `(from, to, writes)` in pages; what each of them finds.
    fn shares(ranks: &[&[(u64, u64, bool)]], length: u64) -> Vec<Option<FileShare>> {
        let part = |&(from, to, writes): &(u64, u64, bool)| MappedPart {
            file: (1, 2),
            from,
            to,
            writes,
        };
        let find = |me: usize| {
            let mine: Vec<_> = ranks[me].iter().map(part).collect();
            let all = (0..).zip(ranks).filter(|(rank, _)| *rank != me as u32);
            let all = all.flat_map(|(rank, of)| of.iter().map(move |one| (rank, part(one))));
            FileShare::find(me as u32, &mine, &RankMappers::of(all.collect()), length)
        };
        (0..ranks.len()).map(find).collect()
    }

    fn saved_parts(share: &Option<FileShare>) -> Vec<(u64, u64)> {
        let share = share.as_ref().expect("a share");
        share.mine.within(0, u64::MAX).collect()
    }

    #[test]
    fn slices_of_ranks_are_saved_by_each_of_them() {
        let all = shares(&[&[(0, 10, true)], &[(10, 20, true)]], 20);
        assert_eq!(saved_parts(&all[0]), [(0, 10)]);
        assert_eq!(saved_parts(&all[1]), [(10, 20)]);
        for one in all.iter().flatten() {
            assert!(!one.is_common && one.is_whole);
        }
        let makers: Vec<_> = all.iter().flatten().map(|one| one.maker).collect();
        assert_eq!(makers, [None, Some(0)]);
        let apart = shares(&[&[(0, 10, true)], &[(10, 20, true)]], 21);
        assert!(apart.iter().flatten().all(|one| !one.is_whole));
    }

    #[test]
    fn a_part_that_ranks_share_is_saved_once() {
        // The first one only reads what both others write.
        let all = shares(
            &[&[(0, 30, false)], &[(0, 20, true)], &[(10, 30, true)]],
            30,
        );
        assert_eq!(saved_parts(&all[0]), []);
        assert_eq!(saved_parts(&all[1]), [(0, 20)]);
        assert_eq!(saved_parts(&all[2]), [(20, 30)]);
        let of = |one: &Option<FileShare>| one.as_ref().map(|one| (one.maker, one.is_common));
        let found: Vec<_> = all.iter().map(of).collect();
        let expected = [(Some(1), true), (None, true), (Some(1), true)];
        assert_eq!(found, expected.map(Some));
        assert_eq!(
            all[0].as_ref().map(|one| one.others.clone()),
            Some(vec![1, 2])
        );
    }

    #[test]
    fn a_part_that_nobody_writes_is_saved_by_a_rank_that_writes_elsewhere() {
        let all = shares(&[&[(0, 10, false)], &[(0, 10, false), (10, 20, true)]], 20);
        assert_eq!(all[0], None);
        assert_eq!(saved_parts(&all[1]), [(0, 20)]);
        assert!(
            all[1]
                .as_ref()
                .is_some_and(|one| !one.is_common && one.is_whole)
        );
    }
}
