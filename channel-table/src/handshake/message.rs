//! The handshake's messages as bytes, and the keyed hashes over them.
//!
//! A header of 12 bytes (magic, version, kind, zero, length of the body) and a body whose length
//! its kind fixes. The bytes of a resume follow `Proof` and `Accept`. The keyed hash of these
//! messages covers the length and the hash of the resume. So a peer that is not authenticated makes
//! no side read more than [`LONGEST`] bytes.

use super::HandshakeRefusal;
use crate::ids::{Attempt, Generation, Incarnation, JobId, JobKey, Rank};
use crate::numbers::FieldReader;
use crate::resume::MAX_RESUME_BYTES;

/// Version of the handshake and of the frames that follow it on the link.
pub const VERSION: u16 = 4;
/// First four bytes of every message: they reveal a stranger.
pub(super) const MAGIC: [u8; 4] = *b"RJNH";
pub(super) const HEADER: usize = 12;
pub(super) const HELLO: usize = 64;
pub(super) const CHALLENGE: usize = 76;
pub(super) const PROOF: usize = 72;
const REJECT: usize = 36;
/// Longest message without the resume that may follow it, header included.
pub const LONGEST: usize = HEADER + CHALLENGE;

const MAC: usize = 32;
/// Bytes of a challenge that its keyed hash covers.
const CHALLENGE_OPEN: usize = CHALLENGE - MAC;
const PROOF_OPEN: usize = PROOF - MAC;

/// Fresh random bytes of one side for one attempt.
pub type Nonce = [u8; 32];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum MessageKind {
    Hello = 1,
    Challenge = 2,
    Proof = 3,
    Accept = 4,
    Reject = 5,
}

impl MessageKind {
    fn of(byte: u8) -> Option<MessageKind> {
        [
            MessageKind::Hello,
            MessageKind::Challenge,
            MessageKind::Proof,
            MessageKind::Accept,
            MessageKind::Reject,
        ]
        .into_iter()
        .find(|&kind| kind as u8 == byte)
    }

    fn body(self) -> usize {
        match self {
            MessageKind::Hello => HELLO,
            MessageKind::Challenge => CHALLENGE,
            MessageKind::Proof | MessageKind::Accept => PROOF,
            MessageKind::Reject => REJECT,
        }
    }
}

/// Kind and length of the body, once the header says something legal.
pub(super) fn parse_header(bytes: &[u8; HEADER]) -> Result<(MessageKind, usize), HandshakeRefusal> {
    let mut reader = FieldReader::new(bytes);
    let magic: Option<[u8; 4]> = reader.array();
    let version: Option<[u8; 2]> = reader.array();
    let kind: Option<[u8; 2]> = reader.array();
    let (Some(magic), Some(version), Some([kind, zero]), Some(length)) =
        (magic, version, kind, reader.u32())
    else {
        return Err(HandshakeRefusal::Malformed);
    };
    if magic != MAGIC {
        return Err(HandshakeRefusal::Malformed);
    }
    let version = u16::from_le_bytes(version);
    if version != VERSION {
        return Err(HandshakeRefusal::WrongVersion { theirs: version });
    }
    let kind = MessageKind::of(kind)
        .filter(|_| zero == 0)
        .ok_or(HandshakeRefusal::Malformed)?;
    if length as usize != kind.body() {
        return Err(HandshakeRefusal::Malformed);
    }
    Ok((kind, kind.body()))
}

fn put_header(out: &mut Vec<u8>, kind: MessageKind) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[kind as u8, 0]);
    out.extend_from_slice(&(kind.body() as u32).to_le_bytes());
}

fn u32s(reader: &mut FieldReader<'_>) -> Result<u32, HandshakeRefusal> {
    reader.u32().ok_or(HandshakeRefusal::Malformed)
}

fn bytes<const N: usize>(reader: &mut FieldReader<'_>) -> Result<[u8; N], HandshakeRefusal> {
    reader.array().ok_or(HandshakeRefusal::Malformed)
}

/// The dialer's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hello {
    pub job: JobId,
    pub generation: Generation,
    pub from: Rank,
    pub from_incarnation: Incarnation,
    pub to: Rank,
    pub to_incarnation: Incarnation,
    pub attempt: Attempt,
    pub nonce: Nonce,
}

impl Hello {
    pub(super) fn body(&self) -> [u8; HELLO] {
        let mut body = [0; HELLO];
        body[..8].copy_from_slice(&self.job.0.to_le_bytes());
        let words = [
            self.generation.0,
            self.from.0,
            self.from_incarnation.0,
            self.to.0,
            self.to_incarnation.0,
            self.attempt.0,
        ];
        for (slot, word) in body[8..32].chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        body[32..].copy_from_slice(&self.nonce);
        body
    }

    pub(super) fn parse(body: &[u8]) -> Result<Hello, HandshakeRefusal> {
        let mut reader = FieldReader::new(body);
        Ok(Hello {
            job: JobId(reader.u64().ok_or(HandshakeRefusal::Malformed)?),
            generation: Generation(u32s(&mut reader)?),
            from: Rank(u32s(&mut reader)?),
            from_incarnation: Incarnation(u32s(&mut reader)?),
            to: Rank(u32s(&mut reader)?),
            to_incarnation: Incarnation(u32s(&mut reader)?),
            attempt: Attempt(u32s(&mut reader)?),
            nonce: bytes(&mut reader)?,
        })
    }
}

/// The acceptor's answer: its view of the pair, and the proof that it knows the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Challenge {
    pub generation: Generation,
    /// The acceptor's own incarnation.
    pub mine: Incarnation,
    /// The dialer's incarnation as the acceptor's book has it.
    pub yours: Incarnation,
    pub nonce: Nonce,
}

impl Challenge {
    fn open(&self) -> [u8; CHALLENGE_OPEN] {
        let mut open = [0; CHALLENGE_OPEN];
        open[..4].copy_from_slice(&self.generation.0.to_le_bytes());
        open[4..8].copy_from_slice(&self.mine.0.to_le_bytes());
        open[8..12].copy_from_slice(&self.yours.0.to_le_bytes());
        open[12..].copy_from_slice(&self.nonce);
        open
    }

    pub(super) fn parse(body: &[u8]) -> Result<(Challenge, [u8; MAC]), HandshakeRefusal> {
        let mut reader = FieldReader::new(body);
        let challenge = Challenge {
            generation: Generation(u32s(&mut reader)?),
            mine: Incarnation(u32s(&mut reader)?),
            yours: Incarnation(u32s(&mut reader)?),
            nonce: bytes(&mut reader)?,
        };
        Ok((challenge, bytes(&mut reader)?))
    }
}

/// The content of `Proof` and `Accept`: an attempt number of the table, and length and hash of the
/// resume that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Proof {
    /// In `Proof`: the highest attempt of the acceptor whose end the dialer has seen. In `Accept`:
    /// the highest attempt that the acceptor has itself proved and renounced.
    pub known: Attempt,
    pub resume_len: u32,
    pub resume_hash: [u8; 32],
}

impl Proof {
    pub(super) fn of(known: Attempt, resume: &[u8]) -> Proof {
        Proof {
            known,
            resume_len: resume.len() as u32,
            resume_hash: *blake3::hash(resume).as_bytes(),
        }
    }

    fn open(&self) -> [u8; PROOF_OPEN] {
        let mut open = [0; PROOF_OPEN];
        open[..4].copy_from_slice(&self.known.0.to_le_bytes());
        open[4..8].copy_from_slice(&self.resume_len.to_le_bytes());
        open[8..].copy_from_slice(&self.resume_hash);
        open
    }

    pub(super) fn parse(body: &[u8]) -> Result<(Proof, [u8; MAC]), HandshakeRefusal> {
        let mut reader = FieldReader::new(body);
        let proof = Proof {
            known: Attempt(u32s(&mut reader)?),
            resume_len: u32s(&mut reader)?,
            resume_hash: bytes(&mut reader)?,
        };
        Ok((proof, bytes(&mut reader)?))
    }

    /// True if `resume` is what this message announced.
    pub(super) fn covers(&self, resume: &[u8]) -> bool {
        resume.len() == self.resume_len as usize
            && blake3::hash(resume) == blake3::Hash::from_bytes(self.resume_hash)
    }

    pub(super) fn length_is_legal(&self) -> bool {
        self.resume_len as usize <= MAX_RESUME_BYTES
    }
}

/// The role of the sender: a keyed hash of one role is not valid for another.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Challenge = 1,
    Proof = 2,
    Accept = 3,
    DialerRejects = 4,
    AcceptorRejects = 5,
}

/// Both sides' views and nonces, which every keyed hash covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Transcript {
    pub hello: Hello,
    pub challenge: Challenge,
}

impl Transcript {
    fn mac(&self, key: &JobKey, role: Role, rest: &[u8]) -> blake3::Hash {
        const DOMAIN: &[u8; 16] = b"rejoin handshake";
        let mut covered = [0u8; 16 + 2 + 1 + HELLO + CHALLENGE_OPEN + PROOF_OPEN];
        let mut length = 0;
        let mut put = |part: &[u8]| {
            covered[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        };
        put(DOMAIN);
        put(&VERSION.to_le_bytes());
        put(&[role as u8]);
        put(&self.hello.body());
        put(&self.challenge.open());
        put(rest);
        blake3::keyed_hash(key.expose(), &covered[..length])
    }

    /// Compares in constant time.
    pub(super) fn challenge_is_genuine(&self, key: &JobKey, mac: [u8; MAC]) -> bool {
        self.mac(key, Role::Challenge, &[]) == blake3::Hash::from_bytes(mac)
    }

    /// Compares in constant time.
    pub(super) fn proof_is_genuine(
        &self,
        key: &JobKey,
        role: Role,
        proof: &Proof,
        mac: [u8; MAC],
    ) -> bool {
        self.mac(key, role, &proof.open()) == blake3::Hash::from_bytes(mac)
    }

    /// Compares in constant time.
    pub(super) fn reject_is_genuine(
        &self,
        key: &JobKey,
        role: Role,
        reason: u8,
        mac: [u8; MAC],
    ) -> bool {
        self.mac(key, role, &[reason]) == blake3::Hash::from_bytes(mac)
    }

    pub(super) fn put_challenge(&self, key: &JobKey, out: &mut Vec<u8>) {
        put_header(out, MessageKind::Challenge);
        out.extend_from_slice(&self.challenge.open());
        out.extend_from_slice(self.mac(key, Role::Challenge, &[]).as_bytes());
    }

    pub(super) fn put_proof(
        &self,
        key: &JobKey,
        role: Role,
        proof: &Proof,
        resume: &[u8],
        out: &mut Vec<u8>,
    ) {
        let kind = if matches!(role, Role::Accept) {
            MessageKind::Accept
        } else {
            MessageKind::Proof
        };
        put_header(out, kind);
        out.extend_from_slice(&proof.open());
        out.extend_from_slice(self.mac(key, role, &proof.open()).as_bytes());
        out.extend_from_slice(resume);
    }

    pub(super) fn put_reject(&self, key: &JobKey, role: Role, reason: u8, out: &mut Vec<u8>) {
        put_reject(reason, self.mac(key, role, &[reason]).as_bytes(), out);
    }
}

pub(super) fn put_hello(hello: &Hello, out: &mut Vec<u8>) {
    put_header(out, MessageKind::Hello);
    out.extend_from_slice(&hello.body());
}

/// A refusal before both nonces are known. It cannot be authenticated.
pub(super) fn put_bare_reject(reason: u8, out: &mut Vec<u8>) {
    put_reject(reason, &[0; MAC], out);
}

fn put_reject(reason: u8, mac: &[u8; MAC], out: &mut Vec<u8>) {
    put_header(out, MessageKind::Reject);
    out.extend_from_slice(&[reason, 0, 0, 0]);
    out.extend_from_slice(mac);
}

pub(super) fn parse_reject(body: &[u8]) -> Result<(u8, [u8; MAC]), HandshakeRefusal> {
    let mut reader = FieldReader::new(body);
    let [reason, ..] = bytes::<4>(&mut reader)?;
    Ok((reason, bytes(&mut reader)?))
}
