use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// A device that sleeps until it is notified or until something arrives.
#[derive(Default)]
struct Fake {
    notified: Mutex<bool>,
    condvar: Condvar,
    events: AtomicU64,
    /// Whether the request of each number is complete.
    complete: [AtomicBool; 8],
    /// Every wait ends with an error.
    failed: AtomicBool,
}

impl Completions for Fake {
    fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    fn is_complete(&self, request: ReqId) -> bool {
        self.failed.load(Ordering::Relaxed)
            || self.complete[request.0 as usize].load(Ordering::Relaxed)
    }
}

impl Fake {
    fn complete(&self, request: usize) {
        self.complete[request].store(true, Ordering::Relaxed);
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    fn ring(&self) {
        *self.notified.lock().unwrap() = true;
        self.condvar.notify_all();
    }

    fn sleep(&self) {
        let notified = self.notified.lock().unwrap();
        let (mut notified, slept) = self
            .condvar
            .wait_timeout_while(notified, Duration::from_secs(20), |w| !*w)
            .unwrap();
        assert!(!slept.timed_out(), "nobody woke the device");
        *notified = false;
    }
}

fn fixture() -> (Arc<Fake>, Arc<BigLock>) {
    let fake = Arc::new(Fake::default());
    let waker = fake.clone();
    (fake, Arc::new(BigLock::new(Box::new(move || waker.ring()))))
}

/// An MPI call that waits until this request is complete. Returns how often it polled.
fn wait(fake: &Fake, lock: &BigLock, request: usize, until: Until) -> u32 {
    let mut polls = 0;
    lock.enter();
    while !fake.complete[request].load(Ordering::Relaxed) {
        polls += 1;
        let mut sleep = |_| {
            fake.sleep();
            Ok(())
        };
        lock.block(fake, until, &mut sleep).unwrap();
    }
    leave(fake, lock);
    polls
}

fn leave(fake: &Fake, lock: &BigLock) {
    lock.resume_due(fake);
    lock.leave();
}

const KINDS: [fn(usize) -> Until; 3] = [
    |_| Until::Event,
    |_| Until::Turn,
    |request| Until::Complete(ReqId(request as u64)),
];

#[test]
fn a_call_gets_in_while_another_blocks_and_its_completions_are_told() {
    for kind in KINDS {
        let (fake, lock) = fixture();
        std::thread::scope(|s| {
            for request in 0..6 {
                let (fake, lock) = (&fake, &lock);
                s.spawn(move || wait(fake, lock, request, kind(request)));
            }
            // Each of these calls completes one waiting thread's request, in an order independent
            // of the thread that blocks in the device.
            for request in [3, 0, 5, 1, 4, 2] {
                std::thread::sleep(Duration::from_millis(5));
                lock.enter();
                fake.complete(request);
                leave(&fake, &lock);
            }
        });
    }
}

#[test]
fn the_device_completes_for_any_thread() {
    for kind in KINDS {
        let (fake, lock) = fixture();
        std::thread::scope(|s| {
            for request in 0..4 {
                let (fake, lock) = (&fake, &lock);
                s.spawn(move || wait(fake, lock, request, kind(request)));
            }
            for request in 0..4 {
                std::thread::sleep(Duration::from_millis(5));
                // The effect of a message: it has arrived, and the device's wait returns.
                fake.complete(request);
                fake.ring();
            }
        });
    }
}

#[test]
fn a_message_resumes_only_the_thread_that_waits_for_it() {
    let (fake, lock) = fixture();
    std::thread::scope(|s| {
        let (fake, lock) = (&fake, &lock);
        let waits = [0, 1, 2, 3].map(|request| {
            let until = Until::Complete(ReqId(request as u64));
            let wait = s.spawn(move || wait(fake, lock, request, until));
            std::thread::sleep(Duration::from_millis(20));
            wait
        });
        // The requests of all threads but the last, which blocks in the device, stay incomplete.
        for _ in 0..50 {
            fake.events.fetch_add(1, Ordering::Relaxed);
            fake.ring();
            std::thread::sleep(Duration::from_millis(1));
        }
        for request in 0..4 {
            fake.complete(request);
        }
        fake.ring();
        let polls = waits.map(|wait| wait.join().unwrap());
        assert!(polls[..3].iter().all(|&polls| polls <= 4), "{polls:?}");
        assert!(polls[3] > 4, "{polls:?}");
    });
}

#[test]
fn it_excludes_and_no_thread_starves() {
    let (_fake, lock) = fixture();
    let count = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        // Threads that are hardly ever outside.
        let greedy = [(); 3].map(|()| {
            s.spawn(|| {
                let mut mine = 0u64;
                while !over.load(Ordering::Relaxed) {
                    lock.enter();
                    // Not one atomic step on purpose: only exclusion keeps the sum right.
                    let seen = count.load(Ordering::Relaxed);
                    count.store(seen + 1, Ordering::Relaxed);
                    lock.leave();
                    mine += 1;
                }
                mine
            })
        });
        for _ in 0..200 {
            lock.enter();
            std::thread::yield_now();
            lock.leave();
        }
        over.store(true, Ordering::Relaxed);
        let sum: u64 = greedy.into_iter().map(|t| t.join().unwrap()).sum();
        assert_eq!(count.load(Ordering::Relaxed), sum);
    });
}

#[test]
fn a_thread_is_given_the_lock_after_a_few_attempts() {
    for (attempts, suspended) in [(FEW, false), (MANY, true)] {
        let mut state = State {
            held: true,
            ..State::default()
        };
        let waiter = Waiter::new(Until::Event, true);
        let me = waiter.thread.clone();
        if suspended {
            state.suspended.push(waiter);
        } else {
            state.queue.push_back(waiter);
        }
        for _ in 0..attempts {
            assert!(state.release().is_some() && !state.held);
            // A second wake-up would tell nothing new.
            assert!(state.release().is_none());
            // Another thread was faster.
            state.held = true;
            assert!(state.take(&me).is_none());
        }
        assert!(state.release().is_some());
        assert!(state.held && state.given.is_some());
        assert!(state.take(&me).is_some() && state.held);
        assert!(state.release().is_none() && !state.held);
    }
}

#[test]
fn waiting_threads_do_not_resume_each_other_for_ever() {
    for kind in [KINDS[0], KINDS[2]] {
        let (fake, lock) = fixture();
        let entries = AtomicU64::new(0);
        std::thread::scope(|s| {
            for request in 0..5 {
                let (fake, lock, entries) = (&fake, &lock, &entries);
                s.spawn(move || {
                    lock.enter();
                    while !fake.complete[request].load(Ordering::Relaxed) {
                        entries.fetch_add(1, Ordering::Relaxed);
                        let mut sleep = |_| {
                            fake.sleep();
                            Ok(())
                        };
                        lock.block(&**fake, kind(request), &mut sleep).unwrap();
                    }
                    leave(fake, lock);
                });
            }
            // Once all have arrived nothing moves, so at some time no thread polls again.
            let begun = Instant::now();
            let mut last = 0;
            loop {
                std::thread::sleep(Duration::from_millis(100));
                let now = entries.load(Ordering::Relaxed);
                if now == last && now >= 5 {
                    break;
                }
                last = now;
                assert!(begun.elapsed() < Duration::from_secs(20), "{now} entries");
            }
            (0..5).for_each(|request| fake.complete(request));
            fake.ring();
        });
    }
}

/// Two threads that each find the other in a wait with a deadline: the second one to look leaves.
#[test]
fn a_thread_that_waits_for_its_turn_is_seen_too() {
    let (fake, lock) = fixture();
    let turns = AtomicU64::new(0);
    let leave_or_block = |lock: &BigLock| {
        lock.enter();
        while !lock.is_another_waiting() && !fake.complete[0].load(Ordering::Relaxed) {
            turns.fetch_add(1, Ordering::Relaxed);
            let mut sleep = |_| {
                fake.sleep();
                Ok(())
            };
            lock.block(&*fake, Until::Turn, &mut sleep).unwrap();
        }
        leave(&fake, lock);
    };
    std::thread::scope(|s| {
        s.spawn(|| leave_or_block(&lock));
        while turns.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // It ends although nothing is complete, or the first one does.
        let second = s.spawn(|| leave_or_block(&lock));
        let begun = Instant::now();
        while turns.load(Ordering::Relaxed) < 2 && !second.is_finished() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        let so_far = turns.load(Ordering::Relaxed);
        assert!(so_far <= 4, "the lock went to and fro {so_far} times");
        lock.enter();
        fake.complete(0);
        leave(&fake, &lock);
        fake.ring();
    });
}

#[test]
fn a_waiting_thread_is_seen_by_all_others() {
    let (fake, lock) = fixture();
    let slept = AtomicBool::new(false);
    lock.enter();
    assert!(!lock.is_another_waiting());
    lock.leave();
    std::thread::scope(|s| {
        let (fake, lock, slept) = (&fake, &lock, &slept);
        s.spawn(move || {
            lock.enter();
            while !fake.complete[0].load(Ordering::Relaxed) {
                let mut sleep = |_| {
                    slept.store(true, Ordering::Relaxed);
                    fake.sleep();
                    Ok(())
                };
                lock.block(&**fake, Until::Event, &mut sleep).unwrap();
                assert!(!lock.is_another_waiting());
            }
            leave(fake, lock);
        });
        while !slept.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        lock.enter();
        assert!(lock.is_another_waiting());
        fake.complete(0);
        leave(fake, lock);
    });
    lock.enter();
    assert!(!lock.is_another_waiting());
    lock.leave();
}

/// Two threads whose calls make no progress keep the queue from ever being empty. So nobody blocks
/// in the device, and only the pass of the suspended thread takes its message in.
#[test]
fn a_suspended_thread_makes_progress_beside_threads_that_make_none() {
    let waiter = Waiter::new(Until::Complete(ReqId(0)), true);
    let thread = waiter.thread.clone();
    let mut state = State {
        held: true,
        suspended: vec![waiter],
        ..State::default()
    };
    let mut releases = 0;
    let passes = loop {
        state.queue.push_back(Waiter::new(Until::Turn, false));
        let _ = state.release();
        releases += 1;
        assert!(releases <= 2 * PASS_AFTER, "the thread starves");
        if let Some(resumed) = state.take(&thread) {
            break resumed.passes;
        }
        // The lock goes to the first of the queue.
        let first = state.given.as_ref().or(state.queue.front());
        let first = first.expect("a thread").thread.clone();
        assert!(state.take(&first).is_some());
    };
    assert!(passes && releases >= PASS_AFTER);
}

#[test]
fn a_thread_that_was_suspended_for_long_makes_one_pass() {
    let (fake, lock) = fixture();
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        let (fake, lock, over) = (&fake, &lock, &over);
        // Calls that make no progress.
        let greedy = [(); 3].map(|()| {
            s.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    lock.enter();
                    std::thread::yield_now();
                    leave(fake, lock);
                }
            })
        });
        s.spawn(move || {
            lock.enter();
            while !fake.complete[0].load(Ordering::Relaxed) {
                // The message is there, and any pass takes it in.
                let mut pass = |_| {
                    fake.complete(0);
                    Ok(())
                };
                let until = Until::Complete(ReqId(0));
                lock.block(&**fake, until, &mut pass).unwrap();
            }
            leave(fake, lock);
            over.store(true, Ordering::Relaxed);
        });
        let begun = Instant::now();
        while !over.load(Ordering::Relaxed) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it starves");
            std::thread::sleep(Duration::from_millis(1));
        }
        greedy.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn after_a_failure_every_wait_ends() {
    for kind in KINDS {
        let (fake, lock) = fixture();
        std::thread::scope(|s| {
            let (fake, lock) = (&fake, &lock);
            let waits: Vec<_> = (0..6)
                .map(|request| {
                    s.spawn(move || {
                        lock.enter();
                        // As the runtime does: no wait blocks once the device has failed.
                        while !fake.failed.load(Ordering::Relaxed) {
                            let mut sleep = |_| {
                                fake.sleep();
                                Ok(())
                            };
                            lock.block(&**fake, kind(request), &mut sleep).unwrap();
                        }
                        leave(fake, lock);
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(20));
            // The thread that blocks in the device sees the failure.
            fake.failed.store(true, Ordering::Relaxed);
            fake.events.fetch_add(1, Ordering::Relaxed);
            fake.ring();
            let begun = Instant::now();
            while !waits.iter().all(|wait| wait.is_finished()) {
                let ended = begun.elapsed() < Duration::from_secs(20);
                assert!(ended, "a thread waits after the failure");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
}

/// A destructor of a thread's variables runs when the thread has no handle of its own any more.
#[test]
fn a_destructor_of_a_threads_variable_waits_for_the_lock() {
    struct AtEnd(Arc<Fake>, Arc<BigLock>, Arc<AtomicBool>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            self.1.enter();
            self.2.store(true, Ordering::Relaxed);
            leave(&self.0, &self.1);
        }
    }
    thread_local! {
        static AT_END: std::cell::RefCell<Option<AtEnd>> = const { std::cell::RefCell::new(None) };
    }
    let (fake, lock) = fixture();
    let entered = Arc::new(AtomicBool::new(false));
    lock.enter();
    let at_end = AtEnd(fake.clone(), lock.clone(), entered.clone());
    let thread = std::thread::spawn(move || AT_END.set(Some(at_end)));
    let begun = Instant::now();
    while lock.state().queue.is_empty() {
        let queued = begun.elapsed() < Duration::from_secs(20);
        assert!(queued, "the destructor does not wait for the lock");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!entered.load(Ordering::Relaxed));
    leave(&fake, &lock);
    thread.join().unwrap();
    assert!(entered.load(Ordering::Relaxed));
}
