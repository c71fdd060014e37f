use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A device that sleeps until it is notified or until something arrives.
#[derive(Default)]
struct Fake {
    notified: Mutex<bool>,
    condvar: Condvar,
    events: AtomicU64,
}

impl Fake {
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

/// An MPI call that waits until `done`.
fn wait(fake: &Fake, lock: &BigLock, done: &AtomicBool) {
    lock.enter();
    let events = || fake.events.load(Ordering::Relaxed);
    while !done.load(Ordering::Relaxed) {
        let mut sleep = || {
            fake.sleep();
            Ok(())
        };
        lock.block(&events, &mut sleep).unwrap();
    }
    lock.leave(events());
}

#[test]
fn a_call_gets_in_while_another_blocks_and_its_news_are_told() {
    let (fake, lock) = fixture();
    let done = [const { AtomicBool::new(false) }; 6];
    std::thread::scope(|s| {
        for d in &done {
            let (fake, lock) = (&fake, &lock);
            s.spawn(move || wait(fake, lock, d));
        }
        // Each of these calls completes one waiting thread's request, in an order independent of
        // the thread that blocks in the device.
        for i in [3, 0, 5, 1, 4, 2] {
            std::thread::sleep(Duration::from_millis(5));
            lock.enter();
            done[i].store(true, Ordering::Relaxed);
            fake.events.fetch_add(1, Ordering::Relaxed);
            lock.leave(fake.events.load(Ordering::Relaxed));
        }
    });
}

#[test]
fn the_device_completes_for_any_thread() {
    let (fake, lock) = fixture();
    let done = [const { AtomicBool::new(false) }; 4];
    std::thread::scope(|s| {
        for d in &done {
            let (fake, lock) = (&fake, &lock);
            s.spawn(move || wait(fake, lock, d));
        }
        for d in &done {
            std::thread::sleep(Duration::from_millis(5));
            // The effect of a message: it has arrived, and the device's wait returns.
            d.store(true, Ordering::Relaxed);
            fake.events.fetch_add(1, Ordering::Relaxed);
            fake.ring();
        }
    });
}

#[test]
fn it_excludes() {
    let (fake, lock) = fixture();
    let count = AtomicU64::new(0);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..2000 {
                    lock.enter();
                    // Not atomic on purpose: only exclusion keeps the sum right.
                    let seen = count.load(Ordering::Relaxed);
                    count.store(seen + 1, Ordering::Relaxed);
                    lock.leave(fake.events.load(Ordering::Relaxed));
                }
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 8000);
}

#[test]
fn waiting_threads_do_not_wake_each_other_for_ever() {
    let (fake, lock) = fixture();
    let done = [const { AtomicBool::new(false) }; 5];
    let entries = AtomicU64::new(0);
    std::thread::scope(|s| {
        for d in &done {
            let (fake, lock, entries) = (&fake, &lock, &entries);
            s.spawn(move || {
                lock.enter();
                let events = || fake.events.load(Ordering::Relaxed);
                while !d.load(Ordering::Relaxed) {
                    entries.fetch_add(1, Ordering::Relaxed);
                    let mut sleep = || {
                        fake.sleep();
                        Ok(())
                    };
                    lock.block(&events, &mut sleep).unwrap();
                }
                lock.leave(events());
            });
        }
        // Once all have arrived nothing moves, so at some time no thread polls again.
        let begun = Instant::now();
        let mut last = 0;
        loop {
            std::thread::sleep(Duration::from_millis(100));
            let now = entries.load(Ordering::Relaxed);
            if now == last && now >= done.len() as u64 {
                break;
            }
            last = now;
            assert!(begun.elapsed() < Duration::from_secs(20), "{now} entries");
        }
        for d in &done {
            d.store(true, Ordering::Relaxed);
        }
        fake.events.fetch_add(1, Ordering::Relaxed);
        fake.ring();
    });
}

#[test]
fn the_thread_that_blocks_is_elsewhere_for_all_others() {
    let (fake, lock) = fixture();
    let done = AtomicBool::new(false);
    let slept = AtomicBool::new(false);
    lock.enter();
    assert!(!lock.is_blocking_elsewhere());
    lock.leave(0);
    std::thread::scope(|s| {
        let (fake, lock, done, slept) = (&fake, &lock, &done, &slept);
        s.spawn(move || {
            lock.enter();
            let events = || fake.events.load(Ordering::Relaxed);
            while !done.load(Ordering::Relaxed) {
                let mut sleep = || {
                    slept.store(true, Ordering::Relaxed);
                    fake.sleep();
                    Ok(())
                };
                lock.block(&events, &mut sleep).unwrap();
                assert!(!lock.is_blocking_elsewhere());
            }
            lock.leave(events());
        });
        while !slept.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        lock.enter();
        assert!(lock.is_blocking_elsewhere());
        done.store(true, Ordering::Relaxed);
        lock.leave(0);
    });
    lock.enter();
    assert!(!lock.is_blocking_elsewhere());
    lock.leave(0);
}
