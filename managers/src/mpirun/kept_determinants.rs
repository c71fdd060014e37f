//! Copies of the determinants of ranks. They are here until a rank's images have what they repeat,
//! and go to the host on which the rank comes back. Those of a named job are also in a file.

use super::launch_order::Launch;
use crate::error::{Error, Result, system_text};
use crate::launch::determinants_file::{DeterminantCopies, DeterminantsFile};
use crate::launch::named_job::NamedJob;
use crate::report::user_log;
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_logging::determinants::{CopiedLog, DeterminantError, LogPart, StableMark, StableMarks};
use rejoin_managers_protocol::central::HostIndex;
use std::collections::BTreeMap;

/// The copies, and their file.
#[derive(Default)]
pub(super) struct KeptDeterminants {
    copies: DeterminantCopies,
    file: Option<DeterminantsFile>,
    /// Determinants of this rank are missing.
    failed: Option<(Rank, DeterminantError)>,
    /// The latest incarnation of each rank that has recorded some or comes back. What an earlier
    /// one has recorded on another host may come later: nothing may depend on it.
    latest: BTreeMap<Rank, Incarnation>,
    /// Processes that wait for what is kept of their ranks.
    asked: Vec<AskedLog>,
    /// Parts of which more is to come, that was read at the same moment.
    incoming: BTreeMap<Rank, LogPart>,
    /// How far they are stored, with all that they depend on.
    marks: StableMarks,
    /// The hosts of ranks that have asked for that.
    hosts: BTreeMap<Rank, HostIndex>,
    /// A rank has asked since the file was written.
    is_asked: bool,
}

/// A process that begins, and needs what is kept of its rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct AskedLog {
    /// The host on which it begins.
    pub host: HostIndex,
    /// The rank whose log it needs.
    pub rank: Rank,
    /// Which process of the rank it is.
    pub incarnation: Incarnation,
    /// The process before it may still continue.
    pub moves: bool,
}

impl KeptDeterminants {
    /// Of a launch of a job that logs messages: those of the launch before, or of the job that is
    /// continued, if it begins from images.
    ///
    /// # Errors
    /// The determinants are not there, or can't be stored.
    pub(super) fn of(launch: &Launch, before: Option<KeptDeterminants>) -> Result<Self> {
        let options = &launch.plan.options;
        if options.recovery.log().is_none() {
            return Ok(KeptDeterminants::default());
        }
        let named = NamedJob::of(&launch.plan, launch.generation, launch.before);
        let copies = match (launch.plan.from, before, &named) {
            (Some(_), Some(_), _) if options.recovery.is_optimistic() => {
                let why = "a job with --recovery receiver-log can't be launched again yet";
                return Err(Error::Log(why.into()));
            }
            (Some(_), Some(before), _) => before.copies,
            (Some(_), None, Some(named)) => {
                DeterminantsFile::load(named.folder(), named.id()).map_err(Error::Log)?
            }
            _ => DeterminantCopies::new(),
        };
        let made = named.map(|named| DeterminantsFile::create(named.folder(), named.id(), &copies));
        Ok(KeptDeterminants {
            copies,
            file: made.transpose().map_err(Error::Log)?,
            ..KeptDeterminants::default()
        })
    }

    /// Keeps the next part of a rank's determinants. Its host is told that when it is stored, if a
    /// mark comes with it.
    pub(super) fn add(
        &mut self,
        host: HostIndex,
        (rank, incarnation, mut part): (Rank, Incarnation, LogPart),
        mark: Option<StableMark>,
    ) {
        let latest = self.latest.entry(rank).or_insert(incarnation);
        if incarnation < *latest {
            return;
        }
        *latest = incarnation;
        if let Some(mut begun) = self.incoming.remove(&rank) {
            part = match begun.extend(part) {
                Ok(()) => begun,
                Err(other) => other,
            };
        }
        if mark.is_none() {
            self.incoming.insert(rank, part);
            return;
        }
        if let Some(file) = &mut self.file
            && let Err(error) = file.append(rank, &part)
        {
            self.no_file(&error);
        }
        let copy = self.copies.entry(rank).or_default();
        if let Err(error) = copy.add(&part) {
            self.failed = Some((rank, error));
            return;
        }
        self.marks.add(rank, &part);
        if let Some(mark) = mark {
            self.marks.stored(mark);
            self.hosts.insert(rank, host);
            self.is_asked = true;
        }
    }

    /// A process of a rank begins on this host, and needs what is kept of the rank. `moves`: the
    /// one before may still continue.
    pub(super) fn ask(
        &mut self,
        host: HostIndex,
        (rank, incarnation): (Rank, Incarnation),
        moves: bool,
    ) {
        if !moves {
            let latest = self.latest.entry(rank).or_insert(incarnation);
            *latest = incarnation.max(*latest);
        }
        self.asked.push(AskedLog {
            host,
            rank,
            incarnation,
            moves,
        });
    }

    /// The processes that have asked since the last call.
    pub(super) fn take_asked(&mut self) -> Vec<AskedLog> {
        std::mem::take(&mut self.asked)
    }

    /// All that is kept of a rank.
    pub(super) fn of_rank(&self, rank: Rank) -> LogPart {
        let copy = self.copies.get(&rank);
        copy.map(CopiedLog::whole).unwrap_or_default()
    }

    /// Stores what was noted. Returns what hosts are to be told.
    ///
    /// # Errors
    /// Something is missing, so that a rank waits in vain.
    pub(super) fn store(&mut self) -> Result<Vec<(HostIndex, StableMark)>> {
        if let Some((rank, error)) = self.failed.take() {
            let why = format!("determinants of rank {}: {error}", rank.0);
            return Err(Error::Log(why));
        }
        if !std::mem::take(&mut self.is_asked) {
            return Ok(Vec::new());
        }
        if let Some(file) = &mut self.file
            && let Err(error) = file.sync(&self.copies)
        {
            self.no_file(&error);
        }
        // The marks of a rank ascend: its last answer is that of all.
        let last: BTreeMap<Rank, StableMark> = self
            .marks
            .advance()
            .into_iter()
            .map(|mark| (mark.rank, mark))
            .collect();
        let of_host = |mark: StableMark| Some((*self.hosts.get(&mark.rank)?, mark));
        Ok(last.into_values().filter_map(of_host).collect())
    }

    /// The file lacks something from here on.
    fn no_file(&mut self, error: &std::io::Error) {
        if let Some(file) = self.file.take() {
            file.give_up();
            user_log::say(&format!(
                "the job can't be restarted, because nondeterministic answers are not stored: {}",
                system_text(error)
            ));
        }
    }
}
