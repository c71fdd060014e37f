//! Plain programs under `mpirun`: streams, exit codes, options.

mod common;

use common::{Scratch, mpirun, mpirun_in, run, run_with_input};
use rejoin_managers_host::topology::{HostTopology, MachinePart};
use rejoin_tests::folder::Folder;
use std::time::Duration;

#[test]
fn every_rank_runs_and_knows_its_number() {
    let script = "echo $REJOIN_RANK $REJOIN_SIZE $REJOIN_LOCAL_RANK $REJOIN_LOCAL_SIZE";
    let done = run(&["-n", "3", "sh", "-c", script]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let mut lines: Vec<_> = done.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 3 0 3", "1 3 1 3", "2 3 2 3"]);
    assert_eq!(done.err, "");
}

#[test]
fn options_count_more_than_variables_and_those_of_a_program_most() {
    let cases = [
        ("REJOIN_TRANSPORT", ["tcp", "shm"], "--transport"),
        ("REJOIN_TCP_INTERFACE", ["0.0.0.0/0", "lo"], "--interface"),
        (
            "REJOIN_TCP_PORTS",
            ["5000-5099", "6000-6099"],
            "--port-range",
        ),
        ("REJOIN_SPIN_US", ["3", "4"], "--spin"),
        ("REJOIN_EAGER_MAX", ["1000", "2000"], "--eager-max"),
    ];
    for (variable, [value, other], option) in cases {
        let script = format!("echo ${{{variable}-unset}}");
        let program = ["sh", "-c", &script];
        let shown = |options: &[&str]| {
            let line = [options, &program].concat();
            let done = common::finish(mpirun(&line).env(variable, value).spawn().unwrap());
            assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{line:?}");
            done.out.trim_end().to_owned()
        };
        assert_eq!(shown(&[]), value);
        assert_eq!(shown(&[option, other]), "unset");
        let set = format!("{variable}={value}");
        assert_eq!(shown(&[option, other, "-x", &set]), value);
        assert_eq!(shown(&[option, other, "-x", variable]), value);
    }
}

#[test]
fn lines_stay_whole_when_many_write_at_once() {
    // Each line leaves its process in two writes.
    let script = "i=0; while [ $i -lt 400 ]; do printf \"$REJOIN_RANK-$i-aaaaaaaaaa\"; \
                  printf \"bbbbbbbbbb-$REJOIN_RANK\\n\"; i=$((i+1)); done";
    let done = run(&["-n", "6", "sh", "-c", script]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let mut next = [0; 6];
    for line in done.out.lines() {
        let parts: Vec<_> = line.split('-').collect();
        assert_eq!(parts.len(), 4, "a torn line: {line:?}");
        let rank: usize = parts[0].parse().unwrap();
        assert_eq!((parts[2], parts[3]), ("aaaaaaaaaabbbbbbbbbb", parts[0]));
        assert_eq!(parts[1], next[rank].to_string(), "order within rank {rank}");
        next[rank] += 1;
    }
    assert_eq!(next, [400; 6]);
}

#[test]
fn bytes_pass_unchanged_with_long_and_unfinished_lines() {
    let scratch = Scratch::new("bytes");
    let mut bytes: Vec<u8> = (0..3_000_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    bytes.extend_from_slice(&[b'x'; 300_000]);
    std::fs::write(scratch.path("in"), &bytes).unwrap();
    let output = mpirun(&["-n", "1", "cat", &scratch.path("in")])
        .output()
        .unwrap();
    assert!(
        output.stdout == bytes,
        "{} bytes became {}",
        bytes.len(),
        output.stdout.len()
    );
    assert!(output.status.success());
}

#[test]
fn output_is_tagged_and_streams_are_kept_apart() {
    let done = run(&[
        "-n",
        "2",
        "--tag-output",
        "sh",
        "-c",
        "echo out; printf 'no end' >&2",
    ]);
    let mut out: Vec<_> = done.out.lines().collect();
    out.sort_unstable();
    assert_eq!(out, ["[0]<stdout> out", "[1]<stdout> out"]);
    let mut err: Vec<_> = done.err.lines().collect();
    err.sort_unstable();
    assert_eq!(err, ["[0]<stderr> no end", "[1]<stderr> no end"]);
}

#[test]
fn standard_input_goes_to_one_rank() {
    let input: Vec<u8> = (0..2_000_000u32).map(|i| i as u8).collect();
    let done = run_with_input(&["-n", "2", "sh", "-c", "wc -c"], &input);
    let mut lines: Vec<_> = done.out.lines().map(str::trim).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0", "2000000"]);
    let script = "echo $REJOIN_RANK $(wc -c)";
    let done = run_with_input(&["--stdin", "1", "-n", "2", "sh", "-c", script], b"12345");
    let mut lines: Vec<_> = done.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 0", "1 5"]);
}

#[test]
fn input_that_nobody_reads_keeps_nobody() {
    let done = run_with_input(
        &["-n", "2", "sh", "-c", "exec <&-; sleep 0.1"],
        &[0; 1_000_000],
    );
    assert_eq!(done.code, Some(0));
    let mut child = mpirun(&["-n", "1", "head", "-c", "3"]);
    child.stdin(std::fs::File::open("/dev/zero").unwrap());
    let done = common::finish(child.spawn().unwrap());
    assert_eq!((done.code, done.out.len()), (Some(0), 3));
}

#[test]
fn the_first_failing_rank_gives_code_and_last_line() {
    let script = "[ $REJOIN_RANK = 1 ] && exit 7; sleep 1000";
    let done = run(&["-n", "4", "sh", "-c", script]);
    assert_eq!(done.code, Some(7));
    assert!(done.last_line().contains("rank 1 on host "), "{}", done.err);
    assert!(
        done.last_line().contains("exited with code 7"),
        "{}",
        done.err
    );

    let done = run(&[
        "-n",
        "2",
        "sh",
        "-c",
        "[ $REJOIN_RANK = 0 ] && kill -SEGV $$; sleep 1000",
    ]);
    assert_eq!(done.code, Some(128 + 11));
    assert!(
        done.last_line()
            .contains("was killed by signal 11 (SIGSEGV)"),
        "{}",
        done.err
    );
}

#[test]
fn of_several_programs_the_first_failure_counts() {
    let late = "sleep 1000; exit 4";
    let line = ["-n", "1", "sh", "-c", late, ":", "-n", "2", "sh", "-c"];
    for code in ["3", "1", "255"] {
        let script = format!("[ $REJOIN_RANK = 2 ] && exit {code}; sleep 1000");
        let done = run(&[&line[..], &[&script]].concat());
        assert_eq!(done.code, code.parse().ok(), "{}", done.err);
        assert!(done.last_line().contains("rank 2 on host "), "{}", done.err);
    }
}

#[test]
fn what_a_failing_job_wrote_comes_before_the_last_line() {
    let script = "echo before; echo why >&2; [ $REJOIN_RANK = 0 ] && exit 3; sleep 1000";
    let done = run(&["-n", "1", "sh", "-c", script]);
    assert_eq!(done.out, "before\n");
    let lines: Vec<_> = done.err.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "why");
}

#[test]
fn output_that_can_not_be_written_is_the_verdict() {
    for script in [
        "echo x",
        "echo x; sleep 0.05; echo y; sleep 1000",
        "while :; do echo x; done",
    ] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut command = mpirun(&["-n", "4", "sh", "-c", script]);
        let done = common::finish(command.stdout(full).spawn().unwrap());
        assert_eq!(done.code, Some(1), "{script}: {}", done.err);
        let text = "the ranks' output can't be written: No space left on device";
        assert!(done.last_line().contains(text), "{script}: {}", done.err);
    }
}

#[test]
fn lines_of_up_to_a_mebibyte_stay_whole() {
    let script =
        "printf \"$REJOIN_RANK:\"; head -c 1000000 /dev/zero | tr '\\0' $REJOIN_RANK; echo";
    let done = run(&["-n", "4", "sh", "-c", script]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let mut ranks = Vec::new();
    for line in done.out.lines() {
        let (rank, rest) = line.split_once(':').unwrap();
        assert_eq!(rest.len(), 1_000_000, "rank {rank}");
        assert!(rest.split(rank).all(str::is_empty), "a torn line of {rank}");
        ranks.push(rank);
    }
    ranks.sort_unstable();
    assert_eq!(ranks, ["0", "1", "2", "3"]);
}

#[test]
fn standard_error_without_room_changes_no_exit_code() {
    for (arguments, code) in [(&["sh", "-c", "exit 3"][..], 3), (&["--no-such-option"], 2)] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let mut command = mpirun(arguments);
        command.stderr(full.unwrap());
        let done = common::finish(command.spawn().unwrap());
        assert_eq!(done.code, Some(code), "{arguments:?}");
    }
}

#[test]
fn verbose_tells_the_course_of_the_job() {
    let fake = common::fake_rank();
    let done = run(&["--verbose", "-n", "2", &fake, "ok"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    for text in [
        "2 ranks on",
        "rank 1: started on ",
        "rank 0: in MPI_Init, pid ",
        ", listens on tcp 127.0.0.1:5001",
        "all ranks are in MPI_Init",
        "all ranks are in MPI_Finalize",
        "rank 1: ended well",
        "the job is over: every rank ended well",
    ] {
        assert_eq!(done.err.matches(text).count(), 1, "{text}: {}", done.err);
    }
}

#[test]
fn logs_have_colours_on_terminals_only() {
    let mut command = mpirun(&["-n", "1", "true"]);
    let done = common::finish(command.env("REJOIN_LOG", "debug").spawn().unwrap());
    assert!(done.err.contains("DEBUG"), "{}", done.err);
    assert!(!done.err.contains('\x1b'), "{}", done.err);
}

#[test]
fn several_programs_have_their_own_options() {
    let done = run(&[
        "-n",
        "1",
        "-x",
        "A=1",
        "sh",
        "-c",
        "echo a$A$REJOIN_RANK",
        ":",
        "-np",
        "2",
        "-wdir",
        "/",
        "-x",
        "A=2",
        "sh",
        "-c",
        "echo b$A$REJOIN_RANK $PWD",
    ]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let mut lines: Vec<_> = done.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a10", "b21 /", "b22 /"]);
}

#[test]
fn programs_come_from_a_file() {
    let scratch = Scratch::new("app");
    let text = "# two programs\n-n 2 echo one\n\n-n 1 sh -c 'echo \"t w o\"'\n";
    std::fs::write(scratch.path("app"), text).unwrap();
    let done = run(&["--app", &scratch.path("app")]);
    let mut lines: Vec<_> = done.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "one", "t w o"], "{}", done.err);
}

#[test]
fn variables_are_passed_on() {
    let mut command = mpirun(&[
        "-x",
        "FROM_HERE",
        "-x",
        "SET=a=b",
        "sh",
        "-c",
        "echo $FROM_HERE $SET",
    ]);
    let output = command.env("FROM_HERE", "x y").output().unwrap();
    assert_eq!(output.stdout, b"x y a=b\n");
    let done = run(&["-x", "SURELY_NOT_SET_ANYWHERE", "true"]);
    assert_eq!(done.code, Some(2));
    assert!(done.last_line().contains("SURELY_NOT_SET_ANYWHERE"));
}

#[test]
fn the_time_limit_ends_the_job() {
    let scratch = Scratch::new("limit");
    let script = format!(
        "echo there; : > {}$REJOIN_RANK; sleep 1000",
        scratch.path("")
    );
    let done = run(&["--timeout", "2", "-n", "2", "sh", "-c", &script]);
    assert_eq!(done.code, Some(124));
    // Output up to then is shown.
    let written = std::fs::read_dir(&scratch.0).unwrap().count();
    let lines: Vec<_> = done.out.lines().collect();
    assert!(lines.len() >= written, "{written}: {lines:?}");
    assert!(lines.iter().all(|line| *line == "there"), "{lines:?}");
    assert!(
        done.last_line().contains("time limit of 2 s"),
        "{}",
        done.err
    );
}

#[test]
fn hundred_and_twenty_eight_ranks_run_here() {
    let done = run(&[
        "-n",
        "128",
        "--bind-to",
        "core",
        "sh",
        "-c",
        "echo $REJOIN_RANK",
    ]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let mut ranks: Vec<u32> = done.out.lines().map(|l| l.parse().unwrap()).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, (0..128).collect::<Vec<_>>());
}

#[test]
fn ranks_are_bound_to_cores_when_asked() {
    let usable = HostTopology::usable();
    for (what, part) in [
        ("core", MachinePart::Core),
        ("socket", MachinePart::Package),
        ("numa", MachinePart::Node),
        ("none", MachinePart::Node),
    ] {
        let options = ["--map-by", if what == "none" { "slot" } else { what }];
        let command = ["--tag-output", "-n", "3", "--bind-to", what];
        let done = run(&[&command[..], &options, &ON_WHICH].concat());
        let parts = match what {
            "none" => vec![usable.cpus()],
            _ => usable.parts(part),
        };
        let mut lines: Vec<&str> = done.out.lines().collect();
        lines.sort_unstable();
        let wanted = |rank: usize| format!("[{rank}]<stdout> {}", parts[rank % parts.len()]);
        assert_eq!(lines, [wanted(0), wanted(1), wanted(2)], "{what}");
        let cores = parts.len();
        let told = "--bind-to core: 3 ranks share ";
        let oversubscribed = what == "core" && cores < 3;
        assert_eq!(done.err.contains(told), oversubscribed, "{}", done.err);
    }
}

/// Prints the list of CPUs that it may run on.
const ON_WHICH: [&str; 3] = [
    "sh",
    "-c",
    "set -- $(grep Cpus_allowed_list /proc/self/status); echo $2",
];

#[test]
fn each_host_binds_by_its_own_picture_and_tells_of_it() {
    let folder = Folder::new("agent");
    let usable = HostTopology::usable();
    // The other host has the last CPU only.
    let last = usable.cpus().iter().last().unwrap();
    let agent = folder.name("agent");
    let script = format!("#!/bin/sh\nshift\nexec taskset -c {last} sh -c \"$*\"\n");
    std::fs::write(&agent, script).unwrap();
    let rights = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&agent, rights).unwrap();
    let hosts = ["--launch-agent", &agent, "--host", "localhost,elsewhere:2"];
    let how = [
        "--tag-output",
        "-n",
        "3",
        "--bind-to",
        "core",
        "--report-bindings",
    ];
    let done = run(&[&hosts[..], &how, &ON_WHICH].concat());
    assert_eq!(done.code, Some(0), "{}", done.err);
    let first = usable.parts(MachinePart::Core)[0].to_string();
    let there = last.to_string();
    for (rank, cpus) in [first, there.clone(), there].iter().enumerate() {
        let line = format!("[{rank}]<stdout> {cpus}");
        assert!(done.out.lines().any(|l| l == line), "{line}: {}", done.out);
        let told = |l: &str| {
            let told = l.strip_prefix(&format!("mpirun: rank {rank} on "));
            let told = told.and_then(|t| t.split_once(": bound to a core: CPU"));
            told.is_some_and(|(_, t)| t.trim_start_matches([' ', 's']).starts_with(cpus))
        };
        assert!(done.err.lines().any(told), "{rank}: {}", done.err);
    }
    let shared = "--bind-to core: 2 ranks share 1 core of elsewhere";
    assert!(done.err.contains(shared), "{}", done.err);
}

#[test]
fn a_reader_that_leaves_ends_the_writers() {
    let mut child = mpirun(&["-n", "2", "yes"]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut some = [0; 1000];
    std::io::Read::read_exact(&mut stdout, &mut some).unwrap();
    drop(stdout);
    let done = common::finish(child);
    assert_eq!(done.code, Some(128 + 13), "{}", done.err);
    assert!(
        done.last_line()
            .contains("nobody reads the ranks' output any more"),
        "{}",
        done.err
    );
}

#[test]
fn a_slow_reader_holds_the_writers_back_without_loss() {
    let script = "i=0; while [ $i -lt 60 ]; do head -c 65535 /dev/zero; echo; i=$((i+1)); done";
    let mut child = mpirun(&["-n", "2", "sh", "-c", script]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let mut all = Vec::new();
    std::io::Read::read_to_end(&mut stdout, &mut all).unwrap();
    assert_eq!(common::finish(child).code, Some(0));
    assert_eq!(all.len(), 2 * 60 * 65536);
    assert_eq!(all.iter().filter(|&&b| b == b'\n').count(), 120);
}

#[test]
fn a_script_without_interpreter_line_runs() {
    let scratch = Scratch::new("script");
    let path = scratch.path("job");
    std::fs::write(&path, "echo script $1 $REJOIN_RANK\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let done = run(&["-n", "1", &path, "arg"]);
    assert_eq!(done.out, "script arg 0\n", "{}", done.err);
}

#[test]
fn ranks_find_usual_signals_limits_and_descriptors() {
    let script =
        "grep -E 'SigBlk|SigIgn' /proc/self/status; ulimit -n; ls /proc/self/fd | tr '\\n' ' '";
    let done = run(&["-n", "1", "sh", "-c", script]);
    let lines: Vec<_> = done.out.lines().collect();
    assert_eq!(lines[0].split_whitespace().last(), Some("0000000000000000"));
    // SIGPIPE is ignored in Rust programs and must not be in theirs.
    let ignored = u64::from_str_radix(lines[1].split_whitespace().last().unwrap(), 16).unwrap();
    assert_eq!(ignored & (1 << (libc::SIGPIPE - 1)), 0, "{ignored:x}");
    assert_eq!(ignored & (1 << (libc::SIGXFSZ - 1)), 0, "{ignored:x}");
    let mut limit = std::process::Command::new("sh");
    let here = limit.args(["-c", "ulimit -n"]).output().unwrap();
    assert_eq!(lines[2].as_bytes(), here.stdout.trim_ascii());
    // Beside the standard streams and the folder that is listed, only the socket to the manager.
    let expected = ["0", "1", "100", "2", "3"];
    assert_eq!(lines[3].split_whitespace().collect::<Vec<_>>(), expected);
}

#[test]
fn ranks_ignore_the_limit_of_file_sizes_where_mpirun_did() {
    let own = "exec \"$0\" -n 1 grep SigIgn /proc/self/status";
    for (script, ignores) in [
        (own.to_string(), false),
        (format!("trap '' XFSZ; {own}"), true),
    ] {
        let mut command = mpirun_in("sh", &["-c", &script]);
        command.arg(env!("CARGO_BIN_EXE_mpirun"));
        let done = common::finish(command.spawn().unwrap());
        let ignored = done.out.split_whitespace().last().unwrap_or("");
        let ignored = u64::from_str_radix(ignored, 16).unwrap();
        let bit = ignored & (1 << (libc::SIGXFSZ - 1));
        assert_eq!(bit != 0, ignores, "{script}: {}", done.out);
    }
}

#[test]
fn an_unfinished_line_is_shown_while_its_rank_goes_on() {
    use std::io::{Read as _, Write as _};
    let script = "printf 'name? '; read name; echo hello $name";
    let mut child = common::mpirun(&["sh", "-c", script])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The rank writes nothing more before it gets an answer.
    let mut question = [0; 6];
    let out = child.stdout.as_mut().unwrap();
    out.read_exact(&mut question).unwrap();
    assert_eq!(&question, b"name? ");
    child.stdin.take().unwrap().write_all(b"you\n").unwrap();
    assert_eq!(common::finish(child).out, "hello you\n");
}

#[test]
fn ranks_do_not_have_descriptors_that_mpirun_has_inherited() {
    let script = "exec 8<$0 9>/dev/null; exec \"$@\"";
    let mpirun = env!("CARGO_BIN_EXE_mpirun");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let list = "for fd in 8 9; do [ -e /proc/self/fd/$fd ] && echo $fd; done; echo end";
    let all = ["-c", script, file, mpirun, "-n", "2", "sh", "-c", list];
    let done = common::finish(common::mpirun_in("sh", &all).spawn().unwrap());
    assert_eq!(
        (done.code, done.out.as_str()),
        (Some(0), "end\nend\n"),
        "{done:?}"
    );
}

#[test]
fn the_environment_may_set_the_time_limit() {
    let mut command = common::mpirun(&["sleep", "100"]);
    let done = common::finish(command.env("MPIEXEC_TIMEOUT", "1").spawn().unwrap());
    assert_eq!(done.code, Some(124), "{done:?}");
    let done = common::finish(command.env("MPIEXEC_TIMEOUT", "x").spawn().unwrap());
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("MPIEXEC_TIMEOUT"), "{done:?}");
}
