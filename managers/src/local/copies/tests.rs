//! One host copies a file of another one over connections that break.

use super::copy_maker::CopyMaker;
use super::copy_order::{
    CopyFailure, CopyMember, CopyOrder, CopyResult, GoneHosts, NeededFile, VoidOrders,
};
use super::copy_server::CopyServer;
use super::file_source::FileSource;
use super::*;
use rejoin_channel_table::{Epoch, ImageId, JobId, JobKey};
use rejoin_ckpt::store::FolderClaim;
use rejoin_managers_net::auth::{HELLO, PROOF};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

const FILE: KeptFile = KeptFile {
    rank: Rank(3),
    image: ImageId::Checkpoint(Epoch(9)),
    is_parity: false,
};

/// Bytes of a request.
const REQUEST: usize = 24;

/// A host with a folder of its own.
struct Host {
    path: PathBuf,
    member: CopyMember,
    _claim: FolderClaim,
}

impl Host {
    fn new(test: &str, host: u32) -> Host {
        let name = format!("rejoin-copies-{test}-{host}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let folder = ImageFolder::new(&path, 5, None).that_stays();
        let claim = folder.claim("a host").expect("a folder");
        let whose = Whose {
            job: JobId(5),
            launch: 1,
            host,
        };
        let key = JobKey::new([7; 32]);
        let rate = None;
        let member = CopyMember {
            key,
            whose,
            folder,
            rate,
            gone: GoneHosts::default(),
        };
        Host {
            path,
            member,
            _claim: claim,
        }
    }

    fn serve(&self, most: usize, reactor: &Reactor) -> CopyServer {
        let at = ListenAt {
            interface: Some("lo".into()),
            advertised: None,
        };
        let claim = "a claim".to_string();
        CopyServer::open(&self.member, claim, (at, 64), most, reactor).expect("a server")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Lets the server work until something is there.
fn serve_until<T>(
    server: &mut CopyServer,
    reactor: &mut Reactor,
    mut is: impl FnMut() -> Option<T>,
) -> T {
    let (begun, mut tokens) = (Instant::now(), Vec::new());
    loop {
        if let Some(found) = is() {
            return found;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it takes too long"
        );
        let step = Some(Duration::from_millis(5));
        reactor.wait(step, &mut tokens).expect("a wait");
        for token in &tokens {
            server.called(token.index, reactor).expect("a call");
        }
    }
}

fn needed(addresses: Vec<SocketAddr>) -> NeededFile {
    NeededFile {
        file: FILE,
        host: 0,
        addresses,
        is_awaited: false,
    }
}

/// What happens to the bytes of a connection.
#[derive(Clone, Copy)]
enum Harm {
    /// It is cut behind so many.
    Cut(usize),
    /// The one at this place is altered.
    Alter(usize),
    Nothing,
}

/// Connects callers to the server, and harms one connection after the other. Returns where it
/// listens, and the first bytes of the file for which callers ask.
fn forward(to: SocketAddr, harms: Vec<Harm>) -> (SocketAddr, Arc<Mutex<Vec<u64>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&asked);
    thread::spawn(move || {
        for (harm, caller) in harms.into_iter().zip(listener.incoming()) {
            let (Ok(caller), Ok(server)) = (caller, TcpStream::connect(to)) else {
                return;
            };
            let there = (caller.try_clone().unwrap(), server.try_clone().unwrap());
            let list = Arc::clone(&list);
            thread::spawn(move || list.lock().unwrap().extend(pass_request(there)));
            pass(harm, server, &caller);
            let _ = caller.shutdown(Shutdown::Both);
        }
    });
    (address, asked)
}

/// Passes on all that a caller says, and returns the byte from which on it wants the file.
fn pass_request((mut from, mut to): (TcpStream, TcpStream)) -> Option<u64> {
    let mut said = Vec::new();
    let mut byte = [0];
    while said.len() < HELLO + PROOF + REQUEST {
        from.read_exact(&mut byte).ok()?;
        to.write_all(&byte).ok()?;
        said.extend(byte);
    }
    said.last_chunk().copied().map(u64::from_le_bytes)
}

fn pass(harm: Harm, mut from: TcpStream, mut to: &TcpStream) {
    let (mut buffer, mut at) = (vec![0; 1 << 16], 0);
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let bytes = &mut buffer[..length];
        match harm {
            Harm::Alter(place) if (at..at + length).contains(&place) => bytes[place - at] ^= 1,
            Harm::Cut(place) if at + length > place => break,
            _ => {}
        }
        if to.write_all(bytes).is_err() {
            break;
        }
        at += length;
    }
    let _ = from.shutdown(Shutdown::Both);
}

#[test]
fn a_copy_continues_where_its_connection_broke_and_damage_is_no_part_of_it() {
    const MIB: usize = 1 << 20;
    let (source, target) = (Host::new("resumed", 0), Host::new("resumed", 1));
    let bytes: Vec<u8> = (0..5 * MIB + 123).map(|at| (at * at / 97) as u8).collect();
    let folder = &source.member.folder;
    let file = folder.begin_copy(FILE.rank.0, FILE.image.parts().into());
    let file = file.expect("a file");
    file.file().write_all_at(&bytes, 0).expect("written");
    file.complete(b"note").expect("a name");

    let mut reactor = Reactor::new().expect("a reactor");
    let mut server = source.serve(16, &reactor);
    let to = server.reach().seen_from(true)[0];
    let (half, two) = (MIB + MIB / 2, 2 * MIB + MIB / 2);
    let harms = vec![
        Harm::Cut(half),
        Harm::Alter(half),
        Harm::Cut(two),
        Harm::Nothing,
    ];
    let (through, asked) = forward(to, harms);
    let maker = CopyMaker::start(target.member.clone()).expect("a thread");
    maker.order(CopyOrder {
        number: 4,
        file: FILE,
        parts: vec![needed(vec![through])],
        is_awaited: false,
    });
    let (number, (file, end)) = serve_until(&mut server, &mut reactor, || maker.next());
    assert_eq!((number, file, end), (4, FILE, Ok(CopyResult::File)));
    assert_eq!(
        maker.progress(4),
        Some((bytes.len() as u64, bytes.len() as u64))
    );
    let copy = target
        .member
        .folder
        .find(FILE.rank.0, FILE.image.parts().into());
    let copy = copy.expect("a copy");
    assert!(
        std::fs::read(copy.path()).expect("its bytes") == bytes,
        "other bytes"
    );
    assert_eq!(copy.note().expect("a note"), b"note");
    // Whole chunks come once.
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked, [0, 1, 2, 4].map(|chunks| chunks * MIB as u64));
}

#[test]
fn a_host_that_gives_files_to_many_asks_others_to_wait() {
    let (source, target) = (Host::new("busy", 0), Host::new("busy", 1));
    let mut reactor = Reactor::new().expect("a reactor");
    let mut server = source.serve(0, &reactor);
    let addresses = server.reach().seen_from(true);
    let answer = Arc::new(Mutex::new(None));
    let said = Arc::clone(&answer);
    let member = target.member.clone();
    let caller = thread::spawn(move || {
        let opened = FileSource::of_other(&member, &needed(addresses), 0);
        *said.lock().unwrap() = Some(matches!(opened, Err(CopyFailure::Busy)));
    });
    let is_busy = serve_until(&mut server, &mut reactor, || answer.lock().unwrap().take());
    caller.join().expect("a caller");
    assert!(is_busy);
}

/// The end of an order for the file, which nobody gives.
fn end_of_order(test: &str, addresses: Vec<SocketAddr>, after: impl FnOnce(&CopyMember)) -> String {
    let target = Host::new(test, 1);
    let maker = CopyMaker::start(target.member.clone()).expect("a thread");
    maker.order(CopyOrder {
        number: 4,
        file: FILE,
        parts: vec![needed(addresses)],
        is_awaited: true,
    });
    after(&target.member);
    let begun = Instant::now();
    let end = loop {
        if let Some((_, (_, end))) = maker.next() {
            break end;
        }
        // Without an answer, the order would end after this time only.
        assert!(
            begun.elapsed() < Duration::from_secs(25),
            "it takes too long"
        );
        thread::sleep(Duration::from_millis(5));
    };
    end.expect_err("nobody has the file")
}

#[test]
fn a_connection_that_is_refused_ends_the_order_for_a_file() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let why = end_of_order("refused", vec![address], |_| {});
    assert!(why.contains("Connection refused"), "{why}");
}

#[test]
fn a_host_that_is_lost_meanwhile_is_not_asked_again() {
    // Connections are made, and nobody answers.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let why = end_of_order("lost", vec![address], |member| {
        let (caller, _) = listener.accept().expect("a call");
        member.gone.set(0, true);
        drop(caller);
    });
    assert!(why.contains("can't be reached"), "{why}");
}

#[test]
fn no_file_appears_once_its_folder_was_left() {
    let orders = VoidOrders::default();
    orders.add(1);
    assert_eq!(orders.if_wanted(1, || "a file"), None);
    assert_eq!(orders.if_wanted(2, || "a file"), Some("a file"));
    let (begins, begun) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let copier = orders.clone();
        let file = scope.spawn(move || {
            copier.if_wanted(2, || {
                begins.send(()).expect("a listener");
                thread::sleep(Duration::from_millis(20));
                Instant::now()
            })
        });
        begun.recv().expect("a file that is about to appear");
        orders.close();
        let left = Instant::now();
        let appeared = file.join().expect("no panic").expect("it was wanted");
        assert!(appeared <= left, "the folder was left before");
    });
    assert_eq!(orders.if_wanted(2, || "a file"), None);
}
