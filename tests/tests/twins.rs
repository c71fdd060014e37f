//! Programs must not notice that images of them are taken and restored: one test for each pitfall
//! (`docs/pitfalls.md`). A program repeats one action (`tests/programs/twins.c`), an image is taken
//! every 20 ms wherever it is, and it loses a rank several times.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::living_children;
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{children, eldest_of_each_rank, kill, wait_for};
use rejoin_tests::{Finished, Run, finish, program, root};
use std::io::{BufRead, BufReader, Read, Write};
use std::time::{Duration, Instant};

const RANKS: usize = 2;
/// From here on the program may end.
fn stop(folder: &Folder) {
    std::fs::write(folder.join("stop"), "").expect("the file that stops the program");
}

fn start(case: &str, folder: &Folder) -> Run {
    start_with(case, folder, &["--checkpoint-interval", "0.02"])
}

fn start_with(case: &str, folder: &Folder, options: &[&str]) -> Run {
    let run = Run::raw(["--max-restarts", "1000"]);
    let run = options.iter().fold(run, |run, option| run.arg(option));
    run.arg("-n")
        .arg(RANKS.to_string())
        .arg(program("twins"))
        .arg(case)
        .arg(folder.join("stop"))
        .arg(folder)
}

/// A job's ranks that run.
fn ranks_of(mpirun: u32) -> Vec<u32> {
    eldest_of_each_rank(called(mpirun, "twins"))
}

/// The processes below a job's local manager that have this name and run.
fn called(mpirun: u32, name: &str) -> Vec<u32> {
    let local = children(mpirun).into_iter();
    local.flat_map(|pid| living_children(pid, name)).collect()
}

/// Waits for images that were not there before.
fn fresh_images(mpirun: u32) -> Vec<u32> {
    let before = called(mpirun, "rejoin-twin");
    let mut images = Vec::new();
    wait_for(LIMIT, "images of all ranks", || {
        images = called(mpirun, "rejoin-twin");
        images.retain(|pid| !before.contains(pid));
        images.len() >= RANKS
    });
    images
}

/// Ends ranks, one at a time, each after `before` has seen the images that it will come back from.
fn torment(mpirun: u32, kills: usize, before: impl Fn(&[u32])) {
    let begun = Instant::now();
    // Before it is committed, no more than one loss can be masked.
    wait_for(LIMIT, "the first checkpoint", || {
        called(mpirun, "rejoin-twin").len() > RANKS
    });
    for number in 0..kills {
        // Another moment each time, but not before the repeated work is done.
        fresh_images(mpirun);
        std::thread::sleep(Duration::from_micros(
            begun.elapsed().subsec_micros() as u64 % 9_000,
        ));
        before(&called(mpirun, "rejoin-twin"));
        let mut ranks = Vec::new();
        wait_for(LIMIT, "all ranks", || {
            ranks = ranks_of(mpirun);
            ranks.len() == RANKS
        });
        kill(ranks[number % RANKS], libc::SIGKILL);
        wait_for(LIMIT, "the rank to come back", || {
            let now = ranks_of(mpirun);
            now.len() == RANKS && !now.iter().any(|pid| ranks.contains(pid))
        });
    }
}

fn survives_with(case: &str, before: impl Fn(&[u32]) + Send) -> Finished {
    let folder = Folder::new(case);
    survives_in(case, &folder, start(case, &folder), before)
}

fn survives_in(case: &str, folder: &Folder, run: Run, before: impl Fn(&[u32]) + Send) -> Finished {
    let child = run.start();
    let mpirun = child.id();
    let done = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            torment(mpirun, 4, before);
            stop(folder);
        });
        let done = finish(child, LIMIT, case);
        assert!(killer.join().is_ok(), "{case}: {}", done.stderr());
        done
    });
    assert!(
        done.output.status.success(),
        "{case}: {}\n{}",
        done.output.status,
        done.stderr()
    );
    done
}

fn survives(case: &str) {
    let done = survives_with(case, |_| {});
    let text = done.stdout();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["rank 0 is through", "rank 1 is through"]);
    let errors = done.stderr();
    let back = errors.matches(" back after ").count();
    assert!(back >= 4, "{case}: back {back} times\n{errors}");
}

/// Lets a program run until mpirun reports something of it, and returns the whole report.
fn until_told(case: &str, needle: &str) -> String {
    let folder = Folder::new(case);
    let mut child = start(case, &folder).start();
    let mut errors = BufReader::new(child.stderr.take().expect("standard error"));
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let mut from = 0;
        while errors.read_line(&mut text).is_ok_and(|length| length > 0) {
            let _ = tell.send(text[from..].to_owned());
            from = text.len();
        }
        let _ = errors.read_to_string(&mut text);
        text
    });
    let begun = Instant::now();
    let heard = std::iter::from_fn(|| {
        told.recv_timeout(LIMIT.saturating_sub(begun.elapsed()))
            .ok()
    })
    .any(|line| line.contains(needle));
    stop(&folder);
    let done = finish(child, LIMIT, case);
    let text = reader.join().expect("the reader");
    assert!(heard, "{case}: nobody said {needle:?}\n{text}");
    assert!(done.output.status.success(), "{case}: {text}");
    assert_eq!(text.matches(needle).count(), 1, "{case}: {text}");
    text
}

#[test]
fn calls_that_signals_interrupt_are_not() {
    survives("interruptions");
}

#[test]
fn the_program_sees_no_child() {
    survives("children");
}

#[test]
fn interval_and_posix_timers_go_on() {
    survives("timers");
}

#[test]
fn an_alarm_stays_set() {
    survives("alarms");
}

#[test]
fn signals_that_wait_still_wait() {
    survives("pending");
}

#[test]
fn the_programs_own_handlers_and_their_stack_stay() {
    survives("handlers");
}

#[test]
fn files_are_where_they_were() {
    survives("files");
}

#[test]
fn locks_of_files_go_over_and_go() {
    survives("locks");
}

#[test]
fn locked_memory_is_locked_again() {
    survives("locked_memory");
}

#[test]
fn files_about_the_rank_itself_tell_of_the_restored_one() {
    survives("own_status");
}

#[test]
fn heap_streams_loader_and_recursive_locks_are_whole() {
    survives("library");
}

#[test]
fn a_restored_process_looks_as_before() {
    survives("looks");
}

#[test]
fn a_restored_process_binds_itself_to_cores() {
    survives("affinity");
}

#[test]
fn socket_calls_with_time_outs_of_their_own_are_not_interrupted() {
    survives("timeouts");
}

#[test]
fn a_program_that_waits_for_all_signals_finds_no_order() {
    survives("blocked");
}

#[test]
fn orders_that_strike_while_a_call_gives_back_its_lock_are_taken() {
    let case = "locked_calls";
    let folder = Folder::new(case);
    let child = start(case, &folder).start();
    let mpirun = child.id();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // One order in about thirty strikes there.
            (0..200).for_each(|_| drop(fresh_images(mpirun)));
            stop(&folder);
        });
        let done = finish(child, 4 * LIMIT, case);
        let through = done.stdout().matches("is through").count();
        assert_eq!(through, RANKS, "{}", done.stderr());
    });
}

/// Compiles the library that intercepts the C library's heap.
fn heap_check() -> std::path::PathBuf {
    let source = root().join("tests/programs/heap_check.c");
    let library = program("twins").with_file_name("heap_check.so");
    // No calls of the heap may be left out, as compilers do with some that come in pairs.
    let flags = [
        "-shared",
        "-fPIC",
        "-O1",
        "-fno-builtin",
        "-Wall",
        "-Werror",
        "-o",
    ];
    let mut compiler = std::process::Command::new("cc");
    let status = compiler.args(flags).arg(&library).arg(source).status();
    assert!(status.expect("starting cc").success());
    library
}

#[test]
fn the_handler_of_orders_uses_no_heap() {
    let library = heap_check();
    let preload = format!("LD_PRELOAD={}", library.display());
    let options = ["--checkpoint-interval", "0.02", "-x", &preload];
    let folder = Folder::new("heap");
    let mark = folder.join("struck");
    let told = format!("HEAP_CHECK_STRUCK={}", mark.display());
    let mut marked = options.to_vec();
    marked.extend(["-x", &told]);
    let run = start_with("library", &folder, &marked);
    survives_in("library", &folder, run, |_| {
        wait_for(LIMIT, "an order in the middle of the heap", || {
            mark.exists()
        });
    });

    // One that does is found.
    let folder = Folder::new("trap");
    let mut options = options.to_vec();
    options.extend(["-x", "HEAP_CHECK_TRAP=1"]);
    let done = start_with("library", &folder, &options).output();
    assert_eq!(done.output.status.code(), Some(99), "{}", done.text());
}

#[test]
fn files_that_others_write_too_are_left_as_they_are() {
    let folder = Folder::new("shared-file");
    let options = ["--checkpoint-interval", "asked"];
    let child = start_with("shared_file", &folder, &options).start();
    let mpirun = child.id();
    let files = ["both.0", "mine.1"].map(|name| folder.join(name));
    let text = |file: &std::path::PathBuf| std::fs::read_to_string(file).unwrap_or_default();
    let grows = |than: [usize; 2]| {
        // No rank writes before the checkpoint.
        wait_for(LIMIT, "what both ranks write", || {
            (0..2).all(|which| text(&files[which]).len() > than[which])
        });
    };
    grows([0, 0]);
    let mut ranks = ranks_of(mpirun);
    let mut seen = ranks.clone();
    for number in 0..2 {
        let mark = format!("mark {number}\n");
        for file in &files {
            let mut file = std::fs::File::options()
                .append(true)
                .open(file)
                .expect("it");
            file.write_all(mark.as_bytes()).expect("a line");
        }
        kill(ranks[number], libc::SIGKILL);
        wait_for(LIMIT, "the ranks to come back", || {
            ranks = ranks_of(mpirun);
            ranks.retain(|pid| !seen.contains(pid));
            ranks.len() == RANKS
        });
        seen.extend(&ranks);
        // A file that only one rank writes loses its text after the checkpoint.
        wait_for(LIMIT, "the file to be cut back", || {
            !text(&files[1]).contains(&mark)
        });
        grows([text(&files[0]).len(), 0]);
        assert!(text(&files[0]).contains(&mark), "{}", text(&files[0]));
    }
    stop(&folder);
    let done = finish(child, LIMIT, "a file that two ranks write");
    assert!(done.output.status.success(), "{}", done.text());
}

#[test]
fn an_interrupt_to_a_frozen_image_does_not_strike_later() {
    let done = survives_with("looks", |images| {
        images.iter().for_each(|&pid| kill(pid, libc::SIGINT));
    });
    assert_eq!(done.stdout().lines().count(), RANKS);
}

#[test]
fn writes_longer_than_a_pipe_come_once_and_whole() {
    let done = survives_with("output", |_| {});
    // The two ranks' lines come in any order, each rank's in its own.
    let filling = "x".repeat(1023);
    let lines = (0..100).flat_map(|round| (0..200).map(move |line| (round, line)));
    let mut want: Vec<_> = lines
        .flat_map(|(round, line)| [(); RANKS].map(|()| format!("{round} {line} {filling}")))
        .chain((0..RANKS).map(|rank| format!("rank {rank} is through")))
        .collect();
    let text = done.stdout();
    let mut have: Vec<_> = text.lines().collect();
    want.sort_unstable();
    have.sort_unstable();
    let differ = want.iter().zip(&have).find(|(w, h)| w != h);
    let differ = differ.map(|(w, h)| (&w[..w.len().min(20)], &h[..h.len().min(20)]));
    assert!(
        want.len() == have.len() && differ.is_none(),
        "{} lines instead of {}, first {differ:?}\n{}",
        have.len(),
        want.len(),
        done.stderr()
    );
}

#[test]
fn children_of_the_program_are_refused_once() {
    until_told("child", "has a child process of its own (twins, process");
}

#[test]
fn threads_are_in_the_image() {
    survives("threads");
}

#[test]
fn a_thread_that_cannot_be_stopped_is_refused_once() {
    until_told("deaf", "could not be stopped within a second");
}

#[test]
fn shared_memory_is_refused_once() {
    until_told("shared", "has writable shared memory");
}

#[test]
fn memory_that_clones_do_not_get_is_refused_once() {
    until_told("holes", "marked to stay out of clones");
}

/// Rust files below a folder, as one text.
fn sources(folder: &std::path::Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            *into += &std::fs::read_to_string(&path).expect("a file");
        }
    }
}

#[test]
fn every_test_that_the_table_of_pitfalls_names_is_there() {
    let table = std::fs::read_to_string(root().join("docs/pitfalls.md")).expect("the table");
    let mut text = String::new();
    for folder in ["ckpt/tests", "tests/tests"] {
        sources(&root().join(folder), &mut text);
    }
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let mut count = 0;
    for row in rows.filter(|row| !row.starts_with("| pitfall")) {
        let tests = row.rsplit('|').nth(1).expect("a last column");
        let names: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            let there = [
                format!("fn {name}()"),
                format!("(\"{name}\""),
                format!("\"{name}\",\n"),
            ];
            assert!(there.iter().any(|is| text.contains(is)), "no test {name}");
            count += 1;
        }
    }
    assert!(count > 50, "{count} names");
}
