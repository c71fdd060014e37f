//! A rank as a process: the inherited channel, and the effect of its end. The child is this test
//! program again; a variable of the environment selects its part.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, Rank};
use rejoin_device::testing::{self, ManagerEnd, from, recv, send, welcome};
use rejoin_device::{Device, Options};
use rejoin_wire::codec::{FrameReader, RANK_LIMIT};
use rejoin_wire::{FromManager, MANAGER_FD, ToManager};

const PART: &str = "REJOIN_TEST_PART";

/// The part of the child; does nothing when the tests run as usual.
#[test]
fn child() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let mut device = match Device::init() {
        Ok(device) => device,
        Err(error) => {
            eprintln!("init: {error}");
            std::process::exit(3);
        }
    };
    match part.as_str() {
        "wait" => loop {
            device.wait(None, None).expect("progress");
        },
        "abort" => device.abort(42),
        "send" => {
            // As in a C program; Rust's runtime ignores the signal.
            // SAFETY: the default action is no handler.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
            loop {
                device.regions_stored(Epoch(1)).expect("sent");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        "echo" => {
            testing::ping_pong(&mut device, 3, 100_000);
            testing::end(&mut device).expect("finalized");
        }
        _ => testing::end(&mut device).expect("finalized"),
    }
}

fn start(part: &str, fd: &str) -> Child {
    start_with(part, fd, &[])
}

fn start_with(part: &str, fd: &str, variables: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "child", "--nocapture"])
        .env(PART, part)
        .env(MANAGER_FD, fd)
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started")
}

/// A child with the manager's end of its channel.
fn rank(part: &str) -> (Child, ManagerEnd) {
    rank_with(part, &[])
}

fn rank_with(part: &str, variables: &[(&str, &str)]) -> (Child, ManagerEnd) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    fcntl(theirs.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).expect("inherited");
    let mut line = ManagerEnd {
        socket: ours,
        reader: FrameReader::new(RANK_LIMIT),
    };
    line.send(&welcome(0, 1, 1));
    let number = std::os::fd::AsRawFd::as_raw_fd(&theirs);
    let child = start_with(part, &number.to_string(), variables);
    let table = vec![registered(&mut line)];
    line.send(&FromManager::Start {
        generation: Generation(0),
        table,
        image: None,
    });
    (child, line)
}

fn registered(line: &mut ManagerEnd) -> (Incarnation, BusinessCard) {
    match line.receive() {
        Some(ToManager::Register {
            card, incarnation, ..
        }) => (incarnation, card),
        other => panic!("a registration, not {other:?}"),
    }
}

/// Exit code and standard error; kills a child that does not end.
fn ended(mut child: Child) -> (Option<i32>, String) {
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("waited") {
            break status;
        }
        if start.elapsed() > Duration::from_secs(20) {
            child.kill().expect("killed");
            panic!("the child does not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut said = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut said)
        .expect("text");
    (status.code(), said)
}

#[test]
fn a_rank_ends_with_its_manager_and_says_so() {
    let (child, line) = rank("wait");
    drop(line);
    let (code, said) = ended(child);
    assert_eq!(code, Some(1));
    assert_eq!(said, "rejoin: rank 0: the local manager is gone; ending\n");
}

#[test]
fn a_message_to_a_manager_that_is_gone_ends_the_rank_with_that_reason() {
    let (child, mut line) = rank("send");
    assert_eq!(
        line.receive(),
        Some(ToManager::RegionsStored { epoch: Epoch(1) })
    );
    drop(line);
    let (code, said) = ended(child);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(said, "rejoin: rank 0: the local manager is gone; ending\n");
}

#[test]
fn a_rank_stops_on_the_managers_order() {
    let (child, mut line) = rank("wait");
    line.send(&FromManager::Stop {
        why: "another rank died".to_owned(),
    });
    assert_eq!(ended(child), (Some(1), String::new()));
}

#[test]
fn an_abort_reaches_the_manager_with_its_code() {
    let (child, mut line) = rank("abort");
    let said = line.receive();
    assert!(
        matches!(said, Some(ToManager::Abort { code: 42, .. })),
        "{said:?}"
    );
    line.send(&FromManager::Stop { why: String::new() });
    assert_eq!(ended(child).0, Some(42));
}

#[test]
fn a_rank_finalizes_in_order() {
    let (child, mut line) = rank("finalize");
    assert_eq!(line.receive(), Some(ToManager::Finalizing));
    // News of another generation changes nothing.
    line.send(&FromManager::AllFinalized {
        generation: Generation(9),
    });
    std::thread::sleep(Duration::from_millis(50));
    line.send(&FromManager::Card {
        generation: Generation(9),
        rank: Rank(0),
        incarnation: Incarnation(9),
        card: BusinessCard::default(),
    });
    line.socket.set_nonblocking(true).expect("set up");
    let silent = std::io::Read::read(&mut line.socket, &mut [0]).expect_err("silence");
    assert_eq!(silent.kind(), std::io::ErrorKind::WouldBlock);
    line.socket.set_nonblocking(false).expect("set up");
    line.send(&FromManager::AllFinalized {
        generation: Generation(0),
    });
    assert_eq!(line.receive(), Some(ToManager::Leave));
    assert_eq!(ended(child).0, Some(0));
}

#[test]
fn a_wait_for_the_others_in_finalize_is_reported() {
    let (mut child, mut line) = rank_with("finalize", &[("REJOIN_STALL_REPORT", "0.5")]);
    assert_eq!(line.receive(), Some(ToManager::Finalizing));
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    stderr.read_line(&mut said).expect("a report");
    for part in ["rank 0", "waiting", "all other ranks must come"] {
        assert!(said.contains(part), "{said:?} does not say {part}");
    }
    line.send(&FromManager::AllFinalized {
        generation: Generation(0),
    });
    assert_eq!(line.receive(), Some(ToManager::Leave));
    assert!(child.wait().expect("waited").success());
}

#[test]
fn a_wrong_descriptor_is_refused_clearly() {
    for (fd, part) in [
        ("77", "no such descriptor"),
        ("x", "inherited descriptor"),
        ("1", "inherited descriptor"),
    ] {
        let (code, said) = ended(start("wait", fd));
        assert_eq!(code, Some(3), "{said}");
        assert!(
            said.contains(part) && said.contains("REJOIN_MANAGER_FD"),
            "{said}"
        );
    }
    let file = std::fs::File::open("/dev/null").expect("opened");
    fcntl(file.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).expect("inherited");
    let number = std::os::fd::AsRawFd::as_raw_fd(&file).to_string();
    let (code, said) = ended(start("wait", &number));
    assert_eq!(code, Some(3));
    assert!(said.contains("no socket"), "{said}");
}

/// A rank of two that can have no memory for rings.
fn without_memory(part: &str, transport: &str) -> (Child, ManagerEnd) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    fcntl(theirs.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).expect("inherited");
    let mut line = ManagerEnd {
        socket: ours,
        reader: FrameReader::new(RANK_LIMIT),
    };
    line.send(&welcome(0, 2, 2));
    let number = std::os::fd::AsRawFd::as_raw_fd(&theirs);
    let child = Command::new("sh")
        .args(["-c", "ulimit -f 1 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("a path"))
        .args(["--exact", "child", "--nocapture"])
        .env(PART, part)
        .env(MANAGER_FD, number.to_string())
        .env("REJOIN_TRANSPORT", transport)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    (child, line)
}

#[test]
fn a_rank_that_needs_shared_memory_and_can_have_none_says_why() {
    let (child, _line) = without_memory("wait", "shm");
    let (code, said) = ended(child);
    assert_eq!(code, Some(3), "{said}");
    for part in ["shared memory", "ulimit -f"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_rank_without_shared_memory_says_so_and_continues() {
    let (child, mut line) = without_memory("echo", "auto");
    let said = line.receive_any();
    let Some(ToManager::Note {
        important: true,
        text,
    }) = said
    else {
        panic!("{said:?}");
    };
    for part in ["TCP instead of shared memory", "ulimit -f"] {
        assert!(text.contains(part), "{text}");
    }
    let here = registered(&mut line);
    let (mut other, theirs) = UnixStream::pair()
        .map(|(ours, theirs)| {
            let reader = FrameReader::new(RANK_LIMIT);
            let socket = ours;
            (ManagerEnd { socket, reader }, theirs)
        })
        .expect("a pair");
    other.send(&welcome(1, 2, 2));
    // This one has a local listener, and memory.
    let thread = std::thread::spawn(move || {
        let mut device = Device::with_manager(theirs.into(), Options::default()).expect("a rank");
        testing::ping_pong(&mut device, 3, 100_000);
        testing::end(&mut device).expect("finalized");
        device.stats()
    });
    let table = vec![here, registered(&mut other)];
    let mut lines = [line, other];
    for line in &mut lines {
        line.send(&FromManager::Start {
            generation: Generation(0),
            table: table.clone(),
            image: None,
        });
    }
    for line in &mut lines {
        assert_eq!(line.receive(), Some(ToManager::Finalizing));
    }
    for line in &mut lines {
        line.send(&FromManager::AllFinalized {
            generation: Generation(0),
        });
        assert_eq!(line.receive(), Some(ToManager::Leave));
    }
    let stats = thread.join().expect("the other rank");
    assert_eq!((stats.rings_made, stats.links_made), (0, 1), "{stats:?}");
    assert_eq!(ended(child), (Some(0), String::new()));
}

#[test]
fn a_process_alone_is_a_job_of_one() {
    let mut device = Device::alone(Options::default()).expect("a device");
    assert_eq!((device.rank().0, device.size()), (0, 1));
    assert!(!device.host_of(device.rank()).is_empty());
    let body = vec![7; 300_000];
    let mut buffer = vec![0; 300_000];
    let request = testing::irecv(&mut device, from(0, 1), &mut buffer);
    send(&mut device, 0, 1, &body);
    assert_eq!(testing::finish(&mut device, request).len, 300_000);
    assert!(buffer == body);
    send(&mut device, 0, 2, b"later");
    let mut five = [0; 5];
    recv(&mut device, from(0, 2), &mut five);
    assert_eq!(&five, b"later");
    testing::end(&mut device).expect("finalized");
}
