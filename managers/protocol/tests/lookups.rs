//! The local manager's core in a job whose ranks look cards up.

mod local_steps;

use local_steps::{at, steps};
use rejoin_channel_table::{
    BusinessCard, Epoch, Generation, ImageId, Incarnation, MoveNumber, Rank,
};
use rejoin_managers_protocol::local::{Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::lookup::{LookupMessage, PATIENCE};
use rejoin_managers_protocol::manager_messages::{
    Cause, MovedRank, ProcessInstance, ProcessMessage, Time, ToCentral, ToLocal,
};
use rejoin_wire::ProcessMap;
use rejoin_wire::{FromManager, Limits, ToManager, VERSION};
use std::sync::Arc;

const GENERATION: Generation = Generation(0);
const FIRST: Incarnation = Incarnation(0);
/// The rank of the tested host, which is at position 0, and the rank of another host.
const HERE: Rank = Rank(0);
const THERE: Rank = Rank(1);

fn card(rank: Rank) -> BusinessCard {
    BusinessCard {
        host: format!("host{rank}"),
        pid: 100 + rank.0,
        ..BusinessCard::default()
    }
}

fn table() -> Vec<(Incarnation, Arc<BusinessCard>)> {
    [HERE, THERE].map(|rank| (FIRST, card(rank).into())).into()
}

/// The same with this process of [`HERE`].
fn table_with(here: Incarnation) -> Vec<(Incarnation, Arc<BusinessCard>)> {
    let mut table = table();
    table[0].0 = here;
    table
}

fn process_map() -> ProcessMap {
    ProcessMap::of(&table(), |rank| rank)
}

fn said(message: ToManager) -> LocalInput {
    LocalInput::FromRank(HERE, FIRST, 10, message)
}

fn asks(rank: Rank) -> LocalInput {
    said(ToManager::LookUp { rank, least: FIRST })
}

/// A core whose rank has registered.
fn registered(lookups: bool) -> Local {
    let mut core = Local::new();
    if lookups {
        core.use_lookups(0, 2);
    }
    let spawn = ToLocal::Spawn {
        generation: GENERATION,
        regions: None,
        ranks: vec![(HERE, FIRST)],
        from: None,
        moved: Vec::new(),
    };
    let register = ToManager::Register {
        rank: HERE,
        incarnation: FIRST,
        pid: 10,
        card: card(HERE),
        version: VERSION,
        limits: Limits::default(),
    };
    let inputs = vec![
        LocalInput::Central(spawn),
        LocalInput::Spawned(HERE, FIRST, 10),
        said(register),
    ];
    steps(&mut core, inputs);
    core
}

fn begin() -> LocalInput {
    LocalInput::Central(ToLocal::Begin {
        generation: GENERATION,
        process_map: process_map(),
        image: None,
    })
}

fn start() -> LocalInput {
    LocalInput::Central(ToLocal::Start {
        generation: GENERATION,
        table: table(),
        image: None,
    })
}

/// One whose rank has begun.
fn begun() -> Local {
    let mut core = registered(true);
    let effects = steps(&mut core, vec![begin()]);
    let expected = FromManager::Begin {
        generation: GENERATION,
        process_map: process_map(),
        cards: vec![(HERE, card(HERE))],
        image: None,
    };
    assert_eq!(effects, [LocalEffect::Ranks(vec![HERE], expected)]);
    core
}

fn question(rank: Rank) -> LookupMessage {
    LookupMessage::Where {
        generation: GENERATION,
        rank,
        least: FIRST,
    }
}

fn here(rank: Rank, generation: Generation) -> LookupMessage {
    LookupMessage::Here {
        generation,
        rank,
        incarnation: FIRST,
        card: card(rank),
    }
}

fn told() -> LocalEffect {
    let card = FromManager::Card {
        generation: GENERATION,
        rank: THERE,
        incarnation: FIRST,
        card: card(THERE),
    };
    LocalEffect::Ranks(vec![HERE], card)
}

fn misbehaved(effects: &[LocalEffect], text: &str) {
    let [
        LocalEffect::Central(ToCentral::Process(ProcessMessage::Failed {
            cause: Cause::Misbehaved { why },
            ..
        })),
    ] = effects
    else {
        panic!("{effects:?}");
    };
    assert!(why.contains(text), "{why}");
}

#[test]
fn a_question_goes_to_the_peers_manager_and_the_answer_to_the_rank() {
    let mut core = begun();
    let effects = steps(&mut core, vec![asks(THERE)]);
    assert_eq!(effects, [LocalEffect::LookUp(Some(1), question(THERE))]);
    let stale = LocalInput::LookedUp(Some(1), here(THERE, Generation(7)));
    assert_eq!(steps(&mut core, vec![stale]), []);
    let answer = LocalInput::LookedUp(Some(1), here(THERE, GENERATION));
    assert_eq!(steps(&mut core, vec![answer]), [told()]);
    // The next one is answered at once, as are those about ranks of this host.
    assert_eq!(steps(&mut core, vec![asks(THERE)]), [told()]);
}

#[test]
fn who_does_not_answer_is_done_without() {
    let mut core = begun();
    steps(&mut core, vec![asks(THERE)]);
    let due = Time(0).plus_millis(PATIENCE);
    assert_eq!(core.deadline(), Some(due));
    let effects = at(&mut core, due, vec![LocalInput::Tick]);
    assert_eq!(effects, [LocalEffect::LookUp(None, question(THERE))]);
    let answer = LocalInput::LookedUp(None, here(THERE, GENERATION));
    assert_eq!(at(&mut core, due, vec![answer]), [told()]);
    assert_eq!(core.deadline(), None);
}

#[test]
fn the_table_answers_all_questions() {
    let mut core = begun();
    steps(&mut core, vec![asks(THERE)]);
    // No rank waits for the start any more.
    let effects = steps(&mut core, vec![start()]);
    assert_eq!(effects, [told()]);
    assert_eq!(core.deadline(), None);
}

#[test]
fn without_a_word_ahead_the_table_lets_ranks_begin() {
    let mut core = registered(true);
    let effects = steps(&mut core, vec![start()]);
    let [
        LocalEffect::Ranks(
            to,
            FromManager::Begin {
                process_map, cards, ..
            },
        ),
    ] = &effects[..]
    else {
        panic!("{effects:?}");
    };
    assert_eq!(
        (&to[..], &cards[..]),
        (&[HERE][..], &[(HERE, card(HERE))][..])
    );
    let book = process_map.clone().book(2).expect("a book");
    assert_eq!(book.host(THERE), Some("host1"));
    assert_eq!(steps(&mut core, vec![asks(THERE)]), [told()]);
}

#[test]
fn others_are_answered_before_the_start_and_after_it() {
    let asked = || LocalInput::LookedUp(Some(1), question(HERE));
    let answer = || LocalEffect::LookUp(Some(1), here(HERE, GENERATION));
    let mut core = registered(true);
    assert_eq!(steps(&mut core, vec![asked()]), [answer()]);
    let unknown = |rank, generation| LookupMessage::Unknown { generation, rank };
    let later = LookupMessage::Where {
        generation: Generation(1),
        rank: HERE,
        least: FIRST,
    };
    let inputs = vec![
        LocalInput::LookedUp(Some(1), later),
        LocalInput::LookedUp(Some(1), question(THERE)),
    ];
    let expected = [
        LocalEffect::LookUp(Some(1), unknown(HERE, Generation(1))),
        LocalEffect::LookUp(Some(1), unknown(THERE, GENERATION)),
    ];
    assert_eq!(steps(&mut core, inputs), expected);
    let mut core = begun();
    assert_eq!(steps(&mut core, vec![asked()]), [answer()]);
}

#[test]
fn after_a_rollback_the_manager_of_the_next_place_is_asked() {
    let mut core = begun();
    // The host of the other rank is lost, and this rank goes back as well.
    let (generation, back) = (Generation(1), Incarnation(1));
    let restore = ToLocal::Restore {
        generation,
        regions: None,
        from: None,
        ranks: vec![(HERE, back)],
        moved: Vec::new(),
    };
    let register = ToManager::Register {
        rank: HERE,
        incarnation: back,
        pid: 11,
        card: card(HERE),
        version: VERSION,
        limits: Limits::default(),
    };
    let begin = ToLocal::Begin {
        generation,
        process_map: ProcessMap::of(&table_with(back), |rank| [0, 5][rank]),
        image: None,
    };
    let inputs = vec![
        LocalInput::Central(restore),
        LocalInput::Retired(HERE, FIRST),
        LocalInput::Spawned(HERE, back, 11),
        LocalInput::FromRank(HERE, back, 11, register),
        LocalInput::Central(begin),
    ];
    steps(&mut core, inputs);
    let (rank, least) = (THERE, FIRST);
    let asks = LocalInput::FromRank(HERE, back, 11, ToManager::LookUp { rank, least });
    let question = LookupMessage::Where {
        generation,
        rank,
        least,
    };
    let asked = LocalEffect::LookUp(Some(5), question);
    assert_eq!(steps(&mut core, vec![asks]), [asked]);
}

/// The process that [`THERE`] has after a move.
const ARRIVAL: Incarnation = Incarnation(1);

/// A core whose rank has begun, and to whose host another one is about to move: its process has
/// registered.
fn with_an_arrival() -> Local {
    let mut core = begun();
    let restore = ToLocal::Restore {
        generation: GENERATION,
        regions: None,
        from: Some(ImageId::Move(MoveNumber::next(None, Epoch(1)))),
        ranks: vec![(THERE, ARRIVAL)],
        moved: vec![MovedRank {
            rank: THERE,
            holder: None,
            others: Vec::new(),
        }],
    };
    let register = ToManager::Register {
        rank: THERE,
        incarnation: ARRIVAL,
        pid: 12,
        card: card(THERE),
        version: VERSION,
        limits: Limits::default(),
    };
    let inputs = vec![
        LocalInput::Central(restore),
        LocalInput::Spawned(THERE, ARRIVAL, 12),
        LocalInput::FromRank(THERE, ARRIVAL, 12, register),
    ];
    let effects = steps(&mut core, inputs);
    let registered = |effect: &LocalEffect| {
        matches!(effect, LocalEffect::Central(ToCentral::Process(ProcessMessage::Registered { instance, .. }))
            if instance.incarnation == ARRIVAL)
    };
    assert!(effects.iter().any(registered), "{effects:?}");
    core
}

/// A table that is sent here for another rank has its present process, which stays if the move is
/// given up.
#[test]
fn a_rank_that_moves_here_does_not_start_before_the_table_has_its_process() {
    let mut core = with_an_arrival();
    let starts = |effect: &LocalEffect| matches!(effect, LocalEffect::Ranks(to, FromManager::Begin { .. }) if to[..] == [THERE]);
    let effects = steps(&mut core, vec![start()]);
    assert!(!effects.iter().any(starts), "{effects:?}");
    let mut moved = table();
    moved[1].0 = ARRIVAL;
    let start = LocalInput::Central(ToLocal::Start {
        generation: GENERATION,
        table: moved,
        image: None,
    });
    let effects = steps(&mut core, vec![start]);
    assert!(effects.iter().any(starts), "{effects:?}");
}

#[test]
fn a_rank_that_moves_here_is_found_when_the_move_counts() {
    let mut core = with_an_arrival();
    // It may never start: its present process is asked about where it is.
    let effects = steps(&mut core, vec![asks(THERE)]);
    assert_eq!(effects, [LocalEffect::LookUp(Some(1), question(THERE))]);
    let update = ToLocal::Update {
        instance: ProcessInstance {
            generation: GENERATION,
            rank: THERE,
            incarnation: ARRIVAL,
        },
        card: card(THERE),
    };
    let told = |effect: &LocalEffect| {
        matches!(effect, LocalEffect::Ranks(to, FromManager::Card { incarnation, .. })
            if to[..] == [HERE] && *incarnation == ARRIVAL)
    };
    let effects = steps(&mut core, vec![LocalInput::Central(update)]);
    assert!(effects.iter().any(told), "{effects:?}");
}

#[test]
fn the_first_rank_of_a_host_that_comes_by_a_move_asks_in_the_present_generation() {
    let (generation, arrival) = (Generation(3), Incarnation(1));
    let mut core = Local::new();
    core.use_lookups(0, 2);
    let spawn = ToLocal::Spawn {
        generation,
        regions: None,
        ranks: Vec::new(),
        from: None,
        moved: Vec::new(),
    };
    let restore = ToLocal::Restore {
        generation,
        regions: None,
        from: Some(ImageId::Move(MoveNumber::next(None, Epoch(1)))),
        ranks: vec![(HERE, arrival)],
        moved: vec![MovedRank {
            rank: HERE,
            holder: None,
            others: Vec::new(),
        }],
    };
    let said = |message| LocalInput::FromRank(HERE, arrival, 12, message);
    let register = ToManager::Register {
        rank: HERE,
        incarnation: arrival,
        pid: 12,
        card: card(HERE),
        version: VERSION,
        limits: Limits::default(),
    };
    let begin = ToLocal::Begin {
        generation,
        process_map: ProcessMap::of(&table_with(arrival), |rank| rank),
        image: None,
    };
    let inputs = vec![
        LocalInput::Central(spawn),
        LocalInput::Central(restore),
        LocalInput::Spawned(HERE, arrival, 12),
        said(register),
        LocalInput::Central(begin),
    ];
    steps(&mut core, inputs);
    let asks = said(ToManager::LookUp {
        rank: THERE,
        least: FIRST,
    });
    let question = LookupMessage::Where {
        generation,
        rank: THERE,
        least: FIRST,
    };
    let effects = steps(&mut core, vec![asks]);
    assert_eq!(effects, [LocalEffect::LookUp(Some(1), question)]);
}

#[test]
fn questions_that_may_not_be_asked_are_refused() {
    let far = Rank(u32::MAX);
    misbehaved(&steps(&mut begun(), vec![asks(far)]), "in a job of 2");
    misbehaved(&steps(&mut begun(), vec![asks(Rank(2))]), "in a job of 2");
    let early = steps(&mut registered(true), vec![asks(THERE)]);
    misbehaved(&early, "before the start");
    let mut whole = registered(false);
    steps(&mut whole, vec![start()]);
    misbehaved(&steps(&mut whole, vec![asks(THERE)]), "has the table");
}

#[test]
fn an_answer_does_not_meet_who_comes_back_before_its_start() {
    let mut core = begun();
    steps(&mut core, vec![asks(THERE)]);
    // The same generation: this rank comes back alone.
    let restore = ToLocal::Restore {
        generation: GENERATION,
        regions: None,
        from: None,
        ranks: vec![(HERE, Incarnation(1))],
        moved: Vec::new(),
    };
    let effects = steps(&mut core, vec![LocalInput::Central(restore)]);
    assert_eq!(effects, [LocalEffect::Retire(HERE, FIRST)]);
    let answer = || LocalInput::LookedUp(Some(1), here(THERE, GENERATION));
    assert_eq!(steps(&mut core.clone(), vec![answer()]), []);
    let back = Incarnation(1);
    let register = ToManager::Register {
        rank: HERE,
        incarnation: back,
        pid: 11,
        card: card(HERE),
        version: VERSION,
        limits: Limits::default(),
    };
    let inputs = vec![
        LocalInput::Retired(HERE, FIRST),
        LocalInput::Spawned(HERE, back, 11),
        LocalInput::FromRank(HERE, back, 11, register),
    ];
    steps(&mut core, inputs);
    assert_eq!(steps(&mut core, vec![answer()]), []);
    let begin = LocalInput::Central(ToLocal::Begin {
        generation: GENERATION,
        process_map: ProcessMap::of(&table_with(back), |rank| rank),
        image: None,
    });
    let effects = steps(&mut core, vec![begin]);
    let [
        LocalEffect::Ranks(to, FromManager::Begin { cards, .. }),
        LocalEffect::Discard(HERE, FIRST),
    ] = &effects[..]
    else {
        panic!("{effects:?}");
    };
    assert_eq!(
        (&to[..], &cards[..]),
        (&[HERE][..], &[(HERE, card(HERE))][..])
    );
}

/// Whether a host reports to a restarted central manager that it lacks the table.
fn lacks_table(core: &mut Local) -> bool {
    let effects = steps(core, vec![LocalInput::Central(ToLocal::Report)]);
    let [LocalEffect::Central(ToCentral::Report(report))] = &effects[..] else {
        panic!("{effects:?}");
    };
    report.lacks_table
}

#[test]
fn a_host_whose_ranks_have_begun_reports_that_it_lacks_the_table() {
    assert!(!lacks_table(&mut registered(true)), "they wait");
    assert!(!lacks_table(&mut registered(false)), "they get the table");
    let mut core = begun();
    assert!(lacks_table(&mut core));
    steps(&mut core, vec![start()]);
    assert!(!lacks_table(&mut core));
}
