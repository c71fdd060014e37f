//! Stops with a last checkpoint: when the verdict comes, what is tried again, and what a second
//! signal and the end of the grace time do.

mod central_steps;

use central_steps::{
    RANKS, at, computing, imaged, instance, job, killed, records, register, running_with, said,
    step, stored,
};
use rejoin_channel_table::{Epoch, Generation, ImageId, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Event, Job, Recovery, SAME_SIGNAL, StopSignal,
};
use rejoin_managers_protocol::interval::Interval;
use rejoin_managers_protocol::manager_messages::{
    FileMessage, HostMessage, ImageMessage, ImageOrder, ProcessMessage, RankReport, Report, Stage,
    Time, ToCentral, ToLocal,
};
use rejoin_managers_protocol::verdict::Verdict;

const TERM: i32 = 15;
const GRACE: u64 = 5000;

fn signal(number: i32) -> CentralInput {
    let grace = GRACE;
    CentralInput::Stop(Some(StopSignal { number, grace }))
}

/// A job that runs and has checkpoint 1 in files; the next ones are asked for.
fn with_files() -> Central {
    let mut central = running_with(Interval::Asked);
    imaged(&mut central, at(0), 1, 0);
    files(&mut central, at(1), 1);
    central
}

/// The files of all ranks are whole.
fn files(central: &mut Central, now: Time, epoch: u32) -> Vec<CentralEffect> {
    let all = (0..RANKS).map(|rank| stored(central, now, rank, epoch));
    all.last().expect("there are ranks")
}

/// The orders to the host.
fn orders(effects: &[CentralEffect]) -> Vec<ToLocal> {
    let orders = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(_, order) | CentralEffect::SendAll(_, order) => Some(order.clone()),
        _ => None,
    });
    orders.collect()
}

fn requests(effects: &[CentralEffect]) -> Option<Epoch> {
    orders(effects).into_iter().find_map(|order| match order {
        ToLocal::Image(ImageOrder::Checkpoint { epoch, .. }) => Some(epoch),
        _ => None,
    })
}

fn kills(effects: &[CentralEffect]) -> bool {
    orders(effects).contains(&ToLocal::Kill)
}

fn passes_on(effects: &[CentralEffect]) -> bool {
    orders(effects).contains(&ToLocal::Signal { signal: TERM })
}

/// A rank that computes and has these images.
fn report_of(rank: u32, images: Vec<Epoch>) -> RankReport {
    RankReport {
        images,
        ..computing(rank)
    }
}

fn stopped_at(epoch: u32) -> Option<Verdict> {
    let epoch = Epoch(epoch);
    Some(Verdict::Stopped { epoch })
}

#[test]
fn a_job_stops_when_a_checkpoint_that_was_taken_since_is_in_files() {
    let mut central = with_files();
    let effects = step(&mut central, at(10), CentralInput::Stop(None));
    assert_eq!(requests(&effects), Some(Epoch(2)));
    let stopping = Event::Stopping {
        from: Epoch(2),
        signal: None,
    };
    assert!(effects.contains(&CentralEffect::Event(stopping)));
    imaged(&mut central, at(20), 2, 0);
    assert_eq!(central.verdict(), None, "in memory only");
    let effects = files(&mut central, at(30), 2);
    assert_eq!(central.verdict(), stopped_at(2).as_ref());
    // Nothing that ranks do from now on stays: they do not get the time to do it.
    assert!(kills(&effects), "{effects:?}");
    let ends = |order: &ToLocal| matches!(order, ToLocal::End { .. });
    assert!(!orders(&effects).iter().any(ends), "{effects:?}");
    let effects = step(
        &mut central,
        at(40),
        said(ToCentral::Host(HostMessage::Done)),
    );
    assert!(effects.contains(&CentralEffect::Over(stopped_at(2).unwrap())));
}

#[test]
fn a_checkpoint_that_was_under_way_before_does_not_suffice() {
    let mut central = with_files();
    step(&mut central, at(10), CentralInput::Checkpoint);
    let effects = step(&mut central, at(11), CentralInput::Stop(None));
    assert_eq!(requests(&effects), None);
    imaged(&mut central, at(20), 2, 0);
    files(&mut central, at(30), 2);
    assert_eq!(central.verdict(), None);
    let effects = step(&mut central, at(31), CentralInput::Tick);
    assert_eq!(requests(&effects), Some(Epoch(3)));
    imaged(&mut central, at(40), 3, 0);
    files(&mut central, at(50), 3);
    assert_eq!(central.verdict(), stopped_at(3).as_ref());
}

#[test]
fn a_refused_image_and_files_that_fail_are_tried_again() {
    let mut central = with_files();
    step(&mut central, at(10), CentralInput::Stop(None));
    let refused = ToCentral::Image(ImageMessage::NotTaken {
        instance: instance(1, 0),
        image: ImageId::Checkpoint(Epoch(2)),
        why: "it has a child".into(),
        outlives: false,
    });
    step(&mut central, at(20), said(refused));
    let due = central.deadline().expect("another attempt");
    assert_eq!(due, at(10_020));
    let effects = step(&mut central, due, CentralInput::Tick);
    assert_eq!(requests(&effects), Some(Epoch(3)));
    imaged(&mut central, at(10_030), 3, 0);
    let full = ToCentral::File(FileMessage::NotStored {
        rank: Rank(0),
        image: ImageId::Checkpoint(Epoch(3)),
        why: Some("no space".into()),
    });
    step(&mut central, at(10_040), said(full));
    let due = central.deadline().expect("another attempt");
    assert_eq!(due, at(11_040), "after the pause for files");
    let effects = step(&mut central, due, CentralInput::Tick);
    assert_eq!(requests(&effects), Some(Epoch(4)));
    imaged(&mut central, at(11_050), 4, 0);
    files(&mut central, at(11_060), 4);
    assert_eq!(central.verdict(), stopped_at(4).as_ref());
}

/// The image of rank 1 at this checkpoint is gone.
fn lost(central: &mut Central, now: Time, epoch: u32) -> Vec<CentralEffect> {
    let (instance, epoch) = (instance(1, 0), Epoch(epoch));
    step(
        central,
        now,
        said(ToCentral::Image(ImageMessage::Lost {
            instance,
            image: ImageId::Checkpoint(epoch),
            why: None,
        })),
    )
}

#[test]
fn files_that_lose_an_image_are_replaced_by_those_of_a_newer_checkpoint() {
    let mut central = with_files();
    step(&mut central, at(10), CentralInput::Stop(None));
    imaged(&mut central, at(20), 2, 0);
    step(&mut central, at(30), CentralInput::Checkpoint);
    imaged(&mut central, at(40), 3, 0);
    let effects = lost(&mut central, at(50), 2);
    let written = orders(&effects).into_iter().find_map(|order| match order {
        ToLocal::Image(ImageOrder::Commit { epochs, .. }) => epochs.writing,
        _ => None,
    });
    assert_eq!(written, Some(Epoch(3)));
    files(&mut central, at(60), 3);
    assert_eq!(central.verdict(), stopped_at(3).as_ref());
}

#[test]
fn a_pause_after_earlier_failures_does_not_delay_a_stop() {
    let mut central = running_with(Interval::Auto);
    imaged(&mut central, at(0), 1, 0);
    let full = ToCentral::File(FileMessage::NotStored {
        rank: Rank(0),
        image: ImageId::Checkpoint(Epoch(1)),
        why: Some("no space".into()),
    });
    step(&mut central, at(5), said(full));
    step(&mut central, at(10), CentralInput::Stop(None));
    imaged(&mut central, at(20), 2, 0);
    files(&mut central, at(30), 2);
    assert_eq!(central.verdict(), stopped_at(2).as_ref());
}

#[test]
fn without_a_checkpoint_within_the_grace_time_the_job_ends_as_by_the_signal() {
    let mut central = with_files();
    let effects = step(&mut central, at(10), signal(TERM));
    assert_eq!(requests(&effects), Some(Epoch(2)));
    assert!(!passes_on(&effects), "{effects:?}");
    imaged(&mut central, at(20), 2, 0);
    assert_eq!(central.deadline(), Some(at(10 + GRACE)));
    let effects = step(&mut central, at(10 + GRACE), CentralInput::Tick);
    let given_up = |e: &CentralEffect| {
        let file = Some(Epoch(1));
        matches!(e, CentralEffect::Event(Event::StopGivenUp { file: f, .. }) if *f == file)
    };
    assert!(effects.iter().any(given_up), "{effects:?}");
    assert!(passes_on(&effects), "{effects:?}");
    // Too late.
    files(&mut central, at(11 + GRACE), 2);
    assert_eq!(central.verdict(), None);
    step(
        &mut central,
        at(12 + GRACE),
        killed(instance(0, 0), TERM, Stage::Registered),
    );
    let verdict = Some(&Verdict::Interrupted { signal: TERM });
    assert_eq!(central.verdict(), verdict);
}

#[test]
fn a_second_signal_ends_the_job_at_once_but_not_the_second_one_of_a_pair() {
    let mut central = with_files();
    step(&mut central, at(10), signal(TERM));
    let effects = step(&mut central, at(10 + SAME_SIGNAL / 2), signal(TERM));
    assert_eq!(effects, []);
    let effects = step(&mut central, at(10 + SAME_SIGNAL), signal(TERM));
    assert!(kills(&effects));
    let verdict = Some(&Verdict::Interrupted { signal: TERM });
    assert_eq!(central.verdict(), verdict);
}

#[test]
fn a_signal_sets_a_limit_for_a_stop_whose_time_came_before() {
    let mut central = with_files();
    step(&mut central, at(10), CentralInput::Stop(None));
    let effects = step(&mut central, at(1000), signal(TERM));
    assert_eq!(requests(&effects), None, "one is under way");
    assert!(!kills(&effects));
    let effects = step(&mut central, at(1001), CentralInput::Stop(None));
    assert_eq!(effects, []);
    let effects = step(&mut central, at(1000 + GRACE), CentralInput::Tick);
    assert!(passes_on(&effects), "{effects:?}");
}

#[test]
fn a_rank_that_ends_meanwhile_is_judged_first() {
    let mut central = with_files();
    step(&mut central, at(10), CentralInput::Stop(None));
    imaged(&mut central, at(20), 2, 0);
    stored(&mut central, at(30), 0, 2);
    step(
        &mut central,
        at(31),
        killed(instance(0, 0), 9, Stage::Registered),
    );
    let effects = stored(&mut central, at(32), 1, 2);
    assert_eq!(
        central.verdict(),
        None,
        "ranks are being restored: {effects:?}"
    );
    for rank in 0..RANKS {
        register(&mut central, instance(rank, 1));
    }
    assert_eq!(central.verdict(), stopped_at(2).as_ref());
}

#[test]
fn ranks_that_reach_the_end_first_end_the_job() {
    let mut central = with_files();
    step(&mut central, at(10), CentralInput::Stop(None));
    for rank in 0..RANKS {
        let finalizing = ToCentral::Process(ProcessMessage::Finalizing {
            instance: instance(rank, 0),
        });
        step(&mut central, at(11), said(finalizing));
    }
    imaged(&mut central, at(20), 2, 0);
    files(&mut central, at(30), 2);
    assert_eq!(central.verdict(), None);
}

#[test]
fn a_stop_survives_the_central_manager() {
    let recovery = job().recovery.map(|recovery| Recovery {
        files: Some(Interval::Asked),
        ..recovery
    });
    let job = Job { recovery, ..job() };
    // Killed after the request, after the images, and after the files but before the verdict.
    for killed_after in 0..3 {
        let mut central = Central::new(job.clone());
        let mut all = step(&mut central, at(0), CentralInput::Begin);
        for rank in 0..RANKS {
            all.extend(register(&mut central, instance(rank, 0)));
        }
        all.extend(imaged(&mut central, at(0), 1, 0));
        all.extend(files(&mut central, at(1), 1));
        all.extend(step(&mut central, at(10), signal(TERM)));
        if killed_after > 0 {
            all.extend(imaged(&mut central, at(20), 2, 0));
        }
        if killed_after > 1 {
            let with_verdict = files(&mut central, at(21), 2);
            let first = with_verdict.into_iter().take(1);
            all.extend(first);
        }
        let mut central = Central::resume(job.clone(), records(&all));
        step(&mut central, at(100), CentralInput::Begin);
        let images = vec![Epoch(if killed_after == 0 { 1 } else { 2 })];
        let ranks = (0..RANKS).map(|rank| report_of(rank, images.clone()));
        let report = Report {
            generation: Some(Generation(0)),
            signalled: None,
            lacks_table: false,
            ranks: ranks.collect(),
            loads: Vec::new(),
            exits: Vec::new(),
        };
        let mut effects = step(
            &mut central,
            at(101),
            said(ToCentral::Report(Box::new(report))),
        );
        match killed_after {
            0 => {
                if requests(&effects).is_none() {
                    let due = central.deadline().expect("another attempt");
                    effects = step(&mut central, due, CentralInput::Tick);
                }
                assert_eq!(requests(&effects), Some(Epoch(3)));
                imaged(&mut central, at(150), 3, 0);
                files(&mut central, at(160), 3);
                assert_eq!(central.verdict(), stopped_at(3).as_ref());
            }
            1 => {
                files(&mut central, at(160), 2);
                assert_eq!(central.verdict(), stopped_at(2).as_ref());
            }
            _ => assert_eq!(central.verdict(), stopped_at(2).as_ref()),
        }
    }
}
