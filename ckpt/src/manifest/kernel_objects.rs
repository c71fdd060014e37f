//! Descriptors without a file, both ends of which are within the process: pipes, pairs of local
//! sockets, event counters, timers, signal sets and epoll sets.
//!
//! A clone shares them with its process. So an image has their contents, and a restored process
//! makes them anew under their numbers. The contents are read without a change of them.

use std::os::fd::RawFd;

use super::description::Description;
use super::open_file::Descriptor;
use crate::error::Refused;
use crate::sys;
use epoll_sets::EpollSet;
use event_sources::EventSource;
use pipes::Pipe;
use socket_pairs::SocketPair;
use socket_peer::{SocketDiagnosis, SocketPeer};

mod epoll_sets;
mod event_sources;
mod pipes;
mod socket_pairs;
mod socket_peer;

/// Most bytes of all contents. The kernel's own limits are far below for most users.
const MOST_BYTES: usize = 64 << 20;

/// What a process does without system calls, or has done for it, would not be done any more.
const REFUSED: [&[u8]; 2] = [b"anon_inode:[userfaultfd]", b"anon_inode:[io_uring]"];

/// The objects.
#[derive(Default)]
pub(crate) struct KernelObjects {
    pipes: Vec<Pipe>,
    pairs: Vec<SocketPair>,
    sources: Vec<EventSource>,
    sets: Vec<EpollSet>,
}

/// An object that a restored process could not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotMade {
    pub fd: RawFd,
    pub errno: i32,
}

impl NotMade {
    /// Ends this process with a message: the program would wait for what never comes.
    pub fn end_process(self) -> ! {
        let text = sys::ShortPath::new(format_args!(
            "rejoin: descriptor {} can't be made again: error {}\n",
            self.fd, self.errno
        ));
        let _ = sys::write_all(2, text.as_c_str().to_bytes());
        sys::exit(1)
    }
}

impl KernelObjects {
    /// Reads those among `all` that are within the process. `is_other` are descriptors that do not
    /// belong to the program alone.
    ///
    /// # Errors
    /// [`Refused::Contents`] if one can't be read.
    pub fn capture(
        all: &[Descriptor],
        is_other: impl Fn(&Descriptor) -> bool,
    ) -> Result<Self, Refused> {
        let mut objects = Self::default();
        let others: Vec<_> = all.iter().filter(|d| is_other(d)).map(|d| d.file).collect();
        let own: Vec<_> = all.iter().filter(|d| is_without_file(d)).collect();
        let is_refused = |name: &[u8]| REFUSED.contains(&name);
        if let Some(one) = own.iter().find(|d| with_name(d.fd, is_refused)) {
            return Err(refused(one.fd, libc::ENOTSUP));
        }
        let (kernels, others): (Vec<&Descriptor>, Vec<_>) = own
            .into_iter()
            .filter(|d| d.mode & libc::S_IFMT == 0 || !others.contains(&d.file))
            .partition(|d| d.mode & libc::S_IFMT == 0);
        objects.add_sources(&kernels, all)?;
        objects.add_pipes(&others)?;
        objects.add_pairs(&others)?;
        let size = objects.pipes.iter().map(Pipe::size).sum::<usize>()
            + objects.pairs.iter().map(SocketPair::size).sum::<usize>();
        if size > MOST_BYTES {
            let number = others.first().map_or(0, |d| d.fd);
            return Err(refused(number, libc::EFBIG));
        }
        Ok(objects)
    }

    fn add_sources(&mut self, all: &[&Descriptor], every: &[Descriptor]) -> Result<(), Refused> {
        // Most kinds have one inode for all: only descriptors of one kind are compared.
        for kind in [
            &b"anon_inode:[eventfd]"[..],
            b"anon_inode:[timerfd]",
            b"anon_inode:[signalfd]",
            epoll_sets::NAME,
        ] {
            let is_one = |d: &&&Descriptor| with_name(d.fd, |name| name == kind);
            let of_kind: Vec<_> = all.iter().filter(is_one).copied().collect();
            for description in Description::all(&of_kind) {
                let fd = description.number();
                if description.is_signalling() {
                    continue;
                }
                if kind == epoll_sets::NAME {
                    let set = EpollSet::capture(description, every);
                    self.sets.push(set.map_err(|errno| refused(fd, errno))?);
                } else if let Some(source) = EventSource::capture(kind, description) {
                    self.sources
                        .push(source.map_err(|errno| refused(fd, errno))?);
                }
            }
        }
        Ok(())
    }

    fn add_pipes(&mut self, all: &[&Descriptor]) -> Result<(), Refused> {
        for file in files(all, libc::S_IFIFO) {
            let same: Vec<_> = all.iter().filter(|d| d.file == file).copied().collect();
            let fd = same[0].fd;
            let ends = Description::all(&same);
            let is_unnamed = with_name(fd, |name| name.starts_with(b"pipe:["));
            let is_signalling = ends.iter().any(Description::is_signalling);
            if !is_unnamed || is_signalling || !Pipe::is_within(&ends) {
                continue;
            }
            let pipe = Pipe::capture(ends).map_err(|errno| refused(fd, errno))?;
            self.pipes.push(pipe);
        }
        Ok(())
    }

    fn add_pairs(&mut self, all: &[&Descriptor]) -> Result<(), Refused> {
        let mut sockets = sockets(all);
        while let Some(socket) = sockets.pop() {
            let (fd, kind) = (socket.description.number(), socket.kind);
            let other = match socket.peer.inode {
                0 => None,
                inode => match sockets.iter().position(|s| s.inode == inode) {
                    Some(at) => Some(sockets.swap_remove(at)),
                    None => continue,
                },
            };
            let ends = [Some(socket), other];
            let is_signalling = |s: &UnnamedSocket| s.description.is_signalling();
            if ends.iter().flatten().any(is_signalling) {
                continue;
            }
            let ends = ends.map(|end| end.map(|s| (s.description, s.peer)));
            let pair = SocketPair::capture(kind, ends).map_err(|errno| refused(fd, errno))?;
            self.pairs.push(pair);
        }
        Ok(())
    }

    fn descriptions(&self) -> impl Iterator<Item = &Description> {
        let pipes = self.pipes.iter().flat_map(Pipe::descriptions);
        let pairs = self.pairs.iter().flat_map(SocketPair::descriptions);
        let sources = self.sources.iter().map(EventSource::description);
        let sets = self.sets.iter().map(EpollSet::description);
        pipes.chain(pairs).chain(sources).chain(sets)
    }

    /// Whether a descriptor is one of these.
    pub fn holds(&self, fd: RawFd) -> bool {
        self.descriptions().any(|one| one.has(fd))
    }

    /// In the zygote: closes the process's objects, so that the process sees the end of a pipe that
    /// it closes. `instead` takes their numbers.
    pub fn release(&self, instead: RawFd) {
        for one in self.descriptions() {
            // The number is open, so this replaces it and cannot run out of anything.
            let _ = one.put(instead);
        }
    }

    /// In a runner: makes all of them anew.
    pub fn restore(&self) -> Result<(), NotMade> {
        let check = |fd: RawFd, made: sys::Sys<()>| made.map_err(|errno| NotMade { fd, errno });
        for pipe in &self.pipes {
            check(pipe.number(), pipe.restore())?;
        }
        for pair in &self.pairs {
            check(pair.number(), pair.restore())?;
        }
        for set in &self.sets {
            check(set.description().number(), set.make())?;
        }
        for source in &self.sources {
            check(source.description().number(), source.restore())?;
        }
        // All that they watch is there by now.
        for set in &self.sets {
            check(set.description().number(), set.fill())?;
        }
        Ok(())
    }

    /// In the rank: stops to watch these numbers in the program's epoll sets, or begins again.
    pub fn watch(&self, numbers: &[RawFd], again: bool) {
        let operation = if again {
            libc::EPOLL_CTL_ADD
        } else {
            libc::EPOLL_CTL_DEL
        };
        for set in &self.sets {
            set.change(operation, numbers);
        }
    }
}

fn refused(fd: RawFd, errno: i32) -> Refused {
    let what = with_name(fd, |name| String::from_utf8_lossy(name).into_owned());
    Refused::Contents { fd, what, errno }
}

/// Pipes, sockets, and what has no kind for the file system.
fn is_without_file(one: &Descriptor) -> bool {
    matches!(one.mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFSOCK | 0)
}

/// The different files of a kind.
fn files(all: &[&Descriptor], kind: u32) -> Vec<(u64, u64)> {
    let mut files: Vec<_> = all
        .iter()
        .filter(|d| d.mode & libc::S_IFMT == kind)
        .map(|d| d.file)
        .collect();
    files.sort_unstable();
    files.dedup();
    files
}

/// A local socket without a name that has, or had, a peer.
struct UnnamedSocket {
    inode: u64,
    kind: i32,
    peer: SocketPeer,
    description: Description,
}

/// The program's local sockets without names. Without the kernel's diagnosis there are none.
fn sockets(all: &[&Descriptor]) -> Vec<UnnamedSocket> {
    let mut sockets = Vec::new();
    let mut diagnosis = None;
    for file in files(all, libc::S_IFSOCK) {
        let same: Vec<_> = all.iter().filter(|d| d.file == file).copied().collect();
        let Some(kind) = socket_pairs::kind_of(same[0].fd) else {
            continue;
        };
        if diagnosis.is_none() {
            diagnosis = SocketDiagnosis::open().ok();
        }
        let Some(kernel) = &diagnosis else {
            return Vec::new();
        };
        let Ok(Some(peer)) = kernel.peer(file.1) else {
            continue;
        };
        let description = Description::all(&same).swap_remove(0);
        sockets.push(UnnamedSocket {
            inode: file.1,
            kind,
            peer,
            description,
        });
    }
    sockets
}

/// Calls `use_it` with the kernel's name of a descriptor.
fn with_name<T>(fd: RawFd, use_it: impl FnOnce(&[u8]) -> T) -> T {
    let link = sys::ShortPath::new(format_args!("/proc/thread-self/fd/{fd}"));
    let mut buffer = [0; 64];
    use_it(sys::read_link(link.as_c_str(), &mut buffer).unwrap_or(b"?"))
}
