//! The links of a rank: which peers have one, which are being dialed, and which are to be read.
//!
//! [`Links`] alone has that state. It makes no progress by itself: the device asks it what to read,
//! write or dial, and reports the result.

mod awaited;
mod burst;
mod carriers;
mod dials;
mod flapping;
mod intake;
mod live;
mod pending;
mod poll_clock;
mod rank_listeners;
mod slots;
mod transmit;
mod unanswered;
mod watching;

pub(crate) use dials::{address_text, is_local};
pub(crate) use flapping::{FlapStreak, Resumes};
pub(crate) use intake::{Intake, LinkFault, STAGING};
pub(crate) use live::Live;
pub(crate) use pending::{HandshakeRequest, PendingConnection};
pub(crate) use rank_listeners::{RankListeners, wanted_transport};
pub(crate) use transmit::{flush, send_frame, unblock};

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rejoin_channel_table::handshake::{Established, HandshakeRefusal, Proved};
use rejoin_channel_table::ids::{Attempt, Identity, Incarnation, Rank};
use rejoin_channel_table::table::TableError;
use rejoin_channel_table::{AddressBook, Admission, BusinessCard, LinkState, Table};

use crate::descriptors::OldDescriptors;
use crate::error::Result;
use crate::events::{PollToken, Poller};
use crate::transport::Endpoint;
use awaited::AwaitedLinks;
use dials::{Dial, Dials};
use poll_clock::PollClock;
use slots::{Slot, Slots};

/// Most links that epoll does not watch: each is read in every pass.
const MOST_UNWATCHED: usize = 2;
/// Incoming connections in their handshake at the same time; more wait in the kernel.
const MOST_ACCEPTING: usize = 256;
/// How long an incoming connection may be silent before it makes room for another.
const SILENT: Duration = Duration::from_secs(1);
/// How many links may be dropped after a malformed frame before that is an error.
pub(crate) const MOST_BREACHES: u32 = 16;

/// A link that was closed.
pub(crate) struct Closed {
    pub(crate) rank: Rank,
    /// Bytes that it moved.
    pub(crate) moved: u64,
    /// A frame had come over it.
    pub(crate) received_frame: bool,
    /// Doorbells that were rung over it.
    pub(crate) doorbells: u64,
    /// The link was the peer's current one: there is none now.
    pub(crate) was_current: bool,
}

/// The links of one rank, and the dials of peers without a link.
pub(crate) struct Links {
    table: Table<PollToken>,
    poller: Poller,
    slots: Slots,
    dials: Dials,
    /// Links that may hold bytes which no event will announce.
    readable: VecDeque<PollToken>,
    /// Links that are busy enough to be read without epoll.
    unwatched: Vec<PollToken>,
    /// Links that raise no event until they are armed.
    polled: Vec<PollToken>,
    /// The polled links are armed.
    armed: bool,
    poll_clock: PollClock,
    /// The link that was last to bring something. It is read first when no request names a peer.
    recent: Option<PollToken>,
    /// Links that a blocking call waits for at its end.
    awaited: AwaitedLinks,
    /// Links that were dropped after a malformed frame.
    breaches: u32,
}

impl Links {
    /// No links. `noise` is a random number.
    pub(crate) fn new(identity: Identity, book: AddressBook, poller: Poller, noise: u64) -> Self {
        let size = book.size();
        Self {
            table: Table::new(identity, book),
            poller,
            slots: Slots::default(),
            dials: Dials::new(size, noise),
            readable: VecDeque::new(),
            unwatched: Vec::with_capacity(MOST_UNWATCHED),
            polled: Vec::new(),
            armed: false,
            poll_clock: PollClock::default(),
            recent: None,
            awaited: AwaitedLinks::default(),
            breaches: 0,
        }
    }

    /// Drops all links, attempts and lists: there are none in this process. The table follows with
    /// [`Links::rejoin`].
    pub(crate) fn start_over(&mut self, poller: Poller, noise: u64, old: OldDescriptors) {
        let before = std::mem::replace(&mut self.poller, poller);
        let slots = std::mem::take(&mut self.slots);
        match old {
            OldDescriptors::Close => drop((before, slots)),
            OldDescriptors::Forget => {
                before.forget();
                slots.forget();
            }
        }
        self.dials = Dials::new(self.table.book().size(), noise);
        self.readable.clear();
        self.unwatched.clear();
        self.polled.clear();
        (self.armed, self.recent) = (false, None);
        self.poll_clock = PollClock::default();
    }

    /// This process is now `identity`, in a job that `book` describes.
    pub(crate) fn rejoin(&mut self, identity: Identity, book: AddressBook) {
        self.table.rejoin(identity, book);
    }

    /// The rank has left its job: closes all connections.
    pub(crate) fn close_all(&mut self) {
        self.slots = Slots::default();
        self.polled.clear();
        self.dials.take_listed();
    }

    /// The address book of all ranks.
    pub(crate) fn book(&self) -> &AddressBook {
        self.table.book()
    }

    /// Name of the host that a rank runs on; empty for a rank outside the job.
    pub(crate) fn host_of(&self, rank: Rank) -> &str {
        self.book().host(rank).unwrap_or_default()
    }

    /// The token of a peer's link.
    #[inline(always)]
    pub(crate) fn token_of(&self, peer: Rank) -> Option<PollToken> {
        self.table.live(peer)
    }

    /// The link that a token names.
    #[inline(always)]
    pub(crate) fn live(&mut self, token: PollToken) -> Option<&mut Live> {
        self.slots.live(token)
    }

    /// The link of a peer.
    #[inline(always)]
    pub(crate) fn live_to(&mut self, peer: Rank) -> Option<&mut Live> {
        let token = self.table.live(peer)?;
        self.slots.live(token)
    }

    /// The address book of all ranks, and the link of a peer.
    pub(crate) fn book_and_live(&mut self, peer: Rank) -> (&AddressBook, Option<&mut Live>) {
        let token = self.token_of(peer);
        let live = token.and_then(|token| self.slots.live(token));
        (self.table.book(), live)
    }

    /// All links with their tokens.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = (PollToken, &mut Live)> {
        self.slots.links()
    }

    /// Doorbells that were rung over the links that there are.
    pub(crate) fn doorbells(&self) -> u64 {
        self.slots.endpoints().map(Endpoint::doorbells_rung).sum()
    }

    /// Bytes of memory that the links share with peers.
    pub(crate) fn shared_bytes(&self) -> usize {
        self.slots.endpoints().map(Endpoint::shared_bytes).sum()
    }

    /// Has no peer read anything in this process any more.
    pub(crate) fn withdraw(&self) {
        self.slots.withdraw();
    }

    /// Whether there is neither a link to a rank nor an attempt under way.
    pub(crate) fn is_null(&self, rank: Rank) -> bool {
        self.table.state(rank) == LinkState::Null
    }

    /// Whether the link to a rank is established, and nothing of the handshake is still to be sent.
    fn is_linked(&mut self, rank: Rank) -> bool {
        self.live_to(rank).is_some_and(|live| live.is_handshaken())
    }

    /// Whether the rank takes part in a handshake with this one.
    fn has_answered(&self, rank: Rank) -> bool {
        let dialed = self.dials.known(rank).and_then(Dial::pending);
        let accepted = self.slots.accepting().iter().copied();
        let mut attempts = dialed.into_iter().chain(accepted);
        attempts.any(|token| {
            let pending = self.slots.pending_now(token);
            pending.is_some_and(|pending| pending.answered && pending.peer() == Some(rank))
        })
    }

    /// Has the next blocking call wait for the link to a rank at its end.
    pub(crate) fn await_link(&mut self, rank: Rank) {
        self.awaited.add(rank);
    }

    /// Whether a blocking call is to wait for a link at its end.
    #[inline]
    pub(crate) fn awaits_any(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// How long a call that has waited for links for `waited` must wait further. `None`: the links
    /// are established, or their peers do not answer.
    pub(crate) fn left_to_wait(&mut self, waited: Duration) -> Option<Duration> {
        let mut ranks = self.awaited.take();
        ranks.retain(|rank| !self.is_linked(*rank));
        let answered = ranks.iter().any(|rank| self.has_answered(*rank));
        self.awaited.put_back(ranks, answered, waited)
    }

    /// A new connection in its handshake.
    ///
    /// # Errors
    /// The system does not watch it.
    pub(crate) fn add_pending(&mut self, pending: PendingConnection) -> Result<PollToken> {
        let token = self.slots.reserve();
        self.poller.add(pending.descriptor(), token, true)?;
        self.slots.put(token, Slot::Pending(Box::new(pending)));
        Ok(token)
    }

    /// The connection in its handshake that a token names.
    pub(crate) fn pending_at(&self, token: PollToken) -> Option<&PendingConnection> {
        self.slots.pending_now(token)
    }

    /// Takes a connection in its handshake out for a moment; [`Links::put_back`] it, or
    /// [`Links::establish`] its link.
    pub(crate) fn lift(&mut self, token: PollToken) -> Option<Box<PendingConnection>> {
        self.slots.lift(token)
    }

    /// Puts back the connection that was taken out.
    pub(crate) fn put_back(&mut self, token: PollToken, pending: Box<PendingConnection>) {
        self.slots.put(token, Slot::Pending(pending));
    }

    /// The handshake of a connection has failed.
    pub(crate) fn take_pending(&mut self, token: PollToken) -> Option<Box<PendingConnection>> {
        match self.slots.take(token) {
            Slot::Pending(pending) => Some(pending),
            Slot::Free | Slot::Live(_) => None,
        }
    }

    /// Connections whose handshake has taken too long, and the next such time.
    pub(crate) fn late(&self, now: Instant) -> (Vec<PollToken>, Option<Instant>) {
        let (mut late, mut next) = (Vec::new(), None);
        for (token, pending) in self.slots.pending() {
            if pending.deadline <= now {
                late.push(token);
            } else {
                next = sooner(next, Some(pending.deadline));
            }
        }
        (late, next)
    }

    /// Whether there is room for another incoming connection.
    pub(crate) fn may_accept(&self) -> bool {
        self.slots.accepting().len() < MOST_ACCEPTING
    }

    /// Closes the oldest incoming connection that has sent nothing for a while: a rank that dials
    /// identifies itself at once. False when there is none.
    pub(crate) fn drop_silent(&mut self) -> bool {
        let until = Instant::now() + pending::ACCEPT_PATIENCE - SILENT;
        let tokens = self.slots.accepting().iter();
        let silent = tokens.copied().find(|token| {
            self.slots
                .pending_now(*token)
                .is_some_and(|pending| pending.claims().is_none() && pending.deadline <= until)
        });
        if let Some(token) = silent {
            self.slots.take(token);
        }
        silent.is_some()
    }

    /// The handshake of a connection is over: it is a link.
    pub(crate) fn establish(&mut self, token: PollToken, live: Live) {
        if live.polled {
            self.polled.push(token);
        }
        self.slots.put(token, Slot::Live(Box::new(live)));
    }

    /// Closes a link; `None` where there is none.
    pub(crate) fn close(&mut self, token: PollToken) -> Option<Closed> {
        let Slot::Live(live) = self.slots.take(token) else {
            return None;
        };
        self.unwatched.retain(|other| *other != token);
        self.polled.retain(|other| *other != token);
        let was_current = self.table.lost(live.rank, token);
        Some(Closed {
            rank: live.rank,
            moved: live.endpoint.path().map_or(0, |path| path.moved),
            received_frame: live.received_frame,
            doorbells: live.endpoint.doorbells_rung(),
            was_current,
        })
    }

    /// Counts a link that is dropped after a malformed frame; true if there are too many.
    pub(crate) fn count_breach(&mut self) -> bool {
        self.breaches += 1;
        self.breaches >= MOST_BREACHES
    }

    /// The dial of a rank.
    pub(crate) fn dial(&mut self, rank: Rank) -> &mut Dial {
        self.dials.to(rank)
    }

    /// The state of the dial to a rank without a link, if it is known, for messages to the user.
    pub(crate) fn in_words(&self, rank: Rank) -> Option<String> {
        let dial = self.dials.known(rank)?;
        let pending = dial.pending();
        dial.in_words(pending.and_then(|token| self.slots.pending_now(token)))
    }

    /// Whether any attempt is under way or to be made.
    pub(crate) fn has_timers(&self) -> bool {
        self.dials.any_listed() || self.slots.any_pending()
    }

    /// Has a rank dialed when it is due.
    pub(crate) fn list_redial(&mut self, rank: Rank) {
        self.dials.list(rank);
    }

    /// Has a rank dialed in a while, and no earlier.
    pub(crate) fn redial_after(&mut self, rank: Rank, pause: Duration) {
        self.dials.list_after(rank, pause);
    }

    /// Has a rank dialed after a pause that grows with its failures.
    pub(crate) fn redial_after_failure(&mut self, rank: Rank) {
        self.dials.list_after_failure(rank);
    }

    /// Takes the ranks that are to be dialed, now or later.
    pub(crate) fn take_redials(&mut self) -> Vec<Rank> {
        self.dials.take_listed()
    }

    /// Numbers a new attempt to reach a rank.
    ///
    /// # Errors
    /// There is a link or an attempt already.
    pub(crate) fn begin_attempt(
        &mut self,
        rank: Rank,
    ) -> std::result::Result<(Attempt, Incarnation), TableError> {
        self.table.dial(rank)
    }

    /// The attempt is over; its connection is gone.
    pub(crate) fn attempt_over(&mut self, rank: Rank, attempt: Attempt) {
        self.table.failed(rank, attempt);
        self.dials.to(rank).end();
    }

    /// Gives up this rank's own attempt in favour of the peer's.
    pub(crate) fn abandon_dial(&mut self, rank: Rank) {
        if let Some(token) = self.dials.to(rank).end() {
            self.slots.take(token);
        }
    }

    /// The peer of this rank's attempt has proved itself. Returns its latest attempt that this rank
    /// has seen.
    ///
    /// # Errors
    /// The attempt is not the present one.
    pub(crate) fn prove(
        &mut self,
        rank: Rank,
        attempt: Attempt,
    ) -> std::result::Result<Attempt, TableError> {
        self.table.prove(rank, attempt)
    }

    /// The peer has accepted this rank's attempt: the connection is its link.
    ///
    /// # Errors
    /// The attempt is not the present one.
    pub(crate) fn accepted(
        &mut self,
        opened: &Established,
        token: PollToken,
    ) -> std::result::Result<(), TableError> {
        self.table.established(opened, token)?;
        self.dials.to(opened.peer.rank).end();
        Ok(())
    }

    /// A peer that has dialed this rank has proved itself: the connection becomes its link, if
    /// nothing forbids that.
    ///
    /// # Errors
    /// Why the peer is refused.
    pub(crate) fn admit(
        &mut self,
        proved: &Proved,
        token: PollToken,
    ) -> std::result::Result<Admission<PollToken>, HandshakeRefusal> {
        self.table.admit(proved, token)
    }

    /// Nulls the handle of a rank whose link cannot be used.
    pub(crate) fn null(&mut self, rank: Rank) {
        self.table.null(rank);
    }

    /// A rank has a new incarnation or a new business card: the state of its dial is void. Returns
    /// the link that was closed, if there was one; `None` for a card that is old or of another job.
    pub(crate) fn update(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        card: BusinessCard,
    ) -> Option<Option<Closed>> {
        let before = self.table.book().incarnation(rank);
        let link = self.table.update(rank, incarnation, card).ok()?;
        let closed = link.and_then(|token| self.close(token));
        if before != Some(incarnation) {
            self.abandon_dial(rank);
        }
        self.dials.to(rank).forget_addresses();
        Some(closed)
    }
}

/// The earlier of two moments, where there are any.
pub(crate) fn sooner(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
