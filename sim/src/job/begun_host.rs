//! Hosts as they begin.

use super::host_link::SimLink;
use super::{Host, Shape};
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::local::Local;
use rejoin_managers_protocol::manager_messages::Time;

impl Host {
    /// A host whose local manager begins now, with this link to central.
    pub(super) fn new(
        shape: &Shape,
        (number, drift): (HostIndex, i64),
        now: Time,
        link: SimLink,
    ) -> Host {
        let mut local = Local::new();
        if let Some(terms) = shape.leases {
            local.use_leases(terms, now);
            if terms.detection.probes() {
                local.use_probes(terms.detection);
            }
        }
        if shape.lookups {
            local.use_lookups(number, shape.ranks());
        }
        Host {
            drift,
            still: false,
            displaced: false,
            told: 0,
            local: Some(local),
            link,
            tick: None,
            joined: true,
            table: None,
        }
    }

    /// A host that has no local manager yet.
    pub(super) fn spare(drift: i64) -> Host {
        Host {
            drift,
            still: false,
            displaced: false,
            told: 0,
            local: None,
            link: SimLink::undialed(),
            tick: None,
            joined: false,
            table: None,
        }
    }
}
