//! The launcher with MPI programs: ends of every kind, wrappers, debuggers, other programs' ABI.

use rejoin_tests::limits::SOON;
use rejoin_tests::processes::{all_gone, kill};
use rejoin_tests::spinner::Spinner;
use rejoin_tests::{Run, finish, prefix, program};
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::Duration;

/// Starts `ends WAY RANK` on four ranks and reads the ranks' pids.
fn started(way: &str, rank: u32) -> (Child, Vec<u32>) {
    let mut child = Run::new(4, program("ends"))
        .arg(way)
        .arg(rank.to_string())
        .env("REJOIN_RECOVERY", "none")
        .start();
    let out = child.stdout.take().expect("stdout");
    let mut pids = vec![0; 4];
    let mut lines = BufReader::new(out).lines();
    for _ in 0..4 {
        let line = lines.next().expect("a line per rank").expect("text");
        let words: Vec<_> = line.split_whitespace().collect();
        pids[words[1].parse::<usize>().expect("rank")] = words[3].parse().expect("pid");
    }
    (child, pids)
}

#[test]
fn the_first_failing_rank_gives_the_exit_code_and_the_last_line() {
    for (way, code, words) in [
        ("exit", 5, vec!["rank 2", "exit code 5"]),
        ("abort", 5, vec!["rank 2", "MPI_Abort", "5"]),
        ("read-abort", 5, vec!["rank 2", "MPI_Abort", "5"]),
        ("segv", 128 + libc::SIGSEGV, vec!["rank 2", "signal 11"]),
        ("kill", 128 + libc::SIGKILL, vec!["rank 2", "signal 9"]),
        ("quit", 1, vec!["rank 2", "MPI_Finalize"]),
    ] {
        let done = Run::new(4, program("ends"))
            .arg(way)
            .arg("2")
            .arg("5")
            .env("REJOIN_RECOVERY", "none")
            .limit(SOON)
            .output();
        assert_eq!(
            done.output.status.code(),
            Some(code),
            "{way}: {}",
            done.text()
        );
        for word in words {
            assert!(
                done.last_line().contains(word),
                "{way}: {:?} lacks {word:?}",
                done.last_line()
            );
        }
    }
}

#[test]
fn an_abort_is_no_success_whatever_its_code() {
    for (code, status) in [("0", 1), ("256", 1), ("-1", 255)] {
        let run = Run::new(4, program("ends")).arg("abort").arg("2").arg(code);
        let done = run.limit(SOON).output();
        assert_eq!(done.output.status.code(), Some(status), "{}", done.text());
        let line = format!("aborted the job with code {code} (by MPI_Abort");
        assert!(done.last_line().contains(&line), "{}", done.text());
    }
}

#[test]
fn a_killed_rank_ends_the_job_within_seconds() {
    for victim in 0..4 {
        let (child, pids) = started("hang", 9);
        // Seconds of processor time of a thread that always computes: longer by the clock on a busy
        // machine.
        let spinner = Spinner::start();
        kill(pids[victim], libc::SIGKILL);
        let done = finish(child, SOON, "ends hang");
        let took = spinner.stop();
        assert!(took < Duration::from_secs(3), "the end took {took:?}");
        assert_eq!(
            done.output.status.code(),
            Some(128 + libc::SIGKILL),
            "{}",
            done.text()
        );
        assert!(
            done.last_line().contains(&format!("rank {victim}")),
            "{}",
            done.text()
        );
        all_gone(&pids, SOON);
    }
}

#[test]
fn a_killed_mpirun_leaves_no_rank_behind() {
    let (child, pids) = started("hang", 9);
    kill(child.id(), libc::SIGKILL);
    all_gone(&pids, SOON);
    finish(child, SOON, "ends hang");
}

#[test]
fn an_interrupt_ends_everything() {
    let (child, pids) = started("hang", 9);
    kill(child.id(), libc::SIGINT);
    let done = finish(child, SOON, "ends hang");
    assert_eq!(
        done.output.status.code(),
        Some(128 + libc::SIGINT),
        "{}",
        done.text()
    );
    all_gone(&pids, SOON);
}

#[test]
fn many_more_ranks_than_cores_work() {
    let done = Run::new(128, program("ends")).arg("finish").arg("0").ok();
    assert_eq!(done.stdout().lines().count(), 128);
}

#[test]
fn several_programs_make_one_world() {
    let hello = program("world");
    let hello = hello.to_str().expect("path");
    let done = Run::raw(["-n", "1", hello, "a", ":", "-n", "2", hello, "b"]).ok();
    let mut lines: Vec<_> = done.stdout().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "0 of 3 appnum 0 a",
            "1 of 3 appnum 1 b",
            "2 of 3 appnum 1 b"
        ],
        "{}",
        done.text()
    );
}

#[test]
fn ranks_that_go_by_different_settings_do_not_start() {
    let world = program("world");
    let world = world.to_str().expect("path");
    for (set, names) in [
        ("REJOIN_WINDOW=65536", "REJOIN_WINDOW"),
        ("REJOIN_EAGER_MAX=5000", "REJOIN_EAGER_MAX"),
        ("REJOIN_EAGER_COPY=500", "REJOIN_EAGER_COPY"),
        ("REJOIN_REDUCE_ORDER=hosts", "REJOIN_REDUCE_ORDER is "),
    ] {
        let odd = Run::raw(["-n", "2", world, ":", "-n", "1", "-x", set, world]).output();
        assert_eq!(odd.output.status.code(), Some(1), "{set}: {}", odd.text());
        let line = odd.last_line();
        assert!(line.contains(names) && line.contains("on rank 2"), "{line}");
        assert_eq!(odd.stdout(), "", "{set}");
        Run::raw(["-n", "3", "-x", set, world]).ok();
    }
}

#[test]
fn an_option_counts_more_than_the_environment() {
    let short = |options: &[&str]| {
        let run = Run::raw(["--stats", "-n", "2"]);
        let run = options.iter().fold(run, |run, option| run.arg(option));
        let run = run.env("REJOIN_TRANSPORT", "tcp");
        run.arg(program("jacobi"))
            .arg("16")
            .arg("2")
            .ok()
            .counted("short_out")
    };
    assert_eq!(short(&[]), 0);
    assert!(short(&["--transport", "shm"]) > 0);
    assert_eq!(short(&["--transport", "shm", "-x", "REJOIN_TRANSPORT"]), 0);
}

#[test]
fn stats_show_what_each_rank_did() {
    let world = program("world");
    let done = Run::raw(["--stats", "-n", "3"]).arg(&world).ok();
    let stderr = done.stderr();
    let lines: Vec<_> = stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{stderr}");
    for (rank, line) in lines.iter().enumerate() {
        let start = format!("mpirun: stats: rank {rank}: sends=");
        assert!(line.starts_with(&start), "{line}");
    }
    assert_eq!(done.counted("links_lost"), 0);
    assert_eq!(done.counted("sends"), done.counted("receives"));
    assert_eq!(Run::new(3, &world).ok().stderr(), "");
}

#[test]
fn wrappers_and_debuggers_stand_before_the_program() {
    let world = program("world");
    let world = world.to_str().expect("path");
    let shell = Run::raw(["-n", "2", "sh", "-c", &format!("{world} w; echo after")]).ok();
    assert_eq!(
        shell.stdout().lines().filter(|l| *l == "after").count(),
        2,
        "{}",
        shell.text()
    );
    assert!(shell.stdout().contains("1 of 2"), "{}", shell.text());
    let gdb = [
        "-n", "2", "gdb", "-q", "-batch", "-ex", "run", "--args", world, "g",
    ];
    let gdb = Run::raw(gdb).ok();
    assert!(gdb.stdout().contains("1 of 2 appnum 0 g"), "{}", gdb.text());
    let valgrind = Run::raw([
        "-n",
        "2",
        "valgrind",
        "-q",
        "--error-exitcode=9",
        world,
        "v",
    ])
    .ok();
    assert!(
        valgrind.stdout().contains("0 of 2 appnum 0 v"),
        "{}",
        valgrind.text()
    );
}

#[test]
fn a_program_alone_is_a_world_of_one() {
    let out = std::process::Command::new(program("world"))
        .arg("alone")
        .output()
        .expect("running it");
    assert!(out.status.success(), "{out:?}");
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "0 of 1 appnum none alone\n"
    );
}

#[test]
fn variables_that_are_empty_are_as_good_as_not_there() {
    let variables = [
        "REJOIN_CHECKPOINT_INTERVAL",
        "REJOIN_LAUNCH_AGENT",
        "REJOIN_RECOVERY",
        "REJOIN_TRANSPORT",
        "REJOIN_SPIN_US",
        "REJOIN_TCP_PORTS",
    ];
    let run = Run::new(2, program("jacobi")).arg("16").arg("2");
    let run = variables.iter().fold(run, |run, name| run.env(name, ""));
    let done = run.ok();
    assert_eq!(done.stderr(), "", "{}", done.text());
}

#[test]
fn a_job_whose_ends_could_not_be_noticed_is_refused() {
    let mpirun = |options: &[&str]| {
        let mut command = std::process::Command::new(program("without"));
        command.arg("pidfd_open").arg(prefix().join("bin/mpirun"));
        command.args(options).args(["-n", "1", "true"]);
        command.output().expect("mpirun")
    };
    let refused = mpirun(&[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("pidfd_open: ") && said.contains("--recovery none"));
    assert!(mpirun(&["--recovery", "none"]).status.success());
}
