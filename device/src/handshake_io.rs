//! Handshakes over sockets: accepting, answering, and turning a connection into a link.

use std::io;
use std::time::{Duration, Instant};

use rejoin_channel_table::ids::Rank;
use rejoin_channel_table::{
    Acceptor, AcceptorStep, DialerStep, Established, Proved, Refusal, Resume,
};

use crate::agent;
use crate::device::Device;
use crate::error::{Error, Result, text_of};
use crate::live::Live;
use crate::pending::{Pending, Side};
use crate::poller::Token;
use crate::receive::{Broken, Intake};
use crate::slots::Slot;
use crate::transport::{Accepted, Copies, Endpoint, Failing};

/// How long an incoming connection may take for its handshake.
const ACCEPT_PATIENCE: Duration = Duration::from_secs(10);
/// Incoming connections in their handshake at the same time; more wait in the kernel.
const MOST_ACCEPTING: usize = 256;
/// How long one of so many may be silent before it makes room for another.
const SILENT: Duration = Duration::from_secs(1);
/// Pause after a refusal that asks for one: the peer is behind, or wins with its own attempt.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// What became of a connection in its handshake after an event.
enum Next {
    /// The handshake continues over this connection.
    Stay(Box<Pending>),
    /// It is a link now; so many bytes behind the handshake lie at this place of the staging.
    Live {
        pending: Box<Pending>,
        rank: Rank,
        from: usize,
        until: usize,
    },
    /// It came to nothing.
    Fail(Box<Pending>, String),
}

impl Device {
    /// Takes all connections that wait at a listener.
    pub(crate) fn accept_all(&mut self, number: u32) -> Result<bool> {
        let mut any = false;
        loop {
            if self.io.slots.accepting().len() >= MOST_ACCEPTING && !self.make_room() {
                self.io.accept_again = true;
                break;
            }
            let Some(accepted) = self.io.listeners.accept(number) else {
                break;
            };
            any = true;
            let Accepted { socket, local } = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, say. The listener is looked at again in a while: its
                    // edge has passed.
                    self.io.accept_again = true;
                    let (me, why) = (self.identity.rank, text_of(&error));
                    tracing::warn!("rank {me}: accept: {why}");
                    break;
                }
            };
            let mut nonce = [0; 32];
            agent::random(&mut nonce)?;
            let acceptor = Acceptor::new(self.identity, nonce);
            let until = Instant::now() + ACCEPT_PATIENCE;
            let pending = Pending::accepted(socket, local, acceptor, until);
            let token = self.io.slots.reserve();
            self.io.poller.add(pending.descriptor(), token, true)?;
            self.io.slots.put(token, Slot::Pending(Box::new(pending)));
            self.handshake_event(token)?;
        }
        Ok(any)
    }

    /// With too many at the door: drops the oldest of those that have said nothing for a while: a
    /// rank that dials says who it is at once.
    fn make_room(&mut self) -> bool {
        let silent_since = Instant::now() + ACCEPT_PATIENCE - SILENT;
        let tokens = self.io.slots.accepting().to_vec();
        let silent = tokens.into_iter().find(|token| {
            self.io.slots.pending_at(*token).is_some_and(|pending| {
                pending.claims().is_none() && pending.deadline <= silent_since
            })
        });
        if let Some(token) = silent {
            self.io.slots.take(token);
            self.meter.stats.strangers += 1;
        }
        silent.is_some()
    }

    /// Moves a handshake on as far as it goes now; true if it moved.
    pub(crate) fn handshake_event(&mut self, token: Token) -> Result<bool> {
        let Some(pending) = self.io.slots.lift(token) else {
            return Ok(false);
        };
        match self.advance(token, pending) {
            Next::Stay(pending) => {
                self.io.slots.put(token, Slot::Pending(pending));
                Ok(false)
            }
            Next::Live {
                pending,
                rank,
                from,
                until,
            } => {
                self.go_live(token, pending, rank, from, until)?;
                Ok(true)
            }
            Next::Fail(pending, why) => {
                self.io.slots.put(token, Slot::Pending(pending));
                self.attempt_failed(token, &why)?;
                Ok(true)
            }
        }
    }

    fn advance(&mut self, token: Token, mut pending: Box<Pending>) -> Next {
        let was_connected = pending.connected;
        match pending.connect() {
            Ok(true) => {}
            Ok(false) => return Next::Stay(pending),
            Err(error) => return broke(pending, &error),
        }
        if let (false, Some((rank, _))) = (was_connected, pending.dials()) {
            pending.deadline = Instant::now() + self.answer_patience(rank);
        }
        loop {
            match pending.flush() {
                Ok(true) if pending.closing => return Next::Fail(pending, "refused".to_owned()),
                Ok(_) => {}
                Err(error) => return broke(pending, &error),
            }
            if pending.closing {
                return Next::Stay(pending);
            }
            let count = match pending.read(&mut self.io.staging) {
                Ok(Some(count)) => count,
                Ok(None) => return Next::Stay(pending),
                Err(error) => return broke(pending, &error),
            };
            pending.answered = true;
            let mut at = 0;
            while at < count {
                let (taken, step) = self.feed(token, &mut pending, at, count);
                at += taken;
                match step {
                    Step::More => {}
                    Step::Live(rank) => {
                        return Next::Live {
                            pending,
                            rank,
                            from: at,
                            until: count,
                        };
                    }
                    Step::Fail(why) => return Next::Fail(pending, why),
                    Step::Close => {
                        pending.closing = true;
                        break;
                    }
                }
                if taken == 0 && at < count {
                    break;
                }
            }
        }
    }

    /// Feeds staged bytes to the handshake and does what it asks for.
    fn feed(
        &mut self,
        token: Token,
        pending: &mut Pending,
        at: usize,
        end: usize,
    ) -> (usize, Step) {
        let bytes = &self.io.staging[at..end];
        match &mut pending.side {
            Side::Dial(dialer) => {
                let (taken, step) = dialer.feed(self.io.key.get(), bytes, &mut pending.out);
                let step = match step {
                    DialerStep::More => Step::More,
                    DialerStep::Prove => self.prove(pending),
                    DialerStep::Established(opened) => self.established(token, pending, &opened),
                    DialerStep::Refused(refusal) => self.refused(pending, refusal),
                };
                (taken, step)
            }
            Side::Accept(acceptor) => {
                let book = self.table.book();
                let (taken, step) = acceptor.feed(self.io.key.get(), book, bytes, &mut pending.out);
                let step = match step {
                    AcceptorStep::More => Step::More,
                    AcceptorStep::Admit(proved) => self.admit(token, pending, *proved),
                    AcceptorStep::Refused(refusal) => self.refused(pending, refusal),
                };
                (taken, step)
            }
        }
    }

    fn prove(&mut self, pending: &mut Pending) -> Step {
        let Side::Dial(dialer) = &mut pending.side else {
            return Step::More;
        };
        let (rank, attempt) = (dialer.peer(), dialer.attempt());
        let seen = match self.table.prove(rank, attempt) {
            Ok(seen) => seen,
            Err(error) => return Step::Fail(error.to_string()),
        };
        let resume = self.engine.resume(rank);
        if let Err(error) = pending.wireup.offer(self.settings.local_size) {
            // There may be some when no signal comes in between.
            let passes = error.kind() == io::ErrorKind::Interrupted;
            pending.failing = Some(if passes {
                Failing::Connection
            } else {
                Failing::Memory
            });
            return Step::Fail(format!("no memory to share: {}", text_of(&error)));
        }
        let Side::Dial(dialer) = &mut pending.side else {
            return Step::More;
        };
        match dialer.prove(self.io.key.get(), seen, &resume, &mut pending.out) {
            Ok(()) => Step::More,
            Err(error) => Step::Fail(error.to_string()),
        }
    }

    fn established(&mut self, token: Token, pending: &mut Pending, opened: &Established) -> Step {
        let rank = opened.peer.rank;
        if let Err(error) = pending.wireup.agreed(true) {
            pending.failing = Some(Failing::Memory);
            return Step::Fail(text_of(&error));
        }
        if let Some(later) = self.later(&opened.resume) {
            return later;
        }
        if let Err(error) = self.table.established(opened, token) {
            return Step::Fail(error.to_string());
        }
        self.dial_state(rank).pending = None;
        self.link_up(rank, &opened.resume)
    }

    fn admit(&mut self, token: Token, pending: &mut Pending, proved: Proved) -> Step {
        let rank = proved.peer.rank;
        if let Some(later) = self.later(&proved.resume) {
            return later;
        }
        if let Err(error) = pending.wireup.take() {
            tracing::warn!("rank {}: link to {rank}: {error}", self.identity.rank);
            return Step::Fail(error.to_string());
        }
        let Side::Accept(acceptor) = &mut pending.side else {
            return Step::More;
        };
        let admission = match self.table.admit(&proved, token) {
            Ok(admission) => admission,
            Err(refusal) => {
                acceptor.refuse(self.io.key.get(), refusal, &mut pending.out);
                return Step::Close;
            }
        };
        if let Some(old) = admission.closes {
            let live = self.io.slots.live(old);
            let heard = live.as_ref().is_some_and(|live| live.heard);
            let path = live.map(|live| live.endpoint.path());
            let moved = path.and_then(io::Result::ok).map_or(0, |path| path.moved);
            self.forget(old);
            self.engine.link_down(rank);
            // An error, if it comes to that, comes with the next loss: here the peer is back.
            self.count_link(rank, moved, heard);
            self.meter.stats.links_lost += 1;
        }
        if admission.abandons.is_some() {
            self.abandon_dial(rank);
        }
        let resume = self.engine.resume(rank);
        let Side::Accept(acceptor) = &mut pending.side else {
            return Step::More;
        };
        if let Err(error) = acceptor.accept(
            self.io.key.get(),
            admission.renounced,
            &resume,
            &mut pending.out,
        ) {
            self.table.null(rank);
            return Step::Fail(error.to_string());
        }
        self.link_up(rank, &proved.resume)
    }

    /// A resume is an ack: one of a later epoch ends the attempt before anything has moved. The
    /// next attempt comes after this rank's safe point.
    fn later(&mut self, resume: &Resume) -> Option<Step> {
        let refused = self.engine.accepts_epoch(resume.epoch).err()?;
        self.checkpoint.request(resume.epoch);
        Some(Step::Fail(refused.to_string()))
    }

    /// Tells the engine what the peer has.
    fn link_up(&mut self, rank: Rank, resume: &Resume) -> Step {
        self.begin_link(rank, resume);
        match self.engine.link_up(rank, resume) {
            Ok(()) => Step::Live(rank),
            Err(error) => {
                self.table.null(rank);
                self.engine.link_down(rank);
                Step::Fail(error.to_string())
            }
        }
    }

    fn refused(&mut self, pending: &mut Pending, refusal: Refusal) -> Step {
        if let (Some((rank, _)), Refusal::Yield | Refusal::PeerIsOlder { .. }) =
            (pending.dials(), refusal)
        {
            self.redial_after(rank, REFUSED_PAUSE);
        }
        if pending.out.is_empty() {
            Step::Fail(refusal.to_string())
        } else {
            Step::Close
        }
    }

    /// The handshake is over: frames may flow.
    fn go_live(
        &mut self,
        token: Token,
        pending: Box<Pending>,
        rank: Rank,
        from: usize,
        until: usize,
    ) -> Result<()> {
        let copies = Copies {
            single: self.options.single_copy,
            shared_cores: self.spin.is_never(),
        };
        let (mut endpoint, ahead) = pending.into_endpoint(copies);
        let polled = endpoint.capabilities().doorbell;
        // Its end may have come with the last bytes of the handshake, and is not announced again.
        endpoint.note_event();
        self.io.slots.put(
            token,
            Slot::Live(Box::new(Live::new(endpoint, rank, ahead))),
        );
        if polled {
            self.list_polled(token);
            self.learn_access(rank);
        }
        self.meter.stats.links_made += 1;
        self.dial_succeeded(rank, polled)?;
        // Beside shared memory nothing comes but wake-ups.
        if until > from && !polled {
            self.io.staging.copy_within(from..until, 0);
            self.take_in(token, Some(until - from))?;
        }
        self.list_readable(token);
        self.flush_link(rank)?;
        Ok(())
    }

    /// Reads a live link, or works through bytes that are staged already; true if anything moved.
    pub(crate) fn take_in(&mut self, token: Token, staged: Option<usize>) -> Result<bool> {
        let Some(live) = self.io.slots.live(token) else {
            return Ok(false);
        };
        let mut intake = Intake {
            engine: &mut self.engine,
            staging: &mut self.io.staging,
            meter: &mut self.meter,
            checkpoint: &mut self.checkpoint,
        };
        let outcome = match staged {
            None => intake.read(live),
            Some(fresh) => intake.parse(live, fresh).map(|()| true),
        };
        match outcome {
            Ok(moved) => {
                let moved = moved | self.get_all();
                let Some(live) = self.io.slots.live(token) else {
                    return Ok(moved);
                };
                // A polled link is looked at in any case, but for what it holds itself.
                let noticed = live.polled && live.held.is_empty();
                if live.readable && !noticed && !live.listed {
                    self.list_readable(token);
                }
                Ok(moved)
            }
            Err(Broken::Memory(error)) => {
                let rank = live.rank;
                Err(self.bad_buffer(rank, "receive", error))
            }
            Err(broken) => self.drop_link(token, broken).map(|()| true),
        }
    }

    /// What the peer broke is told to the user; a device error only when it does so again and
    /// again.
    pub(crate) fn breach(&mut self, rank: Rank, why: &str) -> Result<()> {
        const MOST_BREACHES: u32 = 16;
        self.breaches += 1;
        let me = self.identity.rank;
        eprintln!("rejoin: rank {me}: dropped the link to rank {rank}: {why}");
        if self.breaches < MOST_BREACHES {
            return Ok(());
        }
        Err(Error::Refused {
            rank,
            host: self.host_of(rank).to_owned(),
            operation: "receive",
            problem: format!("{MOST_BREACHES} links were dropped for what came over them: {why}"),
        })
    }
}

/// The connection fails the handshake.
fn broke(mut pending: Box<Pending>, error: &io::Error) -> Next {
    if pending.dials().is_some()
        && let Err(other) = pending.wireup.agreed(false)
    {
        pending.failing = Some(Failing::Memory);
        return Next::Fail(pending, other.to_string());
    }
    // Who waits for long is dropped by the other side, and would be over TCP.
    if pending.begun.elapsed() < ACCEPT_PATIENCE / 2 {
        pending.failing = Some(Failing::Connection);
    }
    Next::Fail(pending, text_of(error))
}

/// What the device has done for a handshake.
enum Step {
    More,
    Live(Rank),
    Fail(String),
    Close,
}
