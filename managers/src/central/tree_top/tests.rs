//! Tests of central's part of the tree.

use super::*;
use crate::launch::machines::{Machine, Machines};
use rejoin_channel_table::{BusinessCard, Epoch, Incarnation, LanId, Rank};
use rejoin_managers_protocol::broadcast::MOST;
use rejoin_managers_protocol::manager_messages::{ImageOrder, ProcessInstance};
use rejoin_wire::ProcessMap;

const GENERATION: Generation = Generation(1);

/// A job with ranks on these hosts, of which each has one below it, at these sites. mpirun is
/// elsewhere.
fn tree(placement: &[HostIndex], sites: &[&str]) -> JobTree {
    let mut machines = Machines::only("x".into(), 0);
    let machine = |site: &&str| Machine {
        name: "x".into(),
        here: false,
        lost: false,
        slots: 1,
        lan: LanId((*site).into()),
        advertised: None,
    };
    machines.hosts = sites.iter().map(machine).collect();
    machines.placement = placement.to_vec();
    let tree = JobTree::new(&machines, placement.len() as u32, 0);
    tree.expect("no error").expect("a tree")
}

/// Three hosts of a site, of which number 1 has no ranks. The first tells the second.
fn top() -> Top {
    Top::new(&tree(&[0, 2, 3], &["a"; 4]), TREES, &[0, 2, 3], false)
}

fn cast(top: &mut Top) -> Outgoing {
    let order = ToLocal::AllFinalized {
        generation: GENERATION,
    };
    let sent = top.cast(Time(0), GENERATION, &order);
    sent.expect("no error").expect("it goes down the tree")
}

fn got(out: &Outgoing, missing: Vec<usize>) -> BroadcastMessage<TreeOrder> {
    let BroadcastMessage::Forward { stamp, whole, .. } = out[0].1 else {
        panic!("no message: {out:?}");
    };
    BroadcastMessage::Acknowledge {
        stamp,
        whole,
        missing,
    }
}

fn on_report(
    top: &mut Top,
    now: u64,
    host: HostIndex,
    message: BroadcastMessage<TreeOrder>,
) -> Outgoing {
    let out = top.on_report(Time(now), host, message);
    out.expect("no error")
}

fn update(number: u32) -> ToLocal {
    ToLocal::Update {
        instance: ProcessInstance {
            generation: GENERATION,
            rank: Rank(0),
            incarnation: Incarnation(number),
        },
        card: BusinessCard::default(),
    }
}

fn at(address: &str) -> ManagerReach {
    ManagerReach::new(vec![address.parse().expect("an address")], None)
}

/// How many managers' addresses a message carries.
fn addresses(out: &Outgoing) -> usize {
    let BroadcastMessage::Forward { payload, .. } = &out[0].1 else {
        panic!("no message: {out:?}");
    };
    payload.addresses().len()
}

#[test]
fn an_update_carries_addresses_only_until_all_hosts_have_them() {
    let mut top = top();
    top.listens(2, at("10.0.0.1:99"));
    let send = |top: &mut Top, number| {
        let sent = top.cast(Time(0), GENERATION, &update(number));
        sent.expect("no error").expect("it goes down the tree")
    };
    let first = send(&mut top, 1);
    assert_eq!(addresses(&first), 4);
    // Some host may not have the first.
    assert_eq!(addresses(&send(&mut top, 2)), 4);
    on_report(&mut top, 1, 0, got(&first, Vec::new()));
    assert_eq!(addresses(&send(&mut top, 3)), 0);
    top.listens(2, at("10.0.0.1:98"));
    assert_eq!(addresses(&send(&mut top, 4)), 4);
}

#[test]
fn many_updates_wait_for_each_other_and_a_checkpoint_for_all() {
    let mut top = top();
    let count = 3 * MOST;
    let mut sent = Outgoing::new();
    for number in 0..count {
        let out = top.cast(Time(0), GENERATION, &update(number as u32));
        sent.extend(out.expect("no error").expect("it goes down the tree"));
    }
    assert_eq!(sent.len(), MOST);
    let checkpoint = ToLocal::Image(ImageOrder::Checkpoint {
        generation: GENERATION,
        epoch: Epoch(2),
    });
    let held = top.cast(Time(0), GENERATION, &checkpoint);
    assert!(held.expect("no error").is_some_and(|out| out.is_empty()));
    for number in 0..count {
        let one = vec![sent[number].clone()];
        sent.extend(on_report(&mut top, 1, 0, got(&one, Vec::new())));
    }
    let order = |(_, message): &(HostIndex, BroadcastMessage<TreeOrder>)| match message {
        BroadcastMessage::Forward { payload, .. } => payload.order().expect("an order"),
        BroadcastMessage::Acknowledge { .. } => panic!("an answer"),
    };
    let arrived: Vec<ToLocal> = sent.iter().map(order).collect();
    let all: Vec<ToLocal> = (0..count as u32).map(update).chain([checkpoint]).collect();
    assert_eq!(arrived, all);
}

#[test]
fn an_order_to_checkpoint_waits_for_the_table() {
    let mut top = top();
    let order = |generation| {
        ToLocal::Image(ImageOrder::Checkpoint {
            generation,
            epoch: Epoch(2),
        })
    };
    let ask = |top: &mut Top, generation| {
        let out = top.cast(Time(0), generation, &order(generation));
        out.expect("no error").expect("it goes down the tree")
    };
    let at_once = ask(&mut top, GENERATION);
    assert_eq!(at_once.len(), 1, "nothing is under way");
    assert!(on_report(&mut top, 1, 0, got(&at_once, Vec::new())).is_empty());
    let table = cast(&mut top);
    assert_eq!((table.len(), table[0].0), (1, 0));
    assert!(ask(&mut top, GENERATION).is_empty());
    let then = on_report(&mut top, 1, 0, got(&table, Vec::new()));
    let BroadcastMessage::Forward { payload, .. } = &then[0].1 else {
        panic!("no message: {then:?}");
    };
    assert_eq!(payload.order(), Ok(order(GENERATION)));
    // A rollback drops it.
    assert!(ask(&mut top, GENERATION).is_empty());
    let next = GENERATION.next();
    let table = top.cast(Time(0), next, &ToLocal::AllFinalized { generation: next });
    let table = table.expect("no error").expect("it goes down the tree");
    assert!(on_report(&mut top, 1, 0, got(&table, Vec::new())).is_empty());
}

#[test]
fn a_lost_host_is_replaced_before_the_next_message_and_a_new_one_comes_in_with_a_generation() {
    // Two hosts near central, and a site with a host without ranks.
    let sites = ["", "far", "far", "far"];
    let used = [0, 1, 2];
    let mut top = Top::new(&tree(&used, &sites), TREES, &used, false);
    let send = |top: &mut Top, generation| {
        let order = ToLocal::AllFinalized { generation };
        let out = top.cast(Time(0), generation, &order);
        out.expect("no error").expect("it goes down the tree")
    };
    let hosts = |out: &Outgoing| out.iter().map(|(host, _)| *host).collect::<Vec<_>>();
    let first = send(&mut top, GENERATION);
    assert_eq!(hosts(&first), [0, 1]);
    // The message under way goes to the host below the lost one.
    assert_eq!(hosts(&top.lost(Time(1), 1).expect("no error")), [2]);
    top.listens(3, at("10.0.0.3:99"));
    assert!(!top.reaches(3), "it is told directly");
    // While it is under way, the tree stays.
    assert_eq!(hosts(&send(&mut top, GENERATION)), [0, 2]);
    for number in [1, 2] {
        for host in [0, 2] {
            let stamp = Stamp {
                number,
                ..stamp_of(&first)
            };
            let (whole, missing) = (true, Vec::new());
            let got = BroadcastMessage::Acknowledge {
                stamp,
                whole,
                missing,
            };
            on_report(&mut top, 2, host, got);
        }
    }
    let next = send(&mut top, GENERATION);
    assert_eq!(hosts(&next), [0, 2]);
    assert!(stamp_of(&next).run > stamp_of(&first).run, "another tree");
    assert!(!top.reaches(1) && !top.reaches(3));
    let next = send(&mut top, GENERATION.next());
    assert_eq!(
        hosts(&next),
        [0, 2],
        "the first of the site tells the new one"
    );
    assert!(top.reaches(3) && !top.reaches(1));
}

fn stamp_of(out: &Outgoing) -> Stamp {
    match &out[0].1 {
        BroadcastMessage::Forward { stamp, .. } => *stamp,
        BroadcastMessage::Acknowledge { .. } => panic!("an answer"),
    }
}

#[test]
fn a_host_that_is_named_as_missing_gets_the_table_once() {
    let mut top = top();
    let out = cast(&mut top);
    let to = on_report(&mut top, 1, 0, got(&out, vec![1]));
    assert_eq!(to.iter().map(|(host, _)| *host).collect::<Vec<_>>(), [2]);
    let due = top.deadline().expect("it waits for the answer");
    assert!(
        top.tick(due).expect("no error").is_empty(),
        "the link has it already"
    );
    assert!(top.deadline().is_some_and(|at| at > due));
    assert!(top.lost(due, 2).expect("no error").is_empty());
    assert_eq!(top.deadline(), None);
}

#[test]
fn ranks_begin_ahead_of_the_table_and_central_answers_for_who_does_not_know() {
    // Host 1 has no ranks, the first two are on host 2.
    let placement = [2, 2, 0];
    let mut top = Top::new(&tree(&placement, &["a"; 3]), TREES, &placement, true);
    let card = |pid| BusinessCard {
        pid,
        ..BusinessCard::default()
    };
    let table: Vec<_> = (0..3)
        .map(|pid| (Incarnation(4), Arc::new(card(pid))))
        .collect();
    let order = ToLocal::Start {
        generation: GENERATION,
        table: table.clone(),
        image: Some(Epoch(1)),
    };
    let sent = top.cast(Time(0), GENERATION, &order);
    let sent = sent.expect("no error").expect("it goes down the tree");
    let orders = sent.iter().map(|(host, message)| match message {
        BroadcastMessage::Forward { payload, .. } => (*host, payload.order().expect("an order")),
        BroadcastMessage::Acknowledge { .. } => panic!("an answer"),
    });
    let orders: Vec<_> = orders.collect();
    let ahead = ToLocal::Begin {
        generation: GENERATION,
        process_map: ProcessMap::of(&table, |rank| [1, 1, 0][rank]),
        image: Some(Epoch(1)),
    };
    assert_eq!(orders, [(0, ahead), (0, order)]);
    let ask = |rank, least| LookupMessage::Where {
        generation: GENERATION,
        rank,
        least: Incarnation(least),
    };
    let here = LookupMessage::Here {
        generation: GENERATION,
        rank: Rank(1),
        incarnation: Incarnation(4),
        card: card(1),
    };
    assert_eq!(top.answer_lookup(Time(1), 2, ask(Rank(1), 4)), Some(here));
    for (rank, least) in [(Rank(1), 5), (Rank(3), 0), (Rank(u32::MAX), 0)] {
        let generation = GENERATION;
        let unknown = LookupMessage::Unknown { generation, rank };
        assert_eq!(
            top.answer_lookup(Time(1), 2, ask(rank, least)),
            Some(unknown)
        );
    }
    // A checkpoint waits until all have begun, not for the table.
    let checkpoint = ToLocal::Image(ImageOrder::Checkpoint {
        generation: GENERATION,
        epoch: Epoch(2),
    });
    let asked = top.cast(Time(2), GENERATION, &checkpoint);
    assert!(asked.expect("no error").is_some_and(|out| out.is_empty()));
    let then = on_report(&mut top, 2, 0, got(&sent, Vec::new()));
    assert_eq!(then.len(), 1, "the request");
    assert!(top.deadline().is_some(), "the table is under way");
}
