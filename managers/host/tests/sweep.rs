//! The sweep ends every process below this one, so this test has a program of its own.

use rejoin_managers_host::descendants;
use std::process::Command;
use std::time::Duration;

#[test]
#[expect(clippy::zombie_processes, reason = "the sweep reaps it")]
fn processes_that_do_not_end_in_time_are_named() {
    let child = Command::new("sleep").arg("100").spawn().unwrap();
    // There is no time for the signal to act.
    let left = descendants::sweep(Duration::ZERO);
    // It may have ended all the same, and is then to be reaped.
    let named = |state| format!("{} (sleep, state {state})", child.id());
    assert!(
        left.len() == 1 && ['R', 'S', 'D', 'Z'].map(named).contains(&left[0]),
        "{left:?}"
    );
    let none: Vec<String> = Vec::new();
    assert_eq!(descendants::sweep(descendants::SWEEP_LIMIT), none);
}
