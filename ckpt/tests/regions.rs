//! Registered memory on disk: whole or refused.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rejoin_ckpt::regions::{Regions, RegionsError, Tag, Wanted, Why, job_sizes, prune, stored};
use rejoin_tests::folder::Folder;

fn tag(epoch: u32) -> Tag {
    Tag {
        job: 42,
        rank: 1,
        size: 4,
        generation: 2,
        incarnation: 3,
        epoch,
        build: "test".to_owned(),
    }
}

fn wanted() -> Wanted {
    Wanted {
        job: Some(42),
        rank: 1,
        size: 4,
        epoch: None,
    }
}

/// Two arrays that are registered as the regions 7 and 2.
struct State {
    numbers: Vec<u8>,
    text: Vec<u8>,
    regions: Regions,
}

impl State {
    fn new(length: usize) -> Self {
        let (mut numbers, mut text) = (vec![0; length], vec![0; 100]);
        let mut regions = Regions::new();
        // SAFETY: both arrays live as long as the registration and never move.
        unsafe {
            regions
                .register(7, numbers.as_mut_ptr(), numbers.len())
                .expect("registered");
            regions
                .register(2, text.as_mut_ptr(), text.len())
                .expect("registered");
        }
        Self {
            numbers,
            text,
            regions,
        }
    }

    fn fill(&mut self, seed: u8) {
        for (at, byte) in self.numbers.iter_mut().chain(&mut self.text).enumerate() {
            *byte = (at as u8).wrapping_mul(31).wrapping_add(seed);
        }
    }

    fn copy(&self) -> (Vec<u8>, Vec<u8>) {
        (self.numbers.clone(), self.text.clone())
    }

    fn store(&mut self, folder: &Path, epoch: u32) -> PathBuf {
        self.fill(epoch as u8);
        self.regions
            .store(folder, &tag(epoch))
            .expect("stored")
            .path
    }
}

#[test]
fn what_was_stored_is_loaded() {
    let folder = Folder::new("loaded");
    let mut state = State::new((2 << 20) + 17);
    state.store(&folder, 5);
    let path = state.store(&folder, 6);
    let expected = state.copy();
    assert_eq!(fs::metadata(&path).expect("a file").len(), {
        let again = state.regions.store(&folder, &tag(6)).expect("stored");
        again.bytes
    });
    let mut other = State::new((2 << 20) + 17);
    let loaded = other.regions.load(&folder, &wanted()).expect("loaded");
    assert_eq!((loaded.tag, loaded.refused.len()), (tag(6), 0));
    assert!(other.copy() == expected);
    // The one before, when all roll back to that.
    let older = Wanted {
        epoch: Some(5),
        ..wanted()
    };
    assert_eq!(
        other.regions.load(&folder, &older).expect("loaded").tag,
        tag(5)
    );
    state.fill(5);
    assert!(other.copy() == state.copy());
}

#[test]
fn every_torn_or_altered_file_is_refused_and_the_older_one_used() {
    let folder = Folder::new("torn");
    let mut state = State::new(300);
    state.store(&folder, 1);
    let old = state.copy();
    let path = state.store(&folder, 2);
    let good = fs::read(&path).expect("a file");
    let mut other = State::new(300);
    let mut refuse = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).expect("written");
        other.fill(99);
        let loaded = other
            .regions
            .load(&folder, &wanted())
            .expect("the older one");
        assert_eq!((loaded.tag.epoch, loaded.refused.len()), (1, 1), "{what}");
        assert!(other.copy() == old, "{what}");
        // Alone it leaves the memory as it is.
        other.fill(99);
        let before = other.copy();
        let only = Wanted {
            epoch: Some(2),
            ..wanted()
        };
        let Err(RegionsError::Nothing { refused, .. }) = other.regions.load(&folder, &only) else {
            panic!("{what}: loaded");
        };
        assert!(other.copy() == before, "{what}");
        refused.into_iter().next().expect("a reason").why
    };
    for length in 0..good.len() {
        let why = refuse(&good[..length], &format!("{length} bytes"));
        assert!(matches!(why, Why::Torn { .. }), "{length}: {why}");
    }
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        refuse(&bytes, &format!("byte {at}"));
    }
    let longer = [&good[..], b"x"].concat();
    assert!(matches!(refuse(&longer, "longer"), Why::Torn { .. }));
    let other_version = [&good[..8], &[9], &good[9..]].concat();
    assert!(matches!(refuse(&other_version, "version"), Why::Version(9)));
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused_at_once() {
    let folder = Folder::new("pipe");
    let mut state = State::new(300);
    state.store(&folder, 1);
    let path = state.store(&folder, 2);
    fs::remove_file(&path).expect("removed");
    let name = CString::new(path.as_os_str().as_bytes()).expect("no zero byte");
    // SAFETY: the name ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let loaded = state.regions.load(&folder, &wanted()).expect("the older");
    assert_eq!(loaded.tag.epoch, 1);
    assert!(matches!(loaded.refused[0].why, Why::Torn { found: 0, .. }));
}

#[test]
fn heads_tell_the_size_of_the_job_that_stored() {
    let folder = Folder::new("sizes");
    let mut state = State::new(10);
    let path = state.store(&folder, 1);
    assert_eq!(job_sizes(&folder, 1), [4]);
    assert!(job_sizes(&folder, 0).is_empty());
    let of_two = Tag { size: 2, ..tag(3) };
    state.regions.store(&folder, &of_two).expect("stored");
    // Without its data a file has its head, and without a part of its head nothing.
    let file = fs::OpenOptions::new().write(true).open(path);
    let file = file.expect("the file");
    file.set_len(100).expect("cut short");
    assert_eq!(job_sizes(&folder, 1), [4, 2]);
    file.set_len(50).expect("cut short");
    assert_eq!(job_sizes(&folder, 1), [2]);
}

#[test]
fn foreign_files_are_refused() {
    let folder = Folder::new("foreign");
    let mut state = State::new(10);
    let path = state.store(&folder, 1);
    let mut why = |wanted: &Wanted| match state.regions.load(&folder, wanted) {
        Err(RegionsError::Nothing { refused, .. }) => refused[0].to_string(),
        other => panic!("{other:?}"),
    };
    let text = why(&Wanted {
        job: Some(43),
        ..wanted()
    });
    assert!(text.contains("another job: 42 instead of 43"), "{text}");
    let text = why(&Wanted {
        size: 8,
        ..wanted()
    });
    assert!(
        text.contains("another number of ranks: 4 instead of 8"),
        "{text}"
    );
    // A file under another's name.
    let renamed = folder.join("rank-000001-epoch-0000000009.rejoin");
    fs::copy(&path, &renamed).expect("copied");
    let text = why(&Wanted {
        epoch: Some(9),
        ..wanted()
    });
    assert!(text.contains("another epoch: 1 instead of 9"), "{text}");
    fs::write(&renamed, b"something else altogether").expect("written");
    assert!(
        why(&Wanted {
            epoch: Some(9),
            ..wanted()
        })
        .contains("no stored state")
    );
    let any_job = Wanted {
        job: None,
        epoch: Some(1),
        ..wanted()
    };
    assert_eq!(
        state
            .regions
            .load(&folder, &any_job)
            .expect("loaded")
            .tag
            .job,
        42
    );
}

#[test]
fn other_regions_are_refused_with_the_difference() {
    let folder = Folder::new("regions");
    State::new(10).store(&folder, 1);
    let mut state = State::new(11);
    let why = |state: &mut State| {
        state
            .regions
            .load(&folder, &wanted())
            .expect_err("another table")
            .to_string()
    };
    let text = why(&mut state);
    assert!(
        text.contains("region 7 has 11 bytes, 10 were stored"),
        "{text}"
    );
    assert!(state.regions.unregister(7) && !state.regions.unregister(7));
    let text = why(&mut state);
    assert!(
        text.contains("region 7 (10 bytes) is not registered"),
        "{text}"
    );
    let mut extra = 0u8;
    // SAFETY: it lives as long as the registration.
    let twice = unsafe {
        state
            .regions
            .register(8, &mut extra, 1)
            .expect("registered");
        state.regions.register(8, &mut extra, 1)
    };
    assert!(matches!(twice, Err(RegionsError::Registered(8))));
}

#[test]
fn memory_is_registered_once() {
    let mut memory = [0u8; 100];
    let at = memory.as_mut_ptr();
    let mut regions = Regions::new();
    // SAFETY: all of it lies in `memory`, which lives as long as the registration.
    let mut register = |id, from, len| unsafe { regions.register(id, at.wrapping_add(from), len) };
    register(1, 20, 30).expect("the first");
    for (from, len) in [(20, 30), (0, 100), (30, 1), (10, 11), (49, 10)] {
        let refused = register(2, from, len).expect_err("an overlap");
        let text = "the memory of region 2 overlaps that of region 1";
        assert_eq!(refused.to_string(), text, "{len} bytes at {from}");
    }
    for (id, from, len) in [(2, 0, 20), (3, 50, 50), (4, 30, 0)] {
        register(id, from, len).expect("no overlap");
    }
    assert_eq!(regions.bytes(), 100);
}

#[test]
fn two_are_kept_and_drafts_go() {
    let folder = Folder::new("pruned");
    let mut state = State::new(10);
    for epoch in [1, 3, 4, 7, 8] {
        state.store(&folder, epoch);
    }
    let other = Tag { rank: 10, ..tag(1) };
    state.regions.store(&folder, &other).expect("stored");
    let draft = folder.join("rank-000001-epoch-0000000009.77.draft");
    fs::write(&draft, b"half").expect("written");
    prune(&folder, 1, 7, &[4]).expect("pruned");
    let left: Vec<_> = stored(&folder, 1).into_iter().map(|s| s.0).collect();
    assert_eq!(left, [4, 7, 8]);
    assert!(!draft.exists());
    assert_eq!(stored(&folder, 10).len(), 1);
    assert_eq!(rejoin_ckpt::regions::highest(&folder), Some(8));
    prune(&folder, 1, 8, &[]).expect("again");
    assert_eq!(stored(&folder, 1).len(), 1);
}

#[test]
fn a_failed_store_leaves_nothing_and_says_what_failed() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new("failed");
    let file = folder.join("file");
    fs::write(&file, b"").expect("written");
    let mut state = State::new(10);
    let error = state
        .regions
        .store(&file, &tag(1))
        .expect_err("no folder")
        .to_string();
    assert!(error.contains("make the folder"), "{error}");
    // A device without room takes the place of the file that is written.
    let draft = format!("rank-000001-epoch-0000000002.{}.draft", std::process::id());
    std::os::unix::fs::symlink("/dev/full", folder.join(&draft)).expect("a link");
    let error = state
        .regions
        .store(&folder, &tag(2))
        .expect_err("no room")
        .to_string();
    assert!(
        error.contains("write") && error.contains("No space left"),
        "{error}"
    );
    assert!(stored(&folder, 1).is_empty() && !folder.join(draft).exists());
    let path = state.store(&folder, 3);
    assert_eq!(
        fs::metadata(path).expect("a file").permissions().mode() & 0o777,
        0o600
    );
}
