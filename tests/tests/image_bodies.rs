//! Files of images beside the logs of senders: what the receiver's image holds is in no file.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, by_rank};
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::wait_for;
use rejoin_tests::{Run, finish, program};
use std::path::{Path, PathBuf};

/// Megabytes of each half of the stream: fewer than those after which the log itself asks for a
/// checkpoint, which would come before that of the test.
const MEGABYTES: u64 = 48;
const HALF: u64 = MEGABYTES << 20;
/// A rank with nothing in its log has a smaller file.
const MOST: u64 = 20 << 20;

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let found = |path: PathBuf| match path.is_dir() {
        true => find(&path, name),
        false => path.ends_with(name).then_some(path),
    };
    entries.map(|entry| entry.path()).find_map(found)
}

fn stream(options: &[&str], gate: &Path) -> Run {
    let usual = ["--tag-output", "-n", "2"];
    let options = usual.iter().chain(options);
    let run = options.fold(Run::raw::<&str>([]), Run::arg);
    let run = run.arg(program("stream")).arg(MEGABYTES.to_string());
    run.arg(gate)
}

/// Files lack messages in jobs with a name, as on several hosts. The ranks are killed together with
/// their images in memory, the sender first.
#[test]
fn the_sender_comes_back_from_a_small_file() {
    let folder = Folder::new("bodies");
    let gate = folder.join("gate");
    std::fs::write(&gate, "").expect("the gate");
    let undisturbed = stream(&["--recovery", "none"], &gate).ok();
    std::fs::remove_file(&gate).expect("the gate");
    let (events, images) = (folder.name("events"), folder.name("images"));
    let log = [
        "--recovery",
        "sender-log",
        "--job-name",
        "stream",
        "--log-limit",
        "600MB",
        "--stats",
    ];
    let seen = ["--events", &events, "--images", &images];
    let options = [&log[..], &seen, &["--checkpoint-interval", "asked"]].concat();
    let child = stream(&options, &gate).start();
    let job = Job::of(child.id(), "stream");
    let count = |what: &str| {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.matches(what).count()
    };
    let in_files = "\"level\":\"file\"";
    wait_for(LIMIT, "files of the second checkpoint", || {
        count(in_files) == 2 || !job.goes_on()
    });
    for rank in [0, 1] {
        let name = format!("rank-{rank}.epoch-2.image");
        let file = find(&folder.join("images"), &name).expect("the file of the image");
        let length = file.metadata().expect("its length").len();
        assert!(length < MOST, "{name}: {length}");
    }
    for rank in [0, 1] {
        job.kill_with_images(&[rank]);
        let back = rank + 1;
        wait_for(LIMIT, "a recovery", || {
            count("\"recovered\"") == back || !job.goes_on()
        });
    }
    std::fs::write(&gate, "").expect("the gate");
    let done = finish(child, LIMIT, "the stream");
    assert!(done.output.status.success(), "{}", done.text());
    let lines = |done: &rejoin_tests::Finished| by_rank(&done.stdout(), true);
    assert_eq!(lines(&done), lines(&undisturbed));
    let text = done.stderr();
    let retained = text.split("most_log_bytes=").filter_map(|rest| {
        let number = rest.split_whitespace().next()?;
        number.parse::<u64>().ok()
    });
    assert!(retained.max() >= Some(HALF), "{text}");
}
