//! Standard input for the one rank that gets it, and again for the process that comes back in its
//! place.

use crate::launch::local_messages::LocalToMpirun;
use crate::local::kind;
use crate::local::links::MpirunLink;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::pipe2;
use rejoin_channel_table::{Epoch, ImageId, Rank};
use rejoin_managers_host::error::{Context, Error, Result};
use rejoin_managers_host::host_clocks::monotonic;
use rejoin_managers_host::set_nonblocking;
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_wire::Unread;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};

/// Most bytes that are kept because a restored rank would read them again.
const KEPT_LIMIT: usize = 64 << 20;
/// Most writes that are remembered, to tell where an image stood between them.
const MOST_WRITES: usize = 4096;

/// The pipe to the rank, the bytes that it has not taken yet (at most a window), and the bytes that
/// it would read again after a rollback.
pub struct RankInput {
    /// The rank that reads it.
    rank: Rank,
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
    images: BTreeMap<ImageId, u64>,
    writes: Writes,
    /// The user knows that not everything is kept.
    told: bool,
    /// Bytes that the rank had read before the job was restarted.
    skipped: u64,
    /// How many of these are still to come, and are dropped.
    drops: u64,
    /// Dropped bytes that mpirun does not know to be taken.
    uncredited: usize,
    /// What has come while the position of the rank's image is not known, and whether it was all.
    held: Option<(Vec<u8>, bool)>,
}

/// Where the rank's image stood in its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputPosition {
    /// The image has another standard input.
    Other,
    /// A write fell into the moment of counting.
    Unknown,
    /// So many bytes of it were read.
    At(u64),
}

/// The last writes to the pipe.
#[derive(Default)]
struct Writes {
    /// When each began and was over, and how far the pipe was filled then.
    last: VecDeque<(u64, u64, u64)>,
    /// When the writes before those were over, and how far the pipe was filled then.
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

impl RankInput {
    /// Input of this rank, without a pipe. `keeps`: the rank may come back.
    fn new(rank: Rank, keeps: bool) -> Self {
        RankInput {
            rank,
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
            skipped: 0,
            drops: 0,
            uncredited: 0,
            held: None,
        }
    }

    /// Passes nothing on until [`RankInput::continue_from`] says what the rank has read before.
    pub fn hold(&mut self) {
        self.held = Some((Vec::new(), false));
    }

    /// Adds what came; nothing means the end.
    pub fn push(&mut self, bytes: &[u8]) {
        if let Some((held, ended)) = &mut self.held {
            // At most a window: nothing of it is credited.
            held.extend_from_slice(bytes);
            *ended |= bytes.is_empty();
            return;
        }
        self.ended |= bytes.is_empty();
        let drops = usize::try_from(self.drops).unwrap_or(usize::MAX);
        let (dropped, rest) = bytes.split_at(drops.min(bytes.len()));
        self.drops -= dropped.len() as u64;
        self.uncredited += dropped.len();
        self.kept.extend(rest);
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
    fn stood(&self, unread: Option<Unread>) -> InputPosition {
        let Some(unread) = unread.filter(|u| u.pipe == self.name) else {
            return InputPosition::Other;
        };
        let filled = self.writes.filled(unread.counted);
        let read = filled.and_then(|filled| filled.checked_sub(unread.bytes));
        read.map_or(InputPosition::Unknown, InputPosition::At)
    }

    /// Records where this image of the rank stands in its input; `false` if that is unknown.
    pub fn note_image(&mut self, rank: Rank, image: ImageId, unread: Option<Unread>) -> bool {
        if rank == self.rank {
            match self.stood(unread) {
                InputPosition::At(position) => self.imaged(image, position),
                InputPosition::Other => {}
                InputPosition::Unknown => return false,
            }
        }
        true
    }

    /// The rank that reads it.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Bytes of the stream that this rank had read at its image.
    pub fn position_of(&self, rank: Rank, image: ImageId) -> Option<u64> {
        self.images
            .get(&image)
            .filter(|_| rank == self.rank)
            .map(|at| self.skipped + at)
    }

    /// The rank continues from this image, which a former job has made. It had read so
    /// many bytes of standard input, and the input of this job begins with the same ones.
    pub fn continue_from(&mut self, image: ImageId, read: u64) {
        (self.skipped, self.drops) = (read, read);
        self.imaged(image, 0);
        let Some((held, ended)) = self.held.take() else {
            return;
        };
        if !held.is_empty() {
            self.push(&held);
        }
        if ended {
            self.push(&[]);
        }
    }

    fn imaged(&mut self, image: ImageId, position: u64) {
        self.images.insert(image, position);
    }

    /// No rank rolls back beyond this image any more. If the rank has come to this host with a
    /// later one, a checkpoint since then may still be needed.
    pub fn committed(&mut self, epoch: Epoch) {
        if self.images.is_empty() {
            return self.forget_before(self.at);
        }
        let known = self.images.range(..=ImageId::Checkpoint(epoch)).next_back();
        if let Some((&oldest, &position)) = known {
            self.images = self.images.split_off(&oldest);
            self.forget_before(position);
        }
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
        let begun = monotonic();
        match nix::unistd::write(pipe, bytes) {
            Ok(count) => {
                self.at += count as u64;
                self.writes.note(begun, monotonic(), self.at);
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

impl RankInput {
    /// Makes the pipe of a rank, before the rank is started: input may come at once, and its end
    /// too. Returns the rank's end beside it. `keeps`: the rank may come back.
    pub fn open(rank: Rank, keeps: bool, reactor: &Reactor) -> Result<(RankInput, OwnedFd)> {
        let mut input = RankInput::new(rank, keeps);
        let reader = input.reopen(0, reactor)?;
        let reader = reader.ok_or_else(|| Error::Usage("there is no standard input".into()))?;
        Ok((input, reader))
    }

    /// A new pipe for a process of this rank that comes back from an image, or (`None`) from the
    /// start. `None` when it keeps the one that it has, or when another rank reads the input.
    pub fn again(
        &mut self,
        rank: Rank,
        from: Option<ImageId>,
        reactor: &Reactor,
    ) -> Result<Option<OwnedFd>> {
        if self.rank != rank {
            return Ok(None);
        }
        let position = match from {
            None => {
                self.images.clear();
                0
            }
            Some(image) => {
                // Later images are of a history that is no more.
                self.images.retain(|other, _| *other <= image);
                match self.images.get(&image) {
                    Some(position) => *position,
                    None => return Ok(None),
                }
            }
        };
        self.reopen(position, reactor)
    }

    fn reopen(&mut self, position: u64, reactor: &Reactor) -> Result<Option<OwnedFd>> {
        if self.from > position {
            return Ok(None);
        }
        if let Some(before) = self.pipe.take() {
            reactor.remove(&before);
        }
        let reader = self.renew(position)?;
        if let Some(pipe) = &self.pipe {
            // No interest: a closed reader is still reported.
            reactor.add(pipe, Token::single(kind::INPUT), Interest::NONE)?;
        }
        Ok(Some(reader))
    }

    /// Writes as much as the pipe takes; called when there is more, when there is room, and when
    /// the rank has closed its side. Returns whether any input is still needed.
    pub fn write_all(&mut self, mpirun: &mut MpirunLink, reactor: &Reactor) -> Result<bool> {
        let Some(pipe) = &self.pipe else {
            return Ok(true);
        };
        // With nothing to write only an error can tell that the rank closed its side.
        let mut closed = self.waiting() == 0 && is_broken(pipe);
        let mut takes_more = !closed;
        while takes_more {
            match self.write() {
                Some(more) => takes_more = more,
                None => (takes_more, closed) = (false, true),
            }
        }
        let written = self.at.saturating_sub(self.credited);
        self.credited += written;
        let taken = written + std::mem::take(&mut self.uncredited) as u64;
        let ended = self.ended && self.waiting() == 0;
        let lost = self.trim();
        if (closed || ended)
            && let Some(pipe) = self.pipe.take()
        {
            reactor.remove(&pipe);
        }
        if let Some(pipe) = &self.pipe {
            let interest = Interest {
                read: false,
                write: self.waiting() > 0,
            };
            reactor.change(pipe, Token::single(kind::INPUT), interest)?;
        }
        if !self.keeps && self.pipe.is_none() {
            if !ended {
                mpirun.notify(&LocalToMpirun::InputClosed)?;
            }
            return Ok(false);
        }
        if taken > 0 {
            mpirun.notify(&LocalToMpirun::InputCredit(taken as u32))?;
        }
        if lost {
            let line = format!(
                "of its standard input since the checkpoint only the last {} MiB are kept, so it \
                 continues with what was not read",
                KEPT_LIMIT >> 20
            );
            let (rank, lines) = (self.rank, vec![line]);
            mpirun.notify(&LocalToMpirun::Caveats { rank, lines })?;
        }
        Ok(true)
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
    use rejoin_managers_net::local_link::LocalLink;
    use rejoin_wire::codec::MANAGER_LIMIT;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

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
        let mut input = RankInput::new(Rank(0), true);
        let reader = input.renew(0).unwrap();
        input.push(b"one two three");
        given(&mut input);
        assert_eq!(read(&reader, 4), b"one ");
        let moment = monotonic();
        let unread = Unread {
            pipe: input.name,
            bytes: 9,
            counted: (moment, moment + 1),
        };
        assert_eq!(input.stood(Some(unread)), InputPosition::At(4));
        assert_eq!(input.stood(None), InputPosition::Other);
        let stranger = Unread {
            pipe: (0, 0),
            ..unread
        };
        assert_eq!(input.stood(Some(stranger)), InputPosition::Other);
        input.imaged(ImageId::Checkpoint(Epoch(1)), 4);
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
    fn input_waits_until_it_is_known_what_was_read_before() {
        let mut input = RankInput::new(Rank(0), true);
        input.hold();
        input.push(b"one two");
        assert_eq!((input.waiting(), input.uncredited), (0, 0));
        input.continue_from(ImageId::Checkpoint(Epoch(7)), 4);
        let reader = input.renew(0).unwrap();
        input.push(b" three");
        given(&mut input);
        assert_eq!(read(&reader, 9), b"two three");
        assert_eq!(input.uncredited, 4);
        assert_eq!(
            input.position_of(Rank(0), ImageId::Checkpoint(Epoch(7))),
            Some(4)
        );
        // Its end may come first, too.
        let mut input = RankInput::new(Rank(0), true);
        input.hold();
        input.push(b"all");
        input.push(b"");
        assert!(!input.ended);
        input.continue_from(ImageId::Checkpoint(Epoch(7)), 3);
        assert!(input.ended && input.waiting() == 0);
    }

    #[test]
    fn input_after_a_checkpoint_stays_while_an_earlier_one_than_the_move_counts() {
        let mut input = RankInput::new(Rank(0), true);
        let reader = input.renew(0).unwrap();
        // It has come with image 7. The files of 6 are still the newest, and 8 is in memory.
        input.continue_from(ImageId::Checkpoint(Epoch(7)), 0);
        input.push(b"one two three");
        given(&mut input);
        assert_eq!(read(&reader, 8), b"one two ");
        input.imaged(ImageId::Checkpoint(Epoch(8)), 4);
        input.committed(Epoch(6));
        assert_eq!((input.from, input.kept.len()), (0, 13));
        input.committed(Epoch(8));
        assert_eq!((input.from, input.kept.len()), (4, 9));
        // An image that was never requested of it does not count.
        input.committed(Epoch(9));
        assert_eq!((input.from, input.kept.len()), (4, 9));
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
        let mut input = RankInput::new(Rank(0), true);
        let _reader = input.renew(0).unwrap();
        input.push(&vec![0; KEPT_LIMIT + 5]);
        input.at = input.kept.len() as u64;
        assert!(input.trim());
        assert_eq!((input.from, input.kept.len()), (5, KEPT_LIMIT));
        input.push(b"x");
        input.at += 1;
        assert!(!input.trim(), "said once");
    }

    #[test]
    fn images_after_the_restored_one_are_forgotten() {
        let reactor = Reactor::new().unwrap();
        let (mut input, reader) = RankInput::open(Rank(3), true, &reactor).unwrap();
        input.push(b"one two three");
        given(&mut input);
        assert_eq!(read(&reader, 8), b"one two ");
        input.imaged(ImageId::Checkpoint(Epoch(1)), 4);
        input.imaged(ImageId::Checkpoint(Epoch(2)), 8);
        let mut again = |rank, epoch: Option<Epoch>| {
            let from = epoch.map(ImageId::Checkpoint);
            input.again(Rank(rank), from, &reactor).unwrap()
        };
        assert!(again(4, Some(Epoch(1))).is_none(), "another rank reads it");
        let reader = again(3, Some(Epoch(1))).unwrap();
        assert!(again(3, Some(Epoch(2))).is_none(), "it is of no history");
        given(&mut input);
        assert_eq!(read(&reader, 9), b"two three");
        let reader = input.again(Rank(3), None, &reactor).unwrap().unwrap();
        given(&mut input);
        assert_eq!(read(&reader, 13), b"one two three");
    }

    #[test]
    fn mpirun_learns_how_much_was_taken_and_when_no_more_is_needed() {
        for keeps in [true, false] {
            let reactor = Reactor::new().unwrap();
            let (ours, theirs) = UnixStream::pair().unwrap();
            let mut link = MpirunLink::over(ours.into(), &reactor).unwrap();
            let mut mpirun = LocalLink::new(theirs.into(), MANAGER_LIMIT, MANAGER_LIMIT);
            let (mut input, reader) = RankInput::open(Rank(0), keeps, &reactor).unwrap();
            input.push(b"hello");
            assert!(input.write_all(&mut link, &reactor).unwrap());
            assert!(input.write_all(&mut link, &reactor).unwrap());
            drop(reader);
            input.push(b"never read");
            // A rank that comes back may read it then.
            assert_eq!(input.write_all(&mut link, &reactor).unwrap(), keeps);
            link.flush(&reactor).unwrap();
            mpirun.fill().unwrap();
            let mut said = Vec::new();
            while let Some(message) = mpirun.next::<LocalToMpirun>().unwrap() {
                said.push(match message {
                    LocalToMpirun::InputCredit(count) => count,
                    LocalToMpirun::InputClosed => 0,
                    _ => panic!("another message"),
                });
            }
            let expected: &[u32] = if keeps { &[5] } else { &[5, 0] };
            assert_eq!(said, expected, "keeps: {keeps}");
        }
    }
}
