//! The manager's side: one rank, its pipes, its image.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rejoin_ckpt::twin::manager::{RestoreRequest, Zygote, ZygoteAnswer};

use super::{LIMIT, Rank, end_of, kill, pair, pidfd, pipe, read_to_end, readable, receive, send};

/// An image as the manager knows it.
pub struct Twin {
    pub pid: i32,
    pub pidfd: OwnedFd,
    pub zygote: Zygote,
    pub prepare: u64,
    pub clone: u64,
    pub is_managers_child: bool,
    pub has_locks: bool,
    pub written: u8,
    pub caveats: u8,
    pub missing: u64,
}

/// This side's ends of a restore's descriptors: the socket, standard output and standard error.
pub type Ends = (OwnedFd, OwnedFd, OwnedFd);

/// One rank.
pub struct Job {
    pub pid: i32,
    pub pidfd: OwnedFd,
    pub socket: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub twin: Option<Twin>,
    /// Its standard output before the last image.
    pub text: String,
    /// Its output since then, as far as it was read.
    fresh: Vec<u8>,
    /// Observations of earlier tries to request an image by signal.
    seen: Cell<rejoin_ckpt::checkpoint_request::Seen>,
}

impl Job {
    /// Forks a rank that runs `program`.
    pub fn start(program: impl FnOnce(&mut Rank)) -> Self {
        Self::start_below(program, false)
    }

    /// The same, with a process between when `is_wrapped`.
    pub fn start_below(program: impl FnOnce(&mut Rank), is_wrapped: bool) -> Self {
        let (socket, theirs) = pair();
        let (stdout, out) = pipe();
        let (stderr, err) = pipe();
        let manager = std::process::id() as i32;
        // SAFETY: one thread, so the child may do anything; the numbers are its own.
        unsafe {
            let mut pid = libc::fork();
            if pid == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if is_wrapped {
                    let inner = libc::fork();
                    if inner > 0 {
                        let mut status = 0;
                        send(theirs.as_raw_fd(), format!("inner {inner}").as_bytes(), &[]);
                        drop(theirs);
                        libc::close(out.as_raw_fd());
                        libc::close(err.as_raw_fd());
                        libc::waitpid(inner, &mut status, 0);
                        libc::_exit(i32::from(libc::waitpid(-1, &mut status, 0) > 0));
                    }
                }
                libc::dup2(out.as_raw_fd(), 1);
                libc::dup2(err.as_raw_fd(), 2);
                drop((out, err, stdout, stderr, socket));
                program(&mut Rank::new(manager, theirs));
                libc::_exit(0);
            }
            drop((theirs, out, err));
            if is_wrapped {
                let (bytes, _) = receive(socket.as_raw_fd(), LIMIT).expect("a number");
                let text = String::from_utf8(bytes).expect("text");
                pid = text
                    .strip_prefix("inner ")
                    .and_then(|n| n.parse().ok())
                    .expect("a number");
            }
            let (twin, text) = (None, String::new());
            Self {
                pid,
                pidfd: pidfd(pid),
                socket,
                stdout,
                stderr,
                twin,
                text,
                seen: Cell::default(),
                fresh: Vec::new(),
            }
        }
    }

    /// Tells the rank a word.
    pub fn tell(&self, word: &str) {
        send(self.socket.as_raw_fd(), word.as_bytes(), &[]);
    }

    /// The rank's next word, whatever it is.
    pub fn hear(&self) -> String {
        let (bytes, _) = receive(self.socket.as_raw_fd(), LIMIT).expect("the rank has ended");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The rank must say this.
    pub fn expect(&self, word: &str) {
        assert_eq!(self.hear(), word);
    }

    /// Asks a word of the rank.
    pub fn ask(&self, word: &str) -> String {
        self.tell(word);
        self.hear()
    }

    /// Has the rank take an image at its next safe point.
    pub fn image(&mut self) {
        self.tell("image");
        self.imaged();
    }

    /// Tries to order an image by signal.
    pub fn try_order(&self, epoch: u32) -> bool {
        let mut seen = self.seen.get();
        let pidfd = self.pidfd.as_fd();
        let sent = rejoin_ckpt::checkpoint_request::send(
            pidfd,
            self.pid,
            super::signal(),
            epoch,
            &mut seen,
        );
        self.seen.set(seen);
        sent.expect("the rank is there")
    }

    /// Orders an image by signal, as soon as the rank takes it: not while it takes another order.
    pub fn order(&self, epoch: u32) {
        let start = Instant::now();
        while !self.try_order(epoch) {
            assert!(start.elapsed() < LIMIT, "the signal is not handled");
            std::thread::yield_now();
        }
    }

    /// Waits until the rank sleeps in the call of this number.
    pub fn sleeps_in(&self, number: i64) {
        sleeps_in(self.pid, number);
    }

    /// Waits for an image; the former one is dropped. Reads the output up to now to its end.
    pub fn imaged(&mut self) {
        let (bytes, fds) = receive(self.socket.as_raw_fd(), LIMIT).expect("the rank has ended");
        assert_eq!(bytes[0], b'I', "{}", String::from_utf8_lossy(&bytes));
        self.take_image(&bytes, fds);
    }

    /// Reads output for `pause`, or until a message arrives. Then waits for an image, or returns
    /// the rank's message if it is another one.
    pub fn imaged_or_word(&mut self, pause: Duration) -> Option<String> {
        let end = Instant::now() + pause;
        loop {
            self.read_output();
            if readable(self.socket.as_raw_fd(), Duration::from_micros(100)) {
                break;
            }
        }
        let (bytes, fds) = receive(self.socket.as_raw_fd(), LIMIT).expect("the rank has ended");
        if bytes[0] != b'I' {
            return Some(String::from_utf8(bytes).expect("text"));
        }
        self.take_image(&bytes, fds);
        while Instant::now() < end {
            self.read_output();
        }
        None
    }

    /// Takes what is there of the current output, which counts only once the next image is taken.
    fn read_output(&mut self) {
        let mut part = [0u8; 65536];
        while readable(self.stdout.as_raw_fd(), Duration::ZERO) {
            // SAFETY: pointer and length describe the buffer.
            let count = unsafe {
                libc::read(
                    self.stdout.as_raw_fd(),
                    part.as_mut_ptr().cast(),
                    part.len(),
                )
            };
            if count <= 0 {
                return;
            }
            self.fresh.extend(&part[..count as usize]);
        }
    }

    /// All output, once the rank has nothing more to say.
    pub fn rest_of_text(&mut self) -> String {
        self.tell("end");
        assert_eq!(end_of(self.pidfd.as_raw_fd()), (libc::CLD_EXITED, 0));
        let rest = read_to_end(self.stdout.as_fd());
        let fresh = String::from_utf8(std::mem::take(&mut self.fresh)).expect("text");
        format!("{}{fresh}{rest}", self.text)
    }

    fn take_image(&mut self, bytes: &[u8], fds: Vec<OwnedFd>) {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let pid = i32::from_le_bytes(bytes[1..5].try_into().expect("4 bytes"));
        let mut fds = fds.into_iter();
        let mut zygote = Zygote::new(fds.next().expect("a socket")).expect("a zygote");
        if bytes[28] != 0 {
            let stdout = fds.next().expect("the output's pipe");
            let old = std::mem::replace(&mut self.stdout, stdout);
            let fresh = std::mem::take(&mut self.fresh);
            self.text += std::str::from_utf8(&fresh).expect("text");
            self.text += &read_to_end(old);
        }
        if bytes[29] != 0 {
            self.stderr = fds.next().expect("the errors' pipe");
        }
        let ZygoteAnswer::Frozen { missing, .. } = answer(&mut zygote) else {
            panic!("not frozen")
        };
        self.drop_twin();
        self.twin = Some(Twin {
            pid,
            pidfd: pidfd(pid),
            zygote,
            prepare: number(8),
            clone: number(16),
            is_managers_child: bytes[24] != 0,
            has_locks: bytes[25] != 0,
            written: bytes[26],
            caveats: bytes[27],
            missing,
        });
    }

    /// Ends the image's process.
    pub fn drop_twin(&mut self) {
        if let Some(twin) = self.twin.take() {
            kill(twin.pidfd.as_raw_fd(), libc::SIGKILL);
            if twin.is_managers_child {
                end_of(twin.pidfd.as_raw_fd());
            } else {
                assert!(readable(twin.pidfd.as_raw_fd(), LIMIT));
            }
        }
    }

    /// Kills the rank and waits for its end.
    pub fn kill(&self) {
        kill(self.pidfd.as_raw_fd(), libc::SIGKILL);
        assert_eq!(
            end_of(self.pidfd.as_raw_fd()),
            (libc::CLD_KILLED, libc::SIGKILL)
        );
    }

    /// Wakes the image; the new process takes the rank's place here.
    pub fn begin_restore(&mut self) {
        self.restore_with(b"hello", true, &[]);
    }

    /// The same with a choice.
    pub fn restore_with(&mut self, body: &[u8], cut_files: bool, spared: &[(u64, u64)]) {
        let ends = self.send_wake(body, cut_files, spared);
        self.arrive(ends);
    }

    /// Sends a restore request: the answer is still to come.
    pub fn send_wake(&mut self, body: &[u8], cut_files: bool, spared: &[(u64, u64)]) -> Ends {
        let (socket, theirs) = pair();
        let (stdout, out) = pipe();
        let (stderr, err) = pipe();
        let twin = self.twin.as_mut().expect("an image");
        let fds: [BorrowedFd<'_>; 1] = [theirs.as_fd()];
        let (stdout_end, stderr_end) = (Some(out.as_fd()), Some(err.as_fd()));
        let request = RestoreRequest {
            body,
            stdin: None,
            stdout: stdout_end,
            stderr: stderr_end,
            fds: &fds,
            cut_files,
            spared,
            accepts_overwritten: false,
            has_other_hosts: false,
        };
        let mut is_sent = twin.zygote.restore(&request).expect("restored");
        while !is_sent {
            is_sent = twin.zygote.flush().expect("restored");
        }
        (socket, stdout, stderr)
    }

    /// Waits for the process that a restore makes; it takes the rank's place here.
    pub fn arrive(&mut self, ends: Ends) {
        let twin = self.twin.as_mut().expect("an image");
        let ZygoteAnswer::Running { pid } = answer(&mut twin.zygote) else {
            panic!("not running")
        };
        self.fresh.clear();
        self.pid = pid;
        self.pidfd = pidfd(pid);
        (self.socket, self.stdout, self.stderr) = ends;
    }

    /// Kills the rank, restores its image, and waits for the report that the rank is back.
    pub fn restore(&mut self, generation: u32) {
        self.kill();
        self.begin_restore();
        self.expect(&format!("restored {generation}"));
    }

    /// Has the rank end well.
    pub fn finish(&mut self) {
        self.tell("end");
        assert_eq!(end_of(self.pidfd.as_raw_fd()), (libc::CLD_EXITED, 0));
        self.drop_twin();
    }
}

/// Waits for a zygote's answer.
pub fn answer(zygote: &mut Zygote) -> ZygoteAnswer {
    loop {
        assert!(
            readable(zygote.as_fd().as_raw_fd(), LIMIT),
            "the twin does not answer"
        );
        if let Some(answer) = zygote.answer().expect("an answer") {
            return answer;
        }
    }
}

/// Waits until a process sleeps in the call of this number.
fn sleeps_in(pid: i32, number: i64) {
    let (start, wanted) = (Instant::now(), format!("{number} "));
    loop {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).expect("a process");
        if call.starts_with(&wanted) {
            return;
        }
        assert!(start.elapsed() < LIMIT, "it does not come to call {number}");
        std::thread::yield_now();
    }
}
