//! The process of the rank has no handler for the signal, so it never takes a request.

use super::*;
use rejoin_channel_table::Epoch;
use rejoin_managers_host::descendants;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};

const SECOND: SignalRequest = SignalRequest::Checkpoint(Epoch(2));

struct Process {
    child: Child,
    pidfd: OwnedFd,
}

impl Process {
    fn new() -> Process {
        let child = Command::new("sleep").arg("100").spawn().unwrap();
        let pidfd = descendants::watch(child.id()).unwrap();
        Process { child, pidfd }
    }

    fn target(&self, incarnation: u32) -> SignalTarget<'_> {
        SignalTarget {
            pid: self.child.id(),
            pidfd: self.pidfd.as_fd(),
            incarnation: Incarnation(incarnation),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Requests to one rank, of which the first was not taken.
fn unsent(process: &Process) -> CheckpointRequests {
    let mut requests = CheckpointRequests::default();
    requests.serve(1);
    requests.send(0, SECOND, Some(&process.target(0)));
    requests.sent();
    requests
}

/// Retries once it is due. Returns the requests that were still unsent.
fn retry<'a>(
    requests: &mut CheckpointRequests,
    target: impl Fn(SignalRequest) -> Option<SignalTarget<'a>>,
) -> Vec<SignalRequest> {
    std::thread::sleep(requests.wait_limit().unwrap());
    let asked = std::cell::RefCell::new(Vec::new());
    requests.retry(|slot, request| {
        assert_eq!(slot, 0);
        asked.borrow_mut().push(request);
        target(request)
    });
    asked.into_inner()
}

#[test]
fn a_request_that_is_not_taken_is_sent_again_after_pauses_that_double() {
    let mut process = Process::new();
    let mut requests = unsent(&process);
    let mut longest = Duration::ZERO;
    for _ in 0..8 {
        assert!(requests.wait_limit().unwrap() <= PAUSES[1]);
        assert_eq!(retry(&mut requests, |_| Some(process.target(0))), [SECOND]);
        longest = longest.max(requests.wait_limit().unwrap());
    }
    assert!(longest > PAUSES[1] / 2, "{longest:?}");
    let running = process.child.try_wait().unwrap().is_none();
    assert!(running, "the signal would end a process without a handler");
}

#[test]
fn a_request_ends_with_its_process() {
    let process = Process::new();
    // The rank has a successor, or the request does not concern it any more.
    let mut requests = unsent(&process);
    assert_eq!(retry(&mut requests, |_| Some(process.target(1))), [SECOND]);
    assert_eq!(requests.wait_limit(), None);
    let mut requests = unsent(&process);
    assert_eq!(retry(&mut requests, |_| None), [SECOND]);
    assert_eq!(requests.wait_limit(), None);
    // The next one is by message alone.
    let mut requests = unsent(&process);
    requests.send(0, SignalRequest::Checkpoint(Epoch(3)), None);
    requests.sent();
    assert_eq!(requests.wait_limit(), None);
}

#[test]
fn a_process_that_wants_a_signal_later_gets_it_then() {
    let process = Process::new();
    let mut requests = CheckpointRequests::default();
    requests.serve(1);
    requests.send_later(0, Duration::from_millis(5), Incarnation(1));
    assert_eq!(
        retry_at(&mut requests, &process, 1),
        [SignalRequest::ReadMessages]
    );
    // The process does not take it, so it is sent again.
    assert_eq!(
        retry_at(&mut requests, &process, 1),
        [SignalRequest::ReadMessages]
    );
    // Its successor has not asked for it.
    requests.send(0, SECOND, None);
    requests.sent();
    requests.send_later(0, Duration::from_millis(5), Incarnation(1));
    assert_eq!(
        retry_at(&mut requests, &process, 2),
        [SignalRequest::ReadMessages]
    );
    assert_eq!(requests.wait_limit(), None);
}

fn retry_at(
    requests: &mut CheckpointRequests,
    process: &Process,
    incarnation: u32,
) -> Vec<SignalRequest> {
    retry(requests, |_| Some(process.target(incarnation)))
}
