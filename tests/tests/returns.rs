//! Ranks killed at chosen moments, exits that count as ends and not as failures, and programs of
//! which no image can be taken.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, Numbers, times_back};
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{eldest_of_each_rank, is_alive, kill, wait_for};
use rejoin_tests::{Finished, Run, finish, program};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::mpsc::Receiver;
use std::time::Duration;

const RANKS: &str = "3";
fn back(options: &[&str], args: &[&str]) -> Run {
    let mut all = vec!["--tag-output", "-n", RANKS];
    for usual in [["--checkpoint-interval", "0.1"], ["--max-restarts", "1000"]] {
        if !options.contains(&usual[0]) {
            all.extend(usual);
        }
    }
    let run = Run::raw(all.iter().chain(options)).arg(program("back"));
    args.iter().fold(run, |run, arg| run.arg(arg))
}

/// Its lines, rank by rank.
fn lines(done: &Finished) -> Vec<String> {
    let mut lines: Vec<String> = done.stdout().lines().map(str::to_owned).collect();
    lines.sort_by_key(|line| line.split('>').next().unwrap_or("").to_owned());
    lines
}

fn undisturbed(args: &[&str]) -> Vec<String> {
    lines(&back(&["--recovery", "none"], args).ok())
}

fn same(done: &Finished, want: &[String], least: u32) {
    assert!(done.output.status.success(), "{}", done.text());
    assert!(lines(done) == want, "other lines:\n{}", done.text());
    let came = times_back(&done.stderr());
    assert!(came >= least, "{came} came back: {}", done.text());
}

/// A job whose first checkpoint is there.
fn with_images(child: &Child) -> Job {
    let job = Job::of(child.id(), "back");
    wait_for(SOON, "the first checkpoint", || {
        job.has_checkpoint(3) || !is_alive(child.id())
    });
    job
}

/// `back work`, which does not end before it may.
struct Work {
    child: Child,
    job: Job,
    folder: Folder,
}

impl Work {
    fn with_images(name: &str, options: &[&str]) -> Work {
        let folder = Folder::new(name);
        let child = back(options, &["work", &folder.name("gate")]).start();
        let job = with_images(&child);
        Work { child, job, folder }
    }

    /// From here on it may end.
    fn end(self, what: &str) -> Finished {
        std::fs::write(self.folder.join("gate"), "").expect("the gate");
        finish(self.child, LIMIT, what)
    }
}

/// How often something has happened, by the journal of events.
fn times(events: &str, kind: &str) -> usize {
    let text = std::fs::read_to_string(events).unwrap_or_default();
    told(&text, &format!(r#""event":"{kind}""#)).len()
}

#[test]
fn three_at_once() {
    let want = undisturbed(&["work"]);
    let work = Work::with_images("three-at-once", &[]);
    for pid in work.job.ranks() {
        kill(pid, libc::SIGKILL);
    }
    // Ranks that end while all old processes are stopped are not counted separately.
    same(&work.end("three kills at once"), &want, 1);
}

/// On which CPUs each rank may run, rank by rank.
fn cpus_of(ranks: &[u32]) -> Vec<(String, String)> {
    let of = |pid: &u32, file: &str, separator: char, name: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let mut lines = text.split(separator);
        let value = lines.find_map(|line| line.strip_prefix(name));
        value.unwrap_or_default().trim().to_owned()
    };
    let one = |pid| {
        let rank = of(pid, "environ", '\0', "REJOIN_RANK=");
        (rank, of(pid, "status", '\n', "Cpus_allowed_list:"))
    };
    let mut all: Vec<_> = ranks.iter().map(one).collect();
    all.sort();
    all
}

#[test]
fn ranks_that_come_back_are_bound_as_before() {
    let want = undisturbed(&["work"]);
    let work = Work::with_images("bound", &["--bind-to", "core", "--report-bindings"]);
    let mut ranks = work.job.ranks();
    let before = cpus_of(&ranks);
    kill(ranks[1], libc::SIGKILL);
    let now = work.job.fresh_ranks(3, &mut ranks);
    assert_eq!(cpus_of(&now), before);
    let done = work.end("bound ranks");
    same(&done, &want, 1);
    let text = done.stderr();
    for (rank, cpus) in before {
        let bound = told(&text, ": bound to a core: CPU");
        let own = format!("mpirun: rank {rank} on ");
        let line = bound.iter().find(|line| line.starts_with(&own));
        let line = line.unwrap_or_else(|| panic!("rank {rank}: {text}"));
        assert!(
            line.contains(&format!(" {cpus} of socket")),
            "{cpus}: {line}"
        );
    }
}

/// The messages, without the program's own name in them.
fn told<'a>(text: &'a str, with: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.contains(with)).collect()
}

#[test]
fn ranks_that_were_killed_together_are_all_named() {
    let want = undisturbed(&["work"]);
    let folder = Folder::new("together");
    let events = folder.name("events");
    let work = Work::with_images("killed-together", &["--events", &events]);
    let job = &work.job;
    // The manager notices none of them before the others.
    kill(job.local(), libc::SIGSTOP);
    let ranks = job.ranks();
    let victims = [ranks[0], ranks[2]];
    for pid in victims {
        kill(pid, libc::SIGKILL);
    }
    wait_for(SOON, "their ends", || {
        !victims.iter().any(|pid| is_alive(*pid))
    });
    kill(job.local(), libc::SIGCONT);
    let done = work.end("two killed together");
    same(&done, &want, 2);
    let text = done.stderr();
    let back = told(&text, " back after ");
    assert_eq!(back.len(), 1, "{text}");
    assert!(
        back[0].starts_with("mpirun: ranks 0 and 2 are back"),
        "{text}"
    );
    let lost = told(&text, "killed by signal 9");
    for pid in victims {
        let pid = pid.to_string();
        let names = |line: &&&str| line.split(|c: char| !c.is_ascii_digit()).any(|w| w == pid);
        assert_eq!(lost.iter().filter(names).count(), 1, "{text}");
    }
    let events = std::fs::read_to_string(events).expect("the events");
    assert_eq!(told(&events, r#""event":"lost""#).len(), 2, "{events}");
}

#[test]
fn a_second_kill_during_the_recovery_from_the_first() {
    let seed = 5;
    println!("seed {seed}");
    let mut numbers = Numbers(seed);
    let want = undisturbed(&["work"]);
    let folder = Folder::new("second");
    let events = folder.name("events");
    let work = Work::with_images("second-kill", &["--events", &events]);
    let mut seen = Vec::new();
    for _ in 0..12 {
        let before = times(&events, "recovered");
        let ranks = work.job.fresh_ranks(3, &mut seen);
        kill(ranks[0], libc::SIGKILL);
        std::thread::sleep(Duration::from_micros(numbers.below(2000)));
        // By then the others may have made room for their successors.
        let now = work.job.ranks();
        let next = now.iter().find(|pid| **pid != ranks[0]);
        kill(*next.unwrap_or(&ranks[1]), libc::SIGKILL);
        wait_for(SOON, "a recovery", || times(&events, "recovered") > before);
        std::thread::sleep(Duration::from_millis(numbers.below(30)));
    }
    same(&work.end("second kills"), &want, 12);
}

#[test]
fn twins_that_are_killed_are_made_again() {
    let want = undisturbed(&["work"]);
    let folder = Folder::new("twins-events");
    let events = folder.name("events");
    let options = ["--checkpoint-interval", "100", "--events", &events];
    let work = Work::with_images("killed-twins", &options);
    let job = &work.job;
    wait_for(SOON, "a commit", || times(&events, "committed") > 0);
    for _ in 0..3 {
        let before = times(&events, "committed");
        let twins = job.images();
        for pid in &twins {
            kill(*pid, libc::SIGKILL);
        }
        // Long before the next one is due.
        wait_for(SOON, "new images", || {
            let now = job.images();
            now.iter().filter(|pid| !twins.contains(pid)).count() >= 3
        });
        // Each checkpoint counts before its images are killed: its loss is then a loss of its own.
        wait_for(SOON, "a commit", || times(&events, "committed") > before);
    }
    // A process made ahead comes after its image.
    wait_for(SOON, "images and processes made ahead", || {
        job.images().len() >= 6
    });
    let mut ranks = job.ranks();
    kill(ranks[0], libc::SIGKILL);
    job.fresh_ranks(3, &mut ranks);
    let done = work.end("killed twins");
    same(&done, &want, 1);
    // Each of the three losses and each recovery is reported.
    let text = done.stderr();
    assert_eq!(
        told(&text, " was killed, and not by mpirun").len(),
        3,
        "{text}"
    );
    assert_eq!(
        told(&text, "it has an image of each rank again").len(),
        3,
        "{text}"
    );
    let events = std::fs::read_to_string(events).expect("the events");
    assert!(
        told(&events, r#""event":"image-lost""#).len() >= 3,
        "{events}"
    );
}

/// The number of the system call in which a process waits.
fn call_of(pid: u32) -> Option<i64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    text.split(' ').next()?.parse().ok()
}

#[test]
fn processes_made_ahead_that_are_killed_are_done_without() {
    let want = undisturbed(&["work"]);
    let work = Work::with_images("killed-ahead", &["--checkpoint-interval", "100"]);
    let job = &work.job;
    // An image waits for a wake, and the process made ahead waits for the image to pass one on.
    let waiting = || {
        let mut images = job.images();
        images.retain(|pid| call_of(*pid) == Some(libc::SYS_recvmsg));
        images
    };
    wait_for(SOON, "processes made ahead", || waiting().len() == 6);
    let mut ahead = waiting();
    let images = eldest_of_each_rank(ahead.clone());
    ahead.retain(|pid| !images.contains(pid));
    assert_eq!((images.len(), ahead.len()), (3, 3));
    for pid in &ahead {
        kill(*pid, libc::SIGKILL);
    }
    wait_for(SOON, "the images alone", || {
        waiting() == images && !ahead.iter().any(|pid| is_alive(*pid))
    });
    let mut ranks = job.ranks();
    kill(ranks[0], libc::SIGKILL);
    job.fresh_ranks(3, &mut ranks);
    same(&work.end("killed processes"), &want, 1);
}

#[test]
fn kills_after_finalize_while_the_program_goes_on() {
    let want = undisturbed(&["after"]);
    let child = back(&[], &["after"]).start();
    let job = with_images(&child);
    let mut count = 0;
    while is_alive(child.id()) && count < 8 {
        std::thread::sleep(Duration::from_millis(110));
        for pid in job.ranks().into_iter().take(1) {
            kill(pid, libc::SIGKILL);
            count += 1;
        }
    }
    same(&finish(child, LIMIT, "kills after MPI_Finalize"), &want, 1);
}

/// The content of a stream, line by line.
fn heard(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let lines = BufReader::new(stream.expect("a pipe")).lines();
    let (say, hear) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        lines
            .map_while(Result::ok)
            .try_for_each(|line| say.send(line))
    });
    hear
}

#[test]
fn a_rank_killed_after_finalize_is_told_as_lost_and_as_back() {
    let folder = Folder::new("left");
    let (gate, events) = (folder.name("gate"), folder.name("events"));
    let options = ["--checkpoint-interval", "asked", "--events", &events];
    let mut child = back(&options, &["left", &gate]).start();
    let (out, errors) = (heard(child.stdout.take()), heard(child.stderr.take()));
    let job = Job::of(child.id(), "back");
    let mut said: Vec<String> = (0..3)
        .map(|_| out.recv_timeout(SOON).expect("a line"))
        .collect();
    let mut told = Vec::new();
    let mut seen = job.ranks();
    for number in 0..2 {
        // The second time, a restored rank.
        let victim = seen[number * 2 + 1];
        kill(victim, libc::SIGKILL);
        for what in [
            format!("(pid {victim}) was killed by"),
            " is back after ".into(),
        ] {
            let line = errors.recv_timeout(SOON).expect("a line");
            assert!(line.contains(&what), "{line}");
            told.push(line);
        }
        let new = job.ranks().into_iter().find(|pid| !seen.contains(pid));
        seen.push(new.expect("it is back"));
    }
    std::fs::write(&gate, "").expect("a file");
    let done = finish(child, LIMIT, "kills after MPI_Finalize");
    assert!(done.output.status.success(), "{told:?}");
    said.extend(out);
    assert_eq!(said.len(), 6, "each line once: {said:?}");
    assert_eq!(errors.iter().next(), None);

    let who = told[0].split_once(" on host").expect("a rank").0;
    let back = format!("{who} is back after ");
    assert!(
        told.iter()
            .skip(1)
            .step_by(2)
            .all(|line| line.starts_with(&back)),
        "{told:?}"
    );
    let events = std::fs::read_to_string(events).expect("the events");
    let events = events
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let of_it = |e: &serde_json::Value| e["event"] == "lost" || e["event"] == "recovered";
    let all: Vec<serde_json::Value> = events.filter(of_it).collect();
    let names: Vec<_> = all.iter().map(|e| e["event"].as_str()).collect();
    let pair = [Some("lost"), Some("recovered")];
    assert_eq!(names, [pair, pair].concat(), "{all:?}");
    // No generation begins for it.
    assert!(all.iter().all(|e| e["generation"] == 0), "{all:?}");
    assert!(all.iter().all(|e| e["rank"] == all[0]["rank"]), "{all:?}");
}

#[test]
fn kills_around_init() {
    let seed = 11;
    println!("seed {seed}");
    let mut numbers = Numbers(seed);
    let want = undisturbed(&["after"]);
    for round in 0..6 {
        let child = back(&[], &["after"]).start();
        let job = Job::of(child.id(), "back");
        wait_for(SOON, "a rank", || !job.ranks().is_empty());
        std::thread::sleep(Duration::from_micros(numbers.below(6000)));
        for pid in job.ranks().into_iter().take(1) {
            kill(pid, libc::SIGKILL);
        }
        let done = finish(child, LIMIT, "a kill around MPI_Init");
        assert!(
            done.output.status.success(),
            "round {round}: {}",
            done.text()
        );
        assert!(lines(&done) == want, "round {round}: {}", done.text());
    }
}

/// Ranks are killed one after the other before any of them has called `MPI_Init`. One of them has
/// read from standard input by then.
#[test]
fn ranks_killed_before_any_has_called_init_begin_anew() {
    let want = undisturbed(&["work"]);
    let folder = Folder::new("anew");
    let gate = folder.name("gate");
    let script = r#"[ "$REJOIN_RANK" = 0 ] && read line; echo "begins $line"
                    until [ -e "$1" ]; do sleep 0.01; done; exec "$0" work"#;
    let options = ["--verbose", "--tag-output", "-n", RANKS, "sh", "-c", script];
    let run = Run::raw(options).arg(program("back")).arg(&gate);
    let mut child = run.start_with_input();
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"with this\n").expect("a reader");
    let errors = heard(child.stderr.take());
    let mut told = Vec::new();
    for victim in [2, 1, 0] {
        // Lines of the ranks after it would be taken for those of its next start.
        let started = format!("rank {victim}: started on ");
        let line = loop {
            let line = errors.recv_timeout(SOON).expect("a line");
            told.push(line.clone());
            if line.contains(&started) {
                break line;
            }
        };
        let (_, pid) = line.split_once(", pid ").expect("a pid");
        // It has read its line.
        std::thread::sleep(Duration::from_millis(100));
        kill(pid.parse().expect("a number"), libc::SIGKILL);
    }
    std::fs::write(&gate, "").expect("a file");
    let done = finish(child, LIMIT, "kills before MPI_Init");
    drop(input);
    told.extend(errors);
    let told = told.join("\n");
    assert!(done.output.status.success(), "{told}");
    assert_eq!(told.matches(" was killed by signal 9").count(), 3, "{told}");
    let (before, have): (Vec<_>, Vec<_>) = lines(&done)
        .into_iter()
        .partition(|line| line.contains("begins"));
    assert_eq!(before.len(), 3, "{}", done.text());
    assert!(before[0].ends_with("begins with this"), "{before:?}");
    assert!(have == want, "{}", done.text());
}

/// A program that no rank of which uses MPI is started again, too, but not without end.
#[test]
fn kills_before_init_are_limited_as_others_are() {
    let options = [
        "--max-restarts",
        "2",
        "-n",
        "2",
        "sh",
        "-c",
        "echo here; kill -9 $$",
    ];
    let done = Run::raw(options).output();
    assert_eq!(done.output.status.code(), Some(137), "{}", done.text());
    let last = done.last_line();
    assert!(last.contains("the limit of 2 recoveries"), "{last}");
}

#[test]
fn a_rank_killed_before_init_while_others_wait_there() {
    let want = undisturbed(&["work"]);
    let folder = Folder::new("before-init");
    let gate = folder.name("gate");
    // One rank comes to MPI_Init late. All have written something before.
    let script = r#"echo here; if [ "$REJOIN_RANK" = 1 ]; then until [ -e "$1" ]; do sleep 0.01; done; fi
                    exec "$0" work"#;
    let options = ["--verbose", "--tag-output", "-n", RANKS, "sh", "-c", script];
    let run = Run::raw(options).arg(program("back")).arg(&gate);
    let mut child = run.start();
    let errors = heard(child.stderr.take());
    let (mut late, mut waiting, mut told) = (0, 0, Vec::new());
    while waiting < 2 || late == 0 {
        let line = errors.recv_timeout(SOON).expect("a line");
        waiting += usize::from(line.contains(": in MPI_Init, pid "));
        if line.contains("rank 1: started on ") {
            let (_, pid) = line.split_once(", pid ").expect("a pid");
            late = pid.parse().expect("a number");
        }
        told.push(line);
    }
    kill(late, libc::SIGKILL);
    std::fs::write(&gate, "").expect("a file");
    let done = finish(child, LIMIT, "a kill before MPI_Init");
    told.extend(errors);
    let told = told.join("\n");
    assert!(done.output.status.success(), "{told}");
    assert!(told.contains("mpirun: rank 1 is back after "), "{told}");
    assert!(told.contains(" from the start, "), "{told}");
    // Output of the first start that was shown is not shown again.
    let (before, have): (Vec<_>, Vec<_>) = lines(&done)
        .into_iter()
        .partition(|line| line.ends_with("here"));
    assert_eq!(before.len(), 3, "{}", done.text());
    assert!(have == want, "{}", done.text());
}

/// `setsid` forks where it leads its process group, as it does here, and ends at once.
#[test]
fn a_wrapper_that_forks_and_ends_leaves_its_rank_running() {
    let want = undisturbed(&["work"]);
    let behind = |words: &[&str]| {
        let run = Run::raw(["--tag-output", "-n", RANKS, "setsid"]).arg(program("back"));
        words.iter().fold(run, |run, word| run.arg(word))
    };
    for _ in 0..4 {
        let done = behind(&["work"]).limit(LIMIT).output();
        assert!(done.output.status.success(), "{}", done.text());
        assert!(lines(&done) == want, "{}", done.text());
    }
    // A signal reaches the ranks, too.
    let folder = Folder::new("behind");
    let child = behind(&["work", &folder.name("gate")]).start();
    with_images(&child);
    kill(child.id(), libc::SIGTERM);
    let done = finish(child, LIMIT, "a signal to ranks that were left behind");
    assert_eq!(done.output.status.code(), Some(143), "{}", done.text());
}

#[test]
fn a_fault_that_does_not_come_again() {
    let folder = Folder::new("fault");
    let (flag, name) = (folder.join("flag"), folder.name("flag"));
    std::fs::write(&flag, "").expect("a file");
    let want = undisturbed(&["fault", &name]);
    std::fs::remove_file(&flag).expect("the file goes");
    let done = back(&[], &["fault", &name]).output();
    std::fs::remove_file(&flag).expect("rank 1 has made it");
    same(&done, &want, 1);
}

#[test]
fn a_fault_that_comes_again_is_an_end() {
    let options = ["--checkpoint-interval", "100"];
    let done = back(&options, &["fault", "-"]).output();
    assert_eq!(done.output.status.code(), Some(139), "{}", done.text());
    let last = done.last_line();
    assert!(last.contains("the same fault came again"), "{last}");
    assert_eq!(times_back(&done.stderr()), 1, "{}", done.text());
}

#[test]
fn an_exit_and_an_abort_are_ends() {
    for (way, code) in [("exit", 5), ("abort", 7)] {
        let run = Run::new(3, program("ends"))
            .arg(way)
            .arg("1")
            .arg(code.to_string());
        let done = run.output();
        assert_eq!(done.output.status.code(), Some(code), "{}", done.text());
        assert_eq!(times_back(&done.stderr()), 0, "{}", done.text());
    }
}

#[test]
fn the_limit_of_restarts_is_an_end() {
    let work = Work::with_images("limit", &["--max-restarts", "2"]);
    let job = &work.job;
    let mut ranks = job.ranks();
    let mut seen = ranks.clone();
    for _ in 0..2 {
        kill(ranks[0], libc::SIGKILL);
        ranks = job.fresh_ranks(3, &mut seen);
    }
    kill(ranks[0], libc::SIGKILL);
    // It ends by itself.
    let done = finish(work.child, LIMIT, "a third kill");
    assert_eq!(done.output.status.code(), Some(137), "{}", done.text());
    let last = done.last_line();
    assert!(last.contains("the limit of 2 recoveries"), "{last}");
}

#[test]
fn what_no_image_can_hold_is_said_once_and_the_job_goes_on() {
    for (way, why) in [
        ("shared", "has writable shared memory"),
        ("child", "a child process of its own (back, process "),
    ] {
        let want = undisturbed(&[way]);
        let folder = Folder::new(way);
        let gate = folder.name("gate");
        let mut child = back(&[], &[way, &gate]).start();
        let errors = heard(child.stderr.take());
        let mut text = Vec::new();
        let is_warning = |line: &String| line.contains("no checkpoint");
        while !text.last().is_some_and(is_warning) {
            text.push(errors.recv_timeout(SOON).expect("a warning"));
        }
        std::fs::write(&gate, "").expect("the gate");
        let done = finish(child, LIMIT, way);
        text.extend(errors);
        assert!(done.output.status.success(), "{text:?}");
        assert_eq!(lines(&done), want);
        let warnings: Vec<_> = text.iter().filter(|line| is_warning(line)).collect();
        assert_eq!(warnings.len(), 1, "{text:?}");
        assert!(warnings[0].contains(why), "{text:?}");
    }
}

#[test]
fn standard_input_is_read_on_through_kills() {
    let seed = 3;
    println!("seed {seed}");
    let text: String = (0..60_000).map(|i| format!("line {i}\n")).collect();
    let run = |options: &[&str]| {
        let mut child = back(options, &["input"]).start_with_input();
        let mut stdin = child.stdin.take().expect("a pipe");
        let bytes = text.clone().into_bytes();
        let (end, may_end) = std::sync::mpsc::channel::<()>();
        // Its reader may be gone when a test fails.
        let writer = std::thread::spawn(move || {
            let (most, last) = bytes.split_at(bytes.len() - 50_000);
            let written = stdin.write_all(most).is_ok();
            // The program does not end before it is let.
            may_end.recv().is_ok() && written && stdin.write_all(last).is_ok()
        });
        (child, writer, end)
    };
    let (plain, writer, end) = run(&["--recovery", "none"]);
    end.send(()).expect("the writer");
    let want = lines(&finish(plain, LIMIT, "a run that reads"));
    assert!(writer.join().expect("the writer"));
    let folder = Folder::new("input");
    let events = folder.name("events");
    let (child, writer, end) = run(&["--events", &events]);
    let (job, mpirun) = (with_images(&child), child.id());
    let mut numbers = Numbers(seed);
    let mut killed = 0;
    while is_alive(mpirun) && (killed < 15 || killed < 200 && times(&events, "recovered") < 4) {
        let mut ranks = job.ranks();
        // Each third time all are back.
        let least = [3, 1, 1][killed % 3];
        if ranks.len() < least {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        let victim = ranks.swap_remove(numbers.below(ranks.len() as u64) as usize);
        kill(victim, libc::SIGKILL);
        killed += 1;
        std::thread::sleep(Duration::from_millis(20 + numbers.below(60)));
    }
    end.send(()).expect("the writer");
    let done = finish(child, LIMIT, "a run that reads through kills");
    assert!(writer.join().expect("the writer"));
    same(&done, &want, 4);
}
