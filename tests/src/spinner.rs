//! A thread that computes, as a measure of processor time on a busy machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Computes until it is stopped.
pub struct Spinner {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Spinner {
    /// Starts to compute.
    #[must_use]
    pub fn start() -> Spinner {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            processor_time()
        });
        Spinner { stop, thread }
    }

    /// Stops, and returns the processor time of the thread since the start. On an idle machine it
    /// equals the time that has passed; on a busy one it is less.
    ///
    /// # Panics
    /// When the thread panicked.
    pub fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the spinner")
    }
}

/// The processor time of the calling thread.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
