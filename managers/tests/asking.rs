//! `rejoin status` and `rejoin checkpoint`, and other clients of a job's socket.

mod common;

use common::{Done, LIMIT, Scratch, finish, mpirun};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::tcgetattr;
use rejoin_tests::processes::{all_gone, descendants, kill, wait_for};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A place for run directories of this test alone.
struct Place(Scratch);

impl Place {
    fn new(name: &str) -> Place {
        Place(Scratch::new(name))
    }

    fn rejoin(&self, arguments: &[&str]) -> Done {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        command
            .args(arguments)
            .env("XDG_RUNTIME_DIR", &self.0.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    /// Starts a job whose ranks wait for the end of standard input, and waits until it listens.
    fn job(&self, arguments: &[&str]) -> (Child, PathBuf) {
        let before = self.sockets();
        let child = mpirun(arguments)
            .env("XDG_RUNTIME_DIR", &self.0.0)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut new = None;
        wait_for(Duration::from_secs(60), "the job's socket", || {
            new = self.sockets().into_iter().find(|s| !before.contains(s));
            new.is_some()
        });
        (child, new.unwrap())
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.0.0.join("rejoin")) else {
            return Vec::new();
        };
        let paths = entries.flatten().map(|entry| entry.path());
        paths
            .filter(|p| p.extension().is_some_and(|e| e == "sock"))
            .collect()
    }

    /// The output of `rejoin status --json` about one job of this place.
    fn status(&self, job: &Child) -> Option<serde_json::Value> {
        let done = self.rejoin(&["status", "--json", &job.id().to_string()]);
        let all: serde_json::Value = serde_json::from_str(&done.out).expect("JSON");
        all.as_array().expect("a list").first().cloned()
    }
}

fn end(mut child: Child) -> Done {
    drop(child.stdin.take());
    finish(child)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_running_job_says_how_it_is() {
    let place = Place::new("status");
    let (job, socket) = place.job(&["-n", "2", "sh", "-c", "[ $REJOIN_RANK != 0 ] || cat"]);
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(socket.parent().unwrap()), 0o700);
    let mut seen = serde_json::Value::Null;
    wait_for(Duration::from_secs(60), "rank 1's end", || {
        seen = place.status(&job).expect("the job");
        seen["ranks"][1]["state"] == "ended"
    });
    assert_eq!(seen["mpirun"], job.id());
    assert_eq!(seen["program"], "sh");
    assert_eq!(seen["recovery"], "none");
    assert_eq!(seen["checkpoint"], serde_json::Value::Null);
    assert_eq!(seen["ranks"][0]["state"], "started");
    let pid = seen["ranks"][0]["pid"].as_u64().unwrap() as u32;
    assert!(descendants(job.id()).contains(&pid), "{seen}");
    assert_eq!(
        seen["job"].as_str().map(|name| format!("{name}.sock")),
        socket
            .file_name()
            .and_then(|n| n.to_str())
            .map(str::to_owned)
    );
    let shown = place.rejoin(&["status"]);
    assert!(shown.out.contains("sh, 2 ranks, starting for"), "{shown:?}");

    // By its name: other jobs of this user may run.
    let name = job.id().to_string();
    let refused = place.rejoin(&["checkpoint", &name]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused
            .err
            .contains("the job runs with --recovery none, which takes no checkpoints"),
        "{refused:?}"
    );
    let unknown = place.rejoin(&["status", "nonsense"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.err.contains("no job nonsense of yours"),
        "{unknown:?}"
    );

    assert_eq!(end(job).code, Some(0));
    assert!(place.sockets().is_empty());
    let gone = place.rejoin(&["status", &name]);
    assert_eq!((gone.code, gone.out.as_str()), (Some(1), ""));
}

#[test]
fn one_of_several_jobs_must_be_named() {
    let place = Place::new("several");
    let (one, _) = place.job(&["cat"]);
    let (other, _) = place.job(&["cat"]);
    let said = place.rejoin(&["checkpoint"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("which job?"), "{said:?}");
    let named = place.rejoin(&["checkpoint", &other.id().to_string()]);
    assert!(named.err.contains("--recovery none"), "{named:?}");
    assert_eq!(end(one).code, Some(0));
    assert_eq!(end(other).code, Some(0));
}

#[test]
fn nothing_is_said_of_a_job_that_was_not_asked_for() {
    let place = Place::new("foreign");
    let (job, _) = place.job(&["cat"]);
    let name = "ffffffffffffffff";
    let foreign = UnixListener::bind(place.0.0.join(format!("rejoin/{name}.sock"))).unwrap();
    // It speaks another language.
    std::thread::spawn(move || {
        for mut client in foreign.incoming().flatten() {
            let _ = client.write_all(&u32::MAX.to_le_bytes());
        }
    });
    let all = place.rejoin(&["status"]);
    assert!(all.err.contains(&format!("job {name}: ")), "{all:?}");
    let one = place.rejoin(&["status", &job.id().to_string()]);
    assert_eq!((one.code, one.err.as_str()), (Some(0), ""), "{one:?}");
    assert!(one.out.contains("cat, 1 rank, "), "{one:?}");
    assert_eq!(end(job).code, Some(0));
}

/// Starts `rejoin top` in a new terminal, sends it a signal when it shows something, and looks at
/// the terminal after its end.
fn end_top(place: &Place, signal: i32) {
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = openpty(&size, None).unwrap();
    let before = tcgetattr(&terminal.slave).unwrap();
    let end = || Stdio::from(terminal.slave.try_clone().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
    command.arg("top").env("XDG_RUNTIME_DIR", &place.0.0);
    command.stdin(end()).stdout(end()).stderr(end());
    rejoin_tests::listening(&mut command);
    let mut top = command.spawn().unwrap();
    rejoin_managers_host::set_nonblocking(&terminal.master).unwrap();
    let (mut master, mut seen) = (File::from(terminal.master), Vec::new());
    let mut shows = |text: &str| {
        // All that there is, until a read would block.
        let _ = master.read_to_end(&mut seen);
        String::from_utf8_lossy(&seen).contains(text)
    };
    wait_for(LIMIT, "a full screen", || {
        shows("\x1b[?1049h") && shows("cat")
    });
    assert_ne!(tcgetattr(&terminal.slave).unwrap(), before);
    kill(top.id(), signal);
    wait_for(LIMIT, "the end", || {
        shows("");
        top.try_wait().unwrap().is_some()
    });
    assert_eq!(top.wait().unwrap().code(), Some(128 + signal));
    assert!(shows("\x1b[?1049l"), "the full screen stays");
    assert_eq!(tcgetattr(&terminal.slave).unwrap(), before);
}

#[test]
fn a_signal_to_top_restores_the_terminal() {
    let place = Place::new("top");
    let (job, _) = place.job(&["cat"]);
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        end_top(&place, signal);
    }
    assert_eq!(end(job).code, Some(0));
}

#[test]
fn what_a_killed_mpirun_leaves_goes_with_the_next_command() {
    let place = Place::new("stale");
    let (job, _) = place.job(&["cat"]);
    let all = descendants(job.id());
    let name = job.id().to_string();
    kill(job.id(), libc::SIGKILL);
    finish(job);
    assert_eq!(place.sockets().len(), 1);
    let said = place.rejoin(&["status", &name]);
    assert!(said.err.contains(" of yours"), "{said:?}");
    assert!(place.sockets().is_empty());
    all_gone(&all, Duration::from_secs(60));
}

#[test]
fn a_stranger_on_the_socket_is_let_go_and_the_job_goes_on() {
    let place = Place::new("stranger");
    let (job, socket) = place.job(&["cat"]);
    // One is silent, one sends no question, one claims a forbidden length.
    let mut silent = UnixStream::connect(&socket).unwrap();
    for words in [
        &[1, 0, 0, 0, 9][..],
        &u32::MAX.to_le_bytes(),
        &[8, 0, 0, 0, 99],
    ] {
        let mut stranger = UnixStream::connect(&socket).unwrap();
        stranger.write_all(words).unwrap();
        stranger
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    silent
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    assert_eq!(silent.read(&mut [0; 1]).unwrap(), 0);
    // More than are admitted at a time: the last ones too are answered or dropped, and the job
    // still answers.
    let crowd: Vec<_> = (0..100).map(|_| UnixStream::connect(&socket)).collect();
    drop(crowd);
    wait_for(Duration::from_secs(60), "an answer", || {
        place.status(&job).is_some()
    });
    assert_eq!(end(job).code, Some(0));
}

#[test]
fn a_directory_that_others_may_enter_is_not_used() {
    let place = Place::new("open");
    let dir = place.0.0.join("rejoin");
    std::fs::DirBuilder::new().mode(0o755).create(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut job = mpirun(&["cat"])
        .env("XDG_RUNTIME_DIR", &place.0.0)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // It says something once it runs, so that it is known to have chosen.
    job.stdin.as_mut().unwrap().write_all(b"x\n").unwrap();
    let mut first = [0; 2];
    job.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert!(place.sockets().is_empty());
    assert_eq!(end(job).code, Some(0));
}

#[test]
fn a_list_that_is_too_long_for_a_request_is_refused() {
    let place = Place::new("long");
    let (child, _) = place.job(&["cat"]);
    // Each name takes more bytes in a request than in the list.
    let hosts = vec!["b"; 30_000].join(",");
    let job = child.id().to_string();
    let done = place.rejoin(&["add-host", &hosts, "--job", &job]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let says = "the list is too long for one request";
    assert!(done.last_line().ends_with(says), "{}", done.err);
    assert_eq!(end(child).code, Some(0));
}
