//! The job's one verdict: its exit code and the last line that the user reads.

use crate::manager_messages::{Cause, End, Stage};
use crate::policy::Refusal;
use rejoin_channel_table::{Epoch, Rank};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Exit code of a job that ran into its time limit (as `timeout(1)` has it).
pub const TIMED_OUT: i32 = 124;

/// Exit code of a job that stopped with a last checkpoint in files (as HTCondor has it for programs
/// that checkpoint themselves).
pub const STOPPED: i32 = 85;

/// How the job ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// Every rank ended well.
    Success,
    /// A rank failed first.
    Failed {
        /// The rank that failed.
        rank: Rank,
        /// Name of its host.
        host: String,
        /// Process id of the rank, 0 when it never had one.
        pid: u32,
        /// The cause of the failure.
        cause: Cause,
        /// Why that is not masked, where one may ask.
        refusal: Option<Refusal>,
    },
    /// The time limit was reached.
    TimedOut {
        /// The limit in milliseconds.
        limit: u64,
    },
    /// The output of the ranks can't be written.
    OutputLost {
        /// The system's reason.
        why: String,
    },
    /// The output of the ranks has no reader (as in `mpirun … | head`).
    Unread,
    /// A signal to the launcher ended it.
    Interrupted {
        /// Number of the signal.
        signal: i32,
    },
    /// The user asked the job to stop with a last checkpoint, and this one is in files.
    Stopped {
        /// Number of the checkpoint.
        epoch: Epoch,
    },
    /// A host takes no part any more, and its ranks with it.
    HostLost {
        /// Name of the host.
        host: String,
        /// How that is known.
        why: String,
    },
    /// Ranks wait in `MPI_Init` for one that ended without calling it.
    NeverRegistered {
        /// A rank that ended without `MPI_Init`.
        rank: Rank,
        /// A rank that called it.
        waiting: Rank,
    },
    /// Two ranks have different sizes in force where all must have the same.
    Differing {
        /// The variable that sets it.
        variable: String,
        /// A rank and its value.
        one: (Rank, String),
        /// Another rank and its value.
        other: (Rank, String),
    },
    /// There can be no central manager any more.
    CentralLost {
        /// The reason, one line.
        why: String,
    },
}

impl Verdict {
    /// The launcher's exit code: 0, the failing rank's own code, 128 + signal, or 1.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            Verdict::Success => 0,
            Verdict::Failed { cause, .. } => cause_code(cause),
            Verdict::TimedOut { .. } => TIMED_OUT,
            Verdict::Stopped { .. } => STOPPED,
            Verdict::Interrupted { signal } => 128 + signal,
            Verdict::Unread => 128 + PIPE,
            Verdict::HostLost { .. }
            | Verdict::CentralLost { .. }
            | Verdict::OutputLost { .. }
            | Verdict::NeverRegistered { .. }
            | Verdict::Differing { .. } => 1,
        }
    }
}

/// SIGPIPE, which ends a program that writes without a reader.
const PIPE: i32 = 13;

fn cause_code(cause: &Cause) -> i32 {
    match cause {
        Cause::Ended {
            end: End::Exited(code),
            ..
        } if code & 0xff != 0 => code & 0xff,
        Cause::Ended {
            end: End::Signaled(signal),
            ..
        } => 128 + signal,
        Cause::Aborted { code, .. } if code & 0xff != 0 => code & 0xff,
        // Exit codes have eight bits; a failure must never look like success.
        _ => 1,
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Success => write!(f, "every rank ended well"),
            Verdict::Failed {
                rank,
                host,
                pid,
                cause,
                refusal,
            } => {
                write!(f, "rank {} on host {host}", rank.0)?;
                if *pid != 0 {
                    write!(f, " (pid {pid})")?;
                }
                write!(f, " {}", Described(cause))?;
                match refusal {
                    Some(refusal) => write!(f, ", which can't be masked: {refusal}"),
                    None => Ok(()),
                }
            }
            Verdict::TimedOut { limit } => {
                write!(
                    f,
                    "the time limit of {} s was reached",
                    *limit as f64 / 1000.0
                )
            }
            Verdict::Interrupted { signal } => {
                write!(
                    f,
                    "ended by {}, which was sent to mpirun",
                    SignalName(*signal)
                )
            }
            Verdict::Stopped { epoch } => {
                write!(
                    f,
                    "the job was to stop, and checkpoint {epoch} of all ranks is in files"
                )
            }
            Verdict::OutputLost { why } => {
                write!(f, "the ranks' output can't be written: {why}")
            }
            Verdict::Unread => write!(f, "nobody reads the ranks' output any more"),
            Verdict::HostLost { host, why } => {
                write!(f, "host {host} is lost, and its ranks with it: {why}")
            }
            Verdict::CentralLost { why } => {
                write!(f, "there is no central manager any more: {why}")
            }
            Verdict::NeverRegistered { rank, waiting } => write!(
                f,
                "rank {} ended without calling MPI_Init while rank {} called it",
                rank.0, waiting.0
            ),
            Verdict::Differing {
                variable,
                one,
                other,
            } => write!(
                f,
                "{variable} is {} on rank {} and {} on rank {}, and all ranks need the same",
                one.1, one.0.0, other.1, other.0.0
            ),
        }
    }
}

/// A cause as people read it, after the name of the rank: `was killed by signal 9 (SIGKILL)`.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a>(pub &'a Cause);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Cause::Ended { end, stage } => {
                match end {
                    End::Exited(code) => write!(f, "exited with code {code}")?,
                    End::Signaled(signal) => write!(f, "was killed by {}", SignalName(*signal))?,
                    End::Unknown => write!(f, "ended, and only its wrapper knows how")?,
                }
                match stage {
                    Stage::Spawned | Stage::Left | Stage::Finalized => Ok(()),
                    Stage::Registered if !matches!(end, End::Signaled(_)) => {
                        write!(f, " after MPI_Init without MPI_Finalize")
                    }
                    Stage::Registered => Ok(()),
                    Stage::Finalizing => write!(f, " in MPI_Finalize"),
                }
            }
            Cause::Aborted { code, why } if why.is_empty() => {
                write!(
                    f,
                    "aborted the job with code {code} (by MPI_Abort or a fatal error)"
                )
            }
            Cause::Aborted { code, why } => {
                write!(f, "aborted the job with code {code}: {why}")
            }
            Cause::NotStarted { why } => write!(f, "could not be started: {why}"),
            Cause::Misbehaved { why } => write!(f, "was ended: {why}"),
            Cause::NotStopped { why } => write!(f, "could not be stopped: {why}"),
            Cause::Orphaned { on } => write!(
                f,
                "depends on messages of rank {} that were lost with a host",
                on.0
            ),
        }
    }
}

/// A signal as people know it: `signal 9 (SIGKILL)`. Linux numbers, as on x86-64 and Arm.
#[derive(Debug, Clone, Copy)]
pub struct SignalName(pub i32);

impl fmt::Display for SignalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 31] = [
            "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV",
            "USR2", "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN",
            "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
        ];
        write!(f, "signal {}", self.0)?;
        let index = usize::try_from(self.0).unwrap_or(0).wrapping_sub(1);
        match NAMES.get(index) {
            Some(name) => write!(f, " (SIG{name})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(cause: Cause) -> Verdict {
        Verdict::Failed {
            rank: Rank(2),
            host: "a".into(),
            pid: 77,
            cause,
            refusal: None,
        }
    }

    #[test]
    fn codes_and_lines_tell_what_happened() {
        let killed = failed(Cause::Ended {
            end: End::Signaled(9),
            stage: Stage::Registered,
        });
        assert_eq!(killed.exit_code(), 137);
        let line = "rank 2 on host a (pid 77) was killed by signal 9 (SIGKILL)";
        assert_eq!(killed.to_string(), line);

        let quiet = failed(Cause::Ended {
            end: End::Exited(0),
            stage: Stage::Registered,
        });
        assert_eq!(quiet.exit_code(), 1);
        assert!(
            quiet
                .to_string()
                .ends_with("code 0 after MPI_Init without MPI_Finalize")
        );

        let abort = failed(Cause::Aborted {
            code: 7,
            why: "no input".into(),
        });
        assert_eq!(abort.exit_code(), 7);
        assert!(
            abort
                .to_string()
                .ends_with("aborted the job with code 7: no input")
        );

        let round = failed(Cause::Aborted {
            code: 256,
            why: String::new(),
        });
        assert_eq!(round.exit_code(), 1);
        assert_eq!(Verdict::Interrupted { signal: 2 }.exit_code(), 130);
        assert_eq!(Verdict::Unread.exit_code(), 141);
        let stopped = Verdict::Stopped { epoch: Epoch(7) };
        assert_eq!(stopped.exit_code(), 85);
        let line = "the job was to stop, and checkpoint 7 of all ranks is in files";
        assert_eq!(stopped.to_string(), line);
        let lost = Verdict::OutputLost { why: "full".into() };
        assert_eq!(lost.exit_code(), 1);
        let differing = Verdict::Differing {
            variable: "REJOIN_WINDOW".into(),
            one: (Rank(0), "5".into()),
            other: (Rank(2), "6".into()),
        };
        assert_eq!(differing.exit_code(), 1);
        let line = "REJOIN_WINDOW is 5 on rank 0 and 6 on rank 2, and all ranks need the same";
        assert_eq!(differing.to_string(), line);
        assert_eq!(
            Verdict::TimedOut { limit: 1500 }.to_string(),
            "the time limit of 1.5 s was reached"
        );
    }

    #[test]
    fn unknown_signals_have_numbers_only() {
        assert_eq!(SignalName(34).to_string(), "signal 34");
        assert_eq!(SignalName(-1).to_string(), "signal -1");
        assert_eq!(SignalName(31).to_string(), "signal 31 (SIGSYS)");
    }
}
