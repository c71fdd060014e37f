//! Shared memory between ranks of one host: hosts where it is not available, ranks that die in the
//! middle of a copy, and its remains.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, by_rank, times_back};
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{all_gone, descendants, kill, wait_for};
use rejoin_tests::skip::skipped;
use rejoin_tests::tracee::{Stop, Tracee, word_of};
use rejoin_tests::{Finished, Run, finish, prefix, program};
use serde_json::Value;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

/// The shortest message of a single copy. Otherwise copies decide by the time that they take.
const SINGLE_COPY_MIN: (&str, &str) = ("REJOIN_SINGLE_COPY_MIN", "32768");

/// Arguments of four ranks of `storm`; each size and mode of message is among their messages.
const STORM: [&str; 2] = ["5", "25"];

/// Four ranks of `storm`, from which a system call is kept: from all of them, or from the first.
fn storm_without(call: &str, from_all: bool, options: &[&str]) -> Finished {
    let without = program("without");
    let (first, others) = if from_all { ("4", "0") } else { ("1", "3") };
    let (name, least) = SINGLE_COPY_MIN;
    let mut run = Run::raw(["--stats"].iter().chain(options)).env(name, least);
    run = run.arg("-n").arg(first).arg(without).arg(call);
    run = run.arg(program("storm")).arg(STORM[0]).arg(STORM[1]);
    if !from_all {
        run = run.arg(":").arg("-n").arg(others).arg(program("storm"));
        run = run.arg(STORM[0]).arg(STORM[1]);
    }
    run.output()
}

fn storm() -> Finished {
    let (name, least) = SINGLE_COPY_MIN;
    let run = Run::raw(["--stats", "-n", "4"]).env(name, least);
    let done = run.arg(program("storm")).arg(STORM[0]).arg(STORM[1]).ok();
    assert!(done.counted("rings_made") > 0, "{}", done.text());
    assert!(done.counted("bytes_got") > 0, "{}", done.text());
    done
}

fn same(done: &Finished, as_this: &Finished) {
    assert!(done.output.status.success(), "{}", done.text());
    let lines = |done: &Finished| by_rank(&done.stdout(), false);
    assert_eq!(lines(done), lines(as_this), "{}", done.text());
}

#[test]
fn where_no_memory_of_others_may_be_read_messages_go_through_rings() {
    let undisturbed = storm();
    for from_all in [true, false] {
        let done = storm_without("process_vm_readv", from_all, &["--verbose"]);
        same(&done, &undisturbed);
        let (rings, links) = (done.counted("rings_made"), done.counted("links_made"));
        assert!(rings > 0 && rings == links, "{}", done.text());
        let why = "no single copy: process_vm_readv: Operation not permitted";
        let barred = if from_all { 4 } else { 1 };
        assert_eq!(
            done.stderr().matches(why).count(),
            barred,
            "{}",
            done.text()
        );
        let single = done.stderr().matches("long messages in one copy").count();
        assert_eq!(single, 4 - barred, "{}", done.text());
        // The others still read each other's and the first one's.
        let got = done.counted("bytes_got");
        assert_eq!(got == 0, from_all, "{}", done.text());
    }
}

#[test]
fn where_no_memory_of_others_may_be_written_its_owner_reads_all() {
    let giants = |without: &[&str]| {
        let (name, _) = SINGLE_COPY_MIN;
        let mut run = Run::raw(["--stats", "-n", "2"]).env(name, "131072");
        for part in without {
            run = run.arg(part);
        }
        run.arg(program("giants"))
            .arg("8")
            .arg("6")
            .arg("turns")
            .ok()
    };
    let undisturbed = giants(&[]);
    let without = program("without");
    let done = giants(&[&without.to_string_lossy(), "process_vm_writev"]);
    same(&done, &undisturbed);
    assert!(done.counted("bytes_got") > 0, "{}", done.text());
    assert_eq!(done.counted("bytes_put"), 0, "{}", done.text());
}

#[test]
fn the_doctor_measures_each_way_of_messages() {
    let rejoin = prefix().join("bin/rejoin");
    let mut command = Command::new(rejoin);
    let output = command.args(["doctor", "--transports", "--json"]).output();
    let output = output.expect("starting rejoin");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let told: Value = serde_json::from_str(&text).expect("JSON");
    let ways = told["ways"].as_array().expect("ways");
    let names: Vec<_> = ways.iter().map(|way| &way["way"]).collect();
    assert_eq!(
        names,
        ["TCP", "through the link", "single copy", "as programs run"]
    );
    for way in ways {
        let figures = way["figures"].as_array().expect("figures");
        // Where the system lets ranks read each other's memory, from 16 KiB on.
        let wanted: &[usize] = match (way["way"] == "single copy", &way["problem"]) {
            (false, Value::Null) => &[9],
            (true, Value::Null) => &[5],
            _ => &[0],
        };
        assert!(wanted.contains(&figures.len()), "{text}");
        let is_time = |figure: &Value| figure["microseconds"].as_f64().is_some_and(|t| t > 0.0);
        assert!(figures.iter().all(is_time), "{text}");
    }
    assert_eq!(ways[3]["problem"], Value::Null, "{text}");
}

#[test]
fn where_no_memory_is_available_messages_go_over_tcp_and_the_user_is_told() {
    let undisturbed = storm();
    let says = "TCP instead of shared memory with the ranks of its host: ";
    for from_all in [true, false] {
        let done = storm_without("memfd_create", from_all, &[]);
        same(&done, &undisturbed);
        let (rings, links) = (done.counted("rings_made"), done.counted("links_made"));
        assert_eq!(rings == 0, from_all, "{}", done.text());
        assert!(links > rings, "{}", done.text());
        assert_eq!(done.stderr().matches(says).count(), 1, "{}", done.text());
        assert!(
            done.stderr().contains("Operation not permitted"),
            "{}",
            done.text()
        );
    }
    let done = storm_without("memfd_create", true, &["--transport", "shm"]);
    assert!(!done.output.status.success(), "{}", done.text());
    let says = "have shared memory with ranks of this host";
    assert!(done.stderr().contains(says), "{}", done.text());
}

#[test]
fn where_no_memory_is_left_for_rings_messages_go_over_tcp_and_the_user_is_told() {
    let undisturbed = storm();
    // All of it, which shows at once, or the links' only; and where it is signals that end each
    // try.
    for (kept, says, why) in [
        (
            "all",
            "with the ranks of its host: ",
            "No space left on device",
        ),
        (
            "most",
            "with rank ",
            "no memory to share: No space left on device",
        ),
        (
            "signals",
            "with rank ",
            "no memory to share: Interrupted system call",
        ),
    ] {
        let done = storm_without(kept, true, &[]);
        same(&done, &undisturbed);
        assert_eq!(done.counted("rings_made"), 0, "{kept}: {}", done.text());
        let says = format!("TCP instead of shared memory {says}");
        let told = done.stderr();
        let mut told = told.lines().filter(|line| line.contains(&says));
        assert!(
            told.any(|line| line.contains(why)),
            "{kept}: {}",
            done.text()
        );
    }
    // A rank without a descriptor dials without success; ranks with one dial it.
    let done = storm_without("most", false, &[]);
    same(&done, &undisturbed);
    assert!(done.counted("rings_made") > 0, "{}", done.text());
}

#[test]
fn where_no_memory_is_left_for_rings_that_must_be_the_job_ends_and_says_why() {
    for (kept, says) in [
        ("all", "have shared memory with ranks of this host"),
        ("most", "no memory to share"),
    ] {
        let run = Run::raw(["--transport", "shm", "-n", "2"]).env("REJOIN_CONNECT_TIMEOUT", "1");
        let run = run.arg(program("without")).arg(kept);
        let done = run.arg(program("storm")).arg("1").arg("5").output();
        assert!(!done.output.status.success(), "{}", done.text());
        let told = done.stderr();
        let line = told.lines().find(|line| line.contains(says));
        let line = line.unwrap_or_else(|| panic!("{kept}: {}", done.text()));
        assert!(line.contains("No space left on device"), "{line}");
    }
}

/// Lets a command see its own, tiny and full, folder of shared memory.
fn fill_shared(command: &mut Command) {
    // SAFETY: both calls only read.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let maps = [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", format!("{uid} {uid} 1")),
        (c"/proc/self/gid_map", format!("{gid} {gid} 1")),
    ];
    // SAFETY: nothing but system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let check = |done: bool| done.then_some(()).ok_or_else(io::Error::last_os_error);
            check(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) == 0)?;
            for (path, text) in &maps {
                write(path, text.as_bytes())?;
            }
            let folder = c"/dev/shm".as_ptr();
            let (kind, size) = (c"tmpfs".as_ptr(), c"size=4k".as_ptr().cast());
            check(libc::mount(kind, folder, kind, 0, size) == 0)?;
            write(c"/dev/shm/full", &[1; 4096])?;
            let more = write(c"/dev/shm/more", &[1]);
            match more.map_err(|error| error.raw_os_error()) {
                Err(Some(libc::ENOSPC)) => Ok(()),
                _ => Err(io::Error::from_raw_os_error(libc::EEXIST)),
            }
        });
    }
}

/// Writes a new or special file, between fork and exec.
fn write(path: &std::ffi::CStr, bytes: &[u8]) -> io::Result<()> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: the path is a C string, pointer and length describe the bytes, and the descriptor is
    // this function's.
    let (count, error) = unsafe {
        let file = libc::open(path.as_ptr(), flags, 0o600);
        let count = libc::write(file, bytes.as_ptr().cast(), bytes.len());
        let error = io::Error::last_os_error();
        libc::close(file);
        (count, error)
    };
    if usize::try_from(count) == Ok(bytes.len()) {
        return Ok(());
    }
    Err(error)
}

#[test]
fn a_full_folder_of_shared_memory_changes_nothing() {
    let undisturbed = storm();
    let mut command = Command::new("true");
    fill_shared(&mut command);
    if let Err(error) = command.status() {
        assert!(
            matches!(
                error.raw_os_error(),
                Some(libc::EPERM | libc::ENOSPC | libc::EACCES | libc::ENOSYS)
            ),
            "{error}"
        );
        // What holds of it without namespaces is in `memory_of_rings_has_no_name...`.
        skipped(&format!("no namespace with a full /dev/shm: {error}"));
        return;
    }
    let mut command = Command::new(prefix().join("bin/mpirun"));
    fill_shared(&mut command);
    let run = Run::of(command).arg("--stats").arg("-n").arg("4");
    let run = run.arg(program("storm")).arg(STORM[0]).arg(STORM[1]);
    // Otherwise the load of the machine decides whether messages go by single copy.
    let run = run.env("REJOIN_SINGLE_COPY_MIN", "32768");
    let done = run.output();
    same(&done, &undisturbed);
    let (rings, links) = (done.counted("rings_made"), done.counted("links_made"));
    assert!(rings > 0 && rings == links, "{}", done.text());
    assert!(done.counted("bytes_got") > 0, "{}", done.text());
}

/// The mappings of a process.
fn maps(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()
}

/// How many pairs of rings a process has.
fn rings(pid: u32) -> usize {
    maps(pid).matches("/memfd:rejoin-ring (deleted)").count()
}

/// The lines of each rank.
fn lines(done: &Finished) -> Vec<String> {
    assert!(done.output.status.success(), "{}", done.text());
    by_rank(&done.stdout(), true)
}

/// A limit on the size of files that leaves no room for rings.
const RING_LESS: libc::rlim_t = 1000;

/// The limit on the size of files, which is that on memory for rings too. An image may be over
/// meanwhile.
fn limit_files(pid: u32, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit lives through the call; nothing is read back.
    let done = unsafe {
        libc::prlimit(
            pid.cast_signed(),
            libc::RLIMIT_FSIZE,
            &raw const limit,
            std::ptr::null_mut(),
        )
    };
    let error = std::io::Error::last_os_error();
    let is_over = error.raw_os_error() == Some(libc::ESRCH);
    assert!(done == 0 || is_over, "{error}");
}

#[test]
fn ranks_that_come_back_change_between_shared_memory_and_tcp() {
    let folder = Folder::new("switch");
    let (events, end) = (folder.name("events"), folder.name("end"));
    let options = ["--checkpoint-interval", "0.1", "--events", &events];
    let run = Run::raw(["--stats", "-n", "4"].iter().chain(&options));
    let child = run.arg(program("rounds")).arg(&end).start();
    let count = |kind: &str| {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        let wanted = format!("\"event\":\"{kind}\"");
        let lines = text.lines().map(|line| line.replace(": ", ":"));
        lines.filter(|line| line.contains(&wanted)).count()
    };
    let job = Job::of(child.id(), "rounds");
    // Each with both of its neighbours, or none. The kind of a link is decided when it is made, so
    // all must exist before anything changes.
    let have_rings = |wanted: bool| {
        let ranks = job.ranks();
        let right = |count: usize| if wanted { count >= 2 } else { count == 0 };
        ranks.len() == 4 && ranks.iter().all(|pid| right(rings(*pid)))
    };
    wait_for(SOON, "rings", || have_rings(true));
    let changes = [
        (RING_LESS, false),
        (libc::RLIM_INFINITY, true),
        (RING_LESS, false),
    ];
    for (round, (limit, rings)) in changes.into_iter().enumerate() {
        let mut ranks = job.ranks();
        for pid in ranks.iter().copied().chain(job.images()) {
            limit_files(pid, limit);
        }
        // Images that are made from here on have the limit of their ranks.
        let known = count("committed");
        wait_for(SOON, "two checkpoints", || count("committed") > known + 1);
        kill(ranks.swap_remove(round), libc::SIGKILL);
        wait_for(SOON, "a recovery", || count("recovered") > round);
        wait_for(SOON, "new links", || have_rings(rings));
    }
    // Counters roll back with the ranks, so the last links must be in an image or at the end.
    let known = count("committed");
    wait_for(SOON, "two checkpoints", || count("committed") > known + 1);
    std::fs::write(&end, "").expect("the end");
    let done = finish(child, SOON, "rounds");
    assert!(done.output.status.success(), "{}", done.text());
    let right = done.stdout().matches("every byte was right").count();
    assert_eq!(right, 4, "{}", done.text());
    let says = "TCP instead of shared memory with the ranks of its host: ";
    assert_eq!(done.stderr().matches(says).count(), 1, "{}", done.text());
    let (rings, links) = (done.counted("rings_made"), done.counted("links_made"));
    assert!(rings >= 16 && links - rings >= 8, "{}", done.text());
}

#[test]
fn ranks_that_outnumber_the_cores_by_far_end_well() {
    let run = |transport| {
        let options = ["--stats", "--transport", transport, "-n", "32"];
        Run::raw(options)
            .arg(program("sort"))
            .arg("500")
            .arg("4")
            .ok()
    };
    let (shared, tcp) = (run("auto"), run("tcp"));
    let lines = |done: &Finished| by_rank(&done.stdout(), false);
    assert_eq!(lines(&shared), lines(&tcp), "{}", shared.text());
    let made = |done: &Finished| (done.counted("rings_made"), done.counted("links_made"));
    let (rings, links) = made(&shared);
    assert!(rings == links && rings > 32, "{}", shared.text());
    assert_eq!(made(&tcp).0, 0, "{}", tcp.text());
}

/// Names in the folder of shared memory, but those of other programs that may run meanwhile.
fn named() -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm").expect("the folder");
    let names = entries.map(|e| e.expect("an entry").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| name.contains("rejoin")).collect();
    names.sort();
    names
}

#[test]
fn memory_of_rings_has_no_name_that_could_be_left_behind() {
    let before = named();
    // Its end is not waited for.
    let run = Run::new(4, program("jacobi")).arg("512").arg("2000000000");
    let mut child = run.start();
    let job = Job::of(child.id(), "jacobi");
    wait_for(SOON, "rings between all neighbours", || {
        let ranks = job.ranks();
        ranks.len() == 4 && ranks.iter().map(|pid| rings(*pid)).sum::<usize>() >= 6
    });
    wait_for(SOON, "images", || job.images().len() >= 4);
    let all = descendants(child.id());
    for pid in &all {
        assert!(!maps(*pid).contains("/dev/shm"), "{}", maps(*pid));
    }
    // No image has rings, or what is written to them would be kept from the system for longer.
    for image in job.images() {
        assert_eq!(rings(image), 0, "{}", maps(image));
    }
    assert_eq!(named(), before, "while it runs");
    for pid in all.iter().copied().chain([child.id()]) {
        kill(pid, libc::SIGKILL);
    }
    child.wait().expect("its end");
    all_gone(&all, SOON);
    assert_eq!(named(), before, "after its end");
}

/// The rank that dies in the middle of a copy. The receiver reads (`Reader`) from the sender's
/// memory (`Owner`). The sender writes (`Writer`) into the receiver's memory (`Target`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Reader,
    Owner,
    Writer,
    Target,
}

/// The value with which `giants` fills its buffer before it receives.
const NOTHING: u64 = 0xeeee_eeee_eeee_eeee;

/// Waits until a part of a process's buffer is written to; whether its end is not yet.
fn half_done(pid: u32, part: u64, len: u64) -> bool {
    let begun = Instant::now();
    while word_of(pid, part) == Some(NOTHING) {
        assert!(begun.elapsed() < SOON, "nothing is copied");
    }
    word_of(pid, part + len - 8) == Some(NOTHING)
}

/// Sets how much a process leaves to others; whether the system allows it.
fn set_nice(pid: u32, nice: i32) -> bool {
    // SAFETY: the call touches no memory.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, pid, nice) == 0 }
}

/// Lets a job whose ranks were held back run as others do: beside other work it would take minutes
/// to its end.
fn run_as_others(mpirun: u32) {
    wait_for(SOON, "all to run as others do", || {
        // SAFETY: the call touches no memory.
        let nice = |pid: &u32| unsafe { libc::getpriority(libc::PRIO_PROCESS, *pid) };
        let mut held = descendants(mpirun);
        held.retain(|pid| nice(pid) > 0);
        // A user that may not lower the nice value, like most users, waits for the slow end.
        held.iter().filter(|pid| set_nice(**pid, 0)).count() == 0
    });
}

/// Kills one of the two ranks of `giants` in the middle of a copy from one to the other.
fn kill_in_a_copy(mpirun: u32, victim: Victim) {
    let job = Job::of(mpirun, "giants");
    wait_for(SOON, "images", || job.images().len() >= 2);
    let ranks = job.ranks();
    let [reader, owner] = ranks[..] else {
        panic!("two ranks, not {ranks:?}");
    };
    let leave_to_others = |nice| [reader, owner].iter().all(|rank| set_nice(*rank, nice));
    let begun = Instant::now();
    let mut tracee = Tracee::seize(reader);
    let untouched = |at| word_of(reader, at) == Some(NOTHING);
    let dies = match victim {
        Victim::Reader | Victim::Target => reader,
        Victim::Owner | Victim::Writer => owner,
    };
    loop {
        let called = tracee.next_call(libc::SYS_process_vm_readv);
        assert_eq!(called, Stop::Entry, "no more copies for {victim:?}");
        assert!(begun.elapsed() < 4 * SOON, "none in its middle");
        // The first of the pieces that it reads into; the other is for the secret.
        let pieces = tracee.arguments()[1];
        let [start, len] = [0, 8].map(|at| tracee.word(pieces + at).expect("a piece"));
        if len < 1 << 16 || !untouched(start) || !untouched(start + len - 8) {
            continue;
        }
        // The ranks must not continue while this process waits for a core in the middle of one of
        // their copies. Between two copies they must reach the next one.
        assert!(leave_to_others(19), "{}", std::io::Error::last_os_error());
        let in_the_middle = if matches!(victim, Victim::Writer | Victim::Target) {
            // While it is stopped here, the other rank writes the parts before this one, the
            // nearest first.
            (1..=8).any(|part| {
                let part = start - part * len;
                untouched(part + len - 8) && half_done(reader, part, len)
            })
        } else {
            tracee.go_on();
            half_done(reader, start, len)
        };
        if in_the_middle {
            kill(dies, libc::SIGKILL);
            if victim != Victim::Writer {
                let end = tracee.wait();
                assert!(dies == owner || end == Stop::Dead, "{end:?}");
            }
            return;
        }
        // It has run to its end meanwhile: there will be another.
        if matches!(victim, Victim::Reader | Victim::Owner) {
            tracee.wait();
        }
        // Without that permission, the following steps are slow.
        leave_to_others(0);
    }
}

/// Kills a rank where it wakes a peer that sleeps: before it sends the byte that does, or behind
/// it.
fn kill_in_a_wake_up(rank: u32, behind: bool) {
    let mut tracee = Tracee::seize(rank);
    loop {
        let called = tracee.next_call(libc::SYS_sendto);
        assert_eq!(called, Stop::Entry, "it wakes nobody");
        if tracee.arguments()[2] == 1 {
            break;
        }
    }
    if behind {
        tracee.go_on();
        assert_eq!(tracee.wait(), Stop::Exit);
    }
    kill(rank, libc::SIGKILL);
    assert_eq!(tracee.wait(), Stop::Dead);
}

/// Long bodies go through blocks of the link if they are not read from the sender's memory. A
/// sleeping peer is notified at the first part.
#[test]
fn whoever_dies_in_a_wake_up_comes_back() {
    for single_copy in [None, Some("off")] {
        let folder = Folder::new("wakes");
        let end = folder.name("end");
        let options = ["--checkpoint-interval", "0.1", "--transport", "shm"];
        let mut run = Run::raw(["-n", "4"].iter().chain(&options));
        if let Some(off) = single_copy {
            run = run.env("REJOIN_SINGLE_COPY", off);
        }
        let child = run.arg(program("rounds")).arg(&end).start();
        let job = Job::of(child.id(), "rounds");
        wait_for(SOON, "a checkpoint", || job.has_checkpoint(4));
        let mut seen = Vec::new();
        for number in 0..4 {
            let mut ranks = Vec::new();
            wait_for(SOON, "all ranks", || {
                ranks = job.ranks();
                ranks.retain(|pid| !seen.contains(pid));
                ranks.len() == 4
            });
            kill_in_a_wake_up(ranks[number], number % 2 == 1);
            seen.extend(ranks);
        }
        wait_for(SOON, "the last to come back", || {
            let ranks = job.ranks();
            ranks.len() == 4 && !ranks.iter().any(|pid| seen.contains(pid))
        });
        std::fs::write(&end, "").expect("the end");
        let done = finish(child, SOON, "rounds");
        assert!(done.output.status.success(), "{}", done.text());
        let right = done.stdout().matches("every byte was right").count();
        assert_eq!(right, 4, "{}", done.text());
        assert_eq!(times_back(&done.stderr()), 4, "{}", done.text());
    }
}

#[test]
fn whoever_dies_in_the_middle_of_a_copy_comes_back() {
    let folder = Folder::new("copies");
    let run = |form: &str, options: &[&str]| {
        let mut all = vec!["--tag-output", "--stats", "-n", "2"];
        all.extend(options);
        let run = Run::raw(all).arg(program("giants"));
        run.arg("48").arg("4").arg(form)
    };
    for (form, victims) in [
        ("both", [Victim::Reader, Victim::Owner]),
        ("turns", [Victim::Writer, Victim::Target]),
    ] {
        let undisturbed = run(form, &["--recovery", "none"]).ok();
        for victim in victims {
            // There are more copies than it takes to find one in its middle.
            let end = folder.name(&format!("{victim:?}"));
            let child = run(form, &["--checkpoint-interval", "0.2"]).arg(&end);
            let child = child.start();
            kill_in_a_copy(child.id(), victim);
            run_as_others(child.id());
            std::fs::write(&end, "").expect("the end");
            let done = finish(child, LIMIT, "giants");
            assert!(done.output.status.success(), "{victim:?}: {}", done.text());
            // It has looked at every word itself; the first rounds are those of the other run.
            let (have, want) = (lines(&done), lines(&undisturbed));
            let lacks = want.iter().find(|line| !have.contains(line));
            assert_eq!(lacks, None, "{victim:?}: {}", done.text());
            assert!(done.stderr().contains("is back after"), "{}", done.text());
        }
    }
}
