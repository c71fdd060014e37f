//! A malicious peer, which writes what it likes into the memory of a link: for a fuzzer, and for
//! the tests of this crate. Whatever it writes, the other side has frames or an error of it, within
//! its own memory.

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use rejoin_channel_table::{Rank, Resume};
use rejoin_engine::{
    Config, Engine, Envelope, FRAME_MAGIC, HEADER_LEN, MessageMode, Pattern, Sent, ShortHeader,
};

use super::link_memory::{
    self, BlockTable, CELL_WORDS, CELLS, Direction, LinkMemory, SharedWord, word,
};
use super::short::MAX_BODY;
use super::short::MAX_SHORT;
use super::{HandshakeRole, LinkSide, ShmEndpoint};
use crate::links::{self, Intake, LinkFault, Live, STAGING};
use crate::meter::Meter;
use crate::program_memory as program;
use crate::recovery::{PendingCheckpoint, SafePointRequest};
use crate::transport::{AnyEndpoint, Copies, Endpoint, Piece, SendOutcome};

/// The peer.
const PEER: Rank = Rank(1);
/// Most bytes of a receive, with the guard bytes behind them.
const ROOM: usize = 200;
const GUARD: usize = 64;
const UNTOUCHED: u8 = 0xa5;
/// Most receives and sends of one run.
const CALLS: usize = 50;

/// Both ends of a new link: the one that is tested, and the malicious one's.
pub(super) fn pair() -> (ShmEndpoint, ShmEndpoint) {
    let (a, b) = UnixStream::pair().expect("a pair");
    for end in [&a, &b] {
        end.set_nonblocking(true).expect("non-blocking");
    }
    let (memory, fd) = LinkMemory::make(link_memory::LEAST).expect("made");
    let theirs = LinkMemory::open(fd).expect("mapped");
    let ours = LinkSide::new(memory, HandshakeRole::Dialer);
    let theirs = LinkSide::new(theirs, HandshakeRole::Acceptor);
    let copies = Copies {
        single: true,
        min_get: None,
        shared_cores: false,
    };
    (
        ShmEndpoint::new(a.into(), ours, copies),
        ShmEndpoint::new(b.into(), theirs, copies),
    )
}

/// Takes bytes off the front of a fuzzer's input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// Mostly small, or about as large as something in the memory is.
    fn number(&mut self) -> Option<u64> {
        let byte = self.byte()?;
        let near = |number: usize| {
            (number as u64)
                .wrapping_add(u64::from(byte % 3))
                .wrapping_sub(1)
        };
        Some(match byte {
            ..=199 => u64::from(byte % 64),
            200..=208 => near(link_memory::LEAST),
            209..=217 => near(link_memory::SMALL_RING),
            218..=226 => near(MAX_BODY),
            227..=235 => near(1 << 32),
            236..=244 => near(0),
            _ => u64::from(byte) << (8 * (byte % 8)),
        })
    }

    /// A frame's header, good or nearly.
    fn header(&mut self) -> Option<[u8; HEADER_LEN]> {
        let mut bytes = [0; HEADER_LEN];
        bytes[..2].copy_from_slice(&FRAME_MAGIC);
        bytes[2] = self.byte()? % 10;
        bytes[3] = self.byte()? & 7;
        bytes[8] = self.byte()? & 1;
        for at in [24, 32, 40, 48, 56] {
            bytes[at..at + 8].copy_from_slice(&self.number()?.to_le_bytes());
        }
        Some(bytes)
    }

    /// A word that both sides look at.
    fn place(&mut self) -> Option<SharedWord> {
        let byte = self.byte()?;
        let direction = if byte & 1 == 0 {
            Direction::FromDialer
        } else {
            Direction::ToDialer
        };
        let made = |_| SharedWord::Made;
        let places: [fn(Direction) -> SharedWord; 11] = [
            SharedWord::Doorbell,
            SharedWord::Tail,
            SharedWord::Head,
            SharedWord::CellHead,
            SharedWord::SmallRingHead,
            SharedWord::CanRead,
            SharedWord::CopyBatch,
            SharedWord::Done,
            SharedWord::Chunks,
            SharedWord::Returned,
            made,
        ];
        let which = usize::from(byte >> 1) % places.len();
        Some(places[which](direction))
    }
}

/// The side that is tested, as a device has it.
struct Tested {
    engine: Engine,
    live: Live,
    staging: Vec<u8>,
    meter: Meter,
    checkpoint: PendingCheckpoint,
    /// The buffers of receives, each with guard bytes behind it that must not change.
    places: Vec<(Vec<u8>, usize)>,
    /// The sent bodies, which the engine may use until the end.
    sent: Vec<Vec<u8>>,
}

impl Tested {
    fn new(link: ShmEndpoint, small: bool) -> Self {
        let config = Config {
            eager_copy: 100,
            eager_max: if small { 300 } else { MAX_BODY },
            window: if small { 1 << 10 } else { 1 << 18 },
            chunk: 1 << 10,
            beyond: 1 << 10,
        };
        let mut engine = Engine::new(config, Rank(0), 2);
        let up = engine.link_up(PEER, &Resume::default());
        up.expect("the first link");
        Self {
            engine,
            live: Live::new(AnyEndpoint::Shm(link), PEER, Vec::new()),
            staging: vec![0; STAGING],
            meter: Meter::new(None, 0),
            checkpoint: PendingCheckpoint::default(),
            places: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn place(&mut self, len: usize) -> rejoin_engine::Segment {
        let len = len.min(ROOM);
        let place = vec![UNTOUCHED; len + GUARD];
        let segment = program::segment(place.as_ptr(), len);
        self.places.push((place, len));
        segment
    }

    fn check(&self) {
        for (place, len) in &self.places {
            assert!(place[*len..].iter().all(|byte| *byte == UNTOUCHED));
        }
    }

    /// Takes in what there is, in one of the ways that a device has.
    fn read(&mut self, way: u8) -> Result<(), LinkFault> {
        if way & 3 == 0 {
            return self.read_unposted();
        }
        let mut intake = Intake {
            engine: &mut self.engine,
            staging: &mut self.staging,
            meter: &mut self.meter,
            checkpoint: &mut self.checkpoint,
        };
        if way & 3 == 1 {
            intake.take_matched(&mut self.live);
        } else {
            intake.read(&mut self.live)?;
        }
        if way & 4 != 0
            && let Some(SafePointRequest::Checkpoint(epoch)) = self.checkpoint.take_next()
        {
            self.engine.set_epoch(epoch);
        }
        Ok(())
    }

    /// Reads like a blocking receive that finds its message there.
    fn read_unposted(&mut self) -> Result<(), LinkFault> {
        let pattern = Pattern {
            context: 0,
            source: Some(0),
            tag: Some(0),
            from: Some(PEER),
        };
        let segment = self.place(ROOM / 2);
        if !self.engine.is_next_match(&pattern) || !self.live.is_between_frames() {
            return Ok(());
        }
        let link = &mut self.live.endpoint;
        if let Some(header) = link.try_recv()
            && let Some((_, matched)) = self.engine.rx_short_into(PEER, &header, &pattern, segment)
        {
            // SAFETY: a part of the segment, which nothing else uses.
            unsafe { link.take(&header, program::place(matched.into)) };
        }
        Ok(())
    }

    fn post(&mut self, len: usize, any: bool) {
        let segment = self.place(len);
        let pattern = Pattern {
            context: 0,
            source: None,
            tag: (!any).then_some(0),
            from: None,
        };
        let posted = self.engine.recv(pattern, segment);
        posted.expect("there is such a peer");
        program::copy_out(&mut self.engine);
    }

    fn send(&mut self, len: usize) -> Result<(), LinkFault> {
        let env = Envelope {
            context: 0,
            source: 0,
            tag: 0,
        };
        let body = vec![1; len];
        let copied = self.engine.copies(len);
        let (engine, link) = (&mut self.engine, &mut self.live.endpoint);
        let tried = if copied {
            link.try_message(&body, || engine.send_short(PEER, &env, &body))
        } else {
            SendOutcome::Untried
        };
        if let SendOutcome::LinkLost(fault) = tried {
            return Err(fault.into());
        }
        if !matches!(tried, SendOutcome::Sent) {
            let segment = program::segment(body.as_ptr(), len);
            let bytes = copied.then_some(&body[..]);
            let sent = self
                .engine
                .send(PEER, env, segment, bytes, MessageMode::Standard);
            if sent.expect("there is such a peer") != Sent::Done {
                self.sent.push(body);
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), LinkFault> {
        while self.engine.next_ready().is_some() {
            links::flush(&mut self.engine, &mut self.live, &mut self.meter)?;
        }
        Ok(())
    }
}

/// Shows a short message whose header is anything, whether its body is where it says or not.
fn show_short(peer: &mut ShmEndpoint, input: &mut Input<'_>) -> Option<()> {
    let length = input.number()?.min(MAX_BODY as u64) as u16;
    let (epoch, apart) = (input.byte()? & 1, input.byte()?);
    let mut number = || input.number().map(|number| number as u32);
    let header = ShortHeader {
        envelope: Envelope {
            context: number()?,
            source: number()?.cast_signed(),
            tag: number()?.cast_signed(),
        },
        len: length,
        epoch: epoch.into(),
        ssn: number()?,
        ack: number()?,
        credit: number()?,
    };
    let body = vec![2; length.into()];
    // Without room, or where the body stays away, only the header is shown.
    let shown = match body.len() {
        _ if apart & 1 != 0 => SendOutcome::Untried,
        0..=MAX_SHORT => peer.try_short(&body, || Some(header)),
        _ => peer.try_bcopy(&body, || Some(header)),
    };
    if !matches!(shown, SendOutcome::Sent) {
        peer.try_short(&[], || Some(header));
    }
    Some(())
}

/// Writes anything into one of the cells.
fn forge_cell(peer: &ShmEndpoint, input: &mut Input<'_>) -> Option<()> {
    let direction = if input.byte()? & 3 == 0 {
        peer.own.opposite()
    } else {
        peer.own
    };
    let (cell, at) = (input.number()? as usize, usize::from(input.byte()?));
    let index = cell % CELLS * CELL_WORDS + at % CELL_WORDS;
    // SAFETY: a word of the cells, all of which are mapped.
    let word = unsafe { peer.memory.cells(direction).add(index).as_ref() };
    word.store(input.number()? | input.number()? << 32, Ordering::Release);
    Some(())
}

/// Writes anything into one of the tables of blocks.
fn forge_table(peer: &ShmEndpoint, input: &mut Input<'_>) -> Option<()> {
    let which = input.byte()?;
    let table = match which & 3 {
        0 => BlockTable::Stream(peer.own),
        1 => BlockTable::Returned(peer.own),
        2 => BlockTable::Stream(peer.own.opposite()),
        _ => BlockTable::Returned(peer.own.opposite()),
    };
    let entries = word!(peer.memory.table(table));
    // Mostly one that is read next.
    let at = usize::from(which >> 2) % 8;
    entries[at % entries.len()].store(input.number()?, Ordering::Release);
    Some(())
}

/// Valid and invalid frames, through the stream.
fn show_bytes(peer: &mut ShmEndpoint, input: &mut Input<'_>) -> Option<()> {
    let mut bytes = input.header()?.to_vec();
    bytes.resize(HEADER_LEN + input.number()?.min(3000) as usize, 3);
    let piece = Piece {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: the bytes are readable.
    let _ = unsafe { peer.try_write(&[piece]) };
    Some(())
}

/// The steps of an honest peer with the arrived bytes.
fn take(peer: &mut ShmEndpoint) {
    let mut bytes = vec![0; MAX_BODY];
    let piece = Piece {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: the bytes are writable, and not used by other code.
    let _ = unsafe { peer.try_read(&[piece]) };
    if let Some(header) = peer.try_recv() {
        let piece = Piece {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: usize::from(header.len).min(bytes.len()),
        };
        // SAFETY: as above.
        unsafe { peer.take(&header, piece) };
    }
}

/// Has a peer write what `data` says, between calls of a device that reads and writes.
pub fn memory(data: &[u8]) {
    let (link, mut peer) = pair();
    let mut input = Input(data);
    let mut tested = Tested::new(link, input.byte().is_some_and(|byte| byte & 1 != 0));
    // At the end of the input, or of the link.
    let _ = run(&mut tested, &mut peer, &mut input);
    tested.check();
}

fn run(tested: &mut Tested, peer: &mut ShmEndpoint, input: &mut Input<'_>) -> Option<()> {
    loop {
        let op = input.byte()?;
        let calls = tested.places.len() + tested.sent.len();
        let done = match op % 13 {
            0..=2 => show_short(peer, input).map_or(Ok(()), Ok),
            3 => show_bytes(peer, input).map_or(Ok(()), Ok),
            4 => {
                forge_cell(peer, input)?;
                Ok(())
            }
            12 => {
                forge_table(peer, input)?;
                Ok(())
            }
            5 => {
                let at = peer.memory.word(input.place()?);
                let value = input.number()?;
                word!(at).store(value, Ordering::Release);
                Ok(())
            }
            6 => {
                take(peer);
                Ok(())
            }
            7 if calls < CALLS => {
                tested.post(input.number()? as usize, op & 16 != 0);
                Ok(())
            }
            8 if calls < CALLS => tested.send(input.number()?.min(20_000) as usize),
            9 => {
                let armed = tested.live.endpoint.arm_doorbell(op & 16 != 0).map(drop);
                tested.live.endpoint.disarm_doorbell();
                armed.map_err(LinkFault::from)
            }
            _ if calls < CALLS => tested.read(op >> 4),
            _ => Ok(()),
        };
        // A device drops a link that is broken.
        done.and_then(|()| tested.flush()).ok()?;
        tested.check();
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn whatever_a_peer_writes_stays_within_bounds(data in vec(any::<u8>(), 0..400)) {
            super::memory(&data);
        }
    }
}
