//! No descriptor is left for callers. A test of its own, since all of a process have one limit.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rejoin_channel_table::{JobId, JobKey};
use rejoin_managers_net::address::ListenAt;
use rejoin_managers_net::manager_listener::Listener;
use rejoin_managers_net::reactor::{Reactor, Token};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const KNOCK: u8 = 1;

/// The events within so many milliseconds.
fn ready(reactor: &mut Reactor, millis: u64) -> Vec<Token> {
    let mut tokens = Vec::new();
    let limit = Some(Duration::from_millis(millis));
    reactor.wait(limit, &mut tokens).unwrap();
    tokens
}

#[test]
fn callers_wait_until_there_is_a_descriptor_for_them() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 100.min(hard), hard).unwrap();
    let mut reactor = Reactor::new().unwrap();
    let key = JobKey::new([1; 32]);
    let lo = ListenAt {
        interface: Some("lo".into()),
        advertised: None,
    };
    let mut listener = Listener::open(JobId(5), key, &lo, (KNOCK, 8), &reactor).unwrap();
    let mut caller = TcpStream::connect(listener.reach().seen_from(true)[0]).unwrap();
    caller.write_all(&[0xff; 4096]).unwrap();
    caller.set_nonblocking(true).unwrap();
    let mut all = Vec::new();
    let full = loop {
        match File::open("/dev/null") {
            Ok(file) => all.push(file),
            Err(error) => break error,
        }
    };
    assert_eq!(full.raw_os_error(), Some(libc::EMFILE));
    let tokens = ready(&mut reactor, 5000);
    assert_eq!(tokens.len(), 1);
    assert!(listener.ready(tokens[0].index, &reactor).unwrap().is_none());
    // It is ignored for a while, because the waiting caller would make it ready again and again.
    assert!(listener.wait_limit().is_some());
    assert_eq!(ready(&mut reactor, 0), []);
    drop(all);
    let end = Instant::now() + Duration::from_secs(10);
    let shown_out = |caller: &mut TcpStream| match caller.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    while !shown_out(&mut caller) {
        assert!(Instant::now() < end, "nobody is accepted any more");
        listener.drop_late(&reactor).unwrap();
        for token in ready(&mut reactor, 20) {
            listener.ready(token.index, &reactor).unwrap();
        }
    }
}
