//! The lease of a host that is reached over a network.

use crate::lease::{Extension, Holder, LeaseDuty, Terms};
use crate::manager_messages::{Time, ToLocal};
use rejoin_channel_table::ImageId;

/// The lease of this host, and the order to start ranks that waits for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct HostLease {
    /// Of a host that is reached over a network.
    holder: Option<Holder>,
    /// The order to start ranks, until there is a lease.
    awaits: Option<ToLocal>,
    /// The orders of the same generation behind it.
    after: Vec<ToLocal>,
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

    /// Central has granted a renewal. Returns the longer lease, if it is one.
    pub fn granted(&mut self, now: Time, number: u64) -> Option<Extension> {
        self.holder.as_mut()?.granted(now, number)
    }

    /// This order to start ranks waits for the lease.
    pub fn postpone(&mut self, order: ToLocal) {
        self.awaits = Some(order);
        self.after.clear();
    }

    /// The orders that waited, in their order.
    pub fn take_orders(&mut self) -> Vec<ToLocal> {
        let after = std::mem::take(&mut self.after);
        self.awaits.take().into_iter().chain(after).collect()
    }

    /// Ranks are to come back before any has been started here: in a later generation all of them
    /// start with that, in the same one these come later.
    pub fn come_back(&mut self, order: ToLocal) {
        let (
            Some(ToLocal::Spawn {
                generation,
                ranks,
                from,
                regions,
                moved,
                ..
            }),
            ToLocal::Restore {
                generation: later,
                ranks: anew,
                from: image,
                regions: start,
                moved: others,
            },
        ) = (&mut self.awaits, &order)
        else {
            return;
        };
        if *generation < *later {
            (*generation, *ranks, *moved) = (*later, anew.clone(), others.clone());
            (*from, *regions) = (image.and_then(ImageId::checkpoint), *start);
            self.after.clear();
        } else if *generation == *later {
            self.after.push(order);
        }
    }
}
