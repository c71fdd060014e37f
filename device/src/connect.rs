//! Making and mending links: whom to dial when, at which address, and when to give up.
//!
//! A link is dialed when there is something to send (in a large job the peer's card is asked for
//! first), and again after it was lost: at once by the larger rank, a moment later by the smaller,
//! so that they seldom meet. A connection that the system refuses is tried at the next address,
//! then again with growing pauses; after `REJOIN_CONNECT_TIMEOUT` of failures it is an error. A
//! peer that took the connection and does not answer is computing: it is waited for.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use rejoin_channel_table::ids::{Attempt, Rank};
use rejoin_channel_table::{Address, Dialer, LinkState};
use rejoin_wire::{ToManager, Transport};
use socket2::Socket;

use crate::agent;
use crate::device::Device;
use crate::error::{Error, Result, text_of};
use crate::io;
use crate::link_flapping::Row;
use crate::pending::Pending;
use crate::poller::Token;
use crate::slots::Slot;
use crate::transport::{self, Endpoint, Failing};

/// First pause between attempts.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// Longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long the smaller rank leaves the redial of a lost link to the larger.
const COURTESY: Duration = Duration::from_millis(4);
/// How long the system may take to make a connection before the next address is tried.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How long a taken connection may stay without an answer before another address is tried.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// What counts at most as the time between two failures: a rank that computes does not dial.
const LONGEST_STEP: Duration = Duration::from_secs(6);
/// The same where there is no other address: the kernel notices a dead connection by itself.
const LONG_PATIENCE: Duration = Duration::from_secs(3600);
/// How long the manager has for a card before it is asked again: it asks others itself, and again
/// sooner.
const LOOK_UP_PATIENCE: Duration = Duration::from_secs(1);

/// For how long a door that is there may take no more callers, or this rank have no descriptor for
/// it, before that counts as an attempt that broke off.
const QUEUE_PATIENCE: Duration = Duration::from_secs(1);
/// Attempts over shared memory that may break off before TCP takes its place.
const MOST_BROKEN: u32 = 4;

/// What is known about reaching one rank.
#[derive(Debug, Default)]
pub(crate) struct Dial {
    /// The attempt under way.
    pub(crate) pending: Option<Token>,
    addresses: Vec<Address>,
    /// Which of them is next.
    next: usize,
    /// Attempts since a link stood.
    tries: u32,
    /// Questions where it is that no card has come for.
    asked: u32,
    /// No attempt before this moment.
    not_before: Option<Instant>,
    /// When the last failure of the present row was.
    last_failed: Option<Instant>,
    /// How long the row has lasted, times of computing between two attempts left out.
    failing: Duration,
    last_failure: String,
    /// Attempts over shared memory that have broken off.
    broken: u32,
    /// Why TCP is tried in its place.
    given_up: Option<String>,
    /// In the list of ranks to be dialed later.
    listed: bool,
    /// Links that came to stand and brought nothing on.
    pub(crate) row: Row,
}

impl Dial {
    /// Nothing is left of the way to a link: the next loss starts from fresh.
    fn reset(&mut self) {
        *self = Self {
            addresses: std::mem::take(&mut self.addresses),
            listed: self.listed,
            row: std::mem::take(&mut self.row),
            ..Self::default()
        };
    }

    /// Where to dial now. As long as there is a door nothing else is tried.
    fn pick(&mut self) -> Option<Address> {
        if let Some(door) = self.addresses.first().filter(|at| is_local(at)) {
            return Some(*door);
        }
        let count = self.addresses.len();
        let address = *self.addresses.get(self.next.checked_rem(count)?)?;
        self.next = (self.next + 1) % count;
        Some(address)
    }

    /// How many addresses are tried one after the other.
    fn others(&self) -> u32 {
        let door = self.addresses.first().is_some_and(is_local);
        let others = if door { 1 } else { self.addresses.len().max(1) };
        u32::try_from(others).unwrap_or(1)
    }

    /// An attempt over shared memory came to nothing; true when TCP is tried from now on.
    fn door_failed(&mut self, why: &str, for_good: bool) -> bool {
        self.broken += 1;
        if !(for_good || self.broken >= MOST_BROKEN) || self.addresses.iter().all(is_local) {
            return false;
        }
        self.addresses.retain(|address| !is_local(address));
        (self.next, self.tries) = (0, 0);
        self.given_up = Some(why.to_owned());
        true
    }
}

fn is_local(address: &Address) -> bool {
    matches!(address, Address::Local(_))
}

/// An address in messages to people.
fn place(address: &Address) -> String {
    match address {
        Address::Tcp(at) => at.to_string(),
        Address::Local(_) => "shared memory".to_owned(),
    }
}

impl Device {
    /// Has a link to `rank` established: dials now, or later when an attempt has
    /// failed a moment ago.
    pub(crate) fn want_link(&mut self, rank: Rank) -> Result<()> {
        if self.table.state(rank) != LinkState::Null || rank == self.identity.rank {
            return Ok(());
        }
        let due = self.dial_state(rank).not_before;
        if due.is_some_and(|due| due > Instant::now()) {
            self.list_redial(rank);
            return Ok(());
        }
        self.dial(rank)
    }

    /// Schedules an attempt in a while, and no earlier.
    pub(crate) fn redial_after(&mut self, rank: Rank, pause: Duration) {
        let due = Instant::now() + pause;
        let dial = self.dial_state(rank);
        dial.not_before = Some(dial.not_before.map_or(due, |other| other.max(due)));
        self.list_redial(rank);
    }

    /// After a live link was lost: the larger rank redials at once.
    pub(crate) fn redial_lost(&mut self, rank: Rank) {
        if self.leaving && !self.engine.tx_waiting(rank) {
            return;
        }
        let pause = if self.identity.rank > rank {
            Duration::ZERO
        } else {
            COURTESY
        };
        self.redial_after(rank, pause);
    }

    fn list_redial(&mut self, rank: Rank) {
        let dial = self.dial_state(rank);
        if !dial.listed {
            dial.listed = true;
            self.io.redial.push(rank);
        }
    }

    pub(crate) fn dial_state(&mut self, rank: Rank) -> &mut Dial {
        self.io.dials[rank.index()].get_or_insert_with(Box::default)
    }

    /// Dials whoever is due; gives up connections whose time is over. Returns when to look again.
    pub(crate) fn run_timers(&mut self) -> Result<Option<Instant>> {
        if self.io.redial.is_empty() && !self.io.slots.any_pending() {
            return Ok(None);
        }
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        let mut first = Ok(());
        let mut sooner = |at: Instant| next = Some(next.map_or(at, |other| other.min(at)));
        for rank in std::mem::take(&mut self.io.redial) {
            let dial = self.dial_state(rank);
            dial.listed = false;
            let due = dial.not_before;
            match due {
                Some(due) if due > now => {
                    sooner(due);
                    self.list_redial(rank);
                }
                _ if self.table.state(rank) == LinkState::Null => {
                    first = first.and(self.dial(rank));
                    if let Some(due) = self.dial_state(rank).not_before {
                        sooner(due);
                    }
                }
                _ => {}
            }
        }
        let mut late = Vec::new();
        for (token, pending) in self.io.slots.pending() {
            if pending.deadline <= now {
                late.push(token);
            } else {
                sooner(pending.deadline);
            }
        }
        for token in late {
            let Some(pending) = self.io.slots.pending_at(token) else {
                continue;
            };
            // A peer that took the connection and is silent computes: no failure.
            let counts = !pending.connected;
            let why = format!("no sign of {} in time", pending.waiting_for());
            first = first.and(self.attempt_ended(token, &why, counts));
        }
        first.map(|()| next)
    }

    /// Begins an attempt, at the first address that the system takes.
    fn dial(&mut self, rank: Rank) -> Result<()> {
        if self.table.book().card(rank).is_none() {
            return self.look_up(rank);
        }
        self.learn_addresses(rank);
        let count = self.dial_state(rank).addresses.len();
        if count == 0 {
            return self.none_took(rank, "its business card has no address that leads there");
        }
        let mut last = String::new();
        for _ in 0..count {
            let Some(address) = self.dial_state(rank).pick() else {
                break;
            };
            self.meter.stats.dials += 1;
            let error = match transport::connect(&address) {
                Ok(socket) => return self.begin(rank, socket, address),
                Err(error) => error,
            };
            let text = text_of(&error);
            last = format!("{}: {text}", place(&address));
            if is_local(&address) {
                // A full queue and a lack of descriptors pass; a door that is not there, or another
                // user's, stays so.
                let kind = error.kind();
                let for_good = matches!(
                    kind,
                    ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied
                );
                let dial = self.dial_state(rank);
                let passes = !for_good && dial.failing < QUEUE_PATIENCE;
                if passes || !dial.door_failed(&text, for_good) {
                    break;
                }
            }
        }
        self.none_took(rank, &last)
    }

    /// No address was even begun with: all of them have been tried, so there is a pause now.
    fn none_took(&mut self, rank: Rank, why: &str) -> Result<()> {
        let dial = self.dial_state(rank);
        dial.tries = dial.tries.saturating_add(dial.others());
        self.dial_failed(rank, why)
    }

    /// Asks the manager for the card of a rank; once it is there the rank is dialed.
    fn look_up(&mut self, rank: Rank) -> Result<()> {
        let least = self.table.book().incarnation(rank).unwrap_or_default();
        let Some(agent) = &mut self.io.agent else {
            return Ok(());
        };
        agent.tell(&ToManager::LookUp { rank, least })?;
        self.meter.stats.lookups += 1;
        let dial = self.dial_state(rank);
        dial.asked = dial.asked.saturating_add(1);
        let why = format!(
            "its business card has not come, for which the local manager was asked {} times",
            dial.asked
        );
        if self.goes_on(rank, &why)? {
            self.redial_after(rank, LOOK_UP_PATIENCE);
        }
        Ok(())
    }

    fn begin(&mut self, rank: Rank, socket: Socket, address: Address) -> Result<()> {
        let Ok((attempt, incarnation)) = self.table.dial(rank) else {
            return Ok(());
        };
        let mut nonce = [0; 32];
        agent::random(&mut nonce)?;
        let mut out = Vec::new();
        let dialer = Dialer::new(self.identity, rank, incarnation, attempt, nonce, &mut out);
        let patience = CONNECT_PATIENCE.min(self.options.connect_timeout);
        let until = Instant::now() + patience;
        let pending = Pending::dialed(socket, address, dialer, out, until);
        let token = self.io.slots.reserve();
        self.io.poller.add(pending.descriptor(), token, true)?;
        self.io.slots.put(token, Slot::Pending(Box::new(pending)));
        let dial = self.dial_state(rank);
        dial.pending = Some(token);
        dial.tries = dial.tries.saturating_add(1);
        // Over loopback the connection stands at once.
        self.handshake_event(token).map(|_| ())
    }

    fn learn_addresses(&mut self, rank: Rank) {
        if !self.dial_state(rank).addresses.is_empty() {
            return;
        }
        let addresses = self
            .table
            .book()
            .card(rank)
            .map(|card| self.card.order(card));
        let mut addresses = addresses.unwrap_or_default();
        match io::transport(&self.options, &self.settings) {
            Transport::Shm if addresses.iter().any(is_local) => addresses.retain(is_local),
            // Who has no local listener can have no memory either, or wants none.
            _ if !self.io.listeners.has_local() => addresses.retain(|address| !is_local(address)),
            _ => {}
        }
        self.dial_state(rank).addresses = addresses;
    }

    /// What has become of the way to a rank that has no link, where something is known of it: for
    /// people.
    pub(crate) fn link_in_words(&self, rank: Rank) -> Option<String> {
        let dial = self.io.dials.get(rank.index())?.as_deref()?;
        let pending = dial
            .pending
            .and_then(|token| self.io.slots.pending_now(token));
        let failed = (!dial.last_failure.is_empty()).then(|| {
            format!(
                "there is no link to it, and the last attempt failed: {}",
                dial.last_failure
            )
        });
        let Some(pending) = pending else {
            return failed;
        };
        let at = pending.address.as_ref().map(place).unwrap_or_default();
        let since = pending.begun.elapsed().as_secs();
        Some(if pending.connected {
            format!(
                "it has not answered the connection for its link ({at}) for {since} s; it does when it next makes an MPI call"
            )
        } else {
            failed.unwrap_or_else(|| {
                format!("the connection for its link ({at}) has not come to stand for {since} s")
            })
        })
    }

    /// How long a dialer waits for the answer of a peer that took its connection.
    pub(crate) fn answer_patience(&mut self, rank: Rank) -> Duration {
        let dial = self.dial_state(rank);
        // Who has taken a local connection and is silent computes, or the kernel would tell.
        if dial.addresses.len() < 2 || dial.addresses.first().is_some_and(is_local) {
            return LONG_PATIENCE;
        }
        ANSWER_PATIENCE * 2u32.pow((dial.tries / 4).min(6))
    }

    /// A connection in its handshake came to nothing.
    pub(crate) fn attempt_failed(&mut self, token: Token, why: &str) -> Result<()> {
        self.attempt_ended(token, why, true)
    }

    fn attempt_ended(&mut self, token: Token, why: &str, counts: bool) -> Result<()> {
        let Slot::Pending(mut pending) = self.io.slots.take(token) else {
            return Ok(());
        };
        let Some((rank, attempt)) = pending.dials() else {
            self.meter.stats.strangers += u64::from(!pending.closing);
            return Ok(());
        };
        let address = pending.address.as_ref().map(place).unwrap_or_default();
        let door = pending.address.as_ref().is_some_and(is_local);
        let failing = pending.failing.take();
        drop(pending);
        self.attempt_over(rank, attempt);
        if !counts {
            self.dial_state(rank).failing = Duration::ZERO;
        }
        if let (true, Some(failing)) = (door, failing) {
            let for_good = failing == Failing::Memory;
            self.dial_state(rank).door_failed(why, for_good);
        }
        self.dial_failed(rank, &format!("{address}: {why}"))
    }

    /// The table forgets the attempt; its connection is gone.
    pub(crate) fn attempt_over(&mut self, rank: Rank, attempt: Attempt) {
        self.table.failed(rank, attempt);
        self.dial_state(rank).pending = None;
    }

    /// Schedules the next attempt, or gives up.
    fn dial_failed(&mut self, rank: Rank, why: &str) -> Result<()> {
        if !self.goes_on(rank, why)? {
            return Ok(());
        }
        let jitter = self.jitter();
        let dial = self.dial_state(rank);
        let rounds = dial.tries / dial.others();
        // The other addresses of a card are tried without a pause.
        let pause = if rounds == 0 {
            Duration::ZERO
        } else {
            (SHORTEST_PAUSE * 2u32.pow(rounds.min(10)))
                .min(LONGEST_PAUSE)
                .mul_f64(jitter)
        };
        self.redial_after(rank, pause);
        Ok(())
    }

    /// Whether a rank that was not reached is tried again: it is an error where that lasts, and
    /// nothing where the rank is not needed any more.
    fn goes_on(&mut self, rank: Rank, why: &str) -> Result<bool> {
        let limit = self.options.connect_timeout;
        let needed = self.engine.tx_waiting(rank);
        let dial = self.dial_state(rank);
        dial.last_failure = why.to_owned();
        let now = Instant::now();
        let step = dial
            .last_failed
            .replace(now)
            .map_or(Duration::ZERO, |last| now - last);
        dial.failing += step.min(LONGEST_STEP);
        if dial.failing >= limit {
            if !needed {
                dial.reset();
                return Ok(false);
            }
            return Err(self.unreachable(rank));
        }
        Ok(true)
    }

    fn unreachable(&mut self, rank: Rank) -> Error {
        let host = self.host_of(rank).to_owned();
        let seconds = self.options.connect_timeout.as_secs_f64();
        let dial = self.dial_state(rank);
        let address = dial.addresses.iter().map(place);
        let address = address.collect::<Vec<_>>().join(", ");
        let none = address.is_empty();
        Error::Unreachable {
            rank,
            host,
            address: if none { "no address".into() } else { address },
            operation: "send",
            seconds,
            last: dial.last_failure.clone(),
        }
    }

    /// A link stands, over shared memory or not: nothing is left of the way there.
    pub(crate) fn dial_succeeded(&mut self, rank: Rank, shared: bool) -> Result<()> {
        let dial = self.dial_state(rank);
        let given_up = dial.given_up.take();
        dial.reset();
        // Only now: where nobody answered the peer may have been dead.
        match given_up {
            Some(why) if !shared => self.tell_fallback(rank, &why),
            _ => Ok(()),
        }
    }

    /// Closes a link that another has taken the place of.
    pub(crate) fn forget(&mut self, token: Token) {
        if let Slot::Live(live) = self.io.slots.take(token) {
            self.meter.stats.wakes += live.endpoint.doorbells_rung();
        }
        self.unlist(token);
    }

    /// The card of a rank is another: the next attempt goes to where it is now, and at once.
    pub(crate) fn forget_addresses(&mut self, rank: Rank) {
        let dial = self.dial_state(rank);
        *dial = Dial {
            pending: dial.pending,
            listed: dial.listed,
            ..Dial::default()
        };
        // What was wanted of the old place is wanted of the new one.
        if self.engine.tx_waiting(rank) {
            self.list_redial(rank);
        }
    }

    /// Gives up this rank's own attempt in favour of the peer's.
    pub(crate) fn abandon_dial(&mut self, rank: Rank) {
        if let Some(token) = self.dial_state(rank).pending.take() {
            self.io.slots.take(token);
        }
    }

    /// A factor between 0.5 and 1.5, so that pauses of many ranks spread.
    fn jitter(&mut self) -> f64 {
        self.noise = self
            .noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        f64::from((self.noise >> 40) as u32) / f64::from(1u32 << 24) + 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::card::DoorName;

    #[test]
    fn attempts_over_shared_memory_count_from_the_last_link_on() {
        let tcp = Address::Tcp(([127, 0, 0, 1], 7).into());
        let mut dial = Dial {
            addresses: vec![Address::Local(DoorName([7; 16])), tcp],
            ..Dial::default()
        };
        for _ in 0..3 {
            for _ in 1..MOST_BROKEN {
                assert!(!dial.door_failed("broken", false));
            }
            dial.reset();
        }
        for number in 1..=MOST_BROKEN {
            assert_eq!(dial.door_failed("broken", false), number == MOST_BROKEN);
        }
        assert_eq!(dial.pick(), Some(tcp));
    }
}
