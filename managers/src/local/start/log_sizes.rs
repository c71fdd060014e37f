//! How large the logs of this host's ranks are, and their memory and files of these sizes.

use rejoin_ckpt::anonymous;
use rejoin_ckpt::log_spill::SpillFile;
use rejoin_ckpt::rank_log_memory::{DETERMINANT_BYTES, RankLogMemory};
use rejoin_managers_host::error::{Context, Error, Result};
use rejoin_managers_report::user_log;
use rejoin_wire::{LogSpill, MessageLog, RecoveryMode};
use std::path::Path;

/// Most bytes of messages that a rank has in its receive log where a copy of it is in memory of
/// mpirun.
const MOST_COPIED: u64 = 16 << 20;
/// Most bytes of messages that a rank has in its receive log where there is no copy. All of the log
/// is in use after a while, however little it holds.
const MOST_RECEIVED: u64 = 512 << 20;

/// The sizes for each rank.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSizes {
    /// Bytes of memory for bodies.
    bodies: u64,
    /// The file into which they spill.
    spill: Option<LogSpill>,
    /// Bytes of received messages; 0: the ranks log none.
    pub received: u64,
}

impl LogSizes {
    /// Of ranks that log this and retain so many bytes for other groups.
    pub fn of(mode: &RecoveryMode, log: &MessageLog, limit: u64) -> LogSizes {
        let received = match log.limit {
            _ if !mode.is_optimistic() => 0,
            // A rank comes back with its log on any host.
            0 if log.stable_node => MOST_COPIED,
            _ if log.stable_node => limit.min(MOST_COPIED),
            // What is in it need not be retained.
            _ => (limit / 2).min(MOST_RECEIVED),
        };
        let spill = log.spill.as_ref().map(|spill| sized(spill, limit));
        LogSizes {
            bodies: match spill {
                // Short messages and headers have the other half.
                Some(_) => limit / 2,
                // As many bytes may be held for the last image, and blocks are longer than their
                // bodies.
                None => limit.saturating_mul(2).saturating_add(limit / 4),
            },
            spill,
            received: anonymous::allow(received).map_or(0, |()| received),
        }
    }

    /// Where ranks spill, and how much.
    pub fn spill(&self) -> Option<&LogSpill> {
        self.spill.as_ref()
    }

    /// Memory, and the file, for a rank that begins with the job.
    ///
    /// # Errors
    /// The system gives none.
    pub fn make(&self) -> Result<(RankLogMemory, Option<SpillFile>)> {
        let spill = self.spill.as_ref().map(make_file).transpose()?;
        let memory = RankLogMemory::new(allowed(self.bodies)).context("make memory for a log")?;
        Ok((memory, spill))
    }

    /// Memory, and the file, for a rank that comes from another host. Where no file can be made, it
    /// has memory alone: as much as it may have had there.
    ///
    /// # Errors
    /// The errors of [`LogSizes::make`].
    pub fn make_later(&self) -> Result<(RankLogMemory, Option<SpillFile>)> {
        let why = match self.spill {
            Some(_) => match self.make() {
                Ok(made) => return Ok(made),
                Err(why) => Some(why),
            },
            None => None,
        };
        if let Some(why) = why {
            user_log::say(&format!("a log has memory alone: {why}"));
        }
        let memory = RankLogMemory::new(allowed(u64::MAX)).context("make memory for a log")?;
        Ok((memory, None))
    }
}

/// Twice as much as stays in memory, unless the user has said it.
fn sized(spill: &LogSpill, limit: u64) -> LogSpill {
    let bytes = match spill.bytes {
        0 => limit.saturating_mul(2),
        given => given,
    };
    LogSpill {
        folder: spill.folder.clone(),
        bytes,
    }
}

fn make_file(spill: &LogSpill) -> Result<SpillFile> {
    let LogSpill { folder, bytes } = spill;
    SpillFile::new(Path::new(folder), *bytes).map_err(|error| {
        let host = nix::unistd::gethostname().unwrap_or_default();
        let host = host.to_string_lossy();
        let hint = match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR | libc::EACCES | libc::EROFS) => "",
            _ => " (--log-spill-limit)",
        };
        Error::Log(format!(
            "--log-spill {folder}: no file of {bytes} bytes for a rank on {host}{hint}: {error}"
        ))
    })
}

/// So many bytes of bodies, if this process may have them. Without this room, bodies lie in memory
/// of their rank.
fn allowed(bodies: u64) -> u64 {
    let allowed = anonymous::allow(bodies.saturating_add(DETERMINANT_BYTES as u64));
    allowed.map_or(0, |()| bodies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(folder: &str, bytes: u64) -> LogSizes {
        let spill = LogSpill {
            folder: folder.into(),
            bytes,
        };
        LogSizes {
            bodies: 4096,
            spill: Some(sized(&spill, 8192)),
            received: 0,
        }
    }

    fn of(spill: bool, optimistic: bool, stable_node: bool, limit: u64) -> LogSizes {
        let folder = "/tmp".to_string();
        let log = MessageLog {
            limit,
            spill: spill.then_some(LogSpill { folder, bytes: 0 }),
            stable_node,
            ..MessageLog::default()
        };
        let mode = match optimistic {
            true => RecoveryMode::ReceiverLog(log.clone()),
            false => RecoveryMode::SenderLog(log.clone()),
        };
        LogSizes::of(&mode, &log, limit)
    }

    #[test]
    fn the_limit_is_shared_by_what_a_mode_has() {
        const MB: u64 = 1 << 20;
        let sender = of(false, false, false, 64 * MB);
        assert_eq!((sender.bodies, sender.received), (144 * MB, 0));
        let spilling = of(true, false, true, 64 * MB);
        assert_eq!((spilling.bodies, spilling.received), (32 * MB, 0));
        let file = spilling.spill().map(|spill| spill.bytes);
        assert_eq!(file, Some(128 * MB));
        let receiver = of(false, true, false, 64 * MB);
        assert_eq!(receiver.received, 32 * MB);
        assert_eq!(of(false, true, false, 4096 * MB).received, MOST_RECEIVED);
        assert_eq!(of(false, true, true, 64 * MB).received, MOST_COPIED);
    }

    #[test]
    fn a_file_has_twice_the_limit_or_what_the_user_says() {
        let here = std::env::temp_dir();
        let here = here.to_str().expect("a path in UTF-8");
        assert_eq!(sizes(here, 0).spill().map(|spill| spill.bytes), Some(16384));
        let some = sizes(here, 1 << 20);
        assert_eq!(some.spill().map(|spill| spill.bytes), Some(1 << 20));
        assert!(some.make().is_ok_and(|(_, file)| file.is_some()));
    }

    #[test]
    fn a_job_does_not_begin_without_its_file_and_a_later_rank_has_memory() {
        let some = sizes("/nowhere/at/all", 0);
        let why = some.make().expect_err("no folder").to_string();
        assert!(
            why.contains("--log-spill /nowhere/at/all: no file of 16384"),
            "{why}"
        );
        assert!(some.make_later().is_ok_and(|(_, file)| file.is_none()));
    }
}
