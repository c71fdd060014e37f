//! Dials of ranks without a link: the addresses, the failed attempts, and when the next attempt is
//! due.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use rejoin_channel_table::Address;
use rejoin_channel_table::ids::Rank;

use super::flapping::FlapStreak;
use super::pending::PendingConnection;
use crate::events::PollToken;

/// First pause between attempts.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// Longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long an accepted connection may stay without an answer before the next address is tried.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// How long an accepted connection may stay without an answer where there is no other address: the
/// kernel reports a dead connection.
const LONG_PATIENCE: Duration = Duration::from_secs(3600);
/// Longest time between two failures that counts: a rank that computes does not dial.
const LONGEST_STEP: Duration = Duration::from_secs(6);
/// How long a listener may accept no connection, or this rank may lack a descriptor for one, before
/// the attempt counts as failed.
const QUEUE_PATIENCE: Duration = Duration::from_secs(1);
/// Failed attempts over shared memory after which TCP replaces it.
const MAX_LOCAL_FAILURES: u32 = 4;

/// The state of dialing one rank.
#[derive(Debug, Default)]
pub(crate) struct Dial {
    /// The attempt under way.
    pending: Option<PollToken>,
    addresses: Vec<Address>,
    /// Index of the address that is tried next.
    next: usize,
    /// Attempts since the last link.
    tries: u32,
    /// Requests for its business card since the last link.
    lookups: u32,
    /// No attempt before this moment.
    not_before: Option<Instant>,
    /// When the last of the successive failures was.
    last_failed: Option<Instant>,
    /// How long attempts have failed, without the times of computing between two attempts.
    failing: Duration,
    last_failure: String,
    /// Failed attempts over shared memory.
    local_failures: u32,
    /// Why TCP replaces shared memory.
    fallback: Option<String>,
    /// In the list of ranks to be dialed later.
    listed: bool,
    /// Successive links without progress.
    flaps: FlapStreak,
}

impl Dial {
    /// Forgets all but the addresses: the next loss begins a new dial.
    fn reset(&mut self) {
        *self = Self {
            addresses: std::mem::take(&mut self.addresses),
            listed: self.listed,
            flaps: std::mem::take(&mut self.flaps),
            ..Self::default()
        };
    }

    /// The peer has moved: its addresses and the failures are void.
    pub(super) fn forget_addresses(&mut self) {
        *self = Self {
            pending: self.pending,
            listed: self.listed,
            ..Self::default()
        };
    }

    /// The attempt under way.
    pub(crate) fn pending(&self) -> Option<PollToken> {
        self.pending
    }

    /// An attempt begins over this connection.
    pub(crate) fn begin(&mut self, token: PollToken) {
        self.pending = Some(token);
        self.tries = self.tries.saturating_add(1);
    }

    /// No attempt is under way any more; returns the one that was.
    pub(super) fn end(&mut self) -> Option<PollToken> {
        self.pending.take()
    }

    /// No attempt is due before this moment.
    pub(crate) fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    /// The addresses of the rank, in the order of the attempts.
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The addresses of the rank have become known.
    pub(crate) fn learn(&mut self, addresses: Vec<Address>) {
        self.addresses = addresses;
    }

    /// The addresses, for messages to the user.
    pub(crate) fn address_list(&self) -> String {
        let addresses: Vec<_> = self.addresses.iter().map(address_text).collect();
        if addresses.is_empty() {
            return "no address".to_owned();
        }
        addresses.join(", ")
    }

    /// The address of the next attempt: the local one, as long as there is one.
    pub(crate) fn next_address(&mut self) -> Option<Address> {
        if let Some(local) = self.addresses.first().filter(|at| is_local(at)) {
            return Some(*local);
        }
        let count = self.addresses.len();
        let address = *self.addresses.get(self.next.checked_rem(count)?)?;
        self.next = (self.next + 1) % count;
        Some(address)
    }

    /// Number of addresses that are tried in turn.
    fn rotation(&self) -> u32 {
        let local = self.addresses.first().is_some_and(is_local);
        let count = if local {
            1
        } else {
            self.addresses.len().max(1)
        };
        u32::try_from(count).unwrap_or(1)
    }

    /// The system has refused a connection to every address.
    pub(crate) fn all_addresses_failed(&mut self) {
        self.tries = self.tries.saturating_add(self.rotation());
    }

    /// The system refuses a connection to the local listener; true when TCP is tried from now on.
    pub(crate) fn local_refused(&mut self, kind: ErrorKind, why: &str) -> bool {
        // A full queue and a lack of descriptors are temporary. A missing listener, or the listener
        // of another user, is not.
        let for_good = matches!(
            kind,
            ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied
        );
        (for_good || self.failing >= QUEUE_PATIENCE) && self.local_attempt_failed(why, for_good)
    }

    /// An attempt over shared memory failed; true when TCP is tried from now on.
    pub(crate) fn local_attempt_failed(&mut self, why: &str, for_good: bool) -> bool {
        self.local_failures += 1;
        if !(for_good || self.local_failures >= MAX_LOCAL_FAILURES)
            || self.addresses.iter().all(is_local)
        {
            return false;
        }
        self.addresses.retain(|address| !is_local(address));
        (self.next, self.tries) = (0, 0);
        self.fallback = Some(why.to_owned());
        true
    }

    /// Counts a request for the rank's business card; returns their number since the last link.
    pub(crate) fn count_lookup(&mut self) -> u32 {
        self.lookups = self.lookups.saturating_add(1);
        self.lookups
    }

    /// An attempt has failed; true when attempts have failed for `limit`.
    pub(crate) fn fail(&mut self, why: &str, limit: Duration) -> bool {
        why.clone_into(&mut self.last_failure);
        let now = Instant::now();
        let step = self
            .last_failed
            .replace(now)
            .map_or(Duration::ZERO, |last| now - last);
        self.failing += step.min(LONGEST_STEP);
        self.failing >= limit
    }

    /// The reason of the last failure.
    pub(crate) fn last_failure(&self) -> &str {
        &self.last_failure
    }

    /// The peer has accepted a connection and computes, which is no failure.
    pub(crate) fn clear_failures(&mut self) {
        self.failing = Duration::ZERO;
    }

    /// No message waits for the rank.
    pub(crate) fn give_up(&mut self) {
        self.reset();
    }

    /// How long to pause before the next attempt; `jitter` spreads the pauses of many ranks.
    pub(super) fn pause(&self, jitter: f64) -> Duration {
        let rounds = self.tries / self.rotation();
        // The other addresses of a card are tried without a pause.
        if rounds == 0 {
            return Duration::ZERO;
        }
        (SHORTEST_PAUSE * 2u32.pow(rounds.min(10)))
            .min(LONGEST_PAUSE)
            .mul_f64(jitter)
    }

    /// How long a dialer waits for the answer of a peer that took its connection.
    pub(crate) fn answer_patience(&self) -> Duration {
        // A silent peer that has taken a local connection is computing; the kernel would report its
        // end.
        if self.addresses.len() < 2 || self.addresses.first().is_some_and(is_local) {
            return LONG_PATIENCE;
        }
        ANSWER_PATIENCE * 2u32.pow((self.tries / 4).min(6))
    }

    /// A link is established. Returns why shared memory was no longer tried, if that was so.
    pub(crate) fn succeed(&mut self) -> Option<String> {
        let fallback = self.fallback.take();
        self.reset();
        fallback
    }

    /// The successive links without progress.
    pub(crate) fn flaps(&mut self) -> &mut FlapStreak {
        &mut self.flaps
    }

    /// The state of the dial, for messages to the user; `pending` is the attempt under way. `None`
    /// if nothing is known.
    pub(super) fn in_words(&self, pending: Option<&PendingConnection>) -> Option<String> {
        let failed = (!self.last_failure.is_empty()).then(|| {
            format!(
                "there is no link to it, and the last attempt failed: {}",
                self.last_failure
            )
        });
        let Some(pending) = pending else {
            return failed;
        };
        let at = pending
            .address
            .as_ref()
            .map(address_text)
            .unwrap_or_default();
        let since = pending.begun.elapsed().as_secs();
        Some(if pending.connected {
            format!(
                "it has not answered the connection for its link ({at}) for {since} s; it does when it next makes an MPI call"
            )
        } else {
            failed.unwrap_or_else(|| {
                format!("the connection for its link ({at}) is not established after {since} s")
            })
        })
    }
}

/// Whether an address is local: shared memory with a rank of this host.
pub(crate) fn is_local(address: &Address) -> bool {
    matches!(address, Address::Local(_))
}

/// An address in messages to the user.
pub(crate) fn address_text(address: &Address) -> String {
    match address {
        Address::Tcp(at) | Address::Advertised(at) => at.to_string(),
        Address::Local(_) => "shared memory".to_owned(),
    }
}

/// The dials of all ranks, and the list of those to be dialed later.
pub(super) struct Dials {
    to: Vec<Option<Box<Dial>>>,
    later: Vec<Rank>,
    /// State of a generator of random numbers.
    noise: u64,
}

impl Dials {
    /// No dials of `size` ranks; `noise` is a random number.
    pub(super) fn new(size: u32, noise: u64) -> Self {
        Self {
            to: (0..size).map(|_| None).collect(),
            later: Vec::new(),
            noise,
        }
    }

    /// The dial of a rank, made at its first use.
    pub(super) fn to(&mut self, rank: Rank) -> &mut Dial {
        self.to[rank.index()].get_or_insert_with(Box::default)
    }

    /// The dial of a rank, if there is one.
    pub(super) fn known(&self, rank: Rank) -> Option<&Dial> {
        self.to.get(rank.index())?.as_deref()
    }

    /// Has a rank dialed when it is due.
    pub(super) fn list(&mut self, rank: Rank) {
        let dial = self.to(rank);
        if !dial.listed {
            dial.listed = true;
            self.later.push(rank);
        }
    }

    /// Has a rank dialed in a while, and no earlier.
    pub(super) fn list_after(&mut self, rank: Rank, pause: Duration) {
        let due = Instant::now() + pause;
        let dial = self.to(rank);
        dial.not_before = Some(dial.not_before.map_or(due, |other| other.max(due)));
        self.list(rank);
    }

    /// Has a rank dialed after a pause that grows with its failures.
    pub(super) fn list_after_failure(&mut self, rank: Rank) {
        let jitter = self.jitter();
        let pause = self.to(rank).pause(jitter);
        self.list_after(rank, pause);
    }

    /// Takes all ranks off the list.
    pub(super) fn take_listed(&mut self) -> Vec<Rank> {
        let ranks = std::mem::take(&mut self.later);
        for rank in &ranks {
            self.to(*rank).listed = false;
        }
        ranks
    }

    /// Whether any rank is to be dialed later.
    pub(super) fn any_listed(&self) -> bool {
        !self.later.is_empty()
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
    use rejoin_channel_table::card::LocalSocketName;

    fn tcp(port: u16) -> Address {
        Address::Tcp(([127, 0, 0, 1], port).into())
    }

    #[test]
    fn attempts_over_shared_memory_count_from_the_last_link_on() {
        let mut dial = Dial {
            addresses: vec![Address::Local(LocalSocketName([7; 16])), tcp(7)],
            ..Dial::default()
        };
        for _ in 0..3 {
            for _ in 1..MAX_LOCAL_FAILURES {
                assert!(!dial.local_attempt_failed("broken", false));
            }
            assert_eq!(dial.succeed(), None);
        }
        for number in 1..=MAX_LOCAL_FAILURES {
            assert_eq!(
                dial.local_attempt_failed("broken", false),
                number == MAX_LOCAL_FAILURES
            );
        }
        assert_eq!(dial.next_address(), Some(tcp(7)));
        assert_eq!(dial.succeed().as_deref(), Some("broken"));
    }

    #[test]
    fn addresses_take_turns_without_a_pause_before_a_round_is_over() {
        let mut dial = Dial::default();
        dial.learn(vec![tcp(7), tcp(8)]);
        let picked = [0; 3].map(|_| dial.next_address().expect("an address"));
        assert_eq!(picked, [tcp(7), tcp(8), tcp(7)]);
        let token = PollToken::listener(0);
        dial.begin(token);
        assert_eq!(dial.pause(1.0), Duration::ZERO);
        let mut last = Duration::ZERO;
        for _ in 0..30 {
            dial.begin(token);
            dial.begin(token);
            let pause = dial.pause(1.0);
            assert!(pause >= last && !pause.is_zero());
            last = pause;
        }
        assert_eq!(last, LONGEST_PAUSE);
    }

    #[test]
    fn a_rank_is_listed_once_for_the_latest_moment() {
        let mut dials = Dials::new(2, 1);
        dials.list_after(Rank(1), Duration::from_secs(50));
        let due = dials.to(Rank(1)).not_before();
        dials.list_after(Rank(1), Duration::ZERO);
        assert_eq!(dials.to(Rank(1)).not_before(), due);
        assert_eq!(dials.take_listed(), [Rank(1)]);
        assert!(!dials.any_listed());
        dials.list(Rank(1));
        assert_eq!(dials.take_listed(), [Rank(1)]);
    }
}
