//! Mutexes and other locks that threads hold or wait for when an image is taken.

use std::cell::UnsafeCell;
use std::ptr::null;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{Job, Random, Test};
use crate::threads::{Workers, all_go_on, with_workers};

pub const TESTS: &[Test] = &[
    ("locks_normal_mutexes_exclude", || exclude(Kind::Normal)),
    ("locks_recursive_mutexes_exclude", || {
        exclude(Kind::Recursive)
    }),
    ("locks_checking_mutexes_exclude", || exclude(Kind::Checking)),
    ("locks_adaptive_mutexes_exclude", || exclude(Kind::Adaptive)),
    ("locks_robust_mutexes_exclude", || exclude(Kind::Robust)),
    ("locks_of_readers_and_writers_exclude", readers_and_writers),
    ("locks_barriers_and_semaphores_go_on", barriers),
    (
        "locks_that_inherit_priority_go_on_without_rivals",
        uncontended,
    ),
    (
        "locks_that_inherit_priority_refuse_images_of_waits",
        contended,
    ),
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Normal,
    Recursive,
    Checking,
    Adaptive,
    Robust,
    Inheriting,
}

/// glibc's number of the adaptive kind.
const ADAPTIVE: i32 = 3;

/// A mutex of the C library.
struct Lock {
    kind: Kind,
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    /// What the mutex protects: two numbers that are equal when nobody holds it.
    numbers: UnsafeCell<[u64; 2]>,
}

// SAFETY: a mutex is for several threads, and it protects the numbers.
unsafe impl Send for Lock {}
// SAFETY: as above.
unsafe impl Sync for Lock {}

impl Lock {
    fn new(kind: Kind) -> Arc<Self> {
        // SAFETY: both structures are plain data that the calls fill in. The mutex has its final
        // address when it is made.
        unsafe {
            let lock = Arc::new(Self {
                kind,
                mutex: std::mem::zeroed(),
                numbers: UnsafeCell::new([0; 2]),
            });
            let mut how: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut how);
            let number = match kind {
                Kind::Recursive => libc::PTHREAD_MUTEX_RECURSIVE,
                Kind::Checking => libc::PTHREAD_MUTEX_ERRORCHECK,
                Kind::Adaptive => ADAPTIVE,
                _ => libc::PTHREAD_MUTEX_NORMAL,
            };
            assert_eq!(libc::pthread_mutexattr_settype(&mut how, number), 0);
            if kind == Kind::Robust {
                libc::pthread_mutexattr_setrobust(&mut how, libc::PTHREAD_MUTEX_ROBUST);
            }
            if kind == Kind::Inheriting {
                libc::pthread_mutexattr_setprotocol(&mut how, libc::PTHREAD_PRIO_INHERIT);
            }
            assert_eq!(libc::pthread_mutex_init(lock.mutex.get(), &how), 0);
            lock
        }
    }

    fn lock(&self) {
        // SAFETY: the mutex lives as long as this.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.mutex.get()) }, 0);
    }

    fn unlock(&self) {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.mutex.get()) }, 0);
    }

    /// Locks, uses what is protected, sleeps with the lock held, and unlocks.
    fn turn(&self) {
        self.lock();
        // SAFETY: the mutex is held.
        unsafe {
            match self.kind {
                Kind::Recursive => assert_eq!(libc::pthread_mutex_lock(self.mutex.get()), 0),
                Kind::Checking => {
                    assert_eq!(libc::pthread_mutex_lock(self.mutex.get()), libc::EDEADLK);
                }
                _ => {}
            }
            let numbers = self.numbers.get();
            assert_eq!((*numbers)[0], (*numbers)[1]);
            (*numbers)[0] += 1;
            libc::usleep(1000);
            (*numbers)[1] += 1;
            if self.kind == Kind::Recursive {
                assert_eq!(libc::pthread_mutex_unlock(self.mutex.get()), 0);
            }
        }
        self.unlock();
        if self.kind == Kind::Checking {
            // SAFETY: the mutex lives as long as this.
            let again = unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
            assert_eq!(again, libc::EPERM);
        }
        // SAFETY: touches no memory.
        unsafe { libc::usleep(300) };
    }
}

/// Images at random moments, each of which is restored.
fn through_images(mut job: Job, name: &str) {
    let mut random = Random::new(name);
    for generation in 1..=15 {
        std::thread::sleep(std::time::Duration::from_micros(random.below(4000)));
        job.image();
        job.restore(generation);
        assert_eq!(job.ask("well?"), "late: []");
    }
    job.finish();
}

fn exclude(kind: Kind) {
    let job = with_workers(3, |workers| {
        let lock = Lock::new(kind);
        for _ in 0..3 {
            let lock = lock.clone();
            workers.add(move || lock.turn());
        }
    });
    through_images(job, "mutex");
}

fn readers_and_writers() {
    let job = with_workers(3, |workers| {
        let numbers = Arc::new(std::sync::RwLock::new([0u64; 2]));
        for number in 0..4 {
            let numbers = numbers.clone();
            workers.add(move || {
                if number == 0 {
                    let mut both = numbers.write().expect("no panic");
                    both[0] += 1;
                    std::thread::sleep(std::time::Duration::from_micros(500));
                    both[1] += 1;
                } else {
                    let both = numbers.read().expect("no panic");
                    assert_eq!(both[0], both[1]);
                }
                std::thread::sleep(std::time::Duration::from_micros(500));
            });
        }
    });
    through_images(job, "readers and writers");
}

/// Memory of a kind that several threads use through the C library.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: the C library's barriers and semaphores are for several threads.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

fn barriers() {
    let job = with_workers(3, |workers| {
        // SAFETY: both are made at their final address.
        let (barrier, full, empty) = unsafe {
            let barrier = Arc::new(Shared(UnsafeCell::new(std::mem::zeroed::<
                libc::pthread_barrier_t,
            >())));
            assert_eq!(libc::pthread_barrier_init(barrier.0.get(), null(), 3), 0);
            let semaphore = |count| {
                let made = Arc::new(Shared(UnsafeCell::new(std::mem::zeroed::<libc::sem_t>())));
                assert_eq!(libc::sem_init(made.0.get(), 0, count), 0);
                made
            };
            (barrier, semaphore(0), semaphore(2))
        };
        let met = Arc::new(AtomicU32::new(0));
        for _ in 0..3 {
            let (barrier, met) = (barrier.clone(), met.clone());
            let mut round = 0;
            workers.add(move || {
                met.fetch_add(1, Ordering::AcqRel);
                // SAFETY: the barrier lives as long as this.
                unsafe { libc::pthread_barrier_wait(barrier.0.get()) };
                round += 1;
                assert!(met.load(Ordering::Acquire) >= 3 * round);
                // SAFETY: touches no memory.
                unsafe { libc::usleep(500) };
            });
        }
        for (take, give) in [(&full, &empty), (&empty, &full)] {
            let (take, give) = (take.clone(), give.clone());
            // SAFETY: both live as long as this.
            workers.add(move || unsafe {
                assert_eq!(libc::sem_wait(take.0.get()), 0);
                libc::usleep(200);
                assert_eq!(libc::sem_post(give.0.get()), 0);
            });
        }
    });
    through_images(job, "barriers");
}

fn uncontended() {
    all_go_on(with_workers(3, |workers| {
        for _ in 0..2 {
            let lock = Lock::new(Kind::Inheriting);
            workers.add(move || lock.turn());
        }
    }));
}

fn contended() {
    let mut job = Job::start(|rank| {
        let lock = Lock::new(Kind::Inheriting);
        lock.lock();
        let mut workers = Workers::default();
        let rival = lock.clone();
        workers.add(move || {
            rival.lock();
            rival.unlock();
            // SAFETY: touches no memory.
            unsafe { libc::usleep(1000) };
        });
        // SAFETY: touches no memory.
        unsafe { libc::usleep(50_000) };
        rank.serve(|rank, word| {
            if word == "unlock" {
                lock.unlock();
            }
            rank.say(&format!("late: {:?}", workers.late(1)));
        });
    });
    let text = job.ask("image");
    assert!(text.starts_with("refused: thread "), "{text}");
    assert!(
        text.ends_with("waits for a mutex that inherits priority"),
        "{text}"
    );
    assert_eq!(job.ask("unlock"), "late: []");
    job.image();
    assert_eq!(job.ask("well?"), "late: []");
    job.restore(1);
    assert_eq!(job.ask("well?"), "late: []");
    job.finish();
}
