//! The operator's program, and mpirun before a person.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

#[test]
fn the_doctor_reports_in_text_and_json() {
    let rejoin = env!("CARGO_BIN_EXE_rejoin");
    let output = Command::new(rejoin)
        .args(["doctor", "--json"])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"].as_bool(), Some(output.status.success()));
    let findings = report["findings"].as_array().unwrap();
    for what in [
        "kernel",
        "pidfd",
        "loopback IPv4",
        "open files",
        "topology",
        "cores",
        "--bind-to",
        "namespaces",
        "seccomp",
        "single copy",
        "compilers",
    ] {
        let finding = findings.iter().find(|f| f["what"] == what);
        let finding = finding.unwrap_or_else(|| panic!("{what} was not looked at"));
        // A finding that is not good names its consequences.
        assert_eq!(
            finding["grade"] == "good",
            finding["cost"] == "",
            "{finding}"
        );
    }
    let output = Command::new(rejoin).arg("doctor").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text.lines().last().unwrap().contains("works on"),
        output.status.success()
    );
}

#[test]
fn versions_and_help_are_printed_on_standard_output() {
    for (program, argument) in [
        (env!("CARGO_BIN_EXE_rejoin"), "version"),
        (env!("CARGO_BIN_EXE_mpirun"), "--version"),
        (env!("CARGO_BIN_EXE_mpirun"), "--help"),
    ] {
        let output = Command::new(program).arg(argument).output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains(env!("CARGO_PKG_VERSION")) || text.contains("--tag-output"),
            "{text}"
        );
    }
}

#[test]
fn an_answer_that_can_not_be_written_is_a_failure() {
    let (rejoin, mpirun) = (env!("CARGO_BIN_EXE_rejoin"), env!("CARGO_BIN_EXE_mpirun"));
    for (program, line) in [
        (rejoin, &["doctor"][..]),
        (rejoin, &["status", "--json"]),
        (rejoin, &["version"]),
        (rejoin, &["--help"]),
        (mpirun, &["--help"]),
        (mpirun, &["--version"]),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let mut command = Command::new(program);
        let output = command.args(line).stdout(full.unwrap()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line:?}: {said}");
        let why = ": can't write to standard output: No space left on device";
        assert!(said.contains(why), "{line:?}: {said}");
        // A reader that has gone away had what it wanted.
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let gone = Command::new(program).args(line).stdout(write).output();
        let said = String::from_utf8(gone.unwrap().stderr).unwrap();
        assert!(!said.contains("can't write"), "{line:?}: {said}");
    }
}

#[test]
fn a_person_sees_a_prompt_before_answering() {
    let pty = nix::pty::openpty(None, None).unwrap();
    let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
    let script = "printf 'name? '; read name; echo hello $name";
    let mut child = Command::new(env!("CARGO_BIN_EXE_mpirun"))
        .args(["--timeout", "20", "-n", "1", "sh", "-c", script])
        .stdin(end(&pty.slave))
        .stdout(end(&pty.slave))
        .stderr(end(&pty.slave))
        .spawn()
        .unwrap();
    drop(pty.slave);
    let mut terminal = std::fs::File::from(pty.master);
    let mut seen = String::new();
    let mut buffer = [0; 1000];
    let mut answered = false;
    // The terminal's other end closes when the job has ended.
    while let Ok(count @ 1..) = terminal.read(&mut buffer) {
        seen += &String::from_utf8_lossy(&buffer[..count]);
        if seen.contains("name? ") && !answered {
            answered = true;
            terminal.write_all(b"you\n").unwrap();
        }
    }
    assert!(child.wait().unwrap().success(), "{seen}");
    assert!(answered && seen.contains("hello you"), "{seen}");
}
