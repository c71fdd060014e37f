//! The side that dials.

use super::inbox::Inbox;
use super::message::{
    Challenge, Hello, MessageKind, Nonce, Proof, Role, Transcript, parse_reject, put_hello,
};
use super::{Established, HandshakeRefusal, PairView};
use crate::ids::{Attempt, Identity, Incarnation, JobKey, Rank};
use crate::resume::{Resume, ResumeError};

/// What the device does next for a dialer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialerStep {
    /// Wait for more bytes.
    More,
    /// The peer is authenticated and has the same view: call [`crate::table::Table::prove`], take
    /// the resume, and pass both to [`Dialer::prove`].
    Prove,
    /// Call [`crate::table::Table::established`]; further bytes of the link are frames.
    Established(Box<Established>),
    /// Send what is in `out`, then close.
    Refused(HandshakeRefusal),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    AwaitChallenge,
    MustProve(Transcript),
    AwaitAccept(Transcript),
    AwaitResume(Proof),
    Done,
}

/// One attempt to open a link, by the side that dials. Holds no key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dialer {
    me: Identity,
    hello: Hello,
    inbox: Inbox,
    state: State,
}

impl Dialer {
    /// Starts an attempt of `me` to reach `peer`, which the address book has at incarnation
    /// `yours`, and appends the first message to `out`. `nonce` must be fresh random bytes.
    pub fn new(
        me: Identity,
        peer: Rank,
        yours: Incarnation,
        attempt: Attempt,
        nonce: Nonce,
        out: &mut Vec<u8>,
    ) -> Dialer {
        let hello = Hello {
            job: me.job,
            generation: me.generation,
            from: me.rank,
            from_incarnation: me.incarnation,
            to: peer,
            to_incarnation: yours,
            attempt,
            nonce,
        };
        put_hello(&hello, out);
        Dialer {
            me,
            hello,
            inbox: Inbox::default(),
            state: State::AwaitChallenge,
        }
    }

    /// The rank that it dials.
    pub fn peer(&self) -> Rank {
        self.hello.to
    }

    /// The number of this attempt.
    pub fn attempt(&self) -> Attempt {
        self.hello.attempt
    }

    /// What is missing for the link, for messages to the user.
    pub fn waiting_for(&self) -> &'static str {
        match self.state {
            State::AwaitChallenge => "the peer's challenge",
            State::MustProve(_) => "this side's proof",
            State::AwaitAccept(_) => "the peer's acceptance",
            State::AwaitResume(_) => "the peer's resume",
            State::Done => "nothing",
        }
    }

    /// Takes bytes that the link delivered; says how many it took and what to do next. Bytes to
    /// send are appended to `out`.
    pub fn feed(&mut self, key: &JobKey, input: &[u8], out: &mut Vec<u8>) -> (usize, DialerStep) {
        let mut rest = input;
        let step = loop {
            match self.step(key, &mut rest, out) {
                Ok(Some(step)) => break step,
                Ok(None) if rest.is_empty() => break DialerStep::More,
                Ok(None) => {}
                Err(refusal) => {
                    self.state = State::Done;
                    break DialerStep::Refused(refusal);
                }
            }
        };
        (input.len() - rest.len(), step)
    }

    /// Answers the challenge. `seen` comes from [`crate::table::Table::prove`]; `resume` was taken
    /// after that call, and nothing of an older link is processed from then on.
    ///
    /// # Errors
    /// A resume that breaks a limit; the attempt must then be dropped.
    pub fn prove(
        &mut self,
        key: &JobKey,
        seen: Attempt,
        resume: &Resume,
        out: &mut Vec<u8>,
    ) -> Result<(), ResumeError> {
        let State::MustProve(transcript) = self.state else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        resume.encode(&mut bytes)?;
        transcript.put_proof(key, Role::Proof, &Proof::of(seen, &bytes), &bytes, out);
        self.state = State::AwaitAccept(transcript);
        Ok(())
    }

    fn view(&self) -> PairView {
        PairView {
            generation: self.hello.generation,
            mine: self.hello.from_incarnation,
            yours: self.hello.to_incarnation,
        }
    }

    fn step(
        &mut self,
        key: &JobKey,
        input: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<DialerStep>, HandshakeRefusal> {
        match self.state {
            State::AwaitChallenge => {
                let Some((kind, body, length)) = self.inbox.message(input)? else {
                    return Ok(Some(DialerStep::More));
                };
                match kind {
                    MessageKind::Challenge => self.challenged(key, &body[..length], out).map(Some),
                    MessageKind::Reject => Err(bare_reason(parse_reject(&body[..length])?.0)),
                    _ => Err(HandshakeRefusal::Malformed),
                }
            }
            State::AwaitAccept(transcript) => {
                let Some((kind, body, length)) = self.inbox.message(input)? else {
                    return Ok(Some(DialerStep::More));
                };
                match kind {
                    MessageKind::Accept => self.accepted(key, &transcript, &body[..length]),
                    MessageKind::Reject => Err(refused(key, &transcript, &body[..length])),
                    _ => Err(HandshakeRefusal::Malformed),
                }
            }
            State::AwaitResume(accept) => match self.inbox.raw(input, accept.resume_len as usize) {
                Some(bytes) => self.resumed(&accept, &bytes).map(Some),
                None => Ok(Some(DialerStep::More)),
            },
            // The handshake does not read the bytes that follow.
            State::MustProve(_) | State::Done => Ok(Some(DialerStep::More)),
        }
    }

    fn challenged(
        &mut self,
        key: &JobKey,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<DialerStep, HandshakeRefusal> {
        let (challenge, mac) = Challenge::parse(body)?;
        let transcript = Transcript {
            hello: self.hello,
            challenge,
        };
        if !transcript.challenge_is_genuine(key, mac) {
            return Err(HandshakeRefusal::BadProof);
        }
        let theirs = PairView {
            generation: challenge.generation,
            mine: challenge.mine,
            yours: challenge.yours,
        };
        if let Some(refusal) = self.view().judge(self.hello.to, &theirs) {
            transcript.put_reject(key, Role::DialerRejects, refusal.code(), out);
            return Err(refusal);
        }
        self.state = State::MustProve(transcript);
        Ok(DialerStep::Prove)
    }

    fn accepted(
        &mut self,
        key: &JobKey,
        transcript: &Transcript,
        body: &[u8],
    ) -> Result<Option<DialerStep>, HandshakeRefusal> {
        let (accept, mac) = Proof::parse(body)?;
        if !transcript.proof_is_genuine(key, Role::Accept, &accept, mac) {
            return Err(HandshakeRefusal::BadProof);
        }
        if !accept.length_is_legal() {
            return Err(HandshakeRefusal::Malformed);
        }
        self.state = State::AwaitResume(accept);
        Ok(None)
    }

    fn resumed(&mut self, accept: &Proof, bytes: &[u8]) -> Result<DialerStep, HandshakeRefusal> {
        if !accept.covers(bytes) {
            return Err(HandshakeRefusal::BadProof);
        }
        let resume = Resume::decode(bytes).map_err(|_| HandshakeRefusal::Malformed)?;
        self.state = State::Done;
        Ok(DialerStep::Established(Box::new(Established {
            me: self.me,
            peer: Identity {
                job: self.hello.job,
                rank: self.hello.to,
                generation: self.hello.generation,
                incarnation: self.hello.to_incarnation,
            },
            attempt: self.hello.attempt,
            renounced: accept.known,
            resume,
        })))
    }
}

/// A refusal before the challenge: an unauthenticated hint.
fn bare_reason(code: u8) -> HandshakeRefusal {
    [
        HandshakeRefusal::WrongJob,
        HandshakeRefusal::WrongRank,
        HandshakeRefusal::UnknownRank,
    ]
    .into_iter()
    .find(|r| r.code() == code)
    .unwrap_or(HandshakeRefusal::Malformed)
}

fn refused(key: &JobKey, transcript: &Transcript, body: &[u8]) -> HandshakeRefusal {
    let (code, mac) = match parse_reject(body) {
        Ok(parts) => parts,
        Err(refusal) => return refusal,
    };
    if !transcript.reject_is_genuine(key, Role::AcceptorRejects, code, mac) {
        return HandshakeRefusal::BadProof;
    }
    [HandshakeRefusal::Yield, HandshakeRefusal::Superseded]
        .into_iter()
        .find(|r| r.code() == code)
        .unwrap_or(HandshakeRefusal::Malformed)
}
