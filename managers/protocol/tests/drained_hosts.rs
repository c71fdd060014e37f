//! Hosts that say themselves that ranks should not be there, and where the ranks go.

mod central_steps;
mod local_steps;
mod moving_ranks;

use central_steps::{at, instance, step};
use moving_ranks::{moves, on_message, registered, running_on as running, three_hosts};
use rejoin_channel_table::{Epoch, Generation, ImageId, Incarnation, LanId, MoveNumber, Rank};
use rejoin_managers_protocol::central::{
    AddedHost, Central, CentralEffect, CentralInput, Event, HostCondition, HostIndex, HostsRequest,
    Job, Leases, MoveRequest, Movers, Record, StopSignal, StoredState,
};
use rejoin_managers_protocol::host_health::HostHealth;
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::local::{Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::manager_messages::{
    Cause, End, HostMessage, ImageMessage, ProcessInstance, ProcessMessage, Stage, ToCentral,
    ToLocal,
};
use rejoin_wire::ImageCost;

fn suspect() -> ToCentral {
    ToCentral::Host(HostMessage::Health(HostHealth::Suspect("hot".into())))
}

fn leave() -> ToCentral {
    ToCentral::Host(HostMessage::Health(HostHealth::Leave("broken".into())))
}

fn conditions(effects: &[CentralEffect]) -> Vec<(&str, HostCondition)> {
    let changed = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Event(Event::HostChanged(host)) => Some((&host.name[..], host.condition)),
        _ => None,
    });
    changed.collect()
}

fn migrate(rank: u32) -> CentralInput {
    CentralInput::Move(MoveRequest {
        id: 1,
        movers: Movers::Ranks(vec![Rank(rank)]),
        to: None,
    })
}

#[test]
fn a_host_that_is_to_leave_is_drained_once() {
    let mut central = running(three_hosts());
    let effects = on_message(&mut central, 1, leave());
    assert_eq!(moves(&effects), [(Rank(1), 2)]);
    assert_eq!(conditions(&effects), [("b", HostCondition::Draining)]);
    let drains = Event::HostDrains {
        name: "b".into(),
        why: Some("broken".into()),
    };
    assert!(effects.contains(&CentralEffect::Event(drains)));
    assert_eq!(on_message(&mut central, 1, leave()), []);
    let views = central.host_views();
    assert_eq!(views[1].why.as_deref(), Some("broken"));
    // The rank can't leave; it is tried again when the host says so again.
    let refused = ToCentral::Image(ImageMessage::NotTaken {
        instance: instance(1, 0),
        image: ImageId::Move(MoveNumber::next(None, Epoch(1))),
        why: "no".into(),
        outlives: false,
    });
    assert_eq!(moves(&on_message(&mut central, 1, refused)), []);
    assert_eq!(moves(&on_message(&mut central, 1, leave())), [(Rank(1), 2)]);
}

#[test]
fn a_drained_host_that_ends_with_the_job_is_no_news() {
    let mut central = running(three_hosts());
    on_message(&mut central, 1, leave());
    let refused = ToCentral::Image(ImageMessage::NotTaken {
        instance: instance(1, 0),
        image: ImageId::Move(MoveNumber::next(None, Epoch(1))),
        why: "no".into(),
        outlives: false,
    });
    on_message(&mut central, 1, refused);
    for rank in 0..2 {
        let instance = instance(rank, 0);
        on_message(
            &mut central,
            rank as usize,
            ToCentral::Process(ProcessMessage::Finalizing { instance }),
        );
    }
    let is_release = |effect: &CentralEffect| {
        matches!(effect, CentralEffect::Send(_, ToLocal::AllFinalized { .. }))
    };
    // Nobody takes the last image.
    let due = central
        .deadline()
        .expect("the limit of the last checkpoint");
    let effects = step(&mut central, due, CentralInput::Tick);
    assert!(effects.iter().any(is_release), "{effects:?}");
    let effects = on_message(&mut central, 1, ToCentral::Host(HostMessage::Done));
    assert_eq!(conditions(&effects), []);
    let views = central.host_views();
    assert_eq!(
        views[1].condition,
        HostCondition::Left,
        "it is told otherwise"
    );
}

fn drain(central: &mut Central, host: HostIndex) -> Vec<CentralEffect> {
    let request = MoveRequest {
        id: 9,
        movers: Movers::Drain(host),
        to: None,
    };
    step(central, at(1), CentralInput::Move(request))
}

/// Why not all that was asked for has happened.
fn refusal(effects: &[CentralEffect]) -> Option<&str> {
    effects.iter().find_map(|effect| match effect {
        CentralEffect::Event(Event::MovesOver { why, .. }) => why.as_deref(),
        _ => None,
    })
}

#[test]
fn a_host_that_the_user_drains_takes_ranks_in_until_its_own_can_leave() {
    let mut central = running(Job {
        hosts: vec!["a".into()],
        slots: vec![2],
        placement: vec![0, 0],
        ..three_hosts()
    });
    let refused = drain(&mut central, 0);
    assert_eq!(refusal(&refused), Some("there is no other host"));
    assert_eq!(conditions(&refused), []);
}

#[test]
fn ranks_leave_a_host_of_which_one_is_in_finalize() {
    let mut central = running(Job {
        placement: vec![0, 1, 1],
        slots: vec![2, 2, 2],
        ..three_hosts()
    });
    let instance = instance(1, 0);
    on_message(
        &mut central,
        1,
        ToCentral::Process(ProcessMessage::Finalizing { instance }),
    );
    let moved = moves(&drain(&mut central, 1));
    assert!(matches!(moved[..], [(Rank(2), _)]), "{moved:?}");
    let alone = MoveRequest {
        id: 10,
        movers: Movers::Ranks(vec![Rank(1)]),
        to: None,
    };
    let mut other = running(three_hosts());
    on_message(
        &mut other,
        1,
        ToCentral::Process(ProcessMessage::Finalizing { instance }),
    );
    let refused = step(&mut other, at(1), CentralInput::Move(alone));
    let why = "rank 1 is in MPI_Finalize, or has ended";
    assert_eq!((moves(&refused), refusal(&refused)), (vec![], Some(why)));
    assert_eq!(refusal(&drain(&mut other, 1)), Some(why));
}

#[test]
fn ranks_that_a_rollback_has_left_on_a_drained_host_move_away_again() {
    let mut central = running(three_hosts());
    assert_eq!(moves(&drain(&mut central, 1)), [(Rank(1), 2)]);
    let lost = ToCentral::Process(ProcessMessage::Failed {
        instance: instance(0, 0),
        pid: 10,
        cause: Cause::Ended {
            end: End::Signaled(9),
            stage: Stage::Registered,
        },
    });
    let effects = on_message(&mut central, 0, lost);
    assert_eq!(moves(&restored(&mut central, &effects)), [(Rank(1), 2)]);
}

/// The processes of these orders to restore register. What central says to the last one.
fn restored(central: &mut Central, effects: &[CentralEffect]) -> Vec<CentralEffect> {
    let mut restored = Vec::new();
    for effect in effects {
        if let CentralEffect::Send(
            host,
            ToLocal::Restore {
                generation, ranks, ..
            },
        ) = effect
        {
            let instance = |(rank, incarnation): &(Rank, Incarnation)| ProcessInstance {
                generation: *generation,
                rank: *rank,
                incarnation: *incarnation,
            };
            restored.extend(ranks.iter().map(instance).map(|instance| (*host, instance)));
        }
    }
    assert_eq!(restored.len(), 2, "{effects:?}");
    let mut last = Vec::new();
    for (host, instance) in restored {
        last = on_message(central, host, registered(instance));
    }
    last
}

#[test]
fn a_suspect_host_gets_ranks_only_while_no_other_has_room() {
    let used = |slots: [u32; 3]| Job {
        slots: slots.into(),
        placement: vec![0, 1, 1, 2],
        ..three_hosts()
    };
    let mut central = running(used([4, 4, 4]));
    let effects = on_message(&mut central, 2, suspect());
    assert_eq!(conditions(&effects), [("spare", HostCondition::Suspect)]);
    assert_eq!(on_message(&mut central, 2, suspect()), []);
    let effects = step(&mut central, at(2), migrate(0));
    assert_eq!(moves(&effects), [(Rank(0), 1)]);
    let mut full = running(used([4, 2, 4]));
    on_message(&mut full, 2, suspect());
    let effects = step(&mut full, at(2), migrate(0));
    assert_eq!(moves(&effects), [(Rank(0), 2)]);
    let mut well = running(used([4, 4, 4]));
    on_message(&mut well, 2, suspect());
    let effects = on_message(
        &mut well,
        2,
        ToCentral::Host(HostMessage::Health(HostHealth::Fine)),
    );
    assert_eq!(conditions(&effects), [("spare", HostCondition::Active)]);
    let effects = step(&mut well, at(2), migrate(0));
    assert_eq!(moves(&effects), [(Rank(0), 2)]);
}

#[test]
fn a_host_without_a_place_to_go_stays_and_that_is_told_once() {
    let mut central = running(Job {
        failover: None,
        ..three_hosts()
    });
    let effects = on_message(&mut central, 0, leave());
    assert_eq!(moves(&effects), [(Rank(0), 1)]);
    let stays = |effects: &[CentralEffect]| {
        let is_it = |e: &&CentralEffect| matches!(e, CentralEffect::Event(Event::HostStays { .. }));
        effects.iter().filter(is_it).count()
    };
    assert_eq!(stays(&on_message(&mut central, 1, leave())), 1);
    assert_eq!(on_message(&mut central, 1, leave()), []);
    // One that ends anyway is not kept waiting.
    let effects = on_message(&mut central, 1, ToCentral::Host(HostMessage::Ends));
    assert_eq!(effects, [CentralEffect::Send(1, ToLocal::CanNotLeave)]);
}

#[test]
fn a_host_that_ends_soon_is_drained_unless_the_job_stops() {
    let mut central = running(three_hosts());
    let effects = on_message(&mut central, 1, ToCentral::Host(HostMessage::Ends));
    assert_eq!(moves(&effects), [(Rank(1), 2)]);
    assert_eq!(
        on_message(&mut central, 1, ToCentral::Host(HostMessage::Ends)),
        []
    );
    let mut stops = running(three_hosts());
    let stop = StopSignal {
        number: 15,
        grace: 5000,
    };
    step(&mut stops, at(2), CentralInput::Stop(Some(stop)));
    let effects = on_message(&mut stops, 1, ToCentral::Host(HostMessage::Ends));
    assert_eq!(moves(&effects), []);
    let refused = CentralEffect::Send(1, ToLocal::CanNotLeave);
    assert!(!effects.contains(&refused), "{effects:?}");
}

#[test]
fn a_local_manager_says_that_it_leaves_until_its_time_is_over() {
    let mut core = local_steps::with_a_rank();
    let says = [LocalEffect::Central(ToCentral::Host(HostMessage::Ends))];
    let begin = vec![LocalInput::Leave(10_000)];
    assert_eq!(local_steps::at(&mut core, at(0), begin), says);
    let tick = || vec![LocalInput::Tick];
    assert_eq!(local_steps::at(&mut core, at(1999), tick()), []);
    assert_eq!(core.deadline(), Some(at(2000)));
    assert_eq!(local_steps::at(&mut core, at(2000), tick()), says);
    let over = local_steps::at(&mut core, at(9000), tick());
    assert_eq!(over, [LocalEffect::Abandon]);
    assert_eq!(local_steps::at(&mut core, at(9001), tick()), []);
}

#[test]
fn a_local_manager_ends_at_once_when_it_is_told_twice_or_can_not_leave() {
    let leave = || LocalInput::Leave(10_000);
    let mut twice = local_steps::with_a_rank();
    let effects = local_steps::steps(&mut twice, vec![leave(), leave()]);
    assert_eq!(effects.last(), Some(&LocalEffect::Abandon));
    let mut refused = local_steps::with_a_rank();
    let order = LocalInput::Central(ToLocal::CanNotLeave);
    let effects = local_steps::steps(&mut refused, vec![leave(), order.clone()]);
    assert_eq!(effects.last(), Some(&LocalEffect::Abandon));
    let mut idle = Local::new();
    assert_eq!(local_steps::steps(&mut idle, vec![order]), []);
    let effects = local_steps::steps(&mut idle, vec![leave()]);
    assert_eq!(effects, [LocalEffect::Abandon]);
}

fn add(id: u64, name: &str, is_remote: bool) -> CentralInput {
    let added = AddedHost {
        name: name.into(),
        slots: 3,
        is_remote,
        lan: LanId("far".into()),
    };
    CentralInput::AddHosts(HostsRequest {
        id,
        hosts: vec![added],
    })
}

/// Why hosts can't be added, if a request is answered.
fn added(effects: &[CentralEffect]) -> Option<Option<&str>> {
    effects.iter().find_map(|effect| match effect {
        CentralEffect::Event(Event::HostsAdded { why, .. }) => Some(why.as_deref()),
        _ => None,
    })
}

#[test]
fn an_added_host_gets_ranks_and_the_next_central_manager_knows_it() {
    let mut central = running(three_hosts());
    let effects = step(&mut central, at(2), add(7, "new", false));
    assert_eq!(added(&effects), Some(None));
    assert_eq!(conditions(&effects), [("new", HostCondition::Spare)]);
    let record = effects.iter().find_map(|effect| match effect {
        CentralEffect::Persist(record) => Some(record.clone()),
        _ => None,
    });
    // An input may come again, and the name only once.
    let again = step(&mut central, at(2), add(7, "new", false));
    assert_eq!((added(&again), again.len()), (Some(None), 1));
    let other = step(&mut central, at(2), add(8, "new", false));
    assert!(added(&other).flatten().is_some(), "{other:?}");
    let to_new = CentralInput::Move(MoveRequest {
        id: 1,
        movers: Movers::Ranks(vec![Rank(1)]),
        to: Some(3),
    });
    assert_eq!(moves(&step(&mut central, at(2), to_new)), [(Rank(1), 3)]);
    let began = Record::Began {
        generation: Generation(0),
        incarnations: vec![Incarnation(0); 2],
        at: at(0),
    };
    let records = [Some(began), record].into_iter().flatten().collect();
    let mut next = Central::resume(three_hosts(), records);
    let view = &next.host_views()[3];
    assert_eq!((&view.name[..], &view.lan.0[..]), ("new", "far"));
    let effects = step(&mut next, at(3), CentralInput::Begin);
    let tells = |e: &CentralEffect| matches!(e, CentralEffect::HostAdded { host: 3, .. });
    assert!(effects.iter().any(tells), "{effects:?}");
}

#[test]
fn a_host_that_was_drained_comes_back_when_its_local_manager_has_ended() {
    let mut central = running(three_hosts());
    let drain = CentralInput::Move(MoveRequest {
        id: 1,
        movers: Movers::Drain(2),
        to: None,
    });
    step(&mut central, at(2), drain);
    assert_eq!(central.host_views()[2].condition, HostCondition::Left);
    let again = step(&mut central, at(2), add(7, "spare", false));
    assert_eq!(added(&again), Some(None));
    on_message(&mut central, 1, leave());
    let refused = step(&mut central, at(3), add(8, "b", false));
    assert!(added(&refused).flatten().is_some(), "{refused:?}");
    on_message(&mut central, 1, ToCentral::Host(HostMessage::Done));
    let again = step(&mut central, at(3), add(9, "b", false));
    assert_eq!(added(&again), Some(None));
    let views = central.host_views();
    let last = views.last().expect("hosts");
    assert_eq!(
        (&last.name[..], last.condition),
        ("b", HostCondition::Spare)
    );
}

#[test]
fn hosts_that_could_not_be_used_are_not_added() {
    let why = |job: Job, input: CentralInput| {
        let mut central = running(job);
        let effects = step(&mut central, at(2), input);
        let why = added(&effects).flatten().map(str::to_owned);
        assert_eq!(central.host_views().len(), 3);
        why.expect("a refusal")
    };
    assert!(why(three_hosts(), add(1, "b", false)).contains("host b"));
    assert!(why(three_hosts(), add(1, "far", true)).contains("its own host only"));
    let fixed = Job {
        failover: None,
        ..three_hosts()
    };
    assert!(why(fixed, add(1, "new", false)).contains("no files of images"));
}

#[test]
fn a_checkpoint_follows_that_waited_for_a_request_of_which_nothing_comes() {
    let mut central = running(three_hosts());
    step(&mut central, at(2), CentralInput::Checkpoint);
    // The first rank is there already.
    let request = MoveRequest {
        id: 7,
        movers: Movers::Ranks(vec![Rank(0)]),
        to: Some(0),
    };
    assert_eq!(step(&mut central, at(3), CentralInput::Move(request)), []);
    step(&mut central, at(4), CentralInput::Checkpoint);
    let mut effects = Vec::new();
    for rank in [0, 1] {
        let imaged = ToCentral::Image(ImageMessage::Taken {
            instance: instance(rank, 0),
            image: ImageId::Checkpoint(Epoch(2)),
            cost: ImageCost::default(),
        });
        let input = CentralInput::Local(rank as HostIndex, imaged);
        effects.extend(step(&mut central, at(5), input));
    }
    let is_over = |effect: &CentralEffect| {
        matches!(
            effect,
            CentralEffect::Event(Event::MovesOver { request: 7, .. })
        )
    };
    assert!(effects.iter().any(is_over), "{effects:?}");
    let effects = step(&mut central, at(6), CentralInput::Tick);
    let requested = CentralEffect::Event(Event::Requested(Epoch(3)));
    assert!(effects.contains(&requested), "{effects:?}");
}

/// Where ranks are without this host. `None`: the job ends.
fn without(central: &mut Central, lost: HostIndex) -> Option<Vec<HostIndex>> {
    let gone = CentralInput::HostGone(lost, "no power".into());
    let mut effects = step(central, at(5), gone);
    let stored = CentralInput::Stored(vec![StoredState::Regions(Epoch(7))]);
    effects.extend(step(central, at(5), stored));
    let placed = effects.iter().find_map(|effect| match effect {
        CentralEffect::Placed(placement) => Some(placement.hosts.clone()),
        _ => None,
    });
    assert_eq!(placed.is_none(), central.verdict().is_some(), "{effects:?}");
    placed
}

#[test]
fn a_drained_host_gets_no_ranks_of_a_lost_one() {
    let job = || Job {
        leases: Some(Leases {
            terms: Terms::new(1000, 3000),
            hosts: vec![0, 1, 2],
        }),
        ..three_hosts()
    };
    // Without the drain, they go to the one without ranks.
    let placed = without(&mut running(job()), 1);
    assert_eq!(placed, Some(vec![0, 2]));
    let mut central = running(job());
    drain(&mut central, 2);
    assert_eq!(without(&mut central, 1), Some(vec![0, 0]));
    assert_eq!(central.host_views()[2].condition, HostCondition::Left);
    // It can come back as another host of its name.
    let again = step(&mut central.clone(), at(6), add(7, "spare", false));
    assert_eq!(added(&again), Some(None));
    assert_eq!(without(&mut central, 0), None);
}
