//! The lease of a host that is reached over a network.

use crate::lease::{Holder, LeaseDuty, Terms};
use crate::manager_messages::{MovedRank, Time, ToLocal};
use rejoin_channel_table::{Generation, Incarnation, Rank};

/// The lease of this host, and the order to start ranks that waits for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct HostLease {
    /// Of a host that is reached over a network.
    holder: Option<Holder>,
    /// The order to start ranks, until there is a lease.
    awaits: Option<ToLocal>,
}

impl HostLease {
    /// Nothing runs without a lease from now on.
    pub fn begin(&mut self, terms: Terms, now: Time) {
        self.holder = Some(Holder::new(terms, now));
    }

    pub fn deadline(&self) -> Option<Time> {
        self.holder.as_ref()?.deadline()
    }

    /// Ranks may not run now.
    pub fn is_suspended(&self) -> bool {
        self.holder.as_ref().is_some_and(|lease| !lease.holds())
    }

    /// The next thing to do for the lease.
    pub fn due(&mut self, now: Time) -> Option<LeaseDuty> {
        self.holder.as_mut()?.due(now)
    }

    /// Central has granted a renewal. `true`: ranks may run again.
    pub fn granted(&mut self, now: Time, number: u64) -> bool {
        let lease = self.holder.as_mut();
        lease.is_some_and(|lease| lease.granted(now, number))
    }

    /// This order to start ranks waits for the lease.
    pub fn postpone(&mut self, order: ToLocal) {
        self.awaits = Some(order);
    }

    /// The order that waited.
    pub fn take_order(&mut self) -> Option<ToLocal> {
        self.awaits.take()
    }

    /// An order to start ranks waits.
    pub fn awaits(&self) -> bool {
        self.awaits.is_some()
    }

    /// The job starts anew before any rank has been started here.
    pub fn begin_in(
        &mut self,
        later: Generation,
        anew: Vec<(Rank, Incarnation)>,
        others: Vec<MovedRank>,
    ) {
        if let Some(ToLocal::Spawn {
            generation,
            ranks,
            moved,
            ..
        }) = &mut self.awaits
            && *generation < later
        {
            (*generation, *ranks, *moved) = (later, anew, others);
        }
    }
}
