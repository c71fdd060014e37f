//! Ranks whose process is another one than mpirun has started: under a wrapper, or left behind.

mod local_steps;

use local_steps::{
    CALLER, I, R, at, ended, ends_by_order, failed, left, register, registered, said, spawned,
    steps,
};
use rejoin_managers_protocol::local::{FORK_GRACE, LocalEffect, LocalInput, WRAPPER_GRACE};
use rejoin_managers_protocol::manager_messages::{End, Stage, Time, ToLocal};

#[test]
fn a_caller_under_a_wrapper_is_watched_and_judged() {
    let mut core = spawned();
    let effects = steps(&mut core, vec![said(CALLER, register())]);
    assert_eq!(effects[0], LocalEffect::Watch(R, I, CALLER));
    let effects = steps(
        &mut core,
        vec![LocalInput::CallerEnded(R, I, End::Signaled(11))],
    );
    assert_eq!(
        effects,
        [failed(CALLER, End::Signaled(11), Stage::Registered)]
    );
    // The wrapper's own end later changes nothing.
    let effects = steps(
        &mut core,
        vec![LocalInput::ChildEnded(R, I, End::Exited(0))],
    );
    assert_eq!(effects, []);
    ends_by_order(&mut core);
}

#[test]
fn a_wrapper_has_a_moment_to_say_how_its_rank_ended() {
    let mut core = registered(CALLER);
    let effects = steps(&mut core, vec![LocalInput::CallerEnded(R, I, End::Unknown)]);
    assert_eq!(effects, []);
    let effects = steps(
        &mut core,
        vec![LocalInput::ChildEnded(R, I, End::Exited(139))],
    );
    assert_eq!(
        effects[0],
        failed(CALLER, End::Exited(139), Stage::Registered)
    );

    let mut core = registered(CALLER);
    steps(&mut core, vec![LocalInput::CallerEnded(R, I, End::Unknown)]);
    assert_eq!(core.deadline(), Some(Time(0).plus_millis(WRAPPER_GRACE)));
    let effects = at(
        &mut core,
        Time(0).plus_millis(WRAPPER_GRACE),
        vec![LocalInput::Tick],
    );
    assert_eq!(effects, [failed(CALLER, End::Unknown, Stage::Registered)]);
}

#[test]
fn after_finalize_the_wrapper_alone_counts() {
    let ends = |caller, child| {
        let inputs = vec![
            LocalInput::CallerEnded(R, I, caller),
            LocalInput::ChildEnded(R, I, child),
        ];
        steps(&mut left(CALLER), inputs).remove(0)
    };
    assert_eq!(ends(End::Exited(3), End::Exited(0)), ended(Stage::Left));
    let expected = failed(CALLER, End::Exited(5), Stage::Left);
    assert_eq!(ends(End::Exited(3), End::Exited(5)), expected);
}

#[test]
fn a_wrapper_may_end_before_its_rank() {
    let mut core = registered(CALLER);
    assert_eq!(
        steps(
            &mut core,
            vec![LocalInput::ChildEnded(R, I, End::Exited(0))]
        ),
        []
    );
    let effects = steps(
        &mut core,
        vec![LocalInput::CallerEnded(R, I, End::Exited(0))],
    );
    assert_eq!(
        effects[0],
        failed(CALLER, End::Exited(0), Stage::Registered)
    );
}

#[test]
fn a_process_that_was_left_behind_may_still_register() {
    let mut core = spawned();
    let ended_well = LocalInput::ChildEnded(R, I, End::Exited(0));
    assert_eq!(steps(&mut core, vec![ended_well.clone()]), []);
    assert_eq!(core.deadline(), Some(Time(0).plus_millis(FORK_GRACE)));
    let effects = steps(&mut core, vec![said(CALLER, register())]);
    assert_eq!(effects[0], LocalEffect::Watch(R, I, CALLER));
    assert_eq!(core.deadline(), None);
    // A signal reaches it, although the process group of the rank is gone.
    let signal = LocalInput::Central(ToLocal::Signal { signal: 15 });
    let effects = steps(&mut core, vec![signal]);
    let expected = [
        LocalEffect::SignalCaller(R, 15),
        LocalEffect::SignalCaller(R, 18),
    ];
    assert_eq!(effects, expected);
    let effects = steps(
        &mut core,
        vec![LocalInput::CallerEnded(R, I, End::Exited(3))],
    );
    assert_eq!(
        effects[0],
        failed(CALLER, End::Exited(3), Stage::Registered)
    );

    // Nothing is left behind, at once or later.
    let closed = LocalInput::Closed(R, I);
    for inputs in [
        vec![closed.clone(), ended_well.clone()],
        vec![ended_well.clone(), closed],
    ] {
        let effects = steps(&mut spawned(), inputs);
        assert_eq!(effects, [ended(Stage::Spawned), LocalEffect::Sweep]);
    }
}

#[test]
fn what_is_left_behind_and_never_registers_is_waited_for_no_longer_than_a_grace() {
    let mut core = spawned();
    steps(
        &mut core,
        vec![LocalInput::ChildEnded(R, I, End::Exited(0))],
    );
    let now = Time(0).plus_millis(FORK_GRACE);
    let effects = at(&mut core, now, vec![LocalInput::Tick]);
    let told =
        matches!(&effects[0], LocalEffect::Note(R, true, text) if text.contains("left behind"));
    assert!(told, "{effects:?}");
    assert_eq!(effects[1..], [ended(Stage::Spawned), LocalEffect::Sweep]);
}
