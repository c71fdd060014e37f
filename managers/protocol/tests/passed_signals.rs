//! Ranks that end by a signal that the user has sent to mpirun: that is an end, and no failure.

mod central_steps;

use central_steps::{at, instance, job, killed, register, running, said, step};
use rejoin_channel_table::{Generation, Incarnation};
use rejoin_managers_protocol::central::{Central, CentralEffect, CentralInput, Event, Record};
use rejoin_managers_protocol::manager_messages::{
    Cause, End, ProcessMessage, Report, Stage, ToCentral, ToLocal,
};
use rejoin_managers_protocol::verdict::Verdict;

const USR1: i32 = 10;
const KILL: i32 = 9;

/// The verdict of a job that the signal has ended.
const ENDED: Option<&Verdict> = Some(&Verdict::Interrupted { signal: USR1 });

/// A job that runs, and whose user has just sent it a signal.
fn signalled() -> Central {
    let mut central = running();
    let effects = step(&mut central, at(1), CentralInput::Signal(USR1));
    let passed = [
        CentralEffect::Persist(Record::Passed { signal: USR1 }),
        CentralEffect::Send(0, ToLocal::Signal { signal: USR1 }),
    ];
    assert_eq!(effects, passed);
    // It is stored once only.
    let again = step(&mut central, at(1), CentralInput::Signal(USR1));
    assert_eq!(again, passed[1..]);
    central
}

/// The exit of a rank's first process is detected.
fn detected(central: &mut Central, rank: u32) -> Vec<CentralEffect> {
    let detected = ToCentral::Process(ProcessMessage::ExitDetected {
        instance: instance(rank, 0),
        pid: 10 + rank,
    });
    step(central, at(2), said(detected))
}

/// It is known by which signal it ended.
fn known(central: &mut Central, rank: u32, signal: i32) -> Vec<CentralEffect> {
    let known = ToCentral::Process(ProcessMessage::ExitStatus {
        instance: instance(rank, 0),
        pid: 10 + rank,
        cause: Cause::Ended {
            end: End::Signaled(signal),
            stage: Stage::Registered,
        },
    });
    step(central, at(3), said(known))
}

fn reports_a_loss(effects: &[CentralEffect]) -> bool {
    let lost = |e: &CentralEffect| matches!(e, CentralEffect::Event(Event::Lost { .. }));
    effects.iter().any(lost)
}

#[test]
fn a_rank_that_ends_by_a_signal_to_mpirun_ends_the_job_by_that_signal() {
    let mut central = signalled();
    let end = killed(instance(1, 0), USR1, Stage::Registered);
    let effects = step(&mut central, at(2), end);
    assert_eq!(central.verdict(), ENDED);
    assert!(!reports_a_loss(&effects), "{effects:?}");
    // Before MPI_Init, too.
    let mut central = Central::new(job());
    step(&mut central, at(0), CentralInput::Begin);
    step(&mut central, at(1), CentralInput::Signal(USR1));
    step(
        &mut central,
        at(2),
        killed(instance(1, 0), USR1, Stage::Spawned),
    );
    assert_eq!(central.verdict(), ENDED);
}

#[test]
fn a_rollback_that_has_begun_ends_when_the_signal_is_known() {
    for first in [0, 1] {
        let mut central = signalled();
        detected(&mut central, 0);
        detected(&mut central, 1);
        assert_eq!(central.view().generation, Generation(1));
        assert_eq!(central.verdict(), None);
        // The rollback was for rank 0; rank 1 was just noticed with it.
        let effects = known(&mut central, first, USR1);
        assert_eq!(central.verdict(), ENDED);
        assert!(!reports_a_loss(&effects), "{effects:?}");
    }
}

#[test]
fn any_other_signal_is_still_a_failure() {
    let mut central = signalled();
    detected(&mut central, 0);
    let effects = known(&mut central, 0, KILL);
    assert_eq!(central.verdict(), None);
    assert!(reports_a_loss(&effects), "{effects:?}");
    // And so is this one, if nobody has sent it to mpirun.
    let mut central = running();
    detected(&mut central, 0);
    assert!(reports_a_loss(&known(&mut central, 0, USR1)));
    assert_eq!(central.verdict(), None);
}

#[test]
fn a_central_manager_that_is_started_again_knows_the_signals() {
    let began = Record::Began {
        generation: Generation(0),
        incarnations: vec![Incarnation(0); 2],
        at: at(0),
    };
    let records = vec![began, Record::Passed { signal: USR1 }];
    let mut central = Central::resume(job(), records);
    step(&mut central, at(1), CentralInput::Begin);
    let nothing = Report {
        generation: Some(Generation(0)),
        signalled: None,
        lacks_table: false,
        ranks: Vec::new(),
        loads: Vec::new(),
        exits: Vec::new(),
    };
    step(
        &mut central,
        at(1),
        said(ToCentral::Report(Box::new(nothing))),
    );
    register(&mut central, instance(0, 0));
    let end = killed(instance(0, 0), USR1, Stage::Registered);
    step(&mut central, at(2), end);
    assert_eq!(central.verdict(), ENDED);
}
