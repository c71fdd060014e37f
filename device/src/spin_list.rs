//! Busy links leave epoll for as long as their rank spins.
//!
//! A watched socket costs the sender's side of the kernel a callback per segment, 5 to 8 % of a
//! small message's latency. A link that a spinning rank reads directly needs none; before the rank
//! blocks, every such link is watched again, which reports at once what has come meanwhile.

use crate::device::Device;
use crate::error::Result;
use crate::poller::Token;
use crate::transport::Endpoint;

/// Links without epoll at most: each is read at every look.
pub(crate) const MOST_UNWATCHED: usize = 2;
/// Successful direct reads after which a link leaves epoll.
const BUSY_AFTER: u32 = 64;

impl Device {
    /// A direct read of a link has brought something.
    #[inline]
    pub(crate) fn hit(&mut self, token: Token) -> Result<()> {
        let Some(live) = self.io.slots.live(token) else {
            return Ok(());
        };
        if !live.watched {
            return Ok(());
        }
        live.hits = live.hits.saturating_add(1);
        if live.hits < BUSY_AFTER {
            return Ok(());
        }
        live.hits = 0;
        if self.spin.is_never() || self.io.unwatched.len() == MOST_UNWATCHED {
            return Ok(());
        }
        self.io.poller.remove(live.endpoint.descriptor())?;
        live.watched = false;
        self.io.unwatched.push(token);
        Ok(())
    }

    /// Reads the links that epoll does not watch, and retries what did not fit.
    pub(crate) fn serve_unwatched(&mut self) -> Result<bool> {
        let mut moved = false;
        for at in 0..self.io.unwatched.len() {
            let Some(&token) = self.io.unwatched.get(at) else {
                break;
            };
            if let Some(rank) = self.io.slots.live(token).map(|live| live.rank) {
                moved |= self.poll_link(rank, token, true)?;
            }
        }
        Ok(moved)
    }

    /// Gives every link back to epoll: the rank is about to block.
    pub(crate) fn watch_all(&mut self) -> Result<()> {
        while let Some(token) = self.io.unwatched.pop() {
            if let Some(live) = self.io.slots.live(token) {
                self.io
                    .poller
                    .add(live.endpoint.descriptor(), token, true)?;
                live.watched = true;
                live.hits = 0;
            }
        }
        Ok(())
    }
}
