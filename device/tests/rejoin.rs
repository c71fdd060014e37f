//! A rank that drops all its descriptors, takes a new place in the job, and continues.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use rejoin_channel_table::{BusinessCard, Generation, Incarnation, Rank};
use rejoin_device::testing::{
    self, ManagerEnd, finish, from, irecv, isend, pattern, recv, send, welcome, welcome_as,
};
use rejoin_device::{Device, Mode, OldDescriptors, Options, descriptors};
use rejoin_wire::codec::{FrameReader, RANK_LIMIT};
use rejoin_wire::{FromManager, MANAGER_FD, ToManager, Transport};

const PART: &str = "REJOIN_TEST_PART";
/// The number of the second channel to the manager.
const SECOND: &str = "REJOIN_TEST_SECOND";
const ROUNDS: u8 = 4;

fn line() -> (ManagerEnd, OwnedFd) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let reader = FrameReader::new(RANK_LIMIT);
    let line = ManagerEnd {
        socket: ours,
        reader,
    };
    (line, theirs.into())
}

fn registered(line: &mut ManagerEnd) -> BusinessCard {
    match line.receive() {
        Some(ToManager::Register { card, .. }) => card,
        other => panic!("a registration, not {other:?}"),
    }
}

fn start(line: &mut ManagerEnd, table: &[(Incarnation, BusinessCard)]) {
    line.send(&FromManager::Start {
        generation: Generation(0),
        table: table.to_vec(),
        image: None,
    });
}

fn leave(mut lines: Vec<ManagerEnd>) {
    for line in &mut lines {
        assert_eq!(line.receive(), Some(ToManager::Finalizing));
    }
    for line in &mut lines {
        line.send(&FromManager::AllFinalized {
            generation: Generation(0),
        });
    }
    for line in &mut lines {
        assert_eq!(line.receive(), Some(ToManager::Leave));
    }
}

fn body(round: u8) -> Vec<u8> {
    pattern(
        u64::from(round),
        [100, 20_000, 90_000, 700_000][usize::from(round) % 4],
    )
}

/// The steps of the rank that rejoins. Messages in both directions are under way when it drops its
/// descriptors.
fn comes_back(device: &mut Device, mut again: impl FnMut(&mut Device, u8)) {
    for round in 0..ROUNDS {
        let expected = body(round);
        let mut buffer = vec![0; expected.len()];
        let coming = irecv(device, from(1, 1), &mut buffer);
        let bodies = [body(round), body(round + 1)];
        let sent = [
            isend(device, 1, 1, &bodies[0], Mode::Standard),
            isend(device, 1, 1, &bodies[1], Mode::Synchronous),
        ];
        device.progress(None).expect("progress");
        again(device, round);
        finish(device, coming);
        assert!(buffer == expected, "round {round} damaged");
        for request in sent {
            finish(device, request);
        }
    }
}

/// The steps of the other rank.
fn stays(device: &mut Device) {
    for round in 0..ROUNDS {
        send(device, 0, 1, &body(round));
        for expected in [body(round), body(round + 1)] {
            let mut buffer = vec![0; expected.len()];
            recv(device, from(0, 1), &mut buffer);
            assert!(buffer == expected, "round {round} damaged");
        }
    }
}

/// Serves one return of rank 0: a new identity, registration, table, and the news to rank 1.
fn serve_return(
    back: &mut ManagerEnd,
    other: &mut ManagerEnd,
    incarnation: u32,
    there: &BusinessCard,
) {
    let incarnation = Incarnation(incarnation);
    let card = registered(back);
    start(
        back,
        &[(incarnation, card.clone()), (Incarnation(0), there.clone())],
    );
    other.send(&FromManager::Card {
        generation: Generation(0),
        rank: Rank(0),
        incarnation,
        card,
    });
}

#[test]
fn a_device_that_drops_every_descriptor_continues_with_its_peer() {
    let (mut first, theirs0) = line();
    let (mut second, theirs1) = line();
    first.send(&welcome(0, 2, 2));
    second.send(&welcome(1, 2, 2));
    let (sockets, new_sockets) = mpsc::channel::<OwnedFd>();
    let back = thread::spawn(move || {
        let mut device = Device::with_manager(theirs0, Options::default()).expect("a device");
        let waker = device.waker();
        let mut cards = Vec::new();
        comes_back(&mut device, |device, _| {
            cards.push(device.card().addresses.clone());
            let socket = new_sockets.recv().expect("a channel");
            device
                .reopen(socket, OldDescriptors::Close)
                .expect("back again");
            assert_eq!(
                device.identity().incarnation,
                Incarnation(cards.len() as u32)
            );
            assert!(!cards.contains(&device.card().addresses), "the old card");
            // The handle that another thread holds follows.
            waker.wake();
            // No receive is posted for it: it only needs a link.
            let made = device.stats().links_made;
            send(device, 1, 9, &[1]);
            while device.stats().links_made == made {
                device.wait(None, None).expect("progress");
            }
        });
        testing::end(&mut device).expect("finalized");
        device.stats()
    });
    let other = thread::spawn(move || {
        let mut device = Device::with_manager(theirs1, Options::default()).expect("a device");
        stays(&mut device);
        testing::end(&mut device).expect("finalized");
    });
    let (here, there) = (registered(&mut first), registered(&mut second));
    let table = [(Incarnation(0), here), (Incarnation(0), there.clone())];
    start(&mut first, &table);
    start(&mut second, &table);
    for incarnation in 1..=u32::from(ROUNDS) {
        let (mut next, theirs) = line();
        // It changes what carries its messages each time.
        next.send(&match welcome_as(0, 2, 2, incarnation) {
            FromManager::Welcome(mut welcome) if incarnation % 2 == 1 => {
                welcome.options.transport = Transport::Tcp;
                FromManager::Welcome(welcome)
            }
            other => other,
        });
        sockets.send(theirs).expect("waited for");
        serve_return(&mut next, &mut second, incarnation, &there);
        assert_eq!(first.receive(), None, "the old channel is closed");
        first = next;
    }
    leave(vec![first, second]);
    let stats = back.join().expect("the rank that came back");
    let over_tcp = stats.links_made - stats.rings_made;
    assert!(stats.rings_made >= 2 && over_tcp >= 2, "{stats:?}");
    other.join().expect("the other rank");
}

#[test]
fn what_waited_for_its_first_link_asks_for_one_again() {
    let (mut first, theirs0) = line();
    let (mut second, theirs1) = line();
    first.send(&welcome(0, 2, 2));
    second.send(&welcome(1, 2, 2));
    let (sockets, new_sockets) = mpsc::channel::<OwnedFd>();
    let (go, gone) = mpsc::channel::<()>();
    let back = thread::spawn(move || {
        let mut device = Device::with_manager(theirs0, Options::default()).expect("a device");
        let bytes = body(0);
        let sent = isend(&mut device, 1, 1, &bytes, Mode::Synchronous);
        device.progress(None).expect("a link is dialed");
        assert_eq!(device.stats().links_made, 0);
        let socket = new_sockets.recv().expect("a channel");
        device
            .reopen(socket, OldDescriptors::Close)
            .expect("back again");
        finish(&mut device, sent);
        testing::end(&mut device).expect("finalized");
    });
    let other = thread::spawn(move || {
        let mut device = Device::with_manager(theirs1, Options::default()).expect("a device");
        gone.recv().expect("the other rank is back");
        let mut buffer = vec![0; body(0).len()];
        recv(&mut device, from(0, 1), &mut buffer);
        assert!(buffer == body(0));
        testing::end(&mut device).expect("finalized");
    });
    let (here, there) = (registered(&mut first), registered(&mut second));
    let table = [(Incarnation(0), here), (Incarnation(0), there.clone())];
    start(&mut first, &table);
    start(&mut second, &table);
    let (mut next, theirs) = line();
    next.send(&welcome_as(0, 2, 2, 1));
    sockets.send(theirs).expect("waited for");
    serve_return(&mut next, &mut second, 1, &there);
    go.send(()).expect("waited for");
    leave(vec![next, second]);
    back.join().expect("the rank that came back");
    other.join().expect("the other rank");
}

fn inherited(variable: &str) -> OwnedFd {
    let number = std::env::var(variable)
        .expect("set")
        .parse()
        .expect("a number");
    // SAFETY: the parent has left this descriptor for this process alone.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// The part of the child process: a rank whose descriptors are gone, and whose numbers are others'.
#[test]
fn child() {
    match std::env::var(PART).as_deref() {
        Ok("back") => {}
        Ok("key") => return hold_the_key(),
        _ => return,
    }
    let mut device = Device::init().expect("a rank");
    let mut second = Some(inherited(SECOND));
    let mut others = Vec::new();
    comes_back(&mut device, |device, round| {
        if round != 2 {
            return;
        }
        // As in the fork that an image is: everything in the block is closed, and whatever is
        // opened now gets the numbers.
        let low = descriptors::block_start();
        let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
            .expect("listed")
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|number| *number >= low)
            .collect();
        assert!(
            open.len() >= 5,
            "{open:?}: epoll, eventfd, manager, listener, link"
        );
        let (mine, _) = UnixStream::pair().expect("a pair");
        for number in &open {
            // SAFETY: the number is the device's, which is about to forget it.
            let made = unsafe { libc::dup2(mine.as_raw_fd(), *number) };
            assert_eq!(made, *number);
        }
        others = open;
        let socket = second.take().expect("once");
        device
            .reopen(socket, OldDescriptors::Forget)
            .expect("back again");
    });
    for number in others {
        // SAFETY: F_GETFD touches no memory.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        assert_eq!(flags, 0, "descriptor {number} of the program was touched");
    }
    testing::end(&mut device).expect("finalized");
}

fn spawn(part: &str, first: &OwnedFd, second: &OwnedFd) -> Child {
    for descriptor in [first, second] {
        fcntl(descriptor.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).expect("inherited");
    }
    Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "child", "--nocapture"])
        .env(PART, part)
        .env(MANAGER_FD, first.as_raw_fd().to_string())
        .env(SECOND, second.as_raw_fd().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started")
}

#[test]
fn a_restored_rank_leaves_numbers_alone_that_are_others_by_now() {
    let (mut first, theirs) = line();
    let (mut next, theirs_next) = line();
    let (mut second, theirs1) = line();
    first.send(&welcome(0, 2, 2));
    next.send(&welcome_as(0, 2, 2, 1));
    second.send(&welcome(1, 2, 2));
    let child = spawn("back", &theirs, &theirs_next);
    drop((theirs, theirs_next));
    let other = thread::spawn(move || {
        let mut device = Device::with_manager(theirs1, Options::default()).expect("a device");
        stays(&mut device);
        testing::end(&mut device).expect("finalized");
    });
    let (here, there) = (registered(&mut first), registered(&mut second));
    let table = [(Incarnation(0), here), (Incarnation(0), there.clone())];
    start(&mut first, &table);
    start(&mut second, &table);
    serve_return(&mut next, &mut second, 1, &there);
    leave(vec![next, second]);
    let ended = child.wait_with_output().expect("ended");
    assert!(ended.status.success(), "{ended:?}");
    other.join().expect("the other rank");
}

/// A rank that forks, as for an image, and waits; its child waits too.
fn hold_the_key() {
    let mut device = Device::init().expect("a rank");
    device.progress(None).expect("progress");
    // SAFETY: the child calls only what may be called after a fork.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        // SAFETY: pause and _exit touch nothing.
        unsafe {
            libc::pause();
            libc::_exit(0)
        };
    }
    println!("forked {forked}");
    std::io::stdout().flush().expect("told");
    let mut byte = [0];
    let _ = std::io::stdin().read(&mut byte);
    // SAFETY: the child is this process's own.
    unsafe { libc::kill(forked, libc::SIGKILL) };
}

/// How often `wanted` is in the writable memory of a process.
fn occurrences(pid: i32, wanted: &[u8]) -> usize {
    use std::os::unix::fs::FileExt;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("memory");
    let mut count = 0;
    for map in maps.lines().filter(|map| map.contains(" rw")) {
        let (range, _) = map.split_once(' ').expect("a range");
        let (low, high) = range.split_once('-').expect("a range");
        let low = u64::from_str_radix(low, 16).expect("hex");
        let high = u64::from_str_radix(high, 16).expect("hex");
        let mut bytes = vec![0; usize::try_from(high - low).expect("fits")];
        if memory.read_exact_at(&mut bytes, low).is_ok() {
            count += bytes
                .windows(wanted.len())
                .filter(|at| *at == wanted)
                .count();
        }
    }
    count
}

#[test]
fn the_jobs_key_is_in_no_fork() {
    let (mut first, theirs) = line();
    let (_next, unused) = line();
    first.send(&welcome(0, 1, 1));
    let mut child = spawn("key", &theirs, &unused);
    drop((theirs, unused));
    let card = registered(&mut first);
    start(&mut first, &[(Incarnation(0), card)]);
    let mut said = String::new();
    let mut from_child = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let forked = loop {
        said.clear();
        let got = std::io::BufRead::read_line(&mut from_child, &mut said).expect("a line");
        assert!(got > 0, "the child ended");
        if let Some((_, number)) = said.trim().rsplit_once("forked ") {
            break number.parse().expect("a number");
        }
    };
    let own = i32::try_from(child.id()).expect("fits");
    let (there, in_fork) = (
        occurrences(own, &testing::KEY),
        occurrences(forked, &testing::KEY),
    );
    drop(child.stdin.take());
    assert!(child.wait().expect("ended").success());
    assert_eq!(there, 1, "copies of the key in the rank");
    assert_eq!(in_fork, 0, "copies of the key in its fork");
}
