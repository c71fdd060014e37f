//! Messages to the user about hosts: one line when a host falls silent, is suspect, drained or
//! lost, and one for each rank that moves.

use rejoin_channel_table::Epoch;
use rejoin_managers_protocol::central::{Event, HostCondition, HostView};
use std::collections::BTreeSet;

/// Messages about hosts, each to be said once.
#[derive(Debug, Default)]
pub(super) struct HostLog {
    /// Ranks log messages: those of a lost host return alone.
    logs_messages: bool,
    /// Hosts that are suspect.
    suspect: BTreeSet<String>,
}

impl HostLog {
    /// For a job whose ranks log messages, or not.
    pub fn new(logs_messages: bool) -> HostLog {
        HostLog {
            logs_messages,
            ..HostLog::default()
        }
    }

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
                epoch,
                regions,
                ..
            } => {
                let to = (name != to).then_some(to);
                let then = self.continuation(to, (*epoch, *regions));
                format!("host {name} is lost: {why}; {then}")
            }
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

    /// How the job continues without a lost host. `to`: the host on which the lost one's ranks are
    /// now; `None`: it had none, but images of ranks that have moved away. `from`: the checkpoint,
    /// or that of registered memory; `None`: there was none that could count.
    fn continuation(
        &self,
        to: Option<&String>,
        (from, regions): (Option<Epoch>, Option<Epoch>),
    ) -> String {
        let Some(Epoch(epoch)) = from else {
            let to = to.map(|to| format!("its ranks continue on host {to}, and "));
            let to = to.unwrap_or_default();
            let from = match regions {
                Some(Epoch(epoch)) => {
                    format!("all ranks start again with registered memory of checkpoint {epoch}")
                }
                None => "the job begins anew, since it had no checkpoint yet".into(),
            };
            return format!("{to}{from}");
        };
        match (to, self.logs_messages) {
            (Some(to), false) => format!(
                "its ranks continue on host {to}, and the job rolls back to checkpoint {epoch}"
            ),
            (Some(to), true) => format!(
                "its ranks continue on host {to} from checkpoint {epoch}, and ranks that need not \
                 return go on"
            ),
            (None, false) => format!("it had no ranks; the job rolls back to checkpoint {epoch}"),
            (None, true) => format!(
                "it had no ranks; those whose images it had return to checkpoint {epoch}, and \
                 others go on"
            ),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::Generation;

    #[test]
    fn a_lost_host_does_not_continue_on_itself_and_a_group_returns_alone() {
        let line_from = |logs: bool, to: &str, epoch| {
            let lost = Event::HostReplaced {
                name: "h4".into(),
                why: "no power".into(),
                to: to.into(),
                generation: Generation(1),
                epoch,
                regions: None,
            };
            HostLog::new(logs).message(&lost).expect("a line")
        };
        let line = |logs: bool, to: &str| line_from(logs, to, Some(Epoch(7)));
        let anew = line_from(true, "h2", None);
        assert!(
            anew.ends_with("on host h2, and the job begins anew, since it had no checkpoint yet")
        );
        let begins = "host h4 is lost: no power; ";
        let rolls = line(false, "h2");
        assert!(rolls.starts_with(begins) && rolls.contains("on host h2, and the job rolls back"));
        let alone = line(true, "h2");
        assert!(alone.contains("on host h2 from checkpoint 7") && !alone.contains("the job"));
        let empty = [line(false, "h4"), line(true, "h4")];
        assert!(
            empty
                .iter()
                .all(|line| line.starts_with(&format!("{begins}it had no ranks")))
        );
    }
}
