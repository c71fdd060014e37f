//! Links that raise no event by themselves: read without one, and armed before the rank blocks.

use crate::clock;
use crate::device::Device;
use crate::error::Result;
use crate::poller::Token;
use crate::receive::Broken;
use crate::transport::{Endpoint, Fault, Lost};

/// Time between two looks at epoll at most, while the program polls.
const LOOK_AFTER: u64 = 50 * clock::MICROSECOND;

impl Device {
    /// Reads every polled link that has something, and retries what did not fit. `all`: as
    /// [`Device::poll_link`].
    #[inline]
    pub(crate) fn serve_polled(&mut self, all: bool) -> Result<bool> {
        let mut moved = false;
        for at in 0..self.io.polled.len() {
            let Some(&token) = self.io.polled.get(at) else {
                break;
            };
            let Some(live) = self.io.slots.live(token) else {
                continue;
            };
            let rank = live.rank;
            moved |= self.poll_link(rank, token, all)?;
        }
        Ok(moved)
    }

    /// Whether it is time to look at epoll: after so many passes where some links need it, and
    /// where links are polled after a while, however few the passes are (some calls make none).
    #[inline]
    pub(crate) fn must_look(&self, every: u32) -> bool {
        let slots = &self.io.slots;
        if self.io.polled.is_empty() || slots.any_pending() || slots.any_watched() {
            if self.passes.is_multiple_of(every) {
                return true;
            }
            if self.io.polled.is_empty() {
                return false;
            }
        }
        clock::ticks().wrapping_sub(self.io.looked) > LOOK_AFTER
    }

    /// Has every polled link raise an event from here on; true if one of them has something
    /// already, so that nothing may block.
    pub(crate) fn arm_polled(&mut self) -> Result<bool> {
        let mut any = false;
        self.io.armed = !self.io.polled.is_empty();
        for at in 0..self.io.polled.len() {
            let Some(&token) = self.io.polled.get(at) else {
                break;
            };
            let Some(live) = self.io.slots.live(token) else {
                continue;
            };
            let for_room = live.write_blocked && self.engine.tx_pending(live.rank);
            match live.endpoint.arm_doorbell(for_room) {
                Ok(ready) => any |= ready,
                Err(fault) => {
                    any = true;
                    let lost = match *fault {
                        Fault::Link(lost) => lost,
                        Fault::Memory(error) => Lost(crate::error::text_of(&error)),
                    };
                    self.drop_link(token, Broken::Lost(lost))?;
                }
            }
        }
        Ok(any)
    }

    /// The rank is awake: its peers need not wake it. What has come without a wake-up while it
    /// `slept` is counted.
    pub(crate) fn disarm_polled(&mut self, slept: bool) {
        self.io.armed = false;
        for token in &self.io.polled {
            if let Some(live) = self.io.slots.live(*token) {
                let unnoticed = live.endpoint.disarm_doorbell();
                self.meter.stats.late += u64::from(unnoticed && slept);
            }
        }
    }

    /// A link stands that has to be polled.
    pub(crate) fn list_polled(&mut self, token: Token) {
        self.io.polled.push(token);
        let links = self.io.slots.links();
        let bytes: usize = links.map(|(_, live)| live.endpoint.shared_bytes()).sum();
        let stats = &mut self.meter.stats;
        stats.rings_made += 1;
        stats.ring_bytes = stats.ring_bytes.max(bytes as u64);
    }

    /// A link is gone: no list has it any more.
    pub(crate) fn unlist(&mut self, token: Token) {
        self.io.unwatched.retain(|other| *other != token);
        self.io.polled.retain(|other| *other != token);
    }
}
