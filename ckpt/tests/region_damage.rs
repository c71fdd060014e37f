//! Stored registered memory that was damaged at any place: a load gives what was stored, or refuses
//! the file and leaves the memory as it is.

use proptest::prelude::*;
use rejoin_ckpt::regions::{Regions, Tag, Wanted};
use rejoin_tests::folder::Folder;

/// A place in a file, or in its head, which is short and says where all the rest is.
#[derive(Debug, Clone)]
struct Place {
    early: bool,
    at: usize,
}

impl Place {
    fn index(&self, length: usize) -> usize {
        self.at % if self.early { length.min(200) } else { length }
    }
}

/// One change of a file.
#[derive(Debug, Clone)]
enum Damage {
    Flip(Place, u8),
    Cut(Place),
    Append(Vec<u8>),
    /// Bytes of one place over those of another.
    Copy(Place, Place, usize),
    Zero(Place, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = || (any::<bool>(), any::<usize>()).prop_map(|(early, at)| Place { early, at });
    prop_oneof![
        (place(), 1u8..).prop_map(|(at, change)| Damage::Flip(at, change)),
        place().prop_map(Damage::Cut),
        prop::collection::vec(any::<u8>(), 1..100).prop_map(Damage::Append),
        (place(), place(), 1usize..5000)
            .prop_map(|(to, from, length)| { Damage::Copy(to, from, length) }),
        (place(), 1usize..5000).prop_map(|(at, length)| Damage::Zero(at, length)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match damage {
        Damage::Flip(at, change) => bytes[at.index(length)] ^= change,
        Damage::Cut(at) => bytes.truncate(at.index(length)),
        Damage::Append(more) => bytes.extend(more),
        Damage::Copy(to, from, count) => {
            let (to, from) = (to.index(length), from.index(length));
            let count = (*count).min(length - to).min(length - from);
            bytes.copy_within(from..from + count, to);
        }
        Damage::Zero(at, count) => {
            let at = at.index(length);
            bytes[at..length.min(at + count)].fill(0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn a_damaged_file_is_refused(
        size in prop_oneof![0usize..3000, (1usize << 20)..(1 << 20) + 3000],
        changes in prop::collection::vec(damage(), 1..4),
    ) {
        let folder = Folder::new("region-damage");
        let mut memory: Vec<u8> = (0..size + 1).map(|at| (at / 7) as u8).collect();
        let mut regions = Regions::new();
        // SAFETY: the memory lives as long as the registration and never moves.
        unsafe { regions.register(3, memory.as_mut_ptr(), memory.len()) }.expect("registered");
        let tag = Tag {
            job: 42,
            rank: 1,
            size: 4,
            generation: 0,
            incarnation: 0,
            epoch: 9,
            build: "test".to_owned(),
        };
        let path = regions.store(&folder, &tag).expect("stored").path;
        let stored = std::fs::read(&path).expect("the file");
        let mut bytes = stored.clone();
        changes.iter().for_each(|change| apply(&mut bytes, change));
        std::fs::write(&path, &bytes).expect("written");
        let expected = memory.clone();
        memory.fill(0xee);
        let wanted = Wanted {
            job: None,
            rank: 1,
            size: 4,
            epoch: None,
        };
        let loaded = regions.load(&folder, &wanted);
        if bytes == stored {
            prop_assert_eq!(loaded.expect("nothing was changed").tag, tag);
            prop_assert!(memory == expected);
        } else {
            prop_assert!(loaded.is_err());
            prop_assert!(memory.iter().all(|byte| *byte == 0xee));
        }
    }
}
