//! Standard input for the one rank that gets it, and again for the process that comes back in its
//! place.

use super::rank_output::set_nonblocking;
use super::{LocalManager, kind};
use crate::error::{Context, Result};
use crate::launch::local_messages::LocalToMpirun;
use crate::net::reactor::{Interest, Token};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::pipe2;
use rejoin_channel_table::{Epoch, Rank};
use rejoin_wire::Unread;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};

/// Most bytes that are kept because a restored rank would read them again.
const KEPT_LIMIT: usize = 64 << 20;
/// Most writes that are remembered, to tell where an image stood between them.
const MOST_WRITES: usize = 4096;

/// The pipe to the rank, the bytes that it has not taken yet (at most a window), and the bytes that
/// it would read again after a rollback.
pub(super) struct RankInput {
    pipe: Option<OwnedFd>,
    /// Device and inode of the pipe.
    name: (u64, u64),
    /// Ranks come back, so input that was given to a rank is kept for its successor.
    keeps: bool,
    /// The stream from position `from` on.
    kept: VecDeque<u8>,
    from: u64,
    /// How far the pipe has been filled.
    at: u64,
    /// How far mpirun knows it to be taken.
    credited: u64,
    ended: bool,
    /// Where images stood.
    images: BTreeMap<Epoch, u64>,
    writes: Writes,
    /// The user knows that not everything is kept.
    told: bool,
}

/// Where the rank's image stood in its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stood {
    /// It has another standard input.
    Relaunch,
    /// A write fell into the moment of counting.
    Unknown,
    At(u64),
}

/// The last writes to the pipe.
#[derive(Default)]
struct Writes {
    /// When each began and was over, and how far the pipe was filled then.
    last: VecDeque<(u64, u64, u64)>,
    /// The same for those before: over by then, and filled so far.
    before: (u64, u64),
}

impl Writes {
    fn at(position: u64) -> Writes {
        Writes {
            last: VecDeque::new(),
            before: (0, position),
        }
    }

    fn note(&mut self, begun: u64, over: u64, at: u64) {
        self.last.push_back((begun, over, at));
        if self.last.len() > MOST_WRITES
            && let Some((_, over, at)) = self.last.pop_front()
        {
            self.before = (over, at);
        }
    }

    /// How far the pipe was filled throughout this time, if it was not written to meanwhile.
    fn filled(&self, (first, last): (u64, u64)) -> Option<u64> {
        if self.before.0 >= first {
            return None;
        }
        let mut filled = self.before.1;
        for &(begun, over, at) in &self.last {
            if over < first {
                filled = at;
            } else if begun <= last {
                return None;
            }
        }
        Some(filled)
    }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC);
    time.map_or(0, |t| {
        t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64
    })
}

impl RankInput {
    fn new(keeps: bool) -> Self {
        RankInput {
            pipe: None,
            name: (0, 0),
            keeps,
            kept: VecDeque::new(),
            from: 0,
            at: 0,
            credited: 0,
            ended: false,
            images: BTreeMap::new(),
            writes: Writes::at(0),
            told: false,
        }
    }

    /// Adds what came; nothing means the end.
    pub fn push(&mut self, bytes: &[u8]) {
        self.ended |= bytes.is_empty();
        self.kept.extend(bytes);
    }

    /// Makes a pipe that begins at a position of the stream. Returns the rank's end.
    fn renew(&mut self, position: u64) -> Result<OwnedFd> {
        let (reader, pipe) = pipe2(OFlag::O_CLOEXEC).context("make the pipe of standard input")?;
        set_nonblocking(&pipe)?;
        let stat = nix::sys::stat::fstat(&pipe).context("ask a pipe")?;
        self.name = (stat.st_dev, stat.st_ino);
        self.pipe = Some(pipe);
        self.at = position;
        self.writes = Writes::at(position);
        Ok(reader)
    }

    /// Where the rank was in its input when its image was taken.
    pub fn stood(&self, unread: Option<Unread>) -> Stood {
        let Some(unread) = unread.filter(|u| u.pipe == self.name) else {
            return Stood::Relaunch;
        };
        let filled = self.writes.filled(unread.counted);
        let read = filled.and_then(|filled| filled.checked_sub(unread.bytes));
        read.map_or(Stood::Unknown, Stood::At)
    }

    pub fn imaged(&mut self, epoch: Epoch, position: u64) {
        self.images.insert(epoch, position);
    }

    /// No rank rolls back beyond this image any more.
    pub fn committed(&mut self, epoch: Epoch) {
        let position = self.images.get(&epoch).copied().unwrap_or(self.at);
        self.images = self.images.split_off(&epoch);
        self.forget_before(position);
    }

    fn forget_before(&mut self, position: u64) {
        let count = usize::try_from(position.saturating_sub(self.from));
        let count = count.unwrap_or(usize::MAX).min(self.kept.len());
        self.kept.drain(..count);
        self.from += count as u64;
    }

    /// Writes once. `Some(false)`: the pipe takes no more; `None`: it has no reader.
    fn write(&mut self) -> Option<bool> {
        let pipe = self.pipe.as_ref()?;
        let skip = (self.at - self.from) as usize;
        let (first, second) = self.kept.as_slices();
        let bytes = if skip < first.len() {
            &first[skip..]
        } else {
            &second[skip - first.len()..]
        };
        if bytes.is_empty() {
            return Some(false);
        }
        let begun = now();
        match nix::unistd::write(pipe, bytes) {
            Ok(count) => {
                self.at += count as u64;
                self.writes.note(begun, now(), self.at);
                Some(true)
            }
            Err(Errno::EINTR) => Some(true),
            Err(Errno::EAGAIN) => Some(false),
            Err(_) => None,
        }
    }

    fn waiting(&self) -> usize {
        self.kept.len() - (self.at - self.from) as usize
    }

    /// Drops bytes that no rollback needs; `true` once when more must be kept than possible.
    fn trim(&mut self) -> bool {
        if !self.keeps {
            self.forget_before(self.at);
        }
        let given = (self.at - self.from) as usize;
        if given <= KEPT_LIMIT {
            return false;
        }
        self.forget_before(self.at - KEPT_LIMIT as u64);
        !std::mem::replace(&mut self.told, true)
    }
}

impl LocalManager {
    /// Makes the pipe, before its rank is started: input may come at once, and its end too. Returns
    /// the rank's end.
    pub(super) fn open_input(&mut self, keeps: bool) -> Result<OwnedFd> {
        self.input = Some(RankInput::new(keeps));
        let reader = self.input_from(0)?;
        reader.ok_or_else(|| crate::error::Error::Usage("there is no standard input".into()))
    }

    /// A new pipe for a process that comes back from an image, or (`None`) from the start. `None`
    /// when it keeps the one that it has.
    pub(super) fn input_again(
        &mut self,
        rank: Rank,
        epoch: Option<Epoch>,
    ) -> Result<Option<OwnedFd>> {
        let Some(input) = &mut self.input else {
            return Ok(None);
        };
        if self.plan.as_ref().and_then(|p| p.stdin) != Some(rank) {
            return Ok(None);
        }
        let position = match epoch {
            None => {
                input.images.clear();
                0
            }
            Some(epoch) => {
                // Later images are of a history that is no more.
                input.images.retain(|other, _| *other <= epoch);
                match input.images.get(&epoch) {
                    Some(position) => *position,
                    None => return Ok(None),
                }
            }
        };
        let reader = self.input_from(position)?;
        self.write_input()?;
        Ok(reader)
    }

    fn input_from(&mut self, position: u64) -> Result<Option<OwnedFd>> {
        let Some(input) = self.input.as_mut().filter(|i| i.from <= position) else {
            return Ok(None);
        };
        if let Some(before) = input.pipe.take() {
            self.reactor.remove(&before);
        }
        let reader = input.renew(position)?;
        if let Some(pipe) = &input.pipe {
            // No interest: a closed reader is still reported.
            let none = Interest {
                read: false,
                write: false,
            };
            self.reactor.add(pipe, Token::single(kind::INPUT), none)?;
        }
        Ok(Some(reader))
    }

    /// Writes as much as the pipe takes; called when there is more, when there is room, and when
    /// the rank has closed its side.
    pub(super) fn write_input(&mut self) -> Result<()> {
        let Some(input) = &mut self.input else {
            return Ok(());
        };
        let Some(pipe) = &input.pipe else {
            return Ok(());
        };
        // With nothing to write only an error can tell that the rank closed its side.
        let mut closed = input.waiting() == 0 && is_broken(pipe);
        let mut goes_on = !closed;
        while goes_on {
            match input.write() {
                Some(more) => goes_on = more,
                None => (goes_on, closed) = (false, true),
            }
        }
        let taken = input.at.saturating_sub(input.credited);
        input.credited += taken;
        let ended = input.ended && input.waiting() == 0;
        let lost = input.trim();
        if (closed || ended)
            && let Some(pipe) = input.pipe.take()
        {
            self.reactor.remove(&pipe);
        }
        if let Some(pipe) = &input.pipe {
            let interest = Interest {
                read: false,
                write: input.waiting() > 0,
            };
            self.reactor
                .change(pipe, Token::single(kind::INPUT), interest)?;
        }
        if !input.keeps && input.pipe.is_none() {
            self.input = None;
            if !ended {
                self.mpirun.tell(&LocalToMpirun::InputClosed)?;
            }
            return Ok(());
        }
        if taken > 0 {
            self.mpirun
                .tell(&LocalToMpirun::InputCredit(taken as u32))?;
        }
        if lost && let Some(rank) = self.plan.as_ref().and_then(|p| p.stdin) {
            let line = format!(
                "of its standard input since the checkpoint only the last {} MiB are kept, so it \
                 goes on with what was not read",
                KEPT_LIMIT >> 20
            );
            let lines = vec![line];
            self.mpirun.tell(&LocalToMpirun::Caveats { rank, lines })?;
        }
        Ok(())
    }
}

/// Whether this pipe has no reader any more.
fn is_broken(pipe: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
    let found = poll(&mut polled, PollTimeout::ZERO);
    found.is_ok()
        && polled[0]
            .revents()
            .is_some_and(|r| r.contains(PollFlags::POLLERR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn given(input: &mut RankInput) {
        while input.write() == Some(true) {}
    }

    fn read(reader: &OwnedFd, count: usize) -> Vec<u8> {
        let mut file = std::fs::File::from(reader.try_clone().unwrap());
        let mut bytes = vec![0; count];
        file.read_exact(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_successor_reads_on_from_the_image() {
        let mut input = RankInput::new(true);
        let reader = input.renew(0).unwrap();
        input.push(b"one two three");
        given(&mut input);
        assert_eq!(read(&reader, 4), b"one ");
        let moment = now();
        let unread = Unread {
            pipe: input.name,
            bytes: 9,
            counted: (moment, moment + 1),
        };
        assert_eq!(input.stood(Some(unread)), Stood::At(4));
        assert_eq!(input.stood(None), Stood::Relaunch);
        let stranger = Unread {
            pipe: (0, 0),
            ..unread
        };
        assert_eq!(input.stood(Some(stranger)), Stood::Relaunch);
        input.imaged(Epoch(1), 4);
        input.committed(Epoch(1));
        assert_eq!((input.from, input.kept.len()), (4, 9));
        input.push(b" four");
        given(&mut input);
        let again = input.renew(4).unwrap();
        given(&mut input);
        assert_eq!(read(&again, 14), b"two three four");
        assert_eq!(input.waiting(), 0);
    }

    #[test]
    fn a_write_in_the_moment_of_counting_leaves_the_place_unknown() {
        let mut writes = Writes::at(10);
        writes.note(100, 110, 20);
        writes.note(200, 210, 30);
        assert_eq!(writes.filled((50, 60)), Some(10));
        assert_eq!(writes.filled((120, 130)), Some(20));
        assert_eq!(writes.filled((300, 310)), Some(30));
        for overlap in [(90, 100), (105, 106), (110, 120), (190, 205), (90, 300)] {
            assert_eq!(writes.filled(overlap), None, "{overlap:?}");
        }
        for i in 0..MOST_WRITES as u64 {
            writes.note(1000 + 10 * i, 1005 + 10 * i, 31 + i);
        }
        assert_eq!(writes.filled((150, 160)), None);
        let last = 1000 + 10 * MOST_WRITES as u64;
        assert_eq!(writes.filled((last, last)), Some(30 + MOST_WRITES as u64));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut input = RankInput::new(true);
        let _reader = input.renew(0).unwrap();
        input.push(&vec![0; KEPT_LIMIT + 5]);
        input.at = input.kept.len() as u64;
        assert!(input.trim());
        assert_eq!((input.from, input.kept.len()), (5, KEPT_LIMIT));
        input.push(b"x");
        input.at += 1;
        assert!(!input.trim(), "said once");
    }
}
