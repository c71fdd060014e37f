//! The side that accepts.

use super::inbox::Inbox;
use super::message::{
    Challenge, Hello, MessageKind, Nonce, Proof, Role, Transcript, parse_reject, put_bare_reject,
};
use super::{HandshakeRefusal, PairView};
use crate::book::AddressBook;
use crate::ids::{Attempt, Identity, JobKey, Rank};
use crate::resume::{Resume, ResumeError};

/// A dialer that has proved who it is and asks to be admitted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proved {
    /// The accepting side: this process, as it was when the handshake began.
    pub me: Identity,
    /// Rank and incarnation of the process that dialed.
    pub peer: Identity,
    /// The dialer's attempt.
    pub attempt: Attempt,
    /// The highest attempt of this side that the dialer has done with.
    pub seen: Attempt,
    /// The dialer's resume.
    pub resume: Resume,
}

/// What the device does next for an acceptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcceptorStep {
    /// Wait for more bytes.
    More,
    /// Ask [`crate::table::Table::admit`]; then [`Acceptor::accept`] with a resume taken after the
    /// replaced link was closed, or [`Acceptor::refuse`].
    Admit(Box<Proved>),
    /// Send what is in `out`, then close.
    Refused(HandshakeRefusal),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    AwaitHello,
    AwaitProof(Transcript),
    AwaitResume(Transcript, Proof),
    MustAnswer(Transcript),
    Done,
}

/// One incoming connection, until it is a link. Holds no key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acceptor {
    me: Identity,
    nonce: Nonce,
    inbox: Inbox,
    state: State,
}

impl Acceptor {
    /// Waits for a dialer on behalf of `me`. `nonce` must be fresh random bytes.
    pub fn new(me: Identity, nonce: Nonce) -> Acceptor {
        Acceptor {
            me,
            nonce,
            inbox: Inbox::default(),
            state: State::AwaitHello,
        }
    }

    /// The claimed identity of the dialer, which is not proved before [`AcceptorStep::Admit`].
    pub fn claims(&self) -> Option<(Rank, Attempt)> {
        match &self.state {
            State::AwaitProof(t) | State::AwaitResume(t, _) | State::MustAnswer(t) => {
                Some((t.hello.from, t.hello.attempt))
            }
            State::AwaitHello | State::Done => None,
        }
    }

    /// What is missing for the link, for messages to the user.
    pub fn waiting_for(&self) -> &'static str {
        match self.state {
            State::AwaitHello => "the dialer's hello",
            State::AwaitProof(_) => "the dialer's proof",
            State::AwaitResume(..) => "the dialer's resume",
            State::MustAnswer(_) => "this side's answer",
            State::Done => "nothing",
        }
    }

    /// Takes bytes that the link delivered. Returns how many it took, and the next step. Appends
    /// bytes to send to `out`. `book` holds the current incarnation of the dialer.
    pub fn feed(
        &mut self,
        key: &JobKey,
        book: &AddressBook,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> (usize, AcceptorStep) {
        let mut rest = input;
        let step = loop {
            match self.step(key, book, &mut rest, out) {
                Ok(Some(step)) => break step,
                Ok(None) if rest.is_empty() => break AcceptorStep::More,
                Ok(None) => {}
                Err(refusal) => {
                    self.state = State::Done;
                    break AcceptorStep::Refused(refusal);
                }
            }
        };
        (input.len() - rest.len(), step)
    }

    /// Admits the dialer: the link is open. `renounced` comes from [`crate::table::Table::admit`];
    /// `resume` was taken after the link that it replaces was closed.
    ///
    /// # Errors
    /// A resume that breaks a limit; the link must then be closed.
    pub fn accept(
        &mut self,
        key: &JobKey,
        renounced: Attempt,
        resume: &Resume,
        out: &mut Vec<u8>,
    ) -> Result<(), ResumeError> {
        let State::MustAnswer(transcript) = self.state else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        resume.encode(&mut bytes)?;
        transcript.put_proof(
            key,
            Role::Accept,
            &Proof::of(renounced, &bytes),
            &bytes,
            out,
        );
        self.state = State::Done;
        Ok(())
    }

    /// Tells the dialer why it is not admitted; close after `out` is sent.
    pub fn refuse(&mut self, key: &JobKey, refusal: HandshakeRefusal, out: &mut Vec<u8>) {
        if let State::MustAnswer(transcript) = self.state {
            transcript.put_reject(key, Role::AcceptorRejects, refusal.code(), out);
            self.state = State::Done;
        }
    }

    fn step(
        &mut self,
        key: &JobKey,
        book: &AddressBook,
        input: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<AcceptorStep>, HandshakeRefusal> {
        match self.state {
            State::AwaitHello => {
                let message = self.inbox.message(input);
                if let Err(refusal @ HandshakeRefusal::WrongVersion { .. }) = message {
                    put_bare_reject(refusal.code(), out);
                }
                let Some((kind, body, length)) = message? else {
                    return Ok(Some(AcceptorStep::More));
                };
                if kind != MessageKind::Hello {
                    return Err(HandshakeRefusal::Malformed);
                }
                self.greeted(key, book, &Hello::parse(&body[..length])?, out)?;
                Ok(None)
            }
            State::AwaitProof(transcript) => {
                let Some((kind, body, length)) = self.inbox.message(input)? else {
                    return Ok(Some(AcceptorStep::More));
                };
                match kind {
                    MessageKind::Proof => self.proved(key, transcript, &body[..length]),
                    MessageKind::Reject => Err(rejected(key, &transcript, &body[..length])),
                    _ => Err(HandshakeRefusal::Malformed),
                }
            }
            State::AwaitResume(transcript, proof) => {
                match self.inbox.raw(input, proof.resume_len as usize) {
                    Some(bytes) => self.resumed(transcript, &proof, &bytes).map(Some),
                    None => Ok(Some(AcceptorStep::More)),
                }
            }
            // The handshake does not read the bytes that follow.
            State::MustAnswer(_) | State::Done => Ok(Some(AcceptorStep::More)),
        }
    }

    fn greeted(
        &mut self,
        key: &JobKey,
        book: &AddressBook,
        hello: &Hello,
        out: &mut Vec<u8>,
    ) -> Result<(), HandshakeRefusal> {
        let known = match book.incarnation(hello.from) {
            _ if hello.job != self.me.job => Err(HandshakeRefusal::WrongJob),
            _ if hello.to != self.me.rank || hello.from == self.me.rank => {
                Err(HandshakeRefusal::WrongRank)
            }
            None => Err(HandshakeRefusal::UnknownRank),
            Some(incarnation) => Ok(incarnation),
        };
        let yours = known.inspect_err(|refusal| put_bare_reject(refusal.code(), out))?;
        let challenge = Challenge {
            generation: self.me.generation,
            mine: self.me.incarnation,
            yours,
            nonce: self.nonce,
        };
        let transcript = Transcript {
            hello: *hello,
            challenge,
        };
        transcript.put_challenge(key, out);
        self.state = State::AwaitProof(transcript);
        Ok(())
    }

    fn proved(
        &mut self,
        key: &JobKey,
        transcript: Transcript,
        body: &[u8],
    ) -> Result<Option<AcceptorStep>, HandshakeRefusal> {
        let (proof, mac) = Proof::parse(body)?;
        if !transcript.proof_is_genuine(key, Role::Proof, &proof, mac) {
            return Err(HandshakeRefusal::BadProof);
        }
        // A dialer with another view of the pair must reject and not prove.
        if !proof.length_is_legal() || disagreement(&transcript).is_some() {
            return Err(HandshakeRefusal::Malformed);
        }
        self.state = State::AwaitResume(transcript, proof);
        Ok(None)
    }

    fn resumed(
        &mut self,
        transcript: Transcript,
        proof: &Proof,
        bytes: &[u8],
    ) -> Result<AcceptorStep, HandshakeRefusal> {
        if !proof.covers(bytes) {
            return Err(HandshakeRefusal::BadProof);
        }
        let resume = Resume::decode(bytes).map_err(|_| HandshakeRefusal::Malformed)?;
        self.state = State::MustAnswer(transcript);
        Ok(AcceptorStep::Admit(Box::new(Proved {
            me: self.me,
            peer: Identity {
                job: self.me.job,
                rank: transcript.hello.from,
                generation: self.me.generation,
                incarnation: transcript.challenge.yours,
            },
            attempt: transcript.hello.attempt,
            seen: proof.known,
            resume,
        })))
    }
}

fn disagreement(transcript: &Transcript) -> Option<HandshakeRefusal> {
    let Transcript { hello, challenge } = transcript;
    let mine = PairView {
        generation: challenge.generation,
        mine: challenge.mine,
        yours: challenge.yours,
    };
    let theirs = PairView {
        generation: hello.generation,
        mine: hello.from_incarnation,
        yours: hello.to_incarnation,
    };
    mine.judge(hello.from, &theirs)
}

fn rejected(key: &JobKey, transcript: &Transcript, body: &[u8]) -> HandshakeRefusal {
    let (code, mac) = match parse_reject(body) {
        Ok(parts) => parts,
        Err(refusal) => return refusal,
    };
    if !transcript.reject_is_genuine(key, Role::DialerRejects, code, mac) {
        return HandshakeRefusal::BadProof;
    }
    disagreement(transcript).unwrap_or(HandshakeRefusal::Malformed)
}
