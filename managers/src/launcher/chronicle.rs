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
    /// The checkpoint that the job goes back to.
    stands: Option<Epoch>,
}

/// Why no checkpoint was taken, what that means, and what to do about it.
fn refusal(rank: Rank, why: &str, stands: Option<Epoch>) -> String {
    let meanwhile = match stands {
        Some(Epoch(number)) => {
            format!("if a rank is lost, the job goes back to checkpoint {number}")
        }
        None => "if a rank is lost, the job ends".into(),
    };
    format!(
        "no checkpoint can be taken now: rank {}: {why}. Until one can, {meanwhile}. It is tried again; \
         --recovery none does without checkpoints and this warning",
        rank.0
    )
}

fn say(text: &str) {
    // A reader that went away misses it.
    let _ = writeln!(std::io::stderr(), "mpirun: {text}");
}

impl Chronicle {
    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Ordered(_) => {}
            Event::HostSilent { name, .. } => {
                say(&format!(
                    "host {name} is silent; its ranks stand still until it is there again"
                ));
            }
            Event::HostHeard { name } => say(&format!("host {name} is there again")),
            Event::Committed { epoch, .. } => self.stands = Some(*epoch),
            Event::GivenUp { again: true, .. } => {}
            Event::GivenUp { rank, why, .. } => {
                if self.refused.insert(why.clone()) {
                    say(&refusal(*rank, why, self.stands));
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
                let repeated = match *repeated {
                    short @ ..1_000_000_000 => format!("{} ms", millis(short)),
                    long => format!("{:.1} s", long as f64 / 1e9),
                };
                say(&format!(
                    "{name} {ranks} {are} back after {took} ms from {from}, {repeated} of work repeated"
                ));
            }
        }
    }

    /// The central manager ended, and another one took over after so many nanoseconds.
    pub fn again(&self, how: &str, took: u64) {
        let took = millis(took);
        say(&format!(
            "the central manager {how}, started again after {took} ms"
        ));
    }

    /// What an image of a rank can't bring back.
    pub fn caveats(&mut self, rank: Rank, lines: Vec<String>) {
        for line in lines {
            if self.caveats.insert(line.clone()) {
                say(&format!(
                    "if rank {} has to come back from a checkpoint: {line}",
                    rank.0
                ));
            }
        }
    }

    /// A restored rank wrote something else than before.
    pub fn diverged(&mut self, rank: Rank) {
        if !std::mem::replace(&mut self.diverged, true) {
            say(&format!(
                "rank {} does not write again what it wrote before the job went back (it may depend on times or \
                 on the order of messages): some lines above are replaced by those that come now. \
                 --output commit shows only what stays",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_it_means_now() {
        let why = "the program runs 2 threads, and a twin holds one";
        let first = refusal(Rank(3), why, None);
        assert!(
            first.contains("rank 3: the program runs 2 threads"),
            "{first}"
        );
        assert!(
            first.contains("if a rank is lost, the job ends."),
            "{first}"
        );
        assert!(first.contains("--recovery none"), "{first}");
        let later = refusal(Rank(3), why, Some(Epoch(7)));
        assert!(later.contains("goes back to checkpoint 7."), "{later}");
    }
}
