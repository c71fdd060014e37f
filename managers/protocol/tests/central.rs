//! The central manager's core step by step: time limits over several launches, standstills, ends
//! that can't be masked.

mod central_steps;

use central_steps::{
    RANKS, at, computing, instance, job, killed, register, report, running, said, step,
};
use rejoin_channel_table::{BusinessCard, Epoch, Generation, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, END_BOUND, Event, Failover, Job, Leases, Record,
    Recovery, StoredState,
};
use rejoin_managers_protocol::checkpoint::{CopyInterval, Interval, REQUEST_LIMIT};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::manager_messages::{
    Cause, End, HostMessage, ImageMessage, ProcessInstance, ProcessMessage, RankReport, Stage,
    ToCentral, ToLocal,
};
use rejoin_managers_protocol::policy::{RecoveryLimit, Refusal};
use rejoin_managers_protocol::region_commits::RegionEpochs;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_wire::ImageCost;

/// All ranks were ordered to begin anew, in this generation.
fn begins_anew(effects: &[CentralEffect], number: u32) -> bool {
    let is = |e: &CentralEffect| match e {
        CentralEffect::Send(
            _,
            ToLocal::Restore {
                generation,
                from: None,
                ranks,
                ..
            },
        ) => *generation == Generation(number) && ranks.len() == RANKS as usize,
        _ => false,
    };
    effects.iter().any(is)
}

/// Rank 0 is killed, and neither it nor rank 1 can be restored; how it ended is not known yet.
fn not_restored() -> Central {
    let mut central = running();
    let (rank, pid) = (instance(0, 0), 10);
    step(
        &mut central,
        at(1),
        said(ToCentral::Process(ProcessMessage::ExitDetected {
            instance: rank,
            pid,
        })),
    );
    assert_eq!(central.view().generation, Generation(1));
    for rank in [1, 0] {
        let failed = ToCentral::Process(ProcessMessage::Failed {
            instance: instance(rank, 1),
            pid: 0,
            cause: Cause::NotStarted {
                why: "no image".into(),
            },
        });
        let effects = step(&mut central, at(2), said(failed));
        assert_eq!((effects, central.verdict()), (Vec::new(), None));
    }
    central
}

#[test]
fn before_the_first_checkpoint_the_job_begins_anew_each_time() {
    let mut central = Central::new(job());
    step(&mut central, at(0), CentralInput::Begin);
    // None has called MPI_Init, then one has, then all have.
    for (number, registered) in [(0, 0), (1, 1), (2, 2), (3, 2)] {
        for rank in 0..registered {
            register(&mut central, instance(rank, number));
        }
        let stage = match registered {
            2 => Stage::Registered,
            _ => Stage::Spawned,
        };
        let lost = killed(instance(1, number), 9, stage);
        let effects = step(&mut central, at(1), lost);
        assert!(begins_anew(&effects, number + 1), "{effects:?}");
    }
    assert_eq!(central.verdict(), None);
}

#[test]
fn a_job_begins_anew_only_as_often_as_the_limit_allows() {
    let recovery = Some(Recovery {
        interval: Interval::Asked,
        files: None,
        limit: RecoveryLimit {
            restarts: 2,
            within: 1000,
        },
        accepts_outliving: false,
        copies: CopyInterval::EachTime,
    });
    let mut central = Central::new(Job { recovery, ..job() });
    step(&mut central, at(0), CentralInput::Begin);
    for number in 0..3 {
        let lost = killed(instance(0, number), 9, Stage::Spawned);
        step(&mut central, at(1), lost);
    }
    let verdict = central.verdict().expect("a verdict").to_string();
    assert!(verdict.contains("the limit of 2 recoveries"), "{verdict}");
}

#[test]
fn a_fault_before_init_or_one_that_comes_again_does_not_begin_a_job_anew() {
    const SEGV: i32 = 11;
    let mut central = Central::new(job());
    step(&mut central, at(0), CentralInput::Begin);
    step(
        &mut central,
        at(1),
        killed(instance(0, 0), SEGV, Stage::Spawned),
    );
    assert!(central.verdict().is_some());

    let mut central = Central::new(job());
    step(&mut central, at(0), CentralInput::Begin);
    register(&mut central, instance(0, 0));
    let effects = step(
        &mut central,
        at(1),
        killed(instance(0, 0), SEGV, Stage::Registered),
    );
    assert!(begins_anew(&effects, 1), "{effects:?}");
    register(&mut central, instance(0, 1));
    step(
        &mut central,
        at(1),
        killed(instance(0, 1), SEGV, Stage::Registered),
    );
    let verdict = central.verdict().expect("a verdict").to_string();
    assert!(verdict.contains("the same fault came again"), "{verdict}");
}

#[test]
fn a_program_of_which_a_rank_ended_without_init_does_not_begin_anew() {
    let mut central = Central::new(job());
    step(&mut central, at(0), CentralInput::Begin);
    let ended = ToCentral::Process(ProcessMessage::Ended {
        instance: instance(0, 0),
        stage: Stage::Spawned,
    });
    step(&mut central, at(1), said(ended));
    step(
        &mut central,
        at(1),
        killed(instance(1, 0), 9, Stage::Spawned),
    );
    assert!(central.verdict().is_some());
}

/// The verdict on a kill after ranks have reported state that a rollback does not take back.
fn verdict_with_outliving(accepts_outliving: bool) -> Option<String> {
    let recovery = Some(Recovery {
        interval: Interval::Asked,
        files: None,
        limit: RecoveryLimit::default(),
        accepts_outliving,
        copies: CopyInterval::EachTime,
    });
    let mut central = Central::new(Job { recovery, ..job() });
    step(&mut central, at(0), CentralInput::Begin);
    for rank in 0..RANKS {
        register(&mut central, instance(rank, 0));
    }
    let image = |central: &mut Central, epoch, outlives: Option<bool>| {
        for rank in 0..RANKS {
            let (instance, epoch) = (instance(rank, 0), Epoch(epoch));
            let message = match outlives {
                Some(outlives) => ToCentral::Image(ImageMessage::NotTaken {
                    instance,
                    image: ImageId::Checkpoint(epoch),
                    why: "shared".into(),
                    outlives,
                }),
                None => ToCentral::Image(ImageMessage::Taken {
                    instance,
                    image: ImageId::Checkpoint(epoch),
                    cost: ImageCost::default(),
                }),
            };
            step(central, at(1), said(message));
        }
    };
    image(&mut central, 1, None);
    step(&mut central, at(2), CentralInput::Checkpoint);
    image(&mut central, 2, Some(true));
    let lost = killed(instance(1, 0), 9, Stage::Registered);
    step(&mut central, at(20), lost);
    central.verdict().map(ToString::to_string)
}

#[test]
fn state_that_a_rollback_does_not_take_back_ends_the_job() {
    let verdict = verdict_with_outliving(false).expect("a verdict");
    assert!(verdict.contains("could give a wrong answer"), "{verdict}");
    assert!(
        verdict.contains(": shared. --accept-external-state"),
        "{verdict}"
    );
}

#[test]
fn such_state_does_not_end_a_job_whose_user_accepts_it() {
    assert_eq!(verdict_with_outliving(true), None);
}

#[test]
fn without_a_first_checkpoint_a_job_that_runs_does_not_begin_anew() {
    let mut central = Central::new(job());
    step(&mut central, at(0), CentralInput::Begin);
    for rank in 0..RANKS {
        register(&mut central, instance(rank, 0));
    }
    let refused = ToCentral::Image(ImageMessage::NotTaken {
        instance: instance(0, 0),
        image: ImageId::Checkpoint(Epoch(1)),
        why: "threads".into(),
        outlives: false,
    });
    step(&mut central, at(1), said(refused));
    step(
        &mut central,
        at(1),
        killed(instance(1, 0), 9, Stage::Registered),
    );
    let verdict = central.verdict().expect("a verdict").to_string();
    assert!(
        verdict.contains("there is no checkpoint for a rollback"),
        "{verdict}"
    );
}

#[test]
fn of_ranks_that_are_not_restored_the_first_that_was_lost_is_the_verdict() {
    let mut central = not_restored();
    let cause = Cause::Ended {
        end: End::Signaled(9),
        stage: Stage::Registered,
    };
    let exit_status = ToCentral::Process(ProcessMessage::ExitStatus {
        instance: instance(0, 0),
        pid: 10,
        cause: cause.clone(),
    });
    step(&mut central, at(3), said(exit_status));
    let verdict = Verdict::Failed {
        rank: Rank(0),
        host: "a".into(),
        pid: 10,
        cause,
        refusal: Some(Refusal::NotRestored {
            rank: Rank(1),
            host: "a".into(),
            why: "no image".into(),
        }),
    };
    assert_eq!(central.verdict(), Some(&verdict));
    assert_eq!(verdict.exit_code(), 137);
    let told = verdict.to_string();
    assert!(
        told.contains("rank 1 on host a can't be restored: no image"),
        "{told}"
    );
}

#[test]
fn how_a_lost_rank_ended_is_not_waited_for_without_end() {
    let mut central = not_restored();
    let due = at(2 + END_BOUND);
    assert_eq!(central.deadline(), Some(due));
    step(&mut central, due, CentralInput::Tick);
    let verdict = central.verdict().expect("a verdict");
    assert!(verdict.to_string().contains("no image"), "{verdict}");
}

#[test]
fn a_rank_that_takes_no_last_image_is_not_waited_for_without_end() {
    let mut central = running();
    for rank in 0..RANKS {
        let instance = instance(rank, 0);
        step(
            &mut central,
            at(0),
            said(ToCentral::Process(ProcessMessage::Finalizing { instance })),
        );
    }
    assert_eq!(central.deadline(), Some(at(REQUEST_LIMIT)));
    let effects = step(&mut central, at(REQUEST_LIMIT), CentralInput::Tick);
    let generation = Generation(0);
    let released = CentralEffect::Send(0, ToLocal::AllFinalized { generation });
    assert!(effects.contains(&released), "{effects:?}");
}

#[test]
fn a_time_limit_counts_on_when_the_job_is_launched_again() {
    let limited = |spent| Job {
        slots: Vec::new(),
        lans: Vec::new(),
        limit: Some(1000),
        spent,
        ..job()
    };
    for (spent, due) in [(0, 1000), (400, 600), (5000, 0)] {
        let mut central = Central::new(limited(spent));
        step(&mut central, at(0), CentralInput::Begin);
        assert_eq!(central.deadline(), Some(at(due)), "{spent}");
        step(&mut central, at(due), CentralInput::Tick);
        let verdict = Some(&Verdict::TimedOut { limit: 1000 });
        assert_eq!(central.verdict(), verdict, "{spent}");
    }
}

#[test]
fn who_was_suspended_counts_no_silence() {
    let terms = Terms::new(1000, 3000);
    let leases = Some(Leases {
        terms,
        hosts: vec![0],
    });
    let renew = |number| said(ToCentral::Host(HostMessage::Renew { number }));
    let silent = |effects: &[CentralEffect]| {
        let is = |e: &CentralEffect| matches!(e, CentralEffect::Event(Event::HostSilent { .. }));
        effects.iter().any(is)
    };
    for slept in [false, true] {
        let leases = leases.clone();
        let mut central = Central::new(Job { leases, ..job() });
        step(&mut central, at(0), CentralInput::Begin);
        step(&mut central, at(10), renew(0));
        if slept {
            step(&mut central, at(50_000), CentralInput::Suspended);
        }
        let effects = step(&mut central, at(50_000), CentralInput::Tick);
        assert_eq!(silent(&effects), !slept);
        step(&mut central, at(50_000), CentralInput::Tick);
        assert_eq!(central.verdict().is_some(), !slept);
    }
}

/// A host may be lost after its manager has called, and before it has said anything to central.
#[test]
fn a_host_that_has_called_and_says_nothing_is_lost() {
    let terms = Terms::new(1000, 30_000);
    for called in [false, true] {
        let hosts = vec![0];
        let leases = Some(Leases { terms, hosts });
        let mut central = Central::new(Job { leases, ..job() });
        step(&mut central, at(0), CentralInput::Begin);
        if called {
            step(&mut central, at(10), CentralInput::HostCalled(0));
            assert_eq!(central.deadline(), Some(at(30_010)));
        }
        step(&mut central, at(30_010), CentralInput::Tick);
        assert_eq!(central.verdict().is_some(), called);
    }
}

/// News of a generation or an incarnation that is no more, each alone: nothing else refuses them.
#[test]
fn news_of_another_generation_or_incarnation_changes_nothing() {
    let mut central = running();
    step(
        &mut central,
        at(1),
        killed(instance(0, 0), 9, Stage::Registered),
    );
    let stale = |generation, incarnation| ProcessInstance {
        generation: Generation(generation),
        rank: Rank(0),
        incarnation: Incarnation(incarnation),
    };
    for process in [stale(0, 1), stale(1, 0), stale(2, 1), stale(1, 2)] {
        register(&mut central, process);
        let first = central.ranks().next().expect("a rank");
        assert_eq!(first.stage, Stage::Spawned, "{process:?}");
    }
    for rank in 0..RANKS {
        register(&mut central, instance(rank, 1));
    }
    step(&mut central, at(1), CentralInput::Checkpoint);
    let epoch = central.view().pending.expect("an order");
    let imaged = |central: &mut Central, process| {
        let imaged = ToCentral::Image(ImageMessage::Taken {
            instance: process,
            image: ImageId::Checkpoint(epoch),
            cost: ImageCost::default(),
        });
        step(central, at(1), said(imaged));
        central
            .view()
            .committed
            .is_some_and(|(last, _)| last == epoch)
    };
    assert!(!imaged(&mut central, instance(1, 1)));
    for process in [stale(0, 1), stale(1, 0), stale(2, 1), stale(1, 2)] {
        assert!(!imaged(&mut central, process), "{process:?}");
    }
    assert!(imaged(&mut central, instance(0, 1)));
}

#[test]
fn a_central_manager_that_is_started_again_counts_the_leases_from_its_start() {
    let terms = Terms::new(1000, 3000);
    let leases = Some(Leases {
        terms,
        hosts: vec![0],
    });
    let began = Record::Began {
        generation: Generation(0),
        incarnations: vec![Incarnation(0); RANKS as usize],
        at: at(0),
    };
    let mut central = Central::resume(Job { leases, ..job() }, vec![began]);
    step(&mut central, at(100_000), CentralInput::Begin);
    // The host never calls again.
    let mut now = at(100_000);
    while central.verdict().is_none() {
        now = central
            .deadline()
            .expect("the host is not waited for for ever");
        assert!(now <= at(103_000), "{now:?}");
        step(&mut central, now, CentralInput::Tick);
    }
    assert_eq!(now, at(103_000));
    let lost = matches!(central.verdict(), Some(Verdict::HostLost { .. }));
    assert!(lost, "{:?}", central.verdict());
}

#[test]
fn a_central_manager_that_is_started_again_in_the_middle_of_a_checkpoint_orders_the_next() {
    let (generation, none) = (Generation(0), Incarnation(0));
    let card = BusinessCard::default();
    let records = vec![
        Record::Began {
            generation,
            incarnations: vec![none; RANKS as usize],
            at: at(0),
        },
        Record::Requested { epoch: Epoch(1) },
        Record::Started {
            generation,
            table: vec![(none, std::sync::Arc::new(card.clone())); RANKS as usize],
        },
    ];
    // Each rank has taken its image, some have, or none has.
    for taken in 0..=RANKS {
        let mut central = Central::resume(job(), records.clone());
        step(&mut central, at(1), CentralInput::Begin);
        let report = report(|rank| RankReport {
            images: if rank < taken {
                vec![Epoch(1)]
            } else {
                Vec::new()
            },
            ..computing(rank)
        });
        let effects = step(
            &mut central,
            at(2),
            said(ToCentral::Report(Box::new(report))),
        );
        let requested = CentralEffect::Persist(Record::Requested { epoch: Epoch(2) });
        assert!(effects.contains(&requested), "{taken}: {effects:?}");
        assert_eq!(central.verdict(), None, "{taken}");
    }
}

/// A job on two hosts with leases. The second is lost for a reason that proves no end. Returns the
/// effects.
fn after_a_lost_host(central: &mut Central) -> Vec<CentralEffect> {
    step(central, at(0), CentralInput::Begin);
    for host in 0..2 {
        step(
            central,
            at(0),
            CentralInput::Local(host, ToCentral::Host(HostMessage::Renew { number: 0 })),
        );
    }
    step(
        central,
        at(100),
        CentralInput::HostGone(1, "it is silent".into()),
    )
}

/// The question from which state the job can continue.
fn asks(effects: &[CentralEffect]) -> bool {
    let is = |effect: &CentralEffect| matches!(effect, CentralEffect::RequestStored { .. });
    effects.iter().any(is)
}

fn has_regions() -> CentralInput {
    CentralInput::Stored(vec![StoredState::Regions(Epoch(7))])
}

/// The ranks that are ordered to start anew, and the registered memory with which they do.
fn starts(effects: &[CentralEffect]) -> Vec<(Option<Epoch>, Vec<Rank>)> {
    let order = |effect: &CentralEffect| match effect {
        CentralEffect::Send(
            0,
            ToLocal::Restore {
                from: None,
                regions,
                ranks,
                ..
            },
        ) => Some((*regions, ranks.iter().map(|(rank, _)| *rank).collect())),
        _ => None,
    };
    effects.iter().filter_map(order).collect()
}

fn records(effects: &[CentralEffect]) -> Vec<Record> {
    let record = |effect: &CentralEffect| match effect {
        CentralEffect::Persist(record) => Some(record.clone()),
        _ => None,
    };
    effects.iter().filter_map(record).collect()
}

fn job_with_failover() -> Job {
    Job {
        hosts: vec!["a".into(), "b".into()],
        placement: vec![0, 1],
        leases: Some(Leases {
            terms: Terms::new(1000, 3000),
            hosts: vec![0, 1],
        }),
        failover: Some(Failover::default()),
        from: None,
        requested: Epoch(0),
        ..job()
    }
}

#[test]
fn ranks_start_with_registered_memory_when_the_last_lease_of_a_lost_host_is_over() {
    let mut central = Central::new(job_with_failover());
    assert!(asks(&after_a_lost_host(&mut central)));
    let effects = step(&mut central, at(300), has_regions());
    let is_stored = |record: &Record| matches!(record, Record::Return(back) if back.regions == Some(Epoch(7)) && back.from.is_none());
    assert!(records(&effects).iter().any(is_stored), "{effects:?}");
    let told = |effect: &CentralEffect| matches!(effect, CentralEffect::Event(Event::HostReplaced { regions, .. }) if *regions == Some(Epoch(7)));
    assert!(effects.iter().any(told), "{effects:?}");
    assert_eq!(starts(&effects), []);
    // A lease of 1000 ms, the possible difference of clocks, and the time to stop; from its last
    // grant.
    let effects = step(&mut central, at(1209), CentralInput::Tick);
    assert_eq!(starts(&effects), []);
    let effects = step(&mut central, at(1210), CentralInput::Tick);
    let both = vec![Rank(0), Rank(1)];
    assert_eq!(starts(&effects), [(Some(Epoch(7)), both.clone())]);
    // There is no other start from now on.
    let failed = ToCentral::Process(ProcessMessage::Failed {
        instance: instance(0, 1),
        pid: 10,
        cause: Cause::Ended {
            end: End::Signaled(9),
            stage: Stage::Spawned,
        },
    });
    let effects = step(&mut central, at(1300), said(failed));
    assert_eq!(starts(&effects), [(Some(Epoch(7)), both)]);
}

#[test]
fn a_host_whose_manager_has_ended_is_not_waited_for() {
    let mut central = Central::new(job_with_failover());
    step(&mut central, at(0), CentralInput::Begin);
    step(
        &mut central,
        at(0),
        CentralInput::Local(1, ToCentral::Host(HostMessage::Renew { number: 0 })),
    );
    assert!(asks(&step(
        &mut central,
        at(100),
        CentralInput::HostLost(1)
    )));
    let effects = step(&mut central, at(300), has_regions());
    assert_eq!(starts(&effects).len(), 1, "{effects:?}");
}

#[test]
fn what_ends_a_job_that_has_lost_a_host() {
    let ended = |inputs: Vec<(u64, CentralInput)>| {
        let mut central = Central::new(Job {
            limit: Some(900),
            ..job_with_failover()
        });
        after_a_lost_host(&mut central);
        for (now, input) in inputs {
            step(&mut central, at(now), input);
        }
        central.verdict().cloned()
    };
    // Before the answer, and while the lease of the lost host lasts.
    for waits in [vec![], vec![(300, has_regions())]] {
        let then = |now, input| ended([waits.clone(), vec![(now, input)]].concat());
        let unread = then(400, CentralInput::OutputLost(None));
        assert_eq!(unread, Some(Verdict::Unread));
        let late = then(900, CentralInput::Tick);
        assert_eq!(late, Some(Verdict::TimedOut { limit: 900 }));
    }
    let lost = Verdict::HostLost {
        host: "b".into(),
        why: "it is silent".into(),
    };
    let nothing = CentralInput::Stored(Vec::new());
    assert_eq!(ended(vec![(300, nothing)]), Some(lost));
    // The job is to end, before the answer or before the host is lost.
    let interrupted = Verdict::Interrupted { signal: 15 };
    let signal = (300, CentralInput::Signal(15));
    let then_regions = ended(vec![signal, (400, has_regions())]);
    assert_eq!(then_regions, Some(interrupted.clone()));
    let mut central = Central::new(job_with_failover());
    step(&mut central, at(0), CentralInput::Begin);
    step(&mut central, at(1), CentralInput::Signal(15));
    assert!(!asks(&after_a_lost_host(&mut central)));
    assert_eq!(central.verdict(), Some(&interrupted));
}

#[test]
fn a_central_manager_that_is_started_again_waits_for_a_whole_lease_before_ranks_start() {
    let mut central = Central::new(job_with_failover());
    let mut stored = records(&step(&mut central.clone(), at(0), CentralInput::Begin));
    after_a_lost_host(&mut central);
    stored.extend(records(&step(&mut central, at(300), has_regions())));
    let mut next = Central::resume(job_with_failover(), stored);
    step(&mut next, at(50_000), CentralInput::Begin);
    let gone = CentralInput::HostGone(1, String::new());
    step(&mut next, at(50_000), gone);
    let mut report = report(computing);
    report.generation = Some(Generation(0));
    report.ranks.truncate(1);
    let report = said(ToCentral::Report(Box::new(report)));
    assert_eq!(starts(&step(&mut next, at(50_000), report)), []);
    let effects = step(&mut next, at(51_209), CentralInput::Tick);
    assert_eq!(starts(&effects), []);
    let effects = step(&mut next, at(51_210), CentralInput::Tick);
    let both = vec![Rank(0), Rank(1)];
    assert_eq!(starts(&effects), [(Some(Epoch(7)), both)]);
}

#[test]
fn a_host_that_was_done_is_told_again_that_it_may_leave() {
    let began = Record::Began {
        generation: Generation(4),
        incarnations: vec![Incarnation(0); RANKS as usize],
        at: at(0),
    };
    let decided = Record::Decided(Verdict::Success);
    for later in [vec![], vec![decided]] {
        let mut records = vec![began.clone(), Record::HostDone(0)];
        records.extend(later);
        let mut central = Central::resume(job_with_failover(), records);
        let effects = step(&mut central, at(1), CentralInput::Begin);
        assert_eq!(effects[0], CentralEffect::Send(0, ToLocal::Leave));
        let asked = |e: &&CentralEffect| matches!(e, CentralEffect::Send(0, order) if *order != ToLocal::Leave);
        assert_eq!(effects.iter().find(asked), None);
        // Its link closes, as it should.
        assert_eq!(step(&mut central, at(2), CentralInput::HostLost(0)), []);
    }
}

#[test]
fn a_silent_host_is_waited_for_only_if_the_job_can_not_go_on_without_it() {
    let asked = |failover: Option<Failover>| {
        let mut central = Central::new(Job {
            failover,
            ..job_with_failover()
        });
        step(&mut central, at(0), CentralInput::Begin);
        let renewal = ToCentral::Host(HostMessage::Renew { number: 0 });
        step(&mut central, at(0), CentralInput::Local(1, renewal.clone()));
        let due = central.deadline().expect("the end of a lease");
        let effects = step(&mut central, due, CentralInput::Tick);
        assert!(matches!(
            effects[0],
            CentralEffect::Event(Event::HostSilent { host: 1, .. })
        ));
        (central, due, renewal, effects)
    };
    let (_, _, _, effects) = asked(None);
    assert_eq!(effects.len(), 1);
    let (mut central, due, renewal, effects) = asked(Some(Failover::default()));
    assert_eq!(
        effects[1..],
        [CentralEffect::RequestStored {
            regions: RegionEpochs::default()
        }]
    );
    // It sends a message before the answer.
    let mut back = central.clone();
    step(&mut back, due, CentralInput::Local(1, renewal));
    assert_eq!(
        step(
            &mut back,
            due,
            CentralInput::Stored(vec![StoredState::Regions(Epoch(7))])
        ),
        []
    );
    let effects = step(
        &mut central,
        due,
        CentralInput::Stored(vec![StoredState::Regions(Epoch(7))]),
    );
    assert_eq!(effects[0], CentralEffect::Drop(1));
    assert!(asks(&effects), "{effects:?}");
}

#[test]
fn a_restarted_job_rolls_back_to_the_checkpoint_from_which_it_began() {
    let mut central = Central::new(Job {
        generation: Generation(3),
        from: Some(Epoch(7)),
        ..job()
    });
    let effects = step(&mut central, at(0), CentralInput::Begin);
    let orders: Vec<_> = effects.iter().filter_map(order_of).collect();
    assert_eq!(orders, [(Some(Epoch(7)), Incarnation(3))], "{effects:?}");
    let committed = |effect: &CentralEffect| {
        matches!(
            effect,
            CentralEffect::Persist(Record::Committed {
                epoch: Epoch(7),
                ..
            })
        )
    };
    assert!(effects.iter().any(committed), "{effects:?}");
    (0..RANKS).for_each(|rank| drop(register(&mut central, instance(rank, 3))));
    assert_eq!(central.view().committed, Some((Epoch(7), at(0))));
    // No number of a checkpoint is used twice.
    let effects = step(&mut central, at(50), CentralInput::Checkpoint);
    let requested = CentralEffect::Persist(Record::Requested { epoch: Epoch(8) });
    assert!(effects.contains(&requested), "{effects:?}");
    let effects = step(
        &mut central,
        at(60),
        killed(instance(1, 3), 9, Stage::Registered),
    );
    let orders: Vec<_> = effects.iter().filter_map(order_of).collect();
    assert_eq!(orders, [(Some(Epoch(7)), Incarnation(4))], "{effects:?}");
}

/// The checkpoint of an order to begin or to roll back, and the incarnation of the first rank.
fn order_of(effect: &CentralEffect) -> Option<(Option<Epoch>, Incarnation)> {
    match effect {
        CentralEffect::Send(_, ToLocal::Spawn { from, ranks, .. }) => Some((*from, ranks[0].1)),
        CentralEffect::Send(_, ToLocal::Restore { from, ranks, .. }) => {
            Some((from.and_then(ImageId::checkpoint), ranks[0].1))
        }
        _ => None,
    }
}
