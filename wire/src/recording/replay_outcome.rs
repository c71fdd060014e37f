//! How a replay went, as it tells the one who started it.

use std::fmt;

/// Names the recording of a process that is to be replayed.
pub const RECORDING_VARIABLE: &str = "REJOIN_REPLAY";
/// Names the file into which a replay writes its outcome.
pub const OUTCOME_VARIABLE: &str = "REJOIN_REPLAY_OUTCOME";

/// How a replay went. A replay that ends without `MPI_Finalize` has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// The rank did all that is recorded, and no more.
    Same {
        /// Messages that it sent.
        sent: u64,
        /// Messages that it received.
        received: u64,
    },
    /// The rank did something else: what, and what is recorded.
    Differs(String),
    /// The recording ends before the rank does: where.
    Ended(String),
}

impl ReplayOutcome {
    /// The outcome in this text; `None`: there is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (word, rest) = text.trim_end_matches('\n').split_once(' ')?;
        match word {
            "same" => {
                let (sent, received) = rest.split_once(' ')?;
                Some(Self::Same {
                    sent: sent.parse().ok()?,
                    received: received.parse().ok()?,
                })
            }
            "differs" => Some(Self::Differs(rest.to_owned())),
            "ended" => Some(Self::Ended(rest.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for ReplayOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same { sent, received } => write!(f, "same {sent} {received}"),
            Self::Differs(text) => write!(f, "differs {text}"),
            Self::Ended(text) => write!(f, "ended {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_as_they_are_written() {
        let same = ReplayOutcome::Same {
            sent: 3,
            received: 4,
        };
        let others = ["MPI_Send, and more", ""].map(str::to_owned);
        let [differs, ended] = others;
        let all = [
            same,
            ReplayOutcome::Differs(differs),
            ReplayOutcome::Ended(ended),
        ];
        for outcome in all {
            assert_eq!(ReplayOutcome::parse(&format!("{outcome}\n")), Some(outcome));
        }
        for nothing in ["", "same", "same 3", "same x 4", "else 1"] {
            assert_eq!(ReplayOutcome::parse(nothing), None, "{nothing}");
        }
    }
}
