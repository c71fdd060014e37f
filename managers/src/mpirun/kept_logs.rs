//! Copies of the logs of ranks: of their determinants, until images have what they repeat, and of
//! messages that senders need not retain, although the receiver's host may be lost. They go to the
//! host on which a rank comes back. Determinants of a named job are also in a file.

use super::launch_order::Launch;
use crate::launch::determinants_file::{DeterminantCopies, DeterminantsFile};
use crate::launch::local_messages::{MOST_RECEIVED_WORDS, MOST_RECORDS, MpirunToLocal};
use crate::launch::named_job::NamedJob;
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_logging::determinants::{CopiedLog, LogPart, StableMark, StableMarks};
use rejoin_logging::receive_log::{CopiedReceives, ReceivedPart};
use rejoin_managers_host::error::{Error, Result, system_text};
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_report::user_log;
use std::collections::BTreeMap;

/// The copies, and the file.
#[derive(Default)]
pub(super) struct KeptLogs {
    determinants: DeterminantCopies,
    received: BTreeMap<Rank, CopiedReceives>,
    file: Option<DeterminantsFile>,
    /// What is missing of a rank.
    failed: Option<String>,
    /// The latest incarnation of each rank that has logged something or comes back. What an earlier
    /// one has logged on another host may come later: nothing may depend on it.
    latest: BTreeMap<Rank, Incarnation>,
    /// Processes that wait for what is kept of their ranks.
    asked: Vec<RequestedLog>,
    /// Parts of which more is to come, that was read at the same moment.
    incoming: BTreeMap<Rank, LogPart>,
    /// How far determinants are stored, with all that they depend on.
    marks: StableMarks,
    /// The hosts of ranks that have asked for that.
    hosts: BTreeMap<Rank, HostIndex>,
    /// A rank has asked since the file was written.
    is_asked: bool,
    /// How far received messages are stored, and the hosts that are to be told.
    received_marks: Vec<(HostIndex, StableMark)>,
}

/// A process that begins, and needs what is kept of its rank.
struct RequestedLog {
    /// The host on which it begins.
    host: HostIndex,
    /// The rank whose log it needs.
    rank: Rank,
    /// Which process of the rank it is.
    incarnation: Incarnation,
    /// The process before it may still continue.
    moves: bool,
}

impl KeptLogs {
    /// Of a launch of a job that logs messages: the determinants of the job that is continued, if
    /// it begins from images.
    ///
    /// # Errors
    /// The determinants are not there, or can't be stored.
    pub(super) fn of(launch: &Launch) -> Result<Self> {
        let options = &launch.plan.options;
        if options.recovery.log().is_none() {
            return Ok(KeptLogs::default());
        }
        let named = NamedJob::of(&launch.plan, launch.generation, launch.before);
        let determinants = match (launch.plan.from, &named) {
            (Some(_), Some(named)) => {
                DeterminantsFile::load(named.folder(), named.id()).map_err(Error::Log)?
            }
            _ => DeterminantCopies::new(),
        };
        let create =
            |named: NamedJob| DeterminantsFile::create(named.folder(), named.id(), &determinants);
        let file = named.map(create).transpose().map_err(Error::Log)?;
        Ok(KeptLogs {
            determinants,
            file,
            ..KeptLogs::default()
        })
    }

    /// A rank starts anew: what its earlier processes have logged is of another course of the job.
    pub(super) fn start_again(&mut self, rank: Rank) {
        self.determinants.remove(&rank);
        self.incoming.remove(&rank);
        self.received.remove(&rank);
    }

    /// A process of this incarnation logs something, or begins: an earlier one counts no more.
    /// Returns whether this one counts.
    fn is_present(&mut self, rank: Rank, incarnation: Incarnation) -> bool {
        let latest = self.latest.entry(rank).or_insert(incarnation);
        *latest = incarnation.max(*latest);
        *latest == incarnation
    }

    /// Keeps the next part of what a rank has received. Its host is told that.
    pub(super) fn add_received(
        &mut self,
        host: HostIndex,
        (rank, incarnation): (Rank, Incarnation),
        part: &ReceivedPart,
    ) {
        if !self.is_present(rank, incarnation) {
            return;
        }
        match self.received.entry(rank).or_default().add(part) {
            Ok(()) => {
                let mark = part.end();
                let stored = StableMark {
                    rank,
                    incarnation,
                    mark,
                };
                self.received_marks.push((host, stored));
            }
            Err(error) => {
                self.failed = Some(format!("received messages of rank {}: {error}", rank.0));
            }
        }
    }

    /// Keeps the next part of a rank's determinants. Its host is told that when it is stored, if a
    /// mark comes with it.
    pub(super) fn add_determinants(
        &mut self,
        host: HostIndex,
        (rank, incarnation, mut part): (Rank, Incarnation, LogPart),
        mark: Option<StableMark>,
    ) {
        if !self.is_present(rank, incarnation) {
            return;
        }
        if let Some(mut begun) = self.incoming.remove(&rank) {
            part = match begun.extend(part) {
                Ok(()) => begun,
                Err(other) => other,
            };
        }
        let Some(mark) = mark else {
            self.incoming.insert(rank, part);
            return;
        };
        if let Some(file) = &mut self.file
            && let Err(error) = file.append(rank, &part)
        {
            self.no_file(&error);
        }
        let copy = self.determinants.entry(rank).or_default();
        if let Err(error) = copy.add(&part) {
            self.failed = Some(format!("determinants of rank {}: {error}", rank.0));
            return;
        }
        self.marks.add(rank, &part);
        self.marks.stored(mark);
        self.hosts.insert(rank, host);
        self.is_asked = true;
    }

    /// A process of a rank begins on this host, and needs what is kept of the rank. `moves`: the
    /// one before may still continue.
    pub(super) fn request(
        &mut self,
        host: HostIndex,
        (rank, incarnation): (Rank, Incarnation),
        moves: bool,
    ) {
        if !moves {
            self.is_present(rank, incarnation);
        }
        self.asked.push(RequestedLog {
            host,
            rank,
            incarnation,
            moves,
        });
    }

    /// Tells hosts what is stored, and gives them what they have asked for.
    ///
    /// # Errors
    /// Something is missing, so that a rank waits in vain.
    pub(super) fn answer(
        &mut self,
        mut tell: impl FnMut(HostIndex, &MpirunToLocal) -> Result<()>,
    ) -> Result<()> {
        if let Some(why) = self.failed.take() {
            return Err(Error::Log(why));
        }
        for (host, mark) in self.store() {
            tell(host, &MpirunToLocal::DeterminantsStored(mark))?;
        }
        for (host, mark) in std::mem::take(&mut self.received_marks) {
            tell(host, &MpirunToLocal::ReceivedStored(mark))?;
        }
        for asked in std::mem::take(&mut self.asked) {
            self.give(asked, &mut tell)?;
        }
        Ok(())
    }

    /// Gives a process what is kept of its rank.
    fn give(
        &self,
        asked: RequestedLog,
        mut tell: impl FnMut(HostIndex, &MpirunToLocal) -> Result<()>,
    ) -> Result<()> {
        let RequestedLog {
            host,
            rank,
            incarnation,
            moves,
        } = asked;
        // A rank that moves has stored all before, and adds more where it was if it stays there.
        let is_given = moves || self.latest.get(&rank) == Some(&incarnation);
        let received = self.received.get(&rank).filter(|_| is_given);
        let parts = received.map(|copy| copy.parts(MOST_RECEIVED_WORDS));
        for part in parts.into_iter().flatten() {
            let message = MpirunToLocal::Received {
                rank,
                incarnation,
                part,
            };
            tell(host, &message)?;
        }
        let all = self.determinants.get(&rank).map(CopiedLog::whole);
        let mut parts = all.unwrap_or_default().chunks(MOST_RECORDS).peekable();
        while let Some(part) = parts.next() {
            let message = MpirunToLocal::Determinants {
                rank,
                incarnation,
                part,
                last: parts.peek().is_none(),
            };
            tell(host, &message)?;
        }
        Ok(())
    }

    /// Stores determinants that were noted. Returns which are stable now, each with its host.
    fn store(&mut self) -> Vec<(HostIndex, StableMark)> {
        if !std::mem::take(&mut self.is_asked) {
            return Vec::new();
        }
        if let Some(file) = &mut self.file
            && let Err(error) = file.sync(&self.determinants)
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
        last.into_values().filter_map(of_host).collect()
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
