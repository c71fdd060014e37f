//! The ranks' standard output and error: read as pipes, passed on in whole lines, within a window.

use super::{LocalManager, kind, rank};
use crate::error::{Context, Result};
use crate::launch::local_messages::LocalToMpirun;
use crate::net::reactor::{Interest, Reactor};
use crate::stdio::Stream;
use crate::stdio::lines::Lines;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use serde_bytes::ByteBuf;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// A person should see a prompt after this time.
const PROMPT: Duration = Duration::from_millis(100);

/// Of a line that is unfinished when its rank stores its state, so much is kept at most.
const MOST_BEGUN: usize = 4096;

/// One output pipe of one rank.
pub(super) struct RankOutput {
    pipe: OwnedFd,
    lines: Lines,
    /// Watched by epoll; not while the window is used up.
    watched: bool,
    /// It has no writer any more; its unfinished line waits until the rank's end or restore is
    /// decided.
    ended: bool,
    /// Since when the unfinished line has waited.
    waiting: Option<Instant>,
}

impl RankOutput {
    pub fn new(pipe: OwnedFd) -> Self {
        RankOutput {
            pipe,
            lines: Lines::default(),
            watched: true,
            ended: false,
            waiting: None,
        }
    }

    /// The pipe of a process that has written the beginning of a line already.
    pub fn after(pipe: OwnedFd, partial: Vec<u8>) -> Self {
        RankOutput {
            lines: Lines::after(partial),
            ..RankOutput::new(pipe)
        }
    }

    pub fn pipe(&self) -> &OwnedFd {
        &self.pipe
    }

    pub fn unwatch(&self, reactor: &Reactor) {
        if self.watched {
            reactor.remove(&self.pipe);
        }
    }
}

/// Makes reads and writes return instead of waiting.
pub(super) fn set_nonblocking(fd: impl AsFd) -> Result<()> {
    let flags = OFlag::from_bits_truncate(fcntl(&fd, FcntlArg::F_GETFL).context("ask a pipe")?);
    fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).context("set up a pipe")?;
    Ok(())
}

enum Read {
    Bytes(Vec<u8>),
    Nothing,
    End,
}

impl LocalManager {
    /// Reads a pipe once and passes whole lines on. Returns whether there may be more.
    fn read_once(&mut self, slot: usize, stream: Stream) -> bool {
        let who = self.ranks[slot].rank;
        let Some(output) = &mut self.ranks[slot].outputs[stream as usize] else {
            return false;
        };
        let mut buffer = [0u8; 64 * 1024];
        let read = match nix::unistd::read(&output.pipe, &mut buffer) {
            Ok(0) => Read::End,
            Ok(count) => Read::Bytes(output.lines.push(&buffer[..count])),
            Err(Errno::EAGAIN | Errno::EINTR) => Read::Nothing,
            Err(_) => Read::End,
        };
        match read {
            Read::Nothing => false,
            Read::Bytes(bytes) => {
                output.waiting = (output.lines.pending() > 0).then(Instant::now);
                self.pass_on(who, stream, bytes, false);
                true
            }
            Read::End if self.may_come_back(slot) => {
                if let Some(output) = &mut self.ranks[slot].outputs[stream as usize] {
                    output.unwatch(&self.reactor);
                    (output.watched, output.ended) = (false, true);
                }
                false
            }
            Read::End => {
                self.finish_output(slot, stream);
                false
            }
        }
    }

    pub(super) fn read_output(&mut self, slot: usize, stream: Stream) {
        if self.window > 0 {
            self.read_once(slot, stream);
        } else if let Some(output) = &mut self.ranks[slot].outputs[stream as usize] {
            output.unwatch(&self.reactor);
            output.watched = false;
        }
    }

    /// A rank that was killed in the middle of a line writes that line again when it is back.
    fn may_come_back(&self, slot: usize) -> bool {
        let images = self
            .plan
            .as_ref()
            .is_some_and(|p| p.options.images.is_some());
        images && !self.over && !self.ranks[slot].exited
    }

    /// The rank has ended by its own will: passes on the last line of streams that had ended
    /// before.
    pub(super) fn finish_ended(&mut self, slot: usize) {
        for stream in [Stream::Out, Stream::Err] {
            let output = &self.ranks[slot].outputs[stream as usize];
            if output.as_ref().is_some_and(|o| o.ended) {
                self.finish_output(slot, stream);
            }
        }
    }

    fn finish_output(&mut self, slot: usize, stream: Stream) {
        let who = self.ranks[slot].rank;
        if let Some(mut output) = self.ranks[slot].outputs[stream as usize].take() {
            output.unwatch(&self.reactor);
            let rest = output.lines.finish();
            self.pass_on(who, stream, rest, true);
        }
    }

    fn pass_on(
        &mut self,
        rank: rejoin_channel_table::Rank,
        stream: Stream,
        bytes: Vec<u8>,
        last: bool,
    ) {
        // The end is reported also without further bytes: it releases the bytes held back for
        // comparison.
        if bytes.is_empty() && !last {
            return;
        }
        self.window -= bytes.len() as isize;
        let message = LocalToMpirun::Output {
            rank,
            stream,
            bytes: ByteBuf::from(bytes),
            last,
        };
        // A piece is far below the link's limit.
        if let Err(error) = self.mpirun.tell(&message) {
            tracing::error!(%error, "output of rank {} is lost", rank.0);
        }
        if self.mpirun.backlog() > 256 * 1024 {
            let _ = self.mpirun.flush(&self.reactor);
        }
    }

    /// Watches again the outputs that were not watched for lack of a window.
    pub(super) fn resume_outputs(&mut self) -> Result<()> {
        if self.window <= 0 {
            return Ok(());
        }
        for (slot, rank) in self.ranks.iter_mut().enumerate() {
            for (output, kind) in rank.outputs.iter_mut().zip([kind::OUT, kind::ERR]) {
                if let Some(output) = output
                    && !output.watched
                    && !output.ended
                {
                    let token = rank::token(kind, rank.incarnation, slot);
                    self.reactor.add(&output.pipe, token, Interest::READ)?;
                    output.watched = true;
                }
            }
        }
        Ok(())
    }

    /// After all processes have ended: passes on what their pipes still hold, as far as the window
    /// goes. A pipe that another process holds open is closed too.
    pub(super) fn drain_outputs(&mut self) {
        for slot in 0..self.ranks.len() {
            for stream in [Stream::Out, Stream::Err] {
                while self.window > 0 && self.read_once(slot, stream) {}
                if self.window > 0 {
                    self.finish_output(slot, stream);
                }
            }
        }
    }

    /// The rank writes to another pipe from now on (or, without one, to the same). Takes all bytes
    /// of the present pipe, and returns the unfinished line.
    pub(super) fn renew_output(
        &mut self,
        slot: usize,
        stream: Stream,
        pipe: Option<OwnedFd>,
    ) -> Vec<u8> {
        self.empty_pipe(slot, stream);
        let rank = &mut self.ranks[slot];
        let before = rank.outputs[stream as usize].take();
        let partial = before
            .as_ref()
            .map_or_else(Vec::new, |o| o.lines.unfinished().to_vec());
        let closed = self.closed_sinks[stream as usize];
        let Some(pipe) = pipe.filter(|_| !closed) else {
            rank.outputs[stream as usize] = before;
            return partial;
        };
        if let Some(before) = before {
            before.unwatch(&self.reactor);
        }
        if set_nonblocking(&pipe).is_ok() {
            let mut output = RankOutput::after(pipe, partial.clone());
            output.watched = false;
            rank.outputs[stream as usize] = Some(output);
        }
        // A window that is used up watches again when it opens.
        if let Err(error) = self.resume_outputs() {
            tracing::error!(%error, "output of a rank is lost");
        }
        partial
    }

    /// The program of a rank has stored its state: its earlier output precedes the report of that.
    pub(super) fn has_stored(&mut self, slot: usize, number: u32) {
        if self.ranks[slot].retiring {
            return;
        }
        for stream in [Stream::Out, Stream::Err] {
            self.empty_pipe(slot, stream);
        }
        let begun = [Stream::Out, Stream::Err].map(|stream| {
            let output = self.ranks[slot].outputs[stream as usize].as_ref();
            let begun = output.map_or(&[][..], |output| output.lines.unfinished());
            ByteBuf::from(begun.get(..MOST_BEGUN).unwrap_or(begun))
        });
        let rank = self.ranks[slot].rank;
        let stored = LocalToMpirun::Stored {
            rank,
            number,
            begun,
        };
        if let Err(error) = self.mpirun.tell(&stored) {
            tracing::error!(%error, "a stored state is not reported");
        }
    }

    /// Takes all that is in a pipe; that is little, so the window may wait. The line at its end is
    /// kept.
    fn empty_pipe(&mut self, slot: usize, stream: Stream) {
        let who = self.ranks[slot].rank;
        let mut buffer = [0u8; 64 * 1024];
        while let Some(output) = &mut self.ranks[slot].outputs[stream as usize] {
            match nix::unistd::read(&output.pipe, &mut buffer) {
                Ok(count) if count > 0 => {
                    let bytes = output.lines.push(&buffer[..count]);
                    self.pass_on(who, stream, bytes, false);
                }
                Err(Errno::EINTR) => {}
                _ => return,
            }
        }
    }

    /// Passes on all that a process which writes no more has written, but for its unfinished line:
    /// its successor writes that.
    pub(super) fn drain_at_once(&mut self, slot: usize) {
        for stream in [Stream::Out, Stream::Err] {
            self.empty_pipe(slot, stream);
            self.ranks[slot].close_output(stream, &self.reactor);
        }
    }

    pub(super) fn outputs_done(&self) -> bool {
        self.ranks
            .iter()
            .all(|r| r.outputs.iter().all(Option::is_none))
    }

    /// How long until the next unfinished line is passed on to a person.
    pub(super) fn prompt_limit(&self) -> Option<Duration> {
        let outputs = self.ranks.iter().flat_map(|r| r.outputs.iter().flatten());
        let since = outputs
            .filter(|o| !o.ended)
            .filter_map(|o| o.waiting)
            .min()?;
        Some(PROMPT.saturating_sub(since.elapsed()))
    }

    /// Passes unfinished lines on that have waited long enough: someone is asked something.
    pub(super) fn pass_prompts(&mut self) {
        for slot in 0..self.ranks.len() {
            for stream in [Stream::Out, Stream::Err] {
                let who = self.ranks[slot].rank;
                let Some(output) = &mut self.ranks[slot].outputs[stream as usize] else {
                    continue;
                };
                if !output.ended
                    && output
                        .waiting
                        .is_some_and(|since| since.elapsed() >= PROMPT)
                {
                    output.waiting = None;
                    let bytes = output.lines.finish();
                    self.pass_on(who, stream, bytes, false);
                }
            }
        }
    }
}
