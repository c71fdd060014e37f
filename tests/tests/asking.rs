//! The user's view of a job with recoveries: status, checkpoints on demand, the journal of events,
//! and output that is shown only when it is committed.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::Job;
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{all_gone, descendants, is_alive, kill, wait_for};
use rejoin_tests::questions::{asked, metrics, metrics_address, rejoin, status};
use rejoin_tests::small_disk::with_small_disk;
use rejoin_tests::{Run, finish, prefix, program};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.split_inclusive('\n');
    // The last one may be seen in the middle of its writing.
    lines
        .filter_map(|line| line.strip_suffix('\n'))
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

fn count(path: &Path, event: &str) -> usize {
    events(path).iter().filter(|e| e["event"] == event).count()
}

#[test]
fn an_interval_that_is_far_too_short_is_stretched_and_named() {
    let folder = Folder::new("too-short");
    let journal = folder.join("events");
    let name = journal.to_str().expect("a name");
    let arguments = ["--checkpoint-interval", "0.02", "--events", name, "-n", "2"];
    let run = Run::raw(arguments).arg(program("rewrite"));
    let done = run.arg("64").arg("3").limit(LIMIT).ok();
    let told =
        "mpirun: --checkpoint-interval 0.02 s is too short for this program: a checkpoint costs";
    assert_eq!(done.stderr().matches(told).count(), 1, "{}", done.text());
    assert_eq!(count(&journal, "stretched"), 1);
    let all = events(&journal);
    let stretched = all.iter().find(|e| e["event"] == "stretched");
    let interval = stretched.expect("the event")["interval_ms"].as_u64();
    let interval = interval.expect("milliseconds");
    assert!(interval > 20, "{interval} ms");
}

#[test]
fn checkpoints_come_when_asked_for_and_are_reported() {
    let folder = Folder::new("asked");
    let journal = folder.join("events");
    let arguments = [
        "--checkpoint-interval",
        "asked",
        "--checkpoint-signal",
        "USR1",
        "--events",
        journal.to_str().expect("a name"),
        "-n",
        "2",
    ];
    let gate = folder.join("gate");
    let run = Run::raw(arguments).arg(program("divergent"));
    let run = run.arg("500").arg(&gate);
    let child = run.env("XDG_RUNTIME_DIR", &folder.name("")).start();
    let mpirun = child.id();
    // The first one is taken at the end of MPI_Init, unasked.
    wait_for(LIMIT, "the first checkpoint", || {
        count(&journal, "committed") == 1
    });
    // By its name: other jobs of this user may run.
    let out = rejoin(&folder, &["checkpoint", &mpirun.to_string()]);
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("checkpoint 2 is committed"), "{out:?}");
    kill(mpirun, libc::SIGUSR1);
    wait_for(LIMIT, "the third checkpoint", || {
        count(&journal, "committed") == 3
    });

    let seen = status(&folder, mpirun).expect("the job");
    assert_eq!(seen["checkpoint"]["epoch"], 3, "{seen}");
    assert_eq!(seen["committed"], 3);
    assert_eq!(seen["failures"], 0);
    let victim = seen["ranks"][1]["pid"].as_u64().expect("a pid") as u32;
    kill(victim, libc::SIGKILL);
    wait_for(LIMIT, "the recovery", || count(&journal, "recovered") == 1);
    let seen = status(&folder, mpirun).expect("the job");
    assert_eq!(
        (&seen["generation"], &seen["failures"]),
        (&1.into(), &1.into())
    );
    assert_eq!(seen["ranks"][1]["incarnation"], 1, "{seen}");
    assert_ne!(seen["ranks"][1]["pid"], victim);

    std::fs::write(gate, "").expect("the gate");
    let done = finish(child, LIMIT, "divergent");
    assert!(done.output.status.success(), "{}", done.text());
    let all = events(&journal);
    let lost = all.iter().find(|e| e["event"] == "lost").expect("a loss");
    assert_eq!((&lost["rank"], &lost["pid"]), (&1.into(), &victim.into()));
    assert_eq!(lost["cause"], "was killed by signal 9 (SIGKILL)");
    let back = all.iter().find(|e| e["event"] == "recovered").expect("it");
    assert_eq!(
        (&back["generation"], &back["epoch"]),
        (&1.into(), &3.into())
    );
    assert!(back["took_ns"].as_u64() > Some(0) && back["repeated_ns"].is_u64());
    let last = all.last().expect("a last line");
    assert_eq!(
        (&last["event"], &last["code"]),
        (&"ended".into(), &0.into())
    );
    assert!(all.iter().all(|e| e["job"] == seen["job"]));
}

#[test]
fn a_signal_to_mpirun_that_kills_the_ranks_ends_the_job() {
    let folder = Folder::new("signal");
    let journal = folder.join("events");
    let name = journal.to_str().expect("a name");
    let run = Run::raw(["--events", name, "-n", "3"]).arg(program("divergent"));
    let child = run.arg("500").arg(folder.join("gate")).start();
    wait_for(LIMIT, "a checkpoint", || count(&journal, "committed") > 0);
    kill(child.id(), libc::SIGUSR2);
    let done = finish(child, LIMIT, "divergent");
    let code = Some(128 + libc::SIGUSR2);
    assert_eq!(done.output.status.code(), code, "{}", done.text());
    let line = "ended by signal 12 (SIGUSR2), which was sent to mpirun";
    assert!(done.last_line().contains(line), "{}", done.text());
    assert_eq!(done.stderr().lines().count(), 1, "{}", done.text());
    assert_eq!(count(&journal, "lost") + count(&journal, "recovered"), 0);
}

/// Sets how many descriptors a process may have open; returns the limit before.
fn limit_files(pid: u32, most: libc::rlim_t) -> libc::rlim_t {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let pid = i32::try_from(pid).expect("a pid");
    let set = |new: *const libc::rlimit, old: *mut libc::rlimit| {
        // SAFETY: both are null or limits of this function.
        let done = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, new, old) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    };
    set(std::ptr::null(), &raw mut limit);
    let before = std::mem::replace(&mut limit.rlim_cur, most);
    set(&raw const limit, std::ptr::null_mut());
    before
}

#[test]
fn an_image_whose_socket_does_not_arrive_is_none_and_the_checkpoint_before_stands() {
    let folder = Folder::new("no-socket");
    let journal = folder.join("events");
    let name = journal.to_str().expect("a name");
    let arguments = [
        "--checkpoint-interval",
        "asked",
        "--events",
        name,
        "-n",
        "2",
    ];
    // The ranks write to files, so nothing but the image's socket comes with a report.
    let shell = r#"exec "$0" 500 "$1" > "$2.$$" 2>&1"#;
    let gate = folder.join("gate");
    let run = Run::raw(arguments).arg("sh").arg("-c").arg(shell);
    let run = run.arg(program("divergent")).arg(&gate);
    let run = run.arg(folder.join("output"));
    let child = run.env("XDG_RUNTIME_DIR", &folder.name("")).start();
    let mpirun = child.id();
    wait_for(LIMIT, "the first checkpoint", || {
        count(&journal, "committed") == 1
    });
    let checkpoint = || rejoin(&folder, &["checkpoint", &mpirun.to_string()]);
    let local = Job::of(mpirun, "divergent").local();
    let is_open = |number: &u64| Path::new(&format!("/proc/{local}/fd/{number}")).exists();
    let free = (0..).find(|number| !is_open(number)).expect("a number");
    let before = limit_files(local, free);
    let out = checkpoint();
    limit_files(local, before);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        said.contains("the image's socket did not arrive"),
        "{out:?}"
    );
    assert_eq!(count(&journal, "committed"), 1);
    let seen = status(&folder, mpirun).expect("the job");
    assert_eq!(seen["checkpoint"]["epoch"], 1, "{seen}");
    // A rank comes back from the checkpoint before, and the next one is taken.
    let victim = seen["ranks"][1]["pid"].as_u64().expect("a pid") as u32;
    kill(victim, libc::SIGKILL);
    wait_for(LIMIT, "the recovery", || count(&journal, "recovered") == 1);
    let out = checkpoint();
    assert!(out.status.success(), "{out:?}");
    std::fs::write(gate, "").expect("the gate");
    let done = finish(child, LIMIT, "divergent");
    assert!(done.output.status.success(), "{}", done.text());
}

/// The output of one rank: its numbers, folded as the program folds them, and its own sum.
fn sums(text: &str, rank: &str) -> (u32, Option<u32>, usize) {
    let (mut folded, mut own, mut steps) = (0u32, None, 0);
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            [r, "step", step, number] if r == rank => {
                assert_eq!(step, steps.to_string(), "rank {rank} is out of order");
                folded = folded
                    .wrapping_mul(31)
                    .wrapping_add(number.parse::<u32>().expect("a number"));
                steps += 1;
            }
            [r, "sum", number] if r == rank => own = number.parse().ok(),
            _ => {}
        }
    }
    (folded, own, steps)
}

#[test]
fn with_output_commit_only_what_stays_is_shown() {
    for recovery in ["coordinated", "sender-log", "receiver-log"] {
        only_what_stays_is_shown(recovery);
    }
}

fn only_what_stays_is_shown(recovery: &str) {
    let folder = Folder::new("commit");
    let journal = folder.join("events");
    let arguments = [
        "--recovery",
        recovery,
        "--output",
        "commit",
        "--checkpoint-interval",
        "0.1",
        "--events",
        journal.to_str().expect("a name"),
        "-n",
        "3",
    ];
    let gate = folder.join("gate");
    let run = Run::raw(arguments).arg(program("divergent"));
    let run = run.arg("1000").arg(&gate);
    let child = run.env("XDG_RUNTIME_DIR", &folder.name("")).start();
    let mpirun = child.id();
    for killed in 1..=4 {
        let before = count(&journal, "committed");
        wait_for(LIMIT, "a commit", || count(&journal, "committed") > before);
        let Some(seen) = status(&folder, mpirun) else {
            panic!("the job has ended after {} kills", killed - 1);
        };
        let pid = seen["ranks"][killed % 3]["pid"].as_u64().expect("a pid");
        kill(pid as u32, libc::SIGKILL);
        wait_for(LIMIT, "the recovery", || {
            count(&journal, "recovered") == killed
        });
    }
    // A replay would see the gate too early: all have ended, also those that the first of these
    // checkpoints meets.
    for _ in 0..2 {
        let said = rejoin(&folder, &["checkpoint", &mpirun.to_string()]);
        assert!(said.status.success(), "{said:?}");
    }
    std::fs::write(gate, "").expect("the gate");
    let done = finish(child, LIMIT, "divergent");
    assert!(done.output.status.success(), "{}", done.text());
    let text = done.stdout();
    for rank in ["0", "1", "2"] {
        let (folded, own, steps) = sums(&text, rank);
        assert_eq!((Some(folded), steps), (own, 1000), "rank {rank}");
    }
    assert!(
        !done.stderr().contains("writes other lines than before"),
        "{}",
        done.stderr()
    );
}

#[test]
fn lines_that_are_repeated_are_shown_once_although_others_differ() {
    let folder = Folder::new("differ");
    let journal = folder.join("events");
    let arguments = ["--checkpoint-interval", "asked", "-n", "2", "--events"];
    let gate = folder.join("gate");
    let run = Run::raw(arguments).arg(&journal).arg(program("divergent"));
    let run = run.arg("400").arg(&gate).arg("50");
    let child = run.env("XDG_RUNTIME_DIR", &folder.name("")).start();
    let mpirun = child.id();
    wait_for(LIMIT, "the first checkpoint", || {
        count(&journal, "committed") == 1
    });
    wait_for(LIMIT, "all lines", || folder.join("gate.waits").exists());
    let seen = status(&folder, mpirun).expect("the job");
    let victim = seen["ranks"][1]["pid"].as_u64().expect("a pid") as u32;
    kill(victim, libc::SIGKILL);
    wait_for(LIMIT, "the recovery", || count(&journal, "recovered") == 1);
    std::fs::write(gate, "").expect("the gate");
    let done = finish(child, LIMIT, "divergent");
    assert!(done.output.status.success(), "{}", done.text());
    let text = done.stdout();
    for rank in 0..2 {
        for step in 0..400 {
            let start = format!("{rank} step {step} ");
            let lines = text.lines().filter(|line| line.starts_with(&start)).count();
            // The clock told another number in the second run.
            let shown = if step % 50 == 0 { 2 } else { 1 };
            assert_eq!(lines, shown, "{start}\n{}", done.text());
        }
    }
    let said = done
        .stderr()
        .matches("writes other lines than before")
        .count();
    assert_eq!(said, 1, "once for the job: {}", done.stderr());
}

#[test]
fn without_checkpoints_nothing_of_them_can_be_asked_for() {
    for option in [
        &["--output", "commit"][..],
        &["--checkpoint-signal", "USR2"],
    ] {
        let mut all = vec!["--recovery", "none"];
        all.extend(option);
        let done = Run::raw(all).arg("true").output();
        assert_eq!(done.output.status.code(), Some(2), "{}", done.text());
        assert!(
            done.last_line()
                .contains("--recovery none takes no checkpoints")
        );
    }
}

#[test]
fn held_output_for_which_there_is_no_room_ends_the_job() {
    let folder = Folder::new("room");
    // There is no checkpoint after the first, and the output of the ranks would fill the room ten
    // times.
    let options = [
        "--output",
        "commit",
        "--checkpoint-interval",
        "asked",
        "-n",
        "2",
    ];
    let Some(run) = with_small_disk(&folder, 2, &options) else {
        return;
    };
    let run = run.env("TMPDIR", &folder.name(""));
    let run = run.arg(program("twins")).arg("output").arg("-");
    let child = run.start();
    let mpirun = child.id();
    let (done, all) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut all = BTreeSet::new();
            while is_alive(mpirun) {
                all.extend(descendants(mpirun));
                std::thread::sleep(Duration::from_millis(1));
            }
            all
        });
        let done = finish(child, LIMIT, "output without room");
        (done, watcher.join().expect("the watcher"))
    });
    assert_eq!(done.output.status.code(), Some(1), "{}", done.text());
    let last = done.last_line();
    assert!(last.contains("output can't be written: "), "{last}");
    assert!(last.contains("No space left on device"), "{last}");
    let all: Vec<u32> = all.into_iter().collect();
    all_gone(&all, LIMIT);
}

/// A command in a terminal of 80 by 24, and the other end of that terminal.
fn in_terminal(command: &mut Command) -> (Child, File) {
    let size = libc::winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: all pointers are to variables of this function, or null.
    let made = unsafe {
        let none = std::ptr::null_mut();
        libc::openpty(
            &raw mut ours,
            &raw mut theirs,
            none,
            std::ptr::null(),
            &raw const size,
        )
    };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: openpty has just made them, and nothing else knows them.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let end = || Stdio::from(theirs.try_clone().expect("a descriptor"));
    let child = command.stdin(end()).stdout(end()).stderr(end()).spawn();
    (child.expect("starting it"), File::from(ours))
}

/// Reads from a terminal until this text has come so often, and returns all that came.
fn read_until(terminal: &mut File, text: &str, times: usize) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let shown = String::from_utf8_lossy(&all).into_owned();
        if shown.matches(text).count() >= times {
            return shown;
        }
        match terminal.read(&mut buffer) {
            Ok(count @ 1..) => all.extend(&buffer[..count]),
            end => panic!("{end:?} before {text}: {shown}"),
        }
    }
}

#[test]
fn top_shows_a_job_again_and_again_in_a_terminal_and_once_without() {
    let folder = Folder::new("top");
    let journal = folder.join("events");
    let gate = folder.join("gate");
    let options = ["--checkpoint-interval", "asked", "-n", "2", "--events"];
    let run = Run::raw(options).arg(&journal).arg(program("divergent"));
    let run = run.arg("100").arg(&gate);
    let child = run.env("XDG_RUNTIME_DIR", &folder.name("")).start();
    let mpirun = child.id().to_string();
    wait_for(LIMIT, "a checkpoint", || count(&journal, "committed") == 1);

    // The command waits less than a second for an answer.
    let mut once = rejoin(&folder, &["top", &mpirun]);
    wait_for(LIMIT, "an answer", || {
        once = rejoin(&folder, &["top", &mpirun]);
        once.status.success()
    });
    let text = String::from_utf8_lossy(&once.stdout);
    assert!(
        once.status.success() && !text.contains('\u{1b}'),
        "{once:?}"
    );
    assert!(text.contains("ranks        2: 2 running"), "{text}");
    assert!(
        text.contains("checkpoints  1 committed, 0 aborted"),
        "{text}"
    );
    assert!(text.contains("last stall "), "{text}");

    let mut top = Command::new(prefix().join("bin/rejoin"));
    top.args(["top", &mpirun]).env("XDG_RUNTIME_DIR", &folder);
    let (mut shown, mut terminal) = in_terminal(&mut top);
    drop(top);
    // Two frames, then the key.
    let text = read_until(&mut terminal, "q ends", 2);
    terminal.write_all(b"q").expect("a key");
    let rest = read_until(&mut terminal, "\u{1b}[?1049l", 1);
    assert!(shown.wait().expect("an end").success());
    assert!(text.starts_with("\u{1b}[?1049h"), "{text:?}");
    assert!(text.contains("2: 2 running"), "{text:?}");
    // The screen is never cleared, only drawn over, and the cursor comes back.
    assert!(!text.contains("\u{1b}[2J"), "{text:?}");
    assert!(rest.contains("\u{1b}[?25h"), "{rest:?}");
    let rows = text
        .split("\u{1b}[")
        .filter_map(|part| part.split_once(';')?.0.parse().ok());
    assert!(rows.max() <= Some(24u32), "{text:?}");

    std::fs::write(gate, "").expect("the gate");
    let done = finish(child, LIMIT, "divergent");
    assert!(done.output.status.success(), "{}", done.text());
    assert_eq!(rejoin(&folder, &["top", &mpirun]).status.code(), Some(1));
}

#[test]
fn a_restore_that_takes_long_shows_a_bar_in_a_terminal() {
    let folder = Folder::new("bar");
    let gate = folder.join("gate");
    let mut mpirun = Command::new(prefix().join("bin/mpirun"));
    let options = [
        "--timeout",
        "60",
        "--checkpoint-interval",
        "asked",
        "-n",
        "2",
    ];
    mpirun.args(options).arg(program("back")).arg("short");
    mpirun.arg(&gate).env("TERM", "xterm");
    let (mut child, mut terminal) = in_terminal(&mut mpirun);
    drop(mpirun);
    let job = Job::of(child.id(), "back");
    wait_for(LIMIT, "a checkpoint", || job.has_checkpoint(2));
    // All images are stopped: none makes a process.
    let images = job.images();
    images.iter().for_each(|pid| kill(*pid, libc::SIGSTOP));
    kill(job.ranks()[1], libc::SIGKILL);
    let text = read_until(&mut terminal, "0/2 ranks, 2s", 1);
    assert!(text.contains("mpirun: restoring ["), "{text:?}");
    images.iter().for_each(|pid| kill(*pid, libc::SIGCONT));
    let text = read_until(&mut terminal, "of work repeated", 1);
    std::fs::write(gate, "").expect("the gate");
    // The bar is gone when the line comes.
    let (_, after) = text.rsplit_once(" ranks, ").unwrap_or(("", &text));
    let line = after.find("of work repeated").expect("the line");
    assert!(after[..line].contains("\r\u{1b}[2K"), "{text:?}");
    let mut rest = Vec::new();
    // The terminal ends with an error.
    let _ = terminal.read_to_end(&mut rest);
    let rest = String::from_utf8_lossy(&rest);
    assert!(child.wait().expect("an end").success(), "{text}{rest}");
    assert!(!rest.contains("restoring ["), "{rest:?}");
}

/// What a server answers to these bytes. The client sends them, and waits for the end.
#[test]
fn metrics_count_a_recovery_while_slow_clients_and_garbage_are_there() {
    let folder = Folder::new("metrics");
    let journal = folder.join("events");
    let gate = folder.join("gate");
    let options = [
        "--checkpoint-interval",
        "0.1",
        "-n",
        "2",
        "--metrics",
        "0",
        "--events",
    ];
    let run = Run::raw(options).arg(&journal).arg(program("divergent"));
    let run = run.arg("400").arg(&gate);
    let mut child = run.env("XDG_RUNTIME_DIR", &folder.name("")).start();
    let mpirun = child.id();
    wait_for(LIMIT, "a checkpoint", || count(&journal, "committed") > 0);
    let address = metrics_address(child.stderr.take().expect("standard error"));
    let address = address.as_str();
    // Some ask for nothing, and some for half of it.
    let slow: Vec<_> = (0..8)
        .map(|half| {
            let mut socket = TcpStream::connect(address).expect("a connection");
            socket.write_all(&b"GET /met"[..half]).expect("a part");
            socket
        })
        .collect();
    kill(Job::of(mpirun, "divergent").ranks()[0], libc::SIGKILL);
    wait_for(LIMIT, "the recovery", || count(&journal, "recovered") == 1);
    assert!(asked(address, b"\x16\x03\x01garbage\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let text = metrics(address);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    for line in [
        "rejoin_rank_failures_total 1",
        "rejoin_recoveries_total 1",
        "rejoin_generation 1",
        "rejoin_ranks 2",
        "# EOF",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
    let committed = text
        .lines()
        .find(|l| l.starts_with("rejoin_checkpoints_committed_total{"));
    assert!(
        committed.is_some_and(|line| !line.ends_with(" 0")),
        "{text}"
    );
    drop(slow);
    std::fs::write(gate, "").expect("the gate");
    let done = finish(child, LIMIT, "divergent");
    assert!(done.output.status.success(), "{}", done.text());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its number");
    let other = std::net::TcpListener::bind(taken);
    let done = Run::raw(["--metrics", &taken.to_string()])
        .arg("true")
        .output();
    drop(other);
    assert_eq!(done.output.status.code(), Some(1), "{}", done.text());
    assert!(done.last_line().contains("(--metrics)"), "{}", done.text());
}
