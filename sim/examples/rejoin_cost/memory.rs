//! What the managers' cores hold for a job of so many ranks, and how long a step of central takes.

use crate::{Done, PER_HOST};
use rejoin_channel_table::{Epoch, Generation, ImageId, Incarnation, MoveNumber, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Job, MoveRequest, Movers, Recovery,
};
use rejoin_managers_protocol::checkpoint::Interval;
use rejoin_managers_protocol::local::{Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::manager_messages::{
    FileMessage, ImageMessage, MoveMessage, ProcessInstance, ProcessMessage, RankMoveOrder, Time,
    ToCentral, ToLocal,
};
use rejoin_sim::table_distribution::card;
use rejoin_wire::{ImageCost, Limits, ProcessMap, ToManager, VERSION};
use std::process::Command;
use std::time::{Duration, Instant};

/// Local managers whose memory is measured together: one is less than what the system rounds to.
const MANAGERS: u32 = 20;

/// What one process holds, in bytes, and central's two long steps of a move in nanoseconds.
pub struct Memory {
    pub ranks: u32,
    pub central: u64,
    pub local: u64,
    /// The request: central plans the move.
    pub request: u64,
    /// The new process has registered: central sends the update.
    pub update: u64,
}

/// The word before the number of ranks with which this program measures for one job.
const ALONE: &str = "memory";

/// If this process is to measure for one job: does that, and returns true.
pub fn measured_alone() -> Done<bool> {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() != Some(ALONE) {
        return Ok(false);
    }
    let ranks = args.next().ok_or("how many ranks?")?.parse()?;
    let m = measure(ranks)?;
    println!("{} {} {} {}", m.central, m.local, m.request, m.update);
    Ok(true)
}

/// Measures in a process of its own: what one job has freed, the next would use.
pub fn memory_of(ranks: u32) -> Done<Memory> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args([ALONE, &ranks.to_string()]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map_while(|n| n.parse().ok())
        .collect();
    let [central, local, request, update] = numbers[..] else {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{ranks} ranks: {text}{why}").into());
    };
    Ok(Memory {
        ranks,
        central,
        local,
        request,
        update,
    })
}

fn measure(ranks: u32) -> Done<Memory> {
    // In a thread, which has a heap of its own: what it frees is not used below.
    let process_map = std::thread::spawn(move || {
        let place = |rank: usize| rank / PER_HOST as usize;
        let entry = |rank: u32| (Incarnation(0), card(rank, place(rank as usize)));
        let table: Vec<_> = (0..ranks).map(entry).collect();
        ProcessMap::of(&table, place)
    });
    let process_map = process_map.join().map_err(|_| "no process map")?;
    let before = resident()?;
    let locals: Vec<Local> = (0..MANAGERS)
        .map(|number| local(number, ranks, &process_map))
        .collect();
    let local = resident()?.saturating_sub(before) / u64::from(MANAGERS);
    let before = resident()?;
    let mut central = central(ranks);
    let held = resident()?.saturating_sub(before);
    let [request, update] = steps_of_move(&mut central, 0)?;
    drop(locals);
    Ok(Memory {
        ranks,
        central: held,
        local,
        request,
        update,
    })
}

/// Bytes of this process that are in memory.
fn resident() -> Done<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let resident = pages.split_whitespace().nth(1).ok_or("no second field")?;
    Ok(resident.parse::<u64>()? * 4096)
}

fn instance(rank: u32) -> ProcessInstance {
    ProcessInstance {
        generation: Generation(0),
        rank: Rank(rank),
        incarnation: Incarnation(0),
    }
}

fn registered(instance: ProcessInstance, host: usize) -> ToCentral {
    ToCentral::Process(ProcessMessage::Registered {
        instance,
        pid: 100_000 + instance.rank.0,
        card: card(instance.rank.0, host),
        limits: Limits::default(),
    })
}

fn timed(central: &mut Central, input: CentralInput) -> (Duration, Vec<CentralEffect>) {
    let mut effects = Vec::new();
    let begun = Instant::now();
    central.step(Time(1), input, &mut effects);
    (begun.elapsed(), effects)
}

/// A rank of the first host moves to the second one. Returns the nanoseconds of the steps with the
/// request, and with the registration of the new process.
fn steps_of_move(central: &mut Central, rank: u32) -> Done<[u64; 2]> {
    let (host, to) = (0, 1);
    let request = MoveRequest {
        id: u64::from(rank) + 1,
        movers: Movers::Ranks(vec![Rank(rank)]),
        to: Some(to),
    };
    let (requested, effects) = timed(central, CentralInput::Move(request));
    let number = effects.iter().find_map(|effect| match effect {
        CentralEffect::Send(_, ToLocal::Move(RankMoveOrder::Move { number, .. })) => Some(*number),
        _ => None,
    });
    let first = number.ok_or("central orders no move")?;
    let second = MoveNumber::next(Some(first), first.after);
    let of = Rank(rank);
    let stored = |number| {
        ToCentral::File(FileMessage::Stored {
            rank: of,
            image: ImageId::Move(number),
        })
    };
    // A copy ahead is stored and loaded; then the rank stops, and its last image is stored.
    let loaded = ToCentral::Move(MoveMessage::Loaded {
        rank: of,
        number: first,
        bytes: 0,
    });
    for (from, said) in [(host, stored(first)), (to, loaded), (host, stored(second))] {
        timed(central, CentralInput::Local(from, said));
    }
    let moved = ProcessInstance {
        incarnation: Incarnation(1),
        ..instance(rank)
    };
    let arrives = CentralInput::Local(to, registered(moved, to));
    let (updated, effects) = timed(central, arrives);
    let is_update = |effect: &CentralEffect| {
        matches!(effect, CentralEffect::SendAll(_, ToLocal::Update { .. }))
    };
    if !effects.iter().any(is_update) {
        return Err("central sends no update".into());
    }
    Ok([requested, updated].map(|time| time.as_nanos() as u64))
}

/// Central of a job whose ranks run, and have images.
fn central(ranks: u32) -> Central {
    let hosts = ranks.div_ceil(PER_HOST) as usize;
    let mut central = Central::new(Job {
        hosts: (0..hosts).map(|n| format!("node{n:05}")).collect(),
        placement: (0..ranks).map(|rank| (rank / PER_HOST) as usize).collect(),
        recovery: Some(Recovery {
            interval: Interval::Asked,
            ..Recovery::default()
        }),
        ..Job::default()
    });
    timed(&mut central, CentralInput::Begin);
    let host = |rank: u32| (rank / PER_HOST) as usize;
    for rank in 0..ranks {
        let said = registered(instance(rank), host(rank));
        timed(&mut central, CentralInput::Local(host(rank), said));
    }
    for rank in 0..ranks {
        let said = ToCentral::Image(ImageMessage::Taken {
            instance: instance(rank),
            image: ImageId::Checkpoint(Epoch(1)),
            cost: ImageCost::default(),
        });
        timed(&mut central, CentralInput::Local(host(rank), said));
    }
    central
}

/// A local manager whose ranks run and have no table.
fn local(number: u32, ranks: u32, process_map: &ProcessMap) -> Local {
    let mut local = Local::new();
    local.use_lookups(number as usize, ranks);
    let generation = Generation(0);
    let first = number * PER_HOST;
    let own: Vec<u32> = (first..(first + PER_HOST).min(ranks)).collect();
    let spawn = ToLocal::Spawn {
        generation,
        ranks: own
            .iter()
            .map(|rank| (Rank(*rank), Incarnation(0)))
            .collect(),
        from: None,
        regions: None,
        moved: Vec::new(),
    };
    let mut step = |input| {
        let mut effects: Vec<LocalEffect> = Vec::new();
        local.step(Time(0), input, &mut effects);
    };
    step(LocalInput::Central(spawn));
    for rank in own {
        let pid = 100_000 + rank;
        let (rank, incarnation) = (Rank(rank), Incarnation(0));
        step(LocalInput::Spawned(rank, incarnation, pid));
        let register = ToManager::Register {
            rank,
            incarnation,
            pid,
            card: card(rank.0, number as usize),
            version: VERSION,
            limits: Limits::default(),
        };
        step(LocalInput::FromRank(rank, incarnation, pid, register));
    }
    step(LocalInput::Central(ToLocal::Begin {
        generation,
        process_map: process_map.clone(),
        image: None,
    }));
    local
}
