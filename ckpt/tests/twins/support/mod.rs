//! A small harness without threads. Each test runs in a process of its own that plays the local
//! manager: it forks ranks, requests images, kills and restores. Its end takes everything with it.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

pub mod job;
pub mod rank;

pub use job::Job;
pub use rank::Rank;

/// Where the library's block of descriptors begins in ranks.
pub const BLOCK: RawFd = 512;
/// The signal of orders.
pub fn signal() -> i32 {
    libc::SIGRTMAX() - 2
}
/// The longest that anything may take. Only a defect reaches it.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A named test.
pub type Test = (&'static str, fn());

/// Runs those whose name holds one of the arguments; all without arguments.
pub fn run(tests: &[Test]) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filters: Vec<_> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let is_list = arguments.iter().any(|a| a == "--list");
    let mut failed = Vec::new();
    for (name, test) in tests {
        if !filters.is_empty() && !filters.iter().any(|f| name.contains(f.as_str())) {
            continue;
        }
        if is_list {
            println!("{name}: test");
            continue;
        }
        let start = Instant::now();
        let is_good = apart(*test);
        let word = if is_good { "ok" } else { "FAILED" };
        println!(
            "test {name} ... {word} ({} ms)",
            start.elapsed().as_millis()
        );
        if !is_good {
            failed.push(*name);
        }
    }
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
        std::process::exit(1);
    }
}

/// Runs a test in a child, which is ended when it takes too long.
fn apart(test: fn()) -> bool {
    // SAFETY: one thread, so the child may do anything.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: plain settings of this process.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            libc::setpgid(0, 0);
            // Inherited descriptors of this program must not reach the ranks.
            libc::close_range(3, u32::MAX, 0);
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            libc::dup2(null, 0);
            libc::close(null);
        }
        test();
        std::process::exit(0);
    }
    let child = pidfd(pid);
    let is_over = readable(child.as_raw_fd(), 2 * LIMIT);
    if !is_over {
        println!("it takes too long");
        kill(child.as_raw_fd(), libc::SIGKILL);
    }
    end_of(child.as_raw_fd()) == (libc::CLD_EXITED, 0) && is_over
}

/// A descriptor for a process.
pub fn pidfd(pid: i32) -> OwnedFd {
    // SAFETY: the descriptor is new.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
        assert!(fd >= 0, "no process {pid}");
        OwnedFd::from_raw_fd(fd)
    }
}

/// Sends a signal.
pub fn kill(pidfd: RawFd, signal: i32) {
    // SAFETY: touches no memory.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd, signal, 0, 0) };
}

/// Waits for a child's end. Returns the kind of the end, and its code.
pub fn end_of(pidfd: RawFd) -> (i32, i32) {
    assert!(readable(pidfd, LIMIT), "a process that was to end lives");
    // SAFETY: siginfo is plain data that the call fills in.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::__WALL;
        assert_eq!(
            libc::waitid(libc::P_PIDFD, pidfd as u32, &mut info, flags),
            0
        );
        (info.si_code, info.si_status())
    }
}

/// Waits until something can be read.
pub fn readable(fd: RawFd, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the pointer is to one pollfd.
        match unsafe { libc::poll(&mut poll, 1, left.as_millis() as i32) } {
            0 => return false,
            1.. => return true,
            _ if left.is_zero() => return false,
            _ => {}
        }
    }
}

/// A pair of sockets that keep messages apart.
pub fn pair() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the pointer is to two numbers, which are new descriptors afterwards.
    unsafe {
        assert_eq!(
            libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()),
            0
        );
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

/// A pipe: where to read, where to write.
pub fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers, which are new descriptors afterwards.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

/// Sends bytes and descriptors; nothing of the C library's heap.
pub fn send(socket: RawFd, bytes: &[u8], fds: &[RawFd]) {
    let mut control = [0u64; 16];
    // SAFETY: all pointers are to the buffers above, with their lengths.
    unsafe {
        let mut piece = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        if !fds.is_empty() {
            let length = std::mem::size_of_val(fds) as u32;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(length) as usize;
            let head = libc::CMSG_FIRSTHDR(&message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(length) as usize;
            std::ptr::copy_nonoverlapping(fds.as_ptr(), libc::CMSG_DATA(head).cast(), fds.len());
        }
        let count = libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL);
        assert_eq!(
            count,
            bytes.len() as isize,
            "sendmsg: {}",
            std::io::Error::last_os_error()
        );
    }
}

/// Receives a message with its descriptors; `None` at the end.
pub fn receive(socket: RawFd, limit: Duration) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
    assert!(readable(socket, limit), "nothing comes");
    let (mut bytes, mut control, mut fds) = (vec![0u8; 4096], [0u64; 32], Vec::new());
    // SAFETY: all pointers are to the buffers above, with their lengths; the descriptors are new.
    unsafe {
        let mut piece = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = std::mem::size_of_val(&control);
        let count = libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC);
        if count <= 0 {
            return None;
        }
        bytes.truncate(count as usize);
        let head = libc::CMSG_FIRSTHDR(&message);
        if !head.is_null() {
            let number = ((*head).cmsg_len - libc::CMSG_LEN(0) as usize) / 4;
            let data = libc::CMSG_DATA(head).cast::<RawFd>();
            fds.extend((0..number).map(|at| OwnedFd::from_raw_fd(data.add(at).read_unaligned())));
        }
    }
    Some((bytes, fds))
}

/// Writes a text.
pub fn write(fd: RawFd, text: &str) {
    // SAFETY: pointer and length describe the text.
    let count = unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
    assert_eq!(count, text.len() as isize);
}

/// Everything up to the end of a pipe.
pub fn read_to_end(fd: impl AsFd) -> String {
    let (fd, mut text, mut part) = (fd.as_fd().as_raw_fd(), Vec::new(), [0u8; 65536]);
    loop {
        assert!(
            readable(fd, LIMIT),
            "a pipe stays open: someone holds its other end"
        );
        // SAFETY: pointer and length describe the buffer.
        match unsafe { libc::read(fd, part.as_mut_ptr().cast(), part.len()) } {
            0 => return String::from_utf8(text).expect("text"),
            count @ 1.. => text.extend(&part[..count as usize]),
            _ => panic!("read: {}", std::io::Error::last_os_error()),
        }
    }
}

/// A field of `/proc/PID/status`.
pub fn status_of(pid: i32, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = text
        .lines()
        .find(|l| l.starts_with(key))
        .expect("a known field");
    line[key.len()..].trim_start_matches(':').trim().to_owned()
}

/// Numbers that are the same for the same seed.
pub struct Random(pub u64);

impl Random {
    /// The next one, below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// From the environment or the clock, and printed.
    pub fn new(name: &str) -> Self {
        let given = std::env::var("REJOIN_SEED")
            .ok()
            .and_then(|s| s.parse().ok());
        let clock = || {
            std::time::SystemTime::UNIX_EPOCH
                .elapsed()
                .map_or(1, |t| t.as_nanos() as u64)
        };
        let seed = given.unwrap_or_else(clock) | 1;
        println!("{name}: REJOIN_SEED={seed}");
        Self(seed)
    }
}

/// Has the system refuse a call from now on.
pub fn refuse(number: i64, errno: i32) {
    let code = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut program = [
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        code(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            number as u32,
            0,
            1,
        ),
        code(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | errno as u32,
            0,
            0,
        ),
        code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: 4,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the pointer is to a filter of the length given.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter, 0, 0),
            0
        );
    }
}
