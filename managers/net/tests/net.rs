//! Managers of different hosts: the callers that are admitted, and the failures that a link
//! survives. Over loopback, without processes.

use rejoin_channel_table::{JobId, JobKey};
use rejoin_managers_net::address::{ListenAt, ManagerAddress};
use rejoin_managers_net::auth::Whose;
use rejoin_managers_net::dial::{Dialed, ManagerDialer};
use rejoin_managers_net::local_link::Filled;
use rejoin_managers_net::manager_listener::{Listener, ListeningSockets};
use rejoin_managers_net::reactor::{Reactor, Token};
use rejoin_managers_net::session_link::SessionLink;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const JOB: JobId = JobId(5);
const KNOCK: u8 = 1;
const DIAL: u8 = 2;
const OURS: u8 = 3;
const THEIRS: u8 = 4;

/// Both sides in one thread.
struct World {
    reactor: Reactor,
    listener: Listener,
    dialer: ManagerDialer,
    /// mpirun's end, and the local manager's.
    ours: SessionLink,
    theirs: SessionLink,
    wants: bool,
    /// The launch that mpirun takes managers of.
    launch: u32,
    got: Vec<String>,
    /// Events of attempts to dial.
    dials: u32,
}

fn lo() -> ListenAt {
    ListenAt {
        interface: Some("lo".into()),
        advertised: None,
    }
}

impl World {
    fn new(key: u8, launch: u32) -> World {
        let reactor = Reactor::new().unwrap();
        let true_key = JobKey::new([1; 32]);
        let listener = Listener::open(JOB, true_key, &lo(), (KNOCK, 64), &reactor).unwrap();
        let whose = Whose {
            job: JOB,
            launch,
            host: 3,
        };
        let addresses = listener.reach().seen_from(true);
        let addresses = addresses.into_iter().map(Into::into).collect();
        let dialer = ManagerDialer::new(
            JobKey::new([key; 32]),
            whose,
            addresses,
            Token::single(DIAL),
        );
        World {
            reactor,
            listener,
            dialer,
            ours: SessionLink::new(Token::single(OURS)),
            theirs: SessionLink::new(Token::single(THEIRS)),
            wants: true,
            launch: 0,
            got: Vec::new(),
            dials: 0,
        }
    }

    fn address(&self) -> SocketAddr {
        self.listener.reach().seen_from(true)[0]
    }

    /// Continues until something holds; whether it did, within a bound.
    fn until(&mut self, mut holds: impl FnMut(&mut World, Dialed) -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(10);
        let mut tokens = Vec::new();
        while Instant::now() < end {
            let mut dialed = self.dialer.poll(self.wants, &self.reactor).unwrap();
            self.ours.flush(&self.reactor).unwrap();
            self.theirs.flush(&self.reactor).unwrap();
            let limit = Some(Duration::from_millis(20));
            self.reactor.wait(limit, &mut tokens).unwrap();
            for token in &tokens {
                match token.kind {
                    KNOCK => self.knock(token.index),
                    DIAL => {
                        self.dials += 1;
                        dialed = self.dialer.ready(&mut self.theirs, &self.reactor).unwrap();
                    }
                    OURS => self.read(true),
                    _ => self.read(false),
                }
            }
            if dialed == Dialed::Connected {
                self.wants = false;
            }
            if holds(self, dialed) {
                return true;
            }
        }
        false
    }

    fn knock(&mut self, index: u32) {
        let Some(arrival) = self.listener.ready(index, &self.reactor).unwrap() else {
            return;
        };
        assert_eq!(arrival.whose.host, 3);
        let (theirs, wanted) = (arrival.theirs, arrival.whose.launch == self.launch);
        let received = wanted.then(|| self.ours.received());
        if let Some(socket) = self.listener.answer(arrival, received) {
            self.ours
                .attach(socket.into(), theirs, &self.reactor)
                .unwrap();
        }
    }

    fn read(&mut self, ours: bool) {
        let link = if ours {
            &mut self.ours
        } else {
            &mut self.theirs
        };
        if link.fill(&self.reactor) == Filled::Broken && !ours {
            self.wants = true;
        }
        while let Some(message) = link.next::<String>().unwrap() {
            self.got.push(message);
        }
    }
}

#[test]
fn what_is_queued_survives_connections_that_break() {
    let mut world = World::new(1, 0);
    let mut sent = Vec::new();
    for round in 0..20 {
        for number in 0..5 {
            let text = format!("{round} {number} {}", "x".repeat(40_000 * (round % 3)));
            // To mpirun in even rounds, from it in odd ones.
            let link = match round % 2 {
                0 => &mut world.theirs,
                _ => &mut world.ours,
            };
            link.queue(&text).unwrap();
            sent.push(text);
        }
        let some = sent.len() - 3;
        assert!(world.until(|w, _| w.got.len() >= some), "round {round}");
        // In the middle of the next message.
        match round % 4 {
            0 | 1 => world.ours.detach(&world.reactor),
            _ => world.theirs.detach(&world.reactor),
        }
        world.wants = true;
    }
    let all = sent.len();
    assert!(world.until(|w, _| w.got.len() >= all));
    // Each direction has an order of its own.
    for odd in [0, 1] {
        let of = |list: &[String]| -> Vec<String> {
            let round = |text: &&String| text.split(' ').next().unwrap().parse::<u32>().unwrap();
            let mine = list.iter().filter(|text| round(text) % 2 == odd);
            // The rest of the text does not matter.
            mine.map(|text| format!("{:.6} {}", text, text.len()))
                .collect()
        };
        assert_eq!(of(&world.got), of(&sent));
    }
    world.theirs.send_bye();
    assert!(world.until(|w, _| w.ours.has_received_bye() && w.theirs.is_settled()));
}

#[test]
fn a_link_to_another_instance_begins_anew_also_over_a_local_socket() {
    let mut world = World::new(1, 0);
    world.ours.queue(&"first").unwrap();
    world.theirs.queue(&"second").unwrap();
    assert!(world.until(|w, _| w.got.len() == 2));
    assert!(world.theirs.take_new_peer() && !world.theirs.take_new_peer());
    // The other side ends, and the next one is found by a name.
    world.ours.detach(&world.reactor);
    world.theirs.queue(&"for who is gone").unwrap();
    let name = format!("rejoin-test-{}", std::process::id());
    let mut sockets = ListeningSockets::default();
    sockets.add_local(&name).unwrap();
    let key = JobKey::new([1; 32]);
    let kind = (KNOCK, 64);
    let listener = Listener::new(JOB, key.clone(), sockets, kind, 1, &world.reactor);
    world.listener = listener.unwrap();
    let whose = Whose {
        job: JOB,
        launch: 0,
        host: 3,
    };
    let address = vec![ManagerAddress::Local(name)];
    world.dialer = ManagerDialer::new(key, whose, address, Token::single(DIAL));
    world.ours = SessionLink::new(Token::single(OURS));
    world.wants = true;
    assert!(world.until(|w, _| w.theirs.take_new_peer()));
    world.theirs.queue(&"third").unwrap();
    world.ours.queue(&"fourth").unwrap();
    assert!(world.until(|w, _| w.got.len() == 4));
    world.got.sort();
    assert_eq!(world.got, ["first", "fourth", "second", "third"]);
}

#[test]
fn a_silent_connection_is_heard_when_it_is_probed() {
    let mut world = World::new(1, 0);
    assert!(world.until(|w, _| w.ours.is_connected() && w.theirs.is_connected()));
    let before = (world.ours.last_received(), world.theirs.last_received());
    world.theirs.probe();
    let heard = |w: &World| (w.ours.last_received(), w.theirs.last_received());
    assert!(world.until(|w, _| heard(w).0 > before.0 && heard(w).1 > before.1));
}

#[test]
fn who_does_not_have_the_key_gets_nothing() {
    let mut world = World::new(2, 0);
    world.theirs.queue(&"a secret").unwrap();
    let mut attempts = 0;
    let in_it = world.until(|w, dialed| {
        attempts += u32::from(w.dialer.trouble().contains("the job's key"));
        dialed != Dialed::Nothing || attempts > 20
    });
    assert!(in_it && attempts > 20 && world.got.is_empty() && !world.ours.is_connected());
}

#[test]
fn a_manager_of_an_earlier_launch_is_sent_away() {
    let mut world = World::new(1, 7);
    assert!(world.until(|_, dialed| dialed == Dialed::Dismissed));
    assert!(!world.ours.is_connected() && !world.theirs.is_connected());
}

#[test]
fn refusals_prove_no_end_before_patience_is_over() {
    let mut world = World::new(1, 0);
    assert!(world.until(|w, dialed| dialed == Dialed::Connected && w.dials > 0));
    // That address has no listener any more.
    let key = JobKey::new([1; 32]);
    world.listener = Listener::open(JOB, key, &lo(), (KNOCK, 64), &world.reactor).unwrap();
    world.theirs.detach(&world.reactor);
    world.wants = true;
    world.dials = 0;
    let tried = world.until(|w, dialed| {
        assert_eq!(dialed, Dialed::Nothing, "after {} refusals", w.dials);
        w.dials >= 25
    });
    assert!(tried && world.dialer.trouble().contains("refused"));
    world.dialer.end_after(Duration::from_secs(3));
    assert!(world.until(|_, dialed| dialed == Dialed::Dismissed));
}

#[test]
fn strangers_are_shown_out() {
    let mut world = World::new(1, 0);
    world.wants = false;
    let mut noise = TcpStream::connect(world.address()).unwrap();
    noise.write_all(&[0xff; 4096]).unwrap();
    noise.set_nonblocking(true).unwrap();
    let mut silent = TcpStream::connect(world.address()).unwrap();
    silent.set_nonblocking(true).unwrap();
    let gone = |stream: &mut TcpStream| match stream.read(&mut [0; 64]) {
        Ok(0) => true,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        Ok(_) => panic!("a stranger was told something"),
    };
    assert!(world.until(|_, _| gone(&mut noise)), "noise");
    // Others are served meanwhile.
    world.wants = true;
    assert!(world.until(|w, _| w.ours.is_connected()));
    let out = world.until(|w, _| {
        w.listener.drop_late(&w.reactor).unwrap();
        gone(&mut silent)
    });
    assert!(out, "one that says nothing");
}
