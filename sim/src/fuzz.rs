//! Fuzz functions for every decoder and for the engine behind them. Neither may panic, and a
//! decoded value must encode to the same bytes again. The targets under `fuzz/` and the property
//! tests of this crate call the same functions.

use rejoin_channel_table::{
    Acceptor, AcceptorStep, AddressBook, Attempt, BusinessCard, Dialer, DialerStep, Generation,
    Identity, Incarnation, JobId, Rank, Resume,
};
use rejoin_engine::{
    Config, Engine, Envelope, FRAME_MAGIC, FailedProbes, HEADER_LEN, Header, MessageMode, Pattern,
    ReqId, RxBody, Segment, Sent, ShortHeader,
};
use rejoin_managers_protocol::manager_messages::{ToCentral, ToLocal};
use rejoin_wire::codec::{FrameReader, MANAGER_LIMIT, RANK_LIMIT, encode};
use rejoin_wire::{FromManager, ToManager};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::node::key;

fn identity(rank: u32) -> Identity {
    Identity {
        job: JobId(0),
        rank: Rank(rank),
        generation: Generation(0),
        incarnation: Incarnation(0),
    }
}

/// Messages of the handshake from a stranger, who is never admitted.
pub fn handshake(data: &[u8]) {
    let book = AddressBook::new(vec![(Incarnation(0), BusinessCard::default()); 4]);
    let mut out = Vec::new();
    let mut acceptor = Acceptor::new(identity(1), [1; 32]);
    let mut dialer = Dialer::new(
        identity(0),
        Rank(1),
        Incarnation(0),
        Attempt(1),
        [2; 32],
        &mut out,
    );
    let (_, step) = acceptor.feed(&key(), &book, data, &mut out);
    assert!(
        !matches!(step, AcceptorStep::Admit(_)),
        "a stranger was admitted"
    );
    let (_, step) = dialer.feed(&key(), data, &mut out);
    assert!(
        !matches!(step, DialerStep::Prove | DialerStep::Established(_)),
        "a stranger was believed"
    );
    assert!(
        out.len() < 1024,
        "a stranger made this side write {} bytes",
        out.len()
    );
}

/// The encoding of a resume.
pub fn resume(data: &[u8]) {
    if let Ok(resume) = Resume::decode(data) {
        let mut bytes = Vec::new();
        resume
            .encode(&mut bytes)
            .expect("what was decoded is legal");
        assert_eq!(bytes, data, "two encodings of one resume");
    }
}

/// A frame header.
pub fn frame(data: &[u8]) {
    let Some(bytes) = data.first_chunk::<HEADER_LEN>() else {
        return;
    };
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(&header.encode(), bytes, "two encodings of one header");
    }
}

/// Messages between managers and ranks.
pub fn control(data: &[u8]) {
    fn read<T: DeserializeOwned + Serialize>(data: &[u8], limit: usize) {
        let mut reader = FrameReader::new(limit);
        reader.push(data);
        while let Ok(Some(message)) = reader.next::<T>() {
            let mut bytes = Vec::new();
            encode(&message, limit, &mut bytes).expect("what was decoded fits");
        }
    }
    read::<ToManager>(data, RANK_LIMIT);
    read::<FromManager>(data, MANAGER_LIMIT);
    read::<ToLocal>(data, MANAGER_LIMIT);
    read::<ToCentral>(data, MANAGER_LIMIT);
}

/// Takes bytes off the front of a fuzzer's input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// Mostly small, because frames with small numbers refer to each other.
    fn number(&mut self) -> Option<u64> {
        Some(match self.byte()? {
            byte @ 0..=249 => u64::from(byte % 32),
            250 => 63,
            251 => 4096,
            252 => 1 << 20,
            253 => u64::from(u32::MAX),
            254 => i64::MAX as u64,
            255 => u64::MAX,
        })
    }

    fn header(&mut self) -> Option<[u8; HEADER_LEN]> {
        let mut bytes = [0; HEADER_LEN];
        bytes[..2].copy_from_slice(&FRAME_MAGIC);
        bytes[2] = self.byte()? % 10;
        bytes[3] = self.byte()? & 7;
        bytes[8] = self.byte()? & 1;
        bytes[16] = self.byte()? & 1;
        for at in [24, 32, 40, 48, 56] {
            bytes[at..at + 8].copy_from_slice(&self.number()?.to_le_bytes());
        }
        Some(bytes)
    }

    fn short(&mut self) -> Option<ShortHeader> {
        // Length, then mostly this epoch.
        let (len, epoch) = (self.number()? as u16, self.byte()? & 1);
        let mut word = || self.number().map(|number| number as u32);
        Some(ShortHeader {
            envelope: Envelope {
                context: word()?,
                source: word()?.cast_signed(),
                tag: word()?.cast_signed(),
            },
            len,
            epoch: epoch.into(),
            ssn: word()?,
            ack: word()?,
            credit: word()?,
        })
    }

    fn resume(&mut self) -> Option<Resume> {
        let len = usize::from(self.byte()?).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        Resume::decode(bytes).ok()
    }
}

/// An engine whose authenticated peer is malicious: the engine refuses, and never panics.
pub fn engine(data: &[u8]) {
    let config = Config {
        eager_copy: 8,
        eager_max: 40,
        window: 0,
        chunk: 0,
        beyond: 0,
    };
    let mut engine = Engine::new(config, Rank(0), 2);
    let mut input = Input(data);
    let mut requests = Vec::new();
    while let Some(op) = input.byte() {
        match op % 8 {
            0..=3 => {
                if let Some(Ok(header)) = input.header().map(|h| Header::decode(&h))
                    && engine.is_up(PEER)
                    && !receive(&mut engine, &header)
                {
                    engine.link_down(PEER);
                }
            }
            4 => {
                let resume = input.resume().unwrap_or_default();
                // A refusal leaves the link down.
                let _ = engine.link_up(PEER, &resume);
            }
            _ => program(&mut engine, op, &mut input, &mut requests),
        }
        while engine.next_copy().is_some() {}
        while engine.next_ready().is_some() {}
        while engine.tx_pending(PEER) {
            let bytes = engine.tx_gather(PEER).bytes();
            engine.tx_advance(PEER, bytes);
        }
    }
}

/// The same for a peer that writes short messages into shared memory.
pub fn short_messages(data: &[u8]) {
    let config = Config {
        eager_copy: 8,
        eager_max: 40,
        window: 1024,
        chunk: 0,
        beyond: 0,
    };
    let mut engine = Engine::new(config, Rank(0), 2);
    let mut input = Input(data);
    let mut requests = Vec::new();
    while let Some(op) = input.byte() {
        if !engine.is_up(PEER) {
            let up = engine.link_up(PEER, &Resume::default());
            if up.is_err() {
                return;
            }
        }
        match op % 8 {
            0..=3 => {
                if let Some(short) = input.short()
                    && !receive_short(&mut engine, &short, op & 1 != 0)
                {
                    engine.link_down(PEER);
                }
            }
            4 => {
                let resume = input.resume().unwrap_or_default();
                engine.link_down(PEER);
                // A refusal leaves the link down.
                let _ = engine.link_up(PEER, &resume);
            }
            _ => program(&mut engine, op, &mut input, &mut requests),
        }
        while engine.next_copy().is_some() {}
        while engine.next_ready().is_some() {}
        while engine.tx_pending(PEER) {
            let bytes = engine.tx_gather(PEER).bytes();
            engine.tx_advance(PEER, bytes);
        }
    }
}

/// Receives in one of the device's ways; false if the engine refused.
fn receive_short(engine: &mut Engine, short: &ShortHeader, unposted: bool) -> bool {
    const ROOM: usize = 16;
    let pattern = Pattern {
        context: 0,
        source: Some(0),
        tag: Some(0),
        from: Some(PEER),
    };
    let place = Segment { addr: 0, len: ROOM };
    let met = if unposted && engine.is_next_match(&pattern) {
        engine
            .rx_short_into(PEER, short, &pattern, place)
            .map(|(done, met)| {
                assert_eq!(done.len as usize, met.len);
                met
            })
    } else {
        engine.rx_short(PEER, short)
    };
    if let Some(met) = met {
        assert_eq!(met.len, usize::from(short.len));
        assert!(met.into.len <= met.len.min(ROOM));
        return true;
    }
    let Some(header) = engine.widen(PEER, short) else {
        return false;
    };
    assert_eq!(header.body_len() as usize, usize::from(short.len));
    match Header::decode(&header.encode()) {
        Ok(again) => {
            assert_eq!(again, header);
            receive(engine, &header)
        }
        Err(_) => false,
    }
}

const PEER: Rank = Rank(1);

/// A call of the program.
fn program(engine: &mut Engine, op: u8, input: &mut Input<'_>, requests: &mut Vec<ReqId>) {
    let other = op & 8 != 0;
    match op % 8 {
        5 => {
            let len = input.number().unwrap_or(0).min(100) as usize;
            let envelope = Envelope {
                context: 0,
                source: 0,
                tag: 0,
            };
            let bytes = engine.copies(len).then_some(&[0u8; 100][..len]);
            let mode = if other {
                MessageMode::Synchronous
            } else {
                MessageMode::Standard
            };
            let sent = engine.send(PEER, envelope, Segment { addr: 0, len }, bytes, mode);
            if let Ok(Sent::Pending(id)) = sent {
                requests.push(id);
            }
        }
        6 => {
            let tag = other.then_some(0);
            let pattern = Pattern {
                context: 0,
                source: None,
                tag,
                from: None,
            };
            requests.extend(engine.recv(pattern, Segment { addr: 0, len: 16 }));
        }
        _ => {
            // Every state of a request has a description.
            assert!(
                engine
                    .waiting()
                    .all(|request| request.to_string().len() > 20)
            );
            if let Some(id) = requests.first() {
                engine.poll(*id);
            }
            match requests.pop() {
                Some(id) if other => engine.cancel(id),
                Some(id) => engine.free(id),
                None => {}
            }
            engine.grant_if_starved(&FailedProbes::default());
            engine.flush_all_acks();
        }
    }
}

/// False if the frame was refused.
fn receive(engine: &mut Engine, header: &Header) -> bool {
    let peer = PEER;
    match engine.rx_header(peer, header) {
        Err(_) => false,
        Ok(RxBody::None) => true,
        Ok(RxBody::Buffer) => {
            assert_eq!(engine.rx_buffer(peer).len() as u64, header.body_len());
            engine.rx_done(peer).is_ok()
        }
        Ok(RxBody::Into { into, discard }) => {
            assert_eq!(into.len as u64 + discard, header.body_len());
            engine.rx_done(peer).is_ok()
        }
        Ok(RxBody::Discard(bytes)) => {
            assert_eq!(bytes, header.body_len());
            engine.rx_done(peer).is_ok()
        }
    }
}
