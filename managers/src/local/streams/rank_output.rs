//! The ranks' standard output and error: read as pipes, passed on in whole lines, within a window.

use crate::launch::local_messages::LocalToMpirun;
use crate::local::kind;
use crate::local::links::MpirunLink;
use nix::errno::Errno;
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_managers_host::error::Result;
use rejoin_managers_host::set_nonblocking;
use rejoin_managers_net::reactor::{Interest, Reactor};
use rejoin_managers_stdio::lines::Lines;
use rejoin_managers_stdio::{OUTPUT_WINDOW, Stream};
use serde_bytes::ByteBuf;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Who reads an output as it comes sees an unfinished line after this time.
const PROMPT: Duration = Duration::from_millis(100);

/// The C library, Python and Fortran write full buffers, whose sizes are multiples of this. A line
/// that is unfinished at the end of one is no line that the program wants to be seen.
const BUFFER: usize = 4096;

/// Of a line that is unfinished when its rank stores its state, so much is kept at most.
const MOST_BEGUN: usize = 4096;

/// Bytes that may wait for mpirun before they are written at once.
const MOST_BACKLOG: usize = 256 * 1024;

const STREAMS: [Stream; 2] = [Stream::Out, Stream::Err];

/// One output pipe of one rank.
struct OutputPipe {
    pipe: OwnedFd,
    lines: Lines,
    /// Watched by epoll; not while the window is used up.
    watched: bool,
    /// The pipe has no writer any more; its unfinished line waits until the rank's end or restore
    /// is decided.
    ended: bool,
    /// Since when the unfinished line has waited.
    waiting: Option<Instant>,
}

impl OutputPipe {
    /// The pipe of a process that has written the beginning of a line already.
    fn after(pipe: OwnedFd, partial: Vec<u8>) -> Self {
        OutputPipe {
            pipe,
            lines: Lines::after(partial),
            watched: false,
            ended: false,
            waiting: None,
        }
    }

    fn unwatch(&mut self, reactor: &Reactor) {
        if std::mem::take(&mut self.watched) {
            reactor.remove(&self.pipe);
        }
    }
}

/// The pipes of one rank.
struct RankPipes {
    rank: Rank,
    /// Of the process that writes.
    incarnation: Incarnation,
    pipes: [Option<OutputPipe>; 2],
    /// The process that writes has ended by its own will.
    exited: bool,
}

impl RankPipes {
    /// Of a rank without a process.
    fn new(rank: Rank) -> RankPipes {
        RankPipes {
            rank,
            incarnation: Incarnation(0),
            pipes: [None, None],
            exited: false,
        }
    }
}

enum Read {
    Bytes(Vec<u8>),
    Nothing,
    End,
}

/// The output pipes of this host's ranks, and the window that mpirun grants for all of them.
pub struct RankOutputs {
    /// By slot.
    ranks: Vec<RankPipes>,
    /// Bytes that mpirun can still take; a little below zero at times.
    window: isize,
    /// Streams without a reader.
    closed_sinks: [bool; 2],
    /// Killed ranks may come back.
    come_back: bool,
    /// Unfinished lines of these streams are read, too.
    read_at_once: [bool; 2],
}

impl RankOutputs {
    /// Without ranks; the window is [`OUTPUT_WINDOW`].
    pub fn new() -> RankOutputs {
        RankOutputs {
            ranks: Vec::new(),
            window: OUTPUT_WINDOW as isize,
            closed_sinks: [false; 2],
            come_back: false,
            read_at_once: [false; 2],
        }
    }

    /// The ranks of this host, in the order of their slots. `come_back`: those that are killed may
    /// come back. `read_at_once`: unfinished lines of these streams are read, too.
    pub fn serve(
        &mut self,
        ranks: impl Iterator<Item = Rank>,
        come_back: bool,
        read_at_once: [bool; 2],
    ) {
        self.ranks = ranks.map(RankPipes::new).collect();
        (self.come_back, self.read_at_once) = (come_back, read_at_once);
    }

    /// A rank of a lost host is on this one, in the next slot.
    pub fn take_in(&mut self, rank: Rank) {
        self.ranks.push(RankPipes::new(rank));
    }

    /// The job is over: no rank comes back.
    pub fn job_over(&mut self) {
        self.come_back = false;
    }

    /// Reads the pipes of a rank's new process, which continues these unfinished lines.
    pub fn begin(
        &mut self,
        slot: usize,
        incarnation: Incarnation,
        pipes: [OwnedFd; 2],
        begun: [Vec<u8>; 2],
        reactor: &Reactor,
    ) -> Result<()> {
        let rank = &mut self.ranks[slot];
        (rank.incarnation, rank.exited) = (incarnation, false);
        let new = pipes.into_iter().zip(begun).zip(self.closed_sinks);
        for (place, ((pipe, begun), closed)) in rank.pipes.iter_mut().zip(new) {
            *place = (!closed).then(|| OutputPipe::after(pipe, begun));
        }
        self.watch(slot, reactor)
    }

    /// Watches the pipes of a rank that are not watched yet, if the window is open.
    fn watch(&mut self, slot: usize, reactor: &Reactor) -> Result<()> {
        if self.window <= 0 {
            return Ok(());
        }
        let rank = &mut self.ranks[slot];
        for (output, kind) in rank.pipes.iter_mut().zip([kind::OUT, kind::ERR]) {
            if let Some(output) = output
                && !output.watched
                && !output.ended
            {
                let token = kind::of_process(kind, rank.incarnation, slot);
                reactor.add(&output.pipe, token, Interest::READ)?;
                output.watched = true;
            }
        }
        Ok(())
    }

    /// mpirun can take so many bytes more.
    pub fn credit(&mut self, count: u32, reactor: &Reactor) -> Result<()> {
        self.window += count as isize;
        (0..self.ranks.len()).try_for_each(|slot| self.watch(slot, reactor))
    }

    /// A stream has no reader any more.
    pub fn close_sink(&mut self, stream: Stream, reactor: &Reactor) {
        self.closed_sinks[stream as usize] = true;
        for slot in 0..self.ranks.len() {
            self.close(slot, stream, reactor);
        }
    }

    fn close(&mut self, slot: usize, stream: Stream, reactor: &Reactor) {
        if let Some(mut output) = self.ranks[slot].pipes[stream as usize].take() {
            output.unwatch(reactor);
        }
    }

    /// Reads a pipe once and passes whole lines on. Returns whether there may be more.
    fn read_once(
        &mut self,
        slot: usize,
        stream: Stream,
        mpirun: &mut MpirunLink,
        reactor: &Reactor,
    ) -> bool {
        let rank = &mut self.ranks[slot];
        let may_come_back = self.come_back && !rank.exited;
        let Some(output) = &mut rank.pipes[stream as usize] else {
            return false;
        };
        let mut buffer = [0u8; 64 * 1024];
        let read = match nix::unistd::read(&output.pipe, &mut buffer) {
            Ok(0) => Read::End,
            Ok(count) => {
                let is_wanted = self.read_at_once[stream as usize] && count % BUFFER != 0;
                let bytes = output.lines.push(&buffer[..count]);
                let waits = is_wanted && output.lines.pending() > 0;
                output.waiting = waits.then(Instant::now);
                Read::Bytes(bytes)
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Read::Nothing,
            Err(_) => Read::End,
        };
        match read {
            Read::Nothing => false,
            Read::Bytes(bytes) => {
                self.pass_on(slot, stream, bytes, false, mpirun, reactor);
                true
            }
            // A rank that was killed in the middle of a line writes that line again when it is
            // back.
            Read::End if may_come_back => {
                output.unwatch(reactor);
                output.ended = true;
                false
            }
            Read::End => {
                self.finish(slot, stream, mpirun, reactor);
                false
            }
        }
    }

    /// A pipe has something to read, or has ended.
    pub fn read(
        &mut self,
        slot: usize,
        stream: Stream,
        mpirun: &mut MpirunLink,
        reactor: &Reactor,
    ) {
        if self.window > 0 {
            self.read_once(slot, stream, mpirun, reactor);
        } else if let Some(output) = &mut self.ranks[slot].pipes[stream as usize] {
            output.unwatch(reactor);
        }
    }

    /// The rank has ended by its own will: passes on the last line of streams that had ended
    /// before.
    pub fn rank_exited(&mut self, slot: usize, mpirun: &mut MpirunLink, reactor: &Reactor) {
        self.ranks[slot].exited = true;
        for stream in STREAMS {
            let output = &self.ranks[slot].pipes[stream as usize];
            if output.as_ref().is_some_and(|o| o.ended) {
                self.finish(slot, stream, mpirun, reactor);
            }
        }
    }

    fn finish(&mut self, slot: usize, stream: Stream, mpirun: &mut MpirunLink, reactor: &Reactor) {
        if let Some(mut output) = self.ranks[slot].pipes[stream as usize].take() {
            output.unwatch(reactor);
            let rest = output.lines.finish();
            self.pass_on(slot, stream, rest, true, mpirun, reactor);
        }
    }

    fn pass_on(
        &mut self,
        slot: usize,
        stream: Stream,
        bytes: Vec<u8>,
        last: bool,
        mpirun: &mut MpirunLink,
        reactor: &Reactor,
    ) {
        // The end is reported also without further bytes: it releases the bytes held back for
        // comparison.
        if bytes.is_empty() && !last {
            return;
        }
        self.window -= bytes.len() as isize;
        let rank = self.ranks[slot].rank;
        let message = LocalToMpirun::Output {
            rank,
            stream,
            bytes: ByteBuf::from(bytes),
            last,
        };
        // A piece is far below the link's limit.
        if let Err(error) = mpirun.notify(&message) {
            tracing::error!(%error, "output of rank {} is lost", rank.0);
        }
        if mpirun.backlog() > MOST_BACKLOG {
            let _ = mpirun.flush(reactor);
        }
    }

    /// After all processes have ended: passes on what their pipes still hold, as far as the window
    /// goes. A pipe that another process holds open is closed too. Returns whether all pipes are at
    /// their end.
    pub fn drain_all(&mut self, mpirun: &mut MpirunLink, reactor: &Reactor) -> bool {
        for slot in 0..self.ranks.len() {
            for stream in STREAMS {
                while self.window > 0 && self.read_once(slot, stream, mpirun, reactor) {}
                if self.window > 0 {
                    self.finish(slot, stream, mpirun, reactor);
                }
            }
        }
        let mut pipes = self.ranks.iter().flat_map(|r| &r.pipes);
        pipes.all(Option::is_none)
    }

    /// The rank writes to another pipe from now on (or, without one, to the same). Takes all bytes
    /// of the present pipe, and returns the unfinished line.
    pub fn renew(
        &mut self,
        slot: usize,
        stream: Stream,
        pipe: Option<OwnedFd>,
        mpirun: &mut MpirunLink,
        reactor: &Reactor,
    ) -> Vec<u8> {
        self.empty(slot, stream, mpirun, reactor);
        let closed = self.closed_sinks[stream as usize];
        let place = &mut self.ranks[slot].pipes[stream as usize];
        let unfinished = |o: &OutputPipe| o.lines.unfinished().to_vec();
        let partial = place.as_ref().map_or_else(Vec::new, unfinished);
        let Some(pipe) = pipe.filter(|_| !closed) else {
            return partial;
        };
        if let Some(mut before) = place.take() {
            before.unwatch(reactor);
        }
        if set_nonblocking(&pipe).is_ok() {
            *place = Some(OutputPipe::after(pipe, partial.clone()));
        }
        // A window that is used up watches again when it opens.
        if let Err(error) = self.watch(slot, reactor) {
            tracing::error!(%error, "output of a rank is lost");
        }
        partial
    }

    /// The program of a rank has stored its state: passes on its earlier output, which precedes the
    /// report of that. Returns the unfinished lines.
    pub fn stored(
        &mut self,
        slot: usize,
        mpirun: &mut MpirunLink,
        reactor: &Reactor,
    ) -> [ByteBuf; 2] {
        STREAMS.map(|stream| {
            self.empty(slot, stream, mpirun, reactor);
            let output = self.ranks[slot].pipes[stream as usize].as_ref();
            let begun = output.map_or(&[][..], |output| output.lines.unfinished());
            ByteBuf::from(begun.get(..MOST_BEGUN).unwrap_or(begun))
        })
    }

    /// Takes the bytes that are in a pipe now, and keeps the line at their end. A pipe holds few
    /// bytes, so the window may wait. Another process that holds the pipe may fill it again and
    /// again: its later bytes stay there.
    fn empty(&mut self, slot: usize, stream: Stream, mpirun: &mut MpirunLink, reactor: &Reactor) {
        let mut buffer = [0u8; 64 * 1024];
        let output = self.ranks[slot].pipes[stream as usize].as_ref();
        let mut left = output.map_or(0, |output| bytes_in(&output.pipe));
        while left > 0
            && let Some(output) = &mut self.ranks[slot].pipes[stream as usize]
        {
            let most = left.min(buffer.len());
            match nix::unistd::read(&output.pipe, &mut buffer[..most]) {
                Ok(count) if count > 0 => {
                    left -= count;
                    let bytes = output.lines.push(&buffer[..count]);
                    self.pass_on(slot, stream, bytes, false, mpirun, reactor);
                }
                Err(Errno::EINTR) => {}
                _ => return,
            }
        }
    }

    /// Passes on all that a process which writes no more has written, but for its unfinished line:
    /// its successor writes that.
    pub fn drain(&mut self, slot: usize, mpirun: &mut MpirunLink, reactor: &Reactor) {
        for stream in STREAMS {
            self.empty(slot, stream, mpirun, reactor);
            self.close(slot, stream, reactor);
        }
    }

    /// How long until the next unfinished line is passed on.
    pub fn prompt_limit(&self) -> Option<Duration> {
        let outputs = self.ranks.iter().flat_map(|r| r.pipes.iter().flatten());
        let waiting = outputs.filter(|o| !o.ended);
        let since = waiting.filter_map(|o| o.waiting).min()?;
        Some(PROMPT.saturating_sub(since.elapsed()))
    }

    /// Passes unfinished lines on that have waited long enough: someone is asked something.
    pub fn pass_prompts(&mut self, mpirun: &mut MpirunLink, reactor: &Reactor) {
        for slot in 0..self.ranks.len() {
            for stream in STREAMS {
                let Some(output) = &mut self.ranks[slot].pipes[stream as usize] else {
                    continue;
                };
                let waited = |since: &mut Instant| since.elapsed() >= PROMPT;
                if !output.ended && output.waiting.take_if(waited).is_some() {
                    let bytes = output.lines.finish();
                    self.pass_on(slot, stream, bytes, false, mpirun, reactor);
                }
            }
        }
    }
}

/// The bytes that a pipe holds now.
fn bytes_in(pipe: &OwnedFd) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: the kernel writes one int.
    let result = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &mut count) };
    if result == 0 {
        usize::try_from(count).unwrap_or(0)
    } else {
        0
    }
}

#[cfg(test)]
mod tests;
