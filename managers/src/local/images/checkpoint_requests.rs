//! Checkpoint requests by signal, because a rank that computes reads no message. A process that
//! does not take the signal now gets it again later.

use rejoin_channel_table::Incarnation;
use rejoin_ckpt::checkpoint_request::{self, Seen};
use rejoin_wire::SignalRequest;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// From the first try to the second, and the longest time between two: a program blocks signals for
/// a moment, or for good.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(64)];

/// The process of a rank that takes a request by signal.
pub struct SignalTarget<'a> {
    /// The process id: `/proc` shows whether the process takes signals.
    pub pid: u32,
    /// The pidfd over which the signal is sent.
    pub pidfd: BorrowedFd<'a>,
    /// The incarnation that this process is.
    pub incarnation: Incarnation,
}

/// The requests of one rank.
#[derive(Default)]
struct Request {
    /// A request that the present process does not take by signal now.
    unsent: Option<(SignalRequest, Incarnation)>,
    /// Observations of earlier tries.
    seen: Seen,
    /// When the process is to look for messages, as it has asked for.
    later: Option<(Instant, Incarnation)>,
}

/// The requests to this host's ranks.
#[derive(Default)]
pub struct CheckpointRequests {
    /// By slot.
    ranks: Vec<Request>,
    /// When unsent requests are tried again, and the pause before that.
    again: Option<(Instant, Duration)>,
}

impl CheckpointRequests {
    /// So many ranks are on this host.
    pub fn serve(&mut self, ranks: usize) {
        self.ranks.resize_with(ranks, Request::default);
    }

    /// Sends a request by signal. Without a target (the rank is behind a wrapper, or has no
    /// process) the message alone requests it.
    pub fn send(&mut self, slot: usize, request: SignalRequest, target: Option<&SignalTarget<'_>>) {
        let rank = &mut self.ranks[slot];
        rank.unsent = None;
        let Some(target) = target else {
            return;
        };
        let signal = checkpoint_request::usual_signal();
        let (pidfd, pid) = (target.pidfd, target.pid as i32);
        match checkpoint_request::send(pidfd, pid, signal, request.encode(), &mut rank.seen) {
            Ok(true) => {}
            Ok(false) => {
                rank.unsent = Some((request, target.incarnation));
                let first = || (Instant::now() + PAUSES[0], PAUSES[0]);
                self.again.get_or_insert_with(first);
            }
            Err(error) => tracing::debug!(slot, %error, "no checkpoint request by signal"),
        }
    }

    /// The process of a rank is to look for messages after this pause.
    pub fn send_later(&mut self, slot: usize, pause: Duration, incarnation: Incarnation) {
        self.ranks[slot].later = Some((Instant::now() + pause, incarnation));
    }

    /// Requests were sent to all ranks that get one now.
    pub fn sent(&mut self) {
        self.retry_after(PAUSES[0]);
    }

    fn retry_after(&mut self, pause: Duration) {
        let any = self.ranks.iter().any(|rank| rank.unsent.is_some());
        self.again = any.then(|| (Instant::now() + pause, pause));
    }

    /// Sends unsent requests again, if that is due. `target` returns the process of a slot that the
    /// request still concerns.
    pub fn retry<'a>(&mut self, target: impl Fn(usize, SignalRequest) -> Option<SignalTarget<'a>>) {
        self.send_due(&target);
        let due = self.again.take_if(|(at, _)| *at <= Instant::now());
        let Some((_, pause)) = due else {
            return;
        };
        for slot in 0..self.ranks.len() {
            if let Some((request, of)) = self.ranks[slot].unsent.take()
                && let Some(target) = target(slot, request).filter(|t| t.incarnation == of)
            {
                self.send(slot, request, Some(&target));
            }
        }
        self.retry_after((pause * 2).min(PAUSES[1]));
    }

    /// Sends what processes have asked for and is due.
    fn send_due<'a>(&mut self, target: &impl Fn(usize, SignalRequest) -> Option<SignalTarget<'a>>) {
        let now = Instant::now();
        for slot in 0..self.ranks.len() {
            let due = self.ranks[slot].later.take_if(|(at, _)| *at <= now);
            let Some((_, of)) = due else {
                continue;
            };
            if let Some(target) =
                target(slot, SignalRequest::ReadMessages).filter(|t| t.incarnation == of)
            {
                // What was unsent comes by message, too.
                self.send(slot, SignalRequest::ReadMessages, Some(&target));
            }
        }
    }

    /// Time until requests are sent, or tried again.
    pub fn wait_limit(&self) -> Option<Duration> {
        let later = self.ranks.iter().filter_map(|rank| Some(rank.later?.0));
        let at = later.chain(self.again.map(|(at, _)| at)).min()?;
        Some(at.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests;
