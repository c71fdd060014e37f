mod rules;
mod views;

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::FileDirection::{Read, Write};
use super::FilePosition::{At, Individual, Shared};
use super::*;
use crate::adi::testnet::{run, run_seeds};
use crate::datatype::{Datatype, Form, Named};
use crate::error::{Error, ErrorClass};
use crate::info::Info;
use crate::p2p::Typed;
use crate::runtime::Mpi;

/// A path that no other test has.
fn new_path() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("rejoin-file-{}-{number}", std::process::id()))
}

const NEW: i32 = AccessMode::CREATE | AccessMode::RDWR | AccessMode::DELETE_ON_CLOSE;

fn opened(m: &Rc<Mpi>, path: &std::path::Path, flags: i32, info: &[(&str, String)]) -> Rc<MpiFile> {
    let hints = Info::new();
    for (key, value) in info {
        hints.set(key, value).unwrap();
    }
    let hints = Ok(Some(Rc::new(hints)));
    super::open(m, m.world(), Ok(path.to_owned()), flags, hints).unwrap()
}

fn int() -> Rc<Datatype> {
    Datatype::named(Named::Int)
}

fn ints(list: &mut [i32]) -> Typed {
    // SAFETY: the tests keep their lists until the accesses are complete.
    unsafe { Typed::new(list.as_mut_ptr().cast(), list.len() as i64, int()) }
}

/// The same numbers on all ranks with a seed.
struct Dice(Cell<u64>);

impl Dice {
    fn below(&self, n: u64) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }

    fn one_of<'a>(&self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }
}

/// Views of all ranks that share no byte: which rank has each int of a tile, if any.
struct Tile {
    owners: Vec<Option<usize>>,
    disp: i64,
}

impl Tile {
    fn new(dice: &Dice, ranks: usize) -> Self {
        let len = 1 + dice.below(40);
        let mut last = None;
        let owners = (0..len).map(|_| {
            if dice.below(3) > 0 {
                last = Some(dice.below(ranks as u64 + 1) as usize).filter(|&r| r < ranks);
            }
            last
        });
        Self {
            owners: owners.collect(),
            disp: dice.below(50) as i64,
        }
    }

    fn places(&self, rank: usize) -> Vec<usize> {
        let all = 0..self.owners.len();
        all.filter(|&i| self.owners[i] == Some(rank)).collect()
    }

    fn view(&self, rank: usize) -> ViewArguments {
        let places: Vec<i64> = self.places(rank).iter().map(|&i| 4 * i as i64).collect();
        let blocks = Datatype::hindexed_block(Form::Int, 1, &places, &int()).unwrap();
        let bytes = 4 * self.owners.len() as i64;
        let filetype = Datatype::resized(Form::Int, &blocks, 0, bytes).unwrap();
        filetype.commit();
        ViewArguments {
            disp: self.disp,
            etype: int(),
            filetype,
            datarep: DataRepresentation::Native,
        }
    }

    /// Where int number `index` of a rank's view is in the file.
    fn byte(&self, rank: usize, index: usize) -> usize {
        let places = self.places(rank);
        let (tile, place) = (index / places.len(), index % places.len());
        self.disp as usize + 4 * (tile * self.owners.len() + places[place])
    }
}

/// Elements in memory with gaps between them, or without.
fn elements(dice: &Dice, list: &mut Vec<i32>, count: usize) -> (Typed, usize) {
    let step = 1 + dice.below(2) as usize;
    list.resize(count * step, -1);
    let vector = Datatype::vector(Form::Int, count as i64, 1, step as i64, &int()).unwrap();
    vector.commit();
    // SAFETY: the test keeps the list until the access is complete.
    let typed = unsafe { Typed::new(list.as_mut_ptr().cast(), 1, vector) };
    (typed, step)
}

/// What a serial program would have written.
fn expected(tile: &Tile, counts: &[usize], value: impl Fn(usize, usize) -> i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (rank, &count) in counts.iter().enumerate() {
        for index in 0..count {
            let at = tile.byte(rank, index);
            if bytes.len() < at + 4 {
                bytes.resize(at + 4, 0);
            }
            bytes[at..at + 4].copy_from_slice(&value(rank, index).to_ne_bytes());
        }
    }
    bytes
}

fn random_hints(dice: &Dice) -> [(&'static str, String); 8] {
    let switch = || dice.one_of(&["enable", "disable", "automatic"]).to_owned();
    [
        ("cb_nodes", (1 + dice.below(4)).to_string()),
        ("cb_buffer_size", (1 + dice.below(300)).to_string()),
        ("ind_rd_buffer_size", (1 + dice.below(100)).to_string()),
        ("ind_wr_buffer_size", (1 + dice.below(100)).to_string()),
        ("romio_cb_write", switch()),
        ("romio_cb_read", switch()),
        ("romio_ds_read", switch()),
        ("romio_ds_write", switch()),
    ]
}

/// The number that a rank writes at a place of its view.
fn value(rank: usize, index: usize) -> i32 {
    (rank << 20 | (index + 1)) as i32
}

/// Writes `count` ints of this rank from `start` on, together with the others.
fn write_all(file: &MpiFile, dice: &Dice, me: usize, (start, count): (usize, usize)) {
    let mut out = Vec::new();
    let (typed, step) = elements(dice, &mut out, count);
    for index in 0..count {
        out[index * step] = value(me, index + start);
    }
    let written = file.access_all(Write, At(start as i64), Ok(typed)).unwrap();
    assert_eq!(written.count, 4 * count as u64);
}

/// Reads ints of this rank from `start` on, and compares them with the file's bytes. What lies
/// behind the end of the file is left alone.
fn read_all(m: &Mpi, (file, all): (&Rc<MpiFile>, &[u8]), dice: &Dice, places: &[usize]) {
    let mut into = Vec::new();
    let (typed, step) = elements(dice, &mut into, places.len());
    let read = match dice.below(2) {
        0 => file.access_all(Read, Individual, Ok(typed)).unwrap(),
        _ => {
            let request = file.start_access_all(Read, Individual, Ok(typed)).unwrap();
            m.wait(request).unwrap().status
        }
    };
    let there = |at: usize| Some(i32::from_ne_bytes(all.get(at..at + 4)?.try_into().ok()?));
    let wanted: Vec<_> = places.iter().map(|&at| there(at).unwrap_or(-1)).collect();
    let got: Vec<_> = into.iter().step_by(step).copied().collect();
    assert_eq!(got, wanted);
    let count = places.iter().filter(|&&at| there(at).is_some()).count();
    assert_eq!(read.count, 4 * count as u64);
}

#[test]
fn collective_accesses_under_random_views_equal_serial_ones() {
    for seed in 1..=60u64 {
        println!("seed {seed}");
        let path = new_path();
        let ranks = 1 + (seed % 5) as usize;
        run(ranks, seed, |m| {
            let me = m.rank().0 as usize;
            let dice = Dice(Cell::new(seed));
            let hints = random_hints(&dice);
            let tile = Tile::new(&dice, ranks);
            let start = dice.below(30) as usize;
            let count = |rank: usize| {
                let count = dice.below(200) as usize;
                if tile.places(rank).is_empty() {
                    0
                } else {
                    count
                }
            };
            let counts: Vec<usize> = (0..ranks).map(count).collect();
            let file = opened(&m, &path, NEW, &hints);
            file.set_atomicity(dice.below(4) == 0).unwrap();
            let view = Ok(tile.view(me));
            file.set_view(view, Some(tile.disp), Ok(None)).unwrap();
            write_all(&file, &dice, me, (start, counts[me]));
            m.collective(m.world(), &crate::coll::Barrier {}).unwrap();
            let end = |&n: &usize| if n > 0 { n + start } else { 0 };
            let ends: Vec<_> = counts.iter().map(end).collect();
            let all = expected(&tile, &ends, |rank, index| match index < start {
                true => 0,
                false => value(rank, index),
            });
            assert_eq!(std::fs::read(&path).unwrap(), all);
            file.seek(start as i64, SeekFrom::Start).unwrap();
            let more = counts[me] + if counts[me] > 0 { 7 } else { 0 };
            let places = (start..start + more).map(|index| tile.byte(me, index));
            let places: Vec<_> = places.collect();
            read_all(&m, (&file, &all), &dice, &places);
            close(&file).unwrap();
            assert!(!path.exists());
        });
    }
}

#[test]
fn independent_accesses_are_right_with_every_hint() {
    for switch in ["enable", "disable", "automatic"] {
        let path = new_path();
        run_seeds(3, |m| {
            let me = m.rank().0 as usize;
            let hints = [
                ("romio_ds_write", switch.to_owned()),
                ("romio_ds_read", switch.to_owned()),
                ("ind_wr_buffer_size", "64".to_owned()),
            ];
            let file = opened(&m, &path, NEW, &hints);
            let owners = (0..6).map(|i| Some(i % 3)).collect();
            let tile = Tile { owners, disp: 5 };
            file.set_view(Ok(tile.view(me)), Some(5), Ok(None)).unwrap();
            let mut out: Vec<i32> = (0..50).map(|i| (100 * me + i) as i32).collect();
            file.access(Write, Individual, Ok(ints(&mut out))).unwrap();
            assert_eq!(file.position().unwrap(), 50);
            let mut into = vec![0; 50];
            let read = file.access(Read, At(0), Ok(ints(&mut into))).unwrap();
            assert_eq!((read.count, &into), (200, &out));
            file.sync().unwrap();
            assert_eq!(file.size().unwrap(), 5 + 3 * 50 * 4);
            close(&file).unwrap();
        });
    }
}

/// Four ranks of the network share a host, and a fifth one is on another.
#[test]
fn shared_and_ordered_accesses_take_turns_on_one_host_and_on_two() {
    take_turns(4);
    take_turns(5);
}

fn take_turns(ranks: i32) {
    let path = new_path();
    run_seeds(ranks as usize, |m| {
        let me = m.rank().0 as i32;
        let file = opened(&m, &path, NEW, &[]);
        let view = ViewArguments {
            disp: 0,
            etype: int(),
            filetype: int(),
            datarep: DataRepresentation::Native,
        };
        file.set_view(Ok(view), Some(0), Ok(None)).unwrap();
        let mut mine = vec![me; 1 + me as usize];
        file.access_all(Write, Shared, Ok(ints(&mut mine))).unwrap();
        file.begin_all(Write, Shared, Ok(ints(&mut mine))).unwrap();
        assert!(file.sync().is_err(), "within a split access");
        file.end_all(Write, mine.as_ptr().cast()).unwrap();
        let half: Vec<i32> = (0..ranks).flat_map(|r| vec![r; 1 + r as usize]).collect();
        let end = 2 * half.len() as i64;
        let mut all = vec![0; end as usize];
        file.access_all(Read, At(0), Ok(ints(&mut all))).unwrap();
        assert_eq!(all, half.repeat(2));
        assert_eq!(file.shared_position().unwrap(), end);
        m.collective(m.world(), &crate::coll::Barrier {}).unwrap();
        let mut one = [me];
        file.access(Write, Shared, Ok(ints(&mut one))).unwrap();
        file.seek_shared(end, Ok(SeekFrom::Start)).unwrap();
        let mut got = [9];
        file.access(Read, Shared, Ok(ints(&mut got))).unwrap();
        file.sync().unwrap();
        let mut last = vec![0; ranks as usize];
        file.access_all(Read, At(end), Ok(ints(&mut last))).unwrap();
        assert!(last.contains(&got[0]));
        last.sort_unstable();
        assert!(last.iter().copied().eq(0..ranks));
        file.seek_shared(-1, Ok(SeekFrom::End)).unwrap();
        assert_eq!(file.shared_position().unwrap(), end + i64::from(ranks) - 1);
        close(&file).unwrap();
    });
}

#[test]
fn what_fails_on_one_rank_fails_on_all() {
    let path = new_path();
    run_seeds(3, |m| {
        let me = m.rank().0;
        let class = |flags: i32| {
            let name = Ok(path.clone());
            let opened = super::open(&m, m.world(), name, flags, Ok(None));
            opened.map(drop).map_err(|e| e.class)
        };
        let (reads, new) = (AccessMode::RDONLY, AccessMode::CREATE | AccessMode::RDWR);
        assert_eq!(class(reads), Err(ErrorClass::NoSuchFile));
        assert_eq!(class(if me == 1 { 0 } else { new }), Err(ErrorClass::Amode));
        let other = if me == 2 {
            new | AccessMode::APPEND
        } else {
            new
        };
        assert_eq!(class(other), Err(ErrorClass::NotSame));
        assert!(!path.exists());
        let file = opened(&m, &path, NEW | AccessMode::EXCL, &[]);
        assert_eq!(class(new | AccessMode::EXCL), Err(ErrorClass::FileExists));
        let size = file.set_size(if me == 0 { 8 } else { 16 });
        assert_eq!(size.map_err(|e| e.class), Err(ErrorClass::NotSame));
        let mut one = [1];
        let elements = match me {
            1 => Err(Error::new(ErrorClass::Type, "no datatype")),
            _ => Ok(ints(&mut one)),
        };
        let written = file.access_all(Write, At(0), elements);
        assert_eq!(written.map_err(|e| e.class), Err(ErrorClass::Type));
        assert_eq!(file.size().unwrap(), 0);
        let elements = Ok(ints(&mut one));
        let offset = if me == 2 { -1 } else { 0 };
        let done = m
            .wait(file.start_access_all(Write, At(offset), elements).unwrap())
            .unwrap();
        assert_eq!(done.error.map(|e| e.class), Some(ErrorClass::Arg));
        close(&file).unwrap();
        assert!(!path.exists());
    });
}

#[test]
fn external32_is_big_endian_in_the_file() {
    let path = new_path();
    run(2, 1, |m| {
        let me = i64::from(m.rank().0);
        let file = opened(&m, &path, NEW, &[]);
        let long = Datatype::named(Named::Long);
        let view = ViewArguments {
            disp: 0,
            etype: long.clone(),
            filetype: long.clone(),
            datarep: DataRepresentation::named("external32").unwrap(),
        };
        file.set_view(Ok(view), Some(0), Ok(None)).unwrap();
        assert_eq!(file.type_extent(&long).unwrap(), 4);
        let (mut out, mut into) = ([me + 1, -me], [7i64; 3]);
        // SAFETY: both arrays outlive the accesses.
        let (out, into_them) = unsafe {
            let out = Typed::new(out.as_mut_ptr().cast(), 2, long.clone());
            (out, Typed::new(into.as_mut_ptr().cast(), 3, long))
        };
        let written = file.access_all(Write, At(2 * me), Ok(out)).unwrap();
        assert_eq!(written.count, 16);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(
            bytes,
            [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 255, 255, 255, 255]
        );
        let read = file.access_all(Read, At(2), Ok(into_them)).unwrap();
        assert_eq!((read.count, into), (16, [2, -1, 7]));
        close(&file).unwrap();
    });
}
