//! The window of a channel: the bytes that a sender may have under way, and the credit that a
//! receiver gave back.
//!
//! Both sides count with totals that only grow, so that a lost or repeated report of a total does
//! no harm. Beyond the window a receiver *grants* single envelopes without a body. So it finds the
//! message that it waits for behind a window full of others.

use thiserror::Error;

/// A peer that counts wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WindowError {
    /// The peer sent more than window and grants allow.
    #[error("more was sent than the window allows")]
    Exceeded,
    /// The peer gave back more than was taken.
    #[error("more window was given back than was taken")]
    FalseCredit,
}

/// What a receiver has counted. A sender that has counted otherwise, because one of both has come
/// back from the past, counts on from here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowTotals {
    /// Bytes received.
    pub taken: u64,
    /// Bytes given back, at most as many.
    pub returned: u64,
    /// Envelopes granted beyond the window.
    pub granted: u64,
    /// Granted envelopes that have come.
    pub used: u64,
}

/// The sender's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SendWindow {
    size: u64,
    /// The size, or 0 while the window is closed.
    limit: u64,
    charged: u64,
    credited: u64,
    granted: u64,
    used: u64,
}

impl SendWindow {
    /// A window of `size` bytes.
    pub fn new(size: u64) -> Self {
        SendWindow {
            size,
            limit: size,
            charged: 0,
            credited: 0,
            granted: 0,
            used: 0,
        }
    }

    /// Takes `cost` bytes if they fit.
    #[inline]
    pub fn charge(&mut self, cost: u64) -> bool {
        let fits = self.charged + cost - self.credited <= self.limit;
        if fits {
            self.charged += cost;
        }
        fits
    }

    /// Takes `cost` bytes if they fit, for a message that is sent again: the window may be closed.
    pub fn charge_again(&mut self, cost: u64) -> bool {
        let limit = std::mem::replace(&mut self.limit, self.size);
        let fits = self.charge(cost);
        self.limit = limit;
        fits
    }

    /// Nothing but what is sent again fits from now on, or everything may.
    pub fn close(&mut self, closed: bool) {
        self.limit = if closed { 0 } else { self.size };
    }

    /// Counts on from the receiver's totals: what it has not taken is to be charged again.
    pub fn restart(&mut self, totals: &WindowTotals) {
        self.charged = totals.taken.min(u64::MAX / 2);
        self.credited = totals.returned.min(self.charged);
        self.granted = totals.granted;
        self.used = totals.used.min(totals.granted);
    }

    /// Takes one granted envelope if there is one.
    pub fn use_grant(&mut self) -> bool {
        let any = self.used < self.granted;
        self.used += u64::from(any);
        any
    }

    /// Takes the receiver's total of bytes given back; an older total changes nothing. True if
    /// there is more room now.
    ///
    /// # Errors
    /// [`WindowError::FalseCredit`] when it is more than was ever charged.
    #[inline]
    pub fn credit(&mut self, total: u64) -> Result<bool, WindowError> {
        if total > self.charged {
            return Err(WindowError::FalseCredit);
        }
        let more = total > self.credited;
        self.credited = self.credited.max(total);
        Ok(more)
    }

    /// The receiver's total of bytes given back, as far as it is known.
    #[inline]
    #[must_use]
    pub fn credited(&self) -> u64 {
        self.credited
    }

    /// The receiver's total of envelopes granted; true if there are more than before.
    pub fn grant(&mut self, total: u64) -> bool {
        let more = total > self.granted;
        self.granted = self.granted.max(total);
        more
    }
}

/// The receiver's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReceiveWindow {
    size: u64,
    taken: u64,
    returned: u64,
    told: u64,
    granted: u64,
    used: u64,
}

impl ReceiveWindow {
    /// A window of `size` bytes.
    pub fn new(size: u64) -> Self {
        ReceiveWindow {
            size,
            taken: 0,
            returned: 0,
            told: 0,
            granted: 0,
            used: 0,
        }
    }

    /// Whether a message of this cost is within the window.
    #[inline]
    #[must_use]
    pub fn fits(&self, cost: u64) -> bool {
        self.taken - self.returned + cost <= self.size
    }

    /// Notes `cost` bytes received.
    ///
    /// # Errors
    /// [`WindowError::Exceeded`] when the sender should have waited.
    #[inline]
    pub fn take(&mut self, cost: u64) -> Result<(), WindowError> {
        if !self.fits(cost) {
            return Err(WindowError::Exceeded);
        }
        self.taken += cost;
        Ok(())
    }

    /// Counts `cost` bytes as received and given back at once; [`ReceiveWindow::fits`] holds for
    /// them.
    #[inline]
    pub fn pass(&mut self, cost: u64) {
        debug_assert!(self.fits(cost));
        self.taken += cost;
        self.returned += cost;
    }

    /// Notes a granted envelope received.
    ///
    /// # Errors
    /// [`WindowError::Exceeded`] when none was granted.
    pub fn take_grant(&mut self) -> Result<(), WindowError> {
        if self.used == self.granted {
            return Err(WindowError::Exceeded);
        }
        self.used += 1;
        Ok(())
    }

    /// Gives `cost` bytes back: they were consumed.
    #[inline]
    pub fn give_back(&mut self, cost: u64) {
        self.returned = (self.returned + cost).min(self.taken);
    }

    /// The total given back, for a header that is made now.
    #[inline]
    pub fn report(&mut self) -> u64 {
        self.told = self.returned;
        self.returned
    }

    /// All totals.
    pub fn totals(&self) -> WindowTotals {
        WindowTotals {
            taken: self.taken,
            returned: self.returned,
            granted: self.granted,
            used: self.used,
        }
    }

    /// The total given back.
    pub fn returned(&self) -> u64 {
        self.returned
    }

    /// Bytes given back that no header has reported yet.
    #[inline]
    pub fn unreported(&self) -> u64 {
        self.returned - self.told
    }

    /// Bytes received and not consumed.
    pub fn held(&self) -> u64 {
        self.taken - self.returned
    }

    /// Grants `count` more envelopes beyond the window.
    pub fn grant(&mut self, count: u64) {
        self.granted += count;
    }

    /// Envelopes ever granted.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Envelopes granted that have not come.
    pub fn open_grants(&self) -> u64 {
        self.granted - self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_agree() {
        let (mut send, mut receive) = (SendWindow::new(100), ReceiveWindow::new(100));
        assert!(send.charge(60) && !send.charge(41) && send.charge(40));
        receive.take(60).unwrap();
        receive.take(40).unwrap();
        assert_eq!(receive.take(1), Err(WindowError::Exceeded));
        receive.give_back(60);
        assert_eq!((receive.unreported(), receive.held()), (60, 40));
        let told = receive.report();
        assert_eq!(receive.unreported(), 0);
        assert_eq!(send.credit(told), Ok(true));
        assert_eq!(send.credit(0), Ok(false));
        assert_eq!(send.credit(101), Err(WindowError::FalseCredit));
        assert!(send.charge(60) && !send.charge(1));
    }

    #[test]
    fn a_sender_counts_on_from_a_receiver_of_the_past() {
        let (mut send, mut receive) = (SendWindow::new(100), ReceiveWindow::new(100));
        assert!(send.charge(60));
        receive.take(60).unwrap();
        receive.give_back(60);
        let earlier = receive;
        send.credit(receive.report()).unwrap();
        assert!(send.charge(50) && send.charge(50));
        // The receiver lacks these two: they are charged again, and nothing else meanwhile.
        send.close(true);
        send.restart(&earlier.totals());
        assert!(!send.charge(1) && send.charge_again(50) && send.charge_again(50));
        assert!(!send.charge_again(1));
        send.close(false);
        assert_eq!(send.credit(160), Ok(true));
        assert!(send.charge(100));
    }

    #[test]
    fn grants_are_counted_once() {
        let (mut send, mut receive) = (SendWindow::new(0), ReceiveWindow::new(0));
        assert!(!send.use_grant());
        receive.grant(2);
        assert!(send.grant(receive.granted()) && !send.grant(receive.granted()));
        assert!(send.use_grant() && send.use_grant() && !send.use_grant());
        receive.take_grant().unwrap();
        assert_eq!(receive.open_grants(), 1);
        receive.take_grant().unwrap();
        assert_eq!(receive.take_grant(), Err(WindowError::Exceeded));
    }

    #[test]
    fn a_message_that_passes_takes_no_room_and_its_credit_is_still_told() {
        let mut receive = ReceiveWindow::new(100);
        receive.pass(30);
        receive.take(90).unwrap();
        assert!(receive.fits(10) && !receive.fits(11));
        assert_eq!((receive.returned(), receive.held()), (30, 90));
        receive.pass(10);
        assert_eq!((receive.returned(), receive.unreported()), (40, 40));
        assert_eq!((receive.report(), receive.held()), (40, 90));
        // A credit for bytes that were never received gives nothing back.
        receive.give_back(1000);
        assert_eq!((receive.returned(), receive.held()), (130, 0));
        let mut send = SendWindow::new(100);
        assert!(send.charge(100));
        assert_eq!((send.credit(100), send.credited()), (Ok(true), 100));
        assert_eq!((send.credit(100), send.credited()), (Ok(false), 100));
    }
}
