//! Leases: how long an unreachable host may continue, and when other hosts may take its place.
//!
//! A local manager lets its ranks run for one term after it *sent* the last granted request for
//! renewal. Central counts the term from the moment of the *grant*, and adds the possible
//! difference of the clocks. So the ranks of a host that is cut off are suspended before other
//! ranks replace them. This holds whichever side is slow or cut off, if no clock is wrong by more
//! than [`DRIFT`]. After a lapse the ranks are only stopped. They continue when central grants a
//! renewal, which it does as long as there is no successor (Gray and Cheriton: Leases, SOSP 1989).
//!
//! A local manager can be stopped, or get no processor, while its ranks go on. So it does not
//! suspend them itself: the supervisor of its host does ([`Fence`]), which knows the deadline.

use crate::detector::{Detector, DetectorSettings};
use crate::manager_messages::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// Largest drift between two hosts' clocks: one part in so many. This is far more than that of any
/// working clock.
pub const DRIFT: u64 = 100;

/// Milliseconds that a host may need from its deadline until its ranks are suspended: its
/// supervisor gets a processor, and goes through the processes.
pub const STOPPING: u64 = 200;

/// Milliseconds that a local manager has at least from its call of the launcher to its first
/// renewal.
const FIRST_RENEWAL: u64 = 10_000;

/// Renewals that were sent and not answered, at most; the oldest are forgotten.
const MOST_OPEN: usize = 32;

/// The terms of leases for central and local managers, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Terms {
    /// How long a lease lasts; at least five times [`STOPPING`].
    pub term: u64,
    /// Without contact for so long, a host counts as lost.
    pub patience: u64,
    /// Without contact for so long, a local manager ends its processes.
    pub orphaned: u64,
    /// How silence is noticed.
    pub detection: DetectorSettings,
}

impl Terms {
    /// Leases of `term`, for a central manager that waits for `patience`.
    #[must_use]
    pub fn new(term: u64, patience: u64) -> Terms {
        Terms {
            term: term.max(5 * STOPPING),
            patience: patience.max(term),
            orphaned: patience.max(term).saturating_add(30_000),
            detection: DetectorSettings::default(),
        }
    }

    /// These terms with this detector. Without any, nothing is done for silence before the patience
    /// is over: leases last as long.
    #[must_use]
    pub fn with_detector(self, detection: DetectorSettings) -> Terms {
        let term = match detection.detector {
            Detector::None => self.patience.max(self.term),
            _ => self.term,
        };
        Terms {
            term,
            detection,
            ..self
        }
    }

    /// Milliseconds between renewals. Where they are not how silence is noticed, they are half as
    /// frequent: a lease then outlasts one lost renewal instead of three.
    #[must_use]
    pub fn every(&self) -> u64 {
        match self.detection.detector {
            Detector::Star => self.term / 5,
            _ => self.term * 2 / 5,
        }
    }

    /// A connection between managers that is silent for so long is replaced: each renewal is
    /// answered at once.
    #[must_use]
    pub fn silence(&self) -> Duration {
        Duration::from_millis(2 * self.every())
    }

    /// The time after the last message of a local manager when central certainly counts it as lost,
    /// by any clock.
    #[must_use]
    pub fn lost_after(&self) -> Duration {
        Duration::from_millis(self.patience.saturating_add(self.patience / DRIFT))
    }

    /// Milliseconds after a grant when no clock gives the holder any time.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.term + self.term / DRIFT + STOPPING
    }
}

/// A duty of the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseDuty {
    /// Send a renewal of this number.
    Renew(u64),
    /// Suspend all ranks.
    Stop,
    /// Central does not come back: end everything.
    Orphaned,
}

/// A lease as the local manager holds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    terms: Terms,
    /// Numbers of renewals, and when they were sent.
    open: VecDeque<(u64, Time)>,
    next: u64,
    renew_at: Time,
    /// The lease; `None` before the first, and after a lapse.
    until: Option<Time>,
    /// Time of the last message from central.
    contact: Time,
    over: bool,
}

impl Holder {
    /// A holder that has no lease yet.
    #[must_use]
    pub fn new(terms: Terms, now: Time) -> Holder {
        Holder {
            terms,
            open: VecDeque::new(),
            next: 0,
            renew_at: now,
            until: None,
            contact: now,
            over: false,
        }
    }

    /// Ranks may run.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.until.is_some()
    }

    /// When [`Holder::due`] has something.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let orphaned = self.contact.plus_millis(self.terms.orphaned);
        let first = self.renew_at.min(orphaned);
        (!self.over).then(|| self.until.map_or(first, |until| until.min(first)))
    }

    /// The next duty; call this until it returns none.
    pub fn due(&mut self, now: Time) -> Option<LeaseDuty> {
        if self.over {
            return None;
        }
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            return Some(LeaseDuty::Stop);
        }
        if self.contact.plus_millis(self.terms.orphaned) <= now {
            self.over = true;
            return Some(LeaseDuty::Orphaned);
        }
        if self.renew_at > now {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.renew_at = now.plus_millis(self.terms.every());
        if self.open.len() == MOST_OPEN {
            self.open.pop_front();
        }
        self.open.push_back((number, now));
        Some(LeaseDuty::Renew(number))
    }

    /// Central has granted a renewal. Returns the longer lease, if it is one.
    pub fn granted(&mut self, now: Time, number: u64) -> Option<Extension> {
        self.contact = now;
        let at = self.open.iter().position(|(n, _)| *n == number)?;
        let (_, sent) = self.open.drain(..=at).next_back()?;
        let until = sent.plus_millis(self.terms.term);
        if until <= now || self.until.is_some_and(|old| old >= until) {
            return None;
        }
        Some(Extension {
            until,
            is_new: self.until.replace(until).is_none(),
        })
    }
}

/// What a granted renewal brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    /// The new deadline.
    pub until: Time,
    /// The lease is the first one, or the one before had lapsed.
    pub is_new: bool,
}

/// A lease as the host's supervisor enforces it, whatever has become of the local manager. It
/// alone suspends ranks for the lease and has them continue. So a manager that was stopped between
/// a decision and its execution can't continue ranks too late.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The deadline that the manager has given last, until it has come.
    until: Option<Time>,
    /// Ranks are suspended.
    suspended: bool,
}

impl Fence {
    /// When [`Fence::due`] has something.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.until
    }

    /// Ranks are suspended.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// The manager has a longer lease. Returns whether suspended ranks continue.
    pub fn extended(&mut self, now: Time, until: Time) -> bool {
        // The manager was stopped after it had received the grant.
        if self.suspended && until <= now {
            return false;
        }
        self.until = Some(until);
        std::mem::take(&mut self.suspended)
    }

    /// The manager has no lease any more.
    pub fn ended(&mut self) {
        self.until = None;
        self.suspended = true;
    }

    /// Returns whether the lease has run out by now, once: ranks are to be suspended. Whatever the
    /// manager had sent by then comes first.
    pub fn due(&mut self, now: Time) -> bool {
        let is_due = self.until.is_some_and(|until| until <= now);
        if is_due {
            self.ended();
        }
        is_due
    }
}

/// The lease of one host as central grants it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grantor {
    terms: Terms,
    /// No lease that was given lasts longer.
    until: Option<Time>,
    /// Time of the last message from the host.
    heard: Option<Time>,
    /// When its manager has called the launcher, if that is known.
    called: Option<Time>,
    silent: bool,
}

/// The state of a host's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStatus {
    /// Nothing has changed.
    Same,
    /// The host's lease has run out: its ranks are suspended, and others may take their place.
    Silent,
    /// The host has been silent for longer than the patience lasts.
    Lost,
}

impl Grantor {
    /// A grantor that has given nothing: until a host renews, it holds nothing.
    #[must_use]
    pub fn new(terms: Terms) -> Grantor {
        Grantor {
            terms,
            until: None,
            heard: None,
            called: None,
            silent: false,
        }
    }

    /// The host has had no process so far: nothing was given.
    pub fn begin_anew(&mut self) {
        *self = Grantor::new(self.terms);
    }

    /// Central was started again: earlier grants and messages are unknown.
    pub fn count_from(&mut self, now: Time) {
        self.until = Some(now.plus_millis(self.terms.fence()));
        self.heard = Some(now);
    }

    /// The host's manager has begun, and called the launcher. If it does not renew while the
    /// patience lasts, or for ten seconds if that is longer, the host is lost.
    pub fn called(&mut self, now: Time) {
        self.called = Some(now);
    }

    /// Central was suspended: nothing is known of a host that had called before. One that has not
    /// is still waited for.
    pub fn was_suspended(&mut self, now: Time) {
        if self.heard.is_some() {
            self.count_from(now);
        }
        self.called = self.called.map(|_| now);
    }

    /// A renewal has come and is granted. Returns whether the host was silent before.
    pub fn renewed(&mut self, now: Time) -> bool {
        self.heard = Some(now);
        self.until = Some(now.plus_millis(self.terms.fence()));
        std::mem::take(&mut self.silent)
    }

    /// Nothing that was given lasts any more.
    #[must_use]
    pub fn has_expired(&self, now: Time) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// When nothing that was given lasts any more; `None`: nothing was given.
    #[must_use]
    pub fn expires(&self) -> Option<Time> {
        self.until
    }

    /// The host is silent.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// When [`Grantor::tick`] has something.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let Some(heard) = self.heard else {
            let patience = self.terms.patience.max(FIRST_RENEWAL);
            return Some(self.called?.plus_millis(patience));
        };
        match self.silent {
            true => Some(heard.plus_millis(self.terms.patience)),
            // A host counts as lost only after its lease has run out, however short the patience.
            false => self.until,
        }
    }

    /// Returns what has changed by now.
    pub fn tick(&mut self, now: Time) -> LeaseStatus {
        let Some(heard) = self.heard else {
            // It holds no lease: nobody waits for the end of one.
            let due = self.deadline().is_some_and(|due| due <= now);
            return if due {
                LeaseStatus::Lost
            } else {
                LeaseStatus::Same
            };
        };
        if !self.silent && self.has_expired(now) {
            self.silent = true;
            return LeaseStatus::Silent;
        }
        let lost = self.silent && heard.plus_millis(self.terms.patience) <= now;
        if lost {
            LeaseStatus::Lost
        } else {
            LeaseStatus::Same
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms {
        term: 5000,
        patience: 30_000,
        orphaned: 60_000,
        detection: DetectorSettings {
            detector: Detector::Star,
            interval: 1000,
            timeout: 1000,
        },
    };

    fn at(millis: u64) -> Time {
        Time(0).plus_millis(millis)
    }

    #[test]
    fn the_term_counts_from_the_renewal_not_from_the_grant() {
        let mut holder = Holder::new(TERMS, at(0));
        assert_eq!(holder.due(at(0)), Some(LeaseDuty::Renew(0)));
        assert!(!holder.holds());
        let granted = |holder: &mut Holder, millis, number| {
            let extension = holder.granted(at(millis), number)?;
            Some((extension.until, extension.is_new))
        };
        assert_eq!(granted(&mut holder, 900, 0), Some((at(5000), true)));
        assert_eq!(holder.due(at(1000)), Some(LeaseDuty::Renew(1)));
        for (millis, number) in [(2000, 2), (3000, 3), (4000, 4)] {
            assert_eq!(holder.due(at(millis)), Some(LeaseDuty::Renew(number)));
        }
        assert_eq!(holder.due(at(4999)), None);
        assert_eq!(holder.due(at(5000)), Some(LeaseDuty::Stop));
        // An answer that comes too late is none.
        assert_eq!(granted(&mut holder, 6000, 1), None);
        assert!(!holder.holds());
        assert_eq!(granted(&mut holder, 6500, 2), Some((at(7000), true)));
        assert!(holder.holds());
        // Neither does one that was overtaken, or was never asked for.
        assert_eq!(granted(&mut holder, 6500, 1), None);
        assert_eq!(granted(&mut holder, 6500, 77), None);
        assert_eq!(granted(&mut holder, 6500, 3), Some((at(8000), false)));
    }

    #[test]
    fn a_lease_that_lapsed_unseen_is_stopped_before_anything_else() {
        let mut holder = Holder::new(TERMS, at(0));
        assert_eq!(holder.due(at(0)), Some(LeaseDuty::Renew(0)));
        holder.granted(at(1), 0);
        // The whole host was suspended.
        assert_eq!(holder.due(at(50_000)), Some(LeaseDuty::Stop));
        assert_eq!(holder.due(at(50_000)), Some(LeaseDuty::Renew(1)));
        assert_eq!(holder.due(at(60_001)), Some(LeaseDuty::Orphaned));
        assert_eq!((holder.due(at(99_000)), holder.deadline()), (None, None));
    }

    #[test]
    fn a_silent_host_is_suspected_then_lost_unless_it_speaks() {
        let mut giver = Grantor::new(TERMS);
        assert_eq!(
            (giver.tick(at(0)), giver.deadline()),
            (LeaseStatus::Same, None)
        );
        assert!(!giver.renewed(at(1000)));
        assert_eq!(giver.deadline(), Some(at(6250)));
        assert_eq!(giver.tick(at(6249)), LeaseStatus::Same);
        assert_eq!(giver.tick(at(6250)), LeaseStatus::Silent);
        assert_eq!(giver.tick(at(6151)), LeaseStatus::Same);
        assert!(giver.renewed(at(7000)));
        assert_eq!(giver.tick(at(7001)), LeaseStatus::Same);
        assert_eq!(giver.tick(at(20_000)), LeaseStatus::Silent);
        assert_eq!(giver.tick(at(37_000)), LeaseStatus::Lost);
        let mut resumed = Grantor::new(TERMS);
        resumed.count_from(at(0));
        assert!(!resumed.has_expired(at(5249)) && resumed.has_expired(at(5250)));
        // A suspended manager received no messages, also none of hosts that were silent before.
        assert_eq!(resumed.tick(at(5250)), LeaseStatus::Silent);
        resumed.was_suspended(at(90_000));
        assert_eq!(resumed.tick(at(90_000)), LeaseStatus::Same);
        assert!(resumed.renewed(at(90_001)));
    }

    #[test]
    fn a_patience_shorter_than_the_fence_rings_no_clock_in_vain() {
        let mut giver = Grantor::new(Terms::new(2000, 2000));
        giver.renewed(at(0));
        let mut standings = Vec::new();
        while let Some(due) = giver.deadline().filter(|_| standings.len() < 3) {
            standings.push(giver.tick(due));
        }
        let [silent, lost] = [LeaseStatus::Silent, LeaseStatus::Lost];
        assert_eq!(standings, [silent, lost, lost]);
    }

    #[test]
    fn a_standstill_does_not_count_against_a_host_that_has_not_called() {
        let mut giver = Grantor::new(TERMS);
        giver.was_suspended(at(1000));
        assert_eq!(giver.deadline(), None);
        assert_eq!(giver.tick(at(99_000)), LeaseStatus::Same);
        giver.renewed(at(100_000));
        giver.was_suspended(at(120_000));
        assert_eq!(giver.tick(at(120_001)), LeaseStatus::Same);
        assert_eq!(giver.tick(at(126_000)), LeaseStatus::Silent);
    }

    #[test]
    fn a_host_that_has_called_and_never_renews_is_lost() {
        let mut giver = Grantor::new(TERMS);
        giver.called(at(1000));
        assert_eq!(giver.deadline(), Some(at(31_000)));
        assert_eq!(giver.tick(at(30_999)), LeaseStatus::Same);
        giver.was_suspended(at(30_999));
        assert_eq!(giver.tick(at(60_998)), LeaseStatus::Same);
        assert_eq!(giver.tick(at(60_999)), LeaseStatus::Lost);
        assert_eq!(giver.expires(), None, "nothing was given");
        // From the first renewal on, the lease counts.
        let mut giver = Grantor::new(TERMS);
        giver.called(at(0));
        giver.renewed(at(1000));
        assert_eq!(giver.tick(at(6249)), LeaseStatus::Same);
        assert_eq!(giver.tick(at(6250)), LeaseStatus::Silent);
    }

    /// A number from a seed (xorshift; Marsaglia 2003).
    fn next(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn a_fence_lets_ranks_continue_only_for_a_lease_that_lasts() {
        let mut fence = Fence::default();
        assert!(!fence.due(at(0)) && !fence.extended(at(0), at(5000)));
        assert!(!fence.due(at(4999)) && !fence.extended(at(4999), at(6000)));
        assert_eq!(
            (fence.due(at(5000)), fence.deadline()),
            (false, Some(at(6000)))
        );
        assert!(fence.due(at(6000)) && !fence.due(at(6000)));
        assert!(fence.is_suspended() && fence.deadline().is_none());
        // A manager that was stopped sends what it had decided.
        assert!(!fence.extended(at(9000), at(8000)));
        assert!(fence.is_suspended() && !fence.due(at(9000)));
        assert!(fence.extended(at(9000), at(9500)) && !fence.is_suspended());
        fence.ended();
        assert!(fence.is_suspended() && !fence.due(at(9500)));
        // Nor does a first lease that comes too late let anything run.
        let mut late = Fence::default();
        assert!(!late.extended(at(9000), at(8000)) && late.due(at(9000)));
    }

    /// One host and its giver. Both have clocks that drift apart, the network delays, loses and
    /// reorders, and the manager of the host is stopped at any moment, also between what it decides
    /// and what it does. Returns when ranks have run although the lease had certainly run out, and
    /// how many renewals were granted. Without a fence, the manager suspends the ranks itself.
    fn outlasts(seed: u64, is_fenced: bool) -> (Option<u64>, u32) {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Nanoseconds of each side's clock per real millisecond, up to half the drift off.
        let skew = |s: &mut u64| 995_000 + next(s) % 10_000;
        let (fast, slow) = (skew(&mut state), skew(&mut state));
        let (here, there) = (
            |t: u64| Time(t * fast),
            |t: u64| Time(7_000_000_000 + t * slow),
        );
        let (mut holder, mut giver) = (Holder::new(TERMS, here(0)), Grantor::new(TERMS));
        let (mut fence, mut runs) = (Fence::default(), false);
        let (mut up, mut down) = (Vec::new(), Vec::new());
        // What the manager has decided and not done yet: the deadline of a lease, or its end.
        let mut decided: Option<Option<Time>> = None;
        let (mut cut, mut granted, mut stopped) = (false, 0, 0);
        for real in 0..60_000 {
            let now = here(real);
            if next(&mut state).is_multiple_of(3000) {
                cut = !cut;
            }
            if next(&mut state).is_multiple_of(5000) {
                stopped = real + next(&mut state) % 20_000;
            }
            let delay = real + 1 + next(&mut state) % [5, 50, 7000][(seed % 3) as usize];
            if stopped <= real {
                let done = decided.take();
                match done {
                    Some(Some(until)) if is_fenced => runs |= fence.extended(now, until),
                    Some(None) if is_fenced => fence.ended(),
                    Some(until) => runs = until.is_some(),
                    None => {}
                }
                // The first lease starts the ranks.
                runs |= done.is_some_and(|until| until.is_some()) && !fence.is_suspended();
                while let Some(duty) = holder.due(now) {
                    match duty {
                        LeaseDuty::Renew(number) if !cut => up.push((delay, number)),
                        LeaseDuty::Renew(_) | LeaseDuty::Orphaned => {}
                        LeaseDuty::Stop => decided = Some(None),
                    }
                }
                for (_, number) in down.extract_if(.., |(at, _)| *at <= real) {
                    let extension = holder.granted(now, number);
                    decided = extension.map(|e| Some(e.until)).or(decided);
                }
            }
            for (_, number) in up.extract_if(.., |(at, _)| *at <= real) {
                giver.renewed(there(real));
                granted += 1;
                if !cut {
                    down.push((delay, number));
                }
            }
            fence.due(now);
            runs &= !(is_fenced && fence.is_suspended());
            if runs && giver.has_expired(there(real)) {
                return (Some(real), granted);
            }
        }
        (None, granted)
    }

    #[test]
    fn no_holder_outlasts_its_giver() {
        for seed in 1..400 {
            let (both, granted) = outlasts(seed, true);
            assert_eq!(
                both, None,
                "seed {seed}: ranks run at this time without a lease"
            );
            assert!(granted > 0, "seed {seed}");
        }
    }

    #[test]
    fn a_holder_that_suspends_itself_outlasts_its_giver() {
        let found = (1..400).filter(|seed| outlasts(*seed, false).0.is_some());
        assert!(found.count() > 100, "the runs stop the manager too seldom");
    }

    #[test]
    fn a_detector_needs_fewer_renewals_and_none_has_leases_as_long_as_the_patience() {
        let with = |detector| {
            let detection = DetectorSettings {
                detector,
                ..DetectorSettings::default()
            };
            let terms = TERMS.with_detector(detection);
            (terms.term, terms.every(), terms.patience)
        };
        assert_eq!(with(Detector::Star), (5000, 1000, 30_000));
        assert_eq!(with(Detector::Ring), (5000, 2000, 30_000));
        assert_eq!(with(Detector::None), (30_000, 12_000, 30_000));
    }
}
