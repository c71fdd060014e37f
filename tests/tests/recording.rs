//! Recordings of ranks: each runs again alone, and what it does not do again is named.

use rejoin_tests::folder::Folder;
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{descendants, kill, rank_of, wait_for};
use rejoin_tests::small_disk::with_small_disk;
use rejoin_tests::{Finished, Run, finish, listening, prefix, program};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn rejoin(arguments: &[&str]) -> Command {
    let mut command = Command::new(prefix().join("bin/rejoin"));
    command.args(arguments).stdin(Stdio::null());
    listening(&mut command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn done(arguments: &[&str]) -> Finished {
    let child = rejoin(arguments).spawn().expect("starting rejoin");
    finish(child, LIMIT, &format!("rejoin {arguments:?}"))
}

/// `rejoin verify-determinism` for four ranks of a program of the tests.
fn verified(options: &[&str], name: &str, arguments: &[&str]) -> Finished {
    let path = program(name).display().to_string();
    let line = [
        &["verify-determinism", "-n", "4"],
        options,
        &[&path],
        arguments,
    ]
    .concat();
    done(&line)
}

/// Records `undetermined` into a folder.
fn recorded(folder: &str, kind: &str) -> Child {
    let run = Run::raw(["-n", "3", "--record", folder]).arg(program("undetermined"));
    run.arg(kind).start()
}

#[test]
fn ranks_whose_messages_come_in_any_order_do_the_same_again() {
    let cases: [(&str, &[&str]); 12] = [
        ("p2p", &[]),
        ("coll", &[]),
        ("comms", &[]),
        ("derived", &[]),
        ("errors", &[]),
        ("long_collectives", &[]),
        ("master", &["500", "2000"]),
        ("orders", &["300", "200"]),
        ("persistent", &["200", "100"]),
        ("sessions", &[]),
        ("storm", &["7", "40"]),
        ("undetermined", &["nothing"]),
    ];
    for (name, arguments) in cases {
        for transport in ["shm", "tcp"] {
            let done = verified(&["--transport", transport], name, arguments);
            assert_eq!(
                done.output.status.code(),
                Some(0),
                "{name}: {}",
                done.text()
            );
            let said = done.last_line();
            assert!(
                said.contains("all 4 ranks did the same again"),
                "{name}: {said}"
            );
        }
    }
}

/// What rank 1 does in a replay of `undetermined`, and what is said of it.
const DIFFERENT: [(&str, &str); 6] = [
    (
        "bytes",
        "MPI_Send sends 4 bytes to rank 2 (tag 0), and its bytes are not those of",
    ),
    (
        "tag",
        "MPI_Send sends 4 bytes to rank 2 (tag 1), and the recording has: MPI_Send sends 4 bytes to rank 2 (tag 0)",
    ),
    (
        "length",
        "MPI_Send sends 8 bytes to rank 2 (tag 0), and the recording has: MPI_Send sends 4 bytes",
    ),
    (
        "call",
        "MPI_Ssend sends 4 bytes to rank 2 (tag 0), and the recording has: MPI_Send sends",
    ),
    (
        "more",
        "MPI_Sendrecv_replace receives at most 4 bytes (source 1, tag 1), and the recording has: MPI_Send",
    ),
    (
        "fewer",
        "MPI_Send sends 4 bytes to rank 2 (tag 0), and the recording has: MPI_Sendrecv_replace",
    ),
];

#[test]
fn the_first_call_that_differs_is_named() {
    for (kind, text) in DIFFERENT {
        let folder = Folder::new(&format!("recording-{kind}"));
        let kept = folder.name("kept");
        let path = program("undetermined").display().to_string();
        let line = [
            "verify-determinism",
            "--record",
            &kept,
            "-n",
            "3",
            &path,
            kind,
        ];
        let done = self::done(&line);
        assert_eq!(
            done.output.status.code(),
            Some(1),
            "{kind}: {}",
            done.text()
        );
        let said = done.stderr();
        let named = "rank 1 does not do the same again: after 20 messages sent and 20 received: ";
        assert!(said.contains(&format!("{named}{text}")), "{kind}: {said}");
        assert!(
            said.contains("2 ranks did; to look at one"),
            "{kind}: {said}"
        );
        // The recording stays.
        let done = self::done(&["replay", &kept, "--rank", "1"]);
        assert_ne!(
            done.output.status.code(),
            Some(0),
            "{kind}: {}",
            done.text()
        );
        assert!(done.last_line().contains(text), "{kind}: {}", done.text());
        let done = self::done(&["replay", &kept, "--rank", "2"]);
        assert_eq!(
            done.output.status.code(),
            Some(0),
            "{kind}: {}",
            done.text()
        );
    }
}

#[test]
fn a_replay_prints_what_its_rank_printed_and_ends_as_it_ended() {
    let folder = Folder::new("recording-code");
    let kept = folder.name("kept");
    let run = finish(recorded(&kept, "code"), LIMIT, "a recorded run");
    assert_eq!(run.output.status.code(), Some(7), "{}", run.text());
    for rank in 0..3 {
        let done = done(&["replay", &kept, "--rank", &rank.to_string()]);
        let printed = format!("rank {rank}: ");
        let of_run = run.stdout();
        let of_run = of_run.lines().find(|line| line.starts_with(&printed));
        assert_eq!(Some(done.stdout().trim_end()), of_run, "{}", done.text());
        let code = if rank == 1 { 7 } else { 0 };
        assert_eq!(done.output.status.code(), Some(code), "{}", done.text());
    }
    let again = finish(recorded(&kept, "nothing"), LIMIT, "a second run");
    assert_eq!(again.output.status.code(), Some(2), "{}", again.text());
    assert!(
        again.last_line().contains("there are recordings already"),
        "{}",
        again.text()
    );
}

#[test]
fn a_crash_comes_again_and_a_debugger_shows_where() {
    let folder = Folder::new("recording-crash");
    let kept = folder.name("kept");
    let run = finish(recorded(&kept, "crash"), LIMIT, "a recorded run");
    assert_eq!(run.output.status.code(), Some(128 + 11), "{}", run.text());
    let again = done(&["replay", &kept, "--rank", "1"]);
    assert_eq!(
        again.output.status.code(),
        Some(128 + 11),
        "{}",
        again.text()
    );
    let gdb = ["gdb", "-batch", "-ex", "run", "-ex", "backtrace", "--args"];
    let line = [&["replay", &kept, "--rank", "1", "--"][..], &gdb].concat();
    let shown = done(&line).stdout();
    assert!(
        shown.contains("in odd_step") && shown.contains("main (argc"),
        "{shown}"
    );
}

#[test]
fn a_debugger_stops_in_the_call_that_differs() {
    let folder = Folder::new("recording-stop");
    let kept = folder.name("kept");
    let run = finish(recorded(&kept, "tag"), LIMIT, "a recorded run");
    assert!(run.output.status.success(), "{}", run.text());
    let gdb = ["gdb", "-batch", "-ex", "run", "-ex", "backtrace", "--args"];
    let line = [&["replay", &kept, "--rank", "1", "--"][..], &gdb].concat();
    let shown = done(&line).stdout();
    assert!(
        shown.contains("SIGTRAP") && shown.contains("in odd_step"),
        "{shown}"
    );
}

#[test]
fn a_rank_that_was_killed_has_a_recording_up_to_its_end() {
    let folder = Folder::new("recording-killed");
    let kept = folder.name("kept");
    let child = recorded(&kept, "endless");
    let of_rank = |child: &Child| {
        let all = descendants(child.id());
        all.into_iter().find(|pid| rank_of(*pid) == Some(1))
    };
    wait_for(LIMIT, "rank 1", || of_rank(&child).is_some());
    // It waits once all others do, too.
    let size = |rank: u32| {
        let path = format!("{kept}/rank-{rank}.recording");
        std::fs::metadata(path).map_or(0, |file| file.len())
    };
    let sizes = || [0, 1, 2].map(size);
    let (mut before, mut since) = (sizes(), Instant::now());
    wait_for(LIMIT, "recordings that grow no more", || {
        let now = sizes();
        if now != before {
            (before, since) = (now, Instant::now());
        }
        now.iter().all(|size| *size > 0) && since.elapsed() > Duration::from_secs(1)
    });
    kill(of_rank(&child).expect("rank 1"), libc::SIGKILL);
    let run = finish(child, LIMIT, "a recorded run");
    assert_eq!(run.output.status.code(), Some(128 + 9), "{}", run.text());
    let done = done(&["replay", &kept, "--rank", "1"]);
    let said = done.last_line();
    assert!(said.contains("the rank had ended there"), "{}", done.text());
    assert!(
        said.contains("MPI_Recv waits for a message"),
        "{}",
        done.text()
    );
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let folder = Folder::new("recording-full");
    let path = program("storm").display().to_string();
    let kept = folder.join("kept").display().to_string();
    let line = ["-n", "4", "--record", &kept, &path, "7", "400"];
    let Some(run) = with_small_disk(&folder, 3, &line) else {
        return;
    };
    let done = run.output();
    assert!(done.output.status.success(), "{}", done.text());
    let said = done.stderr();
    assert!(
        said.contains("ends here, and the program continues: No space left"),
        "{said}"
    );
}

#[test]
fn a_folder_without_recordings_is_told() {
    let folder = Folder::new("recording-none");
    let kept = folder.name("kept");
    let done = self::done(&["replay", &kept, "--rank", "0"]);
    assert_eq!(done.output.status.code(), Some(2), "{}", done.text());
    assert!(
        done.last_line().contains("rank-0.recording: No such file"),
        "{}",
        done.text()
    );
    let refused = Run::raw(["--recovery", "coordinated", "--record", &kept, "true"]).output();
    assert_eq!(refused.output.status.code(), Some(2), "{}", refused.text());
    let text = "a rank that comes back is not recorded yet";
    assert!(refused.last_line().contains(text), "{}", refused.text());
}
