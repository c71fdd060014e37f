//! Where the ranks' output goes: mpirun's own standard output and error.
//!
//! Writing never blocks where that is possible, so that signals and deaths are handled while a
//! reader takes its time. The flags of the inherited descriptor stay as they are: others share it.

use crate::Stream;
use crate::terminal_line;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use rejoin_channel_table::Rank;
use rejoin_managers_protocol::central::HostIndex;
use std::collections::{BTreeSet, VecDeque};
use std::io::IsTerminal as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

/// How a descriptor is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// A description of our own, which does not block; or a file, which does not matter.
    Write,
    /// A socket, told with each call not to block.
    Send,
}

/// Why output can't be written any more.
#[derive(Debug)]
pub enum SinkLost {
    /// The reader went away.
    Unread,
    /// The system refused.
    Error(std::io::Error),
}

/// Lines of others wait so long for the end of an unfinished line that is shown.
const LINE_PATIENCE: Duration = Duration::from_secs(1);

/// Output of a stream of a rank.
#[derive(Debug)]
struct Piece {
    /// The host, and the bytes of window that it gets back.
    from: (HostIndex, u32),
    stream: (Rank, Stream),
    bytes: Vec<u8>,
    /// The stream has ended.
    is_last: bool,
    /// Each line gets a tag.
    tag: bool,
}

/// One place that output goes to.
#[derive(Debug)]
pub struct Sink {
    fd: OwnedFd,
    how: How,
    /// Other lines may be shown on it.
    is_terminal: bool,
    /// Bytes to write, with the bytes of window that each piece gives back to its host.
    queue: VecDeque<(Vec<u8>, HostIndex, u32)>,
    /// Bytes of the first piece that are written.
    written: usize,
    closed: bool,
    /// Why writing failed; not taken yet.
    lost: Option<SinkLost>,
    /// Streams whose last line is unfinished, for tags.
    unfinished: BTreeSet<(Rank, Stream)>,
    /// The stream whose unfinished line is shown, and since when.
    begun: Option<((Rank, Stream), Instant)>,
    /// Output of others, which waits for the end of that line.
    later: VecDeque<Piece>,
}

impl Sink {
    /// A sink for descriptor 1 or 2.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(fd: BorrowedFd<'_>) -> std::io::Result<Sink> {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let kind = std::fs::metadata(&path).map(|m| m.file_type());
        let is = |test: fn(&std::fs::FileType) -> bool| kind.as_ref().is_ok_and(test);
        let (mut own, mut how) = (None, How::Write);
        if is(|k| k.is_socket()) {
            how = How::Send;
        } else if is(|k| k.is_fifo() || k.is_char_device()) {
            // A new open gives own flags. If that fails, the stream is written as it is.
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
            own = std::fs::OpenOptions::new()
                .write(true)
                .custom_flags(flags)
                .open(&path)
                .ok();
        }
        let fd = match own {
            Some(file) => OwnedFd::from(file),
            None => fd.try_clone_to_owned()?,
        };
        Ok(Sink {
            is_terminal: fd.is_terminal(),
            fd,
            how,
            queue: VecDeque::new(),
            written: 0,
            closed: false,
            lost: None,
            unfinished: BTreeSet::new(),
            begun: None,
            later: VecDeque::new(),
        })
    }

    /// Queues output, with a tag before each line if wanted. Once it is written, so many bytes of
    /// the host's window are given back.
    pub fn push(
        &mut self,
        from: (HostIndex, u32),
        stream: (Rank, Stream),
        bytes: Vec<u8>,
        is_last: bool,
        tag: bool,
    ) {
        let piece = Piece {
            from,
            stream,
            bytes,
            is_last,
            tag,
        };
        if self.waits(stream) {
            self.later.push_back(piece);
            return;
        }
        self.append(piece);
        self.append_later();
    }

    /// Whether output of this stream must wait for the end of another one's line.
    fn waits(&self, stream: (Rank, Stream)) -> bool {
        let begun = self.begun.filter(|(begun, _)| *begun != stream);
        begun.is_some_and(|(_, since)| since.elapsed() < LINE_PATIENCE)
    }

    /// Appends the output that does not wait any more, that of each stream in its order.
    fn append_later(&mut self) {
        loop {
            let ready = self
                .later
                .iter()
                .position(|piece| !self.waits(piece.stream));
            let Some(piece) = ready.and_then(|at| self.later.remove(at)) else {
                return;
            };
            self.append(piece);
        }
    }

    fn append(&mut self, piece: Piece) {
        let Piece {
            from: (host, credit),
            stream,
            bytes,
            is_last,
            tag,
        } = piece;
        if is_last || bytes.ends_with(b"\n") {
            self.begun.take_if(|(begun, _)| *begun == stream);
        } else if !bytes.is_empty() && self.begun.is_none_or(|(begun, _)| begun != stream) {
            self.begun = Some((stream, Instant::now()));
        }
        let bytes = if tag {
            self.tagged(stream.0, stream.1, &bytes, is_last)
        } else {
            bytes
        };
        self.queue.push_back((bytes, host, credit));
    }

    /// How long until output that waits for the end of a line is shown all the same.
    #[must_use]
    pub fn wait_limit(&self) -> Option<Duration> {
        let (_, since) = self.begun.filter(|_| !self.later.is_empty())?;
        Some(LINE_PATIENCE.saturating_sub(since.elapsed()))
    }

    fn tagged(&mut self, rank: Rank, stream: Stream, bytes: &[u8], last: bool) -> Vec<u8> {
        let name = if stream == Stream::Out {
            "stdout"
        } else {
            "stderr"
        };
        let tag = format!("[{}]<{name}> ", rank.0);
        let mut out = Vec::with_capacity(bytes.len() + tag.len() * 2);
        let mut begun = self.unfinished.remove(&(rank, stream));
        for line in bytes.split_inclusive(|&b| b == b'\n') {
            if !begun {
                out.extend_from_slice(tag.as_bytes());
            }
            out.extend_from_slice(line);
            begun = !line.ends_with(b"\n");
        }
        if begun && last {
            // The next line's tag must not be in the middle of a line.
            out.push(b'\n');
        } else if begun {
            self.unfinished.insert((rank, stream));
        }
        out
    }

    /// Writes what can be written, and adds the bytes of window to give back to each host's.
    pub fn flush(&mut self, credit: &mut [u32]) {
        if self.closed {
            self.begun = None;
        }
        self.append_later();
        while let Some((bytes, host, gives)) = self.queue.front() {
            if self.closed || self.written == bytes.len() {
                if let Some(credit) = credit.get_mut(*host) {
                    *credit += gives;
                }
                self.queue.pop_front();
                self.written = 0;
                continue;
            }
            let rest = &bytes[self.written..];
            if self.is_terminal {
                terminal_line::clear();
            }
            let result = match self.how {
                How::Write => nix::unistd::write(&self.fd, rest),
                How::Send => {
                    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                    send(self.fd.as_raw_fd(), rest, flags)
                }
            };
            match result {
                Ok(count) => {
                    if self.is_terminal {
                        terminal_line::wrote(&rest[..count]);
                    }
                    self.written += count;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(error) => {
                    self.closed = true;
                    self.lost = Some(match error {
                        Errno::EPIPE | Errno::ECONNRESET => SinkLost::Unread,
                        _ => SinkLost::Error(error.into()),
                    });
                }
            }
        }
    }

    /// Whether the stream has no reader any more, or a write failed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Nothing waits to be written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.later.is_empty()
    }

    /// The sink did not take all that it was to write.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Why writing failed, if it did; said once.
    pub fn lost(&mut self) -> Option<SinkLost> {
        self.lost.take()
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Both descriptors are the same file, so that lines of both must be kept apart by one sink.
#[must_use]
pub fn are_one() -> bool {
    let id = |n: i32| {
        std::fs::metadata(format!("/proc/self/fd/{n}"))
            .map(|m| (m.dev(), m.ino()))
            .ok()
    };
    id(1).is_some() && id(1) == id(2)
}

/// Whether somebody may read standard output, and standard error, as they come: a person, or
/// another process. In a file only whole lines are of use.
#[must_use]
pub fn are_read_at_once() -> [bool; 2] {
    [1, 2].map(|number| {
        let file = std::fs::metadata(format!("/proc/self/fd/{number}"));
        file.is_ok_and(|file| !file.is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn sink() -> (std::io::PipeReader, Sink) {
        let (reader, writer) = std::io::pipe().unwrap();
        let sink = Sink::new(writer.as_fd()).unwrap();
        drop(writer);
        (reader, sink)
    }

    fn flushed(sink: &mut Sink) -> [u32; 2] {
        let mut credit = [0; 2];
        sink.flush(&mut credit);
        credit
    }

    #[test]
    fn tags_stand_at_the_start_of_lines_only() {
        let (mut reader, mut sink) = sink();
        sink.push(
            (0, 3),
            (Rank(1), Stream::Out),
            b"a\nb".to_vec(),
            false,
            true,
        );
        assert_eq!(flushed(&mut sink), [3, 0]);
        sink.push((0, 2), (Rank(1), Stream::Out), b"c\n".to_vec(), false, true);
        sink.push((1, 1), (Rank(2), Stream::Err), b"d".to_vec(), true, true);
        assert_eq!(flushed(&mut sink), [2, 1]);
        drop(sink);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "[1]<stdout> a\n[1]<stdout> bc\n[2]<stderr> d\n");
    }

    #[test]
    fn lines_of_others_wait_for_the_end_of_a_line_that_is_shown() {
        let (mut reader, mut sink) = sink();
        let mut push = |rank, text: &str| {
            let stream = (Rank(rank), Stream::Out);
            sink.push((0, 1), stream, text.into(), false, false);
        };
        push(1, "a");
        push(2, "c\n");
        push(2, "d");
        push(3, "g\n");
        push(2, "D");
        push(1, "b\n");
        push(1, "f\n");
        assert!(sink.wait_limit().is_some());
        sink.push((0, 1), (Rank(2), Stream::Out), b"e".to_vec(), true, false);
        flushed(&mut sink);
        assert!(sink.is_empty() && sink.wait_limit().is_none());
        drop(sink);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ab\nc\ndDeg\nf\n");
    }

    #[test]
    fn a_line_that_does_not_end_keeps_others_for_a_moment_only() {
        let (mut reader, mut sink) = sink();
        sink.push((0, 1), (Rank(1), Stream::Out), b"a".to_vec(), false, false);
        sink.push(
            (0, 1),
            (Rank(2), Stream::Out),
            b"b\n".to_vec(),
            false,
            false,
        );
        assert_eq!(flushed(&mut sink), [1, 0]);
        std::thread::sleep(sink.wait_limit().unwrap());
        assert_eq!(flushed(&mut sink), [1, 0]);
        drop(sink);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ab\n");
    }

    #[test]
    fn a_slow_reader_does_not_block_and_a_gone_one_closes() {
        let (mut reader, mut sink) = sink();
        sink.push(
            (1, 1 << 20),
            (Rank(0), Stream::Out),
            vec![7; 1 << 20],
            false,
            false,
        );
        assert_eq!(flushed(&mut sink), [0, 0]);
        let mut some = vec![0; 1 << 16];
        reader.read_exact(&mut some).unwrap();
        assert_eq!(flushed(&mut sink), [0, 0]);
        assert!(!sink.is_empty() && !sink.is_closed());
        drop(reader);
        assert_eq!(flushed(&mut sink), [0, 1 << 20]);
        assert!(sink.is_closed() && sink.is_empty());
        assert!(matches!(sink.lost(), Some(SinkLost::Unread)) && sink.lost().is_none());
    }
}
