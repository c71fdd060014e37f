//! The rank's side, in place of the library's device.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use rejoin_ckpt::twin::{self, Imager, Settings, Taken};
use rejoin_ckpt::{Caveat, ImageNumber, Refused, checkpoint_request, threads};

use super::{BLOCK, LIMIT, receive, send};

/// Inside the library, where the handler only leaves the request pending.
static INSIDE: AtomicBool = AtomicBool::new(true);
static RANK: AtomicPtr<Rank> = AtomicPtr::new(std::ptr::null_mut());

/// A signal that the handler sends to its own process, where it waits for the handler's end.
pub static MEANWHILE: AtomicI32 = AtomicI32::new(0);

/// In the handler.
fn take_here(epoch: u32) -> bool {
    let Ok(_parked) = threads::try_park_others() else {
        return false;
    };
    if INSIDE.load(Ordering::Acquire) {
        return false;
    }
    match MEANWHILE.load(Ordering::Acquire) {
        0 => {}
        signal => {
            // SAFETY: touches no memory.
            unsafe { libc::kill(libc::getpid(), signal) };
        }
    }
    // SAFETY: `accept_checkpoints` stored the one rank of this process, which user code does not
    // use.
    let rank = unsafe { &mut *RANK.load(Ordering::Acquire) };
    rank.requested(epoch);
    true
}

/// A process under test.
pub struct Rank {
    pub imager: Imager,
    pub socket: RawFd,
    /// How often it was restored along the way here.
    pub generation: u32,
    pub caveats: Vec<Caveat>,
    pub body: Vec<u8>,
    pub fds: Vec<OwnedFd>,
    /// Of the last image.
    pub epoch: u32,
}

impl Rank {
    pub fn new(manager: i32, socket: OwnedFd) -> Self {
        // SAFETY: touches no memory; the number is new.
        let socket = unsafe {
            let raised = libc::fcntl(socket.as_raw_fd(), libc::F_DUPFD_CLOEXEC, BLOCK);
            drop(socket);
            raised
        };
        let signal = super::signal();
        let settings = Settings {
            manager,
            block: BLOCK,
            streams: [true, true],
            signal,
        };
        let imager = Imager::new(settings);
        let (caveats, body, fds) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            imager,
            socket,
            generation: 0,
            caveats,
            body,
            fds,
            epoch: 0,
        }
    }

    /// Takes an image and tells the manager. `true` in a restored process.
    pub fn image(&mut self) -> bool {
        let parked = match threads::park_others() {
            Ok(parked) => parked,
            Err(refused) => {
                self.refused(&refused);
                return false;
            }
        };
        match twin::take(
            &mut self.imager,
            &parked,
            ImageNumber::of_checkpoint(self.epoch),
        ) {
            Ok(Taken::Continued(image)) => {
                let mut fds = [0; 3];
                let all = [
                    Some(&image.wait),
                    image.stdout.as_ref(),
                    image.stderr.as_ref(),
                ];
                let mut count = 0;
                for fd in all.into_iter().flatten() {
                    fds[count] = fd.as_raw_fd();
                    count += 1;
                }
                let mut text = [0u8; 32];
                text[0] = b'I';
                text[1..5].copy_from_slice(&image.pid.to_le_bytes());
                text[8..16].copy_from_slice(&image.timings.prepare.to_le_bytes());
                text[16..24].copy_from_slice(&image.timings.clone.to_le_bytes());
                text[24] = u8::from(image.is_managers_child);
                text[25] = u8::from(image.summary.has_locks);
                text[26] = image.summary.written.len() as u8;
                text[27] = image.summary.caveats.len() as u8;
                text[28] = u8::from(image.stdout.is_some());
                text[29] = u8::from(image.stderr.is_some());
                send(self.socket, &text, &fds[..count]);
                false
            }
            Ok(Taken::Restored(restored)) => {
                let late = restored.late.restore().expect("the memory");
                let mut fds = restored.fds.into_iter();
                self.socket = fds.next().expect("a socket").into_raw_fd();
                self.fds = fds.collect();
                self.generation += 1;
                self.caveats = restored.caveats;
                self.caveats.extend(late);
                self.body = restored.body;
                true
            }
            Err(refused) => {
                self.refused(&refused);
                false
            }
        }
    }

    /// From now on requests for checkpoints are met.
    pub fn accept_checkpoints(&mut self) {
        RANK.store(self, Ordering::Release);
        checkpoint_request::install(super::signal(), take_here).expect("a handler");
    }

    fn requested(&mut self, epoch: u32) {
        if epoch > self.epoch {
            self.epoch = epoch;
            if self.image() {
                let text = format!("restored {}", self.generation);
                self.say(&text);
            }
        }
    }

    /// Runs user code: requests may come anywhere in it.
    pub fn user<T>(&mut self, code: impl FnOnce() -> T) -> T {
        // First the flag, then the look: a request between the two is met at once.
        INSIDE.store(false, Ordering::SeqCst);
        while let Some(epoch) = checkpoint_request::take_pending() {
            INSIDE.store(true, Ordering::SeqCst);
            self.requested(epoch);
            INSIDE.store(false, Ordering::SeqCst);
        }
        let result = code();
        INSIDE.store(true, Ordering::SeqCst);
        result
    }

    fn refused(&self, refused: &Refused) {
        self.say(&format!("refused: {refused}"));
    }

    /// Tells the manager a text.
    pub fn say(&self, text: &str) {
        send(self.socket, text.as_bytes(), &[]);
    }

    /// Waits for the manager's word.
    pub fn hear(&self) -> String {
        match receive(self.socket, LIMIT) {
            Some((bytes, _)) => String::from_utf8(bytes).expect("text"),
            // SAFETY: ends the process.
            None => unsafe { libc::_exit(0) },
        }
    }

    /// Takes an image whenever the manager says so, does what `act` does with other words, until it
    /// says `end`.
    pub fn serve(&mut self, mut act: impl FnMut(&mut Self, &str)) {
        loop {
            match self.hear().as_str() {
                "end" => return,
                "image" => {
                    if self.image() {
                        let text = format!("restored {}", self.generation);
                        self.say(&text);
                    }
                }
                word => act(self, word),
            }
        }
    }
}
