//! A job that can't be run is refused at once, in one plain line.

mod common;

use common::{Scratch, mpirun, mpirun_in, run};

#[test]
fn programs_that_are_not_there_are_named() {
    let done = run(&["-n", "2", "no-such-program-anywhere"]);
    assert_eq!(done.code, Some(1));
    assert!(
        done.last_line()
            .contains("no program no-such-program-anywhere in PATH")
    );
    let done = run(&["-n", "2", "/etc/passwd"]);
    assert_eq!(done.code, Some(1));
    assert!(
        done.last_line().contains("Permission denied"),
        "{}",
        done.err
    );
    let done = run(&["--wdir", "/no/such/dir", "true"]);
    assert!(
        done.last_line().contains("/no/such/dir is not there"),
        "{}",
        done.err
    );
    let done = run(&["--wdir", "/etc/passwd", "true"]);
    assert!(
        done.last_line().contains("/etc/passwd is not a directory;"),
        "{}",
        done.err
    );
}

#[test]
fn a_script_whose_interpreter_is_not_there_says_so() {
    let scratch = Scratch::new("interpreter");
    let path = scratch.path("job");
    for (line, text) in [
        (
            "#!/no/such/sh -e\n",
            "its interpreter /no/such/sh is not there;",
        ),
        (
            "#! /bin/sh\r\n",
            "/bin/sh (with a carriage return at its end) is not there;",
        ),
    ] {
        std::fs::write(&path, line).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        let done = run(&["-n", "2", &path]);
        assert_eq!(done.code, Some(1));
        assert!(done.last_line().contains(text), "{}", done.err);
    }
}

#[test]
fn more_ranks_than_the_system_can_hold_are_refused_at_once() {
    let done = run(&["-n", "1000000", "true"]);
    assert_eq!(done.code, Some(1));
    let line = done.last_line();
    assert!(
        line.starts_with("mpirun: 1000000 ranks need ") && line.contains("the limit here is "),
        "{line}"
    );
    assert_eq!(done.err.lines().count(), 1, "{}", done.err);
}

/// mpirun in a shell that first runs `limits`.
fn limited(limits: &str, arguments: &str) -> common::Done {
    let mut command = mpirun(&[]);
    let program = command.get_program().to_str().unwrap().to_string();
    command = mpirun_in(
        "sh",
        &["-c", &format!("{limits}; exec {program} {arguments}")],
    );
    common::finish(command.spawn().unwrap())
}

#[test]
fn a_low_limit_of_open_files_is_enough_or_named() {
    let show = "-n 2 sh -c 'echo $(ulimit -n) fd $REJOIN_MANAGER_FD; test -e /proc/$$/fd/$REJOIN_MANAGER_FD'";
    for (limit, number) in [(100, 99), (101, 100), (64, 63)] {
        let done = limited(&format!("ulimit -n {limit}"), show);
        assert_eq!(done.code, Some(0), "{limit}: {}", done.err);
        let expected = format!("{limit} fd {number}\n");
        assert_eq!(
            done.out.matches(&expected).count(),
            2,
            "{limit}: {}",
            done.out
        );
    }
    let done = limited("ulimit -n 40", show);
    assert_eq!(done.code, Some(1));
    let text = "the limit of open files is 40 (ulimit -Hn), and every process of a job needs 64";
    assert!(done.last_line().contains(text), "{}", done.err);
    // Only the soft limit is low.
    let done = limited(
        "ulimit -Sn 40",
        "-n 2 sh -c 'test -e /proc/$$/fd/$REJOIN_MANAGER_FD'",
    );
    assert_eq!(done.code, Some(0), "{}", done.err);
}

#[test]
fn options_that_mean_nothing_here_are_refused() {
    let refused = [
        (&["--transport", "verbs", "true"][..], "not there yet"),
        (&["--transport", "pigeon", "true"], "auto, tcp, shm"),
        (&["--interface", "pigeon0", "true"], "lo (127.0.0.1"),
        (&["--interface", "10.0.0.0/99", "true"], "address/prefix"),
        (&["--timeout", "inf", "true"], "a time above 0"),
        (&["-n2.5", "true"], "whole number"),
        (&["true", ":", ":", "true"], "empty"),
        (&[""], "empty"),
        (
            &[
                "--recovery",
                "receiver-log",
                "--images",
                "x",
                "--job-name",
                "j",
                "true",
            ],
            "a job that can be restarted is not there yet",
        ),
        (
            &["--log-group", "rank", "true"],
            "--log-group: REJOIN_RECOVERY=none has no log",
        ),
        (
            &["--recovery", "sender-log", "--log-limit", "3", "true"],
            "at least 1 MB",
        ),
        (&["--recovery", "pigeon", "true"], "no such mode"),
        (&["--output", "commit", "true"], "takes no checkpoints"),
        (&["--host", "a:0", "true"], "'0' is no number of slots"),
        (&["--host", "a,", "true"], "the name of a host is empty"),
        (
            &["--hostfile", "/nowhere/list", "true"],
            "can't read /nowhere/list",
        ),
        (&["--host-lease", "0.2", "true"], "a time from 1 s to 1 h"),
        (
            &["--prefix", "here", "--host", "a", "true"],
            "an absolute path",
        ),
        (&["-n", "0", "true"], "0"),
        (&["--timeout", "-1", "true"], "--timeout"),
        (&["--stdin", "2", "-n", "2", "true"], "2 ranks only"),
        (&["-n", "2"], "no program"),
        (&["true", ":", "--tag-output", "true"], "--tag-output"),
        (&["--no-such-option", "true"], "--no-such-option"),
        (
            &["--port-range", "9-1", "true"],
            "the first port, 9, is above",
        ),
        (
            &["--port-range", "5000-5001", "-n", "3", "true"],
            "3 ranks need a port each, and these are 2",
        ),
        (&["--port-range", "x", "true"], "ports from 1 to 65535"),
    ];
    for (arguments, text) in refused {
        let done = run(arguments);
        assert_eq!(done.code, Some(2), "{arguments:?}: {}", done.err);
        assert!(done.err.contains(text), "{arguments:?}: {}", done.err);
    }
}

#[test]
fn variables_that_are_spelled_wrong_are_reported() {
    let wrong = ["REJOIN", "_TRANPORT"].concat();
    let line = format!(
        "mpirun: the variable {wrong} has no effect: nothing reads it; did you mean REJOIN_TRANSPORT?"
    );
    let set = format!("{wrong}=shm");
    let mut inherited = mpirun(&["-n", "2", "true"]);
    inherited.env(&wrong, "shm");
    let given = mpirun(&["-n", "2", "-x", &set, "true"]);
    for mut command in [inherited, given] {
        let done = common::finish(command.spawn().unwrap());
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(done.err.trim_end(), line);
    }
    let done = run(&["-n", "2", "-x", "REJOIN_WINDOW=65536", "true"]);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
}

/// The message of mpirun, in one line, when a variable has this value.
fn refusal(variable: &str, value: &str, line: &[&str]) -> String {
    let done = common::finish(mpirun(line).env(variable, value).spawn().unwrap());
    assert_eq!(done.code, Some(2), "{variable}={value}: {}", done.err);
    assert_eq!(done.err.lines().count(), 1, "{}", done.err);
    done.err
}

#[test]
fn a_bad_value_is_reported_with_its_variable() {
    let cases = [
        (
            "REJOIN_TRANSPORT",
            "pigeons",
            "'pigeons' for REJOIN_TRANSPORT [possible values: auto, tcp, shm]",
        ),
        (
            "REJOIN_TRANSPORT",
            "verbs",
            "REJOIN_TRANSPORT=verbs is not there yet",
        ),
        (
            "REJOIN_RECOVERY",
            "magic",
            "REJOIN_RECOVERY=magic: there is no such mode",
        ),
        (
            "REJOIN_CHECKPOINT_INTERVAL",
            "often",
            "'often' for REJOIN_CHECKPOINT_INTERVAL: a time from",
        ),
        (
            "REJOIN_TCP_INTERFACE",
            "nowhere0",
            "REJOIN_TCP_INTERFACE=nowhere0: no interface that is up has such a name",
        ),
        (
            "REJOIN_SPIN_US",
            "long",
            "'long' for REJOIN_SPIN_US: a whole number from 0",
        ),
        (
            "REJOIN_LAUNCH_AGENT",
            " ",
            "REJOIN_LAUNCH_AGENT= : there is no command",
        ),
    ];
    for (variable, value, expected) in cases {
        let said = refusal(variable, value, &["-n", "1", "true"]);
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("'--"), "{said}");
    }
    let said = refusal("REJOIN_RECOVERY", "none", &["--output", "commit", "true"]);
    assert!(
        said.contains("REJOIN_RECOVERY=none takes no checkpoints"),
        "{said}"
    );
}

#[test]
fn what_the_line_says_counts_and_is_to_blame() {
    for bird in ["ravens", "pigeons"] {
        let line = ["--transport", bird, "true"];
        let said = refusal("REJOIN_TRANSPORT", "pigeons", &line);
        let expected = format!("'{bird}' for '--transport <TRANSPORT>'");
        assert!(said.contains(&expected), "{said}");
    }
    let said = refusal("REJOIN_RECOVERY", "none", &["--recovery", "magic", "true"]);
    assert!(
        said.contains("--recovery magic: there is no such mode"),
        "{said}"
    );
}

#[test]
fn ports_that_are_too_few_are_reported() {
    let told = |value: &str, line: &[&str]| {
        let done = common::finish(mpirun(line).env("REJOIN_TCP_PORTS", value).spawn().unwrap());
        (done.code, done.err)
    };
    let few = "REJOIN_TCP_PORTS=80: 2 ranks need a port each, and this is 1";
    let (code, said) = told("80", &["-n", "2", "true"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains(few), "{said}");
    // A program's own counts more than the option, and the option more than the environment.
    let own = [
        "-n",
        "2",
        "-x",
        "REJOIN_TCP_PORTS=80",
        "--port-range",
        "5000-5099",
        "true",
    ];
    let (code, said) = told("5000-5099", &own);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains(few), "{said}");
    let line = ["-n", "2", "--port-range", "5000-5099", "true"];
    assert_eq!(told("80", &line), (Some(0), String::new()));
    let (code, said) = told("5000..5099", &["true"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("'5000..5099' for REJOIN_TCP_PORTS: a range FIRST-LAST of ports"),
        "{said}"
    );
    // Enough to start, not to come back.
    let line =
        "REJOIN_TCP_PORTS=5000-5001: to come back when one is lost ranks need two ports each";
    let (code, said) = told(
        "5000-5001",
        &["--recovery", "coordinated", "-n", "2", "true"],
    );
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(line), "{said}");
    assert_eq!(
        told("5000-5001", &["-n", "2", "true"]),
        (Some(0), String::new())
    );
}
