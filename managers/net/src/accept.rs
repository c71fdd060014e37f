//! Accepting connections when the system has no descriptor left for them.
//!
//! A waiting connection stays ready, so a listener that can't accept would be tried again at once,
//! forever. It is left alone for a while instead.

use crate::reactor::{Interest, Reactor, Token};
use nix::errno::Errno;
use rejoin_managers_host::error::Result;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long a listener is left alone.
const PAUSE: Duration = Duration::from_millis(500);

/// Whether a listening socket is being left alone.
#[derive(Debug, Default)]
pub struct Pause {
    until: Option<Instant>,
    told: bool,
}

/// Accepting failed for want of something that may be there again.
#[must_use]
pub fn is_want(error: Errno) -> bool {
    matches!(
        error,
        Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS
    )
}

impl Pause {
    /// Leaves these alone from now on. Returns whether that is to be told, which it is once.
    pub fn begin<'a, F: AsFd + 'a>(
        &mut self,
        sockets: impl IntoIterator<Item = &'a F>,
        reactor: &Reactor,
    ) -> bool {
        sockets
            .into_iter()
            .for_each(|socket| reactor.remove(socket));
        self.until = Some(Instant::now() + PAUSE);
        !std::mem::replace(&mut self.told, true)
    }

    /// Looks at them again, when it is time.
    ///
    /// # Errors
    /// The system refuses to watch them.
    pub fn end<'a, F: AsFd + 'a>(
        &mut self,
        sockets: impl IntoIterator<Item = (&'a F, Token)>,
        reactor: &Reactor,
    ) -> Result<()> {
        if self.until.take_if(|at| *at <= Instant::now()).is_none() {
            return Ok(());
        }
        for (socket, token) in sockets {
            reactor.add(socket, token, Interest::READ)?;
        }
        Ok(())
    }

    /// How long until it is time.
    #[must_use]
    pub fn wait_limit(&self) -> Option<Duration> {
        let at = self.until?;
        Some(at.saturating_duration_since(Instant::now()))
    }
}
