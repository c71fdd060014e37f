//! Ranks of a large job have no cards at their start: they ask for those that they need.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rejoin_channel_table::{BusinessCard, Generation, Incarnation, Rank};
use rejoin_device::testing::{self, ManagerEnd, envelope, from, recv, send, welcome};
use rejoin_device::{Device, Options};
use rejoin_wire::ProcessMap;
use rejoin_wire::codec::{FrameReader, RANK_LIMIT};
use rejoin_wire::{FromManager, ToManager};

type Table = Vec<(Incarnation, BusinessCard)>;

/// The answer to the rank's question of this number.
type Answer = fn(usize, &Table, Rank) -> Option<FromManager>;

fn card(generation: u32, table: &Table, rank: Rank) -> FromManager {
    let (incarnation, card) = table[rank.index()].clone();
    FromManager::Card {
        generation: Generation(generation),
        rank,
        incarnation,
        card,
    }
}

/// Serves a rank from its start to its end. Returns the ranks whose cards it requested.
fn serve(mut line: ManagerEnd, table: &Table, answer: Answer, all: &Barrier) -> Vec<Rank> {
    let mut asked = Vec::new();
    loop {
        match line.receive() {
            Some(ToManager::LookUp { rank, least }) => {
                assert_eq!(least, table[rank.index()].0);
                asked.push(rank);
                if let Some(said) = answer(asked.len(), table, rank) {
                    line.send(&said);
                }
            }
            Some(ToManager::Finalizing) => {
                all.wait();
                line.send(&FromManager::AllFinalized {
                    generation: Generation(0),
                });
            }
            Some(ToManager::Leave) | None => return asked,
            other => panic!("{other:?}"),
        }
    }
}

/// A job of ranks that run this function and have only their own card. Returns their results, and
/// the ranks whose cards each requested.
fn job<T: Send + 'static>(
    size: u32,
    options: &Options,
    answer: Answer,
    body: fn(&mut Device) -> T,
) -> (Vec<T>, Vec<Vec<Rank>>) {
    let mut ranks: Vec<JoinHandle<T>> = Vec::new();
    let mut lines = Vec::new();
    for rank in 0..size {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let mut line = ManagerEnd {
            socket: ours,
            reader: FrameReader::new(RANK_LIMIT),
        };
        line.send(&welcome(rank, size, size));
        lines.push(line);
        let options = options.clone();
        ranks.push(thread::spawn(move || {
            let mut device = Device::with_manager(theirs.into(), options).expect("a device");
            body(&mut device)
        }));
    }
    let registered = |line: &mut ManagerEnd| match line.receive() {
        Some(ToManager::Register { card, .. }) => (Incarnation(0), card),
        other => panic!("a registration, not {other:?}"),
    };
    let table: Arc<Table> = Arc::new(lines.iter_mut().map(registered).collect());
    let all = Arc::new(Barrier::new(size as usize));
    let served: Vec<_> = (0..)
        .map(Rank)
        .zip(lines)
        .map(|(rank, mut line)| {
            line.send(&FromManager::Begin {
                generation: Generation(0),
                process_map: ProcessMap::of(&table, |rank| rank),
                cards: vec![(rank, table[rank.index()].1.clone())],
                image: None,
            });
            let (table, all) = (Arc::clone(&table), Arc::clone(&all));
            thread::spawn(move || serve(line, &table, answer, &all))
        })
        .collect();
    let results = ranks.into_iter().map(|r| r.join().expect("a rank"));
    let results = results.collect();
    let asked = served.into_iter().map(|s| s.join().expect("a manager"));
    (results, asked.collect())
}

/// The larger rank sends to the smaller one, which answers.
fn ping(device: &mut Device) -> u64 {
    let (me, mut byte) = (device.rank().0, [0]);
    assert_eq!(device.host_of(Rank(1 - me)), format!("host{}", 1 - me));
    let locality = device.locality();
    assert_eq!(locality.host(Rank(0)), locality.host(Rank(1)));
    if me == 1 {
        send(device, 0, 1, &[7]);
        recv(device, from(0, 2), &mut byte);
    } else {
        recv(device, from(1, 1), &mut byte);
        send(device, 1, 2, &[byte[0] + 1]);
    }
    assert_eq!(byte[0], [7, 8][me as usize]);
    testing::end(device).expect("finalized");
    device.stats().lookups
}

#[test]
fn a_card_is_asked_for_when_it_is_needed() {
    let answer: Answer = |_, table, rank| Some(card(0, table, rank));
    let (counted, asked) = job(2, &Options::default(), answer, ping);
    // An accepting rank needs no card of the dialer.
    assert_eq!(asked, [vec![], vec![Rank(0)]]);
    assert_eq!(counted, [0, 1]);
}

#[test]
fn an_answer_that_is_lost_or_of_another_generation_is_asked_for_again() {
    let answer: Answer = |times, table, rank| match times {
        1 => None,
        2 => Some(card(9, table, rank)),
        _ => Some(card(0, table, rank)),
    };
    let (_, asked) = job(2, &Options::default(), answer, ping);
    assert_eq!(asked, [vec![], vec![Rank(0); 3]]);
}

#[test]
fn a_card_that_does_not_come_is_an_error_that_says_so() {
    let options = Options {
        connect_timeout: Duration::from_millis(1500),
        ..Options::default()
    };
    let (said, asked) = job(
        2,
        &options,
        |_, _, _| None,
        |device| {
            if device.rank() == Rank(0) {
                return String::new();
            }
            let env = envelope(device, 1);
            // SAFETY: the byte outlives the device's use of it: this rank ends with the error.
            let sent = unsafe { device.send(Rank(0), env, [7].as_ptr(), 1) };
            assert!(sent.expect("it is retained").is_none(), "small");
            loop {
                if let Err(error) = device.wait(None, None) {
                    return error.to_string();
                }
            }
        },
    );
    assert!(asked[1].len() > 1, "{asked:?}");
    for part in ["rank 0 on host host0", "business card", "asked", "send"] {
        assert!(said[1].contains(part), "{part} in {said:?}");
    }
}
