//! What the user reads about checkpoints and recoveries: one line when a rank is lost, one when it is
//! back, one for what can't be promised.

use rejoin_channel_table::{Epoch, Rank};
use rejoin_managers_protocol::central::Event;
use rejoin_managers_protocol::verdict::Described;
use std::collections::BTreeSet;
use std::io::Write;

/// Tells the user, each thing once.
#[derive(Debug, Default)]
pub(super) struct Chronicle {
    /// Ranks that are being brought back.
    lost: BTreeSet<Rank>,
    /// What was said about images that can't be taken.
    refused: BTreeSet<String>,
    caveats: BTreeSet<String>,
    diverged: bool,
}

fn say(text: &str) {
    // A reader that went away misses it.
    let _ = writeln!(std::io::stderr(), "mpirun: {text}");
}

impl Chronicle {
    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Ordered(_) | Event::Committed { .. } => {}
            Event::GivenUp { rank, why, .. } => {
                if self.refused.insert(why.clone()) {
                    say(&format!(
                        "no checkpoint can be taken of rank {}: {why}. Until one can, a failure goes back \
                         to the last checkpoint, and without one it ends the job",
                        rank.0
                    ));
                }
            }
            Event::Lost {
                rank,
                host,
                pid,
                cause,
                ..
            } => {
                self.lost.insert(*rank);
                let pid = if *pid == 0 {
                    String::new()
                } else {
                    format!(" (pid {pid})")
                };
                let how = Described(cause);
                say(&format!("rank {} on host {host}{pid} {how}", rank.0));
            }
            Event::Recovered {
                epoch,
                took,
                repeated,
                ..
            } => {
                let ranks: Vec<_> = self.lost.iter().map(|rank| rank.0.to_string()).collect();
                self.lost.clear();
                let (name, are) = match ranks.len() {
                    1 => ("rank", "is"),
                    _ => ("ranks", "are"),
                };
                let ranks = ranks.join(", ");
                let took = millis(*took);
                let from = match epoch {
                    Some(Epoch(number)) => format!("checkpoint {number}"),
                    None => "the start".to_string(),
                };
                let repeated = *repeated as f64 / 1e9;
                say(&format!(
                    "{name} {ranks} {are} back after {took} ms from {from}, {repeated:.1} s of work repeated"
                ));
            }
        }
    }

    /// What an image of a rank can't bring back.
    pub fn caveats(&mut self, rank: Rank, lines: Vec<String>) {
        for line in lines {
            if self.caveats.insert(line.clone()) {
                say(&format!("after a recovery of rank {}: {line}", rank.0));
            }
        }
    }

    /// A restored rank wrote something else than before.
    pub fn diverged(&mut self, rank: Rank) {
        if !std::mem::replace(&mut self.diverged, true) {
            say(&format!(
                "rank {} does not write again what it wrote before it was lost (times? arrival orders?): \
                 its output goes on with the new",
                rank.0
            ));
        }
    }
}

/// Milliseconds with as many digits as mean something.
fn millis(nanoseconds: u64) -> String {
    let millis = nanoseconds as f64 / 1e6;
    if millis < 10.0 {
        format!("{millis:.1}")
    } else {
        format!("{millis:.0}")
    }
}
