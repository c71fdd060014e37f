//! Several local managers' peers in one process, over loopback.

use super::*;
use rejoin_channel_table::{BusinessCard, Generation, Incarnation, Rank};
use rejoin_ckpt::image::ImageCompression;
use rejoin_managers_host::topology::places::Binding;
use rejoin_managers_net::auth::{self, CHALLENGE, HELLO};
use rejoin_managers_protocol::broadcast::Stamp;
use rejoin_managers_protocol::manager_messages::ProcessInstance;
use rejoin_wire::RankOptions;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Limit of a wait whose length does not matter.
const SOON: Duration = Duration::from_secs(20);

const JOB: JobId = JobId(7);

fn key() -> JobKey {
    JobKey::new([3; 32])
}

struct Node {
    peers: Peers,
    reactor: Reactor,
}

impl Node {
    /// One of a chain of three.
    fn new(position: u32) -> Node {
        let options = RankOptions {
            interface: Some("127.0.0.0/8".into()),
            ..RankOptions::default()
        };
        let place = TreePlace {
            position,
            sites: vec![3],
            fanout: 1,
            // This test does not concern time limits.
            patience: 600_000,
            launch: 2,
        };
        let plan = LaunchPlan {
            images: None,
            job: JOB,
            key: key(),
            size: 3,
            programs: Vec::new(),
            program_runs: Vec::new(),
            ranks: Vec::new(),
            options,
            binding: Binding::NONE,
            compression: ImageCompression::None,
            stdin: None,
            interactive: false,
            read_at_once: [false; 2],
            file_limit_ignored: false,
            lease: None,
            central: None,
            tree: Some(place.clone()),
            name: None,
            claim: None,
            from: None,
            accepts_external_state: false,
            copies: false,
            copy_group: 1,
            copy_rate: None,
            probes: None,
            lookups: false,
            health: None,
            leave_deadline: None,
        };
        let reactor = Reactor::new().expect("an epoll");
        let peers = Peers::new(&plan, place, &reactor);
        assert_eq!(peers.reach().seen_from(true).len(), 1);
        Node { peers, reactor }
    }

    /// One round of the driver's loop.
    fn turn(&mut self) {
        let mut tokens = Vec::new();
        let soon = Duration::from_millis(1);
        self.reactor.wait(Some(soon), &mut tokens).expect("waiting");
        for token in tokens {
            let reactor = &self.reactor;
            match token.kind {
                kind::PEERS => self.peers.called(token.index, reactor),
                kind::PEER_DIAL => self.peers.dialed(token, reactor),
                _ => self.peers.read(token, reactor),
            }
            .expect("an event");
        }
        self.peers.run_timers(&self.reactor).expect("tending");
    }

    fn given(&mut self, payload: &TreeOrder) {
        let give = BroadcastMessage::Forward {
            stamp: STAMP,
            whole: true,
            absent: Vec::new(),
            payload: payload.clone(),
        };
        self.peers
            .on_message(None, give, &self.reactor)
            .expect("a payload");
    }

    fn port(&self) -> SocketAddr {
        self.peers.reach().seen_from(true)[0]
    }
}

const STAMP: Stamp = Stamp {
    generation: Generation(1),
    run: 2,
    number: 1,
};

/// A manager at these addresses.
fn at(addresses: &[SocketAddr]) -> ManagerReach {
    ManagerReach::new(addresses.to_vec(), None)
}

fn start() -> ToLocal {
    ToLocal::Start {
        generation: Generation(1),
        table: Vec::new(),
        image: None,
    }
}

fn turns(nodes: &mut [Node], what: &str, mut done: impl FnMut(&[Node]) -> bool) {
    let end = Instant::now() + SOON;
    while !done(nodes) {
        assert!(Instant::now() < end, "{what}");
        nodes.iter_mut().for_each(Node::turn);
    }
}

fn got(missing: &[usize]) -> Vec<BroadcastMessage<TreeOrder>> {
    vec![BroadcastMessage::Acknowledge {
        stamp: STAMP,
        whole: true,
        missing: missing.to_vec(),
    }]
}

#[test]
fn a_word_goes_down_the_chain_and_the_answer_back() {
    let mut nodes = [0, 1, 2].map(Node::new);
    let addresses = nodes.iter().map(|n| at(&[n.port()])).collect();
    let payload = TreeOrder::new(addresses, &start()).expect("a payload");
    nodes[0].given(&payload);
    turns(&mut nodes, "an answer", |n| !n[0].peers.up.is_empty());
    assert_eq!(nodes[0].peers.up, got(&[]));
    for node in &nodes {
        assert_eq!(node.peers.orders, [start()]);
    }
    // An answer uses the link of the question.
    let links = |n: &Node| (n.peers.dialing.len(), n.peers.callers.len());
    assert_eq!(nodes.each_ref().map(links), [(1, 0), (1, 1), (0, 1)]);
}

#[test]
fn an_update_follows_the_table_and_needs_no_addresses() {
    let mut nodes = [0, 1, 2].map(Node::new);
    let addresses = nodes.iter().map(|n| at(&[n.port()])).collect();
    let update = ToLocal::Update {
        instance: ProcessInstance {
            generation: Generation(1),
            rank: Rank(0),
            incarnation: Incarnation(4),
        },
        card: BusinessCard::default(),
    };
    let table = TreeOrder::new(addresses, &start()).expect("a payload");
    let payload = TreeOrder::new(Vec::new(), &update).expect("a payload");
    nodes[0].given(&table);
    let give = BroadcastMessage::Forward {
        stamp: Stamp { number: 2, ..STAMP },
        whole: true,
        absent: Vec::new(),
        payload,
    };
    let first = &mut nodes[0];
    let heard = first.peers.on_message(None, give, &first.reactor);
    heard.expect("a payload");
    turns(&mut nodes, "two answers", |n| n[0].peers.up.len() == 2);
    for node in &nodes {
        assert_eq!(node.peers.orders, [start(), update.clone()]);
    }
}

#[test]
fn who_can_not_be_reached_is_named_and_gone_around() {
    let mut nodes = [0, 2].map(Node::new);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = nobody.local_addr().expect("its number");
    // It listens, and says nothing.
    let addresses = vec![
        at(&[nodes[0].port()]),
        at(&[silent]),
        at(&[nodes[1].port()]),
    ];
    let payload = TreeOrder::new(addresses, &start()).expect("a payload");
    nodes[0].given(&payload);
    turns(&mut nodes, "an answer", |n| !n[0].peers.up.is_empty());
    assert_eq!(nodes[0].peers.up, got(&[1]));
    assert_eq!(nodes[1].peers.orders, [start()]);
    // One that has no address is not even tried.
    let mut alone = Node::new(1);
    let payload = TreeOrder::new(Vec::new(), &start()).expect("a payload");
    alone.given(&payload);
    assert_eq!(alone.peers.up, got(&[2]));
    assert!(alone.peers.dialing.is_empty());
}

#[test]
fn a_manager_of_another_site_is_dialed_at_its_outer_address() {
    let mut near = Node::new(0);
    let mut far = Node::new(2);
    near.peers.place.sites = vec![2, 3];
    // At its own address another machine may listen.
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let other = other.local_addr().expect("its number");
    near.peers.addresses = vec![
        at(&[]),
        ManagerReach::new(vec![other], Some(far.port())),
        ManagerReach::new(vec![other], Some(far.port())),
    ];
    let question = lookup::LookupMessage::Unknown {
        generation: Generation(1),
        rank: Rank(2),
    };
    let across = PeerMessage::LookUp(question.clone());
    for to in [1, 2] {
        let sent = near.peers.send(to, &across, &near.reactor);
        assert!(sent.expect("no error"));
    }
    let end = Instant::now() + SOON;
    while far.peers.lookups.is_empty() {
        assert!(Instant::now() < end, "a question");
        near.turn();
        far.turn();
    }
    assert_eq!(far.peers.lookups, [(0, question)]);
    let tried = near.peers.dialing[&1].dialer.trouble();
    assert!(tried.contains(&other.to_string()), "{tried}");
}

#[test]
fn other_orders_do_not_come_this_way() {
    let mut node = Node::new(2);
    let payload = TreeOrder::new(Vec::new(), &ToLocal::Kill).expect("a payload");
    node.given(&payload);
    assert!(node.peers.orders.is_empty());
}

/// Calls a manager as one at a position, with this key. Returns the connection if it was taken in:
/// without that it is soon forgotten.
fn call(node: &mut Node, host: u32, launch: u32, key: &JobKey) -> Option<TcpStream> {
    let address = node.port();
    let whose = Whose {
        job: JOB,
        launch,
        host,
    };
    let key = key.clone();
    let caller = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("a connection");
        let hello: [u8; HELLO] = auth::hello(whose, &[9; 32]);
        let mut challenge = [0; CHALLENGE];
        stream.write_all(&hello).ok()?;
        stream.read_exact(&mut challenge).ok()?;
        let (nonce, _) = auth::read_challenge(&key, &hello, &challenge).ok()?;
        let proof = auth::proof(&key, &hello, &nonce, 0);
        stream.write_all(&proof).ok()?;
        let mut welcome = [0; auth::WELCOME];
        stream.read_exact(&mut welcome).ok()?;
        auth::read_welcome(&key, &hello, &nonce, &welcome).ok()??;
        Some(stream)
    });
    let end = Instant::now() + SOON;
    while !caller.is_finished() {
        assert!(Instant::now() < end, "an answer");
        node.turn();
    }
    caller.join().expect("the caller")
}

#[test]
fn only_members_of_the_tree_are_taken_in() {
    let mut node = Node::new(1);
    let right = peer_key(&key(), 2, 1);
    let first = call(&mut node, 0, 2, &right);
    assert!(first.is_some());
    for (host, launch, key) in [
        (0, 2, key()),
        (0, 2, peer_key(&key(), 2, 0)),
        (0, 1, right.clone()),
        (1, 2, right.clone()),
    ] {
        let taken = call(&mut node, host, launch, &key);
        assert!(taken.is_none(), "{host} {launch}");
    }
    let again = call(&mut node, 0, 2, &right);
    assert!(again.is_some(), "again");
    assert_eq!(node.peers.callers.len(), 1);
}

#[test]
fn a_question_goes_across_and_the_answer_comes_back_over_the_same_link() {
    let generation = Generation(1);
    let (rank, least) = (Rank(2), Incarnation(0));
    let question = lookup::LookupMessage::Where {
        generation,
        rank,
        least,
    };
    let answer = lookup::LookupMessage::Unknown { generation, rank };
    let mut nodes = [0, 2].map(Node::new);
    let ask = |node: &mut Node, to, message: &lookup::LookupMessage| {
        let across = PeerMessage::LookUp(message.clone());
        let sent = node.peers.send(to, &across, &node.reactor);
        sent.expect("no error")
    };
    // A manager without the addresses of the others cannot reach them.
    assert!(!ask(&mut nodes[0], 2, &question));
    let addresses = vec![at(&[nodes[0].port()]), at(&[]), at(&[nodes[1].port()])];
    nodes[0].peers.addresses = addresses;
    assert!(!ask(&mut nodes[0], 1, &question), "it has no address");
    assert!(ask(&mut nodes[0], 2, &question));
    turns(&mut nodes, "a question", |n| !n[1].peers.lookups.is_empty());
    assert_eq!(nodes[1].peers.lookups, [(0, question)]);
    assert!(ask(&mut nodes[1], 0, &answer));
    turns(&mut nodes, "an answer", |n| !n[0].peers.lookups.is_empty());
    assert_eq!(nodes[0].peers.lookups, [(2, answer)]);
    assert!(nodes[1].peers.dialing.is_empty());
}
