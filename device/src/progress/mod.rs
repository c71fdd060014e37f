//! The state of the loop that polls, waits and spins.

pub(crate) mod cadences;
mod spin;
mod stall;

pub(crate) use spin::{PREEMPTED, Spin};
pub use stall::Names;
pub(crate) use stall::Stall;

use std::time::{Duration, Instant};

use rejoin_engine::{Engine, FailedProbes, Pattern, ReqId};

use crate::events::Readiness;
use crate::links::STAGING;

/// Time between two checks of all links while the rank is busy.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The progress of one rank.
pub(crate) struct ProgressState {
    passes: u32,
    /// How long waits spin before they block.
    pub(crate) spin: Spin,
    /// The present wait, and when it was last reported.
    pub(crate) stall: Stall,
    /// Bytes that were read and not parsed yet; empty between two reads.
    staging: Box<[u8]>,
    events: Vec<Readiness>,
    /// Blocking sends whose body is to be copied once its write is through.
    detaching: Vec<ReqId>,
    /// Patterns of probes that found no message.
    probing: FailedProbes,
    /// At the end of a poll of epoll a request for an image was pending: the device is to meet it.
    has_request: bool,
    /// When the links were last asked whether their other ends answer.
    checked: Instant,
}

impl ProgressState {
    /// No pass was made yet; waits spin as `spin` says.
    pub(crate) fn new(spin: Spin) -> Self {
        Self {
            passes: 0,
            spin,
            stall: Stall::default(),
            staging: vec![0; STAGING].into_boxed_slice(),
            events: Vec::with_capacity(64),
            detaching: Vec::new(),
            probing: FailedProbes::default(),
            has_request: false,
            checked: Instant::now(),
        }
    }

    /// The process continues in another place of the job.
    pub(crate) fn start_over(&mut self, spin: Spin) {
        self.spin = spin;
        self.stall.moved();
        self.checked = Instant::now();
    }

    /// Begins a pass, or a call of the fast path; returns its number.
    #[inline(always)]
    pub(crate) fn next_pass(&mut self) -> u32 {
        self.passes = self.passes.wrapping_add(1);
        self.passes
    }

    /// The number of the present pass.
    #[inline(always)]
    pub(crate) fn pass(&self) -> u32 {
        self.passes
    }

    /// Numbers the next pass 1.
    #[cfg(test)]
    pub(crate) fn number_from_one(&mut self) {
        self.passes = 0;
    }

    /// The buffer for bytes that are read and not parsed yet.
    #[inline(always)]
    pub(crate) fn staging(&mut self) -> &mut [u8] {
        &mut self.staging
    }

    /// Takes the list of events, which is empty; [`ProgressState::put_events`] gives it back.
    pub(crate) fn take_events(&mut self) -> Vec<Readiness> {
        std::mem::take(&mut self.events)
    }

    /// Gives the list of events back.
    pub(crate) fn put_events(&mut self, mut events: Vec<Readiness>) {
        events.clear();
        self.events = events;
    }

    /// Whether no blocking send waits for its body to be copied.
    #[inline(always)]
    pub(crate) fn detaches_none(&self) -> bool {
        self.detaching.is_empty()
    }

    /// The body of a blocking send is to be copied once its write is through.
    pub(crate) fn detach_later(&mut self, request: ReqId) {
        self.detaching.push(request);
    }

    /// Leaves only those blocking sends that are still to be completed; true if any is gone.
    pub(crate) fn retain_detaching(&mut self, keep: impl FnMut(&ReqId) -> bool) -> bool {
        let before = self.detaching.len();
        self.detaching.retain(keep);
        self.detaching.len() < before
    }

    /// A probe found no message.
    pub(crate) fn probe_failed(&mut self, pattern: &Pattern) {
        self.probing.add(pattern);
    }

    /// Grants envelopes to peers that may have a message for a wait or a probe.
    pub(crate) fn grant(&mut self, engine: &mut Engine) {
        engine.grant_if_starved(&std::mem::take(&mut self.probing));
    }

    /// A poll of epoll is over: whether a request for an image is pending.
    pub(crate) fn note_request(&mut self, is_pending: bool) {
        self.has_request |= is_pending;
    }

    /// Whether a request was pending when the last poll was over.
    #[inline]
    pub(crate) fn has_request(&self) -> bool {
        self.has_request
    }

    /// Takes note that the device meets the request; whether there was one.
    #[inline]
    pub(crate) fn take_request(&mut self) -> bool {
        std::mem::take(&mut self.has_request)
    }

    /// Whether the links are to be checked now; they are then taken for checked.
    pub(crate) fn must_check(&mut self) -> bool {
        let must = self.checked.elapsed() >= CHECK_EVERY;
        if must {
            self.checked = Instant::now();
        }
        must
    }
}
