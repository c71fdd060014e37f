//! Ranks write a file at random, the job returns to a checkpoint, and the file is compared with one
//! that has only the writes before it.

use std::cell::{Cell, RefCell};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use rejoin_channel_table::{Epoch, Generation, JobId};
use rejoin_device::Rollback;

use super::file_interval::FileInterval;
use super::*;
use crate::error::{ErrorClass, Result};

const RANKS: usize = 3;
/// Bytes of a block. While a checkpoint is taken, each rank writes to blocks of its own.
const BLOCK: u64 = 8;
const BLOCKS: u64 = 12;

/// What one rank knows of the job.
#[derive(Default)]
pub(in crate::file) struct Course {
    pub interval: Cell<FileInterval>,
    pub rollbacks: RefCell<Vec<Rollback>>,
    horizon: Cell<Epoch>,
    limit: Cell<u64>,
    asked: Cell<u32>,
}

impl JobRollbacks for Course {
    fn id(&self) -> JobId {
        JobId(0x77)
    }
    fn interval(&self) -> FileInterval {
        self.interval.get()
    }
    fn rollbacks(&self) -> Vec<Rollback> {
        self.rollbacks.borrow().clone()
    }
    fn horizon(&self) -> Epoch {
        self.horizon.get()
    }
    fn limit(&self) -> u64 {
        self.limit.get()
    }
    fn ask_for_checkpoint(&self) -> Result<()> {
        self.asked.set(self.asked.get() + 1);
        Ok(())
    }
    fn has_records_in(&self, _folder: &Path) {}
}

/// A file in a folder of its own, which is removed with the value.
struct Scratch {
    folder: PathBuf,
    path: PathBuf,
    file: File,
}

impl Scratch {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("rejoin-undo-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let path = folder.join("data");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path);
        Self {
            folder,
            path,
            file: file.unwrap(),
        }
    }

    fn undo(&self, course: &Rc<Course>) -> FileUndo {
        let inode = self.file.metadata().unwrap().ino();
        let append = AppendMode {
            locks: true,
            syncs: false,
        };
        FileUndo::new(course.clone(), &self.path, inode, append)
    }

    fn contents(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    fn records(&self) -> usize {
        fs::read_dir(self.folder.join(".data.rejoin-undo")).map_or(0, Iterator::count)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A change of the file.
#[derive(Clone, Debug)]
enum Change {
    Write { at: u64, bytes: Vec<u8> },
    Size(u64),
}

fn apply(file: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { at, bytes } => {
            let (at, end) = (*at as usize, *at as usize + bytes.len());
            if file.len() < end {
                file.resize(end, 0);
            }
            file[at..end].copy_from_slice(bytes);
        }
        Change::Size(size) => file.resize(*size as usize, 0),
    }
}

/// A job whose ranks have the file open.
struct Ranks {
    scratch: Scratch,
    courses: Vec<Rc<Course>>,
    undos: Vec<FileUndo>,
    /// All changes that count, each with its rank and the interval of that.
    past: Vec<(usize, Epoch, Change)>,
    generation: u32,
    /// The newest checkpoint that was requested, and which ranks have entered it.
    epoch: u32,
    entered: [bool; RANKS],
    /// Checkpoints that all ranks have, those before a rollback.
    committed: Vec<u32>,
    /// No rollback goes behind this one.
    oldest: u32,
}

impl Ranks {
    fn new() -> Self {
        let scratch = Scratch::new();
        let course = |_| {
            let course = Course::default();
            course.limit.set(u64::MAX);
            Rc::new(course)
        };
        let courses: Vec<_> = (0..RANKS).map(course).collect();
        let undos = courses.iter().map(|course| scratch.undo(course)).collect();
        Self {
            scratch,
            courses,
            undos,
            past: Vec::new(),
            generation: 0,
            epoch: 0,
            entered: [true; RANKS],
            committed: vec![0],
            oldest: 0,
        }
    }

    fn change(&mut self, rank: usize, change: Change) {
        let (undo, file) = (&self.undos[rank], &self.scratch.file);
        undo.settle(file, true).unwrap();
        match &change {
            Change::Write { at, bytes } => {
                undo.before_write(file, *at, bytes.len() as u64).unwrap();
                file.write_all_at(bytes, *at).unwrap();
            }
            Change::Size(size) => {
                undo.before_resize(file, *size).unwrap();
                file.set_len(*size).unwrap();
                self.undos.iter().for_each(|undo| undo.resized(*size));
            }
        }
        let epoch = self.courses[rank].interval.get().epoch;
        self.past.push((rank, epoch, change));
    }

    fn enter(&mut self, rank: usize) {
        let interval = FileInterval {
            generation: Generation(self.generation),
            epoch: Epoch(self.epoch),
        };
        self.courses[rank].interval.set(interval);
        self.entered[rank] = true;
        if self.entered == [true; RANKS] {
            self.committed.push(self.epoch);
            let third = self.committed.len().saturating_sub(3);
            self.oldest = self.oldest.max(self.committed[third]);
            let before = self.place_of_oldest().saturating_sub(1);
            let horizon = Epoch(self.committed[before]);
            self.courses.iter().for_each(|c| c.horizon.set(horizon));
        }
    }

    /// The job returns to the newest checkpoint, or to one of the two before it.
    fn roll_back(&mut self, back: usize) {
        let place = (self.committed.len() - 1).saturating_sub(back);
        let place = place.max(self.place_of_oldest());
        self.committed.truncate(place + 1);
        let to = self.committed[place];
        self.generation += 1;
        let rollback = Rollback {
            generation: Generation(self.generation),
            to: Epoch(to),
        };
        for course in &self.courses {
            course.interval.set(FileInterval {
                generation: rollback.generation,
                epoch: rollback.to,
            });
            let mut rollbacks = course.rollbacks.borrow_mut();
            rollbacks.retain(|earlier| earlier.to < rollback.to);
            rollbacks.push(rollback);
        }
        self.past.retain(|(_, epoch, _)| epoch.0 < to);
        self.entered = [true; RANKS];
    }

    fn place_of_oldest(&self) -> usize {
        let place = self.committed.iter().position(|one| *one == self.oldest);
        place.expect("no rollback went behind it")
    }

    fn check(&self) {
        let mut want = Vec::new();
        self.past
            .iter()
            .for_each(|(_, _, one)| apply(&mut want, one));
        assert_eq!(self.scratch.contents(), want);
    }

    /// One step: what it is, which rank does it, where, and with which byte.
    fn step(&mut self, (what, rank, place, value): (u8, usize, u64, u8)) {
        let together = self.entered == [true; RANKS];
        match what {
            0 if together => {
                self.epoch += 1;
                self.entered = [false; RANKS];
                self.enter(rank);
            }
            0 | 1 if !together => {
                let late = (0..RANKS).find(|rank| !self.entered[*rank]);
                self.enter(late.unwrap());
            }
            2 => {
                self.roll_back(place as usize % 3);
                self.undos[rank].settle(&self.scratch.file, true).unwrap();
                self.check();
            }
            3 if together => self.change(rank, Change::Size(place * BLOCK / 2)),
            _ if together => {
                let bytes = vec![value; 1 + usize::from(value) % 30];
                self.change(
                    rank,
                    Change::Write {
                        at: place * 5,
                        bytes,
                    },
                );
            }
            _ => {
                let block = place / RANKS as u64 * RANKS as u64 + rank as u64;
                let bytes = vec![value; 1 + usize::from(value) % BLOCK as usize];
                let at = block * BLOCK;
                self.change(rank, Change::Write { at, bytes });
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_rollback_leaves_what_was_written_before_the_images(
        steps in proptest::collection::vec((0..9u8, 0..RANKS, 0..BLOCKS, any::<u8>()), 1..60)
    ) {
        let mut ranks = Ranks::new();
        steps.into_iter().for_each(|step| ranks.step(step));
        ranks.check();
        ranks.roll_back(0);
        ranks.undos[0].settle(&ranks.scratch.file, true).unwrap();
        ranks.check();
    }
}

#[test]
fn a_file_that_is_open_for_reading_only_is_undone_too() {
    let mut ranks = Ranks::new();
    let write = |value| Change::Write {
        at: 0,
        bytes: vec![value; 20],
    };
    ranks.change(0, write(1));
    ranks.step((0, 0, 0, 0));
    ranks.step((0, 0, 0, 0));
    ranks.step((0, 0, 0, 0));
    ranks.change(1, write(2));
    ranks.roll_back(0);
    let reader = File::open(&ranks.scratch.path).unwrap();
    ranks.undos[2].settle(&reader, false).unwrap();
    assert_eq!(ranks.scratch.contents(), [1; 20]);
}

#[test]
fn records_that_no_rollback_needs_are_removed() {
    let mut ranks = Ranks::new();
    for value in 0..8 {
        let bytes = vec![value; 40];
        ranks.change(0, Change::Write { at: 0, bytes });
        (0..RANKS).for_each(|_| ranks.step((0, 0, 0, 0)));
    }
    // Of the checkpoints 4 to 7: the last one removed what came before 4.
    assert_eq!(ranks.scratch.records(), 4);
}

#[test]
fn another_file_of_the_same_name_is_left_alone() {
    let mut ranks = Ranks::new();
    let bytes = vec![1; 20];
    ranks.change(0, Change::Write { at: 0, bytes });
    let path = ranks.scratch.path.clone();
    fs::write(path.with_extension("new"), b"new").unwrap();
    fs::rename(path.with_extension("new"), &path).unwrap();
    ranks.roll_back(0);
    let new = OpenOptions::new().read(true).write(true).open(&path);
    ranks.undos[0].settle(&new.unwrap(), true).unwrap();
    assert_eq!(ranks.scratch.contents(), b"new");
    assert_eq!(ranks.scratch.records(), 0);
}

#[test]
fn the_records_have_a_limit_and_ask_for_a_checkpoint_before() {
    let scratch = Scratch::new();
    let course = Rc::new(Course::default());
    course.limit.set(1000);
    let undo = scratch.undo(&course);
    scratch.file.set_len(10_000).unwrap();
    let record = |at, len| undo.before_write(&scratch.file, at, len);
    record(0, 300).unwrap();
    assert_eq!(course.asked.get(), 0);
    record(300, 200).unwrap();
    record(0, 500).unwrap();
    assert_eq!(course.asked.get(), 1);
    let error = record(500, 500).unwrap_err();
    assert_eq!(error.class, ErrorClass::NoSpace);
    assert!(error.message.contains("REJOIN_FILE_UNDO_LIMIT"));
    course.interval.set(FileInterval {
        generation: Generation(0),
        epoch: Epoch(1),
    });
    record(500, 500).unwrap();
}
