//! Messages to the user about hosts: one line when a host falls silent, is suspect, drained or
//! lost, and one for each rank that moves.

use rejoin_channel_table::Epoch;
use rejoin_managers_protocol::central::{Event, HostCondition, HostView};
use std::collections::BTreeSet;

/// Messages about hosts, each to be said once.
#[derive(Debug, Default)]
pub(super) struct HostLog {
    /// Hosts that are suspect.
    suspect: BTreeSet<String>,
}

impl HostLog {
    /// The message about an event of a host, or of a rank that moves.
    pub fn message(&mut self, event: &Event) -> Option<String> {
        Some(match event {
            Event::HostSilent { name, .. } => {
                format!(
                    "host {name} is silent; its ranks are suspended until it is reachable again"
                )
            }
            Event::HostSuspected { name, by, failure } => format!(
                "host {name} answers neither host {by} ({failure}) nor the central manager; it is lost if that lasts"
            ),
            Event::HostAnswers { name } => format!("host {name} answers again"),
            Event::HostLinkLost { from, to, failure } => format!(
                "host {from} can't reach host {to} ({failure}), which the central manager reaches; check the network \
                 between them"
            ),
            Event::HostHeard { name } => {
                format!("host {name} is reachable again; its ranks continue")
            }
            Event::HostReplaced {
                name,
                why,
                to,
                epoch: Epoch(epoch),
                ..
            } => format!(
                "host {name} is lost: {why}; its ranks continue on host {to}, and the job rolls back to checkpoint \
                 {epoch}"
            ),
            Event::HostDrains { name, why } => {
                let why = why.as_ref().map(|why| format!(" ({why})"));
                let why = why.unwrap_or_default();
                format!(
                    "host {name} gets no ranks any more; those that it has move to other hosts{why}"
                )
            }
            Event::HostAdded { name } => format!("host {name} is added, and may get ranks"),
            Event::HostChanged(host) => return self.changed(host),
            Event::HostStays { name, why, refusal } => {
                format!("ranks are to leave host {name} ({why}), and can't: {refusal}")
            }
            Event::NoHealth { name, why } => format!(
                "the health command of host {name} (--health) gives no answer: {why}. The host counts as before"
            ),
            Event::EmptyHostLost { name, why } => {
                format!("host {name}, which has no ranks, is lost: {why}")
            }
            event => return of_move(event),
        })
    }

    /// A host takes part in another way than before.
    fn changed(&mut self, host: &HostView) -> Option<String> {
        let HostView {
            name,
            condition,
            why,
            lan: _,
        } = host;
        let why = why.as_deref().unwrap_or_default();
        let was_suspect = self.suspect.remove(name);
        match condition {
            HostCondition::Suspect => {
                self.suspect.insert(name.clone());
                Some(format!(
                    "host {name} is suspect: {why}. It gets no ranks while another host has room"
                ))
            }
            HostCondition::Left => Some(format!("host {name} has left the job: {why}")),
            HostCondition::Active | HostCondition::Spare if was_suspect => {
                Some(format!("host {name} is not suspect any more"))
            }
            // Of other conditions, other events tell.
            _ => None,
        }
    }
}

/// The message about a rank that moves.
fn of_move(event: &Event) -> Option<String> {
    Some(match event {
        Event::Moved {
            rank,
            from,
            to,
            took,
            pause,
            ..
        } => format!(
            "rank {} has moved from host {from} to host {to} in {:.0} ms, paused for {:.0} ms",
            rank.0,
            *took as f64 / 1e6,
            *pause as f64 / 1e6
        ),
        Event::NotMoved {
            rank,
            host,
            to,
            why,
        } => format!(
            "rank {} on host {host} does not move to host {to}: {why}",
            rank.0
        ),
        _ => return None,
    })
}
