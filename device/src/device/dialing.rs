//! Establishes and re-establishes links: which peer to dial, when, at which address, and when to
//! give up.
//!
//! The device dials when there is something to send; in a large job it first asks for the peer's
//! card. After a loss, the larger rank dials at once and the smaller rank a moment later, so that
//! their dials seldom meet. When the system refuses a connection, the device tries the next
//! address, then repeats with growing pauses. After `REJOIN_CONNECT_TIMEOUT` of failures this is an
//! error. A peer that took the connection and does not answer is computing: the device waits for
//! it.

use std::time::{Duration, Instant};

use rejoin_channel_table::ids::Rank;
use rejoin_channel_table::{Address, Dialer};
use rejoin_engine::Engine;
use rejoin_wire::{ToManager, Transport};
use socket2::Socket;

use crate::error::{Error, Result, text_of};
use crate::events::PollToken;
use crate::job_member::JobMember;
use crate::links::{
    Links, PendingConnection, RankListeners, address_text, is_local, wanted_transport,
};
use crate::manager::ManagerChannel;
use crate::meter::Meter;
use crate::os;
use crate::transport::{self, TransportId, WireupFailure};

/// How long the system may take to make a connection before the next address is tried.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How long the manager has for a card before it is asked again: it asks others itself, and again
/// sooner.
const LOOK_UP_PATIENCE: Duration = Duration::from_secs(1);

/// Dials peers, and judges what becomes of the attempts. Makes no link: the handshake does that.
pub(super) struct DialHandler<'a> {
    pub(super) member: &'a JobMember,
    /// Which peers messages wait for.
    pub(super) engine: &'a Engine,
    pub(super) meter: &'a mut Meter,
    pub(super) links: &'a mut Links,
    /// Whether this rank listens at a local address.
    pub(super) listeners: &'a RankListeners,
    pub(super) manager: &'a mut ManagerChannel,
}

impl DialHandler<'_> {
    /// Has a link to `rank` established: dials now, or later when an attempt has just failed.
    /// Returns the connection whose handshake begins.
    pub(super) fn want_link(&mut self, rank: Rank) -> Result<Option<PollToken>> {
        if !self.links.is_null(rank) || rank == self.member.rank() {
            return Ok(None);
        }
        let due = self.links.dial(rank).not_before();
        if due.is_some_and(|due| due > Instant::now()) {
            self.links.list_redial(rank);
            return Ok(None);
        }
        self.dial(rank)
    }

    /// Begins an attempt at the first address to which the system allows a connection. Returns that
    /// connection.
    pub(super) fn dial(&mut self, rank: Rank) -> Result<Option<PollToken>> {
        if self.links.book().card(rank).is_none() {
            return self.look_up(rank).map(|()| None);
        }
        self.learn_addresses(rank);
        let count = self.links.dial(rank).addresses().len();
        if count == 0 {
            let why = "its business card has no address that leads there";
            return self.all_addresses_failed(rank, why).map(|()| None);
        }
        let mut last = String::new();
        for _ in 0..count {
            let Some(address) = self.links.dial(rank).next_address() else {
                break;
            };
            self.meter.stats.dials += 1;
            let error = match transport::connect(&address) {
                Ok(socket) => return self.begin(rank, socket, address),
                Err(error) => error,
            };
            let text = text_of(&error);
            last = format!("{}: {text}", address_text(&address));
            let dial = self.links.dial(rank);
            if is_local(&address) && !dial.local_refused(error.kind(), &text) {
                break;
            }
        }
        self.all_addresses_failed(rank, &last).map(|()| None)
    }

    /// The system has refused a connection to every address: the next attempt follows a pause.
    fn all_addresses_failed(&mut self, rank: Rank, why: &str) -> Result<()> {
        self.links.dial(rank).all_addresses_failed();
        self.dial_failed(rank, why)
    }

    /// Asks the manager for the card of a rank; once it is there the rank is dialed.
    fn look_up(&mut self, rank: Rank) -> Result<()> {
        let least = self.links.book().incarnation(rank).unwrap_or_default();
        if !self.manager.is_there() {
            return Ok(());
        }
        self.manager.send(&ToManager::LookUp { rank, least })?;
        self.meter.stats.lookups += 1;
        let asked = self.links.dial(rank).count_lookup();
        let why = format!(
            "its business card has not come, for which the local manager was asked {asked} times"
        );
        if self.may_redial(rank, &why)? {
            self.links.redial_after(rank, LOOK_UP_PATIENCE);
        }
        Ok(())
    }

    fn begin(&mut self, rank: Rank, socket: Socket, address: Address) -> Result<Option<PollToken>> {
        let Ok((attempt, incarnation)) = self.links.begin_attempt(rank) else {
            return Ok(None);
        };
        let mut nonce = [0; 32];
        os::random(&mut nonce)?;
        let mut out = Vec::new();
        let me = self.member.identity();
        let dialer = Dialer::new(me, rank, incarnation, attempt, nonce, &mut out);
        let patience = CONNECT_PATIENCE.min(self.member.options().connect_timeout);
        let until = Instant::now() + patience;
        let pending = PendingConnection::dialed(socket, address, dialer, out, until);
        let token = self.links.add_pending(pending)?;
        self.links.dial(rank).begin(token);
        Ok(Some(token))
    }

    fn learn_addresses(&mut self, rank: Rank) {
        if !self.links.dial(rank).addresses().is_empty() {
            return;
        }
        let card = self.links.book().card(rank);
        let addresses = card.map(|card| self.member.card().order(card));
        let mut addresses = addresses.unwrap_or_default();
        match wanted_transport(self.member.options(), self.member.settings()) {
            Transport::Shm if addresses.iter().any(is_local) => addresses.retain(is_local),
            // A rank without a local listener cannot have shared memory either, or does not want
            // it.
            _ if !self.listeners.has_local() => addresses.retain(|address| !is_local(address)),
            _ => {}
        }
        self.links.dial(rank).learn(addresses);
    }

    /// A connection in its handshake is over. `counts`: that is a failure to reach the peer.
    pub(super) fn attempt_ended(
        &mut self,
        token: PollToken,
        why: &str,
        counts: bool,
    ) -> Result<()> {
        let Some(pending) = self.links.take_pending(token) else {
            return Ok(());
        };
        let Some((rank, attempt)) = pending.dials() else {
            self.meter.stats.strangers += u64::from(!pending.is_closing());
            return Ok(());
        };
        let address = pending.address().map(address_text).unwrap_or_default();
        let local = pending.address().is_some_and(is_local);
        let failing = pending.failing();
        drop(pending);
        self.links.attempt_over(rank, attempt);
        if !counts {
            self.links.dial(rank).clear_failures();
        }
        if let (true, Some(failing)) = (local, failing) {
            let for_good = failing == WireupFailure::Memory;
            self.links.dial(rank).local_attempt_failed(why, for_good);
        }
        self.dial_failed(rank, &format!("{address}: {why}"))
    }

    /// Schedules the next attempt, or gives up.
    fn dial_failed(&mut self, rank: Rank, why: &str) -> Result<()> {
        if !self.may_redial(rank, why)? {
            return Ok(());
        }
        self.links.redial_after_failure(rank);
        Ok(())
    }

    /// Whether to dial an unreachable rank again. A lasting failure is an error if a message waits
    /// for the rank.
    fn may_redial(&mut self, rank: Rank, why: &str) -> Result<bool> {
        let limit = self.member.options().connect_timeout;
        let needed = self.engine.tx_waiting(rank);
        let comes_back = self.engine.is_across(rank);
        let dial = self.links.dial(rank);
        if dial.fail(why, limit) {
            if needed && comes_back {
                // The managers end the job if its group does not come back.
                dial.clear_failures();
                let host = self.links.host_of(rank).to_owned();
                let text = format!("still waits for rank {rank} on host {host}: {why}");
                self.manager.note(true, text)?;
                return Ok(true);
            }
            if !needed {
                dial.give_up();
                return Ok(false);
            }
            return Err(self.unreachable(rank));
        }
        Ok(true)
    }

    fn unreachable(&mut self, rank: Rank) -> Error {
        let host = self.links.host_of(rank).to_owned();
        let seconds = self.member.options().connect_timeout.as_secs_f64();
        let dial = self.links.dial(rank);
        Error::Unreachable {
            rank,
            host,
            address: dial.address_list(),
            operation: "send",
            seconds,
            last: dial.last_failure().to_owned(),
        }
    }

    /// A link is established over this transport: drops the state of its dial.
    pub(super) fn dial_succeeded(&mut self, rank: Rank, transport: TransportId) -> Result<()> {
        let fallback = self.links.dial(rank).succeed();
        // Only now, because a peer that did not answer may have been dead.
        match fallback {
            Some(why) if transport != TransportId::SharedMemory => {
                self.manager.report_fallback(rank, &why)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Poller;
    use crate::testing::identity;
    use crate::{Device, Options};
    use rejoin_channel_table::{AddressBook, BusinessCard, Incarnation};
    use rejoin_engine::Config;

    /// Rank 0 of two, where rank 1 has this card.
    fn device_beside(card: BusinessCard) -> Device {
        let mut device = Device::alone(Options::default()).expect("a device");
        let own = device.card().clone();
        let book = AddressBook::new(vec![(Incarnation(0), own), (Incarnation(0), card)]);
        let poller = Poller::new(&device.waker).expect("an epoll instance");
        device.links = Links::new(identity(0), book, poller, 1);
        device.engine = Engine::new(Config::default(), Rank(0), 2);
        device
    }

    #[test]
    fn a_dial_begins_a_connection_and_leaves_the_handshake_to_others() {
        let listening = Device::alone(Options::default()).expect("a peer");
        let mut device = device_beside(listening.card().clone());
        let mut dials = dial_handler!(device, device.listeners);
        let begun = dials.want_link(Rank(1)).expect("an address");
        let token = begun.expect("a connection");
        assert_eq!(dials.want_link(Rank(1)).expect("it is dialed"), None);
        let pending = device
            .links
            .pending_at(token)
            .expect("it is in its handshake");
        assert_eq!(pending.peer(), Some(Rank(1)));
        assert!(device.links.token_of(Rank(1)).is_none());
    }

    #[test]
    fn a_peer_without_an_address_is_dialed_again_later() {
        let mut device = device_beside(BusinessCard::default());
        let mut dials = dial_handler!(device, device.listeners);
        assert_eq!(dials.want_link(Rank(1)).expect("a first failure"), None);
        assert!(device.links.has_timers() && device.links.is_null(Rank(1)));
        assert_eq!(device.links.take_redials(), [Rank(1)]);
    }
}
