//! The calls of the program that make progress: one pass, or a wait. A request for an image that
//! comes meanwhile is met at their end.

use std::time::{Duration, Instant};

use rejoin_engine::ReqId;
use rejoin_wire::SignalRequest;

use super::Device;
use crate::error::Result;
use crate::progress::cadences::POLL_EVERY;

/// The longest interruption of a program.
const LONGEST_INTERRUPTION: Duration = Duration::from_millis(2);
/// An interruption ends after so long without any progress.
const QUIET: Duration = Duration::from_micros(100);

impl Device {
    /// One pass without blocking; true if anything moved. `hint` names the request that is waited
    /// for: its peer's link is read first, without epoll. This writes deferred nonblocking sends.
    ///
    /// # Errors
    /// A peer that cannot be reached, or a manager that cannot be understood.
    #[inline]
    pub fn progress(&mut self, hint: Option<ReqId>) -> Result<bool> {
        let moved = self.passes().progress(hint)?;
        Ok(self.meet_request()? | moved)
    }

    /// Meets a request for an image that a poll of epoll has found; true if that has written
    /// anything.
    #[inline]
    fn meet_request(&mut self) -> Result<bool> {
        if !self.progress.take_request() {
            return Ok(false);
        }
        self.safe_point()?;
        self.passes().flush_ready()
    }

    /// Makes progress until something has moved, at most for `deadline`: spins for a bounded time
    /// when this rank has a core of its own, then blocks. Returns early at a wake from another
    /// thread, at a signal, behind an image, and at the latest after a second, so the caller must
    /// look again.
    ///
    /// # Errors
    /// The errors are those of [`Device::progress`].
    pub fn wait(&mut self, hint: Option<ReqId>, deadline: Option<Duration>) -> Result<()> {
        self.passes().wait(hint, deadline)?;
        self.meet_request().map(drop)
    }

    /// One pass for a call that does not wait. With more ranks than cores a program that only calls
    /// such calls gives its core to the others after some in vain: it waits for one of them.
    ///
    /// # Errors
    /// The errors are those of [`Device::progress`].
    #[inline]
    pub fn look(&mut self, hint: Option<ReqId>) -> Result<bool> {
        let moved = self.progress(hint)?;
        if self.progress.spin.is_never() && self.progress.spin.looks_in_vain(moved) {
            std::thread::yield_now();
            return self.progress(hint);
        }
        Ok(moved)
    }

    /// A program whose calls need no pass of progress, or that only sends, accepts and reads here
    /// now and then.
    ///
    /// # Errors
    /// The errors are those of [`Device::progress`].
    #[inline]
    pub fn poll_occasionally(&mut self) -> Result<()> {
        let poll_is_due = self.links.poll_is_due(self.progress.pass(), POLL_EVERY);
        self.progress.next_pass();
        if poll_is_due {
            self.passes().poll_events(Some(Duration::ZERO))?;
            self.meet_request()?;
        }
        Ok(())
    }

    /// Whether something was sent to a rank to which there was no link.
    #[inline]
    #[must_use]
    pub fn awaits_links(&self) -> bool {
        self.links.awaits_any()
    }

    /// How long a blocking call that has waited for links for `waited` is to wait on at its end,
    /// with [`Device::wait`]. `None`: the links over which the program has sent something are
    /// established, or their peers do not answer.
    ///
    /// A link is dialed at the first message, and its handshake takes two answers of the peer.
    /// There is no progress between MPI calls. Without this wait, a program may send once and then
    /// compute, and its peer would get the message only at the next call. So a blocking call stays
    /// until the handshake is over, as long as the peer can answer. A peer that gives no sign
    /// within a tenth of a second computes, and gets the message at a later call.
    #[cold]
    pub fn links_to_wait_for(&mut self, waited: Duration) -> Option<Duration> {
        self.links.left_to_wait(waited)
    }

    /// Waits until the links are established over which the program has sent something, for as long
    /// as their peers answer. For the end of a blocking call that has nothing else to wait for.
    ///
    /// # Errors
    /// The errors are those of [`Device::progress`].
    #[cold]
    pub fn await_links(&mut self) -> Result<()> {
        let begun = Instant::now();
        while let Some(left) = self.links_to_wait_for(begun.elapsed()) {
            self.wait(None, Some(left))?;
        }
        Ok(())
    }

    /// Meets the request by a signal with this number now, at a safe point of the caller's. A later
    /// epoch begins here: later frames carry it, so their receivers enter it, too. An earlier
    /// epoch, or the present one, changes nothing. Returns again in each process that is restored
    /// from the image that is taken here.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn meet_signal(&mut self, number: u32) -> Result<()> {
        // A program that computes for hours takes nothing else from its socket.
        let mut orders = self.orders();
        orders.read()?;
        orders.note_request(SignalRequest::decode(number));
        self.safe_point()?;
        self.serve_peers()
    }

    /// The manager has interrupted the program: peers get what they lack, as far as that goes at
    /// once.
    fn serve_peers(&mut self) -> Result<()> {
        self.served.interrupted();
        let begun = Instant::now();
        let (mut moved_at, mut any) = (begun, false);
        while self.returned_peers().any_lacks() {
            if begun.elapsed() > LONGEST_INTERRUPTION || moved_at.elapsed() > QUIET {
                return self.returned_peers().request_signal(any);
            }
            if self.progress(None)? {
                (moved_at, any) = (Instant::now(), true);
            } else {
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}
